"""Lion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..ops import sign
from ..ops.base import nan_kept
from ..tensor import Tensor
from .checks import check_betas, check_range
from .descent import Descent
from .groups import Params
from .optimizer import Group, Move


class Lion(Descent):
    """Lion, evolved sign momentum (Chen et al. 2023, algorithm 2).

    w -= lr (sign(b1 m + (1 - b1) g) + weight_decay w);  m = b2 m + (1 - b2) g.

    All elements move by lr, so the rate wants to be 3 to 10 times smaller than AdamW's, and weight_decay as much
    larger. One moment instead of Adam's two.

    Args:
        params: leaves that require a gradient, or groups of them; see `Optimizer`.
        lr: learning rate, not negative.
        betas: of the direction and of the momentum, each in [0, 1).
        weight_decay: decoupled decay, not negative.

    Raises:
        ValueError, TypeError: see `Optimizer`.
    """

    state_names = ("momentum",)

    def __init__(
        self,
        params: Params,
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    def _check(self, group: Mapping[str, Any]) -> None:
        super()._check(group)
        check_betas(group["betas"])
        check_range("weight_decay", group["weight_decay"], 0.0)

    def _direction(self, group: Group, move: Move) -> Tensor:
        b1, b2 = group["betas"]
        momentum = Tensor(move.array("momentum"))
        move.changed["momentum"] = (momentum * b2 + move.grad * (1.0 - b2))._array
        mixed = momentum * b1 + move.grad * (1.0 - b1)
        return Tensor(nan_kept(sign(mixed)._array, mixed._array))  # sign(NaN) is 0: the weight would just stand still

    def _decay(self, group: Group) -> float:
        decay: float = group["weight_decay"]
        return decay
