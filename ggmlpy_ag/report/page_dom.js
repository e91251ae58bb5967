// What all parts of the page use. Text of the report becomes text nodes only, so no name in it can be markup.

const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);

function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

const element = (tag, attributes = {}, ...children) => filled(document.createElement(tag), attributes, children);
const drawn = (tag, attributes = {}, ...children) =>
  filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

const number = new Intl.NumberFormat("en").format;

// As the printed report has it: exact below 1 KiB, else two decimals; of two that are as close, the even one.
function bytes(n) {
  if (n < 1024) return `${n} B`;
  let unit = -1;
  do {
    n /= 1024;
    unit++;
  } while (n >= 1024 && unit < 3);
  const whole = Math.floor(n * 100);
  const over = n * 100 - whole;
  const up = over > 0.5 || (over === 0.5 && whole % 2);
  return `${((whole + (up ? 1 : 0)) / 100).toFixed(2)} ${["KiB", "MiB", "GiB", "TiB"][unit]}`;
}

const many = (n, one, more = `${one}s`) => `${number(n)} ${n === 1 ? one : more}`;
const percent = (part, whole) => `${(whole ? (100 * part) / whole : 0).toFixed(1)}%`;

// Names come once, in data.strings, and columns have their places there. `rank` orders the places by name.
const strings = data.strings;
const rank = new Uint32Array(strings.length);
const collator = new Intl.Collator("en", { numeric: true });
[...strings.keys()].sort((a, b) => collator.compare(strings[a], strings[b])).forEach((place, i) => (rank[place] = i));

// The storages, column by column; a row is a number. `largest` has all rows, by size.
const storages = data.storages;
const text = (column, row) => strings[storages[column][row]];
const largest = [...storages.bytes.keys()].sort((a, b) => storages.bytes[b] - storages.bytes[a]);
const kindOf = (row) => `${text("part", row)} ${storages.pending[row] ? "pending" : ""}`; // classes of the style sheet
const unlessComputed = (row) => (storages.pending[row] ? ", not yet computed" : "");
const sum = (rows) => rows.reduce((n, row) => n + storages.bytes[row], 0);

// ---------------------------------------------------------------- the tip

const tip = byId("tip");

// Show pairs of a name and a text beside a point of the window.
function showTip(pairs, x, y) {
  tip.replaceChildren(element("dl", {}, ...pairs.flatMap(([k, v]) => [element("dt", {}, k), element("dd", {}, v)])));
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - width - 8))}px`;
  tip.style.top = `${y + 18 + height < innerHeight ? y + 18 : Math.max(4, y - height - 10)}px`;
}

function hideTip() {
  tip.hidden = true;
}

addEventListener("keydown", (event) => event.key === "Escape" && hideTip());

// ---------------------------------------------------------------- resizing

function whenResized(act) {
  let [before, soon] = [innerWidth, 0];
  addEventListener("resize", () => {
    clearTimeout(soon);
    if (innerWidth !== before) soon = setTimeout(act, 120);
    before = innerWidth;
  });
}
