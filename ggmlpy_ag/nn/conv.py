"""Convolution layers. Their padding is zeros."""

from __future__ import annotations

from typing import Any

from ..ops.conv import conv1d, conv2d, conv_transpose2d
from ..ops.windows import Pair, flag, pair
from ..tensor import Tensor, TensorLike
from .arguments import count, weight_and_bias
from .module import Module


class _Conv(Module):
    """The arguments of a convolution, checked; those of the kernel as tuples, one element an axis."""

    kernel_size: Any  # of one element or two: no type says which
    stride: Any
    dilation: Any
    padding: Any

    def _take(
        self, axes: int, in_channels: int, out_channels: int, kernel_size: Any, stride: Any, dilation: Any, groups: int
    ) -> None:
        kind = type(self).__name__
        self.in_channels = count(kind, "in_channels", in_channels)
        self.out_channels = count(kind, "out_channels", out_channels)
        self.groups = count(kind, "groups", groups)
        if in_channels % groups or out_channels % groups:
            raise ValueError(
                f"{kind}: groups must divide in_channels {in_channels} and out_channels {out_channels}, not {groups}"
            )
        self.kernel_size = pair(kind, "kernel_size", kernel_size, 1, axes)[-axes:]
        self.stride = pair(kind, "stride", stride, 1, axes)[-axes:]
        self.dilation = pair(kind, "dilation", dilation, 1, axes)[-axes:]

    def _padding(self, padding: Any) -> Any:
        kind, axes = type(self).__name__, len(self.kernel_size)
        if not isinstance(padding, str):
            return pair(kind, "padding", padding, 0, axes)[-axes:]
        if padding not in ("same", "valid"):
            raise ValueError(f'{kind}: padding must be integers, "same" or "valid", not {padding!r}')
        if padding == "same" and max(self.stride) > 1:
            raise ValueError(f'{kind}: padding="same" needs stride 1, not {self.stride}')
        return padding

    def _weigh(self, rows: int, columns: int, bias: bool, device: str | None, dtype: Any) -> None:
        biased = flag(type(self).__name__, "bias", bias)
        shape = (rows, columns // self.groups, *self.kernel_size)
        self.weight, self.bias = weight_and_bias(shape, self.out_channels, biased, device, dtype)

    def extra_repr(self) -> str:
        """Channels, kernel, stride, and what else is not the default."""
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        for name, usual in (("padding", 0), ("output_padding", 0), ("dilation", 1)):
            value = getattr(self, name, None)
            if value is not None and value != (usual,) * len(self.kernel_size):
                text += f", {name}={value!r}"
        text += f", groups={self.groups}" if self.groups > 1 else ""
        return text + ("" if self.bias is not None else ", bias=False")


class Conv1d(_Conv):
    """One-dimensional convolution (cross-correlation): (n, in_channels, length) -> (n, out_channels, length').

    Args:
        in_channels: of the input.
        out_channels: of the output.
        kernel_size, stride, padding, dilation, groups: as for `Conv2d`, for one axis.
        bias: whether there is one.
        device: where the parameters are; by default the default device.
        dtype: of the parameters; "float32", "float16" or "bfloat16".

    Attributes:
        weight: (out_channels, in_channels / groups, kernel_size), at first uniform in +-1 / sqrt(in_channels / groups *
            kernel_size), as in PyTorch.
        bias: (out_channels,), likewise; or None.

    Raises:
        ValueError, TypeError: as `Conv2d`.

    >>> ag.nn.Conv1d(16, 33, 3, stride=2)(ag.rand(20, 16, 50)).shape
    (20, 33, 24)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int | str = 0,
        dilation: int = 1,
        groups: int = 1,
        bias: bool = True,
        *,
        device: str | None = None,
        dtype: Any = "float32",
    ) -> None:
        self._take(1, in_channels, out_channels, kernel_size, stride, dilation, groups)
        self.padding = self._padding(padding)
        self._weigh(out_channels, in_channels, bias, device, dtype)

    def forward(self, x: TensorLike) -> Tensor:
        """(n, in_channels, length) -> (n, out_channels, length')."""
        return conv1d(x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class Conv2d(_Conv):
    """Two-dimensional convolution (cross-correlation): (n, in_channels, h, w) -> (n, out_channels, h', w').

    h' = (h + 2 padding - dilation (kernel h - 1) - 1) // stride + 1, and w' likewise.

    Args:
        in_channels: of the input.
        out_channels: of the output.
        kernel_size: one number or (h, w).
        stride: steps of the kernel, one number or (vertical, horizontal).
        padding: zeros on each side, one number or (vertical, horizontal); or "same" (with stride 1: the output has the
            size of the input) or "valid" (none).
        dilation: distance between the kernel's elements, one number or (vertical, horizontal).
        groups: the channels are in so many groups, each with its own kernels; with one channel a group it is a
            depthwise convolution.
        bias: whether there is one.
        device: where the parameters are; by default the default device.
        dtype: of the parameters; "float32", "float16" or "bfloat16".

    Attributes:
        weight: (out_channels, in_channels / groups, kernel h, kernel w), at first uniform in +-1 / sqrt(in_channels /
            groups * kernel h * kernel w), as in PyTorch.
        bias: (out_channels,), likewise; or None.

    Raises:
        ValueError: a number below 1 (padding: below 0), groups that do not divide both channels, another text for
        padding, "same" with another stride, or an unknown device. TypeError: what must be an integer is none, a `bias`
        that is no bool, another dtype.

    >>> layer = ag.nn.Conv2d(16, 33, (3, 5), stride=(2, 1), padding=(4, 2))
    >>> layer(ag.rand(2, 16, 50, 20)).shape
    (2, 33, 28, 20)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Pair,
        stride: int | Pair = 1,
        padding: int | Pair | str = 0,
        dilation: int | Pair = 1,
        groups: int = 1,
        bias: bool = True,
        *,
        device: str | None = None,
        dtype: Any = "float32",
    ) -> None:
        self._take(2, in_channels, out_channels, kernel_size, stride, dilation, groups)
        self.padding = self._padding(padding)
        self._weigh(out_channels, in_channels, bias, device, dtype)

    def forward(self, x: TensorLike) -> Tensor:
        """(n, in_channels, h, w) -> (n, out_channels, h', w')."""
        return conv2d(x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class ConvTranspose2d(_Conv):
    """Transposed convolution, the gradient of a Conv2d as a layer: (n, in_channels, h, w) -> (n, out_channels, h', w').

    h' = (h - 1) stride - 2 padding + dilation (kernel h - 1) + output_padding + 1, and w' likewise.

    Args:
        in_channels: of the input.
        out_channels: of the output.
        kernel_size: one number or (h, w).
        stride: distance at which the kernel is put down for neighbouring elements, one number or (vertical,
            horizontal).
        padding: rows and columns cut off on each side.
        output_padding: more rows and columns at the end; less than the stride or the dilation.
        groups: the channels are in so many groups, each with its own kernels.
        bias: whether there is one.
        dilation: distance between the kernel's elements, one number or (vertical, horizontal).
        device: where the parameters are; by default the default device.
        dtype: of the parameters; "float32", "float16" or "bfloat16".

    Attributes:
        weight: (in_channels, out_channels / groups, kernel h, kernel w), at first uniform in +-1 / sqrt(out_channels /
            groups * kernel h * kernel w), as in PyTorch.
        bias: (out_channels,), likewise; or None.

    Raises:
        ValueError: a number below 1 (paddings: below 0), groups that do not divide both channels, too large an
        `output_padding`, or an unknown device. TypeError: what must be an integer is none, a `bias` that is no bool,
        another dtype.

    >>> layer = ag.nn.ConvTranspose2d(4, 2, 3, stride=2, padding=1, output_padding=1)
    >>> layer(ag.rand(1, 4, 5, 5)).shape
    (1, 2, 10, 10)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Pair,
        stride: int | Pair = 1,
        padding: int | Pair = 0,
        output_padding: int | Pair = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | Pair = 1,
        *,
        device: str | None = None,
        dtype: Any = "float32",
    ) -> None:
        self._take(2, in_channels, out_channels, kernel_size, stride, dilation, groups)
        self.padding = pair("ConvTranspose2d", "padding", padding, 0)
        self.output_padding = pair("ConvTranspose2d", "output_padding", output_padding, 0)
        if any(m >= max(s, d) for m, s, d in zip(self.output_padding, self.stride, self.dilation, strict=True)):
            raise ValueError(
                f"ConvTranspose2d: output_padding {output_padding} must be less than stride {stride} or dilation "
                f"{dilation}"
            )
        self._weigh(in_channels, out_channels, bias, device, dtype)

    def forward(self, x: TensorLike) -> Tensor:
        """(n, in_channels, h, w) -> (n, out_channels, h', w')."""
        rest = (self.stride, self.padding, self.output_padding, self.groups, self.dilation)
        return conv_transpose2d(x, self.weight, self.bias, *rest)


__all__ = ["Conv1d", "Conv2d", "ConvTranspose2d"]
