"""What a training step will have in memory, before it is run."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, overload

from ..backend import devices
from ..backend.memory import format_bytes
from ..paths import listed
from .rehearsal import PARTS, Step, batch_of, rehearse
from .suggest import Suggestion, suggest
from .tape_report import TapeReport


@dataclass(frozen=True)
class DevicePeak:
    """The most that a step has in use at once on one device, in bytes, and what for.

    The parts add up to `peak`. They are those of the second step; the first, in which an optimizer makes its state,
    has `peak_first`.

    Attributes:
        device: its name.
        peak: what `memory_stats().peak` would say after the step.
        peak_first: likewise after the first step.
        parameters: leaves that require a gradient.
        gradients: the `.grad` of tensors.
        optimizer: moments, master copies and the few numbers of a fused step.
        activations: what only the tape refers to, dropout masks among it.
        inputs: the tensors among the step's inputs, and others with data that were uploaded and are on the tape.
        scratch: values of a running graph that nobody keeps, gradients on their way among them.
        other: buffers of modules, and whatever else was there.
    """

    device: str
    peak: int
    peak_first: int
    parameters: int
    gradients: int
    optimizer: int
    activations: int
    inputs: int
    scratch: int
    other: int


@dataclass(frozen=True)
class Estimate:
    """What `ag.estimate` found. Prints as a table; it keeps the step function and the inputs, for `what_if`.

    Attributes:
        batch_size: first extent of the inputs, None where they have none.
        checkpoint: the layers that it takes to be checkpointed.
        by_device: the peak on each device that is open.
        tape: the report of the second step's tape, as `tape_memory` gives it after `backward`; of several tapes in a
            step, the fullest.
        device: the name of the device whose figures are the estimate's own.
    """

    batch_size: int | None
    checkpoint: tuple[str, ...]
    by_device: tuple[DevicePeak, ...]
    tape: TapeReport
    device: str
    _layers: tuple[str, ...] = field(repr=False, compare=False)  # of the modules that ran
    _question: _Question = field(repr=False, compare=False)

    @property
    def main(self) -> DevicePeak:
        """The figures of `device`."""
        return next(row for row in self.by_device if row.device == self.device)

    @property
    def peak(self) -> int:
        """Bytes in use at once in a step, from the second on."""
        return self.main.peak

    @property
    def peak_first(self) -> int:
        """Bytes in use at once in the first step."""
        return self.main.peak_first

    def fits(self, limit: int) -> bool:
        """Whether neither step has more than `limit` bytes in use."""
        return max(self.peak, self.peak_first) <= limit

    def what_if(self, checkpoint: str | Iterable[str]) -> Estimate:
        """The estimate of the same step with these layers checkpointed, as in `ag.nn.checkpointed`: simulated anew.

        Args:
            checkpoint: paths of layers below the module that is called first, or patterns of them.

        Raises:
            ValueError: there is no such layer. TypeError: one that returns something else than one tensor.
        """
        return self._question.estimate(tuple(listed(checkpoint)), self.device)

    def suggest(self, target_bytes: int) -> Suggestion:
        """Layers to checkpoint (besides those that are) so that neither step has more than `target_bytes` in use.

        Looked for among the layers of each depth of the model, by the bytes that they release for each multiply-add
        that they compute again, and the cheapest of what was found. Every choice is verified by a simulation, so that
        `after` is what a real step will have.

        Raises:
            ValueError: no choice gets there; the message has the best one. TypeError: no integer.
        """
        gc.collect()  # garbage has no part in it

        def measure(layers: Sequence[str]) -> int:
            return self._question.highest(self.device, (*self.checkpoint, *layers))

        return suggest(self.tape, target_bytes, max(self.peak, self.peak_first), self._layers, measure)

    def to_dict(self) -> dict[str, Any]:
        """The figures as dictionaries, lists, numbers and texts, for JSON; without the tape's report."""
        return {
            "batch_size": self.batch_size,
            "device": self.device,
            "by_device": [asdict(row) for row in self.by_device],
        }

    def __str__(self) -> str:
        batch = "" if self.batch_size is None else f" at batch size {self.batch_size}"
        lines = [f"a step{batch}:"]
        for row in self.by_device:
            if not row.peak_first and row.device != self.device:
                continue
            lines.append(
                f"  {row.device}: peak {format_bytes(row.peak)}, in the first step {format_bytes(row.peak_first)}"
            )
            lines += [f"    {part:<12}{format_bytes(getattr(row, part)):>12}" for part in PARTS if getattr(row, part)]
        return "\n".join(lines)


