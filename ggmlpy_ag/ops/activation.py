"""Activation functions. Each rule saves one value of its operand's size: the result where that is enough."""

from __future__ import annotations

import math
from collections.abc import Callable

from ..backend import primitives as prim
from ..backend.array import Array
from ..tape import record
from ..tensor import Tensor, TensorLike
from . import base
from .base import floats, one_axis, result, scaled, unary, wide
from .compare import clamp
from .functions import exp, sign
from .order import row_max
from .reduce import sum


def relu(x: TensorLike) -> Tensor:
    """max(x, 0). The gradient at 0 is 0, as in PyTorch. NaN becomes 0: ggml's kernels have it so on every device."""
    (x,) = floats("relu", x)
    out = result(unary(prim.RELU, wide(x)), x)
    return record("relu", out, (x,), lambda g: (g * sign(out),))


def sigmoid(x: TensorLike) -> Tensor:
    """1 / (1 + exp(-x))."""
    (x,) = floats("sigmoid", x)
    out = result(unary(prim.SIGMOID, wide(x)), x)
    return record("sigmoid", out, (x,), lambda g: (g * (out * (1.0 - out)),))


def tanh(x: TensorLike) -> Tensor:
    """Hyperbolic tangent. On Vulkan its absolute error is 1e-7 for small x (ggml's kernel)."""
    (x,) = floats("tanh", x)
    out = result(unary(prim.TANH, wide(x)), x)
    return record("tanh", out, (x,), lambda g: (g * (1.0 - out * out),))


def silu(x: TensorLike) -> Tensor:
    """x * sigmoid(x), also called swish."""
    (x,) = floats("silu", x)

    def grad(g: Tensor) -> tuple[Tensor]:
        s = sigmoid(x)
        return (g * (s + x * s * (1.0 - s)),)

    return record("silu", result(unary(prim.SILU, wide(x)), x), (x,), grad)


def gelu(x: TensorLike) -> Tensor:
    """x * Phi(x), Phi being the normal distribution function (Hendrycks and Gimpel 2016; the exact, erf form)."""
    (x,) = floats("gelu", x)

    def grad(g: Tensor) -> tuple[Tensor]:
        near = clamp(x, -1e4, 1e4)  # inf times the density 0 is 0
        return (g * (_normal(x) + near * _density(near)),)

    return record("gelu", result(unary(prim.GELU_ERF, wide(x)), x), (x,), grad)


def _normal(x: Tensor) -> Tensor:
    """Phi(x). ggml has no erf by itself: Phi(m) = gelu(m) / m for m = |x|, and Phi(-m) = 1 - Phi(m)."""
    a = wide(x)
    m = base.clamped(unary(prim.ABS, a), 1e-20, 1e4)
    above_half = scaled(base.binary("gelu", prim.DIV, unary(prim.GELU_ERF, m), m), 1.0, -0.5)
    out = result(scaled(base.binary("gelu", prim.MUL, unary(prim.SGN, a), above_half), 1.0, 0.5), x)
    return record("gelu", out, (x,), lambda g: (g * _density(x),))


def _density(x: Tensor) -> Tensor:
    return exp(x * x * -0.5) * (1.0 / math.sqrt(2.0 * math.pi))


def softmax(x: TensorLike, axis: int = -1) -> Tensor:
    """exp(x) / sum(exp(x)) along an axis, computed from x minus its maximum.

    Raises:
        IndexError: there is no such axis.
    """
    (x,) = floats("softmax", x)
    axis = one_axis("softmax", axis, x.ndim)
    out = result(_along_last(wide(x), axis, lambda a: unary(prim.SOFTMAX, a)), x)
    return record("softmax", out, (x,), lambda g: (out * (g - sum(g * out, axis, keepdims=True)),))


def log_softmax(x: TensorLike, axis: int = -1) -> Tensor:
    """log(softmax(x)) along an axis, without the overflow and the cancellation of the two steps.

    Raises:
        IndexError: there is no such axis.
    """
    (x,) = floats("log_softmax", x)
    axis = one_axis("log_softmax", axis, x.ndim)
    out = result(_along_last(wide(x), axis, log_softmax_rows), x)
    return record("log_softmax", out, (x,), lambda g: (g - exp(out) * sum(g, axis, keepdims=True),))


def log_softmax_rows(a: Array) -> Array:
    """x - max(x) - log(sum(exp(x - max(x)))) of each row."""
    rows, columns = a.size // a.shape[-1], a.shape[-1]
    flat = base.reshaped(a, (rows, columns))
    shifted = base.binary("log_softmax", prim.SUB, flat, row_max(flat))
    total = a.device.graph.record(prim.SUM_ROWS, (unary(prim.EXP, shifted),), (rows, 1), a.dtype)
    return base.binary("log_softmax", prim.SUB, shifted, unary(prim.LOG, total)).reshaped(a.shape)


def _along_last(a: Array, axis: int, function: Callable[[Array], Array]) -> Array:
    """Apply a function of rows along any axis: the axis is swapped with the last one, and back."""
    last = len(a.shape) - 1
    if axis == last:
        return function(a)
    order = list(range(last + 1))
    order[axis], order[last] = last, axis
    return function(a.permuted(tuple(order))).permuted(tuple(order))


__all__ = ["gelu", "log_softmax", "relu", "sigmoid", "silu", "softmax", "tanh"]
