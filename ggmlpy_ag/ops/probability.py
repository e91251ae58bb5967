"""Losses of probabilities."""

from __future__ import annotations

import math

from ..backend import primitives as prim
from ..backend.array import FLOAT, Array
from ..tape import record
from ..tensor import Tensor, TensorLike
from .activation import sigmoid, softplus
from .base import binary, clamped, result, scaled, unary, wide
from .compare import clamp
from .functions import _log1p, exp, log, log1p, log1p_near
from .loss import constant, pair, reduced, share
from .order import LARGEST
from .shape import astype

LEAST_LOG = -100.0  # PyTorch's limit for log(p) in bce_loss
LEAST_SLOPE = 1e-12  # and for p * (1 - p) in its gradient


def bce_loss(p: TensorLike, target: TensorLike, weight: TensorLike | None = None, reduction: str = "mean") -> Tensor:
    """-(target * log(p) + (1 - target) * log(1 - p)): binary cross entropy of probabilities.

    As in PyTorch, a logarithm counts as -100 where it is less, and the gradient divides by p * (1 - p), but by no less
    than 1e-12. A `p` outside [0, 1] gives NaN.

    Args:
        p: probabilities; float32, float16 or bfloat16, any shape.
        target: probabilities, of the same shape.
        weight: a factor for each element, which broadcasts to that shape; without a gradient. None for 1.
        reduction: "mean" or "sum" of all elements, or "none".

    Raises:
        ValueError: the shapes differ, weight does not broadcast to them or requires a gradient, operands are on
        different devices, another reduction. TypeError: no floats.

    >>> ag.bce_loss([0.0, 1.0], [0.0, 1.0]).item()
    0.0
    >>> ag.bce_loss([0.0, 1.0], [1.0, 0.0], weight=[1.0, 0.5], reduction="none").tolist()
    [100.0, 50.0]
    """
    p, t = pair("bce_loss", "p", p, target, reduction)
    factor = constant("bce_loss", "weight", weight, p)

    def times(a: Array, b: Array) -> Array:
        return binary("bce_loss", prim.MUL, a, b)

    true = times(wide(t), clamped(unary(prim.LOG, wide(p)), LEAST_LOG, math.inf))
    false = times(scaled(wide(t), -1.0, 1.0), clamped(_log1p(unary(prim.NEG, wide(p))), LEAST_LOG, math.inf))
    terms = scaled(binary("bce_loss", prim.ADD, true, false), -1.0)
    if factor is not None:
        terms = times(terms, wide(factor))
    to_p, to_t = p.requires_grad, t.requires_grad

    def grad(g: Tensor) -> tuple[Tensor | None, Tensor | None]:
        part = share(g, reduction, p.size)
        if factor is not None:
            part = part * factor
        q = astype(p, FLOAT)
        return (
            (q - t) / clamp(q * (1.0 - q), LEAST_SLOPE) * part if to_p else None,
            (log1p(-q) - log(q)) * part if to_t else None,
        )

    return record("bce_loss", result(reduced(terms, reduction), p, t), (p, t), grad)


