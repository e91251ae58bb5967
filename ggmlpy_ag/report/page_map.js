// The treemap: an area for each storage, within its layer (or what else the map is grouped by) and its operation.

const map = byId("map");
const MOST_CELLS = 400; // drawn one by one; smaller ones are put together
const MOST_GROUPS = 60;
const HEAD = 18; // pixels, as in the style sheet

// Rows by the value of a column: [{place, rows, bytes}], the largest first.
function groupedBy(column, rows) {
  const found = new Map();
  for (const row of rows) {
    const place = storages[column][row];
    if (!found.has(place)) found.set(place, { place, rows: [], bytes: 0 });
    const group = found.get(place);
    group.rows.push(row);
    group.bytes += storages.bytes[row];
  }
  return [...found.values()].sort((a, b) => b.bytes - a.bytes);
}

// Squarified treemaps (Bruls, Huizing, van Wijk 2000): rows of items along the shorter side of what is left of the
// rectangle, each as long as its worst item gets closer to a square. Items come with their bytes, the largest first.
function squarify(items, x, y, width, height, place) {
  let left = items.reduce((n, item) => n + item.bytes, 0);
  for (let start = 0; start < items.length && left > 0;) {
    const side = Math.min(width, height);
    const scale = (width * height) / left; // square pixels a byte
    let taken = 0;
    let end = start;
    for (let worst = Infinity; end < items.length; end++) {
      const depth = ((taken + items[end].bytes) * scale) / side;
      const [long, short] = [items[start], items[end]].map((item) => (item.bytes * scale) / depth);
      const ratio = Math.max(long / depth, depth / short);
      if (ratio > worst) break;
      worst = ratio;
      taken += items[end].bytes;
    }
    const depth = (taken * scale) / side;
    let along = 0;
    for (const item of items.slice(start, end)) {
      const length = (item.bytes * scale) / depth;
      if (width > height) place(item, x, y + along, depth, length);
      else place(item, x + along, y, length, depth);
      along += length;
    }
    if (width > height) [x, width] = [x + depth, width - depth];
    else [y, height] = [y + depth, height - depth];
    left -= taken;
    start = end;
  }
}

// A cell for each of these rows that is drawn by itself, and one for all others of each part.
function cellsOf(rows, single) {
  const cells = rows.filter((row) => single.has(row)).map((row) => ({ row, rows: [row], bytes: storages.bytes[row] }));
  const small = new Map();
  for (const row of rows) {
    if (single.has(row)) continue;
    const kind = `${storages.part[row]} ${storages.pending[row]}`;
    if (!small.has(kind)) small.set(kind, { row, rows: [], bytes: 0 });
    small.get(kind).rows.push(row);
    small.get(kind).bytes += storages.bytes[row];
  }
  return [...cells, ...small.values()].sort((a, b) => b.bytes - a.bytes);
}

function placed(made, x, y, width, height, [wide, high]) {
  made.style.left = `${(100 * x) / wide}%`;
  made.style.top = `${(100 * y) / high}%`;
  made.style.width = `${(100 * width) / wide}%`;
  made.style.height = `${(100 * height) / high}%`;
  return made;
}

