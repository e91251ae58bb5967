"""Normalization layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ops.normalization import checked_eps, group_norm, layer_norm, rms_norm
from ..ops.windows import flag
from ..tensor import Tensor, TensorLike
from .arguments import count, last_shape, scale_and_shift
from .module import Module


class LayerNorm(Module):
    """(x - mean) / sqrt(variance + eps) * weight + bias over the last dimensions: (..., *normalized_shape) -> the same.

    Args:
        normalized_shape: the extents of the last dimensions, or of the last one.
        eps: added to the variance; from 0 on.
        elementwise_affine: whether there are weight and bias.
        bias: whether there is a bias, beside a weight.
        device: where the parameters are; by default the default device.
        dtype: of the parameters; "float32", "float16" or "bfloat16".

    Attributes:
        weight: of normalized_shape, 1 at first; or None.
        bias: of normalized_shape, 0 at first; or None.

    Raises:
        ValueError: an extent below 1, a negative eps, or an unknown device. TypeError: extents that are no integers, an
        eps that is no number, no bools, another dtype.

    >>> ag.nn.LayerNorm([5, 10])(ag.rand(20, 5, 10)).shape
    (20, 5, 10)
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        *,
        device: str | None = None,
        dtype: Any = "float32",
    ) -> None:
        self.normalized_shape = last_shape("LayerNorm", normalized_shape)
        self.eps = checked_eps("LayerNorm", eps)
        scale = flag("LayerNorm", "elementwise_affine", elementwise_affine)
        shift = flag("LayerNorm", "bias", bias) and scale
        self.weight, self.bias = scale_and_shift(self.normalized_shape, scale, shift, device, dtype)

    def forward(self, x: TensorLike) -> Tensor:
        """(..., *normalized_shape) -> the same."""
        return layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Shape, eps, and what is left out."""
        text = f"{self.normalized_shape}, eps={self.eps}"
        if self.weight is None:
            return f"{text}, elementwise_affine=False"
        return text + (", bias=False" if self.bias is None else "")


class RMSNorm(Module):
    """x / sqrt(mean of squares + eps) * weight over the last dimensions: (..., *normalized_shape) -> the same.

    Args:
        normalized_shape: the extents of the last dimensions, or of the last one.
        eps: added to the mean of squares, from 0 on; None for the spacing of float32 at 1.
        elementwise_affine: whether there is a weight.
        device: where the weight is; by default the default device.
        dtype: of the weight; "float32", "float16" or "bfloat16".

    Attributes:
        weight: of normalized_shape, 1 at first; or None.

    Raises:
        ValueError: an extent below 1, a negative eps, or an unknown device. TypeError: extents that are no integers, an
        eps that is no number, no bool, another dtype.

    >>> ag.nn.RMSNorm(2, eps=0.0)([3.0, 3.0]).tolist()
    [1.0, 1.0]
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        *,
        device: str | None = None,
        dtype: Any = "float32",
    ) -> None:
        self.normalized_shape = last_shape("RMSNorm", normalized_shape)
        self.eps = None if eps is None else checked_eps("RMSNorm", eps)
        scale = flag("RMSNorm", "elementwise_affine", elementwise_affine)
        self.weight, _ = scale_and_shift(self.normalized_shape, scale, False, device, dtype)

    def forward(self, x: TensorLike) -> Tensor:
        """(..., *normalized_shape) -> the same."""
        return rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """Shape, eps, and whether there is a weight."""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.weight is not None}"


class GroupNorm(Module):
    """(x - mean) / sqrt(variance + eps) * weight + bias over groups of channels: (n, num_channels, ...) -> the same.

    Args:
        num_groups: how many groups of neighbouring channels.
        num_channels: a multiple of it.
        eps: added to the variance; from 0 on.
        affine: whether there are weight and bias.
        device: where the parameters are; by default the default device.
        dtype: of the parameters; "float32", "float16" or "bfloat16".

    Attributes:
        weight: (num_channels,), 1 at first; or None.
        bias: (num_channels,), 0 at first; or None.

    Raises:
        ValueError: a number below 1, channels that the groups do not divide, a negative eps, or an unknown device.
        TypeError: what must be an integer is none, an eps that is no number, no bool, another dtype.

    >>> ag.nn.GroupNorm(3, 6)(ag.rand(20, 6, 10, 10)).shape
    (20, 6, 10, 10)
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        *,
        device: str | None = None,
        dtype: Any = "float32",
    ) -> None:
        self.num_groups = count("GroupNorm", "num_groups", num_groups)
        self.num_channels = count("GroupNorm", "num_channels", num_channels)
        if num_channels % num_groups:
            raise ValueError(f"GroupNorm: num_groups must divide num_channels {num_channels}, not {num_groups}")
        self.eps = checked_eps("GroupNorm", eps)
        self.affine = flag("GroupNorm", "affine", affine)
        self.weight, self.bias = scale_and_shift((num_channels,), self.affine, self.affine, device, dtype)

    def forward(self, x: TensorLike) -> Tensor:
        """(n, num_channels, ...) -> the same."""
        return group_norm(x, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """The arguments."""
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}"


__all__ = ["GroupNorm", "LayerNorm", "RMSNorm"]
