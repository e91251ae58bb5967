"""The curve of a memory timeline as a picture, by matplotlib."""

from __future__ import annotations

from collections import Counter
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np

from ..backend.memory import format_bytes
from .events import BEFORE, Event

if TYPE_CHECKING:
    from .timeline import Timeline

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442")  # Okabe and Ito: for all eyes
GREY, LIGHT = "#8f8f8f", "#d0d0d0"
PHASES = ("forward", "backward", "update", "other")


def draw(timeline: Timeline, path: str | PathLike[str], device: str, by: str) -> None:
    """Write a picture of the bytes in use on a device, coloured by an attribute of the events."""
    if by not in ("phase", "part", "layer", "op"):
        raise ValueError(f'to_png: by must be "phase", "part", "layer" or "op", not {by!r}')
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("to_png needs matplotlib: pip install 'ggmlpy_ag[plot]'") from None
    peak = timeline.peak(device)
    taken = [event for event in timeline.events if event.device == device]
    areas = _areas(taken, by, timeline.before[device])
    at = 0 if peak.event is None else 1 + next(i for i, event in enumerate(taken) if event.number == peak.event)
    unit, name = _unit(peak.bytes)

    figure = Figure(figsize=(10, 5), layout="constrained")
    axes = figure.subplots()
    colours = [LIGHT if key == BEFORE else GREY if key == OTHERS else None for key in areas]
    named = iter(COLOURS)
    axes.stackplot(
        range(len(taken) + 1),
        [area / unit for area in areas.values()],
        labels=list(areas),
        colors=[colour or next(named) for colour in colours],
        step="post",
        linewidth=0,
    )
    axes.axhline(peak.bytes / unit, color="black", linewidth=0.8, linestyle="--")
    axes.plot([at], [peak.bytes / unit], "v", color="black", markersize=7, clip_on=False)
    first = max(peak.rows, key=lambda row: row.bytes, default=None)
    largest = f"; largest: {first.op} {list(first.shape)}, {format_bytes(first.bytes)}" if first else ""
    marked = f"peak {format_bytes(peak.bytes)} at {peak.seconds:.3f} s{largest}"
    axes.set_title(f"Memory in use on {device}\n{marked}", loc="left", fontsize=11)
    axes.set(xlabel="event", ylabel=name, xlim=(0, max(len(taken), 1)), ylim=(0, 1.08 * max(peak.bytes, 1) / unit))
    axes.spines[["top", "right"]].set_visible(False)
    handles, labels = axes.get_legend_handles_labels()
    axes.legend(handles[::-1], labels[::-1], loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, title=by)
    figure.savefig(path, format="png", dpi=120)


OTHERS = "others"


def _areas(taken: list[Event], by: str, before: int) -> dict[str, np.ndarray]:
    """Bytes in use by name, as the timeline began and after each event; those of the fewest bytes together."""
    changes: dict[str, np.ndarray] = {BEFORE: np.zeros(len(taken) + 1)}
    changes[BEFORE][0] = before
    numbers = {event.number: event for event in taken}

    def change(name: str, i: int, size: int) -> None:
        changes.setdefault(name, np.zeros(len(taken) + 1))[i] += size

    for i, event in enumerate(taken, 1):
        if event.kind != "alloc":
            owner = event if event.of is None else numbers[event.of]
            change(getattr(owner, by), i, -event.bytes)
        if event.kind != "free":
            change(getattr(event, by), i, event.bytes)
    areas = {name: np.cumsum(change) for name, change in changes.items()}
    first = areas.pop(BEFORE)
    most = Counter({name: area.max() for name, area in areas.items()}).most_common()
    kept = [name for name, _ in most[: len(COLOURS) if len(most) <= len(COLOURS) else len(COLOURS) - 1]]
    others = [area for name, area in areas.items() if name not in kept]
    kept = [name for name in PHASES if name in kept] if by == "phase" else kept
    found = ({BEFORE: first} if before or not kept else {}) | {name: areas[name] for name in kept}
    return found | ({OTHERS: np.sum(others, axis=0)} if others else {})


def _unit(n: int) -> tuple[float, str]:
    """A unit for a scale up to n bytes, and its name."""
    for size, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if n >= size:
            return float(size), name
    return 1.0, "bytes"
