"""Comparing, choosing and limiting elements."""

from __future__ import annotations

import math

from ..backend import primitives as prim
from ..tape import record
from ..tensor import Tensor, TensorLike
from . import base
from .base import floats, number, result, unary, wide


def clamp(x: TensorLike, low: float | None = None, high: float | None = None) -> Tensor:
    """x limited to [low, high]; either may be left out. The gradient is 1 inside and at both limits, as in PyTorch.

    Raises:
        ValueError: both limits left out, or low > high. TypeError: a limit is no number.
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


__all__ = ["clamp"]
