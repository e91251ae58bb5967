"""How memory got to where it is: every piece handed out and taken back in a `with` block, and the highest point."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from os import PathLike
from types import TracebackType
from typing import Any, NamedTuple

from ..backend import devices
from .events import Event, events
from .moment import Moment
from .recorder import Frame, Recording

FORMAT, VERSION = "ggmlpy_ag memory timeline", 1
COLUMNS = (
    "seconds", "kind", "device", "bytes", "live", "scratch", "part", "op", "layer", "line", "phase", "shape", "dtype",
    "stack", "of",
)  # fmt: skip


class Recorded(NamedTuple):
    """What a timeline holds once its block has ended."""

    events: tuple[Event, ...]
    seconds: float
    before: Mapping[str, int]


class Timeline:
    """What `memory_timeline` recorded, to be read after its block. It is plain data, and keeps no tensor alive."""

    def __init__(self) -> None:
        self._recorded: Recorded | None = None

    def _read(self) -> Recorded:
        if self._recorded is None:
            raise RuntimeError("the timeline is still recording: read it after its `with` block")
        return self._recorded

    @property
    def events(self) -> tuple[Event, ...]:
        """One for each change of the memory in use, in their order; see `Event`."""
        return self._read().events

    @property
    def seconds(self) -> float:
        """How long the block ran."""
        return self._read().seconds

    @property
    def before(self) -> Mapping[str, int]:
        """Bytes in use on each device as the block began."""
        return self._read().before

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices that it knows, those without an event among them."""
        return tuple(self.before)

    def peak(self, device: str | None = None) -> Moment:
        """The highest point, and what was alive there: `bytes` is `memory_stats().peak` of the same block.

        Args:
            device: which device; by default, of those with events, the one with the highest point.

        Raises:
            ValueError: the timeline does not know the device.
        """
        if device is None:
            return max([self.peak(name) for name in self._busy()], key=lambda moment: moment.bytes)
        name = self._known(device)
        highest, most = None, self.before[name]
        for event in self.events:
            if event.device == name and event.in_use > most:
                highest, most = event, event.in_use
        return self._moment(name, highest)

    def live_at(self, event: Event | int) -> Moment:
        """What was alive on the event's device just after it.

        Args:
            event: one of `events`, or its number.

        Raises:
            TypeError: neither. IndexError: no event has that number.
        """
        if isinstance(event, Event):
            event = event.number
        if isinstance(event, bool) or not isinstance(event, int):
            raise TypeError(f"live_at: event must be an Event or its number, not {event!r}")
        if not 0 <= event < len(self.events):
            raise IndexError(f"live_at: event {event} is outside [0, {len(self.events)})")
        found = self.events[event]
        return self._moment(found.device, found)

    def _moment(self, device: str, last: Event | None) -> Moment:
        before = self.before[device]
        alive: dict[int, Event] = {}
        for event in self.events[: last.number + 1] if last is not None else ():
            if event.device != device:
                continue
            if event.of is not None:
                del alive[event.of]
            elif event.kind == "free":
                before -= event.bytes
            if event.kind != "free":
                alive[event.number] = event
        number, seconds = (last.number, last.seconds) if last is not None else (None, 0.0)
        return Moment(device, number, seconds, before, tuple(alive.values()))

    def _busy(self) -> list[str]:
        """The devices with events; all of them if there are none."""
        found = {event.device for event in self.events}
        return [name for name in self.devices if name in found or not found]

    def _known(self, device: str) -> str:
        name = devices.resolve(device)
        if name not in self.before:
            raise ValueError(f"the timeline has no device {name!r}: it has {', '.join(self.devices)}")
        return name

    def series(self, device: str | None = None, points: int = 1000) -> list[Event]:
        """Events to draw the curve of a device by, `points` at most: of each stretch of events the highest.

        Args:
            device: which device; by default the one with the highest point.
            points: how many, at least 1.

        Raises:
            ValueError: the timeline does not know the device; points < 1. TypeError: points is no integer.
        """
        if isinstance(points, bool) or not isinstance(points, int):
            raise TypeError(f"series: points must be an integer, not {points!r}")
        if points < 1:
            raise ValueError(f"series: points must be at least 1, not {points}")
        name = self.peak().device if device is None else self._known(device)
        all_of_it = [event for event in self.events if event.device == name]
        n = len(all_of_it)
        if n <= points:
            return all_of_it
        stretches = (all_of_it[i * n // points : (i + 1) * n // points] for i in range(points))
        return [max(stretch, key=lambda event: event.in_use) for stretch in stretches]

    # ------------------------------------------------------------ other forms

    def to_dict(self) -> dict[str, Any]:
        """All of it as numbers, text, lists and dicts.

            {"format": "ggmlpy_ag memory timeline", "version": 1,
             "seconds": 0.25,
             "devices": [{"name": "cpu", "before": 4096,
                          "peak": {"event": 7, "bytes": .., "tensors": .., "scratch": .., "before": ..,
                                   "rows": [0, 3, ..],  # numbers of the events that took what was alive
                                   "by_op": [{"name": "matmul", "bytes": .., "blocks": ..}, ..], ..},
                          "series": [0, 3, ..]}, ..],  # numbers of events to draw the curve by
             "frames": [["train.py", 12, "step"], ..],  # file, line, function
             "stacks": [[0, 5], ..],  # numbers of frames, the outermost first
             "columns": ["seconds", "kind", ..],  # the fields of an Event
             "events": [[0.001, "alloc", ..], ..]}  # a row each, by number; "stack" is a number of `stacks`

        A later version may add keys and columns; it changes the number when it changes the meaning of those.
        """
        frames: dict[Frame, int] = {}
        stacks: dict[tuple[Frame, ...], int] = {}
        rows = []
        for event in self.events:
            for frame in event.stack if event.stack not in stacks else ():
                frames.setdefault(frame, len(frames))
            row = event._replace(stack=stacks.setdefault(event.stack, len(stacks)))  # type: ignore[arg-type]
            rows.append([list(row.shape) if name == "shape" else getattr(row, name) for name in COLUMNS])
        return {
            "format": FORMAT,
            "version": VERSION,
            "seconds": self.seconds,
            "devices": [
                {
                    "name": name,
                    "before": before,
                    "peak": self.peak(name).to_dict(),
                    "series": [event.number for event in self.series(name)],
                }
                for name, before in self.before.items()
            ],
            "frames": [list(frame) for frame in frames],
            "stacks": [[frames[frame] for frame in stack] for stack in stacks],
            "columns": list(COLUMNS),
            "events": rows,
        }

    def to_json(self) -> str:
        """`to_dict()` as JSON."""
        return json.dumps(self.to_dict(), separators=(",", ":"))

    def to_speedscope(self, path: str | PathLike[str]) -> None:
        """Write flame graphs of bytes by call stack, for https://www.speedscope.app and its command-line program.

        For each device two: all that was handed out, and what was alive at the highest point.

        Args:
            path: of the file, such as "step.speedscope.json".
        """
        from .flame import speedscope

        with open(path, "w", encoding="utf-8") as file:
            json.dump(speedscope(self), file, separators=(",", ":"))

    def to_png(self, path: str | PathLike[str], device: str | None = None, by: str = "phase") -> None:
        """Write a picture of the bytes in use, event by event, with the highest point marked. Needs matplotlib.

        Args:
            path: of the file.
            device: which device; by default the one with the highest point.
            by: what the colours tell apart: "phase", "part", "layer" or "op".

        Raises:
            ImportError: matplotlib is missing; the message says how to get it.
            ValueError: the timeline does not know the device; another `by`.
        """
        from .curve import draw

        draw(self, path, self.peak().device if device is None else self._known(device), by)

    def text(self, top: int = 5) -> str:
        """For people: what was recorded, and the highest point of each device."""
        kinds = Counter(event.kind for event in self.events)
        counted = ", ".join(f"{kinds[kind]} {kind}" for kind in ("alloc", "reuse", "free"))
        head = f"memory timeline: {self.seconds:.3f} s, {len(self.events)} events ({counted})"
        return "\n".join([head, *("peak on " + self.peak(name).text(top) for name in self._busy())])

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        if self._recorded is None:
            return "<memory timeline, still recording>"
        return f"<memory timeline of {len(self.events)} events on {', '.join(self.devices)}>"


class memory_timeline:
    """Record how memory gets to where it is: every piece handed out and taken back in the `with` block.

        with ag.memory_timeline() as timeline:
            train_step(batch)
        print(timeline)  # the highest point, and what was alive there

    Values are recorded first and computed later: an event tells when memory was taken, and op, layer, line and phase
    are those of the call that recorded the value. What all threads do is recorded. Blocks may nest, each with a
    timeline of its own, and what was in use as one began is in its tables as "(before the timeline)".

    Recording takes time: for each operation a walk up the call stack. Outside of a block there is nothing to pay but a
    comparison with None where an operation is recorded and where memory changes hands.

    Args:
        device: the only device to record; by default all of them.

    Raises:
        ValueError: there is no such device. TypeError: its name is no text.
    """

    def __init__(self, device: str | None = None) -> None:
        self.device = None if device is None else devices.resolve(device)

    def __enter__(self) -> Timeline:
        devices.get(self.device)  # which has to be open to have memory
        self._timeline = Timeline()
        self._recording = Recording()
        return self._timeline

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        seconds = self._recording.stop()
        before = self._recording.before
        if self.device is not None:
            before = {self.device: before[self.device]}
        entries = [entry for entry in self._recording.entries if entry.device in before]
        found = events(entries, before, self._recording.began)
        self._timeline._recorded = Recorded(tuple(found), seconds, before)
        del self._timeline, self._recording
