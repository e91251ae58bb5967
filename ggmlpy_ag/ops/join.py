"""Putting tensors together, taking them apart, and padding."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..backend.array import INT, Array
from ..tape import record
from ..tensor import Tensor, TensorLike, as_numpy
from .base import any_type, check_dims, floats, int_shape, number, one_axis, sequence, wide
from .moving import cut, joined, padded, picked

WIDEST_PAD = 1 << 31


def concat(tensors: Sequence[TensorLike], axis: int = 0) -> Tensor:
    """Several tensors one after the other along an axis.

    Args:
        tensors: at least one, of any type; they have the same shape, but for that axis. The result has their type:
            float32 where they have several. int32 joins int32 only.
        axis: which; negative ones count from the last.

    Raises:
        ValueError: the shapes do not fit, there is no tensor, or they are on different devices.
        IndexError: there is no such axis. TypeError: int32 and floats; `tensors` is no sequence.

    >>> ag.concat([[1.0, 2.0], [3.0]]).tolist()
    [1.0, 2.0, 3.0]
    >>> ag.concat([ag.tensor([[1], [2]]), ag.tensor([[3], [4]])], axis=1).tolist()
    [[1, 3], [2, 4]]
    """
    xs = _several("concat", tensors)
    i = one_axis("concat", axis, xs[0].ndim)
    shapes = [x.shape for x in xs]
    for at, shape in enumerate(shapes):
        if len(shape) != xs[0].ndim or shape[:i] + shape[i + 1 :] != shapes[0][:i] + shapes[0][i + 1 :]:
            raise ValueError(
                f"concat: tensor {at} of shape {shape} does not fit tensor 0 of shape {shapes[0]} along axis {axis}"
            )
    ends = np.cumsum([shape[i] for shape in shapes]).tolist()
    cuts = [(slice(None),) * i + (slice(end - shape[i], end),) for shape, end in zip(shapes, ends, strict=True)]
    return record("concat", Tensor(joined(_one_type(xs), i)), xs, lambda g: tuple([g[cut] for cut in cuts]))


def stack(tensors: Sequence[TensorLike], axis: int = 0) -> Tensor:
    """Several tensors of one shape along a new axis.

    Args:
        tensors: at least one, of up to three dimensions; types as for `concat`.
        axis: where the new axis is in the result; negative ones count from the last.

    Raises:
        ValueError: the shapes differ or have four dimensions, there is no tensor, or they are on different devices.
        IndexError: there is no such axis. TypeError: int32 and floats; `tensors` is no sequence.

    >>> ag.stack([[1.0, 2.0], [3.0, 4.0]], axis=1).tolist()
    [[1.0, 3.0], [2.0, 4.0]]
    >>> ag.stack([1.0, 2.0, 3.0]).shape
    (3,)
    """
    xs = _several("stack", tensors)
    shape = xs[0].shape
    i = one_axis("stack", axis, len(shape) + 1)
    for at, x in enumerate(xs):
        if x.shape != shape:
            raise ValueError(f"stack: tensor {at} has shape {x.shape}, but tensor 0 has shape {shape}")
    check_dims("stack", (*shape[:i], len(xs), *shape[i:]))
    layers = [a.view((*a.shape[:i], 1, *a.shape[i:]), (*a.strides[:i], 1, *a.strides[i:])) for a in _one_type(xs)]
    before = (slice(None),) * i
    count = len(xs)
    return record("stack", Tensor(joined(layers, i)), xs, lambda g: tuple([g[(*before, k)] for k in range(count)]))


def _several(op: str, tensors: Sequence[TensorLike]) -> tuple[Tensor, ...]:
    """Operands of any type on one device: all float tensors, or all int32 ones."""
    if isinstance(tensors, Tensor):
        raise TypeError(f"{op}: tensors must be a sequence of tensors, not one of shape {tensors.shape}")
    values = sequence(op, tensors)
    if not values:
        raise ValueError(f"{op}: tensors must hold at least one tensor")
    first = next((v for v in values if type(v) is Tensor and v._array.dtype is INT), None)
    if first is None:
        return floats(op, *values)
    device = first._array.device
    xs = [v if type(v) is Tensor else Tensor(device.upload(as_numpy(v, None, f"{op}: a tensor"))) for v in values]
    for x in xs:
        if x._array.dtype is not INT:
            raise TypeError(f"{op}: an int32 tensor and one of {x.dtype} do not go together: use astype")
        if x._array.device is not device:
            raise ValueError(f"{op}: tensors are on {device.name} and {x.device}; move one with .to(device)")
    return tuple(xs)


def _one_type(xs: Sequence[Tensor]) -> list[Array]:
    """Their own type where it is the same for all, else float32."""
    same = len({x._array.dtype for x in xs}) == 1
    return [x._array if same else wide(x) for x in xs]


# ---------------------------------------------------------------- taking apart


def split(x: TensorLike, sizes: int | Sequence[int], axis: int = 0) -> tuple[Tensor, ...]:
    """Pieces along an axis, in order: views.

    Args:
        x: any shape but a scalar, any type.
        sizes: the extent of every piece (the last may be smaller), or one extent for each, which add up to the axis.
        axis: which; negative ones count from the last.

    Returns:
        a tuple of tensors.

    Raises:
        ValueError: an extent below 1, or extents that do not add up to that of the axis.
        IndexError: there is no such axis. TypeError: extents that are no integers.

    >>> [piece.tolist() for piece in ag.split([1.0, 2.0, 3.0, 4.0, 5.0], 2)]
    [[1.0, 2.0], [3.0, 4.0], [5.0]]
    >>> [piece.shape for piece in ag.split(ag.rand(2, 6), (1, 5), axis=1)]
    [(2, 1), (2, 5)]
    """
    x = any_type("split", x)
    i = one_axis("split", axis, x.ndim)
    n = x.shape[i]
    if isinstance(sizes, (int, np.integer)):
        (size,) = int_shape("split", (sizes,))
        if size < 1:
            raise ValueError(f"split: sizes must be at least 1, not {size}")
        return _pieces("split", x, size, i)
    given = int_shape("split", sizes)
    if not given or min(given) < 1 or sum(given) != n:
        raise ValueError(
            f"split: sizes must be positive and add up to {n}, axis {axis} of shape {x.shape}, not {given}"
        )
    ends = np.cumsum(given).tolist()
    return tuple([_piece("split", x, i, end - size, end) for size, end in zip(given, ends, strict=True)])


def chunk(x: TensorLike, chunks: int, axis: int = 0) -> tuple[Tensor, ...]:
    """At most so many pieces of equal extent along an axis: views.

    As in PyTorch, the last piece is smaller where the axis is no multiple, and there are fewer pieces where that many
    would leave some empty: 6 elements in 4 chunks are 3 pieces of 2.

    Args:
        x: any shape but a scalar, any type.
        chunks: how many, at least 1.
        axis: which; negative ones count from the last.

    Returns:
        a tuple of tensors.

    Raises:
        ValueError: fewer chunks than 1. IndexError: there is no such axis. TypeError: chunks is no integer.

    >>> [piece.tolist() for piece in ag.chunk([1.0, 2.0, 3.0, 4.0, 5.0], 2)]
    [[1.0, 2.0, 3.0], [4.0, 5.0]]
    """
    x = any_type("chunk", x)
    i = one_axis("chunk", axis, x.ndim)
    (count,) = int_shape("chunk", (chunks,))
    if count < 1:
        raise ValueError(f"chunk: chunks must be at least 1, not {count}")
    return _pieces("chunk", x, -(-x.shape[i] // count), i)


def _pieces(op: str, x: Tensor, size: int, axis: int) -> tuple[Tensor, ...]:
    n = x.shape[axis]
    return tuple([_piece(op, x, axis, start, min(start + size, n)) for start in range(0, n, size)])


def _piece(op: str, x: Tensor, axis: int, start: int, stop: int) -> Tensor:
    widths = [(start, n - stop) if k == axis else (0, 0) for k, n in enumerate(x.shape)]
    return record(op, Tensor(cut(x._array, axis, start, stop)), (x,), lambda g: (pad(g, widths),))


# ---------------------------------------------------------------- padding


def pad(x: TensorLike, widths: Sequence[tuple[int, int]], mode: str = "constant", value: float = 0.0) -> Tensor:
    """More elements before and after each dimension, as `numpy.pad` makes them.

    Args:
        x: any shape, any type.
        widths: (before, after) for each dimension, from 0 to 2**31 - 1.
        mode: "constant": `value` everywhere. "reflect": the elements mirrored at the first and the last, which are not
            repeated; a width must be less than the extent then.
        value: a number that x's type can hold, infinities and NaN included.

    Raises:
        ValueError: not one pair a dimension, a width outside its limits, or another mode.
        TypeError: widths that are no integers, or a value that is no number or a fraction for int32.

    >>> ag.pad([1.0, 2.0, 3.0], [(1, 2)], value=-1.0).tolist()
    [-1.0, 1.0, 2.0, 3.0, -1.0, -1.0]
    >>> ag.pad([1.0, 2.0, 3.0], [(2, 1)], mode="reflect").tolist()
    [3.0, 2.0, 1.0, 2.0, 3.0, 2.0]
    """
    x = any_type("pad", x)
    if not isinstance(mode, str) or mode not in ("constant", "reflect"):
        raise ValueError(f'pad: mode must be "constant" or "reflect", not {mode!r}')
    if number(value) is None:
        raise TypeError(f"pad: value must be a number, not {type(value).__name__}")
    fill = as_numpy(value, x.dtype, "pad: value")
    pairs = [int_shape("pad", pair) for pair in sequence("pad", widths)]
    if len(pairs) != x.ndim or any(len(p) != 2 or min(p) < 0 or max(p) >= WIDEST_PAD for p in pairs):
        raise ValueError(f"pad: shape {x.shape} needs {x.ndim} pairs of widths from 0 to 2**31 - 1, not {widths}")
    if not any(map(any, pairs)):
        return x
    if mode == "reflect":
        return _reflected(x, pairs)
    inside = tuple(slice(before, before + n) for n, (before, _) in zip(x.shape, pairs, strict=True))
    return record("pad", Tensor(padded(x._array, pairs, fill)), (x,), lambda g: (g[inside],))


def _reflected(x: Tensor, pairs: Sequence[Sequence[int]]) -> Tensor:
    shape = x.shape
    array = x._array
    for axis, (n, pair) in enumerate(zip(shape, pairs, strict=True)):
        if max(pair) >= n:
            raise ValueError(f"pad: widths {tuple(pair)} reflect at most {n - 1} of axis {axis} of shape {shape}")
        if any(pair):
            array = picked(array, np.pad(np.arange(n), pair, mode="reflect"), axis)

    def grad(g: Tensor) -> tuple[Tensor]:
        for axis, pair in enumerate(pairs):
            if any(pair):
                g = _folded(g, axis, shape[axis], *pair)
        return (g,)

    return record("pad", Tensor(array), (x,), grad)


def _folded(g: Tensor, axis: int, n: int, before: int, after: int) -> Tensor:
    """The adjoint of reflecting along an axis: what lies before and after is added to what it is a mirror image of."""
    ahead = (slice(None),) * axis
    total = g[(*ahead, slice(before, before + n))]
    widths = [(0, 0)] * g.ndim
    if before:
        widths[axis] = (1, n - 1 - before)
        total = total + pad(g[(*ahead, slice(before - 1, None, -1))], widths)
    if after:
        widths[axis] = (n - 1 - after, 1)
        total = total + pad(g[(*ahead, slice(None, -after - 1, -1))], widths)
    return total


__all__ = ["chunk", "concat", "pad", "split", "stack"]
