"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..tensor import Tensor
from .checks import check_flag, check_range, check_share
from .descent import Descent, decayed
from .groups import Params
from .optimizer import Group, Move


class SGD(Descent):
    """Stochastic gradient descent with momentum, as `torch.optim.SGD` has it.

    d = g + weight_decay w;  v = momentum v + (1 - dampening) d;  w -= lr v  (nesterov: lr (d + momentum v)).
    v begins as the first d. Sutskever et al. 2013, in PyTorch's form, where a changed lr acts on all of v.

    Args:
        params: leaves that require a gradient, or groups of them; see `Optimizer`.
        lr: learning rate, not negative.
        momentum: in [0, 1).
        dampening: of the gradient in the momentum, in [0, 1].
        weight_decay: L2 penalty, not negative.
        nesterov: look ahead; needs momentum and no dampening.

    Raises:
        ValueError, TypeError: see `Optimizer`.
    """

    optional_names = ("momentum",)

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "dampening": dampening,
                "weight_decay": weight_decay,
                "nesterov": nesterov,
            },
        )

    def _check(self, group: Mapping[str, Any]) -> None:
        super()._check(group)
        check_range("momentum", group["momentum"], 0.0, 1.0)
        check_share("dampening", group["dampening"])
        check_range("weight_decay", group["weight_decay"], 0.0)
        check_flag("nesterov", group["nesterov"])
        if group["nesterov"] and not (group["momentum"] and not group["dampening"]):
            raise ValueError("nesterov needs a momentum above 0 and no dampening")

    def _direction(self, group: Group, move: Move) -> Tensor:
        momentum = group["momentum"]
        if not momentum:
            return move.grad
        grad = decayed(group, move)
        before = move.state.arrays.get("momentum")
        if before is None:  # with memory of its own: the gradient belongs to the user
            velocity = Tensor(grad._array.device.graph.copy(grad._array))
        else:
            velocity = Tensor(before) * momentum + grad * (1.0 - group["dampening"])
        move.changed["momentum"] = velocity._array
        return grad + velocity * momentum if group["nesterov"] else velocity

    def _decay(self, group: Group) -> float:
        decay: float = group["weight_decay"]
        return 0.0 if group["momentum"] else decay  # without momentum, the penalty does no more than this
