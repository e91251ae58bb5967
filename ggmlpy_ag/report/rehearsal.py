"""A rehearsal: a training step simulated twice, and what the books of the devices say of it."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from types import CellType
from typing import Any

import numpy as np

from .. import tape as taping
from ..backend.array import Array
from ..backend.graph import Node as PendingNode
from ..backend.memory import Storage
from ..backend.simulation import SimulatedPool, simulated
from ..backend.undo import attributes, live_objects, role_of
from ..ops.random import get_rng_state, set_rng_state
from ..paths import fits, matching
from ..tape import Node, Tape, current_tape
from ..tensor import Tensor
from .reach import reach
from .tape_memory import tape_memory
from .tape_report import TapeReport
from .variables import variables

PARTS = ("parameters", "gradients", "optimizer", "activations", "inputs", "scratch", "other")
Step = Callable[..., Any]


@dataclass(frozen=True)
class Rehearsal:
    """By device: the peak of each of the two steps, and what was in use at the second's. And its fullest tape.

    `layers` are the paths of the modules that ran.
    """

    peaks: dict[str, tuple[int, int]]
    parts: dict[str, dict[str, int]]
    tape: TapeReport | None  # None without parts
    layers: tuple[str, ...]


def rehearse(
    step: Step, inputs: Sequence[Any], batch: int | None = None, checkpoint: Sequence[str] = (), parts: bool = True
) -> Rehearsal:
    """Simulate the step twice, and undo what it has changed.

    Args:
        step: called with the inputs.
        inputs: for it.
        batch: a batch size that they are taken to have.
        checkpoint: layers that keep their inputs only, by patterns of their paths.
        parts: find out what memory is for, and report on the tape; peaks alone are quicker.
    """
    numbers, hook = get_rng_state(), taping.after_backward
    try:
        with simulated(variables(step)) as books:
            return copy_context().run(_Observer(books, inputs, checkpoint, parts).twice, step, batch)
    finally:
        taping.after_backward = hook
        set_rng_state(numbers)


class _Observer:
    """Runs the step, and finds out meanwhile what each piece of memory is for."""

    def __init__(
        self, books: Mapping[str, SimulatedPool], inputs: Sequence[Any], checkpoint: Sequence[str], parts: bool
    ) -> None:
        self.books = books
        self.inputs = inputs
        self.checkpoint = checkpoint
        self.wants_parts = parts
        self.layers: dict[str, bool] = {}  # of the modules that ran, and whether they are recomputed
        self.roles: dict[tuple[str, int], str] = {}  # by device and number of the piece
        self.tape: TapeReport | None = None
        self.outer = taping.recomputed.get()

    def twice(self, step: Step, batch: int | None) -> Rehearsal:
        kept = _part_with_finished_tape()
        taping.recomputed.set(self._recomputes)
        inputs = self.inputs if batch is None else resized(self.inputs, batch_of(self.inputs), batch)
        peaks = []
        for watched in (False, self.wants_parts):
            for pool in self.books.values():
                pool.reset_peaks()
                pool.onlooker = self._look if watched else None
            taping.after_backward = self._walked if watched else None
            step(*inputs)
            peaks.append({name: pool.stats().peak for name, pool in self.books.items()})
        del kept
        parts = {}
        if self.wants_parts:
            self._look()
            parts = {name: self._parts(name) for name in self.books}
            self.tape = self.tape or tape_memory(quiet=True)  # of a step without a backward pass
        matching("what_if", self.checkpoint, self.layers)  # or an error
        both = {name: (peaks[0][name], peaks[1][name]) for name in self.books}
        return Rehearsal(both, parts, self.tape, tuple(self.layers))

    def _recomputes(self, module: Any, path: str) -> bool:
        if path not in self.layers:
            self.layers[path] = any(fits(path, pattern) for pattern in self.checkpoint)
        return self.layers[path] or (self.outer is not None and self.outer(module, path))

    def _walked(self, tape: Tape) -> None:
        """A backward pass has ended. Of several in a step, the report is of the fullest tape."""
        report = tape_memory(quiet=True, tape=tape)
        if self.tape is None or report.bytes_total > self.tape.bytes_total:
            self.tape = report
        self._look()

    def _look(self, running: Sequence[PendingNode] = ()) -> None:
        """Note what the pieces in use are for, as far as the program's objects tell now."""
        roles: dict[Storage, str] = {}
        for name, storage in (*_of_inputs(self.inputs), *_of_objects(), *_of_tape()):
            roles.setdefault(storage, name)
        for storage, name in roles.items():
            if storage.block is not None and storage.block.pool is not None:
                self.roles.setdefault((storage.device.name, storage.block.offset), name)
        for node in running:
            wanted = node.storage() if hasattr(node, "storage") else None
            if wanted in roles:
                self.roles.setdefault((wanted.device.name, node.offset), roles[wanted])

    def _parts(self, device: str) -> dict[str, int]:
        parts = dict.fromkeys(PARTS, 0)
        pool = self.books[device]
        for number, (size, scratch) in pool.pieces_at_peak().items():
            parts[self.roles.get((device, number), "scratch" if scratch else "other")] += size
        parts["other"] += pool.unknown
        return parts


