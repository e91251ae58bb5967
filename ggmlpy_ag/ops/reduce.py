"""Sums, means and their adjoint, broadcasting."""

from __future__ import annotations

from functools import lru_cache
from math import prod

from ..backend import primitives as prim
from ..backend.array import FLOAT, Array, Shape
from ..tape import GradFn, record
from ..tensor import Axes, Tensor, TensorLike
from . import base
from .base import any_type, check_dims, floats, int_shape, packed, result, scaled, some_axes, wide

LONGEST_SUM = 256  # float32 values added one after another; longer sums are made of such parts


def sum(x: TensorLike, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Sum over some axes (all by default), added in parts so that the error grows slowly.

    Args:
        x: float32, float16 or bfloat16, any shape.
        axis: an axis or several, negative ones counted from the last; () for none.
        keepdims: leave the summed axes in the shape, with extent 1.

    Raises:
        IndexError: there is no such axis. ValueError: an axis is named twice. TypeError: no integers.

    >>> ag.sum([[1.0, 2.0], [3.0, 4.0]]).item()
    10.0
    >>> ag.sum([[1.0, 2.0], [3.0, 4.0]], axis=0, keepdims=True).tolist()
    [[4.0, 6.0]]
    """
    (x,) = floats("sum", x)
    axes = some_axes("sum", axis, x.ndim)
    out = result(_shaped(_sum(wide(x), axes), x.shape, axes, keepdims), x)
    return record("sum", out, (x,), _spread(x.shape, axes, 1.0))


def mean(x: TensorLike, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Arithmetic mean over some axes (all by default).

    Args:
        x: float32, float16 or bfloat16, any shape.
        axis: an axis or several, negative ones counted from the last; () for none.
        keepdims: leave the reduced axes in the shape, with extent 1.

    Raises:
        IndexError: there is no such axis. ValueError: an axis is named twice. TypeError: no integers.

    >>> ag.mean([[1.0, 2.0], [3.0, 4.0]], axis=1).tolist()
    [1.5, 3.5]
    """
    (x,) = floats("mean", x)
    axes = some_axes("mean", axis, x.ndim)
    factor = 1.0 / prod(x.shape[i] for i in axes)
    out = result(_shaped(scaled(_sum(wide(x), axes), factor), x.shape, axes, keepdims), x)
    return record("mean", out, (x,), _spread(x.shape, axes, factor))


def _spread(shape: Shape, axes: tuple[int, ...], factor: float) -> GradFn:
    """The rule of a sum times a factor: its gradient goes to every summed element."""
    kept = tuple(1 if i in axes else n for i, n in enumerate(shape))

    def grad(g: Tensor) -> tuple[Tensor]:
        g = g if factor == 1.0 else g * factor
        return (broadcast_to(g.reshape(kept), shape),)

    return grad


def broadcast_to(x: TensorLike, shape: Shape) -> Tensor:
    """Repeat to a shape that NumPy broadcasts `x` to.

    Args:
        x: any shape and type.
        shape: at most four extents; each is that of `x`, or anything where that is 1 or missing.

    Raises:
        ValueError: it does not broadcast to that shape. TypeError: extents are no integers.

    >>> ag.broadcast_to([1.0, 2.0], (2, 2)).tolist()
    [[1.0, 2.0], [1.0, 2.0]]
    """
    x = any_type("broadcast_to", x)
    shape = int_shape("broadcast_to", shape)
    check_dims("broadcast_to", shape)
    before = x.shape
    if before == shape:
        return x
    if any(n < 1 for n in shape) or base.broadcast("broadcast_to", before, shape) != shape:
        raise ValueError(f"broadcast_to: shape {before} does not broadcast to {shape}")
    out = Tensor(base.expanded(x._array, shape))
    return record("broadcast_to", out, (x,), lambda g: (sum_to(g, before),))


def sum_to(x: Tensor, shape: Shape) -> Tensor:
    """The adjoint of broadcasting: sum until it has this shape. What a rule uses for a broadcast operand."""
    if x.shape == shape:
        return x
    before = x.shape
    extra = len(before) - len(shape)
    axes = tuple([i for i, n in enumerate(before) if i < extra or (shape[i - extra] == 1 and n != 1)])
    out = result(base.reshaped(_sum(wide(x), axes), shape), x)
    return record("sum_to", out, (x,), lambda g: (broadcast_to(g, before),))


# ---------------------------------------------------------------- on arrays


def _shaped(a: Array, before: Shape, axes: tuple[int, ...], keepdims: bool) -> Array:
    shape = tuple(1 if i in axes else n for i, n in enumerate(before) if keepdims or i not in axes)
    return a.reshaped(shape)


def _sum(a: Array, axes: tuple[int, ...]) -> Array:
    """Sum over sorted axes, which keep extent 1; one run of neighbouring axes after another, the last run first."""
    shape = tuple([1 if i in axes else n for i, n in enumerate(a.shape)])
    a = packed(a)
    for split in _splits(a.shape, axes):
        a = _sum_middle(a.reshaped(split))
    return a.reshaped(shape)


@lru_cache(maxsize=4096)
def _splits(extents: Shape, axes: tuple[int, ...]) -> list[Shape]:
    """For each run of neighbouring axes, the last first: extents before it, in it, and after it, as products."""
    shape = list(extents)
    runs: list[tuple[int, int]] = []
    for axis in axes:
        if runs and runs[-1][1] == axis:
            runs[-1] = (runs[-1][0], axis + 1)
        else:
            runs.append((axis, axis + 1))
    splits: list[Shape] = []
    for start, stop in reversed(runs):
        splits.append((prod(shape[:start]), prod(shape[start:stop]), prod(shape[stop:])))
        shape[start:stop] = [1] * (stop - start)
    return splits


def _sum_middle(a: Array) -> Array:
    """(outer, length, inner) -> (outer, 1, inner), in parts of at most LONGEST_SUM elements."""
    outer, length, inner = a.shape
    if length == 1:
        return a
    if length <= LONGEST_SUM:
        return _sum_short(a)
    part = next((k for k in range(LONGEST_SUM, 15, -1) if length % k == 0), 0)
    if part:
        folded = _sum_short(a.reshaped((outer * (length // part), part, inner)))
        return _sum_middle(folded.reshaped((outer, length // part, inner)))
    # no divisor of a useful size: the longest stretch that has one, and the rest
    cut = length // LONGEST_SUM * LONGEST_SUM
    row = (
        length * inner
    )  # copied as whole rows: three dimensions with an inner one of 1 look like a transpose to Vulkan
    head = packed(a.view((outer, cut * inner), (row, 1)))
    tail = packed(a.view((outer, row - cut * inner), (row, 1), a.offset + cut * inner))
    parts = [_sum_middle(part.reshaped((outer, n, inner))) for part, n in ((head, cut), (tail, length - cut))]
    return base.binary("sum", prim.ADD, *parts)


def _sum_short(a: Array) -> Array:
    outer, length, inner = a.shape
    graph = a.device.graph
    if inner == 1:
        return graph.record(prim.SUM_ROWS, (a.reshaped((outer, length)),), (outer, 1), FLOAT).reshaped((outer, 1, 1))
    # Adding rows to one another is 80 times as fast on the CPU as a transposed copy and sums of its rows.
    return graph.record(prim.SUM_MIDDLE, (a,), (outer, 1, inner), FLOAT, inner, outer)


__all__ = ["broadcast_to", "mean", "sum"]
