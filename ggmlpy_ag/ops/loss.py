"""Losses of numbers and of vectors, and what all losses share. Those of probabilities and classes: see there."""

from __future__ import annotations

import math
from typing import Any

from ..backend import primitives as prim
from ..backend.array import FLOAT, Array, Shape
from ..tape import record
from ..tensor import Tensor, TensorLike
from . import base
from .base import binary, clamped, expanded, floats, number, one_axis, result, scaled, unary, wide
from .compare import clamp
from .functions import sign
from .reduce import _sum, broadcast_to, sum, sum_to
from .shape import astype
from .statistics import _nonzero, _norm, norm


def mse_loss(prediction: TensorLike, target: TensorLike, reduction: str = "mean") -> Tensor:
    """(prediction - target) ** 2.

    Args:
        prediction: float32, float16 or bfloat16, any shape.
        target: of the same shape.
        reduction: "mean" or "sum" of all elements, or "none".

    Raises:
        ValueError: the shapes differ (nothing is broadcast in a loss: it is nearly always a mistake), operands are on
        different devices, another reduction. TypeError: no floats.

    >>> ag.mse_loss([1.0, 2.0], [1.0, 4.0]).item()
    2.0
    >>> ag.mse_loss([1.0, 2.0], [1.0, 4.0], reduction="none").tolist()
    [0.0, 4.0]
    """
    a, b = pair("mse_loss", "prediction", prediction, target, reduction)
    difference = binary("mse_loss", prim.SUB, wide(a), wide(b))
    out = result(reduced(binary("mse_loss", prim.MUL, difference, difference), reduction), a, b)

    def grad(g: Tensor) -> tuple[Tensor, Tensor]:
        part = (a - b) * (share(g, reduction, a.size) * 2.0)
        return part, -part

    return record("mse_loss", out, (a, b), grad)


def l1_loss(prediction: TensorLike, target: TensorLike, reduction: str = "mean") -> Tensor:
    """|prediction - target|. The gradient is 0 where they are equal, as in PyTorch.

    Args:
        prediction: float32, float16 or bfloat16, any shape.
        target: of the same shape.
        reduction: "mean" or "sum" of all elements, or "none".

    Raises:
        ValueError: the shapes differ, operands are on different devices, another reduction. TypeError: no floats.

    >>> ag.l1_loss([1.0, 2.0], [1.0, 4.0]).item()
    1.0
    """
    a, b = pair("l1_loss", "prediction", prediction, target, reduction)
    sizes = unary(prim.ABS, binary("l1_loss", prim.SUB, wide(a), wide(b)))

    def grad(g: Tensor) -> tuple[Tensor, Tensor]:
        part = sign(a - b) * share(g, reduction, a.size)
        return part, -part

    return record("l1_loss", result(reduced(sizes, reduction), a, b), (a, b), grad)


def huber_loss(prediction: TensorLike, target: TensorLike, delta: float = 1.0, reduction: str = "mean") -> Tensor:
    """d**2 / 2 where |d| <= delta and delta * (|d| - delta / 2) beyond, for d = prediction - target (Huber 1964).

    Args:
        prediction: float32, float16 or bfloat16, any shape.
        target: of the same shape.
        delta: where the parabola ends; above 0.
        reduction: "mean" or "sum" of all elements, or "none".

    Raises:
        ValueError: the shapes differ, delta is not above 0, operands are on different devices, another reduction.
        TypeError: no floats.

    >>> ag.huber_loss([1.0, 5.0], [2.0, 1.0], delta=2.0, reduction="none").tolist()
    [0.5, 6.0]
    """
    a, b = pair("huber_loss", "prediction", prediction, target, reduction)
    limit = number(delta)
    if limit is None:
        raise TypeError(f"huber_loss: delta must be a number, not {type(delta).__name__}")
    if not 0.0 < limit < math.inf:
        raise ValueError(f"huber_loss: delta must be a finite number above 0, not {delta}")
    difference = binary("huber_loss", prim.SUB, wide(a), wide(b))
    slope = clamped(difference, -limit, limit)
    terms = binary("huber_loss", prim.MUL, slope, binary("huber_loss", prim.SUB, difference, scaled(slope, 0.5)))

    def grad(g: Tensor) -> tuple[Tensor, Tensor]:
        part = clamp(a - b, -limit, limit) * share(g, reduction, a.size)
        return part, -part

    return record("huber_loss", result(reduced(terms, reduction), a, b), (a, b), grad)


# ---------------------------------------------------------------- of vectors


