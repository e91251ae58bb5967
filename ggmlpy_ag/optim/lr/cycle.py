"""Rates that rise and fall, and momentum that falls and rises against them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ..checks import check_choice, check_count, check_flag, check_range, check_share
from ..optimizer import Group, Optimizer
from .cosine import cosine
from .schedule import LRScheduler, check_optimizer, one_each


class _Cycle(LRScheduler):
    """A schedule that also sets the momentum of each group: "momentum", or the first of "betas"."""

    def __init__(
        self,
        optimizer: Optimizer,
        cycle_momentum: bool,
        base_momentum: float | Sequence[float],
        max_momentum: float | Sequence[float],
    ) -> None:
        check_flag("cycle_momentum", cycle_momentum)
        if cycle_momentum and not {"momentum", "betas"} & set(optimizer.defaults):
            raise ValueError(f"{type(optimizer).__name__} has no momentum to cycle: pass cycle_momentum=False")
        self.cycle_momentum = cycle_momentum
        self.base_momentums = one_each("base_momentum", base_momentum, optimizer, 1.0)
        self.max_momentums = one_each("max_momentum", max_momentum, optimizer, 1.0)
        super().__init__(optimizer)

    def _momentum(self, t: int, group: int) -> float:
        """The momentum after t steps of the group with this number."""
        raise NotImplementedError

    def _go_to(self, t: int, base_lrs: list[float]) -> None:
        if not self.cycle_momentum:
            super()._go_to(t, base_lrs)
            return
        momentums = [self._momentum(t, i) for i in range(len(base_lrs))]
        for i, momentum in enumerate(momentums):
            check_range(f"{type(self).__name__}: the momentum of group {i}", momentum, 0.0, 1.0)
        super()._go_to(t, base_lrs)
        for group, momentum in zip(self.optimizer.param_groups, momentums, strict=True):
            _set_momentum(group, momentum)


def _set_momentum(group: Group, value: float) -> None:
    if "betas" in group:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value


class CyclicLR(_Cycle):
    """Up from base_lr to max_lr and down again, over and over, as in `torch.optim.lr_scheduler.CyclicLR`. Smith 2017.

    Args:
        optimizer: see `LRScheduler`; its own rates are not used.
        base_lr: the least rate, for all groups or a list with one a group.
        max_lr: the greatest rate, likewise.
        step_size_up: steps up.
        step_size_down: steps down; as many as up by default.
        mode: "triangular"; "triangular2", where each cycle is half as high as the one before; or "exp_range", where the
            height is gamma^t.
        gamma: for "exp_range", not negative.
        scale_fn: a height instead of the mode's: a function of what scale_mode says.
        scale_mode: "cycle", the number of the cycle from 1 on, or "iterations", the number of the step.
        cycle_momentum: whether the momentum (of Adam and Lion the first beta) goes from max_momentum to base_momentum
            while the rate rises, and back.
        base_momentum: the least momentum, in [0, 1), for all groups or a list.
        max_momentum: the greatest momentum, likewise.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | Sequence[float],
        max_lr: float | Sequence[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[int], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | Sequence[float] = 0.8,
        max_momentum: float | Sequence[float] = 0.9,
    ) -> None:
        check_optimizer(optimizer)
        self.lows = one_each("base_lr", base_lr, optimizer)
        self.highs = one_each("max_lr", max_lr, optimizer)
        step_size_down = step_size_up if step_size_down is None else step_size_down
        check_count("step_size_up", step_size_up, 1)
        check_count("step_size_down", step_size_down, 1)
        check_choice("mode", mode, ("triangular", "triangular2", "exp_range"))
        check_range("gamma", gamma, 0.0)
        check_choice("scale_mode", scale_mode, ("cycle", "iterations"))
        self.total_size = step_size_up + step_size_down
        self.step_ratio = step_size_up / self.total_size
        if scale_fn is not None:
            self.scale_fn, self.scale_mode = scale_fn, scale_mode
        elif mode == "exp_range":
            self.scale_fn, self.scale_mode = (lambda t: gamma**t), "iterations"
        else:
            self.scale_fn, self.scale_mode = (lambda k: 0.5 ** (k - 1) if mode == "triangular2" else 1.0), "cycle"
        super().__init__(optimizer, cycle_momentum, base_momentum, max_momentum)

    def _height(self, t: int) -> float:
        """Of the rate above the least one, as a share of the whole way."""
        cycle = math.floor(1 + t / self.total_size)
        x = 1.0 + t / self.total_size - cycle
        triangle = x / self.step_ratio if x <= self.step_ratio else (x - 1.0) / (self.step_ratio - 1.0)
        return triangle * self.scale_fn(cycle if self.scale_mode == "cycle" else t)

    def _rate(self, t: int, base: float, group: int) -> float:
        low, high = self.lows[group], self.highs[group]
        return low + (high - low) * self._height(t)

    def _momentum(self, t: int, group: int) -> float:
        low, high = self.base_momentums[group], self.max_momentums[group]
        return high - (high - low) * self._height(t)


