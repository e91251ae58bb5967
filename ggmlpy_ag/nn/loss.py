"""Losses as modules: called with a prediction and a target, they return a scalar, or a value for each element.

Their arguments that are no tensors are checked when they are made.
"""

from __future__ import annotations

from ..ops.classification import cross_entropy_loss, nll_loss
from ..ops.loss import huber_loss, l1_loss, mse_loss
from ..ops.probability import bce_loss, bce_with_logits_loss, kl_div_loss
from ..ops.windows import flag
from ..tensor import Tensor, TensorLike, param
from .arguments import sample
from .module import Module


class _Loss(Module):
    weight: Tensor | None
    pos_weight: Tensor | None

    def _constant(self, name: str, value: TensorLike | None) -> None:
        """Keep a factor, as a buffer so that it moves with the module; None for none."""
        if value is None:
            setattr(self, name, None)
        else:
            self.register_buffer(name, (value if isinstance(value, Tensor) else param(value)).detach())


class MSELoss(_Loss):
    """(prediction - target) ** 2; see `ag.mse_loss`.

    Args:
        reduction: "mean" or "sum" of all elements, or "none".

    Raises:
        ValueError: another reduction.

    >>> ag.nn.MSELoss()([1.0, 2.0], [1.0, 4.0]).item()
    2.0
    """

    def __init__(self, reduction: str = "mean") -> None:
        self.reduction = reduction
        self.forward(sample(), sample())

    def forward(self, prediction: TensorLike, target: TensorLike) -> Tensor:
        """Two of one shape -> a scalar, or their shape."""
        return mse_loss(prediction, target, self.reduction)


class L1Loss(_Loss):
    """|prediction - target|; see `ag.l1_loss`.

    Args:
        reduction: "mean" or "sum" of all elements, or "none".

    Raises:
        ValueError: another reduction.
    """

    def __init__(self, reduction: str = "mean") -> None:
        self.reduction = reduction
        self.forward(sample(), sample())

    def forward(self, prediction: TensorLike, target: TensorLike) -> Tensor:
        """Two of one shape -> a scalar, or their shape."""
        return l1_loss(prediction, target, self.reduction)


