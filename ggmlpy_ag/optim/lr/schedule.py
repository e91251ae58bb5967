"""What schedules share: a step count, the rates that follow from it, saving it and loading it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ...backend.undo import undoable
from ..checks import check_count, check_range
from ..optimizer import Optimizer


@undoable()
class LRScheduler:
    """Base of the schedules: sets the learning rate of each parameter group, at once and after each `step`.

        for batch in batches:
            ...
            optimizer.step()
            schedule.step()

    The rates follow from the count of steps alone: one schedule an optimizer, and a rate that somebody else sets lasts
    until the next step. A schedule goes on by `load_state_dict`, so there is no `last_epoch` argument as in PyTorch.

    Args:
        optimizer: whose rates are set; those that its groups have now are the base rates.

    Attributes:
        base_lrs: the rates that a schedule begins with, one a group.
        last_epoch: how many steps it has made. Whether a step is a batch or an epoch is the caller's choice.
        last_lr: the rates that it has set, one a group.

    Raises:
        TypeError: no optimizer, or an argument that is no number. ValueError: an argument out of range.
    """

    _keys: tuple[str, ...] = ("last_epoch", "base_lrs")  # what state_dict holds

    def __init__(self, optimizer: Optimizer) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        self.last_lr: list[float] = []
        self._go_to(0, [group["lr"] for group in optimizer.param_groups])

    def _rate(self, t: int, base: float, group: int) -> float:
        """The rate after t steps of the group with this number, whose base rate is given."""
        raise NotImplementedError

    def _go_to(self, t: int, base_lrs: list[float]) -> None:
        self._check_groups(len(base_lrs))
        self._set([self._rate(t, base, i) for i, base in enumerate(base_lrs)])
        self.last_epoch, self.base_lrs = t, base_lrs

    def _check_groups(self, count: int) -> None:
        now = len(self.optimizer.param_groups)
        if now != count:
            raise ValueError(
                f"{type(self).__name__} has rates for {count} parameter groups, but the optimizer has {now}: "
                "make a new schedule after add_param_group"
            )

    def _set(self, rates: Sequence[float]) -> None:
        for i, rate in enumerate(rates):
            check_range(f"{type(self).__name__}: the rate of group {i}", rate, 0.0)
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        self.last_lr = list(rates)

    def step(self) -> None:
        """Set the next rates; to be called after `optimizer.step()`.

        Raises:
            ValueError: there is no such step, or the optimizer has got another group. Nothing has changed then.
        """
        self._go_to(self.last_epoch + 1, self.base_lrs)

    def get_last_lr(self) -> list[float]:
        """A copy of `last_lr`."""
        return list(self.last_lr)

    def state_dict(self) -> dict[str, Any]:
        """What a later `load_state_dict` needs: numbers, strings and lists.

        "kind" is the name of the class; "last_epoch" and "base_lrs" are the attributes. The arguments are not in it:
        they are those of the schedule that loads it, unlike in PyTorch.
        """
        values = {name: getattr(self, name) for name in self._keys}
        return {"kind": type(self).__name__, **{k: list(v) if isinstance(v, list) else v for k, v in values.items()}}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Go on where a schedule with the same arguments was saved, and set its rates; before or after the optimizer's.

        Args:
            saved: as `state_dict` gives it.

        Raises:
            ValueError: the state of another schedule, for other groups, out of range, or something missing.
            TypeError: something that is no number. Nothing has changed then.
        """
        self._check_saved(saved)
        self._check_rates("base_lrs", saved["base_lrs"])
        self._go_to(saved["last_epoch"], list(saved["base_lrs"]))

    def _check_saved(self, saved: Mapping[str, Any]) -> None:
        if not isinstance(saved, Mapping):
            raise TypeError(f"the state of a schedule must be a mapping, not {type(saved).__name__}")
        missing = {"kind", *self._keys} - set(saved)
        if missing:
            raise ValueError(f"this is no state of {type(self).__name__}: it lacks {', '.join(sorted(missing))}")
        if saved["kind"] != type(self).__name__:
            raise ValueError(f"this is a state of {saved['kind']}, not of {type(self).__name__}")
        check_count("last_epoch", saved["last_epoch"], 0)

    def _check_rates(self, name: str, rates: Any) -> None:
        if not isinstance(rates, (list, tuple)):
            raise TypeError(f"{name} must be a list of numbers, not {rates!r}")
        self._check_groups(len(self.base_lrs))
        if len(rates) != len(self.base_lrs):
            raise ValueError(f"{name} has {len(rates)} entries, expected {len(self.base_lrs)}, one for each group")
        for i, rate in enumerate(rates):
            check_range(f"{name}[{i}]", rate, 0.0)


def check_optimizer(optimizer: Any) -> None:
    """Raise TypeError for anything else."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"a schedule needs an optimizer, not {type(optimizer).__name__}")


def one_each(name: str, value: float | Sequence[float], optimizer: Optimizer, high: float = math.inf) -> list[float]:
    """An argument that is one number in [0, high) for all groups, or a list with one for each.

    Raises:
        ValueError: another count, or out of range. TypeError: no numbers.
    """
    count = len(optimizer.param_groups)
    values: list[Any] = list(value) if isinstance(value, (list, tuple)) else [value] * count
    if len(values) != count:
        raise ValueError(f"{name} has {len(values)} numbers, but the optimizer has {count} parameter groups")
    for i, v in enumerate(values):
        check_range(f"{name}[{i}]" if isinstance(value, (list, tuple)) else name, v, 0.0, high)
    return values
