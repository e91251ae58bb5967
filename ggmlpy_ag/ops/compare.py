"""Comparing elements, and limiting them.

A comparison gives float32, 1 where it holds and else 0, and is outside the tape: it has no gradient.
"""

from __future__ import annotations

import math

from ..backend import primitives as prim
from ..backend.array import Array
from ..tape import record
from ..tensor import Tensor, TensorLike
from . import base
from .base import binary, floats, number, result, scaled, unary, wide


def lt(a: TensorLike, b: TensorLike) -> Tensor:
    """1 where a < b, else 0, which it is for NaN.

    Args:
        a: floats of any shape, or a number.
        b: floats of a shape that broadcasts with that of a, or a number.

    Returns:
        float32, without a gradient.

    Raises:
        ValueError: the shapes do not broadcast, or the tensors are on different devices.
        TypeError: int32, or what is no number.

    >>> ag.lt([1.0, 2.0, 3.0, np.nan], 2.0).tolist()
    [1.0, 0.0, 0.0, 0.0]
    """
    return Tensor(_greater("lt", b, a))


def le(a: TensorLike, b: TensorLike) -> Tensor:
    """1 where a <= b, else 0, which it is for NaN.

    Args:
        a: floats of any shape, or a number.
        b: floats of a shape that broadcasts with that of a, or a number.

    Returns:
        float32, without a gradient.

    Raises:
        ValueError: the shapes do not broadcast, or the tensors are on different devices.
        TypeError: int32, or what is no number.

    >>> ag.le([1.0, 2.0, 3.0, np.nan], 2.0).tolist()
    [1.0, 1.0, 0.0, 0.0]
    """
    return Tensor(binary("le", prim.SUB, _numbers("le", a, b), _greater("le", a, b)))


def gt(a: TensorLike, b: TensorLike) -> Tensor:
    """1 where a > b, else 0, which it is for NaN.

    Args:
        a: floats of any shape, or a number.
        b: floats of a shape that broadcasts with that of a, or a number.

    Returns:
        float32, without a gradient.

    Raises:
        ValueError: the shapes do not broadcast, or the tensors are on different devices.
        TypeError: int32, or what is no number.

    >>> ag.gt([1.0, 2.0, 3.0, np.nan], 2.0).tolist()
    [0.0, 0.0, 1.0, 0.0]
    """
    return Tensor(_greater("gt", a, b))


def ge(a: TensorLike, b: TensorLike) -> Tensor:
    """1 where a >= b, else 0, which it is for NaN.

    Args:
        a: floats of any shape, or a number.
        b: floats of a shape that broadcasts with that of a, or a number.

    Returns:
        float32, without a gradient.

    Raises:
        ValueError: the shapes do not broadcast, or the tensors are on different devices.
        TypeError: int32, or what is no number.

    >>> ag.ge([1.0, 2.0, 3.0, np.nan], 2.0).tolist()
    [0.0, 1.0, 1.0, 0.0]
    """
    return Tensor(binary("ge", prim.SUB, _numbers("ge", a, b), _greater("ge", b, a)))


def eq(a: TensorLike, b: TensorLike) -> Tensor:
    """1 where a == b, else 0. NaN equals nothing, an infinity itself, and -0 equals 0.

    Args:
        a: floats of any shape, or a number.
        b: floats of a shape that broadcasts with that of a, or a number.

    Returns:
        float32, without a gradient.

    Raises:
        ValueError: the shapes do not broadcast, or the tensors are on different devices.
        TypeError: int32, or what is no number.

    >>> ag.eq([1.0, 2.0, np.inf, np.nan], [[2.0], [np.inf]]).tolist()
    [[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]]
    """
    return Tensor(_equal("eq", a, b))


