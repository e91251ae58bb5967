"""Dropout."""

from __future__ import annotations

from ..ops.random import check_rate, dropout
from ..tensor import Tensor, TensorLike
from .module import Module


class Dropout(Module):
    """In training, elements set to 0 with probability p, the others divided by 1 - p; else the input itself.

    What is dropped is drawn anew in every call, the same on every device (`ag.manual_seed`).

    Args:
        p: probability in [0, 1].

    Raises:
        ValueError: p outside [0, 1]. TypeError: p is no number.

    >>> layer = ag.nn.Dropout(0.5).eval()
    >>> layer([1.0, 2.0]).tolist()
    [1.0, 2.0]
    """

    def __init__(self, p: float = 0.5) -> None:
        self.p = check_rate("Dropout", "p", p)

    def forward(self, x: TensorLike) -> Tensor:
        """Any shape -> the same."""
        return dropout(x, self.p, self.training)

    def extra_repr(self) -> str:
        """The probability."""
        return f"p={self.p}"


__all__ = ["Dropout"]
