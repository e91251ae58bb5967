"""Primitives whose result has its operand's shape, element by element."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ggmlpy_ag.backend import primitives as prim
from ggmlpy_ag.backend.primitives import Primitive

from .table import GREATEST, LARGE, LEAST, SHAPES, SPECIAL, TINY, Difference, Entry, Sample, floats, normal

NAN, INF = math.nan, math.inf
REPEATED = np.resize(SPECIAL, 5 * SPECIAL.size + 3)  # each value at several places of a vector, and in its rest
PAIRS = [np.ascontiguousarray(side) for side in np.meshgrid(SPECIAL, SPECIAL)]


def _positive(*shape: int) -> np.ndarray:
    return np.array(np.exp(normal(*shape)))


def _without(*values: float) -> np.ndarray:
    return REPEATED[~np.isin(REPEATED, np.float32(values))]


def _unary(
    primitive: Primitive,
    numpy: Callable[[np.ndarray], np.ndarray],
    *differences: Difference,
    edges: np.ndarray = REPEATED,
    samples: Callable[..., np.ndarray] | None = None,
    **tolerances: float,
) -> Entry:
    """`edges` leaves out what the differences are about. `samples` makes other operands than normal ones."""
    return Entry(
        primitive=primitive,
        numpy=numpy,
        samples=[Sample((samples(*s) if samples else s,)) for s in SHAPES],
        large=[Sample((samples(*s) if samples else s,)) for s in LARGE],
        edges=[Sample((edges,))],
        differences=differences,
        laid=[Sample((samples(2, 3, 5, 7) if samples else (2, 3, 5, 7),))],
        **tolerances,
    )


def _wide(function: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    """The function in float64."""
    return lambda x: function(x.astype(np.float64))


def _gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1.0 + np.vectorize(math.erf, otypes=[np.float64])(x / math.sqrt(2.0)))


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-x))


_denormal = floats(1e-40, LEAST)
_huge = floats(2.0**31, 1e10, 3e38)
_far = (1e20, -1e20, 3e38, GREATEST, -GREATEST)

UNARY = [
    _unary(prim.ABS, np.abs),
    _unary(prim.NEG, np.negative),
    # ggml's sgn(NaN) and relu(NaN) are 0 on both, and zeros have no sign
    _unary(prim.SGN, lambda x: (x > 0).astype(np.float32) - (x < 0)),
    _unary(prim.RELU, lambda x: np.where(x > 0, x, np.float32(0))),
    _unary(prim.FLOOR, np.floor),
    _unary(prim.CEIL, np.ceil),
    _unary(prim.TRUNC, np.trunc),
    _unary(prim.SQUARE, np.square),
    _unary(prim.SQRT, _wide(np.sqrt), samples=_positive, rtol=3e-7),
    _unary(
        prim.EXP,
        _wide(np.exp),
        Difference("results below 2**-126", Sample((floats(-88, -103),)), np.exp(floats(-88, -103)), floats(0, 0)),
        rtol=1e-6,
        edge_rtol=3e-6,
    ),
    _unary(
        prim.LOG,
        _wide(np.log),
        Difference(
            "operands below 2**-126",
            Sample((_denormal,)),
            np.log(_denormal.astype(np.float64)).astype(np.float32),
            floats(-88.02122, -88.02969),
        ),
        edges=_without(*_denormal),
        samples=_positive,
        rtol=1e-6,
        atol=2e-7,
    ),
    _unary(
        prim.SIN,
        _wide(np.sin),
        Difference("operands from 2**31 on", Sample((_huge,)), np.sin(_huge), floats(-1, -1, -1)),
        edges=_without(*_far),
        rtol=1e-6,
        atol=3e-7,
    ),
    _unary(
        prim.COS,
        _wide(np.cos),
        Difference("operands from 2**31 on", Sample((_huge,)), np.cos(_huge), floats(1, 1, 1)),
        edges=_without(*_far),
        rtol=1e-6,
        atol=3e-7,
    ),
    _unary(prim.SIGMOID, _wide(_sigmoid), rtol=1e-6, edge_rtol=3e-6),
    _unary(prim.SILU, _wide(lambda x: x * _sigmoid(x)), rtol=1e-6, edge_rtol=3e-6),
    _unary(
        prim.TANH,
        _wide(np.tanh),
        Difference(
            "small operands", Sample((floats(1e-5, 1e-8, LEAST),)), floats(1e-5, 1e-8, LEAST), floats(1.001358e-5, 0, 0)
        ),
        rtol=1e-6,
        atol=2e-7,
    ),
    _unary(
        prim.EXPM1,
        _wide(np.expm1),
        Difference("small operands", Sample((floats(1e-5, 1e-8),)), floats(1.001358e-5, 0), floats(1.000005e-5, 1e-8)),
        rtol=1e-6,
        atol=2e-7,
        edge_rtol=3e-6,
    ),
    _unary(
        prim.ELU,
        _wide(lambda x: np.where(x > 0, x, np.expm1(x))),
        Difference(
            "small operands",
            Sample((floats(-1e-5, -1e-8),)),
            floats(-9.99995e-6, -1e-8),
            floats(-1.001358e-5, -5.9604645e-8),
        ),
        rtol=1e-6,
        atol=2e-7,
    ),
    _unary(prim.HARDSWISH, _wide(lambda x: x * np.clip((x + 3) / 6, 0, 1)), rtol=1e-6),
    _unary(prim.HARDSIGMOID, _wide(lambda x: np.fmin(1, np.fmax(0, (x + 3) / 6))), rtol=1e-6),  # 0 for NaN on both
    _unary(prim.GELU_ERF, _wide(_gelu), rtol=1e-6, atol=5e-7),
]


def _binary(primitive: Primitive, numpy: np.ufunc) -> Entry:
    shapes = [(s, s) for s in SHAPES]
    shapes += [
        ((3, 31), (31,)),
        ((3, 31), (3, 1)),
        ((3, 31), ()),
        ((2, 3, 5, 7), (3, 1, 7)),
        ((2, 3, 5, 7), (2, 1, 5, 1)),
    ]
    large = [(s, s) for s in LARGE] + [(s, s[-1:]) for s in LARGE] + [(s, (*s[:-1], 1)) for s in LARGE]
    return Entry(
        primitive=primitive,
        numpy=numpy,
        samples=[Sample(pair) for pair in shapes],
        large=[Sample(pair) for pair in large],
        edges=[Sample(tuple(PAIRS)), *(Sample((REPEATED, floats(v))) for v in (0, -0.0, INF, NAN, 3))],
        laid=[Sample(((2, 3, 5, 7), (2, 3, 5, 7))), Sample(((2, 3, 5, 7), (3, 1, 7))), Sample(((2, 3, 5), (3, 5)))],
    )


BINARY = [
    _binary(prim.ADD, np.add),
    _binary(prim.SUB, np.subtract),
    _binary(prim.MUL, np.multiply),
    _binary(prim.DIV, np.divide),
]


def _reglu(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.where(a > 0, a.astype(np.float64), 0) * b  # the sign of a zero is not the same


_chosen = Sample((floats(0, 0, 0, -1), floats(INF, -INF, NAN, INF)))
REGLU = Entry(
    primitive=prim.REGLU,
    numpy=_reglu,
    samples=[Sample((s, s)) for s in SHAPES],
    large=[Sample((s, s)) for s in LARGE],
    edges=[Sample((np.where(np.isfinite(PAIRS[1]), PAIRS[0], np.float32(1)), PAIRS[1]))],
    differences=[Difference("0 times inf or NaN", _chosen, floats(0, 0, 0, 0), floats(NAN, NAN, NAN, NAN))],
    laid=[Sample(((2, 3, 5, 7), (2, 3, 5, 7)))],
)


# ---------------------------------------------------------------- with numbers

_NUMBERS = ((2.0, 0.0), (0.0, 0.0), (-1.0, 0.5), (0.25, -3.0), (1e-30, 0.0), (0.0, 7.0))
_BOUNDS = ((-0.5, 0.5), (0.0, 0.0), (0.0, INF), (-INF, 0.25), (-INF, INF), (-GREATEST, GREATEST), (TINY, 1.0))


def _scale(x: np.ndarray, factor: float, offset: float) -> np.ndarray:
    return x.astype(np.float64) * np.float32(factor) + np.float32(offset)


SCALE = Entry(
    primitive=prim.SCALE,
    numpy=_scale,
    samples=[Sample((s,), (2.0, -0.5)) for s in SHAPES] + [Sample(((3, 31),), n) for n in _NUMBERS],
    large=[Sample((s,), (0.5, 0.25)) for s in LARGE],
    edges=[Sample((_without(GREATEST, -GREATEST, 3e38),), n) for n in (*_NUMBERS, (INF, 0.0), (NAN, 0.0), (1.0, INF))],
    laid=[Sample(((2, 3, 5, 7),), (2.0, -0.5))],
    rtol=2e-7,
    atol=2e-7,
)

_nan = Sample((floats(NAN, -NAN),), (-2.0, 3.0))
CLAMP = Entry(
    primitive=prim.CLAMP,
    numpy=lambda x, low, high: np.clip(x, np.float32(low), np.float32(high)),
    samples=[Sample((s,), (-0.5, 0.75)) for s in SHAPES] + [Sample(((3, 31),), b) for b in _BOUNDS],
    large=[Sample((s,), (-0.5, 0.75)) for s in LARGE],
    edges=[Sample((REPEATED[~np.isnan(REPEATED) & (REPEATED != 0)],), b) for b in _BOUNDS],
    differences=[
        Difference("NaN", _nan, floats(3, 3), floats(-2, -2)),
        Difference("bounds in the wrong order", Sample((floats(0, 5),), (1.0, -1.0)), floats(1, 1), floats(-1, -1)),
    ],
    laid=[Sample(((2, 3, 5, 7),), (-0.5, 0.75))],
)

LEAKY_RELU = Entry(
    primitive=prim.LEAKY_RELU,
    numpy=lambda x, slope: np.where(x > 0, x, 0) + np.where(x < 0, x, 0) * np.float32(slope),  # 0 for NaN on both
    samples=[Sample((s,), (0.25,)) for s in SHAPES] + [Sample(((3, 31),), (slope,)) for slope in (0.0, 1.0, -2.0)],
    large=[Sample((s,), (0.25,)) for s in LARGE],
    edges=[Sample((_without(LEAST, -LEAST),), (slope,)) for slope in (0.25, 1.0, -2.0)],
    laid=[Sample(((2, 3, 5, 7),), (0.25,))],
)

ENTRIES = [*UNARY, *BINARY, REGLU, SCALE, CLAMP, LEAKY_RELU]
