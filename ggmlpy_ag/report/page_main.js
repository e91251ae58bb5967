// The page: totals, the filter with the two views of what it finds, and the sums.

const { totals } = data;
const PARTS = ["operands", "activations", "fields", "gradients"];
const KINDS = { layer: "layer", op: "operation", line: "line", dtype: "type", device: "device" };
const swatch = (name) => element("i", { class: name, "aria-hidden": "true" });

// ---------------------------------------------------------------- totals

const lifetime = data.rule === "lifetime";
byId("summary").textContent =
  `${many(data.nodes, "operation")} keep ${many(largest.length, "storage")}; ` +
  (lifetime
    ? `clearing the tape frees ${bytes(totals.activations + totals.fields)}.`
    : "by the role each has for an operation.");
byId("folder").textContent = data.folder && `Lines are of files in ${data.folder}.`;
byId("totals").append(
  ...[
    ["On the tape", "", totals.total, ""],
    ["Activations", "activations", totals.activations, lifetime ? "freed with the tape" : "saved by rules"],
    ["Operands", "operands", totals.operands, lifetime ? "outlive the tape" : "of operations"],
    ["Fields", "fields", totals.fields, lifetime ? "freed with the tape" : "named extras"],
    ["Gradients", "gradients", totals.gradients, "beside the tape"],
    ["Not yet computed", "pending", totals.pending, many(totals.values_pending, "value")],
    ["On the host", "", totals.host, ""],
    ["On devices", "", totals.device, ""],
  ].map(([name, part, n, note]) =>
    element(
      "div",
      {},
      element("dt", {}, ...(part ? [swatch(part)] : []), name),
      element("dd", {}, bytes(n), element("small", {}, note || percent(n, totals.total))),
    ),
  ),
);
for (const part of ["activations", "fields", "operands"]) byId("bar").append(share(part, totals[part], totals.total));

function share(part, n, whole) {
  const made = swatch(part);
  made.style.width = percent(n, whole);
  return made;
}

// ---------------------------------------------------------------- storages: the filter, the map and the table

const filter = { words: "", parts: new Set(PARTS), pending: true, column: null, place: null, before: "layer" };
const words = byId("words");
const group = byId("group");
group.append(...Object.keys(KINDS).map((key) => element("option", { value: key }, KINDS[key])));

for (const part of [...PARTS.filter((part) => storages.part.some((place) => strings[place] === part)), "pending"]) {
  if (part === "pending" && !totals.values_pending) continue;
  const box = element("input", { type: "checkbox", checked: "", change: () => toggle(part, box.checked) });
  byId("parts").append(element("label", {}, box, " ", swatch(part), part === "pending" ? "not yet computed" : part));
}

function toggle(part, on) {
  if (part === "pending") filter.pending = on;
  else if (on) filter.parts.add(part);
  else filter.parts.delete(part);
  refresh();
}

const TEXTS = ["op", "made_by", "layer", "line", "shape", "dtype", "device", "holders"];

function matching() {
  const wanted = filter.words.toLowerCase();
  const has = wanted && strings.map((string) => string.toLowerCase().includes(wanted));
  return largest.filter(
    (row) =>
      filter.parts.has(text("part", row)) &&
      (filter.pending || !storages.pending[row]) &&
      (filter.column === null || storages[filter.column][row] === filter.place) &&
      (!wanted || TEXTS.some((column) => has[storages[column][row]])),
  );
}

