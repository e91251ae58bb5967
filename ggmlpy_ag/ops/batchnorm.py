"""Batch normalization."""

from __future__ import annotations

import math

from ..backend import primitives as prim
from ..backend.array import Array
from ..tensor import Tensor, TensorLike
from . import base
from .base import binary, floats, number, reshaped, scaled, wide
from .normalization import Plan, affine, as_channels, centred, checked_eps, inverse_root, mean_square, shifted


def batch_norm(
    x: TensorLike,
    running_mean: TensorLike | None = None,
    running_var: TensorLike | None = None,
    weight: TensorLike | None = None,
    bias: TensorLike | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """(x - mean) / sqrt(variance + eps) * weight + bias for each channel (Ioffe and Szegedy 2015).

    In training, mean and variance are those of this batch, and gradients know that they depend on `x`. The running
    ones move towards them, in place and on the device: `running += momentum * (batch - running)`, with the variance
    over n - 1, as in PyTorch. That write computes what is pending, and counts: a rule that saved an old value raises.
    A checkpointed function that runs twice moves them twice. Out of training, the running ones normalize.

    The tape keeps `x` and `weight`, and out of training the running tensors.

    Args:
        x: (n, channels, ...), float32, float16 or bfloat16.
        running_mean: (channels,), without a gradient; None only in training. In training, a tensor.
        running_var: as running_mean.
        weight: (channels,); None for 1.
        bias: (channels,); None for 0.
        training: normalize by the statistics of `x`.
        momentum: the share of this batch in the running values.
        eps: added to the variance; from 0 on.

    Raises:
        ValueError: shapes do not fit, one value a channel in training, no running values out of it, or only one of
        the two, or one that requires a gradient; eps is negative; operands are on different devices.
        TypeError: a wrong type; running values in training that are no tensors.

    >>> mean, var = ag.tensor([0.0]), ag.tensor([1.0])
    >>> ag.batch_norm([[1.0], [3.0]], mean, var, training=True, momentum=0.5, eps=3.0).tolist()
    [[-0.5], [0.5]]
    >>> mean.tolist(), var.tolist()
    ([1.0], [1.5])
    >>> ag.batch_norm([[1.0], [3.0]], mean, var, eps=2.5).tolist()
    [[0.0], [1.0]]
    """
    x, view = as_channels("batch_norm", x)
    n, channels, inner = view
    weight, bias = affine("batch_norm", x, (channels,), weight, bias)
    running = _running(x, channels, running_mean, running_var, training)
    share = number(momentum)
    if share is None:
        raise TypeError(f"batch_norm: momentum must be a number, not {type(momentum).__name__}")
    if not math.isfinite(share):
        raise ValueError(f"batch_norm: momentum must be finite, not {momentum}")
    plan = Plan("batch_norm", view, (0, 2), view, (channels, 1), checked_eps("batch_norm", eps))
    if not training:
        assert running is not None
        middle, variance = (reshaped(wide(t), plan.parameters) for t in running)
        deviation = binary("batch_norm", prim.SUB, reshaped(wide(x), view), middle)
        return shifted(_scaled(deviation, variance, weight, plan), x, weight, bias, plan, running)
    if n * inner == 1:
        raise ValueError(f"batch_norm: training needs more than one value a channel, but x has shape {x.shape}")
    array, moved = _by_batch(x, weight, running, share, plan)
    out = shifted(array, x, weight, bias, plan)
    if running is not None:  # after the result has been recorded, so that both are computed in one graph
        steps = [(prim.ASSIGN, [new, old._array]) for new, old in zip(moved, running, strict=True)]
        x._array.device.graph.update(steps)
    return out


def _by_batch(
    x: Tensor, weight: Tensor | None, running: tuple[Tensor, Tensor] | None, momentum: float, plan: Plan
) -> tuple[Array, list[Array]]:
    """The result without the bias, and the new running values."""
    deviation, middle = centred(reshaped(wide(x), plan.view), plan.axes)
    variance = mean_square(deviation, plan.axes)
    moved = []
    if running is not None:
        n = x.size // plan.view[1]
        for old, new in zip(running, (middle, scaled(variance, n / (n - 1.0))), strict=True):
            kept, added = scaled(wide(old), 1.0 - momentum), scaled(new.reshaped(old.shape), momentum)
            moved.append(base.cast(binary("batch_norm", prim.ADD, kept, added), old.dtype))
    return _scaled(deviation, variance, weight, plan), moved


def _scaled(deviation: Array, variance: Array, weight: Tensor | None, plan: Plan) -> Array:
    factor = inverse_root(variance, plan.eps)
    if weight is not None:
        factor = binary("batch_norm", prim.MUL, factor, reshaped(wide(weight), plan.parameters))
    return binary("batch_norm", prim.MUL, deviation, factor)


def _running(
    x: Tensor, channels: int, running_mean: TensorLike | None, running_var: TensorLike | None, training: bool
) -> tuple[Tensor, Tensor] | None:
    """The running mean and variance, checked."""
    if running_mean is None or running_var is None:
        if running_mean is not running_var:
            raise ValueError("batch_norm: give both of running_mean and running_var, or none of them")
        if not training:
            raise ValueError("batch_norm: running_mean and running_var are needed where training is false")
        return None
    for name, value in (("running_mean", running_mean), ("running_var", running_var)):
        if training and not isinstance(value, Tensor):
            raise TypeError(f"batch_norm: training writes {name}: it must be a Tensor, not {type(value).__name__}")
        if isinstance(value, Tensor) and value.requires_grad:
            raise ValueError(f"batch_norm: {name} has no gradient: make it with ag.tensor, or pass {name}.detach()")
    _, middle, variance = floats("batch_norm", x, running_mean, running_var)
    for name, tensor in (("running_mean", middle), ("running_var", variance)):
        if tensor.shape != (channels,):
            raise ValueError(f"batch_norm: {name} must have shape {(channels,)} for x of {x.shape}, not {tensor.shape}")
    return middle, variance


__all__ = ["batch_norm"]
