"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..backend import primitives as prim
from ..tape import no_grad
from ..tensor import Tensor
from .optimizer import Optimizer, StepParameters, check_range, pieces


class SGD(Optimizer):
    """Stochastic gradient descent with momentum, as `torch.optim.SGD` has it (dampening 0).

    d = g + weight_decay * w;  v = momentum * v + d;  w -= lr * v  (nesterov: lr * (d + momentum * v)).
    Sutskever et al. 2013, in PyTorch's form, where a changed lr acts on all of v.

    Args:
        params: leaves that require a gradient, or a mapping of names to them.
        lr: learning rate.
        momentum: in [0, 1).
        weight_decay: L2 penalty, not negative.
        nesterov: look ahead; needs momentum.
    """

    state_names = ("momentum",)

    def __init__(
        self,
        params: Iterable[Tensor] | Mapping[str, Tensor],
        lr: float = 1e-3,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        check_range("momentum", momentum, 0.0, 1.0)
        check_range("weight_decay", weight_decay, 0.0)
        if nesterov and not momentum:
            raise ValueError("nesterov needs a momentum above 0")
        super().__init__(params, lr, momentum=momentum, weight_decay=weight_decay, nesterov=nesterov)
        self._parameters = StepParameters(1, 0)

    @no_grad()
    def _step(self, active: list[int]) -> None:
        momentum, decay = self.hyper["momentum"], self.hyper["weight_decay"]
        for device, group in self._by_device(active).items():
            steps = []
            velocities: dict[int, Tensor] = {}
            parameters = self._parameters(device, self.lr, 0.0 if momentum else decay)
            for i, weight, grad in group:
                if momentum:
                    grad = grad + weight * decay if decay else grad
                    velocity = velocities[i] = Tensor(self._state(i, "momentum")) * momentum + grad
                    grad = grad + velocity * momentum if self.hyper["nesterov"] else velocity
                for piece in pieces(weight._array, device.graph.packed(grad._array)):
                    steps.append((prim.SGD_STEP, (*piece, parameters)))
            device.graph.update(steps)
            for i, velocity in velocities.items():  # only now: a step that failed has not been made
                self.state[i]["momentum"] = velocity._array
