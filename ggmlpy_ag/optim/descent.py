"""Optimizers that move each weight along a direction, in ggml's fused step."""

from __future__ import annotations

from collections.abc import Sequence

from ..backend import primitives as prim
from ..backend.devices import Device
from ..tensor import Tensor
from .fused import StepParameters, pieces
from .groups import Params
from .optimizer import Group, Move, Optimizer, Write


class Descent(Optimizer):
    """w = w (1 - rate decay) - rate direction. A subclass says what the three are."""

    def __init__(self, params: Params, defaults: Group) -> None:
        super().__init__(params, defaults)
        self._parameters = StepParameters(1, 0)

    def _writes(self, device: Device, number: int, group: Group, moves: Sequence[Move]) -> list[Write]:
        writes: list[Write] = []
        for move in moves:
            direction = device.graph.packed(self._direction(group, move)._array)
            parameters = self._parameters(device, number, self._rate(group, move), self._decay(group))
            for piece in pieces(move.weight._array, direction):
                writes.append((prim.SGD_STEP, (*piece, parameters)))
        return writes

    def _direction(self, group: Group, move: Move) -> Tensor:
        """Where the loss grows; puts the arrays of the state that the step replaces into `move.changed`."""
        raise NotImplementedError

    def _rate(self, group: Group, move: Move) -> float:
        rate: float = group["lr"]
        return rate

    def _decay(self, group: Group) -> float:
        """What decays the weight apart from the direction."""
        return 0.0


def decayed(group: Group, move: Move) -> Tensor:
    """The gradient with that of the L2 penalty."""
    decay = group["weight_decay"]
    return move.grad + move.weight * decay if decay else move.grad
