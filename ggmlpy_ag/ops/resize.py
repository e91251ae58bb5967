"""Images made larger or smaller."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ..backend.array import Array
from ..tape import record
from ..tensor import Tensor, TensorLike
from . import base, linalg
from .base import floats, packed, result, scaled, wide
from .moving import picked
from .pooling import averaged
from .windows import Pair, check_plane, flag, pair

LARGEST_MATRIX = 1 << 24  # elements of the weights that one axis is interpolated with


def upsample(
    x: TensorLike,
    scale_factor: int | Pair | None = None,
    size: int | Pair | None = None,
    mode: str = "nearest",
    align_corners: bool = False,
) -> Tensor:
    """An image in another size, larger or smaller, as `torch.nn.functional.interpolate` has it.

    "nearest" copies, for place i of n', place floor(i n / n') of n, computed in float32. "bilinear" takes the mean of
    the four places around (i + 1/2) n / n' - 1/2, weighted by distance. That is a product with a constant matrix for
    each axis that changes: an infinity or a NaN makes NaN of all places that share one of these axes with it.

    Args:
        x: (n, channels, h, w).
        scale_factor: new extents over old ones, one integer or (vertical, horizontal).
        size: new extents, one or (h', w'); either this or `scale_factor`.
        mode: "nearest" or "bilinear".
        align_corners: for "bilinear": the corners' places stay, and place i of n' comes from i (n - 1) / (n' - 1).

    Returns:
        (n, channels, h', w').

    Raises:
        ValueError: not four dimensions, an empty result, no size or two, another mode, a plane of more than 2**24
        places, or more than 2**24 products of an old and a new extent for "bilinear". TypeError: no integers, no bool.

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
    before = (x.shape[2], x.shape[3])
    if size is not None:
        after = pair(op, "size", size, 1)
    else:
        factors = pair(op, "scale_factor", scale_factor, 1)
        after = (before[0] * factors[0], before[1] * factors[1])
    check_plane(op, after)
    if mode == "bilinear":
        return weighted(op, x, *[_bilinear(op, n, m, corners) for n, m in zip(before, after, strict=True)])
    if after[0] % before[0] == 0 and after[1] % before[1] == 0:
        return enlarged(op, x, (after[0] // before[0], after[1] // before[1]))
    return _nearest(op, x, _places(before[0], after[0]), _places(before[1], after[1]))


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


def weighted(op: str, x: Tensor, rows: np.ndarray | None, columns: np.ndarray | None) -> Tensor:
    """rows @ image @ columns.T for each image, with constant matrices (h', h) and (w', w); None changes nothing."""
    out = result(_weighted(wide(x), rows, columns), x)
    turned = [None if m is None else m.T for m in (rows, columns)]
    return record(op, out, (x,), lambda g: (weighted(op, g, *turned),))


def _weighted(a: Array, rows: np.ndarray | None, columns: np.ndarray | None) -> Array:
    n, channels, h, w = a.shape
    a = base.reshaped(a, (n * channels, h, w))
    shrinks = columns is not None and len(columns) < w  # then the rest has less to do
    if columns is not None and shrinks:
        a = _across(a, columns)
    if rows is not None:
        a = _down(a, rows)
    if columns is not None and not shrinks:
        a = _across(a, columns)
    return a.reshaped((n, channels, *a.shape[1:]))


def _across(a: Array, columns: np.ndarray) -> Array:
    """(m, h, w) -> (m, h, w')"""
    m, h, w = a.shape
    product = linalg._matmul(base.reshaped(a, (m * h, w)), _constant(a, columns).swapped())
    return product.reshaped((m, h, len(columns)))


def _down(a: Array, rows: np.ndarray) -> Array:
    """(m, h, w) -> (m, h', w)"""
    m, h, w = a.shape
    product = linalg._matmul(_constant(a, rows), base.reshaped(a.swapped(), (m * w, h)).swapped())
    return packed(product.reshaped((len(rows), m, w)).permuted((1, 0, 2)))


def _constant(a: Array, matrix: np.ndarray) -> Array:
    return a.device.upload(np.ascontiguousarray(matrix))


def _nearest(op: str, x: Tensor, rows: np.ndarray, columns: np.ndarray) -> Tensor:
    """Rows and columns by their numbers."""
    h, w = x.shape[2], x.shape[3]
    out = packed(picked(picked(x._array, rows, 2), columns, 3))

    def grad(g: Tensor) -> tuple[Tensor]:
        return (weighted(op, g, _chosen(rows, h).T, _chosen(columns, w).T),)

    return record(op, Tensor(out), (x,), grad)


# ---------------------------------------------------------------- which places, and how much of each


def _places(n: int, m: int) -> np.ndarray:
    """For each of m places the one of n that it copies."""
    scale = np.float32(n) / np.float32(m)  # in float32, since PyTorch does so, and which place it is may hang on it
    return np.asarray(np.minimum(np.floor(np.arange(m, dtype=np.float32) * scale), n - 1), np.int32)


def _chosen(places: np.ndarray, n: int) -> np.ndarray:
    """The matrix that picks these places of n."""
    chosen = np.zeros((places.size, n), np.float32)
    chosen[np.arange(places.size), places] = 1.0
    return chosen


@lru_cache(maxsize=32)
def _bilinear(op: str, n: int, m: int, align_corners: bool) -> np.ndarray | None:
    """The matrix that interpolates m places between n; None if they stay."""
    if n == m:
        return None
    if n * m > LARGEST_MATRIX:
        raise ValueError(f"{op}: {n} places are too many to make {m} of them: n * n' may be {LARGEST_MATRIX} at most")
    i = np.arange(m)
    place = i * ((n - 1) / max(m - 1, 1)) if align_corners else np.maximum((i + 0.5) * n / m - 0.5, 0.0)
    first = np.minimum(place.astype(np.int64), n - 1)
    second = np.minimum(first + 1, n - 1)
    share = place - first
    weights = np.zeros((m, n))
    np.add.at(weights, (i, first), 1.0 - share)
    np.add.at(weights, (i, second), share)
    return np.asarray(weights, np.float32)


__all__ = ["upsample"]
