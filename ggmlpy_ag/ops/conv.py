"""Convolutions.

A convolution, its transpose and the gradient of its kernel are one bilinear map seen from three sides: each is the
gradient of the others.
"""

from __future__ import annotations

from math import prod
from typing import Any

from ..backend import primitives as prim
from ..backend.array import Array
from ..tape import record
from ..tensor import Tensor, TensorLike
from . import base
from .base import binary, floats, result, wide
from .convolving import Steps, convolved, correlated, transposed
from .join import pad
from .reduce import sum
from .shape import squeeze, unsqueeze
from .windows import Pair, check_plane, pair, positions


def conv2d(
    x: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None = None,
    stride: int | Pair = 1,
    padding: int | Pair | str = 0,
    dilation: int | Pair = 1,
    groups: int = 1,
) -> Tensor:
    """Two-dimensional convolution (cross-correlation), as `torch.nn.functional.conv2d` has it.

    The tape keeps `x` and `weight`; the columns that the product is made of are computed again for the gradients.

    Args:
        x: (n, channels, h, w).
        weight: (out, channels / groups, kernel h, kernel w).
        bias: (out,), or None.
        stride: steps of the kernel, one number or (vertical, horizontal); 1 or more.
        padding: zeros on each side, or "same" (with stride 1: the result has the size of `x`; an odd zero is added
            at the end) or "valid" (none).
        dilation: distance between the kernel's elements; 1 or more.
        groups: the channels are in so many groups, each with its own kernels; with one channel a group it is a
            depthwise convolution.

    Returns:
        (n, out, h', w') with h' = (h + 2 padding - dilation (kernel h - 1) - 1) // stride + 1, and w' likewise.

    Raises:
        ValueError: shapes that do not fit each other or `groups`, a kernel larger than the padded image, a step below
        1, or a plane of more than 2**24 places. TypeError: a step that is no integer.

    >>> ag.conv2d(np.ones((1, 1, 3, 3)), np.ones((1, 1, 2, 2))).tolist()
    [[[[4.0, 4.0], [4.0, 4.0]]]]
    >>> ag.conv2d(np.ones((2, 4, 9, 9)), np.ones((6, 2, 3, 3)), stride=2, padding=1, groups=2).shape
    (2, 6, 5, 5)
    """
    return _conv("conv2d", 2, x, weight, bias, stride, padding, dilation, groups)


def conv1d(
    x: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None = None,
    stride: int = 1,
    padding: int | str = 0,
    dilation: int = 1,
    groups: int = 1,
) -> Tensor:
    """One-dimensional convolution (cross-correlation), as `torch.nn.functional.conv1d` has it.

    Args:
        x: (n, channels, length).
        weight: (out, channels / groups, kernel).
        bias: (out,), or None.
        stride, padding, dilation, groups: as in `conv2d`, for one axis.

    Returns:
        (n, out, length') with length' = (length + 2 padding - dilation (kernel - 1) - 1) // stride + 1.

    Raises:
        ValueError, TypeError: as in `conv2d`.

    >>> ag.conv1d([[[1.0, 2.0, 4.0]]], [[[1.0, -1.0]]], [0.5]).tolist()
    [[[-0.5, -1.5]]]
    """
    return _conv("conv1d", 1, x, weight, bias, stride, padding, dilation, groups)