def _part_with_finished_tape() -> list[Node]:
    """Let a tape of one node stand in for the tape that finished last: for its part, all memory that only that holds.

    It is freed when the real one's would be. The real one stays as it is, in the context that we came from.
    """
    tape = taping._finished.get()
    if tape is None:
        return []
    found = reach(tape)
    own = [s for part in (found.values, found.fields, found.gradients, found.reads) for s in part]
    blocks = []
    for storage in own:
        if storage not in found.held_outside and storage.block is not None:
            blocks.append(storage.block)
            storage.block = None
    stand_in = Tape()
    stand_in.nodes.append(Node("before", stand_in, (), lambda g: (), {"blocks": blocks}, 0))
    taping._finished.set(stand_in)
    # a variable that holds the tape holds that memory until the tape is cleared
    return stand_in.nodes[:] if any(type(h) in (dict, CellType) for h in gc.get_referrers(tape)) else []


# ---------------------------------------------------------------- what memory is for

Roles = Iterator[tuple[str, Storage]]


def _of_inputs(inputs: Sequence[Any]) -> Roles:
    for value in _leaves(inputs):
        if isinstance(value, Tensor):
            yield "inputs", value._array.storage


def _of_objects() -> Roles:
    for thing in live_objects(lambda kind: kind is Tensor or role_of(kind) == "optimizer"):
        if type(thing) is not Tensor:
            yield from (("optimizer", a.storage) for a in _leaves(attributes(thing)) if type(a) is Array)
            continue
        if thing.requires_grad and thing._node is None:
            yield "parameters", thing._array.storage
        if thing.grad is not None:
            yield "gradients", thing.grad._array.storage


def _of_tape() -> Roles:
    tape = current_tape()
    if tape is not None:
        found = reach(tape)
        for storage in (*found.values, *found.fields, *found.reads):
            yield "inputs" if storage.label == "tensor" else "activations", storage


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item)
    elif isinstance(value, dict):
        yield from _leaves(list(value.values()))
    else:
        yield value


# ---------------------------------------------------------------- inputs of another size


def batch_of(inputs: Sequence[Any]) -> int | None:
    """The first extent of the first array or tensor among the inputs."""
    return next((v.shape[0] for v in _leaves(inputs) if isinstance(v, (Tensor, np.ndarray)) and v.ndim), None)


def resized(value: Any, batch: int | None, wanted: int) -> Any:
    """The value with zeros of the wanted first extent in place of every array and tensor whose own is the batch."""
    if isinstance(value, (list, tuple)):
        items = [resized(item, batch, wanted) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        return {key: resized(item, batch, wanted) for key, item in value.items()}
    if not isinstance(value, (Tensor, np.ndarray)) or not value.ndim or value.shape[0] != batch:
        return value
    shape = (wanted, *value.shape[1:])
    if isinstance(value, np.ndarray):
        return np.zeros(shape, value.dtype)
    value._array = value._array.device.upload(np.zeros(shape, value.dtype))  # in place: others may refer to the tensor
    return value