class OneCycleLR(_Cycle):
    """Once up to max_lr and down to almost nothing, as in `torch.optim.lr_scheduler.OneCycleLR`.

    From max_lr / div_factor to max_lr, and from there to max_lr / div_factor / final_div_factor. Smith and Topin 2018,
    in the form of fastai.

    Args:
        optimizer: see `LRScheduler`; its own rates are not used.
        max_lr: the greatest rate, for all groups or a list with one a group.
        total_steps: of the cycle; or give epochs and steps_per_epoch.
        epochs: see total_steps.
        steps_per_epoch: see total_steps.
        pct_start: the share of the steps that go up, in [0, 1].
        anneal_strategy: "cos" or "linear".
        cycle_momentum: whether the momentum (of Adam and Lion the first beta) goes from max_momentum to base_momentum
            while the rate rises, and back.
        base_momentum: the least momentum, in [0, 1), for all groups or a list.
        max_momentum: the greatest momentum, likewise.
        div_factor: see above, above 0.
        final_div_factor: see above, above 0.
        three_phase: come down to the initial rate in as many steps as it rose, and then go on to the least one.

    The step after the last one leaves all as it is, where PyTorch goes on beyond the least rate, even below 0; another
    one raises ValueError.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | Sequence[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | Sequence[float] = 0.85,
        max_momentum: float | Sequence[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
    ) -> None:
        check_optimizer(optimizer)
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ValueError("give total_steps, or epochs and steps_per_epoch")
            check_count("epochs", epochs, 1)
            check_count("steps_per_epoch", steps_per_epoch, 1)
            total_steps = epochs * steps_per_epoch
        check_count("total_steps", total_steps, 1)
        check_share("pct_start", pct_start)
        check_choice("anneal_strategy", anneal_strategy, ("cos", "linear"))
        for name, factor in (("div_factor", div_factor), ("final_div_factor", final_div_factor)):
            check_range(name, factor, 0.0)
            if not factor:
                raise ValueError(f"{name} must be above 0")
        check_flag("three_phase", three_phase)
        self.total_steps = total_steps
        self.highs = one_each("max_lr", max_lr, optimizer)
        self.firsts = [high / div_factor for high in self.highs]
        self.lasts = [first / final_div_factor for first in self.firsts]
        self._between = cosine if anneal_strategy == "cos" else _linear
        # steps where a phase begins and ends, and its levels there: 0 is the initial rate, 1 the greatest, 2 the least
        up, end = float(pct_start * total_steps) - 1.0, float(total_steps - 1)
        if three_phase:
            self._phases = [(0.0, up, 0, 1), (up, 2.0 * up, 1, 0), (2.0 * up, end, 0, 2)]
        else:
            self._phases = [(0.0, up, 0, 1), (up, end, 1, 2)]
        super().__init__(optimizer, cycle_momentum, base_momentum, max_momentum)

    def _at(self, t: int, *levels: float) -> float:
        if t > self.total_steps:
            raise ValueError(f"OneCycleLR has {self.total_steps} steps, and this would be step {t}")
        begin, end, first, last = next((phase for phase in self._phases if t <= phase[1]), self._phases[-1])
        share = (t - begin) / (end - begin) if end != begin else 1.0  # a phase without steps is over
        return self._between(levels[first], levels[last], min(share, 1.0))

    def _rate(self, t: int, base: float, group: int) -> float:
        return self._at(t, self.firsts[group], self.highs[group], self.lasts[group])

    def _momentum(self, t: int, group: int) -> float:
        low, high = self.base_momentums[group], self.max_momentums[group]
        return self._at(t, high, low, high)


def _linear(start: float, end: float, share: float) -> float:
    return (end - start) * share + start
