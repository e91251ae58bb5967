"""Shape: views that share their operand's storage; types and devices."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ..backend import devices
from ..backend.array import INT
from ..tape import record
from ..tensor import Tensor, TensorLike, as_numpy, parse_dtype
from . import base
from .base import check_dims, floats, int_shape, one_axis


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
    x = _any("astype", x)
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
    if dtype is None and _names_type(device):
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


def _names_type(value: Any) -> bool:
    try:
        parse_dtype(value)
    except TypeError:
        return False
    return value is not None  # which NumPy takes for float64


__all__ = ["astype", "matrix_transpose", "permute", "reshape", "to", "transpose"]
