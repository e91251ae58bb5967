"""Pooling: one value for each window of an image."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np

from ..backend import primitives as prim
from ..backend.array import FLOAT, Array, Shape, packed_strides
from ..tape import record
from ..tensor import Tensor, TensorLike
from . import base
from .base import binary, floats, packed, result, scaled, unary, wide
from .join import pad
from .moving import cut, joined, padded
from .order import LARGEST
from .reduce import _sum, mean
from .resize import LARGEST_MATRIX, enlarged, weighted
from .shape import reshape
from .windows import Pair, averaged, check_plane, flag, pair, pooled, positions

LARGEST_KERNEL = 1 << 15  # elements; a loop in a shader of Mesa's llvmpipe ends, silently, after 65,535 rounds
LARGEST_EXTENT = 1 << 23  # places on an axis; ggml counts windows in float32
MOST_WINDOWS = 1 << 24  # elements of all windows together; more are looked at in parts
OUTSIDE, ZERO = np.full((), -np.inf, FLOAT), np.zeros((), FLOAT)


class Frame(NamedTuple):
    """Which windows are taken of an image, for height and width each."""

    kernel: Pair
    stride: Pair
    padding: Pair
    dilation: Pair


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
    out = result(_greatest(wide(x), frame), x)
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
    places = [positions(*v) for v in zip(x.shape[2:], kernel, steps, edges, spread, strict=True)]
    if min(places) < 1:
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
    out = result(_put_back(wide(g), wide(x), wide(top), frame), g)
    return record(op, out, (g,), lambda gg: (_pick(op, gg, x, top, frame),))


def _pick(op: str, values: Tensor, x: Tensor, top: Tensor, frame: Frame) -> Tensor:
    """The values that lie where the maxima of the windows of x are: the adjoint of `_put`."""
    out = result(_picked(wide(values), wide(x), wide(top), frame), values)
    return record(op, out, (values,), lambda g: (_put(op, g, x, top, frame),))


def _greatest(a: Array, frame: Frame) -> Array:
    if frame.dilation != (1, 1):
        images, tops = _planes(a), []
        for start, stop in _parts(images, frame):
            windows = _windows(cut(images, 0, start, stop), frame, OUTSIDE)
            column = (windows.shape[0], 1)
            tops.append(_greatest(windows.reshaped((1, 1, *windows.shape)), Frame(column, column, (0, 0), (1, 1))))
        return joined(tops, 3).reshaped((*a.shape[:2], *_places(a, frame)))
    where = (frame.kernel, frame.stride, frame.padding)
    # ggml's maximum begins with the least finite number. That of halves is it only where all of a window is -inf.
    alive = unary(prim.SGN, scaled(pooled(scaled(a, 0.5), prim.MAX_POOL, *where), 1.0, LARGEST))
    # A mean of magnitudes is NaN if one of them is, and only then; and sqrt(-1) is NaN.
    lost = base.nan_mask(pooled(unary(prim.ABS, a), prim.AVG_POOL, *where))
    limit = scaled(binary("max", prim.DIV, a.device.constant(1.0), alive), 1.0, -1.0)  # 0, or infinite
    below = binary("max", prim.ADD, limit, unary(prim.SQRT, scaled(lost, -1.0)))
    return binary("max", prim.SUB, pooled(a, prim.MAX_POOL, *where), below)  # which keeps a zero's sign


def _put_back(g: Array, x: Array, top: Array, frame: Frame) -> Array:
    values = _planes(g)
    parts = [
        _folded(binary("max", prim.MUL, mask, _flat(cut(values, 0, start, stop))), frame, x, stop - start)
        for start, stop, mask in _masks(x, top, frame)
    ]
    return joined(parts, 0).reshaped(x.shape)


def _picked(values: Array, x: Array, top: Array, frame: Frame) -> Array:
    images = _planes(values)
    parts = [
        _sum(binary("max", prim.MUL, mask, _windows(cut(images, 0, start, stop), frame, ZERO)), (0,))
        for start, stop, mask in _masks(x, top, frame)
    ]
    return joined(parts, 1).reshaped(top.shape)


def _masks(x: Array, top: Array, frame: Frame) -> Iterator[tuple[int, int, Array]]:
    """For some images after others, which element of each window is the first that equals its maximum: 1, else 0."""
    images, tops = _planes(x), _planes(top)
    inside = _windows(x.device.full((1, *x.shape[2:]), 1.0), frame, ZERO)
    inside = inside.reshaped((inside.shape[0], 1, inside.shape[1]))
    for start, stop in _parts(images, frame):
        windows = _windows(cut(images, 0, start, stop), frame, ZERO)
        same = base.equal_mask(windows, _flat(cut(tops, 0, start, stop)))  # NaN equals everything
        if frame.padding != (0, 0):
            parted = same.reshaped((same.shape[0], stop - start, inside.shape[2]))
            same = binary("max", prim.MUL, parted, inside).reshaped(same.shape)
        count, n = windows.shape
        order = scaled(base.counting("max_pool2d", x.device, count), -1.0, float(count)).reshaped((count, 1))
        rank = binary("max", prim.MUL, same, order)
        first = pooled(rank.reshaped((1, 1, count, n)), prim.MAX_POOL, (count, 1), (count, 1))
        yield start, stop, base.equal_mask(rank, first.reshaped((n,)))


def _planes(a: Array) -> Array:
    return base.reshaped(a, (a.shape[0] * a.shape[1], *a.shape[2:]))


def _flat(a: Array) -> Array:
    return base.reshaped(a, (a.size,))


def _places(a: Array, frame: Frame) -> Pair:
    h, w = (
        positions(n, k, s, p, d)
        for n, k, s, p, d in zip(a.shape[-2:], frame.kernel, frame.stride, frame.padding, frame.dilation, strict=True)
    )
    return h, w


def _parts(images: Array, frame: Frame) -> Iterator[tuple[int, int]]:
    """Numbers of the first image and the one after the last of parts that are small enough."""
    h, w = _places(images, frame)
    most = max(1, MOST_WINDOWS // (h * w * max(prod(frame.kernel), prod(frame.stride), 4)))
    for start in range(0, images.shape[0], most):
        yield start, min(start + most, images.shape[0])


def _windows(images: Array, frame: Frame, outside: np.ndarray) -> Array:
    """(m, h, w) -> (kernel h * kernel w, m * h' * w'): for each element of the kernel what it meets, one after another.

    It is a convolution's matrix of columns with kernel and positions in each other's place.
    """
    m = images.shape[0]
    places = _places(images, frame)
    pads = []
    for axis in (0, 1):
        reach = (places[axis] - 1) * frame.stride[axis] + frame.dilation[axis] * (frame.kernel[axis] - 1) + 1
        inside = min(reach - frame.padding[axis], images.shape[axis + 1])
        images = cut(images, axis + 1, 0, inside)
        pads.append((frame.padding[axis], reach - frame.padding[axis] - inside))
    if any(map(any, pads)):
        images = padded(images, [(0, 0), *pads], outside)
    rows = images.device.graph.record(
        prim.IM2COL,
        (base.reshaped(images, (1, *images.shape)),),
        (1, *frame.kernel, m * prod(places)),
        FLOAT,
        m,
        places,
        *frame.dilation[::-1],
        *(0, 0),
        *frame.stride[::-1],
    )
    return rows.reshaped((prod(frame.kernel), m * prod(places)))


def _folded(windows: Array, frame: Frame, x: Array, m: int) -> Array:
    """The adjoint of `_windows`: (kernel h * kernel w, m * h' * w') -> (m, h, w), summed where windows overlap."""
    (i, j), (s, t), (d, e) = frame.kernel, frame.stride, frame.dilation
    h, w = _places(x, frame)
    if (d, e) == (1, 1) and i <= s and j <= t:  # they do not
        a = windows.reshaped((i, j, m * h, w))
        if (i, j) != (s, t):
            a = padded(a, [(0, s - i), (0, t - j), (0, 0), (0, 0)])
        a = base.reshaped(a.permuted((2, 0, 3, 1)), (m, h * s, w * t))
    else:
        height, width = (h - 1) * s + d * (i - 1) + 1, (w - 1) * t + e * (j - 1) + 1
        shape: Shape = (m, h, w)
        steps: Shape = (s * width, height * width, m * height * width)
        if t > 1:  # rows of one element
            shape, steps = (m, h, w, 1), (t, s * width, height * width)
        a = windows.device.full((m, height, width), 0.0)
        for k in range(i * j):
            part = windows.view(shape, packed_strides(shape), windows.offset + k * m * h * w)
            start = k // j * d * width + k % j * e
            a = a.device.graph.record(prim.ACC, (a, part), a.shape, FLOAT, *(4 * n for n in (*steps, start)))
    pads = []
    for axis, n in enumerate(x.shape[-2:]):
        a = cut(a, axis + 1, frame.padding[axis], min(frame.padding[axis] + n, a.shape[axis + 1]))
        pads.append((0, n - a.shape[axis + 1]))
    return padded(a, [(0, 0), *pads]) if any(map(any, pads)) else packed(a)


__all__ = ["adaptive_avg_pool2d", "avg_pool2d", "max_pool2d"]