def ne(a: TensorLike, b: TensorLike) -> Tensor:
    """1 where a != b, else 0. NaN differs from everything, itself included.

    Args:
        a: floats of any shape, or a number.
        b: floats of a shape that broadcasts with that of a, or a number.

    Returns:
        float32, without a gradient.

    Raises:
        ValueError: the shapes do not broadcast, or the tensors are on different devices.
        TypeError: int32, or what is no number.

    >>> ag.ne([1.0, 2.0, np.nan], 2.0).tolist()
    [1.0, 0.0, 1.0]
    """
    return Tensor(scaled(_equal("ne", a, b), -1.0, 1.0))


def clamp(x: TensorLike, low: float | None = None, high: float | None = None) -> Tensor:
    """x limited to [low, high]; either may be left out. NaN stays NaN.

    The gradient is 1 inside and at both limits, as in PyTorch.

    Args:
        x: floats of any shape.
        low: the least value of the result, a number.
        high: the greatest.

    Raises:
        ValueError: both limits left out, or low > high. TypeError: a limit is no number.

    >>> ag.clamp([-2.0, 0.5, 2.0], -1.0, 1.0).tolist()
    [-1.0, 0.5, 1.0]
    >>> ag.clamp([-2.0, 0.5, 2.0], high=0.0).tolist()
    [-2.0, 0.0, 0.0]
    """
    (x,) = floats("clamp", x)
    if low is None and high is None:
        raise ValueError("clamp: give at least one of low and high")
    least = -math.inf if low is None else number(low)
    most = math.inf if high is None else number(high)
    if least is None or most is None:
        raise TypeError(f"clamp: limits must be numbers, not {low!r} and {high!r}")
    if not least <= most:
        raise ValueError(f"clamp: low {low} is above high {high}, or one of them is NaN")
    out = result(base.clamped(wide(x), least, most), x)
    return record("clamp", out, (x,), lambda g: (g * _inside(x, least, most),))


def _inside(x: Tensor, low: float, high: float) -> Tensor:
    """1 where x is not beyond a limit, else 0."""
    a = wide(x)
    return result(base.equal_mask(a, unary(prim.CLAMP, a, low, high)), x)


# ---------------------------------------------------------------- on arrays


def order(op: str, a: Array | float, b: Array | float) -> Array:
    """1 where a > b, -1 where a < b, else 0: for equal ones, also infinite ones, and for NaN."""
    if isinstance(a, float):
        assert not isinstance(b, float)
        return unary(prim.SGN, scaled(b, -1.0, a))
    difference = scaled(a, 1.0, -b) if isinstance(b, float) else binary(op, prim.SUB, a, b)
    return unary(prim.SGN, difference)  # inf - inf is NaN, and sgn(NaN) is 0 in ggml


def _greater(op: str, a: TensorLike, b: TensorLike) -> Array:
    return unary(prim.RELU, order(op, *_sides(op, a, b)))


def _equal(op: str, a: TensorLike, b: TensorLike) -> Array:
    return binary(op, prim.SUB, _numbers(op, a, b), unary(prim.ABS, order(op, *_sides(op, a, b))))


def _numbers(op: str, a: TensorLike, b: TensorLike) -> Array:
    """1 where neither is NaN, else 0."""
    x, y = _sides(op, a, b)
    if isinstance(x, float):
        x, y = y, x
    assert not isinstance(x, float)
    size = unary(prim.ABS, x)
    if isinstance(y, float):
        return unary(prim.SGN, scaled(size, 1.0, 1.0 + math.fabs(y)))
    return unary(prim.SGN, scaled(binary(op, prim.ADD, size, unary(prim.ABS, y)), 1.0, 1.0))


def _sides(op: str, a: TensorLike, b: TensorLike) -> tuple[Array | float, Array | float]:
    """The operands as arrays, but for one that is a number beside one that is not."""
    x, y = number(a), number(b)
    if x is None and y is not None:
        return wide(*floats(op, a)), y
    if x is not None and y is None:
        return x, wide(*floats(op, b))
    a, b = floats(op, a, b)
    return wide(a), wide(b)


__all__ = ["clamp", "eq", "ge", "gt", "le", "lt", "ne"]