const named = (column, label, more = {}) => ({
  label,
  key: (row) => rank[storages[column][row]],
  cell: (row) => text(column, row),
  ...more,
});
const table = new Table(
  byId("storages"),
  "The storages found",
  [
    named("op", "Operation"),
    {
      label: "Bytes",
      number: true,
      key: (row) => storages.bytes[row],
      cell: (row) => bytes(storages.bytes[row]),
      sums: bytes,
    },
    named("shape", "Shape"),
    named("dtype", "Type"),
    {
      ...named("part", "Part", { class: "part" }),
      cell: (row) => element("span", {}, swatch(kindOf(row)), text("part", row), unlessComputed(row)),
    },
    named("layer", "Layer"),
    named("line", "Line", { class: "line" }),
    named("made_by", "Made by"),
    named("device", "Device"),
    ...(storages.holders.some((place) => strings[place]) ? [named("holders", "Held by", { class: "line" })] : []),
    { label: "Node", number: true, key: (row) => storages.node[row], cell: (row) => number(storages.node[row]) },
  ],
  1,
  25,
);

function refresh() {
  const rows = matching();
  byId("found").textContent = `${number(rows.length)} of ${many(largest.length, "storage")}, ${bytes(sum(rows))}`;
  byId("focus").hidden = filter.column === null;
  if (filter.column !== null) byId("focus").textContent = `${KINDS[filter.column]}: ${strings[filter.place]} \u2715`;
  byId("focus").setAttribute("aria-label", `Show more than this: ${byId("focus").textContent.slice(0, -2)}`);
  drawMap(rows, group.value, (place) => focusOn(group.value, place));
  table.show(rows);
}

// Show the storages of one name alone: those of a layer, say.
function focusOn(column, place) {
  const keyboard = document.activeElement !== document.body;
  if (filter.column === null) filter.before = group.value;
  Object.assign(filter, { column, place });
  if (column === group.value) group.value = column === "op" ? "layer" : "op";
  refresh();
  if (keyboard) map.querySelector("button")?.focus({ preventScroll: true });
  map.scrollIntoView({ block: "nearest" });
}

let soon = 0;
words.addEventListener("input", () => {
  clearTimeout(soon);
  filter.words = words.value.trim();
  soon = setTimeout(refresh, 120); // not for each key that is pressed
});
group.addEventListener("change", refresh);
byId("filter").addEventListener("submit", (event) => event.preventDefault());
byId("focus").addEventListener("click", () => {
  group.value = filter.before;
  filter.column = filter.place = null;
  refresh();
  words.focus();
});
whenResized(refresh);

// ---------------------------------------------------------------- sums

function sumsTable(key) {
  const rows = data.sums[key].map(([place, nodes, operands, activations, fields, pending]) => ({
    place,
    nodes,
    operands,
    activations,
    fields,
    pending,
    total: operands + activations + fields,
  }));
  const most = rows.reduce((n, row) => Math.max(n, row.total), 0);
  const figure = (label, name, shown = bytes) => ({
    label,
    number: true,
    key: (row) => row[name],
    cell: (row) => shown(row[name]),
    sums: shown,
  });
  const columns = [
    {
      label: KINDS[key][0].toUpperCase() + KINDS[key].slice(1),
      key: (row) => rank[row.place],
      cell: (row) => element("button", { type: "button", click: () => focusOn(key, row.place) }, strings[row.place]),
    },
    figure("Operations", "nodes", number),
    figure("Bytes", "total"),
    {
      label: "Share",
      class: "bars",
      number: true,
      key: (row) => row.total,
      cell: (row) => {
        const bar = ["activations", "fields", "operands"].map((part) => share(part, row[part], most));
        return element("div", {}, element("small", {}, percent(row.total, totals.total)), ...bar);
      },
    },
    figure("Activations", "activations"),
    figure("Fields", "fields"),
    figure("Operands", "operands"),
    figure("Not yet computed", "pending"),
  ];
  const shown = columns.filter(
    ({ label, sums, key: value }) => !sums || label === "Bytes" || rows.some((row) => value(row)),
  );
  new Table(
    byId("sums"),
    `By ${KINDS[key]}`,
    shown,
    shown.findIndex(({ label }) => label === "Bytes"),
    12,
  ).show(rows);
}

refresh();
Object.keys(KINDS).forEach(sumsTable);
