"""Activation functions. Each rule saves one value of its operand's size: the result where that is enough.

Those that are x times a gate, such as gelu, are in swish.py.
"""

from __future__ import annotations

from collections.abc import Callable

from ..backend import primitives as prim
from ..backend.array import Array
from ..tape import record
from ..tensor import Tensor, TensorLike
from . import base
from .base import binary, finite, floats, nan_kept, number, one_axis, result, scaled, unary, wide
from .compare import clamp, gt, lt, order
from .functions import abs, exp, expm1_below, log1p_near, sign
from .order import row_max
from .reduce import _sum, sum

# of a row; for longer ones Vulkan has a kernel that takes another number for the maximum
SOFTMAX_COLUMNS = 16_384


def relu(x: TensorLike) -> Tensor:
    """max(x, 0). The gradient at 0 is 0, as in PyTorch. NaN becomes 0: ggml's kernels have it so on every device.

    Args:
        x: floats of any shape.

    Raises:
        TypeError: int32, or what is no number.

    >>> ag.relu([-1.0, 2.0]).tolist()
    [0.0, 2.0]
    """
    (x,) = floats("relu", x)
    out = result(unary(prim.RELU, wide(x)), x)
    return record("relu", out, (x,), lambda g: (g * sign(out),))


def leaky_relu(x: TensorLike, negative_slope: float = 0.01) -> Tensor:
    """x above 0, and x * negative_slope below (Maas, Hannun and Ng 2013). NaN stays NaN.

    The gradient at 0 is the slope, as in PyTorch.

    Args:
        x: floats of any shape.
        negative_slope: a finite number.

    Raises:
        ValueError: the slope is not finite. TypeError: int32, or what is no number.

    >>> ag.leaky_relu([-2.0, 3.0], 0.25).tolist()
    [-0.5, 3.0]
    """
    (x,) = floats("leaky_relu", x)
    slope = finite("leaky_relu", "negative_slope", negative_slope)
    a = wide(x)
    out = result(nan_kept(unary(prim.LEAKY_RELU, a, slope), a), x)
    kept = out if slope >= 0.0 else x  # whichever tells x > 0; the next layer keeps the result anyway

    def grad(g: Tensor) -> tuple[Tensor]:
        above = gt(kept, 0.0)
        return (g * (above + (1.0 - above) * slope),)

    return record("leaky_relu", out, (x,), grad)


def elu(x: TensorLike, alpha: float = 1.0) -> Tensor:
    """x above 0, and alpha * (exp(x) - 1) below (Clevert, Unterthiner and Hochreiter 2016); exact near 0.

    The gradient at 0 is alpha, as in PyTorch.

    Args:
        x: floats of any shape.
        alpha: the limit at -inf, with a minus; a finite number from 0 on.

    Raises:
        ValueError: alpha is negative or not finite. TypeError: int32, or what is no number.

    >>> ag.elu([-np.inf, 0.0, 3.0], alpha=0.5).tolist()
    [-0.5, 0.0, 3.0]
    """
    (x,) = floats("elu", x)
    limit = finite("elu", "alpha", alpha)
    if limit < 0.0:
        raise ValueError(f"elu: alpha must be from 0 on, not {alpha}")
    a = wide(x)
    below = scaled(expm1_below(unary(prim.CLAMP, a, -200.0, 0.0)), limit)
    out = result(nan_kept(binary("elu", prim.ADD, unary(prim.RELU, a), below), a), x)

    def grad(g: Tensor) -> tuple[Tensor]:
        slope = clamp(out, high=0.0) + limit  # alpha * exp(x) below 0
        if limit != 1.0:
            above = gt(out, 0.0)
            slope = above + (1.0 - above) * slope
        return (g * slope,)

    return record("elu", out, (x,), grad)


def sigmoid(x: TensorLike) -> Tensor:
    """1 / (1 + exp(-x)).

    Args:
        x: floats of any shape.

    Raises:
        TypeError: int32, or what is no number.

    >>> ag.sigmoid([-np.inf, 0.0, np.inf]).tolist()
    [0.0, 0.5, 1.0]
    """
    (x,) = floats("sigmoid", x)
    out = result(unary(prim.SIGMOID, wide(x)), x)
    return record("sigmoid", out, (x,), lambda g: (g * (out * (1.0 - out)),))


def hardsigmoid(x: TensorLike) -> Tensor:
    """x / 6 + 1/2, limited to [0, 1]: a sigmoid of straight lines. NaN stays NaN.

    The gradient at -3 and 3 is 0, as in PyTorch.

    Args:
        x: floats of any shape.

    Raises:
        TypeError: int32, or what is no number.

    >>> ag.hardsigmoid([-4.0, 0.0, 1.5, 3.0]).tolist()
    [0.0, 0.5, 0.75, 1.0]
    """
    (x,) = floats("hardsigmoid", x)
    a = wide(x)
    out = result(nan_kept(unary(prim.HARDSIGMOID, a), a), x)
    return record("hardsigmoid", out, (x,), lambda g: (g * (lt(abs(x), 3.0) * (1.0 / 6.0)),))


def tanh(x: TensorLike) -> Tensor:
    """Hyperbolic tangent.

    Args:
        x: floats of any shape. On Vulkan the absolute error is 1e-7 for small x (ggml's kernel).

    Raises:
        TypeError: int32, or what is no number.

    >>> ag.tanh([-np.inf, 0.0, np.inf]).tolist()
    [-1.0, 0.0, 1.0]
    """
    (x,) = floats("tanh", x)
    out = result(unary(prim.TANH, wide(x)), x)
    return record("tanh", out, (x,), lambda g: (g * (1.0 - out * out),))


