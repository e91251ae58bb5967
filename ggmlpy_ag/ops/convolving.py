"""Convolutions on arrays, below the tape; no operations.

Each is made of im2col, which lays out in a row what the kernel meets at one of its positions, and a product.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from ..backend import primitives as prim
from ..backend.array import FLOAT, Array, Shape
from . import base, linalg
from .base import binary, packed
from .moving import cut, joined, padded
from .windows import Pair, positions

MOST_COLUMNS = 1 << 26  # bytes of a matrix of columns; larger ones are made in parts (Mesa binds 128 MiB at most)
LARGEST_DEPTHWISE = 1 << 15  # elements of a kernel; a loop in a shader of Mesa's llvmpipe ends after 65,535 rounds


class Steps(NamedTuple):
    """How a kernel moves over an image, for height and width each, and how many groups of channels do not mix."""

    stride: Pair
    padding: Pair
    dilation: Pair
    groups: int


def convolved(x: Array, weight: Array, steps: Steps, size: Pair) -> Array:
    """(n, channels, h, w), (out, channels / groups, kernel h, kernel w) -> (n, out, *size)."""
    (n, channels, h, w), (out, inner), kernel, groups = x.shape, weight.shape[:2], weight.shape[2:], steps.groups
    if inner == 1 < groups and prod(kernel) <= LARGEST_DEPTHWISE:
        if out > channels:
            wider = base.expanded(base.reshaped(x, (n, channels, 1, h * w)), (n, channels, out // channels, h * w))
            x = wider.reshaped((n, out, h, w))
        places = positions(x.shape, _size(weight), *steps[:3])
        a = x.device.graph.record(prim.DEPTHWISE, (weight, x), (n, out, *places), FLOAT, *_reversed(steps))
    else:
        if groups > 1:
            parted = base.reshaped(x, (n, groups, inner * h * w))
            x = base.reshaped(parted.permuted((1, 0, 2)), (groups * n, inner, h, w))
        a = _products(x, base.reshaped(weight, (out, inner, *kernel)), steps)
        a = packed(a.permuted((1, 0, 2, 3)))
    return _cropped(a, size)


def transposed(y: Array, weight: Array, steps: Steps, size: Pair) -> Array:
    """(n, out, h', w'), (out, channels / groups, kernel h, kernel w) -> (n, channels, *size).

    It is a convolution of y, with zeros between its elements, with the kernels turned round. What turns them round is
    a negative dilation: element k of the kernel then meets element i + padding - k of y.
    """
    n, out, h, w = y.shape
    inner, kernel, groups = weight.shape[1], weight.shape[2:], steps.groups
    (p, q), (d, e), (s, t) = steps.padding, steps.dilation, steps.stride
    if s > 1 or t > 1:
        single = base.reshaped(y, (n * out * h, 1, w, 1))
        y = padded(single, [(0, 0), (0, s - 1), (0, 0), (0, t - 1)]).reshaped((n, out, h * s, w * t))
    long = (size[0] + 2 * p - d * (kernel[0] - 1), size[1] + 2 * q - e * (kernel[1] - 1))
    y = _cropped(y, (min(long[0], h * s), min(long[1], w * t)))
    if y.shape[2:] != long:
        y = padded(y, [(0, 0), (0, 0), (0, long[0] - y.shape[2]), (0, long[1] - y.shape[3])])
    weight = base.reshaped(weight, (groups, out // groups, inner, kernel[0] * kernel[1]))
    weight = base.reshaped(weight.permuted((0, 2, 1, 3)), (groups * inner, out // groups, *kernel))
    turned = (-d if kernel[0] > 1 else 1, -e if kernel[1] > 1 else 1)
    return convolved(y, weight, Steps((1, 1), (-p, -q), turned, groups), size)


def correlated(x: Array, y: Array, steps: Steps, size: Pair) -> Array:
    """(n, channels, h, w), (n, out, h', w') -> (out, channels / groups, *size).

    It is a convolution of x with y as its kernel, where samples and channels change places, and steps and dilation.
    """
    channels, out = x.shape[1], y.shape[1]
    x, y = packed(x.permuted((1, 0, 2, 3))), packed(y.permuted((1, 0, 2, 3)))
    a = _products(x, y, Steps(steps.dilation, steps.padding, steps.stride, steps.groups))
    return _cropped(a.reshaped((out, channels // steps.groups, *a.shape[2:])), size)


def _products(image: Array, kernel: Array, steps: Steps) -> Array:
    """(groups * m, k, h, w), (groups * out, k, kernel) -> (groups * out, m, h', w'): sums over k, and the kernel."""
    groups = steps.groups
    m, k, out = image.shape[0] // groups, image.shape[1], kernel.shape[0] // groups
    (h, w), columns = positions(image.shape, _size(kernel), *steps[:3]), k * kernel.shape[2] * kernel.shape[3]
    # The CPU's im2col counts the bytes of a sample in 32 bits.
    if 4 * groups * m * h * w * columns > MOST_COLUMNS or (m > 1 and k * image.shape[2] * image.shape[3] >= 1 << 29):
        if groups > 1:
            half = groups // 2
            return joined([
                _products(cut(image, 0, a * m, b * m), cut(kernel, 0, a * out, b * out), steps._replace(groups=b - a))
                for a, b in ((0, half), (half, groups))
            ], 0)  # fmt: skip
        if m > 1:
            return joined([_products(cut(image, 0, a, b), kernel, steps) for a, b in ((0, m // 2), (m // 2, m))], 1)
        if k > 1:
            parts = [_products(cut(image, 1, a, b), cut(kernel, 1, a, b), steps) for a, b in ((0, k // 2), (k // 2, k))]
            return binary("conv", prim.ADD, *parts)
    batch = (groups,) if groups > 1 else ()
    left = base.reshaped(kernel, (*batch, out, columns))
    a = linalg._matmul(left, _columns(image, kernel, steps, (*batch, columns, m * h * w)))
    return a.reshaped((groups * out, m, h, w))


def _columns(image: Array, kernel: Array, steps: Steps, shape: Shape) -> Array:
    """What meets the kernel at each position, a column each: (groups, k * kernel, m * h' * w'), or without groups."""
    (samples, k, h, w), size = image.shape, kernel.shape[2:]
    turned = (*shape[:-2], shape[-1], shape[-2])
    if steps.padding == (0, 0) and steps.dilation == (1, 1):
        if size == (h, w):  # one position
            return base.reshaped(image, turned).swapped()
        if size == steps.stride == (1, 1):  # the image as it is, its channels outermost
            parted = base.reshaped(image, (steps.groups, samples // steps.groups, k, h * w))
            return base.reshaped(parted.permuted((0, 2, 1, 3)), shape)
    rows = image.device.graph.record(
        prim.IM2COL,
        (image,),
        (samples, *positions(image.shape, _size(kernel), *steps[:3]), shape[-2]),
        FLOAT,
        k,
        size,
        *_reversed(steps),
    )
    return rows.reshaped(turned).swapped()


def _size(a: Array) -> Pair:
    return (a.shape[2], a.shape[3])


def _reversed(steps: Steps) -> tuple[int, ...]:
    """As ggml takes them: the width's first."""
    return (*steps.stride[::-1], *steps.padding[::-1], *steps.dilation[::-1])


def _cropped(a: Array, size: Pair) -> Array:
    """Without what is beyond a size, at the end of each image."""
    return a.view((*a.shape[:2], *size), a.strides)
