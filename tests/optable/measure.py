"""Running a sample of the op table and measuring the result: what the tests and scripts/conformance.py share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import ggmlpy_ag as ag
from ggmlpy_ag.tape import captured

from .table import Op, Sample

SMALL = 64  # elements; gradients of larger samples are compared with PyTorch's only


def has_gradient(op: Op, sample: Sample) -> bool:
    return op.gradient and bool(sample.floats)


def tensors(sample: Sample) -> list[Any]:
    """The operands on the default device; floats require a gradient, numbers and lists stay as they are."""
    return [
        ag.tensor(v, requires_grad=i in sample.floats) if isinstance(v, np.ndarray) else v
        for i, v in enumerate(sample.operands)
    ]


def wide(value: Any) -> Any:
    """An operand as the reference takes it: float32 as float64."""
    return value.astype(np.float64) if isinstance(value, np.ndarray) and value.dtype == np.float32 else value


def reference(op: Op, sample: Sample) -> np.ndarray:
    """What NumPy makes of it in float64."""
    with np.errstate(all="ignore"):
        return np.asarray(op.numpy(*map(wide, sample.operands), **sample.options))


def assert_close(got: np.ndarray, expected: np.ndarray, op: Op, sample: Sample) -> None:
    """Within the tolerance of the operation's values."""
    if op.sums:
        assert np.all(np.abs(got - expected) <= op.rtol * _terms(op, sample)), value_error(got, expected, op, sample)
    else:
        np.testing.assert_allclose(got, expected, op.rtol, op.atol)


def assert_gradients_close(got: np.ndarray, expected: np.ndarray, op: Op) -> None:
    finite = np.abs(expected[np.isfinite(expected)])
    np.testing.assert_allclose(got, expected, op.grad_rtol, 0.1 * op.grad_rtol * finite.max(initial=0.0))


def value_error(got: np.ndarray, expected: np.ndarray, op: Op, sample: Sample) -> float:
    """The largest error, relative to the value, or to the sum of the terms' magnitudes for sums; near zero relative to
    where the absolute tolerance takes over.
    """
    size = _terms(op, sample) if op.sums else np.maximum(np.abs(expected), op.atol / op.rtol if op.rtol else 0.0)
    with np.errstate(all="ignore"):
        error = np.abs(got - expected) / size
    same = (got == expected) | (np.isnan(got) & np.isnan(expected))
    return float(np.max(np.where(same, 0.0, error), initial=0.0))


def _terms(op: Op, sample: Sample) -> np.ndarray:
    return np.asarray(op.numpy(*(np.abs(wide(v)) for v in sample.operands), **sample.options))


def output_weights(shape: tuple[int, ...]) -> np.ndarray:
    return np.asarray(np.random.default_rng(1).uniform(0.5, 1.5, shape), np.float32)


def gradients(op: Op, sample: Sample, operands: list[Any], leaves: list[ag.Tensor]) -> list[np.ndarray]:
    """Of the weighted sum of the result, with respect to the leaves."""
    with ag.grad_tape():
        out = op.call(*operands, **sample.options)
    grads = ag.backward(out, output_weights(out.shape))
    return [grads[leaf].numpy() if leaf in grads else np.zeros(leaf.shape, np.float32) for leaf in leaves]


def slopes(op: Op, sample: Sample, step: float = 1e-3) -> list[np.ndarray]:
    """Those gradients from the NumPy reference: central differences in float64, extrapolated."""
    weights = output_weights(reference(op, sample).shape).astype(np.float64)
    operands = [wide(v) for v in sample.operands]
    found = []
    for i in sample.floats:
        grad = np.zeros(operands[i].shape)
        for at in np.ndindex(grad.shape):
            sides = []
            for h in (step, -step, step / 2, -step / 2):
                changed = operands[i].copy()
                changed[at] += h
                values = op.numpy(*operands[:i], changed, *operands[i + 1 :], **sample.options)
                sides.append(float(np.sum(values * weights)))
            coarse, fine = (sides[0] - sides[1]) / (2 * step), (sides[2] - sides[3]) / step
            grad[at] = (4.0 * fine - coarse) / 3.0
        found.append(grad)
    return found


def torch_operands(torch: Any, sample: Sample, dtype: Any) -> list[Any]:
    """The operands as PyTorch's tensors; integers as its indices."""
    return [
        torch.tensor(v, dtype=dtype if i in sample.floats else torch.int64) if isinstance(v, np.ndarray) else v
        for i, v in enumerate(sample.operands)
    ]


def assert_pytorch_agrees(torch: Any, op: Op, sample: Sample) -> None:
    """Values and gradients are within the tolerances of what PyTorch makes of them in float64."""
    assert op.torch is not None
    operands = tensors(sample)
    theirs = torch_operands(torch, sample, torch.float64)
    floats = [theirs[i].requires_grad_(has_gradient(op, sample)) for i in sample.floats]
    expected = op.torch(torch, *theirs, **sample.options)
    with ag.no_grad():
        got = op.call(*operands, **sample.options).numpy()
    assert_close(got, expected.detach().numpy(), op, sample)
    if has_gradient(op, sample):
        found = gradients(op, sample, operands, [operands[i] for i in sample.floats])
        if expected.requires_grad:  # not where the result is a constant
            expected.backward(torch.tensor(wide(output_weights(got.shape))))
        for mine, leaf in zip(found, floats, strict=True):
            grad = np.zeros(leaf.shape) if leaf.grad is None else leaf.grad.numpy()
            assert_gradients_close(mine, grad, op)


def kept_bytes(tape: ag.Tape) -> int:
    """Bytes of the storages that the rules on a tape hold, each counted once."""
    storages = {t._array.storage for node in tape.nodes for t in captured(node.grad_fn)}
    return sum(storage.nbytes for storage in storages)


def some(samples: Sequence[Sample], most: int) -> list[Sample]:
    """At most so many samples, from all over the list, for what is slow to check."""
    step = -(-len(samples) // most) if samples else 1
    return list(samples[::step])


def largest(op: Op) -> Sample:
    """The sample to measure memory with."""
    return max(op.samples, key=lambda s: s.size)
