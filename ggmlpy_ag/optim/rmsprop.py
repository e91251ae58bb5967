"""RMSprop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..ops import clamp, sqrt
from ..tensor import Tensor
from .checks import check_flag, check_range
from .descent import Descent, decayed
from .groups import Params
from .optimizer import Group, Move


class RMSprop(Descent):
    """RMSprop (Hinton 2012), as `torch.optim.RMSprop` has it: eps is added to the root, not under it.

    d = g + weight_decay w;  v = alpha v + (1 - alpha) d^2;  u = d / (sqrt(v) + eps);
    b = momentum b + u;  w -= lr b.
    Centered (Graves 2013): m = alpha m + (1 - alpha) d, and v - m^2 for v under the root; where rounding makes it
    negative it is 0, where PyTorch has NaN.

    Args:
        params: leaves that require a gradient, or groups of them; see `Optimizer`.
        lr: learning rate, not negative.
        alpha: decay of the averages, in [0, 1).
        eps: added to the root, not negative.
        weight_decay: L2 penalty, not negative.
        momentum: in [0, 1).
        centered: divide by the gradient's standard deviation instead of its root mean square.

    Raises:
        ValueError, TypeError: see `Optimizer`.
    """

    state_names = ("square_average",)
    optional_names = ("gradient_average", "momentum")

    def __init__(
        self,
        params: Params,
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "alpha": alpha,
                "eps": eps,
                "weight_decay": weight_decay,
                "momentum": momentum,
                "centered": centered,
            },
        )

    def _check(self, group: Mapping[str, Any]) -> None:
        super()._check(group)
        check_range("alpha", group["alpha"], 0.0, 1.0)
        check_range("eps", group["eps"], 0.0)
        check_range("weight_decay", group["weight_decay"], 0.0)
        check_range("momentum", group["momentum"], 0.0, 1.0)
        check_flag("centered", group["centered"])

    def _direction(self, group: Group, move: Move) -> Tensor:
        alpha, eps, momentum = group["alpha"], group["eps"], group["momentum"]
        grad = decayed(group, move)
        power = Tensor(move.array("square_average")) * alpha + grad * grad * (1.0 - alpha)
        move.changed["square_average"] = power._array
        if group["centered"]:
            mean = Tensor(move.array("gradient_average")) * alpha + grad * (1.0 - alpha)
            move.changed["gradient_average"] = mean._array
            power = clamp(power - mean * mean, low=0.0)
        direction: Tensor = grad / (sqrt(power) + eps)
        if momentum:
            direction = Tensor(move.array("momentum")) * momentum + direction
            move.changed["momentum"] = direction._array
        return direction
