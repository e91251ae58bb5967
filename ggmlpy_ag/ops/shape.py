"""Shape: views that share their operand's storage; types and devices."""

from __future__ import annotations

from math import prod
from typing import Any

from ..backend import devices
from ..backend.array import INT, Array, Shape
from ..tape import record
from ..tensor import Axes, Tensor, TensorLike, as_numpy, parse_dtype
from . import base
from .base import any_type, check_dims, floats, int_shape, one_axis, some_axes, spread_out
from .reduce import broadcast_to


def reshape(x: TensorLike, *shape: Any) -> Tensor:
    """The same elements, in C order, in another shape. A view where `x` is contiguous, else a copy.

    Args:
        x: any shape, any type.
        shape: extents, one by one or as a tuple; one of them may be -1, which is worked out from the others.

    Raises:
        ValueError: the sizes differ, an extent is negative or zero, more than one is -1, or there are more than four.
        TypeError: an extent that is no integer.

    >>> ag.reshape([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], 3, -1).tolist()
    [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    """
    x = any_type("reshape", x)
    wanted = int_shape("reshape", spread_out(shape))
    known = prod(n for n in wanted if n != -1)
    if wanted.count(-1) > 1 or any(n < 1 and n != -1 for n in wanted):
        raise ValueError(f"reshape: extents must be positive, and at most one -1, not {wanted}")
    if (-1 in wanted and x.size % known) or (-1 not in wanted and known != x.size):
        raise ValueError(f"reshape: shape {x.shape} of {x.size} elements does not fit {wanted}")
    target = tuple(x.size // known if n == -1 else n for n in wanted)
    check_dims("reshape", target)
    return _reshaped("reshape", x, target)


def _reshaped(op: str, x: Tensor, target: Shape) -> Tensor:
    before = x.shape
    if target == before:
        return x
    return record(op, Tensor(base.reshaped(x._array, target)), (x,), lambda g: (_reshaped(op, g, before),))


def flatten(x: TensorLike, start: int = 0, end: int = -1) -> Tensor:
    """Neighbouring dimensions made one, in C order: a view where `x` is contiguous, else a copy.

    Args:
        x: any shape, any type; a scalar becomes one element.
        start: the first of these dimensions.
        end: the last of them. Negative ones count from the last dimension.

    Raises:
        IndexError: there is no such dimension. ValueError: the last comes before the first.
        TypeError: one is no integer.

    >>> ag.flatten(ag.rand(2, 3, 4)).shape
    (24,)
    >>> ag.flatten(ag.rand(2, 3, 4), start=1).shape
    (2, 12)
    """
    x = any_type("flatten", x)
    first, last = (one_axis("flatten", a, max(x.ndim, 1)) for a in (start, end))
    if last < first:
        raise ValueError(f"flatten: end {end} comes before start {start} in shape {x.shape}")
    shape = x.shape or (1,)
    return _reshaped("flatten", x, (*shape[:first], prod(shape[first : last + 1]), *shape[last + 1 :]))


def squeeze(x: TensorLike, axis: Axes = None) -> Tensor:
    """Without dimensions of extent 1: all of them, or some.

    Args:
        x: any shape, any type.
        axis: an axis or several; negative ones count from the last.

    Raises:
        ValueError: an axis of another extent, or named twice. IndexError: there is no such axis.
        TypeError: an axis that is no integer.

    >>> ag.squeeze([[[1.0], [2.0]]]).tolist()
    [1.0, 2.0]
    >>> ag.squeeze([[[1.0], [2.0]]], axis=0).tolist()
    [[1.0], [2.0]]
    """
    x = any_type("squeeze", x)
    axes = some_axes("squeeze", axis, x.ndim)
    wrong = [i for i in axes if x.shape[i] != 1]
    if axis is not None and wrong:
        raise ValueError(f"squeeze: axis {wrong[0]} of shape {x.shape} has more than one element")
    a = x._array
    kept = [i for i, n in enumerate(a.shape) if i not in axes or n != 1]
    return _extents_of_one("squeeze", x, a.view(tuple([a.shape[i] for i in kept]), tuple([a.strides[i] for i in kept])))


def unsqueeze(x: TensorLike, axis: int) -> Tensor:
    """With a new dimension of extent 1: a view.

    Args:
        x: up to three dimensions, any type.
        axis: where the new dimension is in the result; negative ones count from the last.

    Raises:
        IndexError: there is no such place. ValueError: x has four dimensions. TypeError: axis is no integer.

    >>> ag.unsqueeze([1.0, 2.0], 0).tolist()
    [[1.0, 2.0]]
    >>> ag.unsqueeze([1.0, 2.0], -1).tolist()
    [[1.0], [2.0]]
    """
    x = any_type("unsqueeze", x)
    i = one_axis("unsqueeze", axis, x.ndim + 1)
    a = x._array
    shape = (*a.shape[:i], 1, *a.shape[i:])
    check_dims("unsqueeze", shape)
    return _extents_of_one("unsqueeze", x, a.view(shape, (*a.strides[:i], 1, *a.strides[i:])))


def _extents_of_one(op: str, x: Tensor, view: Array) -> Tensor:
    """A view with other dimensions of one element."""
    before = x.shape
    if view.shape == before:
        return x
    return record(op, Tensor(view), (x,), lambda g: (_reshaped(op, g, before),))


def expand(x: TensorLike, *shape: Any) -> Tensor:
    """Repeated to a shape that it broadcasts to: `broadcast_to` with PyTorch's -1.

    Args:
        x: floats, any shape.
        shape: extents, one by one or as a tuple. -1 leaves that extent as it is; new dimensions come in front.

    Raises:
        ValueError: x does not broadcast to that shape, or -1 for a new dimension. TypeError: an extent that is no
            integer.

    >>> ag.expand([[1.0], [2.0]], -1, 3).tolist()
    [[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]]
    """
    (x,) = floats("expand", x)
    given = int_shape("expand", spread_out(shape))
    new = len(given) - x.ndim
    wanted = tuple([x.shape[i - new] if n == -1 and i >= new else n for i, n in enumerate(given)])
    check_dims("expand", wanted)
    if any(n < 1 for n in wanted) or new < 0 or base.broadcast("expand", x.shape, wanted) != wanted:
        raise ValueError(f"expand: shape {x.shape} does not broadcast to {given}; -1 keeps an extent that there is")
    return broadcast_to(x, wanted)


def permute(x: TensorLike, *axes: Any) -> Tensor:
    """The dimensions in another order: a view.

    Args:
        x: any shape, any type.
        axes: each dimension once, one by one or as a tuple; negative ones count from the last.

    Raises:
        ValueError: the axes are not each dimension once. IndexError: there is no such axis.
        TypeError: an axis that is no integer.

    >>> ag.permute(ag.rand(2, 3, 4), 2, 0, 1).shape
    (4, 2, 3)
    """
    x = any_type("permute", x)
    given = spread_out(axes)
    order = tuple([one_axis("permute", a, x.ndim) for a in given])
    if sorted(order) != list(range(x.ndim)):
        raise ValueError(f"permute: {tuple(given)} does not name each of {x.ndim} dimensions once")
    back = tuple([order.index(i) for i in range(x.ndim)])
    return record("permute", Tensor(x._array.permuted(order)), (x,), lambda g: (permute(g, back),))


def transpose(x: TensorLike, *axes: Any) -> Tensor:
    """Two dimensions swapped, or all reversed when none is named (NumPy's `.T`): a view.

    Args:
        x: any shape, any type.
        axes: two dimensions or none; negative ones count from the last.

    Raises:
        ValueError: one or more than two axes. IndexError: there is no such axis. TypeError: an axis that is no integer.

    >>> ag.transpose([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).tolist()
    [[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]
    >>> ag.transpose(ag.rand(2, 3, 4), 0, 1).shape
    (3, 2, 4)
    """
    x = any_type("transpose", x)
    given = spread_out(axes)
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
    """The last two dimensions swapped: a view; also written `x.mT`.

    Args:
        x: a tensor of at least two dimensions, any type.

    Raises:
        ValueError: fewer than two dimensions.

    >>> ag.matrix_transpose(ag.rand(2, 3, 4)).shape
    (2, 4, 3)
    """
    if x.ndim < 2:
        raise ValueError(f"matrix_transpose: shape {x.shape} has fewer than two dimensions")
    return record("transpose", Tensor(x._array.swapped()), (x,), lambda g: (matrix_transpose(g),))


def astype(x: TensorLike, dtype: Any) -> Tensor:
    """The values in another type; the same tensor where they have it already.

    Args:
        x: any shape, any type.
        dtype: "float32", "float16", "bfloat16" or "int32". To int32, fractions are cut off and no gradient leads back.

    Raises:
        TypeError: another type.

    >>> ag.astype([1.5, -2.5], "int32").tolist()
    [1, -2]
    >>> ag.tensor([1.0001]).astype("float16").tolist()
    [1.0]
    """
    x = any_type("astype", x)
    wanted = parse_dtype(dtype)
    before = x.dtype
    if wanted is before:
        return x
    out = Tensor(base.cast(x._array, wanted))
    if wanted is INT or before is INT:
        return out
    return record("astype", out, (x,), lambda g: (astype(g, before),))


def to(x: Tensor, device: str | Any = None, dtype: Any = None) -> Tensor:
    """The values on another device, in another type, or both, with gradient.

    Args:
        x: a tensor of any shape and type; it is the result where nothing changes.
        device: a device name. A type may stand here instead: `x.to("float16")`.
        dtype: as for `astype`.

    Raises:
        ValueError: there is no such device. TypeError: `x` is no tensor; no such type.

    >>> ag.tensor([1.0, 2.0]).to("cpu", "float16").dtype
    dtype('float16')
    """
    if not isinstance(x, Tensor):
        raise TypeError(f"to: a Tensor moves between devices, not {type(x).__name__}; ag.tensor takes a device")
    if dtype is None and names_type(device):
        device, dtype = None, device
    if dtype is not None:
        x = astype(x, dtype)
    if device is None:
        return x
    target = devices.get(device)
    source = x._array.device
    if target is source:
        return x
    out = Tensor(target.upload(as_numpy(source.download(x._array), x.dtype, "x")))
    home = source.name
    return record("to", out, (x,), lambda g: (to(g, home),))


def names_type(value: Any) -> bool:
    """Whether a value is one of our types in any spelling, as the first argument of `to` may be; None is not."""
    try:
        parse_dtype(value)
    except TypeError:
        return False
    return value is not None  # which NumPy takes for float64


__all__ = [
    "astype", "expand", "flatten", "matrix_transpose", "permute", "reshape", "squeeze", "to", "transpose", "unsqueeze",
]  # fmt: skip
