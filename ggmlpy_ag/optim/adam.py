"""Adam and AdamW, in ggml's fused step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..backend import primitives as prim
from ..backend.array import Array
from ..backend.devices import Device
from .checks import check_betas, check_range
from .descent import decayed
from .fused import StepParameters, pieces
from .groups import Params
from .optimizer import Group, Move, Optimizer, Write


class AdamW(Optimizer):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019), as `torch.optim.AdamW` has it.

    m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;
    w = w (1 - lr weight_decay) - lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps).

    Args:
        params: leaves that require a gradient, or groups of them; see `Optimizer`.
        lr: learning rate, not negative.
        betas: decay of the two moments, each in [0, 1).
        eps: added to the root, not negative.
        weight_decay: decoupled decay, not negative.

    Raises:
        ValueError, TypeError: see `Optimizer`.
    """

    state_names = ("first_moment", "second_moment")
    _decoupled = True

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})
        self._parameters = StepParameters(1, 2, 3, 4, 0, 5, 6)

    def _check(self, group: Mapping[str, Any]) -> None:
        super()._check(group)
        check_betas(group["betas"])
        check_range("eps", group["eps"], 0.0)
        check_range("weight_decay", group["weight_decay"], 0.0)

    def _writes(self, device: Device, number: int, group: Group, moves: Sequence[Move]) -> list[Write]:
        # The kernel has the betas in float32 and takes 1 - beta of those: so do the corrections, or the first steps are
        # off by 7e-6.
        b1, b2 = (float(np.float32(beta)) for beta in group["betas"])
        decay = group["weight_decay"] if self._decoupled else 0.0
        writes: list[Write] = []
        by_age: dict[int, Array] = {}  # one entry, unless some parameters had no gradient in a step before
        for move in moves:
            t = move.state.steps + 1
            if t not in by_age:
                corrections = 1.0 / (1.0 - b1**t), 1.0 / (1.0 - b2**t)
                by_age[t] = self._parameters(device, number, group["lr"], b1, b2, group["eps"], decay, *corrections)
            grad = move.grad if self._decoupled else decayed(group, move)
            moments = (move.array(name) for name in self.state_names)
            for piece in pieces(move.weight._array, device.graph.packed(grad._array), *moments):
                writes.append((prim.ADAMW_STEP, (*piece, by_age[t])))
        return writes


class Adam(AdamW):
    """Adam (Kingma and Ba 2015), as `torch.optim.Adam` has it: weight_decay is an L2 penalty added to the gradient."""

    _decoupled = False

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay)
