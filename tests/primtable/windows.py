"""Primitives over windows of images, which are (n, channels, h, w); the width's parameters come first."""

from __future__ import annotations

import math

import numpy as np

from ggmlpy_ag.backend import primitives as prim

from .table import GREATEST, LLVMPIPE, MANY, Difference, Entry, Sample, floats

NAN, INF = math.nan, math.inf


def _im2col(
    x: np.ndarray, channels: int, kernel: tuple[int, int], s0: int, s1: int, p0: int, p1: int, d0: int, d1: int
) -> np.ndarray:
    kh, kw = kernel
    x = np.pad(x, ((0, 0), (0, 0), (p1, p1), (p0, p0)))
    windows = np.lib.stride_tricks.sliding_window_view(x, (d1 * (kh - 1) + 1, d0 * (kw - 1) + 1), (2, 3))
    picked = windows[:, :, ::s1, ::s0, ::d1, ::d0].transpose(0, 2, 3, 1, 4, 5)
    return picked.reshape(*picked.shape[:3], channels * kh * kw)


def _image(
    shape: tuple[int, int, int, int],
    kernel: tuple[int, int] = (2, 2),
    stride: tuple[int, int] = (1, 1),
    padding: tuple[int, int] = (0, 0),
    dilation: tuple[int, int] = (1, 1),
) -> Sample:
    return Sample((shape,), (shape[1], kernel, *stride, *padding, *dilation))


IM2COL = Entry(
    primitive=prim.IM2COL,
    numpy=_im2col,
    samples=[
        _image((1, 1, 1, 1), (1, 1)),
        _image((2, 3, 5, 7), (3, 2)),
        _image((2, 3, 5, 7), (5, 7)),
        _image((2, 3, 5, 7), (3, 2), stride=(2, 3)),
        _image((2, 3, 5, 7), (3, 2), padding=(2, 1)),
        _image((2, 3, 5, 7), (2, 3), padding=(1, 2), dilation=(3, 2)),
        _image((2, 3, 5, 7), (2, 2), stride=(3, 2), padding=(4, 5), dilation=(2, 1)),
        _image((3, 33, 31, 3), (3, 3), padding=(1, 1)),
        _image((1, 1000, 4, 4), (3, 3)),
    ],
    large=[
        _image((MANY, 1, 1, 2), (1, 2)),
        _image((1, MANY, 2, 2)),
        _image((1, 1, MANY, 2), (1, 2)),
        _image((1, 1, 2, MANY), (2, 1)),
    ],  # fmt: skip
    edges=[Sample((np.full((1, 1, 3, 3), v, np.float32),), (1, (2, 2), 1, 1, 1, 1, 1, 1)) for v in (np.nan, -0.0)],
    laid=[_image((2, 3, 5, 7), (3, 2), padding=(1, 1))],
)


