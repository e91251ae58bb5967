"""Primitives that turn elements into another type."""

from __future__ import annotations

import math

import numpy as np

from ggmlpy_ag.backend import primitives as prim
from ggmlpy_ag.backend.array import BFLOAT, FLOAT, HALF, INT, from_bfloat, to_bfloat

from .table import (
    GREATEST,
    LARGE,
    SHAPES,
    SPECIAL,
    Difference,
    Entry,
    Sample,
    floats,
    halves,
    normal,
    patterns,
)

NAN, INF = math.nan, math.inf
LIMIT = 2**31

# halfway between two float16 or two bfloat16, just beside it, and at the ends of their ranges
ROUNDED = floats(
    1 + 2**-11, 1 + 3 * 2**-11, 1 + 2**-11 + 2**-20, 1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, -1 - 2**-11,
    65504, 65519.99, 65520, -65520, 2**-24, 2**-25, 2**-25 * 1.0001, 3 * 2**-25, 2**-14, 2**-14 - 2**-25, 2.9e-8,
    3.3895e38, 3.3961775e38, GREATEST,
)  # fmt: skip
WHOLE = floats(0, -0.0, 0.9, -0.9, 1.5, 2.5, -2.5, 2.9999, 1e-40, 2**23 + 0.5, 2**24 + 1, LIMIT - 128, -LIMIT)


def widened(x: np.ndarray) -> np.ndarray:
    """As float32."""
    return from_bfloat(x) if x.dtype == BFLOAT else x.astype(np.float32)


TO_FLOAT = Entry(
    primitive=prim.TO_FLOAT,
    numpy=widened,
    samples=[
        *(Sample((patterns(t, *s),)) for t in (HALF, BFLOAT) for s in SHAPES),
        *(Sample((patterns(t, 256, 256),)) for t in (HALF, BFLOAT)),  # all there are
        *(Sample((patterns(INT, *s),)) for s in SHAPES),
        Sample((np.array([0, 1, -1, 2**24, 2**24 + 1, 2**24 + 3, LIMIT - 1, -LIMIT], np.int32),)),
    ],
    large=[Sample((patterns(t, *s),)) for t in (HALF, BFLOAT, INT) for s in LARGE],
    laid=[Sample((patterns(t, 2, 3, 5, 7),)) for t in (HALF, BFLOAT, INT)],
)

TO_HALF = Entry(
    primitive=prim.TO_HALF,
    numpy=halves,
    samples=[*(Sample((s,)) for s in SHAPES), Sample((patterns(FLOAT, 100_003),))],
    large=[Sample((s,)) for s in LARGE],
    edges=[Sample((SPECIAL,)), Sample((ROUNDED,))],
    laid=[Sample(((2, 3, 5, 7),))],
)

_noise = patterns(FLOAT, 100_003)
_nans = np.array([0x7FFFFFFF, 0xFFFFFFFF, 0x7F800001], np.uint32).view(np.float32)
TO_BFLOAT = Entry(
    primitive=prim.TO_BFLOAT,
    numpy=to_bfloat,
    samples=[*(Sample((s,)) for s in SHAPES), Sample((_noise[~np.isnan(_noise)],))],
    large=[Sample((s,)) for s in LARGE],
    edges=[Sample((SPECIAL,)), Sample((ROUNDED,))],
    differences=[Difference("other NaNs", Sample((_nans,)), floats(NAN, NAN, NAN), floats(-0.0, 0, INF), "")],
    laid=[Sample(((2, 3, 5, 7),))],
)


def _wide(*shape: int) -> np.ndarray:
    return np.array(normal(*shape) * np.float32(1e6))


TO_INT = Entry(
    primitive=prim.TO_INT,
    numpy=lambda x: x.astype(np.int32),
    samples=[*(Sample((_wide(*s),)) for s in SHAPES)],
    large=[Sample((_wide(*s),)) for s in LARGE],
    edges=[Sample((WHOLE,))],
    differences=[
        # the same here, but neither C nor GLSL says what it is: an ARM processor, or a GPU, has the nearest integer
        Difference(
            "beyond int32",
            Sample((floats(NAN, INF, LIMIT, -2.0 * LIMIT),)),
            *2 * [np.full(4, -LIMIT, np.int32)],
        ),
    ],  # fmt: skip
    laid=[Sample(((2, 3, 5, 7),))],
)

ENTRIES = [TO_FLOAT, TO_HALF, TO_BFLOAT, TO_INT]