// Draw these rows, the largest first. `choose(place)` is called with a group that was clicked.
function drawMap(rows, column, choose) {
  hideTip();
  const single = new Set(rows.slice(0, MOST_CELLS));
  let groups = groupedBy(column, rows);
  if (groups.length > MOST_GROUPS) {
    const others = groups.slice(MOST_GROUPS - 1).flatMap((group) => group.rows);
    groups = [...groups.slice(0, MOST_GROUPS - 1), { place: null, rows: others, bytes: sum(others) }];
    groups.sort((a, b) => b.bytes - a.bytes);
    others.forEach((row) => single.delete(row));
  }
  const size = [map.clientWidth, map.clientHeight];
  const made = [];
  squarify(groups, 0, 0, ...size, (group, x, y, width, height) => {
    const name = group.place === null ? "others" : strings[group.place];
    const head = height > 2 * HEAD && width > 50 ? HEAD : 0;
    const inner = [width - 2, height - 2];
    const box = placed(element("div", { class: "group" }), x, y, width, height, size);
    const title = `${name}: ${bytes(group.bytes)}`;
    if (head) box.append(element("h3", {}, element("bdi", {}, title.length * 7.5 < width ? title : name)));
    const within = groupedBy(
      column === "op" ? "layer" : "op",
      group.rows.filter((row) => single.has(row)),
    );
    const small = group.rows.filter((row) => !single.has(row));
    if (small.length) within.push({ rows: small, bytes: sum(small) });
    within.sort((a, b) => b.bytes - a.bytes);
    squarify(within, 0, head, inner[0], inner[1] - head, (part, px, py, pw, ph) => {
      squarify(cellsOf(part.rows, single), px, py, pw, ph, (cell, cx, cy, cw, ch) => {
        const button = placed(cellButton(cell, cw, ch), cx, cy, cw, ch, inner);
        if (group.place !== null) button.addEventListener("click", () => choose(group.place));
        box.append(button);
      });
    });
    made.push(box);
  });
  map.replaceChildren(...(made.length ? made : [element("p", {}, "There is nothing to show.")]));
  map.querySelector("button")?.setAttribute("tabindex", "0");
}

const described = new WeakMap(); // what the tip says of each button

function cellButton(cell, width, height) {
  const alone = cell.rows.length === 1;
  const { row } = cell;
  const size = bytes(cell.bytes) + unlessComputed(row);
  const pairs = alone
    ? [
        ["Operation", text("op", row)],
        ["Shape", `${text("shape", row)} ${text("dtype", row)}`],
        ["Bytes", size],
        ["Part", text("part", row)],
        ["Layer", text("layer", row)],
        ["Line", text("line", row)],
        ["Made by", text("made_by", row)],
        ["Device", text("device", row)],
        ...(text("holders", row) ? [["Held by", text("holders", row)]] : []),
      ]
    : [
        ["Storages", `${number(cell.rows.length)} smaller ones`],
        ["Bytes", size],
        ["Part", text("part", row)],
      ];
  const names = alone ? [text("op", row), text("shape", row)] : [`${number(cell.rows.length)} smaller`];
  const fits = width < 38 ? 0 : Math.floor((height - 2) / 15);
  const button = element(
    "button",
    {
      type: "button",
      tabindex: "-1",
      class: kindOf(row),
      "aria-label": pairs.map((pair) => pair.join(": ")).join(", "),
    },
    ...[...names, bytes(cell.bytes)].slice(0, fits).map((line) => element("span", {}, line)),
  );
  described.set(button, pairs);
  return button;
}

map.addEventListener("pointermove", (event) => {
  const pairs = described.get(event.target.closest("button"));
  if (pairs) showTip(pairs, event.clientX, event.clientY);
  else hideTip();
});
map.addEventListener("pointerleave", hideTip);
map.addEventListener("focusout", hideTip);
map.addEventListener("focusin", ({ target }) => {
  map.querySelector("[tabindex='0']")?.setAttribute("tabindex", "-1"); // one stop for Tab: where the arrows left off
  target.setAttribute("tabindex", "0");
  tipBelow(target);
});
addEventListener("scroll", () => {
  if (map.contains(document.activeElement) && !tip.hidden)
    tipBelow(document.activeElement); // focus itself may scroll
  else hideTip();
});

function tipBelow(target) {
  const { left, bottom } = target.getBoundingClientRect();
  showTip(described.get(target), left - 14, bottom - 12);
}

map.addEventListener("keydown", (event) => {
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -Infinity, End: Infinity }[event.key];
  if (!step) return;
  event.preventDefault();
  const buttons = [...map.querySelectorAll("button")];
  const i = buttons.indexOf(document.activeElement) + step;
  buttons[Math.max(0, Math.min(buttons.length - 1, i))].focus();
});