def conv_transpose2d(
    x: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None = None,
    stride: int | Pair = 1,
    padding: int | Pair = 0,
    output_padding: int | Pair = 0,
    groups: int = 1,
    dilation: int | Pair = 1,
) -> Tensor:
    """Transposed convolution, as `torch.nn.functional.conv_transpose2d` has it: the gradient of `conv2d` as a function.

    Args:
        x: (n, channels, h, w).
        weight: (channels, out / groups, kernel h, kernel w).
        bias: (out,), or None.
        stride: distance at which the kernel is put down for neighbouring elements of `x`; 1 or more.
        padding: rows and columns cut off on each side.
        output_padding: more rows and columns at the end; less than the stride or the dilation.
        groups: the channels are in so many groups, each with its own kernels.
        dilation: distance between the kernel's elements; 1 or more.

    Returns:
        (n, out, h', w') with h' = (h - 1) stride - 2 padding + dilation (kernel h - 1) + output_padding + 1, and w'
        likewise.

    Raises:
        ValueError: shapes that do not fit each other or `groups`, an empty result, a step below 1, or a plane of more
        than 2**24 places. TypeError: a step that is no integer.

    >>> ag.conv_transpose2d([[[[1.0, 2.0]]]], [[[[1.0, 10.0]]]], stride=2).tolist()
    [[[[1.0, 10.0, 2.0, 20.0]]]]
    """
    op = "conv_transpose2d"
    tensors = floats(op, x, weight) if bias is None else floats(op, x, weight, bias)
    x, weight, *rest = tensors
    groups = _groups(op, groups)
    strides, cuts = pair(op, "stride", stride, 1), pair(op, "padding", padding, 0)
    spread, more = pair(op, "dilation", dilation, 1), pair(op, "output_padding", output_padding, 0)
    if (
        x.ndim != 4
        or weight.ndim != 4
        or x.shape[1] != weight.shape[0]
        or x.shape[1] % groups
        or any(b.shape != (weight.shape[1] * groups,) for b in rest)
    ):
        needed = "(n, channels, h, w), (channels, out / groups, kernel h, kernel w) and (out,)"
        raise ValueError(_misfit(op, tensors, groups, needed))
    if any(m >= max(s, d) for m, s, d in zip(more, strides, spread, strict=True)):
        raise ValueError(
            f"{op}: output_padding {output_padding} must be less than stride {stride} or dilation {dilation}"
        )
    kernel = _two(weight)
    h, w = (
        (n - 1) * s - 2 * p + d * (k - 1) + m + 1
        for n, s, p, d, k, m in zip(x.shape[2:], strides, cuts, spread, kernel, more, strict=True)
    )
    if min(h, w) < 1:
        raise ValueError(
            f"{op}: nothing is left of x {x.shape} and weight {weight.shape} with stride {strides}, padding {cuts}, "
            f"dilation {spread} and output_padding {more}: the result would be {h} x {w}"
        )
    check_plane(op, (h, w), _two(x))
    return _transposed(op, x, weight, tuple(rest), _steps(op, strides, cuts, spread, groups, (h, w), kernel), (h, w))


