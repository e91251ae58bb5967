"""The events of a memory timeline: what a recorder noted, in order, with the bytes in use after each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ..backend.array import Shape, dtype_name
from .recorder import Entry, Frame
from .storages import NO_LAYER, THE_MODEL, UNTRACED

BEFORE = "(before the timeline)"  # memory in use when it began


class Event(NamedTuple):
    """One change of the memory in use on a device.

    Attributes:
        number: its place in `Timeline.events`.
        seconds: since the timeline began. Memory is handed out when a graph is about to run, which is later than the
            operation was called, and scratch comes back in the plan of the same graph.
        kind: "alloc": memory was handed out. "free": it came back. "reuse": an operation writes its result over an
            operand that nothing reads afterwards, whose memory becomes its own; the bytes in use stay the same.
        device: name of the device.
        bytes: what was handed out, came back or changed hands: rounded up to the pool's alignment.
        live, scratch: bytes in use on the device after the event, by tensors and by values inside a running graph
            that nobody keeps.
        part: "tensor" or "scratch".
        op: the operation that wanted the memory; in the backward pass the one whose gradient is computed.
        layer: path of its `nn.Module`, as in `TapeReport.by_layer`.
        line: "file:line in function" where your code called it. In the backward pass the line of the forward operation
            where the tape traces lines, else that of `backward`.
        phase: "forward" (a tape records, or a module runs), "backward", "update" (an optimizer steps) or "other".
        shape, dtype: of the value.
        stack: frames of your code, the outermost first.
        of: number of the event that took the memory which "free" gives back or "reuse" takes over; None where that was
            before the timeline.

    A "free" has op, layer, line, phase, shape, dtype and stack of the event that took the memory.
    """

    number: int
    seconds: float
    kind: str
    device: str
    bytes: int
    live: int
    scratch: int
    part: str
    op: str
    layer: str
    line: str
    phase: str
    shape: Shape
    dtype: str
    stack: tuple[Frame, ...]
    of: int | None

    @property
    def in_use(self) -> int:
        """Bytes in use on the device after the event, tensors and scratch together."""
        return self.live + self.scratch


def events(entries: Iterable[Entry], before: Mapping[str, int], began: float) -> list[Event]:
    """The events of these entries, when so many bytes were in use `before` the first on each device."""
    in_use = Counter({(device, "tensor"): n for device, n in before.items()})
    held: dict[tuple[Any, ...], Event] = {}
    found: list[Event] = []
    seconds = 0.0
    for entry in entries:
        device, size = entry.device, entry.size
        key = (device, entry.piece)
        old = held.pop(key, None)
        if entry.kind != "alloc":
            in_use[device, old.part if old else "tensor"] -= size
        if entry.kind != "free":
            in_use[device, "scratch" if entry.scratch else "tensor"] += size
        seconds = max(seconds, entry.time - began)  # a block waits between its end and its return to the pool's books
        live, scratch = in_use[device, "tensor"], in_use[device, "scratch"]
        about = _about(old) if entry.kind == "free" else _made(entry)
        number = len(found)
        event = Event._make((number, seconds, entry.kind, device, size, live, scratch, *about, old and old.number))
        found.append(event)
        if entry.kind != "free":
            held[key] = event
    return found


_FIRST, _LAST = Event._fields.index("part"), Event._fields.index("stack")


def _about(event: Event | None) -> tuple[Any, ...]:
    """Part to stack of the event that took the memory."""
    if event is None:
        return ("tensor", BEFORE, BEFORE, BEFORE, BEFORE, (), "", ())
    return event[_FIRST : _LAST + 1]


def _made(entry: Entry) -> tuple[Any, ...]:
    """Part to stack of memory that was asked for."""
    part = "scratch" if entry.scratch else "tensor"
    made = entry.made
    if made is None:
        return (part, UNTRACED, UNTRACED, UNTRACED, "other", (), "", ())
    dtype = dtype_name(made.dtype)
    if (origin := made.origin) is None:  # recorded before the timeline began
        return (part, made.label, UNTRACED, UNTRACED, "other", made.shape, dtype, ())
    layer = NO_LAYER if origin.layer is None else origin.layer or THE_MODEL
    line = origin.line or UNTRACED
    return (part, origin.op or made.label, layer, line, origin.phase, made.shape, dtype, origin.stack)
