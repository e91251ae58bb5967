"""Rates that fall by a factor, or by a function of one's own."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence

from ..checks import check_count, check_range
from ..optimizer import Optimizer
from .schedule import LRScheduler, check_optimizer


class StepLR(LRScheduler):
    """lr = base gamma^floor(t / step_size), as `torch.optim.lr_scheduler.StepLR` has it.

    Args:
        optimizer: see `LRScheduler`.
        step_size: steps between two falls.
        gamma: the factor, not negative.
    """

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1) -> None:
        check_count("step_size", step_size, 1)
        check_range("gamma", gamma, 0.0)
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer)

    def _rate(self, t: int, base: float, group: int) -> float:
        return base * self.gamma ** (t // self.step_size)


class MultiStepLR(LRScheduler):
    """lr = base gamma^(milestones reached), as `torch.optim.lr_scheduler.MultiStepLR` has it.

    Args:
        optimizer: see `LRScheduler`.
        milestones: the steps, from 1, at which the rate falls; one named twice counts twice.
        gamma: the factor, not negative.
    """

    def __init__(self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1) -> None:
        self.milestones = list(milestones)
        for i, milestone in enumerate(self.milestones):
            check_count(f"milestones[{i}]", milestone, 1)
        self.milestones.sort()
        check_range("gamma", gamma, 0.0)
        self.gamma = gamma
        super().__init__(optimizer)

    def _rate(self, t: int, base: float, group: int) -> float:
        return base * self.gamma ** bisect_right(self.milestones, t)


class ExponentialLR(LRScheduler):
    """lr = base gamma^t, as `torch.optim.lr_scheduler.ExponentialLR` has it.

    Args:
        optimizer: see `LRScheduler`.
        gamma: the factor of each step, not negative.
    """

    def __init__(self, optimizer: Optimizer, gamma: float) -> None:
        check_range("gamma", gamma, 0.0)
        self.gamma = gamma
        super().__init__(optimizer)

    def _rate(self, t: int, base: float, group: int) -> float:
        rate: float = base * self.gamma**t
        return rate


class LambdaLR(LRScheduler):
    """lr = base lr_lambda(t), as `torch.optim.lr_scheduler.LambdaLR` has it.

    Args:
        optimizer: see `LRScheduler`.
        lr_lambda: takes the step count and returns a factor; or a list of such, one a group.
    """

    def __init__(
        self, optimizer: Optimizer, lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]]
    ) -> None:
        check_optimizer(optimizer)
        count = len(optimizer.param_groups)
        self.lr_lambdas = [lr_lambda] * count if callable(lr_lambda) else list(lr_lambda)
        if len(self.lr_lambdas) != count:
            raise ValueError(
                f"lr_lambda has {len(self.lr_lambdas)} functions, but the optimizer has {count} parameter groups"
            )
        super().__init__(optimizer)

    def _rate(self, t: int, base: float, group: int) -> float:
        return base * self.lr_lambdas[group](t)