def _conv(
    op: str,
    axes: int,
    x: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> Tensor:
    tensors = floats(op, x, weight) if bias is None else floats(op, x, weight, bias)
    x, weight, *rest = tensors
    groups = _groups(op, groups)
    strides, spread = pair(op, "stride", stride, 1, axes), pair(op, "dilation", dilation, 1, axes)
    if (
        x.ndim != axes + 2
        or weight.ndim != axes + 2
        or x.shape[1] != weight.shape[1] * groups
        or weight.shape[0] % groups
        or any(b.shape != weight.shape[:1] for b in rest)
    ):
        last = ("h, w", "kernel h, kernel w") if axes == 2 else ("length", "kernel")
        needed = f"(n, channels, {last[0]}), (out, channels / groups, {last[1]}) and (out,), out a multiple of groups"
        raise ValueError(_misfit(op, tensors, groups, needed))
    image, kernel = _two(x), _two(weight)
    more = (0, 0)
    if isinstance(padding, str) and padding == "same":
        if strides != (1, 1):
            raise ValueError(f'{op}: padding="same" needs stride 1, not {stride}')
        reach = (spread[0] * (kernel[0] - 1), spread[1] * (kernel[1] - 1))
        edges, more = (reach[0] // 2, reach[1] // 2), (reach[0] % 2, reach[1] % 2)
        image = (image[0] + more[0], image[1] + more[1])
    else:
        edges = pair(op, "padding", 0 if isinstance(padding, str) and padding == "valid" else padding, 0, axes)
    h, w = positions(image, kernel, strides, edges, spread)
    if min(h, w) < 1:
        raise ValueError(
            f"{op}: the kernel of weight {weight.shape} with dilation {dilation} is larger than x {x.shape} with "
            f"padding {padding}"
        )
    check_plane(op, (h, w), image)
    if axes == 1:
        x, weight = unsqueeze(x, 2), unsqueeze(weight, 2)
    if any(more):
        x = pad(x, [(0, 0), (0, 0), (0, more[0]), (0, more[1])])
    out = _convolved(op, x, weight, tuple(rest), _steps(op, strides, edges, spread, groups, image, kernel), (h, w))
    return squeeze(out, 2) if axes == 1 else out


def _two(x: Tensor) -> Pair:
    """Height and width of images or kernels; of one dimension, the height is 1."""
    return (x.shape[2] if x.ndim == 4 else 1, x.shape[-1])


def _groups(op: str, groups: Any) -> int:
    (found, _) = pair(op, "groups", (groups, 1), 1)
    return found


def _misfit(op: str, tensors: tuple[Tensor, ...], groups: int, needed: str) -> str:
    shapes = ", ".join(f"{name} {t.shape}" for name, t in zip(("x", "weight", "bias"), tensors, strict=False))
    return f"{op}: {shapes} and groups={groups} do not fit: the shapes must be {needed}"


def _steps(op: str, stride: Pair, padding: Pair, dilation: Pair, groups: int, image: Pair, kernel: Pair) -> Steps:
    """With what has no effect made small: a stride of a single position, the dilation of a single element."""
    if any(n + 2 * p >= 1 << 31 for n, p in zip(image, padding, strict=True)):
        raise ValueError(f"{op}: an image of {image[0]} x {image[1]} and padding {padding} reach beyond 2**31 places")
    rest = [n + 2 * p - d * (k - 1) for n, p, d, k in zip(image, padding, dilation, kernel, strict=True)]
    return Steps(
        (min(stride[0], rest[0]), min(stride[1], rest[1])),
        padding,
        (dilation[0] if kernel[0] > 1 else 1, dilation[1] if kernel[1] > 1 else 1),
        groups,
    )


# ---------------------------------------------------------------- three sides of one map: image, kernel, positions


def _convolved(op: str, x: Tensor, weight: Tensor, bias: tuple[Tensor, ...], steps: Steps, size: Pair) -> Tensor:
    """(n, channels, h, w), (out, channels / groups, kernel) -> (n, out, *size)."""
    out = _biased(op, convolved(wide(x), wide(weight), steps, size), x, weight, bias)
    image, kernel = _two(x), _two(weight)
    left = x if weight.requires_grad else None  # each operand is needed for its partner's gradient
    right = weight if x.requires_grad else None
    count = 2 + len(bias)

    def grad(g: Tensor) -> tuple[Tensor | None, ...]:
        to_x = None if right is None else _transposed(op, g, right, (), steps, image)
        to_weight = None if left is None else _correlated(op, left, g, steps, kernel)
        return (to_x, to_weight, sum(g, (0, 2, 3)))[:count]

    return record(op, out, (x, weight, *bias), grad, multiply_adds=out.size * prod(weight.shape[1:]))


def _transposed(op: str, y: Tensor, weight: Tensor, bias: tuple[Tensor, ...], steps: Steps, size: Pair) -> Tensor:
    """(n, out, h', w'), (out, channels / groups, kernel) -> (n, channels, *size)."""
    out = _biased(op, transposed(wide(y), wide(weight), steps, size), y, weight, bias)
    places, kernel = _two(y), _two(weight)
    left = y if weight.requires_grad else None
    right = weight if y.requires_grad else None
    count = 2 + len(bias)

    def grad(g: Tensor) -> tuple[Tensor | None, ...]:
        to_y = None if right is None else _convolved(op, g, right, (), steps, places)
        to_weight = None if left is None else _correlated(op, g, left, steps, kernel)
        return (to_y, to_weight, sum(g, (0, 2, 3)))[:count]

    return record(op, out, (y, weight, *bias), grad, multiply_adds=y.size * prod(weight.shape[1:]))


def _correlated(op: str, x: Tensor, y: Tensor, steps: Steps, size: Pair) -> Tensor:
    """(n, channels, h, w), (n, out, h', w') -> (out, channels / groups, *size)."""
    out = result(correlated(wide(x), wide(y), steps, size), x, y)
    image, places = _two(x), _two(y)
    left = x if y.requires_grad else None
    right = y if x.requires_grad else None

    def grad(g: Tensor) -> tuple[Tensor | None, Tensor | None]:
        to_x = None if right is None else _transposed(op, right, g, (), steps, image)
        return to_x, None if left is None else _convolved(op, left, g, (), steps, places)

    return record(op, out, (x, y), grad, multiply_adds=y.size * prod(out.shape[1:]))


def _biased(op: str, a: Array, x: Tensor, weight: Tensor, bias: tuple[Tensor, ...]) -> Tensor:
    for b in bias:
        a = binary(op, prim.ADD, a, base.reshaped(wide(b), (b.size, 1, 1)))
    return result(a, x, weight, *bias)


__all__ = ["conv1d", "conv2d", "conv_transpose2d"]
