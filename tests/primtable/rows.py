"""Primitives about rows: their greatest values, their order, and rows by index."""

from __future__ import annotations

import math

import numpy as np

from ggmlpy_ag.backend import primitives as prim
from ggmlpy_ag.backend.array import INT

from .casts import widened
from .table import (
    GREATEST,
    LLVMPIPE,
    MANY,
    SHAPES,
    TYPES,
    Difference,
    Entry,
    Sample,
    floats,
    integers,
    normal,
    patterns,
)

NAN, INF = math.nan, math.inf
ROWS = tuple(shape for shape in SHAPES if shape)
MATRICES = ((1, 1), (1, 3), (3, 1), (31, 33), (5, 257), (2, 1025), (3, 5000))


def _last(*shape: int) -> np.ndarray:
    """Zeros, but for a 1 at the end of each row."""
    x = np.zeros(shape, np.float32)
    x[..., -1] = 1
    return x


# ---------------------------------------------------------------- greatest, and order

_odd = floats([5, NAN, 1], [NAN, 5, 1], [1, 5, NAN], [NAN, NAN, NAN], [-INF, -INF, -INF])


ROW_MAX = Entry(
    primitive=prim.ROW_MAX,
    numpy=lambda x, columns: x.max(-1, keepdims=True),
    samples=[Sample((s,), (s[-1],)) for s in MATRICES],
    large=[Sample((s,), (s[-1],)) for s in ((3, 60_000), (MANY, 3), (MANY, 1))],
    edges=[Sample((floats([INF, 1, 2], [-INF, 0, -INF], [-GREATEST, -INF, -INF], [1e-40, 1e-41, -1]),), (3,))],
    differences=[
        # not even the number that follows a NaN is compared with those before it on the CPU
        Difference(
            "NaN, and -inf alone",
            Sample((_odd,), (3,)),
            floats([1], [5], [NAN], [NAN], [-GREATEST]),
            floats([5], [5], [5], [-GREATEST], [-GREATEST]),
        ),
        Difference("70,000 columns", Sample((_last(2, MANY),), (MANY,)), floats([1], [1]), floats([0], [0]), LLVMPIPE),
    ],
    laid=[Sample(((31, 33),), (33,))],
)


def _shuffled(*shape: int) -> np.ndarray:
    """Rows without equal elements."""
    ordered = np.broadcast_to(np.arange(shape[-1], dtype=np.float32), shape)
    return np.ascontiguousarray(np.random.default_rng(0).permuted(ordered, axis=-1))


_even = np.resize(floats(2, 1), 7)
ARGSORT = Entry(
    primitive=prim.ARGSORT,
    numpy=lambda x: x.argsort(-1, kind="stable").astype(np.int32),
    samples=[Sample((s,)) for s in (*ROWS, (2, 1023), (2, 1024), (3, 1025), (2, 2048))],
    large=[Sample((_shuffled(*s),)) for s in ((MANY, 3), (MANY, 1, 2), (MANY, 1, 1, 2), (1, 20_000))],
    edges=[Sample((floats([INF, 1, -INF, GREATEST, -GREATEST, 1e-40, 0, -1e-40]),))],
    differences=[
        Difference("ties", Sample((_even,)), np.int32([1, 3, 5, 0, 2, 4, 6]), np.int32([1, 3, 5, 2, 6, 4, 0])),
        Difference("NaN", Sample((floats(3, NAN, 1, NAN, 2),)), np.int32([2, 0, 1, 3, 4]), np.int32([2, 1, 0, 3, 4])),
    ],
    laid=[Sample(((2, 3, 5, 7),))],
)


# ---------------------------------------------------------------- rows by index


def _get_rows(table: np.ndarray, index: np.ndarray) -> np.ndarray:
    rows = np.take_along_axis(table, index[..., None].astype(np.int64), -2) if index.ndim > 1 else table[index]
    return rows if table.dtype == INT else widened(rows)


def _index(*shape: int, below: int) -> np.ndarray:
    return integers(*shape, below=below)


