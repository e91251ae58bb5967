"""Flame graphs of a memory timeline, in the file format of https://www.speedscope.app.

The format: https://github.com/jlfwong/speedscope/wiki/Importing-from-custom-sources ("speedscope's file format").
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .events import BEFORE, Event
from .storages import NO_LAYER, UNTRACED

if TYPE_CHECKING:
    from .timeline import Timeline

SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def speedscope(timeline: Timeline) -> dict[str, Any]:
    """A file of two profiles a device: all bytes handed out, and those alive at the highest point, by call stack."""
    frames: dict[tuple[Any, ...], int] = {}
    profiles = []
    for device in timeline.devices:
        taken = [event for event in timeline.events if event.device == device and event.kind == "alloc"]
        peak = timeline.peak(device)
        profiles.append(_profile(f"allocated on {device}", taken, 0, frames))
        profiles.append(_profile(f"alive at the peak on {device}", peak.rows, peak.before, frames))
    names = ("name", "file", "line")
    return {
        "$schema": SCHEMA,
        "exporter": "ggmlpy_ag",
        "name": f"memory timeline of {timeline.seconds:.3f} s",
        "activeProfileIndex": 0,
        "shared": {"frames": [dict(zip(names, frame, strict=False)) for frame in frames]},
        "profiles": profiles,
    }


def _profile(name: str, taken: Iterable[Event], before: int, frames: dict[tuple[Any, ...], int]) -> dict[str, Any]:
    """The events as samples, stacks from the outermost frame in, weighed by bytes."""
    weights: dict[tuple[int, ...], int] = {}
    if before:
        weights[(frames.setdefault((BEFORE,), len(frames)),)] = before
    for event in taken:
        stack = tuple([frames.setdefault(frame, len(frames)) for frame in _stack(event)])
        weights[stack] = weights.get(stack, 0) + event.bytes
    return {
        "type": "sampled",
        "name": name,
        "unit": "bytes",
        "startValue": 0,
        "endValue": sum(weights.values()),
        "samples": [list(stack) for stack in weights],
        "weights": list(weights.values()),
    }


def _stack(event: Event) -> list[tuple[Any, ...]]:
    """The frames of an event: your code, the layer, and the operation with its phase."""
    found: list[tuple[Any, ...]] = [(frame.function, frame.file, frame.line) for frame in event.stack]
    if event.layer not in (NO_LAYER, UNTRACED):
        found.append((event.layer,))
    found.append((f"{event.op} ({event.phase})",))
    return found
