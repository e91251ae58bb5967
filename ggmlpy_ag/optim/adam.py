"""Adam and AdamW, in ggml's fused step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from ..backend import primitives as prim
from ..backend.array import Array
from ..tape import no_grad
from ..tensor import Tensor
from .optimizer import Optimizer, StepParameters, check_range, pieces


class AdamW(Optimizer):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019), as `torch.optim.AdamW` has it.

    m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;
    w = w (1 - lr weight_decay) - lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps).

    Args:
        params: leaves that require a gradient, or a mapping of names to them.
        lr: learning rate.
        betas: decay of the two moments, each in [0, 1).
        eps: added to the root, not negative.
        weight_decay: decoupled decay, not negative.
    """

    state_names = ("first_moment", "second_moment")
    _decoupled = True

    def __init__(
        self,
        params: Iterable[Tensor] | Mapping[str, Tensor],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ) -> None:
        for i, beta in enumerate(betas):
            check_range(f"betas[{i}]", beta, 0.0, 1.0)
        check_range("eps", eps, 0.0)
        check_range("weight_decay", weight_decay, 0.0)
        super().__init__(params, lr, betas=tuple(betas), eps=eps, weight_decay=weight_decay)
        self._parameters = StepParameters(1, 2, 3, 4, 0, 5, 6)

    @no_grad()
    def _step(self, active: list[int]) -> None:
        # The kernel has the betas in float32 and takes 1 - beta of those: so do the corrections, or the first steps are
        # off by 7e-6.
        b1, b2 = (float(np.float32(beta)) for beta in self.hyper["betas"])
        eps, decay = self.hyper["eps"], self.hyper["weight_decay"]
        for device, group in self._by_device(active).items():
            steps = []
            fused_decay = decay if self._decoupled else 0.0
            by_age: dict[int, Array] = {}  # one entry, unless some parameters had no gradient in a step before
            for i, weight, grad in group:
                t = self.steps[i]
                if t not in by_age:
                    corrections = 1.0 / (1.0 - b1**t), 1.0 / (1.0 - b2**t)
                    by_age[t] = self._parameters(device, self.lr, b1, b2, eps, fused_decay, *corrections)
                if decay and not self._decoupled:
                    grad = grad + weight * decay
                moments = (self._state(i, name) for name in self.state_names)
                for piece in pieces(weight._array, device.graph.packed(grad._array), *moments):
                    steps.append((prim.ADAMW_STEP, (*piece, by_age[t])))
            device.graph.update(steps)


class Adam(AdamW):
    """Adam (Kingma and Ba 2015), as `torch.optim.Adam` has it: weight_decay is an L2 penalty added to the gradient."""

    _decoupled = False

    def __init__(
        self,
        params: Iterable[Tensor] | Mapping[str, Tensor],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay)
