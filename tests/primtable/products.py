"""Products of matrices. ggml multiplies rows with rows: (.., n, k) and (.., m, k) -> (.., m, n)."""

from __future__ import annotations

import math

import numpy as np

from ggmlpy_ag.backend import primitives as prim

from .table import MANY, Entry, Sample, floats

NAN, INF = math.nan, math.inf


def _mul_mat(columns: np.ndarray, rows: np.ndarray) -> np.ndarray:
    return np.matmul(rows.astype(np.float64), columns.astype(np.float64).swapaxes(-1, -2))


def _out_prod(right: np.ndarray, left: np.ndarray) -> np.ndarray:
    return np.matmul(left.astype(np.float64).T, right.astype(np.float64))


# one to eight rows, and more, have kernels of their own on Vulkan; so have multiples of 32 there
_EXTENTS = (
    (1, 1, 1), (1, 257, 3), (2, 31, 3), (3, 31, 2), (8, 33, 5), (9, 33, 5), (31, 257, 33), (33, 64, 64), (128, 96, 64)
)  # fmt: skip
MATMUL = Entry(
    primitive=prim.MATMUL,
    numpy=_mul_mat,
    samples=[
        *(Sample(((n, k), (m, k))) for m, k, n in _EXTENTS),
        *(
            Sample((((*b, n, k)), (*b, m, k)))
            for b in ((5,), (2, 3))
            for m, k, n in ((1, 31, 3), (2, 31, 3), (9, 33, 5))
        ),
        *(Sample(((n, k), (5, m, k))) for m, k, n in ((1, 31, 3), (3, 33, 5), (33, 31, 31))),  # repeated by ggml itself
    ],
    # many products of one row: as many of several take Mesa's llvmpipe ten seconds
    large=[
        Sample(((3, 2), (MANY, 2))),
        Sample(((MANY, 2), (3, 2))),
        Sample(((MANY, 2), (9, 2))),
        Sample(((1, MANY), (1, MANY))),
        Sample(((9, MANY), (9, MANY))),
        Sample(((MANY, 1, 3), (MANY, 1, 3))),
        Sample(((MANY, 3, 2), (MANY, 1, 2))),
        Sample(((MANY, 2, 1, 3), (MANY, 2, 1, 3))),
    ],  # fmt: skip
    edges=[
        Sample((floats([1, 0, 2], [INF, 1, 1], [NAN, 1, 1]), floats([1, 2, 3], [0, INF, 1], [-INF, 1, 1]))),
        Sample((floats([1, 0, 2], [INF, 1, 1]), np.repeat(floats([1, 2, 3], [NAN, 1, 1], [1, 1, -INF]), 5, 0))),
        Sample((floats([1e20, 1e-20, 1e-30]), floats([1e15, 1e-15, 1e20], [1e-30, 1, 1e30]))),
    ],
    laid=[Sample(((3, 5, 31), (3, 7, 31))), Sample(((2, 3, 9, 33), (2, 3, 11, 33)))],
    rtol=2e-6,
    sums=True,
)

MATMUL_BLAS = Entry(
    primitive=prim.MATMUL_BLAS,
    numpy=_mul_mat,
    samples=[Sample(((n, k), (m, k))) for m, k, n in _EXTENTS],
    large=[Sample(((3, 2), (MANY, 2))), Sample(((MANY, 2), (3, 2))), Sample(((3, MANY), (3, MANY)))],
    edges=MATMUL.edges,
    laid=[Sample(((9, 33), (11, 33)))],
    rtol=2e-6,
    sums=True,
)

# (k, n) and (k, m) -> (m, n)
OUT_PROD_BLAS = Entry(
    primitive=prim.OUT_PROD_BLAS,
    numpy=_out_prod,
    samples=[Sample(((k, n), (k, m))) for m, k, n in _EXTENTS],
    large=[Sample(((2, 3), (2, MANY))), Sample(((2, MANY), (2, 3))), Sample(((MANY, 3), (MANY, 3)))],
    edges=[Sample((floats([1, 0], [INF, 1], [NAN, 1]), floats([1, 2], [0, 1], [1, -INF])))],
    laid=[Sample(((31, 33), (31, 9)))],
    ways=(("packed", "window"), ("packed", "window", "transposed")),
    rtol=2e-6,
    sums=True,
)

ENTRIES = [MATMUL, MATMUL_BLAS, OUT_PROD_BLAS]
