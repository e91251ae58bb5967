"""Images made larger or smaller."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from ..backend.array import Array
from ..tape import record
from ..tensor import Tensor, TensorLike
from . import base, linalg
from .base import floats, number, packed, result, scaled, wide
from .moving import picked
from .windows import Pair, averaged, check_plane, flag, pair

LARGEST_MATRIX = 1 << 24  # elements of the weights that one axis is interpolated with


def upsample(
    x: TensorLike,
    scale_factor: float | tuple[float, float] | None = None,
    size: int | Pair | None = None,
    mode: str = "nearest",
    align_corners: bool = False,
) -> Tensor:
    """An image in another size, larger or smaller, as `torch.nn.functional.interpolate` has it.

    Places lie in the middle of squares: place i of n' comes from (i + 1/2) n / n' - 1/2. "nearest" copies place
    floor(i n / n'), computed in float32. "bilinear" takes the mean of the four places around, weighted by distance; it is two products with
    constant matrices, so that an infinity or a NaN makes NaN of the rows and columns that cross there.

    Args:
        x: (n, channels, h, w).
        scale_factor: new extents over old ones, one number or (vertical, horizontal); fractions of the result are cut
            off.
        size: new extents, one or (h', w'); either this or `scale_factor`.
        mode: "nearest" or "bilinear".
        align_corners: for "bilinear": the corners' places stay, and place i of n' comes from i (n - 1) / (n' - 1).

    Returns:
        (n, channels, h', w').

    Raises:
        ValueError: not four dimensions, an empty result, no size or two, another mode, a plane of more than 2**24
        places, or more than 2**24 products of an old and a new extent for "bilinear". TypeError: no numbers, no bool.

    >>> ag.upsample([[[[1.0, 2.0]]]], 2).tolist()
    [[[[1.0, 1.0, 2.0, 2.0], [1.0, 1.0, 2.0, 2.0]]]]
    >>> ag.upsample([[[[0.0, 4.0]]]], size=(1, 4), mode="bilinear").tolist()
    [[[[0.0, 1.0, 3.0, 4.0]]]]
    """
    op = "upsample"
    (x,) = floats(op, x)
    if x.ndim != 4:
        raise ValueError(f"{op}: x must be (n, channels, h, w), not {x.shape}")
    if not isinstance(mode, str) or mode not in ("nearest", "bilinear"):
        raise ValueError(f'{op}: mode must be "nearest" or "bilinear", not {mode!r}')
    corners = flag(op, "align_corners", align_corners)
    if corners and mode != "bilinear":
        raise ValueError(f'{op}: align_corners goes with mode="bilinear" only')
    if (scale_factor is None) == (size is None):
        raise ValueError(f"{op}: give scale_factor or size, one of them, not {scale_factor!r} and {size!r}")
    before, steps = (x.shape[2], x.shape[3]), (0.0, 0.0)
    if size is not None:
        after = pair(op, "size", size, 1)
    else:
        factors = _factors(op, scale_factor)
        after = (_extent(op, before[0], factors[0]), _extent(op, before[1], factors[1]))
        steps = (1.0 / factors[0], 1.0 / factors[1])
    check_plane(op, after)
    if mode == "bilinear":
        weights = [_bilinear(op, n, m, s, corners) for n, m, s in zip(before, after, steps, strict=True)]
        return weighted(op, x, *weights)
    if all(m % n == 0 and s in (0.0, n / m) for n, m, s in zip(before, after, steps, strict=True)):
        return enlarged(op, x, (after[0] // before[0], after[1] // before[1]))
    return _nearest(op, x, *[_places(n, m, s) for n, m, s in zip(before, after, steps, strict=True)])


def _factors(op: str, value: Any) -> tuple[float, float]:
    given = base.sequence(op, value) if isinstance(value, (tuple, list)) else (value, value)
    factors = [None if isinstance(v, (bool, np.bool_)) else number(v) for v in given]
    if None in factors:
        raise TypeError(f"{op}: scale_factor must be a number or two, not {value!r}")
    if len(factors) != 2 or not all(f is not None and 1e-9 < f < 2**31 for f in factors):
        raise ValueError(f"{op}: scale_factor must be a positive number below 2**31, or two, not {value!r}")
    first, last = factors
    assert first is not None and last is not None
    return first, last


def _extent(op: str, n: int, factor: float) -> int:
    extent = math.floor(n * factor)
    if extent < 1:
        raise ValueError(f"{op}: {n} places times scale_factor {factor} leave none")
    return extent


# ---------------------------------------------------------------- linear maps of images, and their adjoints


def enlarged(op: str, x: Tensor, factors: Pair) -> Tensor:
    """Each element as a block of so many rows and columns."""
    n, channels, h, w = x.shape
    rows = base.reshaped(x._array, (n * channels * h, 1, w, 1))
    out = base.expanded(rows, (n * channels * h, factors[0], w, factors[1]))
    shape = (n, channels, h * factors[0], w * factors[1])
    return record(op, Tensor(out.reshaped(shape)), (x,), lambda g: (_block_sums(op, g, factors),))


def _block_sums(op: str, g: Tensor, factors: Pair) -> Tensor:
    out = result(scaled(averaged(wide(g), factors, factors), float(factors[0] * factors[1])), g)
    return record(op, out, (g,), lambda gg: (enlarged(op, gg, factors),))


def weighted(op: str, x: Tensor, rows: np.ndarray, columns: np.ndarray) -> Tensor:
    """rows @ image @ columns.T for each image, with constant matrices (h', h) and (w', w)."""
    out = result(_weighted(wide(x), rows, columns), x)
    return record(op, out, (x,), lambda g: (weighted(op, g, rows.T, columns.T),))


def _weighted(a: Array, rows: np.ndarray, columns: np.ndarray) -> Array:
    n, channels, h, w = a.shape
    planes = n * channels
    right, left = (a.device.upload(np.ascontiguousarray(m)) for m in (columns, rows))
    # Each product has its new dimension first: so both read rows of what is there.
    a = linalg._matmul(right, base.reshaped(a, (planes * h, w)).swapped())
    a = linalg._matmul(left, a.reshaped((len(columns) * planes, h)).swapped())
    a = a.reshaped((len(rows), len(columns), planes)).permuted((2, 0, 1))
    return packed(a).reshaped((n, channels, len(rows), len(columns)))


def _nearest(op: str, x: Tensor, rows: np.ndarray, columns: np.ndarray) -> Tensor:
    """Rows and columns by their numbers."""
    h, w = x.shape[2], x.shape[3]
    out = packed(picked(picked(x._array, rows, 2), columns, 3))

    def grad(g: Tensor) -> tuple[Tensor]:
        return (weighted(op, g, _chosen(rows, h).T, _chosen(columns, w).T),)

    return record(op, Tensor(out), (x,), grad)


# ---------------------------------------------------------------- which places, and how much of each


def _places(n: int, m: int, step: float) -> np.ndarray:
    """For each of m places the one of n that it copies; `step` is n / m, or given by a scale factor."""
    if n == m:
        return np.arange(n, dtype=np.int32)
    scale = np.float32(step) if step else np.float32(n) / np.float32(m)  # PyTorch rounds to float32 here
    return np.asarray(np.minimum(np.floor(np.arange(m, dtype=np.float32) * scale), n - 1), np.int32)


def _chosen(places: np.ndarray, n: int) -> np.ndarray:
    """The matrix that picks these places of n."""
    chosen = np.zeros((places.size, n), np.float32)
    chosen[np.arange(places.size), places] = 1.0
    return chosen


@lru_cache(maxsize=32)
def _bilinear(op: str, n: int, m: int, step: float, align_corners: bool) -> np.ndarray:
    """The matrix that interpolates m places between n."""
    if n * m > LARGEST_MATRIX:
        raise ValueError(f"{op}: {n} places are too many to make {m} of them: n * n' may be {LARGEST_MATRIX} at most")
    i = np.arange(m)
    if align_corners:
        place = i * ((n - 1) / (m - 1) if m > 1 else 0.0)
    else:
        place = np.maximum((i + 0.5) * (step or n / m) - 0.5, 0.0)
    first = np.minimum(place.astype(np.int64), n - 1)
    second = np.minimum(first + 1, n - 1)
    share = place - first
    weights = np.zeros((m, n))
    np.add.at(weights, (i, first), 1.0 - share)
    np.add.at(weights, (i, second), share)
    return np.asarray(weights, np.float32)


__all__ = ["upsample"]
