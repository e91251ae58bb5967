// A table that sorts by its heads, and shows its first rows with the rest summed.

const MOST_ROWS = 500;
const classOf = (column) => column.class ?? (column.number ? "number" : null);

class Table {
  // A column has a `label`, a `key(row)` that is a number and orders the rows, and a `cell(row)` that is a text or an
  // element. `number` sorts the most first, and aligns it right unless it has a `class`. `sums` shows what the keys of
  // the rows that are left out add up to.
  constructor(host, caption, columns, sorted, first) {
    this.columns = columns;
    this.sorted = sorted;
    this.descending = true;
    this.first = first;
    this.limit = first;
    this.heads = columns.map((column, i) =>
      element(
        "th",
        { scope: "col", class: classOf(column) },
        element("button", { type: "button", click: () => this.sort(i) }, column.label),
      ),
    );
    this.body = element("tbody");
    this.foot = element("tfoot");
    this.more = element("button", { type: "button", class: "more", click: () => this.toggle() });
    host.append(
      element(
        "div",
        { class: "table" },
        element(
          "table",
          {},
          element("caption", {}, caption),
          element("thead", {}, element("tr", {}, ...this.heads)),
          this.body,
          this.foot,
        ),
        this.more,
      ),
    );
  }

  sort(i) {
    this.descending = i === this.sorted ? !this.descending : Boolean(this.columns[i].number);
    this.sorted = i;
    this.show(this.rows);
  }

  toggle() {
    this.limit = this.limit === this.first ? MOST_ROWS : this.first;
    this.draw();
  }

  show(rows) {
    const { key } = this.columns[this.sorted];
    const sign = this.descending ? -1 : 1;
    this.rows = [...rows].sort((a, b) => sign * (key(a) - key(b)));
    this.heads.forEach((head, i) => {
      if (i !== this.sorted) head.removeAttribute("aria-sort");
      else head.setAttribute("aria-sort", this.descending ? "descending" : "ascending");
    });
    this.draw();
  }

  draw() {
    this.body.replaceChildren(...this.rows.slice(0, this.limit).map((row) => this.line(row)));
    const rest = this.rows.slice(this.limit);
    this.foot.replaceChildren(...(rest.length ? [this.summed(rest)] : []));
    this.more.hidden = this.rows.length <= this.first;
    this.more.textContent =
      this.limit === this.first ? `Show ${number(Math.min(this.rows.length, MOST_ROWS))} rows` : "Show fewer rows";
  }

  line(row) {
    const cells = this.columns.map((column, i) =>
      element(i ? "td" : "th", { scope: i ? null : "row", class: classOf(column) }, column.cell(row)),
    );
    return element("tr", {}, ...cells);
  }

  summed(rest) {
    const cells = this.columns.map((column, i) => {
      const { key, sums } = column;
      if (!i) return element("th", { scope: "row" }, `and ${number(rest.length)} more`);
      return element("td", { class: classOf(column) }, sums ? sums(rest.reduce((n, row) => n + key(row), 0)) : "");
    });
    return element("tr", {}, ...cells);
  }
}
