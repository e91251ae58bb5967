"""Layers that make images smaller or larger, without parameters."""

from __future__ import annotations

from ..ops.pool import adaptive_avg_pool2d, avg_pool2d, max_pool2d
from ..ops.resize import upsample
from ..ops.windows import Pair, pair
from ..tensor import Tensor, TensorLike
from .arguments import sample
from .module import Module


class MaxPool2d(Module):
    """The greatest value of each window: (n, channels, h, w) -> (n, channels, h', w').

    h' = (h + 2 padding - dilation (kernel h - 1) - 1) // stride + 1, and w' likewise.

    Args:
        kernel_size: of a window, one number or (h, w); at most 2**15 elements.
        stride: steps between windows; the kernel's size by default.
        padding: places on each side that count as -inf; at most half the kernel.
        dilation: distance between the elements of a window.

    Raises:
        ValueError: a number out of its range. TypeError: what must be an integer is none.

    >>> ag.nn.MaxPool2d(3, stride=2)(ag.rand(20, 16, 50, 32)).shape
    (20, 16, 24, 15)
    """

    def __init__(
        self, kernel_size: int | Pair, stride: int | Pair | None = None, padding: int | Pair = 0,
        dilation: int | Pair = 1,
    ) -> None:  # fmt: skip
        (h, w), (s, t) = pair("MaxPool2d", "kernel_size", kernel_size, 1), pair("MaxPool2d", "dilation", dilation, 1)
        self.kernel_size, self.padding, self.dilation = kernel_size, padding, dilation
        self.stride = kernel_size if stride is None else stride
        self.forward(sample(1, 1, s * (h - 1) + 1, t * (w - 1) + 1))  # checks the rest

    def forward(self, x: TensorLike) -> Tensor:
        """(n, channels, h, w) -> (n, channels, h', w')."""
        return max_pool2d(x, self.kernel_size, self.stride, self.padding, self.dilation)

    def extra_repr(self) -> str:
        """The arguments."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, dilation={self.dilation}"


class AvgPool2d(Module):
    """The mean of each window: (n, channels, h, w) -> (n, channels, h', w').

    h' = (h + 2 padding - kernel h) // stride + 1, and w' likewise.

    Args:
        kernel_size: of a window, one number or (h, w), each at most 2**15.
        stride: steps between windows; the kernel's size by default.
        padding: zeros on each side; at most half the kernel.
        count_include_pad: whether the zeros of the padding count in the mean.

    Raises:
        ValueError: a number out of its range. TypeError: what must be an integer is none, a `count_include_pad` that is
        no bool.

    >>> ag.nn.AvgPool2d(2)([[[[1.0, 5.0, 2.0, 0.0], [3.0, 7.0, 5.0, 1.0]]]]).tolist()
    [[[[4.0, 2.0]]]]
    """

    def __init__(
        self,
        kernel_size: int | Pair,
        stride: int | Pair | None = None,
        padding: int | Pair = 0,
        *,
        count_include_pad: bool = True,
    ) -> None:
        h, w = pair("AvgPool2d", "kernel_size", kernel_size, 1)
        self.kernel_size, self.padding, self.count_include_pad = kernel_size, padding, count_include_pad
        self.stride = kernel_size if stride is None else stride
        self.forward(sample(1, 1, h, w))  # checks the rest

    def forward(self, x: TensorLike) -> Tensor:
        """(n, channels, h, w) -> (n, channels, h', w')."""
        return avg_pool2d(x, self.kernel_size, self.stride, self.padding, self.count_include_pad)

    def extra_repr(self) -> str:
        """The arguments that have no default."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AdaptiveAvgPool2d(Module):
    """The mean of each of h' by w' windows that cover an image: (n, channels, h, w) -> (n, channels, h', w').

    Args:
        output_size: one number or (h', w').

    Raises:
        ValueError: a size below 1. TypeError: a size that is no integer.

    >>> ag.nn.AdaptiveAvgPool2d((5, 7))(ag.rand(1, 64, 8, 9)).shape
    (1, 64, 5, 7)
    """

    def __init__(self, output_size: int | Pair) -> None:
        pair("AdaptiveAvgPool2d", "output_size", output_size, 1)
        self.output_size = output_size

    def forward(self, x: TensorLike) -> Tensor:
        """(n, channels, h, w) -> (n, channels, h', w')."""
        return adaptive_avg_pool2d(x, self.output_size)

    def extra_repr(self) -> str:
        """The size."""
        return f"output_size={self.output_size}"


class Upsample(Module):
    """An image in another size: (n, channels, h, w) -> (n, channels, h', w').

    Args:
        size: new extents, one or (h', w'); either this or `scale_factor`.
        scale_factor: new extents over old ones, one integer or (vertical, horizontal).
        mode: "nearest" copies the nearest place, "bilinear" takes the mean of four, weighted by distance.
        align_corners: for "bilinear": the corners' places stay.

    Raises:
        ValueError: no size or two, one below 1, another mode, `align_corners` without "bilinear". TypeError: no
        integers, no bool.

    >>> ag.nn.Upsample(scale_factor=2)([[[[1.0, 2.0]]]]).tolist()
    [[[[1.0, 1.0, 2.0, 2.0], [1.0, 1.0, 2.0, 2.0]]]]
    """

    def __init__(
        self,
        size: int | Pair | None = None,
        scale_factor: int | Pair | None = None,
        mode: str = "nearest",
        align_corners: bool = False,
    ) -> None:
        self.size, self.scale_factor, self.mode, self.align_corners = size, scale_factor, mode, align_corners
        self.forward(sample(1, 1, 1, 1))  # checks them

    def forward(self, x: TensorLike) -> Tensor:
        """(n, channels, h, w) -> (n, channels, h', w')."""
        return upsample(x, self.scale_factor, self.size, self.mode, self.align_corners)

    def extra_repr(self) -> str:
        """Size or factor, and the mode."""
        size = f"size={self.size}" if self.size is not None else f"scale_factor={self.scale_factor}"
        return f"{size}, mode={self.mode!r}" + (", align_corners=True" if self.align_corners else "")


__all__ = ["AdaptiveAvgPool2d", "AvgPool2d", "MaxPool2d", "Upsample"]
