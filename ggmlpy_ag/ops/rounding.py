"""Rounding to whole numbers. The results are steps: their gradient is 0, as in PyTorch."""

from __future__ import annotations

from ..backend import primitives as prim
from ..backend.array import Array
from ..tensor import Tensor, TensorLike
from .base import binary, floats, result, scaled, unary, wide


def floor(x: TensorLike) -> Tensor:
    """The greatest whole number that is not above x. Its gradient is 0.

    Args:
        x: floats of any shape; infinities and NaN stay what they are.

    Raises:
        TypeError: int32, or what is no number.

    >>> ag.floor([-1.5, 1.5]).tolist()
    [-2.0, 1.0]
    """
    (x,) = floats("floor", x)
    return result(unary(prim.FLOOR, wide(x)), x)


def ceil(x: TensorLike) -> Tensor:
    """The least whole number that is not below x. Its gradient is 0.

    Args:
        x: floats of any shape; infinities and NaN stay what they are.

    Raises:
        TypeError: int32, or what is no number.

    >>> ag.ceil([-1.5, 1.5]).tolist()
    [-1.0, 2.0]
    """
    (x,) = floats("ceil", x)
    return result(unary(prim.CEIL, wide(x)), x)


def trunc(x: TensorLike) -> Tensor:
    """x without its fraction: the whole number next to it towards 0. Its gradient is 0.

    Args:
        x: floats of any shape; infinities and NaN stay what they are.

    Raises:
        TypeError: int32, or what is no number.

    >>> ag.trunc([-1.5, 1.5]).tolist()
    [-1.0, 1.0]
    """
    (x,) = floats("trunc", x)
    return result(unary(prim.TRUNC, wide(x)), x)


def round(x: TensorLike) -> Tensor:
    """The nearest whole number, of two the even one, as NumPy and PyTorch have it. Its gradient is 0.

    Args:
        x: floats of any shape; infinities and NaN stay what they are.

    Raises:
        TypeError: int32, or what is no number.

    >>> ag.round([0.5, 1.5, 2.5, -2.6]).tolist()
    [0.0, 2.0, 2.0, -3.0]
    """
    (x,) = floats("round", x)
    return result(_round(wide(x)), x)


def _round(a: Array) -> Array:
    # ggml's own goes away from 0 at a half. Adding 2**23, from where on float32 has whole numbers only, rounds to even.
    size = unary(prim.ABS, a)
    low = unary(prim.CLAMP, size, 0.0, _WHOLE)
    change = binary("round", prim.SUB, scaled(scaled(low, 1.0, _WHOLE), 1.0, -_WHOLE), low)
    return binary("round", prim.MUL, binary("round", prim.ADD, size, change), unary(prim.SGN, a))


_WHOLE = 2.0**23


__all__ = ["ceil", "floor", "round", "trunc"]
