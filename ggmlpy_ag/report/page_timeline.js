// The timeline: bytes in use after each event, the highest point, and what was alive at a moment.

const moment = byId("moment");
const MOST_COLUMNS = 1000; // of the curve: each has the most and the least of the events that fall into it
const HIGH = 240; // pixels of the curve, then the phases
const LEFT = 76;
const TOLD = { alloc: "took", reuse: "took over", free: "gave back" };

function showTimelines(all) {
  if (!all.length) return;
  byId("timeline").hidden = false;
  const choice = byId("timeline-device");
  choice.append(...all.map(({ device }, i) => element("option", { value: i }, strings[device[0]])));
  choice.parentElement.hidden = all.length === 1;
  choice.addEventListener("change", () => show(all[choice.value]));
  moment.addEventListener("input", () => go(Number(moment.value)));
  byId("to-peak").addEventListener("click", () => go(Math.max(0, events.peak)));
  whenResized(() => {
    drawCurve();
    go(Number(moment.value));
  });

  let events; // of the chosen device, column by column; `until` has the event that ends what each took, or -1
  const name = (column, i) => strings[events[column][i]];
  const column = (key, label, more) => ({
    label,
    key: (i) => rank[events[key][i]],
    cell: (i) => name(key, i),
    ...more,
  });
  const table = new Table(
    byId("alive"),
    "Alive there",
    [
      column("op", "Operation"),
      {
        label: "Bytes",
        number: true,
        key: (i) => events.bytes[i],
        cell: (i) => bytes(events.bytes[i]),
        sums: bytes,
      },
      column("shape", "Shape"),
      column("part", "Part"),
      column("phase", "Phase"),
      column("layer", "Layer"),
      column("line", "Line", { class: "line" }),
      { label: "Event", number: true, key: (i) => i, cell: (i) => number(i + 1) },
    ],
    1,
    10,
  );

  function show(chosen) {
    events = chosen;
    const { peak } = events;
    const most = peak < 0 ? `${bytes(events.before)}, as it began` : `${bytes(events.used[peak])}, as ${told(peak)}`;
    const seconds = events.seconds.at(-1).toFixed(3);
    const counted = `${many(events.used.length, "event")} on ${name("device", 0)} in ${seconds} s.`;
    byId("timeline-summary").textContent = `${counted} The most in use was ${most}.`;
    moment.max = events.used.length - 1;
    drawCurve();
    go(Math.max(0, peak));
  }

  function told(i) {
    return `${name("op", i)} ${TOLD[name("kind", i)]} ${bytes(events.bytes[i])} (${name("phase", i)})`;
  }

  function go(i) {
    const [found, before] = aliveAt(i);
    const at = `Event ${number(i + 1)}, ${events.seconds[i].toFixed(4)} s: ${told(i)}.`;
    const scratch = bytes(events.used[i] - events.live[i]);
    const used = `${bytes(events.used[i])} in use, ${scratch} of it scratch, ${bytes(before)} from before.`;
    byId("moment-text").textContent = `${at} ${used}${i === events.peak ? " The highest point." : ""}`;
    moment.value = i;
    moment.setAttribute("aria-valuetext", byId("moment-text").textContent);
    const here = byId("curve").querySelector(".here");
    for (const x of ["x1", "x2"]) here.setAttribute(x, across(i));
    table.show(found);
  }

  // The events that took what was alive after this one, and the bytes from before the first.
  function aliveAt(i) {
    const found = [];
    let { before } = events;
    for (let j = 0; j <= i; j++) {
      const free = name("kind", j) === "free";
      if (free && events.of[j] < 0) before -= events.bytes[j];
      else if (!free && (events.until[j] < 0 || events.until[j] > i)) found.push(j);
    }
    return [found, before];
  }

  const width = () => Math.max(50, byId("curve").clientWidth - LEFT - 8);
  const across = (i) => LEFT + (width() * (i + 0.5)) / events.used.length;

  function drawCurve() {
    const { used, live, peak } = events;
    const most = used.reduce((a, b) => Math.max(a, b), 1);
    const down = (n) => HIGH - (HIGH - 18) * (n / most);
    const grid = [0, 0.25, 0.5, 0.75, 1].flatMap((share) => [
      drawn("line", {
        class: "grid",
        x1: LEFT,
        x2: LEFT + width(),
        y1: down(share * most),
        y2: down(share * most),
      }),
      drawn("text", { x: LEFT - 8, y: down(share * most) + 4, "text-anchor": "end" }, bytes(Math.round(share * most))),
    ]);
    const x = across(Math.max(0, peak));
    const mark = [
      drawn("line", { class: "peak", x1: x, x2: x, y1: down(most), y2: HIGH }),
      drawn("circle", { class: "peak", cx: x, cy: down(most), r: 5 }),
      drawn(
        "text",
        { x: x + (x > width() / 2 ? -9 : 9), y: 11, "text-anchor": x > width() / 2 ? "end" : "start" },
        "highest point",
      ),
    ];
    const svg = drawn(
      "svg",
      { role: "img", "aria-label": byId("timeline-summary").textContent },
      ...grid,
      drawn("path", { class: "scratch", d: area(used, down) }),
      drawn("path", { class: "tensor", d: area(live, down) }),
      ...phases(),
      ...(peak < 0 ? [] : mark),
      drawn("line", { class: "here", x1: x, x2: x, y1: 0, y2: HIGH + 8 }),
    );
    svg.addEventListener("pointermove", ({ clientX, clientY }) => {
      const share = (clientX - svg.getBoundingClientRect().left - LEFT) / width();
      const i = Math.max(0, Math.min(used.length - 1, Math.floor(share * used.length)));
      go(i);
      const largestFirst = [...table.rows].sort((a, b) => events.bytes[b] - events.bytes[a]);
      const first = largestFirst
        .slice(0, 6)
        .map((j) => [bytes(events.bytes[j]), `${name("op", j)} ${name("shape", j)}, ${name("layer", j)}`]);
      showTip([["In use", bytes(used[i])], ["Event", told(i)], ...first], clientX, clientY);
    });
    svg.addEventListener("pointerleave", hideTip);
    byId("curve").replaceChildren(svg);
  }

  // The area below a figure, which may go up and down within a column.
  function area(values, down) {
    const columns = Math.min(values.length, MOST_COLUMNS);
    const place = (column) => (LEFT + (width() * column) / columns).toFixed(1);
    let path = `M${LEFT},${HIGH}`;
    for (let column = 0; column < columns; column++) {
      const part = values.slice(
        Math.floor((column * values.length) / columns),
        Math.floor(((column + 1) * values.length) / columns),
      );
      const [high, low] = [Math.max(...part), Math.min(...part)].map((n) => down(n).toFixed(1));
      path += `L${place(column)},${high}L${place(column + 1)},${high}${low === high ? "" : `L${place(column + 1)},${low}`}`;
    }
    return `${path}L${place(columns)},${HIGH}Z`;
  }

  // A strip below the curve: which phase of training took or gave back.
  function phases() {
    const made = [];
    const n = events.phase.length;
    const least = n / MOST_COLUMNS; // events that are wide enough to be seen
    for (let from = 0, to = 1; to <= n; to++) {
      if (to < n && events.phase[to] === events.phase[from]) continue;
      if (to < n && to - from < least) continue;
      const [x, wide] = [across(from - 0.5), across(to - 0.5) - across(from - 0.5)];
      made.push(drawn("rect", { class: name("phase", from), x, y: HIGH + 4, width: wide, height: 12 }));
      if (wide > 60)
        made.push(
          drawn(
            "text",
            { class: "phase", x: x + wide / 2, y: HIGH + 30, "text-anchor": "middle" },
            name("phase", from),
          ),
        );
      from = to;
    }
    return made;
  }

  show(all[0]);
}

showTimelines(data.timeline);
