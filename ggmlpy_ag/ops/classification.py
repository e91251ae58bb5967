"""Losses of classes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import numpy as np

from ..backend import primitives as prim
from ..backend.array import FLOAT, INT, Array, Shape, dtype_name
from ..tape import record
from ..tensor import Tensor, TensorLike
from .activation import log_softmax, log_softmax_rows, softmax
from .base import binary, cast, clamped, equal_mask, floats, integer, number, reshaped, result, scaled, unary, wide
from .choose import _choose
from .loss import check_reduction, constant, reduced, share
from .order import LARGEST
from .reduce import _sum, sum
from .rows import as_rows, one_hot, pick_along
from .shape import astype
from .statistics import _nonzero


def cross_entropy_loss(
    logits: TensorLike,
    target: TensorLike,
    weight: TensorLike | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> Tensor:
    """Cross entropy of softmax(logits), by log-sum-exp: finite wherever the loss is.

    A class whose probability in `target` is 0 adds nothing, even where its logit is -inf. As in PyTorch, the mean of
    losses of class indices is weighted by the weights of their classes; when all are ignored it is NaN, with
    gradients 0.

    Args:
        logits: (n, classes, ...) or (classes,) for one sample; float32, float16 or bfloat16.
        target: class indices, of the shape of `logits` without the classes: an int32 tensor, or integers from the host;
            or probabilities, of the shape of `logits`. Indices that were computed on the device are not looked at but
            limited to the classes there are.
        weight: (classes,), a factor for each class, without a gradient. None for 1.
        ignore_index: samples of this index add nothing. Not with probabilities.
        label_smoothing: the part, from 0 to 1, of the target's probability that all classes share (Szegedy et al.
            2016).
        reduction: "mean" or "sum" over all samples, or "none".

    Returns:
        A scalar; for "none" the shape of `logits` without the classes.

    Raises:
        IndexError: a class index outside [0, classes); names the sample. ValueError: shapes do not fit, weight requires
        a gradient, label_smoothing is outside [0, 1], operands are on different devices, another reduction.
        TypeError: class indices that are no integers, or another wrong type.

    >>> ag.cross_entropy_loss([[0.0, 1000.0], [0.0, 0.0]], [1, -100]).item()
    0.0
    >>> ag.cross_entropy_loss([[0.0, -1000.0]], [[0.0, 1.0]], reduction="none").tolist()
    [1000.0]
    """
    op = "cross_entropy_loss"
    logits, layout, shape = _classes(op, "logits", logits, target, reduction)
    factors = constant(op, "weight", weight, logits, (layout.classes,))
    smoothing = number(label_smoothing)
    if smoothing is None:
        raise TypeError(f"{op}: label_smoothing must be a number, not {type(label_smoothing).__name__}")
    if not 0.0 <= smoothing <= 1.0:
        raise ValueError(f"{op}: label_smoothing must be from 0 to 1, not {label_smoothing}")
    ignored = integer(op, "ignore_index", ignore_index)
    if shape == logits.shape:
        if ignored >= 0:
            raise ValueError(f"{op}: ignore_index, {ignored}, is for class indices, and target holds probabilities")
        return _from_probabilities(logits, target, factors, smoothing, reduction, layout)
    labels = _labels(op, target, layout.classes, ignored, logits)
    log_p = log_softmax_rows(as_rows(wide(logits), (layout.axis,)))
    array, total = _index_loss(log_p, labels, factors, smoothing, reduction, layout)

    def grad(g: Tensor) -> tuple[Tensor]:
        t = _distribution(labels, factors, smoothing, layout)
        p = softmax(layout.rows(astype(logits, FLOAT)))
        if factors is not None or labels[1] is not None:
            p = p * sum(t, 1, keepdims=True)  # which is 1 otherwise
        return (layout.back((p - t) * _row_share(g, total, reduction, labels[0].size)),)

    return record(op, result(array, logits), (logits,), grad)


def nll_loss(
    log_probs: TensorLike,
    target: TensorLike,
    weight: TensorLike | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """-log_probs at each sample's class: `cross_entropy_loss` of what `log_softmax` has been taken of already.

    Args:
        log_probs: (n, classes, ...) or (classes,) for one sample; float32, float16 or bfloat16.
        target: class indices, of the shape of `log_probs` without the classes: an int32 tensor, or integers from the
            host. Those that were computed on the device are not looked at but limited to the classes there are.
        weight: (classes,), a factor for each class, without a gradient. None for 1.
        ignore_index: samples of this index add nothing; when all are ignored, the mean is NaN and gradients are 0.
        reduction: "sum", "none", or "mean": over all samples, weighted by the weights of their classes.

    Raises:
        IndexError: a class index outside [0, classes); names the sample. ValueError: shapes do not fit, weight requires
        a gradient, operands are on different devices, another reduction. TypeError: a wrong type.

    >>> ag.nll_loss([[-0.5, -1.0], [-2.0, -0.25]], [1, 0]).item()
    1.5
    """
    op = "nll_loss"
    log_probs, layout, shape = _classes(op, "log_probs", log_probs, target, reduction)
    factors = constant(op, "weight", weight, log_probs, (layout.classes,))
    ignored = integer(op, "ignore_index", ignore_index)
    if shape == log_probs.shape:
        raise ValueError(f"{op}: target must be class indices of shape {layout.samples}, not {shape}")
    labels = _labels(op, target, layout.classes, ignored, log_probs)
    array, total = _index_loss(as_rows(wide(log_probs), (layout.axis,)), labels, factors, 0.0, reduction, layout)

    def grad(g: Tensor) -> tuple[Tensor]:
        return (
            layout.back(_distribution(labels, factors, 0.0, layout) * -_row_share(g, total, reduction, labels[0].size)),
        )

    return record(op, result(array, log_probs), (log_probs,), grad)


# ---------------------------------------------------------------- where the classes are


@dataclass(frozen=True)
class _Layout:
    """(n, classes, ...) or (classes,), and one sample a row instead."""

    shape: Shape

    @property
    def axis(self) -> int:
        return min(1, len(self.shape) - 1)

    @property
    def classes(self) -> int:
        return self.shape[self.axis]

    @property
    def samples(self) -> Shape:
        return (*self.shape[: self.axis], *self.shape[self.axis + 1 :])

    def rows(self, x: Tensor) -> Tensor:
        """(samples, classes)."""
        if x.ndim > 2:
            x = x.permute(0, *range(2, x.ndim), 1)
        return x.reshape(-1, self.classes)

    def back(self, rows: Tensor) -> Tensor:
        if len(self.shape) < 3:
            return rows.reshape(self.shape)
        last = len(self.shape) - 1
        return rows.reshape(*self.samples, self.classes).permute(0, last, *range(1, last))


def _classes(op: str, name: str, x: TensorLike, target: TensorLike, reduction: Any) -> tuple[Tensor, _Layout, Shape]:
    """The operand, its layout, and the shape of the target, which is that of the samples or of the operand."""
    check_reduction(op, reduction)
    (x,) = floats(op, x)
    if not x.ndim:
        raise ValueError(f"{op}: {name} must be (n, classes, ...) or (classes,), not ()")
    layout = _Layout(x.shape)
    try:
        shape = target.shape if isinstance(target, Tensor) else np.shape(target)
    except ValueError as error:
        raise ValueError(f"{op}: target must be a regular array: {error}") from None
    if shape not in (layout.samples, x.shape):
        raise ValueError(
            f"{op}: for {name} (n, classes, ...) of shape {x.shape}, target must be class indices of shape "
            f"{layout.samples}{' or probabilities of that shape' if op == 'cross_entropy_loss' else ''}, not {shape}"
        )
    return x, layout, shape


# ---------------------------------------------------------------- class indices


_Labels: TypeAlias = "tuple[Tensor, Tensor | None]"  # (samples,): each one's class; 0 where it is ignored, else 1


def _labels(op: str, target: TensorLike, classes: int, ignored: int, like: Tensor) -> _Labels:
    """Checked class indices and what is ignored, on the device of the operand. No second tensor where nothing is."""
    device = like._array.device
    if isinstance(target, Tensor):
        if target._array.dtype is not INT:
            raise TypeError(f"{op}: class indices must be int32, not {dtype_name(target.dtype)}")
        if target._array.device is not device:
            raise ValueError(
                f"{op}: the operand is on {device.name}, target on {target.device}; move one with .to(device)"
            )
        bounds = target._array.storage.bounds
        if bounds is None or (bounds[0] >= 0 and bounds[1] < classes):
            return _labels_of_tensor(reshaped(target._array, (target.size,)), bounds, classes, ignored)
        values = target.numpy()  # which were uploaded: nothing is computed for it
    else:
        values = np.asarray(target)
        if values.dtype.kind not in "iu":
            raise TypeError(f"{op}: class indices must be integers, not {values.dtype}")
    kept = values != ignored
    wrong = np.flatnonzero(((values < 0) | (values >= classes)) & kept)
    if wrong.size:
        at = int(wrong[0])
        place = at if values.ndim < 2 else tuple(int(i) for i in np.unravel_index(at, values.shape))
        raise IndexError(f"{op}: class index {values.reshape(-1)[at]} of sample {place} is outside [0, {classes})")
    index = Tensor(device.upload(np.where(kept, values, 0).astype(np.int32).reshape(-1), "class indices"))
    return index, None if kept.all() else Tensor(device.upload(kept.astype(np.float32).reshape(-1), "kept samples"))


def _labels_of_tensor(index: Array, bounds: tuple[int, int] | None, classes: int, ignored: int) -> _Labels:
    low, high = (-(1 << 31), (1 << 31) - 1) if bounds is None else bounds
    values = cast(index, FLOAT)
    kept = None
    if low <= ignored <= high:
        kept = Tensor(scaled(equal_mask(values, index.device.constant(float(ignored))), -1.0, 1.0))
    if bounds is None:
        index = cast(clamped(values, 0.0, float(classes - 1)), INT)
    return Tensor(index), kept


def _index_loss(
    log_p: Array, labels: _Labels, factors: Tensor | None, smoothing: float, reduction: str, layout: _Layout
) -> tuple[Array, Tensor | None]:
    """The loss, and what its mean has been divided by: None for the number of samples."""
    index, kept = labels
    n, classes = log_p.shape
    terms = unary(prim.NEG, pick_along(log_p, reshaped(index._array, (n, 1))).reshaped((n,)))
    weights = None if kept is None else kept._array
    if factors is not None:
        picked = pick_along(reshaped(wide(factors), (1, classes)), reshaped(index._array, (1, n))).reshaped((n,))
        terms = _times(terms, picked)
        weights = picked if weights is None else _times(picked, weights)
    if smoothing:
        every = log_p if factors is None else _times(log_p, wide(factors))
        shared = scaled(_sum(every, (1,)).reshaped((n,)), -smoothing / classes)
        terms = binary("cross_entropy_loss", prim.ADD, scaled(terms, 1.0 - smoothing), shared)
    if kept is not None:  # what is ignored may be infinite
        terms = _choose(kept._array, terms, scaled(kept._array, 0.0))
    if reduction == "none":
        return terms.reshaped(layout.samples), None
    if reduction == "sum" or weights is None:
        return reduced(terms, reduction), None
    total = reduced(weights, "sum")
    return binary("cross_entropy_loss", prim.DIV, reduced(terms, "sum"), total), Tensor(total)


def _distribution(labels: _Labels, factors: Tensor | None, smoothing: float, layout: _Layout) -> Tensor:
    """(samples, classes): what each logarithm of a probability counts in the sum of all losses, without the sign."""
    index, kept = labels
    n, classes = index.size, layout.classes
    array = one_hot(index._array, classes)
    if smoothing:
        array = scaled(array, 1.0 - smoothing, smoothing / classes)
    if factors is not None:
        array = _times(array, wide(factors))
    if kept is not None:
        array = _times(array, kept._array.reshaped((n, 1)))
    return Tensor(array)


def _row_share(g: Tensor, total: Tensor | None, reduction: str, n: int) -> Tensor:
    """The gradient of each sample's term: a scalar or a column."""
    if reduction == "none":
        return g.reshape(n, 1)
    return g / _nonzero(total) if total is not None else share(g, reduction, n)


