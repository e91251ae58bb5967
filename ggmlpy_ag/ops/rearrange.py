"""The same elements in another order, or some of them: turned round, rolled, repeated, triangles and diagonals."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ..backend import primitives as prim
from ..backend.array import FLOAT, MAX_DIMS, Array, Shape
from ..tape import record
from ..tensor import Axes, Tensor, TensorLike
from . import base, reduce
from .base import any_type, floats, int_shape, integer, one_axis, result, some_axes, spread_out, wide
from .moving import ZERO, cut, filled, flipped, joined, padded
from .shape import permute, reshape

MOST_REPEATS = 1 << 31
UPPER, LOWER = 0, 2  # ggml's kinds of triangles, both with the diagonal


def flip(x: TensorLike, axis: Axes = None) -> Tensor:
    """Backwards along some axes (all by default), as `numpy.flip` has it.

    Args:
        x: any shape, any type.
        axis: an axis or several; negative ones count from the last.

    Raises:
        IndexError: there is no such axis. ValueError: an axis named twice. TypeError: an axis that is no integer.

    >>> ag.flip([[1.0, 2.0], [3.0, 4.0]], axis=1).tolist()
    [[2.0, 1.0], [4.0, 3.0]]
    """
    x = any_type("flip", x)
    axes = some_axes("flip", axis, x.ndim)
    if all(x.shape[i] == 1 for i in axes):
        return x
    array = x._array
    for i in axes:
        array = flipped(array, i)
    return record("flip", Tensor(array), (x,), lambda g: (flip(g, axes),))


def roll(x: TensorLike, shift: int | Sequence[int], axis: Axes = None) -> Tensor:
    """Moved along some axes; what leaves at one end comes in at the other, as `numpy.roll` has it.

    Args:
        x: any shape, any type.
        shift: by how many places; towards the front where it is negative. One for each axis, or one for all of them.
        axis: an axis or several, the same one may be named again; None rolls the flattened elements.

    Raises:
        ValueError: as many shifts as axes are needed. IndexError: there is no such axis.
        TypeError: shifts or axes that are no integers.

    >>> ag.roll([1.0, 2.0, 3.0, 4.0], 1).tolist()
    [4.0, 1.0, 2.0, 3.0]
    >>> ag.roll([[1.0, 2.0], [3.0, 4.0]], shift=1, axis=0).tolist()
    [[3.0, 4.0], [1.0, 2.0]]
    """
    x = any_type("roll", x)
    shifts = int_shape("roll", shift if isinstance(shift, (tuple, list)) else (shift,))
    if axis is None:
        if len(shifts) != 1:
            raise ValueError(f"roll: {len(shifts)} shifts need as many axes, not None")
        return reshape(_roll(reshape(x, -1), {0: shifts[0]}), x.shape)
    axes = [one_axis("roll", a, x.ndim) for a in (axis if isinstance(axis, (tuple, list)) else (axis,))]
    if len(shifts) == 1:
        shifts *= len(axes)
    if len(shifts) != len(axes):
        raise ValueError(f"roll: {len(shifts)} shifts do not fit {len(axes)} axes")
    places: dict[int, int] = {}
    for i, n in zip(axes, shifts, strict=True):
        places[i] = places.get(i, 0) + n
    return _roll(x, places)


def _roll(x: Tensor, shifts: dict[int, int]) -> Tensor:
    """By a shift for each of some axes."""
    places = {i: n % x.shape[i] for i, n in shifts.items() if n % x.shape[i]}
    if not places:
        return x
    array = x._array
    for i, n in places.items():
        kept = array.shape[i] - n
        array = joined([cut(array, i, kept, array.shape[i]), cut(array, i, 0, kept)], i)
    back = {i: -n for i, n in places.items()}
    return record("roll", Tensor(array), (x,), lambda g: (_roll(g, back),))


def repeat(x: TensorLike, *repeats: Any) -> Tensor:
    """Copies side by side along each dimension: PyTorch's `repeat`, NumPy's `tile`.

    Args:
        x: any shape, any type.
        repeats: how often, for each dimension; more of them than dimensions put new ones in front.

    Raises:
        ValueError: fewer repeats than dimensions, more than four, or one below 1. TypeError: one that is no integer.

    >>> ag.repeat([1.0, 2.0], 2).tolist()
    [1.0, 2.0, 1.0, 2.0]
    >>> ag.repeat([1.0, 2.0], 3, 1).shape
    (3, 2)
    """
    x = any_type("repeat", x)
    times = int_shape("repeat", spread_out(repeats))
    if len(times) < x.ndim or len(times) > MAX_DIMS or any(not 0 < n < MOST_REPEATS for n in times):
        raise ValueError(
            f"repeat: shape {x.shape} needs from {x.ndim} to {MAX_DIMS} repeats, each from 1 to 2**31 - 1, not {times}"
        )
    before = x.shape
    lengths = (1,) * (len(times) - x.ndim) + before
    array = base.reshaped(x._array, lengths)
    if any(n > 1 for n in times):
        array = base.expanded(array, tuple([n * m for n, m in zip(lengths, times, strict=True)]))
    return record("repeat", Tensor(array), (x,), lambda g: (reshape(_added_up(g, lengths, times), before),))


def _added_up(g: Tensor, lengths: Shape, times: Shape) -> Tensor:
    """The adjoint of repeating: the copies along each dimension added up."""
    for i, (n, copies) in enumerate(zip(lengths, times, strict=True)):
        if copies > 1:
            shape = (*lengths[:i], n, *g.shape[i + 1 :])
            split = (prod(lengths[:i]), copies, n * prod(g.shape[i + 1 :]))
            g = reshape(reduce.sum(reshape(g, split), 1), shape)
    return g


# ---------------------------------------------------------------- triangles


def tril(x: TensorLike, k: int = 0) -> Tensor:
    """The lower triangle of matrices, 0 elsewhere: x[..., i, j] stays where j <= i + k.

    What is dropped counts for nothing, NaN and infinities too, and its gradient is 0.

    Args:
        x: floats, (..., m, n).
        k: of the diagonal that is the last to stay: 0 the main one, above 0 one to the right of it.

    Raises:
        ValueError: fewer than two dimensions. TypeError: k is no integer.

    >>> ag.tril([[1.0, 2.0], [3.0, 4.0]]).tolist()
    [[1.0, 0.0], [3.0, 4.0]]
    """
    return _triangle("tril", x, k)


def triu(x: TensorLike, k: int = 0) -> Tensor:
    """The upper triangle of matrices, 0 elsewhere: x[..., i, j] stays where j >= i + k.

    What is dropped counts for nothing, NaN and infinities too, and its gradient is 0.

    Args:
        x: floats, (..., m, n).
        k: of the diagonal that is the first to stay: 0 the main one, above 0 one to the right of it.

    Raises:
        ValueError: fewer than two dimensions. TypeError: k is no integer.

    >>> ag.triu([[1.0, 2.0], [3.0, 4.0]], k=1).tolist()
    [[0.0, 2.0], [0.0, 0.0]]
    """
    return _triangle("triu", x, k)


def _triangle(op: str, x: TensorLike, k: int) -> Tensor:
    (x,) = floats(op, x)
    if x.ndim < 2:
        raise ValueError(f"{op}: shape {x.shape} has fewer than two dimensions")
    offset = integer(op, "k", k)
    a = wide(x)
    array = _triangle_of(a, offset, lower=op == "tril")
    if array is a:
        return x
    return record(op, result(array, x), (x,), lambda g: (_triangle(op, g, offset),))


def _triangle_of(a: Array, k: int, lower: bool) -> Array:
    """Parts that stay, parts that are 0, and between them one square that ggml halves; the array where all stays."""
    m, n = a.shape[-2:]
    first = min(max(-k, 0), m)  # the rows before it have no element on the diagonal k or to the left of it
    last = min(max(n - k, first), m)  # ... and those from it on none to the right
    rows, columns = len(a.shape) - 2, len(a.shape) - 1

    def part(axis: int, of: Array, start: int, stop: int, stays: bool) -> list[Array]:
        if start >= stop:
            return []
        piece = cut(of, axis, start, stop)
        return [piece if stays else filled(a.device, piece.shape, ZERO)]

    middle = []
    if first < last:
        band, left, right = cut(a, rows, first, last), first + k, last + k
        square = base.packed(cut(band, columns, left, right))
        half = a.device.graph.record(prim.TRI, (square,), square.shape, FLOAT, LOWER if lower else UPPER)
        row = [*part(columns, band, 0, left, lower), half, *part(columns, band, right, n, not lower)]
        middle = [joined(row, columns)]
    above, below = part(rows, a, 0, first, not lower), part(rows, a, last, m, lower)
    parts = [*above, *middle, *below]
    return a if not middle and len(parts) == 1 and parts[0].storage is a.storage else joined(parts, rows)


# ---------------------------------------------------------------- diagonals


def diag(x: TensorLike, k: int = 0) -> Tensor:
    """A matrix with a vector on a diagonal and 0 elsewhere; or a diagonal of a matrix, a view.

    Args:
        x: floats, (n,); or (m, n) of any type.
        k: which diagonal: 0 the main one, above 0 one to the right of it, below 0 one under it.

    Raises:
        ValueError: neither one nor two dimensions, no such diagonal in the matrix, or a matrix beyond 2**31 rows.
        TypeError: k is no integer; a vector of int32.

    >>> ag.diag([1.0, 2.0], 1).tolist()
    [[0.0, 1.0, 0.0], [0.0, 0.0, 2.0], [0.0, 0.0, 0.0]]
    >>> ag.diag([[1.0, 2.0], [3.0, 4.0]]).tolist()
    [1.0, 4.0]
    """
    x = any_type("diag", x)
    k = integer("diag", "k", k)
    if x.ndim == 2:
        m, n = x.shape
        if not -m < k < n:
            raise ValueError(f"diag: shape {x.shape} has no diagonal {k}")
        return diagonal(x, 0, 1, k)
    if x.ndim != 1:
        raise ValueError(f"diag: shape {x.shape} is neither a vector nor a matrix")
    (x,) = floats("diag", x)
    side = x.size + abs(k)
    if side >= MOST_REPEATS:
        raise ValueError(f"diag: k {k} asks for a matrix of {side} rows: at most 2**31 - 1 are possible")
    return _on_diagonal(x, side, side, k)


def diagonal(x: Tensor, axis1: int, axis2: int, k: int = 0) -> Tensor:
    """The diagonal k of two axes, which becomes the last axis: a view."""
    a = x._array
    m, n = a.shape[axis1], a.shape[axis2]
    down, right = max(-k, 0), max(k, 0)
    others = [i for i in range(x.ndim) if i not in (axis1, axis2)]
    out = a.view(
        (*(a.shape[i] for i in others), min(m - down, n - right)),
        (*(a.strides[i] for i in others), a.strides[axis1] + a.strides[axis2]),
        a.offset + down * a.strides[axis1] + right * a.strides[axis2],
    )
    order = [*others, axis1, axis2]
    back = [order.index(i) for i in range(x.ndim)]
    return record("diag", Tensor(out), (x,), lambda g: (permute(_on_diagonal(g, m, n, k), back),))


def _on_diagonal(x: Tensor, m: int, n: int, k: int) -> Tensor:
    """(..., length) -> (..., m, n) with these elements on the diagonal k, 0 elsewhere: the adjoint of `diagonal`."""
    *batch, length = x.shape
    a = base.reshaped(wide(x), (*batch, 1, length))
    square = a.device.graph.record(prim.DIAG, (a,), (*batch, length, length), FLOAT)
    down, right = max(-k, 0), max(k, 0)
    widths = [(0, 0)] * len(batch) + [(down, m - down - length), (right, n - right - length)]
    array = padded(square, widths) if any(map(any, widths)) else square
    rows, columns = len(batch), len(batch) + 1
    return record("diag", result(array, x), (x,), lambda g: (diagonal(g, rows, columns, k),))


__all__ = ["diag", "flip", "repeat", "roll", "tril", "triu"]
