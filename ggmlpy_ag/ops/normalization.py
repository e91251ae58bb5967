"""Normalization: elements minus their mean, divided by their standard deviation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ..backend import primitives as prim
from ..backend.array import FLOAT, Array, Shape
from ..tape import GradFn, record
from ..tensor import Tensor, TensorLike
from . import base
from .base import binary, floats, integer, number, reshaped, result, scaled, unary, wide
from .functions import sqrt
from .reduce import _sum, mean, sum_to
from .shape import astype

RMS_COLUMNS = 512  # Vulkan's kernel gives each row so many threads, however short it is
RMS_ROWS = 65_535  # of one launch there


def layer_norm(
    x: TensorLike,
    normalized_shape: int | Sequence[int],
    weight: TensorLike | None = None,
    bias: TensorLike | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """(x - mean) / sqrt(variance + eps) * weight + bias, over the last dimensions (Ba, Kiros and Hinton 2016).

    The mean is subtracted before anything is squared: values far from 0 lose no more than their own rounding. The
    tape keeps `x` and `weight`; the backward pass computes the statistics again.

    Args:
        x: (..., *normalized_shape), float32, float16 or bfloat16.
        normalized_shape: the extents of the last dimensions, or of the last one.
        weight: of normalized_shape; None for 1.
        bias: of normalized_shape; None for 0.
        eps: added to the variance; from 0 on.

    Raises:
        ValueError: shapes do not fit, eps is negative, operands are on different devices. TypeError: a wrong type.

    >>> ag.layer_norm([[1.0, 2.0, 3.0, 4.0], [5.0, 5.0, 5.0, 5.0]], 4, eps=1.25).tolist()[1]
    [0.0, 0.0, 0.0, 0.0]
    >>> ag.layer_norm([-1.0, 1.0], 2, weight=[2.0, 2.0], bias=[0.0, 3.0], eps=3.0).tolist()
    [-1.0, 4.0]
    """
    x, shape = _last_dimensions("layer_norm", x, normalized_shape)
    weight, bias = affine("layer_norm", x, shape, weight, bias)
    n = prod(shape)
    rows = (x.size // n, n)
    plan = Plan("layer_norm", rows, (1,), rows, (n,), checked_eps("layer_norm", eps))
    return _normalized_rows(x, weight, bias, plan)


def rms_norm(
    x: TensorLike, normalized_shape: int | Sequence[int], weight: TensorLike | None = None, eps: float | None = None
) -> Tensor:
    """x / sqrt(mean of squares + eps) * weight, over the last dimensions (Zhang and Sennrich 2019).

    The tape keeps `x` and `weight`; the backward pass computes the mean of squares again.

    Args:
        x: (..., *normalized_shape), float32, float16 or bfloat16.
        normalized_shape: the extents of the last dimensions, or of the last one.
        weight: of normalized_shape; None for 1.
        eps: added to the mean of squares; None for the spacing of float32 at 1, PyTorch's choice for halves too.

    Raises:
        ValueError: shapes do not fit, eps is negative, operands are on different devices. TypeError: a wrong type.

    >>> ag.rms_norm([3.0, 3.0], 2, weight=[1.0, 2.0], eps=0.0).tolist()
    [1.0, 2.0]
    """
    x, shape = _last_dimensions("rms_norm", x, normalized_shape)
    weight, _ = affine("rms_norm", x, shape, weight, None)
    n = prod(shape)
    rows = (x.size // n, n)
    least = float(np.finfo(np.float32).eps) if eps is None else checked_eps("rms_norm", eps)
    return _normalized_rows(x, weight, None, Plan("rms_norm", rows, (1,), rows, (n,), least, centred=False))


def group_norm(
    x: TensorLike,
    num_groups: int,
    weight: TensorLike | None = None,
    bias: TensorLike | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """(x - mean) / sqrt(variance + eps) * weight + bias over groups of channels (Wu and He 2018).

    With one group it normalizes each sample, with a group for each channel it is instance normalization. The tape
    keeps `x` and `weight`.

    Args:
        x: (n, channels, ...), float32, float16 or bfloat16.
        num_groups: how many groups of neighbouring channels; a divisor of their number.
        weight: (channels,); None for 1.
        bias: (channels,); None for 0.
        eps: added to the variance; from 0 on.

    Raises:
        ValueError: shapes do not fit, num_groups does not divide the channels, eps is negative, operands are on
        different devices. TypeError: a wrong type.

    >>> ag.group_norm([[1.0, 3.0, 5.0, 5.0]], num_groups=2, eps=3.0).tolist()
    [[-0.5, 0.5, 0.0, 0.0]]
    """
    x, view = as_channels("group_norm", x)
    n, channels, inner = view
    weight, bias = affine("group_norm", x, (channels,), weight, bias)
    groups = integer("group_norm", "num_groups", num_groups)
    if groups < 1 or channels % groups:
        raise ValueError(f"group_norm: num_groups must divide the {channels} channels of {x.shape}, not {num_groups}")
    rows = (n * groups, channels // groups * inner)
    return _normalized_rows(
        x, weight, bias, Plan("group_norm", rows, (1,), view, (channels, 1), checked_eps("group_norm", eps))
    )


# ---------------------------------------------------------------- what they share


@dataclass(frozen=True)
class Plan:
    """How an operation normalizes: in shape `apart`, over `axes`; `view` is the shape that weight and bias, reshaped
    to `parameters`, broadcast to.
    """

    op: str
    apart: Shape
    axes: tuple[int, ...]
    view: Shape
    parameters: Shape
    eps: float
    centred: bool = True


def _normalized_rows(x: Tensor, weight: Tensor | None, bias: Tensor | None, plan: Plan) -> Tensor:
    a = reshaped(wide(x), plan.apart)
    if plan.centred:
        a, _ = centred(a, plan.axes)
    array = _over_root_mean_square(a, plan.eps).reshaped(plan.view)
    if weight is not None:
        array = binary(plan.op, prim.MUL, array, reshaped(wide(weight), plan.parameters))
    return shifted(array, x, weight, bias, plan)


def shifted(
    array: Array,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    plan: Plan,
    running: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    """The bias added, and the operation recorded. `running`: a mean and a variance that do not depend on x."""
    if bias is not None:
        array = binary(plan.op, prim.ADD, array, reshaped(wide(bias), plan.parameters))
    operands = (x, *(t for t in (weight, bias) if t is not None))
    out = result(array.reshaped(x.shape), *operands)
    return record(plan.op, out, operands, _rule(x, weight, bias, plan, running))


def _rule(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, plan: Plan, running: tuple[Tensor, Tensor] | None
) -> GradFn:
    """The gradients of x, weight and bias (those there are), by statistics that are computed from x again."""
    shape = x.shape
    to_x, to_weight = x.requires_grad, weight is not None and weight.requires_grad
    values = x if to_weight or (to_x and running is None) else None
    factor = weight if to_x else None
    weight_shape = None if weight is None else weight.shape
    bias_shape = None if bias is None else bias.shape

    def grad(g: Tensor) -> tuple[Tensor | None, ...]:
        g = astype(g, FLOAT).reshape(plan.view)
        found: list[Tensor | None] = [None]
        normal = None
        if to_x or to_weight:
            deviation, inverse = _statistics(values, plan, running)
            normal = None if deviation is None else deviation * inverse
        if to_x:
            part = g if factor is None else g * astype(factor, FLOAT).reshape(plan.parameters)
            part = part.reshape(plan.apart)
            if running is None:
                assert normal is not None
                # the derivative of the square root brings the second term, that of the mean the third
                spread = part - normal * mean(part * normal, plan.axes, keepdims=True)
                part = spread - mean(part, plan.axes, keepdims=True) if plan.centred else spread
            found[0] = (part * inverse).reshape(shape)
        if weight_shape is not None:
            each = None if normal is None else g * normal.reshape(plan.view)
            found.append(None if each is None else sum_to(each, plan.parameters).reshape(weight_shape))
        if bias_shape is not None:
            found.append(sum_to(g, plan.parameters).reshape(bias_shape))
        return tuple(found)

    return grad


def _statistics(x: Tensor | None, plan: Plan, running: tuple[Tensor, Tensor] | None) -> tuple[Tensor | None, Tensor]:
    """The deviation of x from the mean, and what it is multiplied with."""
    if x is not None:
        x = astype(x, FLOAT).reshape(plan.apart)
    if running is not None:
        middle, variance = (astype(t, FLOAT).reshape(plan.parameters) for t in running)
        return None if x is None else x - middle, 1.0 / sqrt(variance + plan.eps)
    assert x is not None
    if plan.centred:
        for _ in range(2):  # as in `centred`
            x = x - mean(x, plan.axes, keepdims=True)
    return x, 1.0 / sqrt(mean(x * x, plan.axes, keepdims=True) + plan.eps)


# ---------------------------------------------------------------- on arrays


def centred(a: Array, axes: tuple[int, ...]) -> tuple[Array, Array]:
    """Minus the mean, and the mean.

    The mean of large values is rounded to their spacing; the mean of what is left after subtracting it makes up for it.
    """
    share = 1.0 / prod(a.shape[i] for i in axes)
    first = scaled(_sum(a, axes), share)
    a = binary("norm", prim.SUB, a, first)
    second = scaled(_sum(a, axes), share)
    return binary("norm", prim.SUB, a, second), binary("norm", prim.ADD, first, second)


def _over_root_mean_square(a: Array, eps: float) -> Array:
    """Each row divided by the root of the mean of its squares."""
    rows, n = a.shape
    if a.device.is_cpu or (n >= RMS_COLUMNS and rows <= RMS_ROWS):
        return a.device.graph.record(prim.RMS_NORM, (a,), a.shape, FLOAT, eps)
    return binary("norm", prim.MUL, a, inverse_root(mean_square(a, (1,)), eps))


def mean_square(a: Array, axes: tuple[int, ...]) -> Array:
    """The mean of the squares over some axes, which keep extent 1."""
    return scaled(_sum(unary(prim.SQUARE, a), axes), 1.0 / prod(a.shape[i] for i in axes))


def inverse_root(variance: Array, eps: float) -> Array:
    """1 / sqrt(variance + eps)."""
    return binary("norm", prim.DIV, variance.device.constant(1.0), unary(prim.SQRT, scaled(variance, 1.0, eps)))


# ---------------------------------------------------------------- checking operands


def _last_dimensions(op: str, x: TensorLike, normalized_shape: int | Sequence[int]) -> tuple[Tensor, Shape]:
    (x,) = floats(op, x)
    given: Any = (normalized_shape,) if isinstance(normalized_shape, (int, np.integer)) else normalized_shape
    shape = base.int_shape(op, given)
    if not shape or x.shape[-len(shape) :] != shape:
        raise ValueError(f"{op}: x of shape {x.shape} does not end with normalized_shape {shape}")
    return x, shape


def as_channels(op: str, x: TensorLike) -> tuple[Tensor, Shape]:
    """x, and (n, channels, elements)."""
    (x,) = floats(op, x)
    if x.ndim < 2:
        raise ValueError(f"{op}: x must be (n, channels, ...), not {x.shape}")
    return x, (x.shape[0], x.shape[1], prod(x.shape[2:]))


def affine(
    op: str, x: Tensor, shape: Shape, weight: TensorLike | None, bias: TensorLike | None
) -> tuple[Tensor | None, Tensor | None]:
    """Weight and bias, those there are, as tensors beside x. Raises ValueError for another shape."""
    found: list[Tensor | None] = []
    for name, value in (("weight", weight), ("bias", bias)):
        tensor = None if value is None else floats(op, x, value)[1]
        if tensor is not None and tensor.shape != shape:
            raise ValueError(f"{op}: {name} must have shape {shape} for x of {x.shape}, not {tensor.shape}")
        found.append(tensor)
    return found[0], found[1]


def checked_eps(op: str, eps: float) -> float:
    """eps as a float. Raises TypeError for no number, ValueError for a negative or infinite one."""
    value = number(eps)
    if value is None:
        raise TypeError(f"{op}: eps must be a number, not {type(eps).__name__}")
    if not 0.0 <= value < math.inf:
        raise ValueError(f"{op}: eps must be a finite number from 0 on, not {eps}")
    return value


__all__ = ["group_norm", "layer_norm", "rms_norm"]
