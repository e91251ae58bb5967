"""Checks that optimizers, clipping and schedules share: numbers in range, and parameters with their names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, TypeAlias

import numpy as np

from ..tensor import Tensor


class Named(Protocol):
    """What has named parameters, such as an `nn.Module`."""

    def named_parameters(self) -> Iterable[tuple[str, Tensor]]:
        """Names and tensors."""


NamedTensors: TypeAlias = Named | Iterable[Tensor] | Iterable[tuple[str, Tensor]] | Mapping[str, Tensor]


def check_range(name: str, value: Any, low: float, high: float = float("inf")) -> None:
    """Raise ValueError unless low <= value < high, TypeError for what is no number."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.floating, np.integer)):
        raise TypeError(f"{name} must be a number, not {value!r}")
    if not low <= value < high:
        raise ValueError(f"{name} must be in [{low}, {high}), not {value}")


def check_share(name: str, value: Any) -> None:
    """Raise ValueError unless 0 <= value <= 1."""
    check_range(name, value, 0.0)
    if value > 1.0:
        raise ValueError(f"{name} must be in [0, 1], not {value}")


def check_count(name: str, value: Any, low: int) -> None:
    """Raise ValueError unless low <= value, TypeError for what is no integer."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be an integer, not {value!r}")
    if value < low:
        raise ValueError(f"{name} must be at least {low}, not {value}")


def check_flag(name: str, value: Any) -> None:
    """Raise TypeError unless the value is True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, not {value!r}")


def check_choice(name: str, value: Any, choices: tuple[Any, ...]) -> None:
    """Raise ValueError unless the value is one of these."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, not {value!r}")


def check_betas(betas: Any) -> None:
    """Raise ValueError unless betas are two numbers, each in [0, 1)."""
    if not isinstance(betas, (tuple, list)) or len(betas) != 2:
        raise ValueError(f"betas must be two numbers, not {betas!r}")
    for i, beta in enumerate(betas):
        check_range(f"betas[{i}]", beta, 0.0, 1.0)


def named_tensors(params: NamedTensors) -> list[tuple[str, Tensor]]:
    """Names and tensors of a module, a mapping, or an iterable of pairs or tensors; each tensor once.

    Tensors without names go by their positions.

    Raises:
        TypeError: one tensor, or something that is none among them.
    """
    if isinstance(params, Tensor):
        raise TypeError("params must be a list or a mapping of tensors, not one tensor")
    if hasattr(params, "named_parameters"):
        pairs = list(params.named_parameters())
    elif isinstance(params, Mapping):
        pairs = list(params.items())
    elif isinstance(params, Iterable):
        pairs = [
            entry if isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[0], str) else (str(i), entry)
            for i, entry in enumerate(params)
        ]
    else:
        raise TypeError(f"params must be a list or a mapping of tensors, not {type(params).__name__}")
    found: dict[int, tuple[str, Tensor]] = {}
    for name, tensor in pairs:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"parameter {name} must be a tensor, not {type(tensor).__name__}")
        found.setdefault(id(tensor), (name, tensor))
    return list(found.values())
