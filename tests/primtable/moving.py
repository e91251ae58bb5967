"""Primitives that only move elements, or make them from nothing."""

from __future__ import annotations

from math import prod

import numpy as np

from ggmlpy_ag.backend import primitives as prim
from ggmlpy_ag.backend.array import extents

from .table import LARGE, MANY, SHAPES, TYPES, Entry, Sample, normal, patterns

COPY = Entry(
    primitive=prim.COPY,
    numpy=np.copy,
    samples=[Sample((patterns(t, *s),)) for t in TYPES for s in SHAPES],
    large=[Sample((patterns(t, *s),)) for t in TYPES for s in LARGE],
    laid=[
        *(Sample((patterns(t, *s),)) for t in TYPES for s in ((257,), (33, 31), (3, 33, 31), (2, 3, 5, 7))),
        # no 70,000 transposed matrices: each takes Mesa's llvmpipe half a millisecond
        *(Sample((s,)) for s in ((MANY, 3), (3, MANY))),
    ],
)


def _repeated(source: tuple[int, ...], shape: tuple[int, ...], t: np.dtype = TYPES[0]) -> Sample:
    return Sample((patterns(t, *source),), extents(shape))


def _repeat(x: np.ndarray, *ne: int) -> np.ndarray:
    """Side by side until it has the shape, whose dimensions are as many as are not 1 at the front."""
    shape = tuple(reversed(ne))
    full = x.reshape((1,) * (4 - x.ndim) + x.shape)
    tiled = np.tile(full, [n // m for n, m in zip(shape, full.shape, strict=True)])
    return tiled.reshape(shape)


_SOURCES = (
    ((), (3,)), ((1,), (257,)), ((31,), (3, 31)), ((33, 1), (33, 31)), ((1, 1), (31, 33)), ((5, 1, 7), (5, 3, 7)),
    ((1, 3, 1, 7), (2, 3, 5, 7)), ((2, 1, 5, 1), (2, 3, 5, 7)), ((2, 3, 5, 7), (4, 9, 5, 14)), ((3,), (3,)),
)  # fmt: skip
REPEAT = Entry(
    primitive=prim.REPEAT,
    numpy=_repeat,
    samples=[_repeated(*pair, t) for t in TYPES for pair in _SOURCES],
    large=[
        _repeated(source, shape)
        for source, shape in (
            ((1,), (MANY,)),
            ((2, 1), (2, MANY)),
            ((1, 3), (MANY, 3)),
            ((1, 2, 3), (MANY, 2, 3)),
            ((), (70, 10, 10, 10)),
            ((1, 2, 1, 3), (MANY, 2, 1, 3)),
            ((MANY, 1), (MANY, 3)),
            ((MANY, 2), (2 * MANY, 2)),
            ((3, MANY), (6, MANY)),
        )
    ],  # fmt: skip
    laid=[_repeated((2, 3, 5, 7), (2, 6, 5, 14))],
)

DIAG = Entry(
    primitive=prim.DIAG,
    numpy=lambda x: np.where(
        np.eye(x.shape[-1], dtype=bool), x.reshape((*x.shape[:-2], 1, x.shape[-1])), np.float32(0)
    ),
    samples=[Sample((s,)) for s in ((1,), (3,), (31,), (257,), (1, 33), (3, 1, 5), (2, 3, 1, 7))],
    large=[Sample((s,)) for s in ((3000,), (MANY, 1, 2), (MANY, 1, 1, 3))],
    laid=[Sample(((2, 3, 1, 7),))],
)

_TRIANGLES = (np.triu, lambda x: np.triu(x, 1), np.tril, lambda x: np.tril(x, -1))
TRI = Entry(
    primitive=prim.TRI,
    numpy=lambda x, kind: _TRIANGLES[kind](x),
    samples=[Sample((s,), (kind,)) for s in ((1, 1), (3, 3), (31, 31), (257, 257), (2, 3, 5, 5)) for kind in range(4)],
    large=[Sample((s,), (2,)) for s in ((2000, 2000), (MANY, 2, 2), (MANY, 1, 2, 2))],
    edges=[Sample((np.full((3, 3), v, np.float32),), (k,)) for v in (np.nan, np.inf, -0.0) for k in (0, 2)],
    laid=[Sample(((2, 3, 5, 5),), (2,))],
)


def _pad(x: np.ndarray, *widths: int) -> np.ndarray:
    pairs = list(zip(widths[::2], widths[1::2], strict=True))[: x.ndim]
    return np.pad(x, pairs[::-1])


def _padded(shape: tuple[int, ...], before: int, after: int) -> Sample:
    return Sample((shape,), (before, after) * len(shape) + (0, 0) * (4 - len(shape)))


PAD = Entry(
    primitive=prim.PAD,
    numpy=_pad,
    samples=[_padded(s, *w) for s in SHAPES if s for w in ((0, 0), (1, 0), (0, 2), (3, 5))]
    + [_padded((3, 5), 31, 257)],
    large=[_padded(s, 1, 2) for s in LARGE] + [_padded((1,), MANY, MANY)],
    edges=[Sample((np.float32([np.nan, np.inf, -0.0]),), (2, 1, 0, 0, 0, 0, 0, 0))],
    laid=[_padded((2, 3, 5, 7), 1, 2)],
)


def _joined(shape: tuple[int, ...], dim: int, t: np.dtype) -> Sample:
    """With another that is three times as long along one of ggml's dimensions."""
    other = tuple(3 * n if len(shape) - 1 - i == dim else n for i, n in enumerate(shape))
    return Sample((patterns(t, *shape), patterns(t, *other)), (dim,))


CONCAT = Entry(
    primitive=prim.CONCAT,
    numpy=lambda a, b, dim: np.concatenate([a, b], a.ndim - 1 - dim),
    samples=[_joined(s, dim, t) for t in TYPES for s in SHAPES for dim in range(len(s))],
    large=[_joined(s, dim, t) for t in TYPES[:2] for s in LARGE for dim in range(len(s))],
    laid=[_joined((2, 3, 5, 7), dim, t) for dim in range(4) for t in TYPES] + [_joined((33, 31), 1, TYPES[0])],
)

ARANGE = Entry(
    primitive=prim.ARANGE,
    numpy=lambda n: np.arange(n, dtype=np.float32),
    samples=[Sample((), (n,)) for n in (1, 3, 31, 33, 257, 511, 512, 513)],
    large=[Sample((), (n,)) for n in (MANY, 1 << 24)],
)


# ---------------------------------------------------------------- adding at a place


def _acc(a: np.ndarray, b: np.ndarray, nb1: int, nb2: int, nb3: int, offset: int) -> np.ndarray:
    out = a.copy()
    target = np.ndarray(b.shape, np.float32, out, offset, (nb3, nb2, nb1, 4)[4 - b.ndim :])
    target += b
    return out


def _added(shape: tuple[int, ...], part: tuple[int, ...], at: int) -> Sample:
    """A part of the shape, from element `at` on."""
    steps = [4 * prod(shape[-k:]) for k in range(1, 4)]
    return Sample((normal(*shape), normal(*part, seed=1)), (*steps, 4 * at))


ACC = Entry(
    primitive=prim.ACC,
    numpy=_acc,
    samples=[
        _added((1,), (1,), 0), _added((31,), (3,), 5), _added((257,), (257,), 0), _added((3, 31), (2, 7), 32),
        _added((2, 3, 31), (1, 2, 5), 100), _added((2, 3, 5, 7), (1, 2, 3, 4), 106), _added((33, 257), (33, 1), 256),
    ],
    large=[
        _added((3, MANY), (2, 69_999), 1), _added((MANY, 3), (69_999, 2), 4), _added((MANY, 2, 3), (MANY, 1, 2), 1),
        _added((MANY, 1, 2, 3), (MANY, 1, 1, 2), 1),
    ],
    edges=[
        Sample((np.float32([np.inf, np.nan, -0.0, 1, -0.0]), np.float32([-np.inf, 1, -0.0])), (20, 20, 20, 0)),
    ],
    laid=[_added((4, 6, 10, 14), (2, 3, 5, 7), 1), _added((66, 62), (33, 31), 3)],
)  # fmt: skip

ENTRIES = [COPY, REPEAT, DIAG, TRI, PAD, CONCAT, ARANGE, ACC]