_long = patterns(INT, 1, 2048)
GET_ROWS = Entry(
    primitive=prim.GET_ROWS,
    numpy=_get_rows,
    samples=[
        Sample((patterns(t, *table), _index(*index, below=table[-2])))
        for t in TYPES
        for table, index in (
            ((1, 1), (1,)),
            ((33, 257), (31,)),
            ((3, 512), (5,)),
            ((3, 5, 31), (3, 7)),
            ((2, 3, 5, 7), (2, 3, 33)),
        )
    ]
    + [Sample((patterns(t, 3, 3001), _index(5, below=3))) for t in TYPES if t is not INT],
    large=[
        Sample((normal(MANY, 3), _index(MANY, below=MANY))),
        Sample(((3, MANY), _index(5, below=3))),
        Sample(((MANY, 2, 3), _index(MANY, 2, below=2))),
        Sample(((MANY, 1, 2, 3), _index(MANY, 1, 2, below=2))),
    ],
    differences=[
        # Vulkan copies the first half
        Difference(
            "rows of more than 512 integers",
            Sample((_long, np.zeros(1, np.int32))),
            _long,
            lambda got: np.array_equal(got != _long, [np.repeat([False, True], 1024)]),
            "",
        ),
    ],
    laid=[Sample((normal(2, 3, 5, 7), _index(2, 3, 4, below=5))), Sample((normal(5, 31), _index(7, below=5)))],
)


def _get_rows_back(rows: np.ndarray, index: np.ndarray, n: int, columns: int) -> np.ndarray:
    total = np.zeros((n, columns))
    np.add.at(total, index, rows)
    return total


GET_ROWS_BACK = Entry(
    primitive=prim.GET_ROWS_BACK,
    numpy=_get_rows_back,
    samples=[
        Sample(((k, columns), _index(k, below=n)), (n, columns))
        for k, columns, n in ((1, 1, 1), (3, 31, 33), (257, 3, 1), (33, 257, 5), (2, 1, 257))
    ],
    large=[
        Sample(((60_000, 2), _index(60_000, below=5)), (5, 2)),
        Sample(((7, MANY), _index(7, below=5)), (5, MANY)),
        Sample(((31, 3), _index(31, below=MANY)), (MANY, 3)),
    ],
    edges=[Sample((floats([INF], [1], [-INF], [NAN], [-0.0]), np.int32([0, 0, 1, 2, 3])), (5, 1))],
    differences=[
        Difference(
            "70,000 rows",
            Sample((np.ones((MANY, 1), np.float32), np.zeros(MANY, np.int32)), (2, 1)),
            floats([MANY], [0]),
            floats([65_535], [0]),
            LLVMPIPE,
        ),  # fmt: skip
    ],
    laid=[Sample(((31, 33), _index(31, below=5)), (5, 33))],
    rtol=1e-5,
    sums=True,
)


def _set_rows(rows: np.ndarray, index: np.ndarray, batches: int, n: int, columns: int) -> np.ndarray:
    out = np.empty_like(rows)
    np.put_along_axis(out, index[..., None].astype(np.int64), rows, 1)
    return out


def _orders(batches: int, n: int) -> np.ndarray:
    return _shuffled(batches, n).astype(np.int32)


SET_ROWS = Entry(
    primitive=prim.SET_ROWS,
    numpy=_set_rows,
    samples=[
        Sample((s, _orders(*s[:2])), s)
        for s in ((1, 1, 1), (1, 3, 31), (1, 257, 33), (3, 31, 1), (2, 33, 257), (5, 2, 3))
    ],
    large=[Sample((s, _orders(*s[:2])), s) for s in ((1, 3, MANY), (1, MANY, 3), (MANY, 2, 3))],
    edges=[Sample((floats([[INF], [NAN], [-0.0], [1e-40]]), _orders(1, 4)), (1, 4, 1))],
    laid=[Sample(((3, 33, 31), _orders(3, 33)), (3, 33, 31))],
    # the second operand must stay a permutation
    ways=(
        ("packed", "window", "cut", "every second row", "every second matrix", "first two swapped"),
        ("packed", "window", "cut", "every second row", "misaligned", "every second column", "transposed"),
    ),  # fmt: skip
)

ENTRIES = [ROW_MAX, ARGSORT, GET_ROWS, GET_ROWS_BACK, SET_ROWS]
