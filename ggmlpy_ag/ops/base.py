"""What every family of operations shares: checking operands, and recording one primitive."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..backend import devices
from ..backend import primitives as prim
from ..backend.array import BFLOAT, FLOAT, HALF, INT, MAX_DIMS, Array, Shape, dtype_name, extents
from ..backend.devices import Device
from ..backend.primitives import Primitive
from ..tensor import Tensor, TensorLike, as_numpy


def number(value: Any) -> float | None:
    """A Python or NumPy real number as a float, None for anything else. ValueError for an integer beyond all floats."""
    if type(value) is Tensor:
        return None
    if isinstance(value, (numbers.Real, np.bool_)):
        try:
            return float(value)
        except OverflowError:
            raise ValueError("an operand is an integer too large for a float") from None
    return None


def finite(op: str, name: str, value: Any) -> float:
    """An argument as a float. Raises TypeError for what is no number, ValueError for an infinite one or NaN."""
    checked = number(value)
    if checked is None:
        raise TypeError(f"{op}: {name} must be a number, not {value!r}")
    if not math.isfinite(checked):
        raise ValueError(f"{op}: {name} must be finite, not {value}")
    return checked


def integer(op: str, name: str, value: Any) -> int:
    """An argument as a Python integer. Raises TypeError for anything else, bools included."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{op}: {name} must be an integer, not {value!r}")
    return int(value)


def floats(op: str, *values: TensorLike) -> tuple[Tensor, ...]:
    """Operands as float tensors on one device; numbers and arrays go where the tensors among them are.

    Raises:
        TypeError: an int32 tensor, or something that is no number. ValueError: tensors on different devices.
    """
    device: Device | None = None
    converted = True
    for value in values:
        if type(value) is Tensor:
            array = value._array
            if array.dtype is INT:
                raise TypeError(
                    f'{op} takes float32, but an operand of shape {value.shape} is {value.dtype}: use astype("float32")'
                )
            here = array.storage.device
            if device is not here:
                if device is not None:
                    raise ValueError(f"{op}: operands are on {device.name} and {here.name}; move one with .to(device)")
                device = here
        else:
            converted = False
    if converted:
        return values  # type: ignore[return-value]
    where = device or devices.get()
    return tuple([v if type(v) is Tensor else from_host(op, v, where) for v in values])


def any_type(op: str, x: TensorLike) -> Tensor:
    """An operand as a tensor of any type."""
    return x if type(x) is Tensor else floats(op, x)[0]


def spread_out(arguments: tuple[Any, ...]) -> Sequence[Any]:
    """f(2, 3), f((2, 3)) and f([2, 3]) mean the same."""
    if len(arguments) == 1 and isinstance(arguments[0], (tuple, list)):
        return arguments[0]
    return arguments


def wide(x: Tensor) -> Array:
    """The float32 values to compute with, whatever type they are stored in."""
    array = x._array
    return array if array.dtype is FLOAT else cast(array, FLOAT)


def result(array: Array, *operands: Tensor) -> Tensor:
    """What was computed in float32, in the type of the operands: float16 or bfloat16 where all of them are."""
    dtype = operands[0]._array.dtype
    if dtype is FLOAT:
        return Tensor(array)
    for x in operands:
        if x._array.dtype is not dtype:
            return Tensor(array)  # of mixed operands
    return Tensor(cast(array, dtype))


def from_host(op: str, value: TensorLike, device: Device) -> Tensor:
    """A number or array as a float32 tensor on this device."""
    constant = number(value)
    if constant is not None:
        return Tensor(device.constant(constant))
    return Tensor(device.upload(as_numpy(value, FLOAT, f"{op}: an operand")))


def broadcast(op: str, *shapes: Shape) -> Shape:
    """The shape NumPy broadcasts these to.

    Raises:
        ValueError: naming the operation and the shapes.
    """
    try:
        return _broadcast_shapes(*shapes)
    except ValueError:
        raise ValueError(f"{op}: shapes {' and '.join(map(str, shapes))} do not broadcast") from None


_broadcast_shapes = lru_cache(maxsize=4096)(np.broadcast_shapes)


