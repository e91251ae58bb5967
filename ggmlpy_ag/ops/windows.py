"""The arguments of what moves a window over an image. No operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Pair = tuple[int, int]

LARGEST_PLANE = 1 << 24  # places; where the launches of Vulkan's kernels for windows end, with room to spare


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


def positions(image: Sequence[int], kernel: Pair, stride: Pair, padding: Pair, dilation: Pair = (1, 1)) -> Pair:
    """How many windows fit on the last two axes of an image; less than 1 where the kernel is larger than it, padded."""
    h, w = (
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, s, p, d in zip(image[-2:], kernel, stride, padding, dilation, strict=True)
    )
    return h, w


def check_plane(op: str, *planes: Pair) -> None:
    """Raise ValueError for an image too large for one launch on every device."""
    for h, w in planes:
        if h * w > LARGEST_PLANE:
            raise ValueError(f"{op}: a plane of {h} x {w} places is too large: {LARGEST_PLANE} are possible")