def bce_with_logits_loss(
    logits: TensorLike,
    target: TensorLike,
    weight: TensorLike | None = None,
    pos_weight: TensorLike | None = None,
    reduction: str = "mean",
) -> Tensor:
    """`bce_loss` of sigmoid(logits), exact and finite also where that is 0 or 1.

    Args:
        logits: float32, float16 or bfloat16, any shape.
        target: probabilities, of the same shape.
        weight: a factor for each element, which broadcasts to that shape; without a gradient. None for 1.
        pos_weight: a factor for the part of `target`; broadcasts too, without a gradient. None for 1.
        reduction: "mean" or "sum" of all elements, or "none".

    Raises:
        ValueError: the shapes differ, a weight does not broadcast to them or requires a gradient, operands are on
        different devices, another reduction. TypeError: no floats.

    >>> ag.bce_with_logits_loss([-1000.0, 1000.0, 1000.0], [0.0, 1.0, 0.0], reduction="none").tolist()
    [0.0, 0.0, 1000.0]
    """
    op = "bce_with_logits_loss"
    x, t = pair(op, "logits", logits, target, reduction)
    factor, positive = constant(op, "weight", weight, x), constant(op, "pos_weight", pos_weight, x)
    # (1 - t) * x + softplus(-x), and the second times 1 + (pos_weight - 1) * t. Its small part is added last.
    a = wide(x)
    large = unary(prim.RELU, unary(prim.NEG, a))
    small = log1p_near(unary(prim.EXP, unary(prim.NEG, unary(prim.ABS, a))))
    if positive is not None:
        emphasis = scaled(binary(op, prim.MUL, wide(t), scaled(wide(positive), 1.0, -1.0)), 1.0, 1.0)
        large, small = (binary(op, prim.MUL, part, emphasis) for part in (large, small))
    terms = binary(op, prim.ADD, binary(op, prim.MUL, scaled(wide(t), -1.0, 1.0), a), large)
    terms = binary(op, prim.ADD, terms, small)
    if factor is not None:
        terms = binary(op, prim.MUL, terms, wide(factor))
    to_x, to_t = x.requires_grad, t.requires_grad

    def grad(g: Tensor) -> tuple[Tensor | None, Tensor | None]:
        part = share(g, reduction, x.size)
        if factor is not None:
            part = part * factor
        z = astype(x, FLOAT)
        slope = None
        if to_x and positive is None:
            slope = (sigmoid(z) - t) * part
        elif to_x and positive is not None:
            slope = ((1.0 + (positive - 1.0) * t) * sigmoid(z) - positive * t) * part
        if not to_t:
            return slope, None
        return slope, (-z if positive is None else (positive - 1.0) * softplus(-z) - z) * part

    return record(op, result(reduced(terms, reduction), x, t), (x, t), grad)


def kl_div_loss(input: TensorLike, target: TensorLike, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """target * (log(target) - input): divergence of the distribution `target` from the one whose logarithm is `input`.

    A target of probability 0 adds 0, and its gradient is -inf; beside an input of -inf it is NaN, as in PyTorch, unless
    `log_target`. "mean" divides by the number of elements, as there; the divergence itself is the sum over a
    distribution, and its mean over a batch "batchmean".

    Args:
        input: logarithms of probabilities; float32, float16 or bfloat16, any shape.
        target: probabilities, of the same shape, or their logarithms.
        reduction: "mean" or "sum" of all elements, "batchmean" for the sum divided by the first extent, or "none".
        log_target: whether `target` holds logarithms.

    Raises:
        ValueError: the shapes differ, operands are on different devices, another reduction. TypeError: no floats.

    >>> ag.kl_div_loss([[0.0, -1.0]], [[1.0, 0.0]], reduction="batchmean").item()
    0.0
    >>> ag.kl_div_loss([-2.0, -2.0], [0.0, -np.inf], reduction="sum", log_target=True).item()
    2.0
    """
    op = "kl_div_loss"
    x, t = pair(op, "input", input, target, reduction, "batchmean")
    a, b = wide(x), wide(t)
    if log_target:
        terms = binary(op, prim.MUL, unary(prim.EXP, b), clamped(binary(op, prim.SUB, b, a), -LARGEST, math.inf))
    else:
        zero = scaled(unary(prim.ABS, unary(prim.SGN, b)), -1.0, 1.0)  # whose logarithm is made that of 1
        logs = unary(prim.LOG, binary(op, prim.ADD, b, zero))
        terms = binary(op, prim.MUL, b, binary(op, prim.SUB, logs, a))
    batch = x.shape[0] if x.shape else 1
    array = scaled(reduced(terms, "sum"), 1.0 / batch) if reduction == "batchmean" else reduced(terms, reduction)
    to_x, to_t = x.requires_grad, t.requires_grad
    saved_x = x if to_t else None  # the gradient of input needs target only

    def grad(g: Tensor) -> tuple[Tensor | None, Tensor | None]:
        part = g * (1.0 / batch) if reduction == "batchmean" else share(g, reduction, t.size)
        y = astype(t, FLOAT)
        q = exp(y) if log_target else y
        slope = None
        if saved_x is not None and log_target:
            slope = q * (clamp(y - saved_x, -LARGEST) + 1.0) * part
        elif saved_x is not None:
            slope = (log(y) + 1.0 - saved_x) * part
        return -q * part if to_x else None, slope

    return record(op, result(array, x, t), (x, t), grad)


__all__ = ["bce_loss", "bce_with_logits_loss", "kl_div_loss"]
