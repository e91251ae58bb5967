"""What the constructors of layers share: checked arguments, and parameters with their initial values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..backend import devices
from ..backend.array import Shape
from ..ops.base import check_dims, int_shape, integer
from ..tensor import Tensor, param
from . import init


def count(layer: str, name: str, value: Any) -> int:
    """An integer from 1 on. Raises TypeError for anything but an integer, ValueError for one below 1."""
    checked = integer(layer, name, value)
    if checked < 1:
        raise ValueError(f"{layer}: {name} must be 1 or more, not {value}")
    return checked


def last_shape(layer: str, value: Any) -> Shape:
    """`normalized_shape`, an integer or a sequence of them, as a tuple of at least one extent."""
    shape = int_shape(layer, (value,) if isinstance(value, (int, np.integer)) else value)
    check_dims(layer, shape)
    if not shape or min(shape) < 1:
        raise ValueError(f"{layer}: normalized_shape must be one or more extents of 1 or more, not {value}")
    return shape


def sample(*shape: int) -> Tensor:
    """Zeros to call an operation with: it checks its other arguments then. Nothing is computed, nor a GPU opened."""
    return Tensor(devices.get("cpu").full(shape, 0.0))


def weight_and_bias(shape: Shape, out: int, bias: bool, device: str | None, dtype: Any) -> tuple[Tensor, Tensor | None]:
    """Parameters of a linear map, as PyTorch begins: both uniform in +-1 / sqrt(fan_in)."""
    weight = param(np.zeros(shape, np.float32), device, dtype)
    init.kaiming_uniform_(weight, a=math.sqrt(5.0))  # whose bound is that
    if not bias:
        return weight, None
    bound = 1.0 / math.sqrt(init.fans(shape)[0])
    return weight, init.uniform_(param(np.zeros(out, np.float32), device, dtype), -bound, bound)


def scale_and_shift(
    shape: Shape, scale: bool, shift: bool, device: str | None, dtype: Any
) -> tuple[Tensor | None, Tensor | None]:
    """Parameters of a normalization: a weight of ones and a bias of zeros, those that are wanted."""
    return (
        param(np.ones(shape, np.float32), device, dtype) if scale else None,
        param(np.zeros(shape, np.float32), device, dtype) if shift else None,
    )
