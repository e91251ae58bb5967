"""Selecting by index."""

from __future__ import annotations

from math import prod
from typing import Any

from ..backend import devices
from ..backend import primitives as prim
from ..backend.array import Array, Shape
from ..tape import record
from ..tensor import Tensor, TensorLike
from . import base, rows
from .addrows import add_up
from .base import any_type, check_dims, expanded, floats, integer, one_axis, result, wide
from .join import pad
from .moving import padded
from .rows import as_rows, from_rows


def take(x: TensorLike, indices: Any, axis: int = 0) -> Tensor:
    """Slices of x by their index along an axis, as `numpy.take` has it: rows of a table.

    The gradient of a slice goes to where it was taken from; of one taken several times, the sum.

    Args:
        x: at least one dimension, any type.
        indices: integers from 0 to n - 1 for an axis of extent n, of any shape: an int32 tensor or from the host.
            Negative ones are an error, as in PyTorch. Indices that were computed on the device are not looked at
            but limited to that range.
        axis: the axis; negative ones count from the last.

    Returns:
        The shape of `x` with the axis replaced by the shape of `indices`, in the type of `x`.

    Raises:
        IndexError: an index is out of range, or there is no such axis. TypeError: indices or axis are no integers.
        ValueError: the result would have more than four dimensions; tensors are on different devices.

    >>> ag.take([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [2, 0, 2]).tolist()
    [[5.0, 6.0], [1.0, 2.0], [5.0, 6.0]]
    >>> ag.take([[1.0, 2.0], [3.0, 4.0]], 1, axis=1).tolist()
    [2.0, 4.0]
    """
    x = any_type("take", x)
    axis = one_axis("take", axis, x.ndim)
    index = Tensor(base.indices("take", indices, x.shape[axis], x._array.device))
    check_dims("take", (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]))
    return taken("take", x, index, axis)


def embedding(indices: Any, weight: TensorLike) -> Tensor:
    """Rows of a table by index, as in `torch.nn.functional.embedding`.

    Args:
        indices: integers from 0 to n - 1, of at most three dimensions: an int32 tensor or from the host. Those that
            were computed on the device are not looked at but limited to that range.
        weight: (n, columns), any type.

    Returns:
        The shape of `indices` and the columns, in the type of `weight`.

    Raises:
        IndexError: an index is out of range. TypeError: indices are no integers.
        ValueError: `weight` has not two dimensions, `indices` more than three; tensors are on different devices.

    >>> ag.embedding([1, 1, 0], [[1.0, 2.0], [3.0, 4.0]]).tolist()
    [[3.0, 4.0], [3.0, 4.0], [1.0, 2.0]]
    """
    weight = any_type("embedding", weight)
    if weight.ndim != 2:
        raise ValueError(f"embedding: weight must be (n, columns), not {weight.shape}")
    index = Tensor(base.indices("embedding", indices, weight.shape[0], weight._array.device))
    check_dims("embedding", (*index.shape, weight.shape[1]))
    return taken("embedding", weight, index, 0)


def taken(op: str, x: Tensor, index: Tensor, axis: int) -> Tensor:
    """Slices of x by an int32 index in its range, in place of one axis; what `take` and `x[index]` share."""
    before = x.shape
    outer, n, inner = prod(before[:axis]), before[axis], prod(before[axis + 1 :])
    picked = rows.pick(base.reshaped(x._array, (outer, n, inner)), _repeated(index, outer))
    out = Tensor(picked.reshaped((*before[:axis], *index.shape, *before[axis + 1 :])))
    return record(op, out, (x,), lambda g: (_put(g, index, axis, before),))


def _put(g: Tensor, index: Tensor, axis: int, shape: Shape) -> Tensor:
    """The adjoint of `take`: slices added up by index."""
    outer, n, inner = prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])
    slices = base.reshaped(wide(g), (outer, index.size, inner))
    out = result(add_up(slices, _repeated(index, outer), n).reshaped(shape), g)
    return record("take", out, (g,), lambda gg: (taken("take", gg, index, axis),))


def _repeated(index: Tensor, times: int) -> Array:
    return expanded(index._array.reshaped((1, index.size)), (times, index.size))


# ---------------------------------------------------------------- along an axis


def gather(x: TensorLike, axis: int, index: Any) -> Tensor:
    """Elements of x by their index along an axis, as in `torch.gather`.

    Element (i, j, ..) of the result is x at (i, j, ..), but with index[i, j, ..] as coordinate along the axis. The
    gradient of an element goes to where it was taken from; of one taken several times, the sum.

    Args:
        x: at least one dimension, any type.
        axis: the axis; negative ones count from the last.
        index: integers from 0 to n - 1 for an axis of extent n, an int32 tensor or from the host. As many dimensions
            as `x`; along the others no larger than `x`. Indices that were computed on the device are not looked at
            but limited to that range.

    Returns:
        The shape of `index`, in the type of `x`.

    Raises:
        IndexError: an index is out of range, or there is no such axis. TypeError: index or axis are no integers.
        ValueError: the shapes do not fit; tensors are on different devices.

    >>> ag.gather([[1.0, 2.0], [3.0, 4.0]], 1, [[1], [0]]).tolist()
    [[2.0], [3.0]]
    """
    x = any_type("gather", x)
    axis = one_axis("gather", axis, x.ndim)
    where = _along("gather", x, axis, index)
    return gathered("gather", x, where, axis)


