"""Functions of single elements."""

from __future__ import annotations

from ..backend import primitives as prim
from ..tape import record
from ..tensor import Tensor, TensorLike
from .base import floats, result, unary, wide


def exp(x: TensorLike) -> Tensor:
    """e to the power x."""
    (x,) = floats("exp", x)
    out = result(unary(prim.EXP, wide(x)), x)
    return record("exp", out, (x,), lambda g: (g * out,))


def log(x: TensorLike) -> Tensor:
    """Natural logarithm: -inf at 0, NaN below."""
    (x,) = floats("log", x)
    return record("log", result(unary(prim.LOG, wide(x)), x), (x,), lambda g: (g / x,))


def sqrt(x: TensorLike) -> Tensor:
    """Square root: NaN below 0. The gradient at 0 is infinite, as in PyTorch."""
    (x,) = floats("sqrt", x)
    out = result(unary(prim.SQRT, wide(x)), x)
    return record("sqrt", out, (x,), lambda g: (g / (out * 2.0),))


def abs(x: TensorLike) -> Tensor:
    """Absolute value. The gradient at 0 is 0, as in PyTorch."""
    (x,) = floats("abs", x)
    return record("abs", result(unary(prim.ABS, wide(x)), x), (x,), lambda g: (g * sign(x),))


def sign(x: TensorLike) -> Tensor:
    """-1, 0 or 1 by the sign of x; 0 for NaN. Its gradient is 0."""
    (x,) = floats("sign", x)
    return result(unary(prim.SGN, wide(x)), x)


__all__ = ["abs", "exp", "log", "sign", "sqrt"]