class HuberLoss(_Loss):
    """A parabola up to |prediction - target| = delta, and straight lines beyond; see `ag.huber_loss`.

    Args:
        reduction: "mean" or "sum" of all elements, or "none".
        delta: where the parabola ends; above 0.

    Raises:
        ValueError: another reduction, or a delta that is not above 0. TypeError: delta is no number.
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        self.reduction, self.delta = reduction, delta
        self.forward(sample(), sample())

    def forward(self, prediction: TensorLike, target: TensorLike) -> Tensor:
        """Two of one shape -> a scalar, or their shape."""
        return huber_loss(prediction, target, self.delta, self.reduction)


class CrossEntropyLoss(_Loss):
    """Cross entropy of softmax(logits); see `ag.cross_entropy_loss`.

    Args:
        weight: (classes,), a factor for each class; None for 1.
        ignore_index: samples of this class index add nothing.
        reduction: "mean" or "sum" over all samples, or "none".
        label_smoothing: the part, from 0 to 1, of the target's probability that all classes share.

    Raises:
        ValueError: another reduction, `label_smoothing` outside [0, 1]. TypeError: a wrong type.

    >>> ag.nn.CrossEntropyLoss()([[0.0, 1000.0], [0.0, 0.0]], [1, -100]).item()
    0.0
    """

    def __init__(
        self,
        weight: TensorLike | None = None,
        *,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        self._constant("weight", weight)
        self.ignore_index, self.reduction, self.label_smoothing = ignore_index, reduction, label_smoothing
        cross_entropy_loss(sample(1), 0, None, ignore_index, label_smoothing, reduction)

    def forward(self, logits: TensorLike, target: TensorLike) -> Tensor:
        """Logits (n, classes, ...) and class indices (n, ...), or probabilities -> a scalar, or (n, ...)."""
        options = (self.ignore_index, self.label_smoothing, self.reduction)
        return cross_entropy_loss(logits, target, self.weight, *options)


class NLLLoss(_Loss):
    """-log_probs at each sample's class; see `ag.nll_loss`.

    Args:
        weight: (classes,), a factor for each class; None for 1.
        ignore_index: samples of this class index add nothing.
        reduction: "mean" or "sum" over all samples, or "none".

    Raises:
        ValueError: another reduction. TypeError: a wrong type.
    """

    def __init__(self, weight: TensorLike | None = None, *, ignore_index: int = -100, reduction: str = "mean") -> None:
        self._constant("weight", weight)
        self.ignore_index, self.reduction = ignore_index, reduction
        nll_loss(sample(1), 0, None, ignore_index, reduction)

    def forward(self, log_probs: TensorLike, target: TensorLike) -> Tensor:
        """Logarithms (n, classes, ...) and class indices (n, ...) -> a scalar, or (n, ...)."""
        return nll_loss(log_probs, target, self.weight, self.ignore_index, self.reduction)


class BCELoss(_Loss):
    """Binary cross entropy of probabilities; see `ag.bce_loss`.

    Args:
        weight: a factor for each element, which broadcasts; None for 1.
        reduction: "mean" or "sum" of all elements, or "none".

    Raises:
        ValueError: another reduction. TypeError: a wrong type.
    """

    def __init__(self, weight: TensorLike | None = None, *, reduction: str = "mean") -> None:
        self._constant("weight", weight)
        self.reduction = reduction
        bce_loss(sample(), sample(), None, reduction)

    def forward(self, p: TensorLike, target: TensorLike) -> Tensor:
        """Two of one shape -> a scalar, or their shape."""
        return bce_loss(p, target, self.weight, self.reduction)


class BCEWithLogitsLoss(_Loss):
    """Binary cross entropy of sigmoid(logits); see `ag.bce_with_logits_loss`.

    Args:
        weight: a factor for each element, which broadcasts; None for 1.
        pos_weight: a factor for the part of the target, which broadcasts; None for 1.
        reduction: "mean" or "sum" of all elements, or "none".

    Raises:
        ValueError: another reduction. TypeError: a wrong type.

    >>> ag.nn.BCEWithLogitsLoss(reduction="none")([-1000.0, 1000.0, 1000.0], [0.0, 1.0, 0.0]).tolist()
    [0.0, 0.0, 1000.0]
    """

    def __init__(
        self, weight: TensorLike | None = None, *, pos_weight: TensorLike | None = None, reduction: str = "mean"
    ) -> None:
        self._constant("weight", weight)
        self._constant("pos_weight", pos_weight)
        self.reduction = reduction
        bce_with_logits_loss(sample(), sample(), None, None, reduction)

    def forward(self, logits: TensorLike, target: TensorLike) -> Tensor:
        """Two of one shape -> a scalar, or their shape."""
        return bce_with_logits_loss(logits, target, self.weight, self.pos_weight, self.reduction)


class KLDivLoss(_Loss):
    """target * (log(target) - input), for the logarithm `input` of a distribution; see `ag.kl_div_loss`.

    Args:
        reduction: "mean" or "sum" of all elements, "batchmean" for the sum divided by the first extent, or "none".
        log_target: whether the target holds logarithms too.

    Raises:
        ValueError: another reduction. TypeError: `log_target` is no bool.
    """

    def __init__(self, reduction: str = "mean", log_target: bool = False) -> None:
        self.reduction, self.log_target = reduction, flag("KLDivLoss", "log_target", log_target)
        self.forward(sample(), sample())

    def forward(self, input: TensorLike, target: TensorLike) -> Tensor:
        """Two of one shape -> a scalar, or their shape."""
        return kl_div_loss(input, target, self.reduction, self.log_target)


__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "CrossEntropyLoss", "HuberLoss", "KLDivLoss", "L1Loss", "MSELoss", "NLLLoss",
]  # fmt: skip
