"""Pooling: one value for each window of an image."""

from __future__ import annotations

from functools import lru_cache
from math import prod

import numpy as np

from ..backend import primitives as prim
from ..backend.array import Array
from ..tape import record
from ..tensor import Tensor, TensorLike
from .base import binary, floats, result, wide
from .join import pad
from .pooling import Frame, averaged, greatest, picked, put_back
from .reduce import mean
from .resize import LARGEST_MATRIX, enlarged, weighted
from .shape import reshape
from .windows import Pair, check_plane, flag, pair, positions

LARGEST_KERNEL = 1 << 15  # elements; a loop in a shader of Mesa's llvmpipe ends, silently, after 65,535 rounds
LARGEST_EXTENT = 1 << 23  # places on an axis; ggml counts windows in float32


def max_pool2d(
    x: TensorLike,
    kernel_size: int | Pair,
    stride: int | Pair | None = None,
    padding: int | Pair = 0,
    dilation: int | Pair = 1,
) -> Tensor:
    """The greatest value of each window, as `torch.nn.functional.max_pool2d` has it; NaN where there is one.

    Of equal greatest values the first gets the whole gradient, as in PyTorch; so does the first of a window with NaN.

    Args:
        x: (n, channels, h, w).
        kernel_size: of a window, one number or (h, w); at most 2**15 elements.
        stride: steps between windows; the kernel's size by default.
        padding: places on each side that count as -inf; at most half the kernel.
        dilation: distance between the elements of a window.

    Returns:
        (n, channels, h', w') with h' = (h + 2 padding - dilation (kernel h - 1) - 1) // stride + 1, and w' likewise.

    Raises:
        ValueError: not four dimensions, a kernel larger than the padded image, a padding of more than half of it, a
        step below 1, or a padded plane of more than 2**24 places. TypeError: a step that is no integer.

    >>> ag.max_pool2d([[[[1.0, 5.0, 2.0, 0.0], [3.0, 4.0, 8.0, 1.0]]]], 2).tolist()
    [[[[5.0, 8.0]]]]
    """
    op = "max_pool2d"
    (x,) = floats(op, x)
    frame = _frame(op, x, kernel_size, stride, padding, dilation)
    if prod(frame.kernel) > LARGEST_KERNEL:
        raise ValueError(f"{op}: a kernel of {frame.kernel} elements is too large, 2**15 are possible: use max")
    out = result(greatest(wide(x), frame), x)
    return record(op, out, (x,), lambda g: (_put(op, g, x, out, frame),))


def avg_pool2d(
    x: TensorLike,
    kernel_size: int | Pair,
    stride: int | Pair | None = None,
    padding: int | Pair = 0,
    count_include_pad: bool = True,
) -> Tensor:
    """The mean of each window, as `torch.nn.functional.avg_pool2d` has it.

    Args:
        x: (n, channels, h, w).
        kernel_size: of a window, one number or (h, w), each at most 2**15.
        stride: steps between windows; the kernel's size by default.
        padding: zeros on each side; at most half the kernel.
        count_include_pad: whether the zeros of the padding count in the mean.

    Returns:
        (n, channels, h', w') with h' = (h + 2 padding - kernel h) // stride + 1, and w' likewise.

    Raises:
        ValueError: not four dimensions, a kernel larger than the padded image, a padding of more than half of it, a
        step below 1, or a padded plane of more than 2**24 places. TypeError: a step that is no integer, a
        `count_include_pad` that is no bool.

    >>> ag.avg_pool2d([[[[1.0, 5.0, 2.0, 0.0], [3.0, 7.0, 5.0, 1.0]]]], 2).tolist()
    [[[[4.0, 2.0]]]]
    """
    op = "avg_pool2d"
    (x,) = floats(op, x)
    frame = _frame(op, x, kernel_size, stride, padding, 1)
    counted = flag(op, "count_include_pad", count_include_pad)
    return _average(op, x, frame, counted or frame.padding == (0, 0))


