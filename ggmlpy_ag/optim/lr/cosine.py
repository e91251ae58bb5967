"""Rates that fall along half a cosine."""

from __future__ import annotations

import math

from ..checks import check_count, check_range, check_share
from ..optimizer import Optimizer
from .schedule import LRScheduler


def cosine(start: float, end: float, share: float) -> float:
    """From start to end as the share goes from 0 to 1."""
    return end + (start - end) * (1.0 + math.cos(math.pi * share)) / 2.0


class CosineAnnealingLR(LRScheduler):
    """lr = eta_min + (base - eta_min) (1 + cos(pi t / T_max)) / 2, as in `torch.optim.lr_scheduler.CosineAnnealingLR`.

    After T_max steps it rises again, as there. Loshchilov and Hutter 2017, without the restarts.

    Args:
        optimizer: see `LRScheduler`.
        T_max: steps down to eta_min.
        eta_min: the least rate, not negative.
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0) -> None:
        check_count("T_max", T_max, 1)
        check_range("eta_min", eta_min, 0.0)
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer)

    def _rate(self, t: int, base: float, group: int) -> float:
        return cosine(base, self.eta_min, t / self.T_max)


class CosineAnnealingWarmRestarts(LRScheduler):
    """Cosines one after the other, as in `torch.optim.lr_scheduler.CosineAnnealingWarmRestarts`.

    Each goes from the base rate to eta_min, and is T_mult times as long as the one before. Loshchilov and Hutter 2017.

    Args:
        optimizer: see `LRScheduler`.
        T_0: steps of the first one.
        T_mult: by how much they grow.
        eta_min: the least rate, not negative.
    """

    def __init__(self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0) -> None:
        check_count("T_0", T_0, 1)
        check_count("T_mult", T_mult, 1)
        check_range("eta_min", eta_min, 0.0)
        self.T_0, self.T_mult, self.eta_min = T_0, T_mult, eta_min
        super().__init__(optimizer)

    def _rate(self, t: int, base: float, group: int) -> float:
        length = self.T_0
        if self.T_mult == 1:
            t %= length
        while t >= length:
            t -= length
            length *= self.T_mult
        return cosine(base, self.eta_min, t / length)


class WarmupCosine(LRScheduler):
    """A linear rise to the base rate, then half a cosine down to eta_min, where it stays.

    lr = base (f + (1 - f) t / warmup_steps), f being the start_factor, and then eta_min + (base - eta_min)
    (1 + cos(pi (t - warmup_steps) / (total_steps - warmup_steps))) / 2. PyTorch has it as a SequentialLR of LinearLR
    and CosineAnnealingLR; the start_factor of 0, by which the first step does nothing, is that of
    `transformers.get_cosine_schedule_with_warmup`.

    Args:
        optimizer: see `LRScheduler`.
        warmup_steps: steps of the rise; 0 for none.
        total_steps: steps of both together, more than warmup_steps.
        start_factor: of the base rate that the rise begins with, in [0, 1].
        eta_min: the least rate after the rise, not negative.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        warmup_steps: int,
        total_steps: int,
        start_factor: float = 0.0,
        eta_min: float = 0.0,
    ) -> None:
        check_count("warmup_steps", warmup_steps, 0)
        check_count("total_steps", total_steps, warmup_steps + 1)
        check_share("start_factor", start_factor)
        check_range("eta_min", eta_min, 0.0)
        self.warmup_steps, self.total_steps = warmup_steps, total_steps
        self.start_factor, self.eta_min = start_factor, eta_min
        super().__init__(optimizer)

    def _rate(self, t: int, base: float, group: int) -> float:
        if t < self.warmup_steps:
            return base * (self.start_factor + (1.0 - self.start_factor) * t / self.warmup_steps)
        share = (t - self.warmup_steps) / (self.total_steps - self.warmup_steps)
        return cosine(base, self.eta_min, min(share, 1.0))