def one_axis(op: str, axis: int, ndim: int) -> int:
    """A non-negative axis. Raises IndexError when it is out of range, TypeError when it is no integer."""
    if isinstance(axis, bool) or not isinstance(axis, (int, np.integer)):
        raise TypeError(f"{op}: axis must be an integer, not {axis!r}")
    if not -ndim <= axis < ndim:
        raise IndexError(f"{op}: axis {axis} is out of range for {ndim} dimensions")
    return int(axis) % ndim


def some_axes(op: str, axis: int | Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    """Sorted non-negative axes; None means all. Raises as `one_axis`, and ValueError for an axis named twice."""
    if axis is None:
        return tuple(range(ndim))
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = sorted(one_axis(op, a, ndim) for a in given)
    if len(set(axes)) != len(axes):
        raise ValueError(f"{op}: axes {tuple(given)} name one dimension twice")
    return tuple(axes)


def sequence(op: str, values: Any) -> tuple[Any, ...]:
    """Any sequence as a tuple. Raises TypeError for what is none."""
    try:
        return tuple(values)
    except TypeError:
        raise TypeError(f"{op}: a sequence is needed, not {values!r}") from None


def int_shape(op: str, shape: Sequence[Any]) -> Shape:
    """Extents as Python integers. Raises TypeError for anything else."""
    shape = sequence(op, shape)
    for n in shape:
        if isinstance(n, bool) or not isinstance(n, (int, np.integer)):
            raise TypeError(f"{op}: extents must be integers, not {n!r}")
    return tuple(int(n) for n in shape)


def check_dims(op: str, shape: Shape) -> None:
    """Raise ValueError for more dimensions than ggml has."""
    if len(shape) > MAX_DIMS:
        raise ValueError(f"{op}: shape {shape} has more than {MAX_DIMS} dimensions")


def full_shape(op: str, extents: Sequence[Any]) -> Shape:
    """Extents of a tensor to be made. Raises ValueError for too many or one below 1, TypeError for no integers."""
    shape = int_shape(op, extents)
    check_dims(op, shape)
    if any(n < 1 for n in shape):
        raise ValueError(f"{op}: extents must be positive, not {shape}")
    return shape


def indices(op: str, value: Any, n: int, device: Device) -> Array:
    """Indices from 0 to n - 1 as a packed int32 array on this device.

    What comes from the host is checked. What was computed on the device is clamped instead: checking it would mean to
    wait for it and to download it.

    Raises:
        IndexError: an index outside [0, n), named with its place. TypeError: no integers. ValueError: another device.
    """
    if not isinstance(value, Tensor):
        try:
            values = np.asarray(value)
        except ValueError as error:
            raise ValueError(f"{op}: indices must be a regular array: {error}") from None
        if values.dtype.kind not in "iu":
            raise TypeError(f"{op}: indices must be integers, not {values.dtype}")
        check_indices(op, values, n)
        return device.upload(as_numpy(values, INT, f"{op}: indices"))
    if value._array.dtype is not INT:
        raise TypeError(f"{op}: indices must be int32, not {dtype_name(value.dtype)}")
    array = value._array
    if array.device is not device:
        raise ValueError(f"{op}: indices are on {value.device}, the values on {device.name}; move one with .to(device)")
    bounds = array.storage.bounds
    if bounds is None:
        last = np.float32(n - 1)  # which was rounded up, perhaps
        highest = last if int(last) < n else np.nextafter(last, np.float32(0))
        return cast(clamped(cast(array, FLOAT), 0.0, float(highest)), INT)
    if bounds[0] < 0 or bounds[1] >= n:  # of the whole storage, of which this may be a part
        check_indices(op, value.numpy(), n)
    return packed(array)


def check_indices(op: str, values: np.ndarray, n: int) -> None:
    """Raise IndexError for an index outside [0, n), named with its place."""
    wrong = np.flatnonzero((values < 0) | (values >= n))
    if wrong.size:
        at = int(wrong[0])
        place = tuple(int(i) for i in np.unravel_index(at, values.shape))
        raise IndexError(f"{op}: index {values.reshape(-1)[at]} at {place} is outside [0, {n})")


# ---------------------------------------------------------------- arrays: one primitive each, no tape


def cast(a: Array, dtype: np.dtype) -> Array:
    """In another type. ggml converts between float32 and each other type only."""
    if a.dtype is dtype:
        return a
    if FLOAT not in (a.dtype, dtype):
        a = cast(a, FLOAT)
    return a.device.graph.record(_CASTS[dtype], (a,), a.shape, dtype)


_CASTS = {FLOAT: prim.TO_FLOAT, HALF: prim.TO_HALF, BFLOAT: prim.TO_BFLOAT, INT: prim.TO_INT}


def unary(primitive: Primitive, a: Array, *parameters: Any) -> Array:
    """A primitive whose result has its operand's shape."""
    return a.storage.device.graph.record(primitive, (a,), a.shape, FLOAT, *parameters)


def binary(op: str, primitive: Primitive, a: Array, b: Array) -> Array:
    """An elementwise primitive of two operands, broadcast both ways; ggml itself repeats only the second."""
    if a.shape == b.shape:
        shape = a.shape
    else:
        if primitive is prim.MUL and (c := b.storage.constant) is not None and len(b.shape) <= len(a.shape):
            return scaled(a, c)  # such as the gradient 1 that backward starts from
        shape = broadcast(op, a.shape, b.shape)
        if a.shape != shape:
            if b.shape == shape and primitive in (prim.ADD, prim.MUL):
                a, b = b, a
            else:
                a = expanded(a, shape)
    return a.storage.device.graph.record(primitive, (a, b), shape, FLOAT)


def expanded(a: Array, shape: Shape) -> Array:
    """Repeated to a shape it broadcasts to."""
    return a.storage.device.graph.record(prim.REPEAT, (a,), shape, a.dtype, *extents(shape))


def scaled(a: Array, factor: float, offset: float = 0.0) -> Array:
    """a * factor + offset."""
    if (c := a.storage.constant) is not None:
        return a.device.constant(c * factor + offset).reshaped(a.shape)
    return unary(prim.SCALE, a, factor, offset)


def packed(a: Array) -> Array:
    """In C order, copied if need be."""
    return a.storage.device.graph.packed(a)


def reshaped(a: Array, shape: Shape) -> Array:
    """In another shape of the same size; copied if it is not packed."""
    return packed(a).reshaped(shape)


def clamped(a: Array, low: float, high: float) -> Array:
    """Limited to [low, high], NaN staying NaN."""
    return nan_kept(unary(prim.CLAMP, a, low, high), a)  # ggml clamps NaN to high on the CPU and to low on Vulkan


def nan_kept(a: Array, x: Array) -> Array:
    """a, and NaN where x, of the same shape, is NaN."""
    # sgn(|x| + 1) is 1 for every number, and 0 for NaN, where sqrt(-1) is subtracted; elsewhere +0, which changes no -0
    lost = unary(prim.SQRT, scaled(unary(prim.SGN, scaled(unary(prim.ABS, x), 1.0, 1.0)), 1.0, -1.0))
    return binary("nan", prim.SUB, a, lost)


def counting(op: str, device: Device, n: int) -> Array:
    """0, 1, .. n - 1 as float32.

    Raises:
        ValueError: more than 2**24, where float32 no longer counts one by one and ggml makes another number of them.
    """
    if n > 1 << 24:
        raise ValueError(f"{op}: {n} places along an axis are too many: float32 counts exactly up to {1 << 24} only")
    return device.graph.record(prim.ARANGE, (), (n,), FLOAT, n)


def equal_mask(a: Array, b: Array) -> Array:
    """1 where a == b, else 0; b broadcasts to a. NaN counts as equal to everything (sgn(NaN) is 0 in ggml)."""
    return scaled(unary(prim.SGN, unary(prim.ABS, binary("equal", prim.SUB, a, b))), -1.0, 1.0)


def nan_mask(a: Array) -> Array:
    """1 where a is NaN, else 0: sgn(|a| + 1) is 1 for every number, and 0 for NaN."""
    return scaled(unary(prim.SGN, scaled(unary(prim.ABS, a), 1.0, 1.0)), -1.0, 1.0)
