"""Greatest and least, and order."""

from __future__ import annotations

import builtins
from math import prod

from ..backend import primitives as prim
from ..backend.array import FLOAT, INT, Array
from ..tape import record
from ..tensor import Axes, Tensor, TensorLike
from . import base
from .base import binary, cast, floats, one_axis, packed, result, scaled, some_axes, unary, wide
from .moving import cut, joined
from .reduce import _sum
from .rows import as_rows

LONGEST_ROW = 1024  # elements that one thread of a GPU looks through; longer rows are made of such parts
ROWS = 1 << 24  # of one launch there; and the CPU's kernel, a pooling, has the size of its result in float32
LARGEST = 3.4028234663852886e38  # float32


def max(x: TensorLike, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The greatest value over some axes (all by default); NaN where there is one, as in NumPy.

    Several equal greatest values share the gradient evenly, as in `torch.amax`.

    Args:
        x: float32, float16 or bfloat16, any shape.
        axis: an axis or several, negative ones counted from the last.
        keepdims: leave the reduced axes in the shape, with extent 1.

    Raises:
        IndexError: there is no such axis. ValueError: an axis is named twice. TypeError: no integers.

    >>> ag.max([[1.0, 5.0], [3.0, 2.0]]).item()
    5.0
    >>> ag.max([[1.0, 5.0], [3.0, 2.0]], axis=0).tolist()
    [3.0, 5.0]
    """
    return _extreme("max", x, axis, keepdims)


def min(x: TensorLike, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The least value over some axes (all by default); NaN where there is one, as in NumPy.

    Several equal least values share the gradient evenly, as in `torch.amin`.

    Args:
        x: float32, float16 or bfloat16, any shape.
        axis: an axis or several, negative ones counted from the last.
        keepdims: leave the reduced axes in the shape, with extent 1.

    Raises:
        IndexError: there is no such axis. ValueError: an axis is named twice. TypeError: no integers.

    >>> ag.min([[1.0, 5.0], [3.0, 2.0]], axis=1, keepdims=True).tolist()
    [[1.0], [2.0]]
    """
    return _extreme("min", x, axis, keepdims)


def _extreme(op: str, x: TensorLike, axis: Axes, keepdims: bool) -> Tensor:
    (x,) = floats(op, x)
    axes = some_axes(op, axis, x.ndim)
    kept = tuple([1 if i in axes else n for i, n in enumerate(x.shape)])
    rows = as_rows(wide(x), axes)
    values = greatest(rows) if op == "max" else unary(prim.NEG, greatest(unary(prim.NEG, rows)))
    shape = kept if keepdims else tuple([n for i, n in enumerate(x.shape) if i not in axes])
    out = result(values.reshaped(shape), x)

    def grad(g: Tensor) -> tuple[Tensor]:
        return (g.reshape(kept) * Tensor(shares(wide(x), base.reshaped(wide(out), kept), axes)),)

    return record(op, out, (x,), grad)


def argmax(x: TensorLike, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Index of the greatest value along an axis, or in the flattened tensor; int32, without gradient.

    Of equal values the first counts, and NaN counts as greatest, as in NumPy.

    Args:
        x: float32, float16 or bfloat16, any shape.
        axis: an axis, negative ones counted from the last; None for the flattened tensor.
        keepdims: leave the axis (all axes for None) in the shape, with extent 1.

    Raises:
        IndexError: there is no such axis. TypeError: the axis is no integer.
        ValueError: more than 2**24 values along the axis.

    >>> ag.argmax([3.0, 7.0, 7.0]).item()
    1
    >>> ag.argmax([[1.0, 5.0], [3.0, 2.0]], axis=1).tolist()
    [1, 0]
    """
    return _arg("argmax", x, axis, keepdims)


def argmin(x: TensorLike, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Index of the least value along an axis, or in the flattened tensor; int32, without gradient.

    Of equal values the first counts, and NaN counts as least, as in NumPy.

    Args:
        x: float32, float16 or bfloat16, any shape.
        axis: an axis, negative ones counted from the last; None for the flattened tensor.
        keepdims: leave the axis (all axes for None) in the shape, with extent 1.

    Raises:
        IndexError: there is no such axis. TypeError: the axis is no integer.
        ValueError: more than 2**24 values along the axis.

    >>> ag.argmin([3.0, 7.0, 3.0]).item()
    0
    """
    return _arg("argmin", x, axis, keepdims)


def _arg(op: str, x: TensorLike, axis: int | None, keepdims: bool) -> Tensor:
    # ggml's argmax returns the last of equal values on the CPU, and any on Vulkan.
    (x,) = floats(op, x)
    axes = tuple(range(x.ndim)) if axis is None else (one_axis(op, axis, x.ndim),)
    a = as_rows(wide(x), axes)
    n = a.shape[1]
    numbers = base.counting(op, a.device, n)
    if op == "argmin":
        a = unary(prim.NEG, a)
    # 0 for the greatest, and 1 for NaN
    rank = binary(op, prim.SUB, base.nan_mask(a), differ(a, row_max(a)))
    best = base.equal_mask(rank, row_max(rank))
    first = row_max(binary(op, prim.MUL, best, scaled(numbers, -1.0, float(n))))  # of n, n-1, .. 1
    index = cast(scaled(first, -1.0, float(n)), INT)
    index.storage.bounds = (0, n - 1)
    shape = tuple([1 if i in axes else n for i, n in enumerate(x.shape) if keepdims or i not in axes])
    return Tensor(index.reshaped(shape))


# ---------------------------------------------------------------- on arrays


def greatest(a: Array) -> Array:
    """The greatest value of each row, or NaN where there is one: (rows, n) -> (rows, 1)."""
    # ggml's maximum begins with the least finite number: it does not see that all of a row is -inf.
    alive = _sum(unary(prim.SGN, unary(prim.RELU, scaled(a, 0.5, LARGEST))), (1,))  # how many are more than that
    limit = unary(prim.LOG, unary(prim.SGN, alive))
    # A sum of magnitudes is NaN if one of them is, and only then; and sqrt(-1) is NaN.
    lost = unary(prim.SQRT, scaled(base.nan_mask(_sum(unary(prim.ABS, a), (1,))), -1.0))
    below = unary(prim.ABS, binary("max", prim.SUB, limit, lost))  # 0, inf or NaN
    return binary("max", prim.SUB, row_max(a), below)


def row_max(a: Array) -> Array:
    """The greatest value of each row, at least the least finite number, and NaN aside: (..., columns) -> (..., 1)."""
    a = packed(a)
    *outer, columns = a.shape
    return _row_max(a.reshaped((prod(outer), columns))).reshaped((*outer, 1))


def _row_max(a: Array) -> Array:
    rows, n = a.shape
    if rows <= ROWS and (n <= LONGEST_ROW or a.device.is_cpu):
        return a.device.graph.record(prim.ROW_MAX, (a,), (rows, 1), FLOAT, n)
    if rows > ROWS:
        return joined([_row_max(packed(cut(a, 0, i, builtins.min(i + ROWS, rows)))) for i in range(0, rows, ROWS)], 0)
    whole = n // LONGEST_ROW * LONGEST_ROW
    parts = _row_max(base.reshaped(cut(a, 1, 0, whole), (rows * whole // LONGEST_ROW, LONGEST_ROW)))
    parts = parts.reshaped((rows, whole // LONGEST_ROW))
    if whole < n:
        parts = joined([parts, _row_max(packed(cut(a, 1, whole, n)))], 1)
    return _row_max(parts)


def differ(a: Array, b: Array) -> Array:
    """1 where a != b, else 0; b broadcasts to a. NaN differs from nothing."""
    near = unary(prim.SGN, unary(prim.ABS, binary("differ", prim.SUB, a, b)))
    if a.device.is_cpu:
        return near
    # A GPU may take a difference below 1.2e-38 for 0. (inf - inf is NaN, whose sign is 0 in ggml.)
    far = binary("differ", prim.SUB, scaled(a, 2.0**64), scaled(b, 2.0**64))
    return unary(prim.SGN, binary("differ", prim.ADD, near, unary(prim.SGN, unary(prim.ABS, far))))


def shares(a: Array, extreme: Array, axes: tuple[int, ...]) -> Array:
    """How the elements share the gradient of an extreme over some axes: evenly, where they equal it; NaN for NaN."""
    equal = scaled(differ(a, extreme), -1.0, 1.0)
    mask = binary("max", prim.MUL, equal, scaled(base.nan_mask(extreme), -1.0, 1.0))
    return binary("max", prim.DIV, mask, _sum(mask, axes))


__all__ = ["argmax", "argmin", "max", "min"]
