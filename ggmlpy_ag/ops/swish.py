"""Activation functions that are x times a gate, which closes below 0. Each rule saves x."""

from __future__ import annotations

import math

from ..backend import primitives as prim
from ..backend.array import FLOAT, Array
from ..tape import record
from ..tensor import Tensor, TensorLike
from . import base
from .activation import sigmoid
from .base import binary, floats, result, scaled, unary, wide
from .compare import clamp, ge, lt
from .functions import abs, exp
from .shape import astype


def silu(x: TensorLike) -> Tensor:
    """x * sigmoid(x), also called swish (Hendrycks and Gimpel 2016).

    Args:
        x: floats of any shape.

    Raises:
        TypeError: int32, or what is no number.

    >>> ag.silu([0.0, 100.0]).tolist()
    [0.0, 100.0]
    """
    (x,) = floats("silu", x)
    return record("silu", result(unary(prim.SILU, wide(x)), x), (x,), lambda g: (g * silu_slope(x),))


def silu_slope(x: Tensor) -> Tensor:
    """The derivative of silu."""
    s = sigmoid(x)
    return s + x * s * (1.0 - s)


def hardswish(x: TensorLike) -> Tensor:
    """x * hardsigmoid(x) (Howard et al. 2019).

    The gradient is 0 at -3 and 1 at 3, as in PyTorch.

    Args:
        x: floats of any shape.

    Raises:
        TypeError: int32, or what is no number.

    >>> ag.hardswish([1.5, 3.0, 5.0]).tolist()
    [1.125, 3.0, 5.0]
    """
    (x,) = floats("hardswish", x)

    def grad(g: Tensor) -> tuple[Tensor]:
        inside = lt(abs(x), 3.0)
        return (g * ((clamp(x, -3.0, 3.0) * (1.0 / 3.0) + 0.5) * inside + ge(x, 3.0)),)

    return record("hardswish", result(unary(prim.HARDSWISH, wide(x)), x), (x,), grad)


def mish(x: TensorLike) -> Tensor:
    """x * tanh(log(1 + exp(x))) (Misra 2019).

    Args:
        x: floats of any shape.

    Raises:
        TypeError: int32, or what is no number.

    >>> ag.mish([0.0, 100.0]).tolist()
    [0.0, 100.0]
    """
    (x,) = floats("mish", x)
    a = wide(x)
    # tanh(log(1 + e)) = n / (n + 2) for n = e * (e + 2)
    e = unary(prim.EXP, unary(prim.CLAMP, a, -200.0, 20.0))
    n = binary("mish", prim.MUL, e, scaled(e, 1.0, 2.0))
    gate = binary("mish", prim.DIV, n, scaled(n, 1.0, 2.0))

    def grad(g: Tensor) -> tuple[Tensor]:
        near = clamp(astype(x, FLOAT), -200.0, 20.0)  # the gate is 0 below and 1 above; powers overflow float16
        e = exp(near)
        n = e * (e + 2.0)
        m = n + 2.0
        return (g * (n / m + near * (e * (e + 1.0) * 4.0 / (m * m))),)

    return record("mish", result(binary("mish", prim.MUL, a, gate), x), (x,), grad)


def gelu(x: TensorLike, approximate: str = "none") -> Tensor:
    """x * Phi(x), Phi being the normal distribution function (Hendrycks and Gimpel 2016).

    Args:
        x: floats of any shape.
        approximate: "none" for Phi itself, by erf; "tanh" for 0.5 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3)))
            in its place.

    Raises:
        ValueError: approximate is neither. TypeError: int32, or what is no number.

    >>> ag.gelu([0.0, 100.0]).tolist()
    [0.0, 100.0]
    >>> ag.gelu([-100.0, 100.0], approximate="tanh").tolist()
    [-0.0, 100.0]
    """
    (x,) = floats("gelu", x)
    if approximate not in ("none", "tanh"):
        raise ValueError(f'gelu: approximate must be "none" or "tanh", not {approximate!r}')
    if approximate == "tanh":
        return _gelu_tanh(x)
    return record("gelu", result(unary(prim.GELU_ERF, wide(x)), x), (x,), lambda g: (g * gelu_slope(x),))


def gelu_slope(x: Tensor) -> Tensor:
    """The derivative of gelu."""
    near = clamp(x, -1e4, 1e4)  # inf times the density 0 is 0
    return _normal(x) + near * _density(near)


def _normal(x: Tensor) -> Tensor:
    """Phi(x). ggml has no erf by itself: Phi(m) = gelu(m) / m for m = |x|, and Phi(-m) = 1 - Phi(m)."""
    a = wide(x)
    m = base.clamped(unary(prim.ABS, a), 1e-20, 1e4)
    above_half = scaled(binary("gelu", prim.DIV, unary(prim.GELU_ERF, m), m), 1.0, -0.5)
    out = result(scaled(binary("gelu", prim.MUL, unary(prim.SGN, a), above_half), 1.0, 0.5), x)
    return record("gelu", out, (x,), lambda g: (g * _density(x),))


def _density(x: Tensor) -> Tensor:
    return exp(x * x * -0.5) * (1.0 / math.sqrt(2.0 * math.pi))


# (1 + tanh(u)) / 2 = sigmoid(2 u), which does not cancel below 0 and is exact near it on Vulkan too
_LINEAR = 2.0 * math.sqrt(2.0 / math.pi)  # 2 u = _LINEAR * x + _CUBIC * x**3
_CUBIC = 0.044715 * _LINEAR


def _gelu_tanh(x: Tensor) -> Tensor:
    a = wide(x)
    twice: Array = binary("gelu", prim.MUL, a, scaled(unary(prim.SQUARE, a), _CUBIC, _LINEAR))
    out = result(binary("gelu", prim.MUL, a, unary(prim.SIGMOID, twice)), x)

    def grad(g: Tensor) -> tuple[Tensor]:
        near = clamp(x, -1e4, 1e4)  # beyond, the gate is 0 or 1
        squared = near * near
        gate = sigmoid(near * (squared * _CUBIC + _LINEAR))
        slope = gate * (1.0 - gate) * (squared * (3.0 * _CUBIC) + _LINEAR)
        return (g * (gate + near * slope),)

    return record("gelu", out, (x,), grad)


__all__ = ["gelu", "hardswish", "mish", "silu"]
