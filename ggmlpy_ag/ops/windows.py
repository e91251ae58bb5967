"""Windows that move over an image: what convolutions and poolings share. No operations."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend import primitives as prim
from ..backend.array import FLOAT, Array
from ..backend.primitives import Primitive
from . import base
from .moving import cut, joined
from .reduce import LONGEST_SUM

Pair = tuple[int, int]

LARGEST_PLANE = 1 << 24  # places; where the launches of Vulkan's kernels for windows end, with room to spare
LARGEST_POOL = 1 << 24  # elements of one launch of Vulkan's pooling


def pair(op: str, name: str, value: Any, least: int, count: int = 2) -> Pair:
    """An integer, or one for each of `count` axes, as a pair for height and width; one axis is the width.

    Raises:
        TypeError: no integers. ValueError: not as many as there are axes, or one outside [least, 2**31).
    """
    given = tuple(value) if isinstance(value, (tuple, list)) else (value,) * count
    if any(isinstance(n, (bool, np.bool_)) or not isinstance(n, (int, np.integer)) for n in given):
        raise TypeError(f"{op}: {name} must be an integer or {count} of them, not {value!r}")
    if len(given) != count or any(not least <= n < 1 << 31 for n in given):
        raise ValueError(
            f"{op}: {name} must be an integer from {least} to 2**31 - 1, or {count} of them, not {value!r}"
        )
    first, last = given[0], given[-1]
    return (int(first) if count == 2 else least, int(last))


def flag(op: str, name: str, value: Any) -> bool:
    """True or False. Raises TypeError for anything else."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{op}: {name} must be True or False, not {value!r}")
    return bool(value)


def positions(size: int, kernel: int, stride: int, padding: int, dilation: int = 1) -> int:
    """How many windows fit on an axis; less than 1 where the kernel is larger than the padded axis."""
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


def check_plane(op: str, *planes: Pair) -> None:
    """Raise ValueError for an image too large for one launch on every device."""
    for h, w in planes:
        if h * w > LARGEST_PLANE:
            raise ValueError(f"{op}: a plane of {h} x {w} places is too large: {LARGEST_PLANE} are possible")


# ---------------------------------------------------------------- on arrays


def pooled(a: Array, primitive: Primitive, kernel: Pair, stride: Pair, padding: Pair = (0, 0)) -> Array:
    """Greatest (at least the least finite number, NaN aside) or mean of each window: (n, channels, h, w)."""
    n, channels, h, w = a.shape
    places = (positions(h, kernel[0], stride[0], padding[0]), positions(w, kernel[1], stride[1], padding[1]))
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
