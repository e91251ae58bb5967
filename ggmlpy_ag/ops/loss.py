"""Losses."""

from __future__ import annotations

import numpy as np

from ..backend import primitives as prim
from ..backend.array import FLOAT, INT, Array
from ..tape import record
from ..tensor import Tensor, TensorLike, as_numpy
from . import base
from .activation import log_softmax, log_softmax_rows, softmax
from .base import floats, result, scaled, wide
from .reduce import _sum, sum


def mse_loss(prediction: TensorLike, target: TensorLike) -> Tensor:
    """Mean of (prediction - target) ** 2 over all elements: a scalar.

    Raises:
        ValueError: the shapes differ (nothing is broadcast here: it is nearly always a mistake in a loss).
    """
    prediction, target = floats("mse_loss", prediction, target)
    if prediction.shape != target.shape:
        raise ValueError(f"mse_loss: prediction has shape {prediction.shape}, target {target.shape}")
    difference = base.binary("mse_loss", prim.SUB, wide(prediction), wide(target))
    squares = base.binary("mse_loss", prim.MUL, difference, difference)
    n = prediction.size
    out = result(scaled(_sum(squares, tuple(range(prediction.ndim))), 1.0 / n).reshaped(()), prediction, target)
    saved = (prediction, target)

    def grad(g: Tensor) -> tuple[Tensor, Tensor]:
        part = (saved[0] - saved[1]) * (g * (2.0 / n))
        return part, -part

    return record("mse_loss", out, saved, grad)


def cross_entropy_loss(logits: TensorLike, target: TensorLike) -> Tensor:
    """Mean cross entropy of a batch of logits, by log-sum-exp: finite wherever the loss is.

    Args:
        logits: float32 (n, classes), or (classes,) for one sample.
        target: class indices (n,), int32 or NumPy integers, or probabilities of the shape of `logits`.

    Raises:
        IndexError: a class index outside [0, classes); names the sample. ValueError: shapes do not fit.
        TypeError: class indices that are no integers.
    """
    (logits,) = floats("cross_entropy_loss", logits)
    if logits.ndim not in (1, 2):
        raise ValueError(f"cross_entropy_loss: logits must be (n, classes) or (classes,), not {logits.shape}")
    try:
        shape = target.shape if isinstance(target, Tensor) else np.shape(target)
    except ValueError as error:
        raise ValueError(f"cross_entropy_loss: target must be a regular array: {error}") from None
    if shape == logits.shape:
        return _from_probabilities(logits, target)
    if shape != logits.shape[:-1]:
        raise ValueError(
            f"cross_entropy_loss: for logits of shape {logits.shape}, target must be class indices of shape "
            f"{logits.shape[:-1]} or probabilities of shape {logits.shape}, not {shape}"
        )
    return _from_indices(logits, target)


def _from_probabilities(logits: Tensor, target: TensorLike) -> Tensor:
    logits, target = floats("cross_entropy_loss", logits, target)
    # 0 * log(0) is 0 here: a class without probability does not count, however small its logit is
    n = logits.size // logits.shape[-1]
    log_p = log_softmax_rows(wide(logits))
    least = base.clamped(log_p, -3.4028234663852886e38, float("inf"))
    products = base.binary("cross_entropy_loss", prim.MUL, wide(target), least)
    out = result(scaled(_sum(products, tuple(range(logits.ndim))), -1.0 / n).reshaped(()), logits)
    saved_logits, saved_target = logits, target

    def grad(g: Tensor) -> tuple[Tensor, Tensor | None]:
        part = g * (1.0 / n)
        # the derivative of -sum(t * log_softmax(x)) is softmax(x) * sum(t) - t
        to_logits = (softmax(saved_logits) * sum(saved_target, -1, keepdims=True) - saved_target) * part
        return to_logits, -(log_softmax(saved_logits) * part) if saved_target.requires_grad else None

    return record("cross_entropy_loss", out, (logits, target), grad)


def _from_indices(logits: Tensor, target: TensorLike) -> Tensor:
    classes = logits.shape[-1]
    n = logits.size // classes
    labels = _labels(target, classes, logits)
    graph = logits._array.device.graph
    log_p = log_softmax_rows(wide(logits))
    # one row of one element for each class, and the row picked in each sample
    picked = graph.record(prim.GET_ROWS, (log_p.reshaped((n, classes, 1)), labels.reshaped((n, 1))), (n, 1, 1), FLOAT)
    out = result(scaled(_sum(picked, (0, 1, 2)), -1.0 / n).reshaped(()), logits)
    saved_logits, saved_labels = logits, Tensor(labels)

    def grad(g: Tensor) -> tuple[Tensor]:
        hot = Tensor(_one_hot(saved_labels._array, classes).reshaped(saved_logits.shape))
        return ((softmax(saved_logits) - hot) * (g * (1.0 / n)),)

    return record("cross_entropy_loss", out, (logits,), grad)


def _labels(target: TensorLike, classes: int, logits: Tensor) -> Array:
    """Checked class indices on the device of the logits."""
    device = logits._array.device
    if isinstance(target, Tensor):
        if target.dtype is not INT:
            raise TypeError(f"cross_entropy_loss: class indices must be int32, not {target.dtype}")
        if target._array.device is not device:
            raise ValueError(f"cross_entropy_loss: logits are on {device.name}, target on {target.device}")
        bounds = target._array.storage.bounds
        if bounds is None or bounds[0] < 0 or bounds[1] >= classes:
            _check_labels(target.numpy(), classes)
        return base.packed(target._array)
    values = np.asarray(target)
    if values.dtype.kind not in "iu":
        raise TypeError(f"cross_entropy_loss: class indices must be integers, not {values.dtype}")
    _check_labels(values, classes)
    return device.upload(as_numpy(values, INT, "target"))


def _check_labels(values: np.ndarray, classes: int) -> None:
    wrong = np.flatnonzero((values < 0) | (values >= classes))
    if wrong.size:
        i = int(wrong[0])
        raise IndexError(
            f"cross_entropy_loss: class index {values.reshape(-1)[i]} of sample {i} is outside [0, {classes})"
        )


def _one_hot(labels: Array, classes: int) -> Array:
    """(n,) int32 -> (n, classes): 1 at the label, else 0. Exact below 2**24 classes."""
    graph = labels.device.graph
    n = labels.size
    if classes <= 256:  # rows of the identity; beyond, that would take more memory than what it serves
        ones = scaled(base.counting("cross_entropy_loss", labels.device, classes), 0.0, 1.0)
        identity = graph.record(prim.DIAG, (ones,), (classes, classes), FLOAT)
        return graph.record(prim.GET_ROWS, (identity, labels.reshaped((n,))), (n, classes), FLOAT)
    column = graph.record(prim.TO_FLOAT, (labels.reshaped((n, 1)),), (n, 1), FLOAT)
    numbers = base.expanded(base.counting("cross_entropy_loss", labels.device, classes), (n, classes))
    return base.equal_mask(numbers, column)


__all__ = ["cross_entropy_loss", "mse_loss"]