def adaptive_avg_pool2d(x: TensorLike, output_size: int | Pair) -> Tensor:
    """The mean of each of h' by w' windows that cover an image, as `torch.nn.functional.adaptive_avg_pool2d` has it.

    Window i of n' on an axis of n goes from floor(i n / n') to before ceil((i + 1) n / n'). Where n' does not divide
    n, the means are a product with a constant matrix for each axis that changes: an infinity or a NaN makes NaN of all
    places that share one of these axes with it.

    Args:
        x: (n, channels, h, w).
        output_size: one number or (h', w').

    Returns:
        (n, channels, h', w').

    Raises:
        ValueError: not four dimensions, a size below 1, a plane of more than 2**24 places, or more than 2**24 products
        of an old and a new extent. TypeError: a size that is no integer.

    >>> ag.adaptive_avg_pool2d([[[[1.0, 3.0, 5.0], [1.0, 3.0, 5.0]]]], (1, 2)).tolist()
    [[[[2.0, 4.0]]]]
    """
    op = "adaptive_avg_pool2d"
    (x,) = floats(op, x)
    if x.ndim != 4:
        raise ValueError(f"{op}: x must be (n, channels, h, w), not {x.shape}")
    h, w = pair(op, "output_size", output_size, 1)
    before_h, before_w = x.shape[2], x.shape[3]
    check_plane(op, (before_h, before_w), (h, w))
    if (h, w) == (1, 1):
        return mean(x, (2, 3), keepdims=True)
    if before_h % h or before_w % w or max(before_h // h, before_w // w) > LARGEST_KERNEL:
        return weighted(op, x, _adaptive(op, before_h, h), _adaptive(op, before_w, w))
    return avg_pool2d(x, (before_h // h, before_w // w))


@lru_cache(maxsize=32)
def _adaptive(op: str, n: int, m: int) -> np.ndarray | None:
    """The matrix that makes m means of n places; None if they stay."""
    if n == m:
        return None
    if n * m > LARGEST_MATRIX:
        raise ValueError(f"{op}: {n} places are too many to make {m} of them: n * n' may be {LARGEST_MATRIX} at most")
    weights = np.zeros((m, n), np.float32)
    for i in range(m):
        start, stop = i * n // m, -(-(i + 1) * n // m)
        weights[i, start:stop] = 1.0 / (stop - start)
    return weights


def _frame(op: str, x: Tensor, kernel_size: object, stride: object, padding: object, dilation: object) -> Frame:
    if x.ndim != 4:
        raise ValueError(f"{op}: x must be (n, channels, h, w), not {x.shape}")
    kernel = pair(op, "kernel_size", kernel_size, 1)
    steps = kernel if stride is None else pair(op, "stride", stride, 1)
    edges, spread = pair(op, "padding", padding, 0), pair(op, "dilation", dilation, 1)
    reach = [d * (k - 1) + 1 for d, k in zip(spread, kernel, strict=True)]
    if any(2 * p > r for p, r in zip(edges, reach, strict=True)):
        raise ValueError(f"{op}: padding {edges} is more than half of kernel_size {kernel} with dilation {spread}")
    if min(positions(x.shape, kernel, steps, edges, spread)) < 1:
        raise ValueError(
            f"{op}: kernel_size {kernel} with dilation {spread} is larger than x {x.shape} with padding {edges}"
        )
    h, w = (n + 2 * p for n, p in zip(x.shape[2:], edges, strict=True))
    check_plane(op, (h, w))
    if max(h, w) > LARGEST_EXTENT or max(kernel) > LARGEST_KERNEL:
        raise ValueError(f"{op}: x {x.shape} and kernel_size {kernel}: an axis may have 2**23 places, a kernel 2**15")
    # the stride of a single window has no effect: make it small
    return Frame(kernel, (min(steps[0], h - reach[0] + 1), min(steps[1], w - reach[1] + 1)), edges, spread)


# ---------------------------------------------------------------- means


def _average(op: str, x: Tensor, frame: Frame, counted: bool) -> Tensor:
    """`counted`: the zeros of the padding are part of the means."""
    size, device = (x.shape[2], x.shape[3]), x._array.device

    def inside() -> Array:
        """How much of each window lies inside the image."""
        return averaged(device.full((1, 1, *size), 1.0), frame.kernel, frame.stride, frame.padding)

    a = averaged(wide(x), frame.kernel, frame.stride, frame.padding)
    if not counted:
        a = binary(op, prim.DIV, a, inside())

    def grad(g: Tensor) -> tuple[Tensor]:
        return (_shared_out(op, g if counted else g / Tensor(inside()), frame, size),)

    return record(op, result(a, x), (x,), grad)


def _shared_out(op: str, g: Tensor, frame: Frame, size: Pair) -> Tensor:
    """The adjoint of means: to each place, its share of all the windows it lies in."""
    n, channels, h, w = g.shape
    (i, j), (s, t), (p, q) = frame.kernel, frame.stride, frame.padding
    if frame.stride == frame.kernel and frame.padding == (0, 0):
        g = enlarged(op, g * (1.0 / (i * j)), frame.kernel)
        return pad(g, [(0, 0), (0, 0), (0, size[0] - h * s), (0, size[1] - w * t)])
    # With zeros between and around its elements, g has as its means over windows of one step what the places get.
    g = pad(reshape(g, n * channels * h, 1, w, 1), [(0, 0), (0, s - 1), (0, 0), (0, t - 1)])
    g = reshape(g, n, channels, h * s, w * t)[:, :, : size[0] + p, : size[1] + q]
    g = pad(g, [(0, 0), (0, 0), (i - 1 - p, size[0] + p - g.shape[2]), (j - 1 - q, size[1] + q - g.shape[3])])
    return _average(op, g, Frame(frame.kernel, (1, 1), (0, 0), (1, 1)), True)


# ---------------------------------------------------------------- maxima, and where they are


def _put(op: str, g: Tensor, x: Tensor, top: Tensor, frame: Frame) -> Tensor:
    """g where the maxima `top` of the windows of x are, 0 elsewhere."""
    out = result(put_back(wide(g), wide(x), wide(top), frame), g)
    return record(op, out, (g,), lambda gg: (_pick(op, gg, x, top, frame),))


def _pick(op: str, values: Tensor, x: Tensor, top: Tensor, frame: Frame) -> Tensor:
    """The values that lie where the maxima of the windows of x are: the adjoint of `_put`."""
    out = result(picked(wide(values), wide(x), wide(top), frame), values)
    return record(op, out, (values,), lambda g: (_put(op, g, x, top, frame),))


__all__ = ["adaptive_avg_pool2d", "avg_pool2d", "max_pool2d"]
