"""Pooling on arrays, below the tape; no operations."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import NamedTuple

import numpy as np

from ..backend import primitives as prim
from ..backend.array import FLOAT, Array, Shape, packed_strides
from ..backend.primitives import Primitive
from . import base
from .base import binary, packed, scaled, unary
from .moving import cut, joined, padded
from .order import LARGEST
from .reduce import LONGEST_SUM, _sum
from .windows import Pair, positions

LARGEST_POOL = 1 << 24  # elements of one launch of Vulkan's pooling
MOST_WINDOWS = 1 << 24  # elements of all windows together; more are looked at in parts
OUTSIDE, ZERO = np.full((), -np.inf, FLOAT), np.zeros((), FLOAT)


class Frame(NamedTuple):
    """Which windows are taken of an image, for height and width each."""

    kernel: Pair
    stride: Pair
    padding: Pair
    dilation: Pair


def pooled(a: Array, primitive: Primitive, kernel: Pair, stride: Pair, padding: Pair = (0, 0)) -> Array:
    """Greatest (at least the least finite number, NaN aside) or mean of each window: (n, channels, h, w)."""
    n, channels, h, w = a.shape
    places = positions((h, w), kernel, stride, padding)
    parameters = (*kernel[::-1], *stride[::-1], *padding[::-1])
    planes, most = n * channels, max(1, LARGEST_POOL // (places[0] * places[1]))
    flat = base.reshaped(a, (1, planes, h, w))
    parts = [
        a.device.graph.record(
            primitive,
            (cut(flat, 1, i, min(i + most, planes)),),
            (1, min(most, planes - i), *places),
            FLOAT,
            *parameters,
        )
        for i in range(0, planes, most)
    ]
    return joined(parts, 1).reshaped((n, channels, *places))


def averaged(a: Array, kernel: Pair, stride: Pair, padding: Pair = (0, 0)) -> Array:
    """Mean of each window, its zeros of the padding included; of a large one as a mean of its rows' means."""
    if kernel[0] * kernel[1] <= LONGEST_SUM or 1 in kernel:
        return pooled(a, prim.AVG_POOL, kernel, stride, padding)
    a = pooled(a, prim.AVG_POOL, (1, kernel[1]), (1, stride[1]), (0, padding[1]))
    return pooled(a, prim.AVG_POOL, (kernel[0], 1), (stride[0], 1), (padding[0], 0))


# ---------------------------------------------------------------- maxima, and where they are


def greatest(a: Array, frame: Frame) -> Array:
    """The greatest value of each window, or NaN where there is one: (n, channels, h, w) -> (n, channels, h', w')."""
    if frame.dilation != (1, 1):
        images, tops = _planes(a), []
        for start, stop in _parts(images, frame):
            windows = _windows(cut(images, 0, start, stop), frame, OUTSIDE)
            column = (windows.shape[0], 1)
            tops.append(greatest(windows.reshaped((1, 1, *windows.shape)), Frame(column, column, (0, 0), (1, 1))))
        return joined(tops, 3).reshaped((*a.shape[:2], *positions(a.shape, *frame)))
    where = (frame.kernel, frame.stride, frame.padding)
    # ggml's maximum begins with the least finite number. That of halves is it only where all of a window is -inf.
    alive = unary(prim.SGN, scaled(pooled(scaled(a, 0.5), prim.MAX_POOL, *where), 1.0, LARGEST))
    # A mean of magnitudes is NaN if one of them is, and only then; and sqrt(-1) is NaN.
    lost = base.nan_mask(pooled(unary(prim.ABS, a), prim.AVG_POOL, *where))
    limit = scaled(binary("max", prim.DIV, a.device.constant(1.0), alive), 1.0, -1.0)  # 0, or infinite
    below = binary("max", prim.ADD, limit, unary(prim.SQRT, scaled(lost, -1.0)))
    return binary("max", prim.SUB, pooled(a, prim.MAX_POOL, *where), below)  # which keeps a zero's sign


def put_back(g: Array, x: Array, top: Array, frame: Frame) -> Array:
    """g, added up where the windows' maxima `top` are in x, and 0 elsewhere."""
    values = _planes(g)
    parts = [
        _folded(binary("max", prim.MUL, mask, _flat(cut(values, 0, start, stop))), frame, x, stop - start)
        for start, stop, mask in _masks(x, top, frame)
    ]
    return joined(parts, 0).reshaped(x.shape)


def picked(values: Array, x: Array, top: Array, frame: Frame) -> Array:
    """For each window, the value that lies where its maximum `top` is in x: the adjoint of `put_back`."""
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


def _parts(images: Array, frame: Frame) -> Iterator[tuple[int, int]]:
    """Numbers of the first image and the one after the last of parts that are small enough."""
    h, w = positions(images.shape, *frame)
    most = max(1, MOST_WINDOWS // (h * w * max(prod(frame.kernel), prod(frame.stride), 4)))
    for start in range(0, images.shape[0], most):
        yield start, min(start + most, images.shape[0])


def _windows(images: Array, frame: Frame, outside: np.ndarray) -> Array:
    """(m, h, w) -> (kernel h * kernel w, m * h' * w'): for each element of the kernel what it meets, one after another.

    It is a convolution's matrix of columns with kernel and positions in each other's place.
    """
    m = images.shape[0]
    places = positions(images.shape, *frame)
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
    h, w = positions(x.shape, *frame)
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
