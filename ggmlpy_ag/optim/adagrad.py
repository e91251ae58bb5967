"""Adagrad."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..ops import sqrt
from ..tensor import Tensor
from .checks import check_range
from .descent import Descent, decayed
from .groups import Params
from .optimizer import Group, Move


class Adagrad(Descent):
    """Adagrad (Duchi et al. 2011), as `torch.optim.Adagrad` has it.

    d = g + weight_decay w;  s = s + d^2;  w -= lr / (1 + (t - 1) lr_decay) d / (sqrt(s) + eps), for step t from 1.

    Args:
        params: leaves that require a gradient, or groups of them; see `Optimizer`.
        lr: learning rate, not negative.
        lr_decay: by which the rate decays, not negative.
        weight_decay: L2 penalty, not negative.
        initial_accumulator_value: what s begins with, not negative.
        eps: added to the root, not negative.

    Raises:
        ValueError, TypeError: see `Optimizer`.
    """

    state_names = ("sum",)

    def __init__(
        self,
        params: Params,
        lr: float = 1e-2,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "lr_decay": lr_decay,
                "weight_decay": weight_decay,
                "initial_accumulator_value": initial_accumulator_value,
                "eps": eps,
            },
        )

    def _check(self, group: Mapping[str, Any]) -> None:
        super()._check(group)
        for name in ("lr_decay", "weight_decay", "initial_accumulator_value", "eps"):
            check_range(name, group[name], 0.0)

    def _direction(self, group: Group, move: Move) -> Tensor:
        grad = decayed(group, move)
        total = Tensor(move.array("sum", group["initial_accumulator_value"])) + grad * grad
        move.changed["sum"] = total._array
        direction: Tensor = grad / (sqrt(total) + group["eps"])
        return direction

    def _rate(self, group: Group, move: Move) -> float:
        rate: float = group["lr"] / (1.0 + move.state.steps * group["lr_decay"])
        return rate