def _times(a: Array, b: Array) -> Array:
    return binary("cross_entropy_loss", prim.MUL, a, b)


# ---------------------------------------------------------------- probabilities


def _from_probabilities(
    logits: Tensor, target: TensorLike, factors: Tensor | None, smoothing: float, reduction: str, layout: _Layout
) -> Tensor:
    op = "cross_entropy_loss"
    logits, target = floats(op, logits, target)
    log_p = log_softmax_rows(as_rows(wide(logits), (layout.axis,)))
    # 0 * log(0) is 0 here: a class without probability does not count, however small its logit is
    least = clamped(log_p, -LARGEST, math.inf)
    counts = as_rows(wide(target), (layout.axis,))
    if smoothing:
        counts = scaled(counts, 1.0 - smoothing, smoothing / layout.classes)
    if factors is not None:
        counts = _times(counts, wide(factors))
    n = prod(layout.samples)
    products = unary(prim.NEG, _times(counts, least))
    if reduction == "none":
        array = _sum(products, (1,)).reshaped(layout.samples)
    else:
        array = scaled(reduced(products, "sum"), 1.0 / n if reduction == "mean" else 1.0)
    x, t = logits, target
    to_x, to_t = x.requires_grad, t.requires_grad

    def grad(g: Tensor) -> tuple[Tensor | None, Tensor | None]:
        part = _row_share(g, None, reduction, n)
        slopes: list[Tensor | None] = [None, None]
        if to_x:  # the derivative of -sum(c * log_softmax(x)) is softmax(x) * sum(c) - c
            c = layout.rows(t)
            if smoothing:
                c = c * (1.0 - smoothing) + smoothing / layout.classes
            if factors is not None:
                c = c * factors
            slopes[0] = layout.back((softmax(layout.rows(astype(x, FLOAT))) * sum(c, 1, keepdims=True) - c) * part)
        if to_t:
            logs = log_softmax(layout.rows(astype(x, FLOAT))) * (smoothing - 1.0)
            slopes[1] = layout.back((logs if factors is None else logs * factors) * part)
        return slopes[0], slopes[1]

    return record(op, result(array, logits), (logits, target), grad)


__all__ = ["cross_entropy_loss", "nll_loss"]