def _ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def _depthwise(
    kernel: np.ndarray, image: np.ndarray, s0: int, s1: int, p0: int, p1: int, d0: int, d1: int
) -> np.ndarray:
    kh, kw = kernel.shape[2:]
    padded = np.pad(image.astype(np.float64), ((0, 0), (0, 0), (p1, p1), (p0, p0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (d1 * (kh - 1) + 1, d0 * (kw - 1) + 1), (2, 3))
    return np.einsum("nchwij,cij->nchw", windows[:, :, ::s1, ::s0, ::d1, ::d0], kernel[:, 0].astype(np.float64))


DEPTHWISE = Entry(
    primitive=prim.DEPTHWISE,
    numpy=_depthwise,
    samples=[
        Sample(((c, 1, kh, kw), (n, c, h, w)), steps)
        for (n, c, h, w), (kh, kw), steps in (
            ((1, 1, 1, 1), (1, 1), (1, 1, 0, 0, 1, 1)),
            ((2, 3, 5, 7), (3, 2), (1, 1, 0, 0, 1, 1)),
            ((2, 3, 5, 7), (5, 7), (1, 1, 0, 0, 1, 1)),
            ((2, 3, 5, 7), (3, 2), (2, 3, 0, 0, 1, 1)),
            ((2, 3, 5, 7), (3, 2), (1, 1, 2, 1, 1, 1)),
            ((2, 3, 5, 7), (2, 3), (1, 1, 1, 2, 3, 2)),
            ((2, 3, 5, 7), (2, 2), (3, 2, 4, 5, 2, 1)),
            ((3, 33, 31, 17), (3, 3), (1, 1, 1, 1, 1, 1)),
        )
    ],
    large=[
        Sample(((c, 1, kh, kw), (n, c, h, w)), (1, 1, 0, 0, 1, 1))
        for (n, c, h, w), (kh, kw) in (
            ((MANY, 1, 2, 3), (2, 2)),
            ((1, MANY, 2, 3), (2, 2)),
            ((1, 1, MANY, 3), (2, 2)),
            ((1, 1, 3, MANY), (2, 2)),
        )
    ],  # fmt: skip
    edges=[Sample((floats([[[1, 2]]]), floats([[[INF, 1, NAN, 1]]])), (1, 1, 1, 0, 1, 1))],
    differences=[
        Difference(
            "a kernel of 90,000 elements",
            Sample((_ones(1, 1, 300, 300), _ones(1, 1, 300, 300)), (1, 1, 0, 0, 1, 1)),
            floats([[[90_000]]]),
            floats([[[65_101]]]),
            LLVMPIPE,
        ),
    ],
    laid=[Sample(((3, 1, 3, 2), (2, 3, 5, 7)), (1, 1, 1, 1, 1, 1))],
    rtol=2e-6,
    sums=True,
)

# ---------------------------------------------------------------- pooling


def _pool(x: np.ndarray, outside: float, steps: tuple[int, ...]) -> np.ndarray:
    """Windows over the last two dimensions, as the last two of the result."""
    kw, kh, sw, sh, pw, ph = steps
    padded = np.pad(x, ((0, 0), (0, 0), (ph, ph), (pw, pw)), constant_values=outside)
    return np.lib.stride_tricks.sliding_window_view(padded, (kh, kw), (2, 3))[:, :, ::sh, ::sw]


_POOLS = (
    ((1, 1, 1, 1), (1, 1, 1, 1, 0, 0)),
    ((2, 3, 5, 7), (2, 3, 1, 1, 0, 0)),
    ((2, 3, 5, 7), (7, 5, 1, 1, 0, 0)),
    ((2, 3, 5, 7), (2, 2, 2, 2, 0, 0)),
    ((2, 3, 5, 7), (3, 2, 2, 3, 1, 1)),
    ((3, 5, 33, 31), (3, 3, 2, 2, 1, 1)),
)
_POOLED = (
    ((MANY, 1, 2, 3), (2, 2, 1, 1, 0, 0)),
    ((1, MANY, 2, 3), (2, 2, 1, 1, 0, 0)),
    ((1, 1, MANY, 3), (2, 2, 1, 1, 0, 0)),
    ((1, 1, 3, MANY), (2, 2, 1, 1, 0, 0)),
)
MAX_POOL = Entry(
    primitive=prim.MAX_POOL,
    numpy=lambda x, *steps: _pool(x, -INF, steps).max((-1, -2)),
    samples=[Sample((shape,), steps) for shape, steps in _POOLS],
    large=[Sample((shape,), steps) for shape, steps in _POOLED],
    edges=[Sample((floats([[[INF, 1, -INF, 0, -GREATEST, -INF]]]),), (2, 1, 1, 1, 0, 0))],
    differences=[
        Difference(
            "NaN, and -inf alone",
            Sample((floats([[[5, NAN, 1, NAN, NAN, -INF]]]),), (3, 1, 3, 1, 0, 0)),
            floats([[[1, -INF]]]),
            floats([[[5, -GREATEST]]]),
        ),
    ],
    laid=[Sample(((2, 3, 5, 7),), (2, 3, 1, 1, 0, 0))],
)

AVG_POOL = Entry(
    primitive=prim.AVG_POOL,
    numpy=lambda x, *steps: _pool(x.astype(np.float64), 0.0, steps).mean((-1, -2)),  # what is beyond the edge counts
    samples=[Sample((shape,), steps) for shape, steps in _POOLS],
    large=[Sample((shape,), steps) for shape, steps in _POOLED],
    edges=[Sample((floats([[[INF, 1, -INF, 0, NAN, 2, 3]]]),), (2, 1, 1, 1, 1, 0))],
    laid=[Sample(((2, 3, 5, 7),), (2, 3, 1, 1, 0, 0))],
    rtol=1e-6,
    sums=True,
)

ENTRIES = [IM2COL, DEPTHWISE, MAX_POOL, AVG_POOL]