def scatter_add(x: TensorLike, axis: int, index: Any, src: TensorLike) -> Tensor:
    """x with elements of src added by their index along an axis, as `torch.scatter_add` does: the adjoint of `gather`.

    src at (i, j, ..) is added to x at (i, j, ..), but with index[i, j, ..] as coordinate along the axis; what meets at
    one place is added up.

    Args:
        x: float32, float16 or bfloat16, of at least one dimension.
        axis: the axis; negative ones count from the last.
        index: integers from 0 to n - 1 for an axis of extent n, an int32 tensor or from the host. As many dimensions
            as `x`; no larger than `src`, and along the other axes no larger than `x`. Indices that were computed on
            the device are not looked at but limited to that range.
        src: as `x`; beyond the shape of `index` it is not used.

    Returns:
        A new tensor of the shape of `x`.

    Raises:
        IndexError: an index is out of range, or there is no such axis. TypeError: index or axis are no integers.
        ValueError: the shapes do not fit; tensors are on different devices.

    >>> ag.scatter_add([0.0, 0.0, 1.0], 0, [0, 2, 0], [5.0, 6.0, 7.0]).tolist()
    [12.0, 0.0, 7.0]
    """
    x, src = floats("scatter_add", x, src)
    axis = one_axis("scatter_add", axis, x.ndim)
    where = _along("scatter_add", x, axis, index)
    shape, before = where.shape, src.shape
    if len(before) != len(shape) or any(n > m for n, m in zip(shape, before, strict=True)):
        raise ValueError(f"scatter_add: index of shape {shape} does not fit into src of shape {before}")
    used = wide(src)
    used = used.view(shape, used.strides)
    sums = _scatter(used, where, axis, x.shape)
    out = result(base.binary("scatter_add", prim.ADD, wide(x), sums), x, src)
    missing = [(0, n - m) for n, m in zip(before, shape, strict=True)]
    return record("scatter_add", out, (x, src), lambda g: (g, pad(gathered("scatter_add", g, where, axis), missing)))


def _along(op: str, x: Tensor, axis: int, index: Any) -> Tensor:
    """Checked indices along an axis of x."""
    shape = x.shape
    where = Tensor(base.indices(op, index, shape[axis], x._array.device))
    if where.ndim != len(shape) or any(i != axis and n > shape[i] for i, n in enumerate(where.shape)):
        raise ValueError(
            f"{op}: index of shape {where.shape} does not fit x of shape {shape}: as many dimensions are needed, and "
            f"none but axis {axis} may be larger"
        )
    return where


def gathered(op: str, x: Tensor, index: Tensor, axis: int) -> Tensor:
    """`gather` by checked indices."""
    before = x.shape
    a = x._array
    used = a.view((*index.shape[:axis], before[axis], *index.shape[axis + 1 :]), a.strides)
    picked = rows.pick_along(as_rows(used, (axis,)), as_rows(index._array, (axis,)))
    out = Tensor(from_rows(picked, index.shape, axis))
    return record(op, out, (x,), lambda g: (_scattered(op, g, index, axis, before),))


def _scattered(op: str, g: Tensor, index: Tensor, axis: int, shape: Shape) -> Tensor:
    """The adjoint of `gathered`: `scatter_add` to zeros."""
    out = result(_scatter(wide(g), index, axis, shape), g)
    return record(op, out, (g,), lambda gg: (gathered(op, gg, index, axis),))


def _scatter(a: Array, index: Tensor, axis: int, shape: Shape) -> Array:
    """float32 of the shape of index -> `shape`."""
    flat = as_rows(a, (axis,))
    sums = add_up(flat.reshaped((*flat.shape, 1)), as_rows(index._array, (axis,)), shape[axis])
    out = from_rows(sums.reshaped((flat.shape[0], shape[axis])), index.shape, axis)
    return out if out.shape == shape else padded(out, [(0, n - m) for n, m in zip(shape, out.shape, strict=True)])


# ---------------------------------------------------------------- one-hot


def one_hot(indices: Any, n: int) -> Tensor:
    """1 at each index, 0 elsewhere, along a new last dimension; no gradient.

    Args:
        indices: integers from 0 to n - 1, of at most three dimensions: an int32 tensor or from the host. Those that
            were computed on the device are not looked at but limited to that range.
        n: how many classes, from 1 to 2**24.

    Returns:
        float32, the shape of `indices` and n.

    Raises:
        IndexError: an index is out of range. TypeError: indices or n are no integers.
        ValueError: n is less than 1 or more than 2**24; `indices` has more than three dimensions.

    >>> ag.one_hot([2, 0], 3).tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    n = integer("one_hot", "n", n)
    if not 1 <= n <= rows.EXACT:
        raise ValueError(f"one_hot: n must be from 1 to {rows.EXACT}, not {n}")
    device = indices._array.device if isinstance(indices, Tensor) else devices.get()
    index = base.indices("one_hot", indices, n, device)
    check_dims("one_hot", (*index.shape, n))
    return Tensor(rows.one_hot(index, n))


__all__ = ["embedding", "gather", "one_hot", "scatter_add", "take"]