@overload
def estimate(step_fn: Step, *inputs: Any, batch_size: int | None = None, device: str | None = None) -> Estimate: ...
@overload
def estimate(step_fn: Step, *inputs: Any, batch_size: Sequence[int], device: str | None = None) -> list[Estimate]: ...
def estimate(
    step_fn: Step, *inputs: Any, batch_size: int | Sequence[int] | None = None, device: str | None = None
) -> Estimate | list[Estimate]:
    """What a training step will have in memory, found without running it: to the byte what a real one would.

        def step(x, y):
            with ag.grad_tape():
                loss = ag.cross_entropy_loss(model(x), y)
            ag.backward(loss)
            optimizer.step()
            optimizer.zero_grad()

        print(ag.estimate(step, x, y))
        for found in ag.estimate(step, x, y, batch_size=[16, 32, 64]):
            print(found.batch_size, found.peak)

    The step is simulated, twice in a row: its operations are recorded and their memory is planned by the code of a real
    run, on books that begin with what is in use now. Nothing is computed, nothing moves between host and device, and no
    device memory is taken. Afterwards everything is as before: tensors, modules, optimizers and schedules, random
    numbers, the tape that finished last, what was pending; and the variables that `step_fn` takes from around it (those
    of its closure, its file and its object) with the lists and dictionaries that they are. What other functions keep
    stays changed: files that were written, an iterator that was advanced, an object of another class. A tensor that
    something of that kind has kept has no values, and raises when it is read.

    What it cannot know: values that are read in the step, such as `float(loss)`, are zero. Memory that a backend of
    ggml takes for itself (for large products, say) is no part of the pool, and of no figure of `memory_stats`; the
    pool's free pieces are of no figure here: what a driver shows is more. Operations that a device leaves to the CPU
    are not counted there.

    Args:
        step_fn: a whole step, called with the inputs; what it returns is dropped. Other threads that use a device wait
            meanwhile, so it must not wait for one that does.
        inputs: what it is called with.
        batch_size: one size, or several. Every array and tensor among the inputs (also in lists, tuples and
            dictionaries) whose first extent is that of the first of them is taken to have this one, with zeros in it;
            it takes its place, so that the given one does not count.
        device: which device the figures are of; by default the default device. All are in `by_device`.

    Returns:
        An Estimate, or a list of them for a list of sizes.

    Raises:
        TypeError: step_fn cannot be called; a size is no integer. ValueError: a size below 1, or no input has a first
        extent; an unknown device. Whatever the step raises; everything is as before then, too.

    >>> w = ag.param(np.ones((64, 64)))
    >>> def step(x):
    ...     with ag.grad_tape():
    ...         loss = (x @ w).sum()
    ...     ag.backward(loss)
    ...     w.grad = None
    >>> found = ag.estimate(step, ag.tensor(np.ones((8, 64))), device="cpu")
    >>> found.batch_size, found.main.parameters
    (8, 16384)
    """
    if not callable(step_fn):
        raise TypeError(f"estimate: step_fn must be a function, not {type(step_fn).__name__}")
    name = devices.get(device).name  # open, so that it has books
    if batch_size is None:
        return _Question(step_fn, inputs, None).estimate((), name)
    sizes = [batch_size] if isinstance(batch_size, int) else list(batch_size)
    for size in sizes:
        _check_batch("estimate", inputs, size)
    found = [_Question(step_fn, inputs, size).estimate((), name) for size in sizes]
    return found[0] if isinstance(batch_size, int) else found


def largest_batch(
    step_fn: Step, *inputs: Any, limit: int, device: str | None = None, at_most: int = 1 << 20
) -> Estimate:
    """The estimate of the largest batch with which a step has no more than `limit` bytes in use, the first included.

        ag.largest_batch(step, x, y, limit=4 << 30).batch_size

    Looked for among simulated steps, as `ag.estimate` makes them; a larger batch is taken to need more.

    Args:
        step_fn, inputs, device: as for `estimate`.
        limit: in bytes.
        at_most: where to stop.

    Raises:
        ValueError: a batch of one does not fit; the message says what it needs. Otherwise as `estimate`.
    """
    if isinstance(limit, bool) or not isinstance(limit, int):
        raise TypeError(f"largest_batch: limit must be an integer, not {limit!r}")
    _check_batch("largest_batch", inputs, at_most)
    name = devices.get(device).name

    gc.collect()  # garbage has no part in it

    def highest(batch: int) -> int:
        return _Question(step_fn, inputs, batch).highest(name)

    least = highest(1)
    if least > limit:
        raise ValueError(f"largest_batch: with a batch of 1, a step has {least} bytes in use, beyond {limit}")
    low, at_low = 1, least  # the largest known to fit
    high = at_most + 1  # the smallest known not to
    slope = 0.0  # bytes for each sample more: by as good as all networks, from some size on
    turn = 0
    while high - low > 1:
        turn += 1
        straight = low + max(1, int((limit - at_low) / slope)) if slope > 0 else 2 * low
        tried = (
            min(straight, high - 1) if turn % 3 else (low + min(high, 4 * low)) // 2
        )  # so that it ends soon in any case
        found = highest(tried)
        slope = (found - at_low) / (tried - low)
        if found <= limit:
            low, at_low = tried, found
        else:
            high = tried
    return _Question(step_fn, inputs, low).estimate((), name)


@dataclass(frozen=True)
class _Question:
    """What an estimate is about."""

    step: Step
    inputs: tuple[Any, ...]
    batch: int | None  # that the inputs are taken to have

    def estimate(self, checkpoint: tuple[str, ...], device: str) -> Estimate:
        gc.collect()  # garbage has no part in it
        found = rehearse(self.step, self.inputs, self.batch, checkpoint)
        assert found.tape is not None
        rows = [DevicePeak(name, peak, first, **found.parts[name]) for name, (first, peak) in found.peaks.items()]
        batch = self.batch or batch_of(self.inputs)
        return Estimate(batch, checkpoint, tuple(rows), found.tape, device, found.layers, self)

    def highest(self, device: str, checkpoint: tuple[str, ...] = ()) -> int:
        """The peak of the two steps."""
        return max(rehearse(self.step, self.inputs, self.batch, checkpoint, parts=False).peaks[device])


def _check_batch(who: str, inputs: Sequence[Any], size: Any) -> None:
    """Raise unless inputs can be had in that size."""
    if isinstance(size, bool) or not isinstance(size, int):
        raise TypeError(f"{who}: a batch size must be an integer, not {size!r}")
    if size < 1:
        raise ValueError(f"{who}: a batch size must be positive, not {size}")
    if batch_of(inputs) is None:
        raise ValueError(f"{who}: none of the inputs is an array or a tensor with a first extent")


__all__ = ["DevicePeak", "Estimate", "estimate", "largest_batch"]
