"""Sums along rows, and what is made of them."""

from __future__ import annotations

import math

import numpy as np

from ggmlpy_ag.backend import primitives as prim

from .table import GREATEST, LARGE, LLVMPIPE, MANY, SHAPES, Difference, Entry, Sample, floats

NAN, INF = math.nan, math.inf
ODD_ROWS = floats([0, 1, 2], [NAN, 1, 2], [INF, 1, 2], [-INF, INF, 0], [-INF, 0, -INF], [3e38, -3e38, 0], [1e-40, 0, 0])
ROWS = tuple(shape for shape in SHAPES if shape)


def _ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


SUM_ROWS = Entry(
    primitive=prim.SUM_ROWS,
    numpy=lambda x: x.sum(-1, keepdims=True, dtype=np.float64),
    samples=[Sample((s,)) for s in (*ROWS, (3, 5000))],
    large=[Sample((s,)) for s in (*LARGE, (300_000, 2))],
    edges=[Sample((ODD_ROWS,))],
    differences=[
        Difference("600,000 columns", Sample((_ones(1, 600_000),)), floats([600_000]), floats([131_070]), LLVMPIPE),
    ],
    laid=[Sample(((2, 3, 5, 7),))],
    rtol=2e-6,
    sums=True,
)

SUM_MIDDLE = Entry(
    primitive=prim.SUM_MIDDLE,
    numpy=lambda x, inner, outer: x.sum(1, keepdims=True, dtype=np.float64),
    samples=[
        Sample(((o, n, i),), (i, o))
        for o, n, i in ((1, 1, 1), (1, 3, 1), (1, 257, 3), (31, 33, 2), (3, 1, 31), (2, 255, 257), (5, 256, 1))
    ],
    large=[Sample(((o, n, i),), (i, o)) for o, n, i in ((3, 2, MANY), (MANY, 3, 2), (1, 20_000, 3), (MANY, 1, 2))],
    edges=[Sample((ODD_ROWS.T.reshape(1, 3, 7).copy(),), (7, 1))],
    differences=[
        Difference("70,000 rows", Sample((_ones(1, MANY, 1),), (1, 1)), floats([[MANY]]), floats([[21_845]]), LLVMPIPE),
    ],
    laid=[Sample(((3, 33, 5),), (5, 3))],
    rtol=1e-5,
    sums=True,
)


def _softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(-1, keepdims=True).astype(np.float64))
    return powers / powers.sum(-1, keepdims=True)


_faint = Sample((floats([0, -88, -103]),))
SOFTMAX = Entry(
    primitive=prim.SOFTMAX,
    numpy=_softmax,
    samples=[Sample((s,)) for s in (*ROWS, (2, 1025), (1, 16_384), (2, 16_385))],  # from 1025, 16385 on other kernels
    large=[Sample((s,)) for s in ((3, MANY), (33_000, 1, 2, 3))],
    edges=[Sample((ODD_ROWS,)), Sample((floats([-INF] * 3, [GREATEST] * 3, [1e30, -1e30, 0]),))],
    differences=[
        Difference("parts below 2**-126", _faint, _softmax(_faint.arrays()[0]).astype(np.float32), floats([1, 0, 0])),
    ],
    laid=[Sample(((2, 3, 5, 7),))],
    rtol=2e-6,
    atol=1e-9,
)


SOFTMAX_MASKED = Entry(
    primitive=prim.SOFTMAX_MASKED,
    numpy=lambda x, mask: _softmax(x + mask),
    samples=[
        Sample((a, mask))
        for a, mask in (
            ((1, 1, 1, 1), (1, 1, 1, 1)),
            ((1, 1, 3, 31), (1, 1, 3, 31)),
            ((2, 3, 5, 7), (2, 3, 5, 7)),
            ((2, 3, 5, 257), (1, 1, 5, 257)),
            ((2, 3, 5, 33), (2, 1, 5, 33)),
            ((2, 3, 5, 33), (1, 3, 5, 33)),
            ((1, 2, 3, 1025), (1, 1, 3, 1025)),
            ((1, 2, 3, 16_385), (1, 1, 3, 16_385)),
        )
    ],  # fmt: skip
    large=[
        Sample((a, mask))
        for a, mask in (
            ((1, 1, 3, MANY), (1, 1, 3, MANY)),
            ((33_000, 2, 1, 3), (1, 1, 1, 3)),
        )
    ],  # fmt: skip
    edges=[
        Sample((ODD_ROWS[None, None], floats(*[[0, -INF, 0]] * len(ODD_ROWS))[None, None])),
        Sample((np.ones((1, 1, 3, 3), np.float32), floats([-INF, -INF, -INF], [0, -INF, 1], [NAN, 0, 0])[None, None])),
    ],
    laid=[Sample(((2, 3, 5, 7), (1, 1, 5, 7)))],
    rtol=2e-6,
    atol=1e-9,
)


def _rms_norm(x: np.ndarray, eps: float) -> np.ndarray:
    wide = x.astype(np.float64)
    return wide / np.sqrt((wide**2).mean(-1, keepdims=True) + np.float32(eps))


RMS_NORM = Entry(
    primitive=prim.RMS_NORM,
    numpy=_rms_norm,
    samples=[Sample((s,), (1e-5,)) for s in (*ROWS, (2, 1025))] + [Sample(((3, 31),), (eps,)) for eps in (0.0, 1.0)],
    large=[Sample((s,), (1e-5,)) for s in ((3, MANY), (300, 2, 1, 3))],  # a row takes a millisecond
    edges=[Sample((floats([NAN, 1, 2], [0, 0, 0], [1e-30, 0, 0], [1e18, -1e18, 0]),), (1e-5,))],
    laid=[Sample(((2, 3, 5, 7),), (1e-5,))],
    rtol=2e-6,
)

ENTRIES = [SUM_ROWS, SUM_MIDDLE, SOFTMAX, SOFTMAX_MASKED, RMS_NORM]