def cosine_similarity(a: TensorLike, b: TensorLike, axis: int = 1, eps: float = 1e-8) -> Tensor:
    """sum(a * b) / (max(|a|, eps) * max(|b|, eps)) along an axis: the cosine of the angle between vectors.

    The gradient takes the limited lengths for the real ones, as PyTorch's does.

    Args:
        a: float32, float16 or bfloat16, at least one dimension.
        b: of a shape that broadcasts with it.
        axis: along which the vectors lie, in the shape both broadcast to; it leaves the result.
        eps: the least length; from 0 on.

    Raises:
        ValueError: the shapes do not broadcast, eps is negative, operands are on different devices.
        IndexError: there is no such axis. TypeError: a wrong type.

    >>> ag.cosine_similarity([[3.0, 0.0], [1.0, 1.0]], [[2.0, 0.0], [2.0, -2.0]]).tolist()
    [1.0, 0.0]
    """
    op = "cosine_similarity"
    a, b = floats(op, a, b)
    shape = base.broadcast(op, a.shape, b.shape)
    axis = one_axis(op, axis, len(shape))
    least = number(eps)
    if least is None:
        raise TypeError(f"{op}: eps must be a number, not {type(eps).__name__}")
    if not 0.0 <= least < math.inf:
        raise ValueError(f"{op}: eps must be a finite number from 0 on, not {eps}")
    units = []
    for x in (a, b):
        array = wide(x) if x.shape == shape else expanded(wide(x), shape)
        length = clamped(_norm(array, 2.0, (axis,)), least, math.inf)
        units.append(binary(op, prim.DIV, array, length))
    kept = (*shape[:axis], 1, *shape[axis + 1 :])
    total = _sum(binary(op, prim.MUL, *units), (axis,)).reshaped((*shape[:axis], *shape[axis + 1 :]))
    saved_a, saved_b = a, b

    def grad(g: Tensor) -> tuple[Tensor | None, Tensor | None]:
        g = g.reshape(kept)
        whole = [broadcast_to(astype(x, FLOAT), shape) for x in (saved_a, saved_b)]
        sizes = [norm(x, 2, axis, keepdims=True) for x in whole]
        limited = [clamp(size, least) for size in sizes]
        first, second = (x / size for x, size in zip(whole, limited, strict=True))
        cosine = sum(first * second, axis, keepdims=True)
        found = []
        for i, other in ((0, second), (1, first)):
            slope = (other - cosine * (whole[i] / _nonzero(sizes[i]))) * (g / limited[i])
            found.append(sum_to(slope, (saved_a, saved_b)[i].shape))
        return found[0], found[1]

    return record(op, result(total, a, b), (a, b), grad)


# ---------------------------------------------------------------- what losses share


def check_reduction(op: str, reduction: Any, *more: str) -> None:
    """Raise ValueError for a reduction that is none."""
    known = ("mean", "sum", "none", *more)
    if not isinstance(reduction, str) or reduction not in known:
        raise ValueError(f"{op}: reduction must be one of {', '.join(known)}, not {reduction!r}")


def pair(op: str, name: str, a: TensorLike, b: TensorLike, reduction: Any, *more: str) -> tuple[Tensor, Tensor]:
    """A prediction and a target of one shape."""
    check_reduction(op, reduction, *more)
    a, b = floats(op, a, b)
    if a.shape != b.shape:
        raise ValueError(f"{op}: {name} has shape {a.shape}, target {b.shape}")
    return a, b


def constant(op: str, name: str, value: TensorLike | None, like: Tensor, shape: Shape | None = None) -> Tensor | None:
    """A factor that has no gradient: of a shape, or of one that broadcasts to that of `like`."""
    if value is None:
        return None
    _, tensor = floats(op, like, value)
    if tensor.requires_grad:
        raise ValueError(f"{op}: {name} has no gradient: pass {name}.detach()")
    if shape is None and base.broadcast(op, tensor.shape, like.shape) != like.shape:
        raise ValueError(f"{op}: {name} of shape {tensor.shape} does not broadcast to {like.shape}")
    if shape is not None and tensor.shape != shape:
        raise ValueError(f"{op}: {name} must have shape {shape}, not {tensor.shape}")
    return tensor


def reduced(terms: Array, reduction: str) -> Array:
    """The terms, or their sum or mean: a scalar."""
    if reduction == "none":
        return terms
    total = _sum(terms, tuple(range(len(terms.shape)))).reshaped(())
    return scaled(total, 1.0 / terms.size) if reduction == "mean" else total


def share(g: Tensor, reduction: str, n: int) -> Tensor:
    """The gradient of each term in float32, from that of what `reduced` made of n of them."""
    g = astype(g, FLOAT)
    return g * (1.0 / n) if reduction == "mean" else g


__all__ = ["cosine_similarity", "huber_loss", "l1_loss", "mse_loss"]