def softplus(x: TensorLike, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta * x)) / beta, a smooth relu, and x where beta * x is above the threshold, as PyTorch has it.

    Computed from log1p(exp(-|beta * x|)): exact to the last digits on both sides, and never infinite too early.

    Args:
        x: floats of any shape.
        beta: how sharp it bends; a finite number other than 0.
        threshold: from where on it is x; a number from 0 on.

    Raises:
        ValueError: beta is 0 or not finite, or the threshold is negative or NaN.
        TypeError: int32, or what is no number.

    >>> ag.softplus([-np.inf, 30.0, 1000.0]).tolist()
    [0.0, 30.0, 1000.0]
    """
    (x,) = floats("softplus", x)
    sharp = finite("softplus", "beta", beta)
    limit = number(threshold)
    if limit is None:
        raise TypeError(f"softplus: threshold must be a number, not {threshold!r}")
    if sharp == 0.0 or not limit >= 0.0:
        raise ValueError(f"softplus: beta must not be 0 and threshold be from 0 on, not {beta} and {threshold}")
    z = wide(x) if sharp == 1.0 else scaled(wide(x), sharp)
    more = log1p_near(unary(prim.EXP, unary(prim.NEG, unary(prim.ABS, z))))
    if limit < 20.0:  # from there on float32 tells no difference
        below = scaled(unary(prim.RELU, order("softplus", z, limit)), -1.0, 1.0)
        more = binary("softplus", prim.MUL, more, below)
    array = binary("softplus", prim.ADD, unary(prim.RELU, z), more)
    out = result(array if sharp == 1.0 else scaled(array, 1.0 / sharp), x)

    def grad(g: Tensor) -> tuple[Tensor]:
        slope = sigmoid(x * sharp)
        if limit < 20.0:
            above = gt(x * sharp, limit)
            slope = above + (1.0 - above) * slope
        return (g * slope,)

    return record("softplus", out, (x,), grad)


def softmax(x: TensorLike, axis: int = -1) -> Tensor:
    """exp(x) / sum(exp(x)) along an axis, computed from x minus its maximum.

    Args:
        x: floats of any shape but a scalar.
        axis: which sums to 1; negative ones count from the last.

    Raises:
        IndexError: there is no such axis. TypeError: int32, or what is no number.

    >>> ag.softmax([[0.0, 0.0], [5.0, -np.inf]]).tolist()
    [[0.5, 0.5], [1.0, 0.0]]
    """
    (x,) = floats("softmax", x)
    axis = one_axis("softmax", axis, x.ndim)
    out = result(_along_last(wide(x), axis, softmax_rows), x)
    return record("softmax", out, (x,), lambda g: (out * (g - sum(g * out, axis, keepdims=True)),))


def log_softmax(x: TensorLike, axis: int = -1) -> Tensor:
    """log(softmax(x)) along an axis, without the overflow and the cancellation of the two steps.

    Args:
        x: floats of any shape but a scalar.
        axis: whose probabilities sum to 1; negative ones count from the last.

    Raises:
        IndexError: there is no such axis. TypeError: int32, or what is no number.

    >>> ag.log_softmax([0.0, -1000.0]).tolist()
    [0.0, -1000.0]
    """
    (x,) = floats("log_softmax", x)
    axis = one_axis("log_softmax", axis, x.ndim)
    out = result(_along_last(wide(x), axis, log_softmax_rows), x)
    return record("log_softmax", out, (x,), lambda g: (g - exp(out) * sum(g, axis, keepdims=True),))


def softmax_rows(a: Array, mask: Array | None = None) -> Array:
    """exp(x - max(x)) / sum(exp(x - max(x))) of each row x; of a + mask where there is one, in four dimensions."""
    if a.device.is_cpu or a.shape[-1] <= SOFTMAX_COLUMNS:
        if mask is None:
            return unary(prim.SOFTMAX, a)
        return a.device.graph.record(prim.SOFTMAX_MASKED, (a, mask), a.shape, a.dtype)
    if mask is not None:
        a = binary("softmax", prim.ADD, a, mask)
    powers = unary(prim.EXP, binary("softmax", prim.SUB, a, row_max(a)))
    return binary("softmax", prim.DIV, powers, _sum(powers, (len(a.shape) - 1,)))


def log_softmax_rows(a: Array) -> Array:
    """x - max(x) - log(sum(exp(x - max(x)))) of each row."""
    rows, columns = a.size // a.shape[-1], a.shape[-1]
    flat = base.reshaped(a, (rows, columns))
    shifted = base.binary("log_softmax", prim.SUB, flat, row_max(flat))
    total = _sum(unary(prim.EXP, shifted), (1,))
    return base.binary("log_softmax", prim.SUB, shifted, unary(prim.LOG, total)).reshaped(a.shape)


def _along_last(a: Array, axis: int, function: Callable[[Array], Array]) -> Array:
    """Apply a function of rows along any axis: the axis is swapped with the last one, and back."""
    last = len(a.shape) - 1
    if axis == last:
        return function(a)
    axes = list(range(last + 1))
    axes[axis], axes[last] = last, axis
    return function(a.permuted(tuple(axes))).permuted(tuple(axes))


__all__ = [
    "elu", "hardsigmoid", "leaky_relu", "log_softmax", "relu", "sigmoid", "softmax", "softplus", "tanh",
]  # fmt: skip
