"""Recorder: notes every piece of memory that a pool hands out or takes back, and what the program was doing then."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from functools import cache
from inspect import unwrap
from time import perf_counter
from typing import Any, NamedTuple

from .. import ops
from ..backend import devices
from ..backend.memory import Pool, Slab
from ..backend.watch import Made
from ..tape import in_library, recording_tape, running_layer, running_phase, running_rule
from ..tensor import param, tensor

MAX_FRAMES = 64  # of a call stack: a recursion has no end


class Frame(NamedTuple):
    """A place in a program."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


class Origin(NamedTuple):
    """What the program was doing when it asked for a value. `stack` are the frames outside this library, the outermost
    first; `op` is None where no public operation was running, `layer` where no module was.
    """

    op: str | None
    layer: str | None
    line: str
    phase: str
    stack: tuple[Frame, ...]


class Entry(NamedTuple):
    """What a pool told: `kind` is "alloc", "reuse" or "free"; `piece` tells the places of a device's memory apart."""

    kind: str
    time: float
    device: str
    piece: tuple[int, int]
    size: int
    made: Made | None = None
    scratch: bool = False


class Recorder:
    """The watch of all pools. Keeps numbers and text only."""

    def __init__(self) -> None:
        self.log: list[Entry] = []
        self._frames: dict[tuple[str, int, str], Frame] = {}
        self._stacks: dict[tuple[Frame, ...], tuple[tuple[Frame, ...], str]] = {}  # with the innermost line

    def origin(self) -> Origin:
        """What the program is doing now."""
        names = public_operations()
        op = None
        frames: list[Frame] = []
        frame = sys._getframe(1)
        while True:
            code = frame.f_code
            if in_library(code.co_filename):
                if op is None and not frames:
                    op = names.get(id(code))
            elif len(frames) < MAX_FRAMES and not code.co_filename.startswith("<frozen"):
                key = (code.co_filename, frame.f_lineno, code.co_name)
                frames.append(self._frames.get(key) or self._frames.setdefault(key, Frame(*key)))
            if frame.f_back is None:
                break
            frame = frame.f_back
        frames.reverse()
        found = tuple(frames)
        stack, line = self._stacks.get(found) or self._stacks.setdefault(
            found, (found, str(found[-1]) if found else "")
        )
        layer = running_layer.get()
        phase = running_phase.get()
        if phase == "backward" and (rule := running_rule.get()) is not None:
            node = rule[0]
            op, line, layer = node.op, node.line or line, node.layer if layer is None else layer
        elif phase == "update":
            op = op or "optimizer"
        elif not phase:
            phase = "forward" if recording_tape() is not None or layer is not None else "other"
        return Origin(op, layer, line, phase, stack)

    def taken(self, pool: Pool, slab: Slab, offset: int, size: int, made: Made | None, scratch: bool) -> None:
        piece = (slab.number, offset)
        self.log.append(Entry("alloc", perf_counter(), pool.device, piece, size, made, scratch))

    def passed(self, pool: Pool, slab: Slab, offset: int, size: int, made: Made | None, scratch: bool) -> None:
        piece = (slab.number, offset)
        self.log.append(Entry("reuse", perf_counter(), pool.device, piece, size, made, scratch))

    def given(self, pool: Pool, slab: Slab, offset: int, size: int, when: float | None) -> None:
        self.log.append(Entry("free", when or perf_counter(), pool.device, (slab.number, offset), size))


@cache
def public_operations() -> Mapping[int, str]:
    """Names of the functions that make tensors, by the identity of their code, which lives as long as they do."""
    functions: dict[str, Any] = {name: getattr(ops, name) for name in ops.__all__} | {"tensor": tensor, "param": param}
    return {id(unwrap(function).__code__): name for name, function in functions.items()}


_lock = threading.Lock()
_recordings: list[Recording] = []  # that have not stopped


class Recording:
    """What a recorder notes from now on until `stop()`. Recordings at the same time share one recorder.

    `before` are the bytes that tensors held as it began, by device; `entries` is there once it has stopped.
    """

    def __init__(self) -> None:
        with _lock:
            if not _recordings:
                self._recorder = Recorder()
                devices.watch(self._recorder)
            else:
                self._recorder = _recordings[0]._recorder
            _recordings.append(self)
        self._starts = self._marks()
        self.before = {device: live for device, (_, live) in self._starts.items()}
        self.began = perf_counter()

    def stop(self) -> float:
        """End it; returns the seconds that it took."""
        seconds = perf_counter() - self.began
        ends = self._marks()
        self.before = dict.fromkeys(ends, 0) | self.before  # devices may have been opened since
        with _lock:
            _recordings.remove(self)
            if not _recordings:
                devices.watch(None)
        starts = {device: start for device, (start, _) in self._starts.items()}
        self.entries = [
            entry
            for i, entry in enumerate(self._recorder.log[: max((end for end, _ in ends.values()), default=0)])
            if starts.get(entry.device, 0) <= i < ends[entry.device][0]
        ]
        return seconds

    def _marks(self) -> dict[str, tuple[int, int]]:
        """For each open device, how long the log is, and the bytes that its tensors hold."""
        found = {}
        for device in devices.opened():
            with device.graph.lock:
                live = device.pool.stats().live  # after the pool has taken back, and told, what was dropped
                found[device.name] = (len(self._recorder.log), live)
        return found
