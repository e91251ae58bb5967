"""A rate that falls when a figure gets no better."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, SupportsFloat

from ..checks import check_choice, check_count, check_range
from ..optimizer import Optimizer
from .schedule import LRScheduler, check_optimizer, one_each


class ReduceLROnPlateau(LRScheduler):
    """Multiplies the rates by a factor when a figure gets no better, as `torch.optim.lr_scheduler.ReduceLROnPlateau`.

        schedule.step(validation_loss)

    It goes by the rates that the groups have at the time, whoever has set them.

    Args:
        optimizer: see `LRScheduler`.
        mode: "min" where less is better, or "max".
        factor: in [0, 1).
        patience: how many steps without improvement are let pass.
        threshold: what counts as an improvement, not negative.
        threshold_mode: "rel", to be less than best (1 - threshold), or, for "max", more than best (1 + threshold); or
            "abs", than best - threshold, or best + threshold.
        cooldown: steps after a fall in which nothing is counted.
        min_lr: the least rate, for all groups or a list with one a group.
        eps: a fall by no more than this is left out.
    """

    _keys = ("last_epoch", "last_lr", "best", "num_bad_epochs", "cooldown_counter")

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | Sequence[float] = 0.0,
        eps: float = 1e-8,
    ) -> None:
        check_optimizer(optimizer)
        check_choice("mode", mode, ("min", "max"))
        check_range("factor", factor, 0.0, 1.0)
        check_count("patience", patience, 0)
        check_range("threshold", threshold, 0.0)
        check_choice("threshold_mode", threshold_mode, ("rel", "abs"))
        check_count("cooldown", cooldown, 0)
        check_range("eps", eps, 0.0)
        self.mode, self.factor, self.patience = mode, factor, patience
        self.threshold, self.threshold_mode = threshold, threshold_mode
        self.cooldown, self.eps = cooldown, eps
        self.min_lrs = one_each("min_lr", min_lr, optimizer)
        self.best: float | None = None
        self.num_bad_epochs = 0
        self.cooldown_counter = 0
        super().__init__(optimizer)

    def _rate(self, t: int, base: float, group: int) -> float:
        return base  # at the beginning: the rates do not follow from the count of steps

    def step(self, metrics: SupportsFloat) -> None:  # type: ignore[override]
        """Look at the figure, and set the rates.

        Args:
            metrics: a number, or a tensor of one element, which is read. NaN is no improvement.

        Raises:
            TypeError: something else. ValueError: the optimizer has got another group. Nothing has changed then.
        """
        current = float(metrics)
        self._check_groups(len(self.min_lrs))
        self.last_epoch += 1
        if self._better(current):
            self.best, self.num_bad_epochs = current, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        rates = [group["lr"] for group in self.optimizer.param_groups]
        if self.num_bad_epochs > self.patience:
            lower = [max(rate * self.factor, least) for rate, least in zip(rates, self.min_lrs, strict=True)]
            rates = [new if old - new > self.eps else old for old, new in zip(rates, lower, strict=True)]
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._set(rates)

    def _better(self, current: float) -> bool:
        if self.best is None:
            return current < math.inf if self.mode == "min" else current > -math.inf
        sign = -1.0 if self.mode == "min" else 1.0
        if self.threshold_mode == "rel":
            limit = self.best * (1.0 + sign * self.threshold)
        else:
            limit = self.best + sign * self.threshold
        return current < limit if self.mode == "min" else current > limit

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Go on where a schedule with the same arguments was saved, and set its rates; before or after the optimizer's.

        Args:
            saved: as `state_dict` gives it: "last_epoch", "last_lr", "best" (None before the first figure),
                "num_bad_epochs" and "cooldown_counter" are the attributes.

        Raises:
            ValueError: the state of another schedule, for other groups, out of range, or something missing.
            TypeError: something that is no number. Nothing has changed then.
        """
        self._check_saved(saved)
        self._check_rates("last_lr", saved["last_lr"])
        check_count("num_bad_epochs", saved["num_bad_epochs"], 0)
        check_count("cooldown_counter", saved["cooldown_counter"], 0)
        if saved["best"] is not None:
            check_range("best", saved["best"], -math.inf)
        self._set(list(saved["last_lr"]))
        self.last_epoch, self.best = saved["last_epoch"], saved["best"]
        self.num_bad_epochs, self.cooldown_counter = saved["num_bad_epochs"], saved["cooldown_counter"]
