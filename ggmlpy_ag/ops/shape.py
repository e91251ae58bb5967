"""Shape and selection: views that share their operand's storage, and padding, the adjoint of slicing."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ..backend import devices
from ..backend import primitives as prim
from ..backend.array import FLOAT, INT, Shape
from ..tape import record
from ..tensor import Index, Tensor, TensorLike, parse_dtype
from . import base
from .base import check_dims, floats, int_shape, one_axis, sequence


def _any(op: str, x: TensorLike) -> Tensor:
    """A tensor of either dtype."""
    return x if type(x) is Tensor else floats(op, x)[0]


def reshape(x: TensorLike, *shape: Any) -> Tensor:
    """The same elements, in C order, in another shape; one extent may be -1. A view where `x` is contiguous.

    Raises:
        ValueError: the sizes differ, an extent is negative or zero, more than one is -1, or there are more than four.
    """
    x = _any("reshape", x)
    wanted = int_shape("reshape", _spread_out(shape))
    known = prod(n for n in wanted if n != -1)
    if wanted.count(-1) > 1 or any(n < 1 and n != -1 for n in wanted):
        raise ValueError(f"reshape: extents must be positive, and at most one -1, not {wanted}")
    if (-1 in wanted and x.size % known) or (-1 not in wanted and known != x.size):
        raise ValueError(f"reshape: shape {x.shape} of {x.size} elements does not fit {wanted}")
    target = tuple(x.size // known if n == -1 else n for n in wanted)
    check_dims("reshape", target)
    before = x.shape
    if target == before:
        return x
    return record("reshape", Tensor(base.reshaped(x._array, target)), (x,), lambda g: (reshape(g, before),))


def _spread_out(arguments: tuple[Any, ...]) -> Sequence[Any]:
    """f(2, 3), f((2, 3)) and f([2, 3]) mean the same."""
    if len(arguments) == 1 and isinstance(arguments[0], (tuple, list)):
        return arguments[0]
    return arguments


def permute(x: TensorLike, *axes: Any) -> Tensor:
    """The dimensions in another order: a view.

    Raises:
        ValueError: the axes are not each dimension once. IndexError: there is no such axis.
    """
    x = _any("permute", x)
    given = _spread_out(axes)
    order = tuple([one_axis("permute", a, x.ndim) for a in given])
    if sorted(order) != list(range(x.ndim)):
        raise ValueError(f"permute: {tuple(given)} does not name each of {x.ndim} dimensions once")
    back = tuple([order.index(i) for i in range(x.ndim)])
    return record("permute", Tensor(x._array.permuted(order)), (x,), lambda g: (permute(g, back),))


def transpose(x: TensorLike, *axes: Any) -> Tensor:
    """Two dimensions swapped, or all reversed when none is named (NumPy's `.T`): a view.

    Raises:
        ValueError: one or more than two axes. IndexError: there is no such axis.
    """
    x = _any("transpose", x)
    given = _spread_out(axes)
    order = list(range(x.ndim))
    if not given:
        order.reverse()
    elif len(given) == 2:
        i, j = (one_axis("transpose", a, x.ndim) for a in given)
        order[i], order[j] = j, i
    else:
        raise ValueError(f"transpose: name two axes or none, not {tuple(given)}; permute takes all of them")
    # the order is its own inverse
    return record("transpose", Tensor(x._array.permuted(tuple(order))), (x,), lambda g: (transpose(g, *given),))


def matrix_transpose(x: Tensor) -> Tensor:
    """The last two dimensions swapped: a view.

    Raises:
        ValueError: fewer than two dimensions.
    """
    if x.ndim < 2:
        raise ValueError(f"matrix_transpose: shape {x.shape} has fewer than two dimensions")
    return record("transpose", Tensor(x._array.swapped()), (x,), lambda g: (matrix_transpose(g),))


def getitem(x: Tensor, index: Index) -> Tensor:
    """x[index] for integers, slices with a positive step, None and ...: a view.

    Raises:
        IndexError: an integer out of range, or too many indices. TypeError: another kind of index.
        ValueError: a step that is not positive, or nothing selected.
    """
    items = index if isinstance(index, tuple) else (index,)
    cuts, kept = _parse_index(x.shape, items)
    a = x._array
    picked = tuple(len(c) for c in cuts)
    strides = tuple(s * c.step for s, c in zip(a.strides, cuts, strict=True))
    offset = a.offset + sum(s * c.start for s, c in zip(a.strides, cuts, strict=True))
    shape = tuple(1 if i is None else picked[i] for i in kept)
    check_dims("index", shape)
    out = Tensor(a.view(shape, tuple(0 if i is None else strides[i] for i in kept), offset))
    before = x.shape
    return record("index", out, (x,), lambda g: (_scatter(reshape(g, picked), before, cuts),))


def _parse_index(shape: Shape, items: tuple[Any, ...]) -> tuple[list[range], list[int | None]]:
    """For each dimension the range of indices taken; for each of the result, which one that is (None: a new one)."""
    for item in items:
        if isinstance(item, (bool, np.bool_)) or not (
            item is None or item is Ellipsis or isinstance(item, (int, np.integer, slice))
        ):
            raise TypeError(f"index: only integers, slices, None and ... select here, not {type(item).__name__}")
    named = sum(1 for i in items if i is not None and i is not Ellipsis)
    if items.count(Ellipsis) > 1:
        raise IndexError("index: more than one ...")
    if named > len(shape):
        raise IndexError(f"index: {named} indices for shape {shape}")
    cuts: list[range] = []
    kept: list[int | None] = []
    for item in _expanded(items, len(shape) - named):
        if item is None:
            kept.append(None)
            continue
        n = shape[len(cuts)]
        if isinstance(item, slice):
            try:
                cut = range(*item.indices(n))
            except (TypeError, ValueError) as error:  # bounds that are no integers, a step of 0
                raise type(error)(f"index: {error}") from None
            if cut.step < 1:
                raise ValueError(f"index: a slice's step must be positive, not {cut.step}")
            if not cut:
                raise ValueError(f"index: {item} selects nothing of {n}: a tensor needs at least one element")
            if len(cut) == 1:  # however large its step was: the gradient of a slice pads by steps
                cut = range(cut.start, cut.start + 1)
            kept.append(len(cuts))
        else:
            if not -n <= item < n:
                raise IndexError(f"index: {item} is out of range for dimension {len(cuts)} of shape {shape}")
            start = int(item) % n  # an int8 may be too small for n
            cut = range(start, start + 1)
        cuts.append(cut)
    return cuts, kept


def _expanded(items: tuple[Any, ...], missing: int) -> list[Any]:
    """The index with ... (or its end) written out as full slices."""
    full = [slice(None)] * missing
    at = items.index(Ellipsis) if Ellipsis in items else len(items)
    return [*items[:at], *full, *items[at + 1 :]]


def _scatter(g: Tensor, shape: Shape, cuts: Sequence[range]) -> Tensor:
    """Zeros of `shape` with `g` where the ranges point: the adjoint of a slice."""
    for axis, (n, cut) in enumerate(zip(shape, cuts, strict=True)):
        if cut.step > 1:  # element, step - 1 zeros, element, ...: pad in a dimension of its own, and merge
            before = g.shape
            rows, inner = prod(before[: axis + 1]), prod(before[axis + 1 :])
            wide = pad(reshape(g, rows, inner), [(0, 0), (0, (cut.step - 1) * inner)])
            g = reshape(wide, *before[:axis], before[axis] * cut.step, *before[axis + 1 :])
            g = getitem(g, (slice(None),) * axis + (slice(0, min(g.shape[axis], n - cut.start)),))
    widths = [(cut.start, n - cut.start - m) for n, m, cut in zip(shape, g.shape, cuts, strict=True)]
    return pad(g, widths)


def pad(x: TensorLike, widths: Sequence[tuple[int, int]]) -> Tensor:
    """Zeros before and after each dimension.

    Args:
        widths: (before, after) for each dimension, from 0 to 2**31 - 1.

    Raises:
        ValueError: not one pair a dimension, or a width outside its limits. TypeError: widths that are no integers.
    """
    (x,) = floats("pad", x)
    pairs = [int_shape("pad", pair) for pair in sequence("pad", widths)]
    if len(pairs) != x.ndim or any(len(p) != 2 or min(p) < 0 or max(p) >= 1 << 31 for p in pairs):
        raise ValueError(f"pad: shape {x.shape} needs {x.ndim} pairs of widths from 0 to 2**31 - 1, not {widths}")
    if not any(map(any, pairs)):
        return x
    shape = tuple(n + before + after for n, (before, after) in zip(x.shape, pairs, strict=True))
    flat = [w for pair in reversed(pairs) for w in pair]
    flat += [0] * (8 - len(flat))
    out = Tensor(x._array.device.graph.record(prim.PAD, (x._array,), shape, FLOAT, *flat))
    inside = tuple(slice(before, before + n) for n, (before, _) in zip(x.shape, pairs, strict=True))
    return record("pad", out, (x,), lambda g: (getitem(g, inside),))


def astype(x: TensorLike, dtype: Any) -> Tensor:
    """As float32 or int32 (fractions cut off); the same tensor where it is that already. No gradient to int32."""
    x = _any("astype", x)
    wanted = parse_dtype(dtype)
    if wanted is x.dtype:
        return x
    primitive = prim.TO_INT if wanted is INT else prim.TO_FLOAT
    out = x._array.device.graph.record(primitive, (x._array,), x.shape, wanted)
    return Tensor(out)


def to(x: Tensor, device: str) -> Tensor:
    """The values on another device (the same tensor where they are there already), with gradient.

    Raises:
        ValueError: there is no such device. TypeError: `x` is no tensor.
    """
    if not isinstance(x, Tensor):
        raise TypeError(f"to: a Tensor moves between devices, not {type(x).__name__}; ag.tensor takes a device")
    target = devices.get(device)
    source = x._array.device
    if target is source:
        return x
    out = Tensor(target.upload(source.download(x._array)))
    home = source.name
    return record("to", out, (x,), lambda g: (to(g, home),))


__all__ = ["astype", "matrix_transpose", "pad", "permute", "reshape", "to", "transpose"]
