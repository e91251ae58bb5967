"""Choosing between elements."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import ggmlpy_ag as ag

from . import table
from .calls import Calls, Makers
from .compare import few
from .table import (
    DENORMALS,
    SIGN_OF_ZERO,
    SPECIAL,
    SPECIAL_PAIRS,
    Draw,
    Error,
    Op,
    Sample,
    binary_errors,
    normal,
    pairs,
    two,
    unary_errors,
)


def bools(*shape: int) -> np.ndarray:
    return np.asarray(table.rng.integers(0, 2, shape) == 1)


def ints(*shape: int) -> np.ndarray:
    """Half of them 0."""
    return np.asarray(table.rng.integers(-1, 3, shape).clip(0), np.int32)


def even(*shape: int) -> np.ndarray:
    """Multiples of 0.5; and odd ones of 0.25: finite differences do not cross a tie there."""
    return np.asarray(table.rng.integers(-4, 5, shape) * 0.5, np.float32)


def odd(*shape: int) -> np.ndarray:
    return even(*shape) + np.float32(0.25)


TIES = (
    np.array([1, 2, 0, -0.0, 3, math.inf, -math.inf], np.float32),
    np.array([1, 3, -0.0, -0.0, -3, math.inf, 5], np.float32),
)
NAN_TIES = tuple(np.array(v, np.float32) for v in ([math.nan, 1, math.nan], [2, math.nan, math.nan]))
CONDITION = np.resize(np.array([0, 1, 1], np.int32), SPECIAL_PAIRS[0].shape)

SHAPES_OF_THREE = [
    ((), (), ()),
    ((1,), (5,), ()),
    ((5,), (1,), (5,)),
    ((3, 7), (3, 7), (3, 7)),
    ((2, 1), (1, 3), (3,)),
    ((3,), (2, 3), (2, 1)),
    ((4, 1, 5), (3, 1), (4, 1, 1)),
    ((2, 3, 1, 1), (5, 7), (2, 1, 5, 1)),
    ((257,), (257,), ()),
    ((31, 33), (31, 33), (31, 33)),
]


def _torch_where(torch: Any, condition: Any, a: Any, b: Any) -> Any:
    return torch.where(torch.as_tensor(condition) != 0, a, b)


def _random_where(draw: Draw) -> Sample:
    whole = draw.shape()
    shapes = [tuple(draw.one_of((n, n, 1)) for n in whole[draw.integer(0, len(whole)) :]) for _ in range(3)]
    kinds = draw.one_of((bools, ints, few)), normal, normal
    return Sample(tuple(draw.floats(make, *shape) for make, shape in zip(kinds, shapes, strict=True)))


def _random_fill(draw: Draw) -> Sample:
    x, mask = draw.broadcast()
    return Sample((draw.floats(normal, *x), draw.floats(draw.one_of((bools, ints, few)), *mask), -math.inf))


def _condition_errors(name: str, call: Callable[[Any], Any]) -> list[Error]:
    return [
        Error(lambda m: call(np.ones(3, complex)), TypeError, (name, "condition", "complex128")),
        Error(lambda m: call(None), TypeError, (name, "condition", "object")),
        Error(lambda m: call("three"), TypeError, (name, "condition")),
        Error(lambda m: call([[True], [True, False]]), ValueError, (name, "condition", "regular")),
        Error(lambda m: call(np.ones((2, 0), bool)), ValueError, (name, "condition", "(2, 0)")),
        Error(lambda m: call(np.ones((1, 1, 1, 1, 2), bool)), ValueError, (name, "condition", "at most 4")),
        Error(lambda m: call(m.ints(4)), ValueError, (name, "(4,)", "(2, 3)", "broadcast")),
        Error(lambda m: call(m.elsewhere(3)), ValueError, (name, ".to("), devices=2),
    ]


def _torch_extreme(name: str) -> Callable[..., Any]:
    def call(torch: Any, a: Any, b: Any) -> Any:
        return getattr(torch, name)(*(torch.as_tensor(v, dtype=torch.float64) for v in (a, b)))

    return call


OPS: list[Op] = [
    Op(
        name="where",
        call=ag.where,
        numpy=np.where,
        torch=_torch_where,
        samples=[
            *[Sample((bools(*c), normal(*a), normal(*b))) for c, a, b in SHAPES_OF_THREE],
            Sample((ints(3, 7), normal(3, 7), 0.5)),
            Sample((ints(5), -1, normal(5))),
            Sample(([[True], [False]], normal(2, 3), normal(3))),
            Sample((True, normal(2, 3), normal(3))),
            Sample((ints(9, 11), 1.0, 2.0)),
        ],
        keeps=(0.0, 1.0),  # the condition
        generate=_random_where,
        smooth=True,
        special=[
            Sample((CONDITION, *SPECIAL_PAIRS)),
            Sample((1 - CONDITION, SPECIAL_PAIRS[0], 0.0)),
            Sample((SPECIAL, -0.0, SPECIAL)),
            Sample((SPECIAL[:, None], SPECIAL, math.nan)),
        ],
        deviations=[DENORMALS],
        errors=[
            *binary_errors("where", lambda a, b: ag.where([[True], [False]], a, b)),
            *_condition_errors("where", lambda c: ag.where(c, ag.tensor(np.ones((2, 3))), 0.0)),
        ],
        rtol=0.0,
    ),
    Op(
        name="masked_fill",
        call=ag.masked_fill,
        numpy=lambda x, mask, value: np.where(mask, value, x),
        torch=lambda torch, x, mask, value: x.masked_fill(torch.as_tensor(mask) != 0, value),
        samples=[
            *[Sample((normal(*x), bools(*mask), -1.5)) for mask, x, _ in SHAPES_OF_THREE],
            Sample((normal(3, 7), ints(7), 4.0)),
            Sample((normal(2, 3), [True, False, True], 0)),
        ],
        keeps=(0.0, 1.0),
        generate=_random_fill,
        smooth=True,
        special=[Sample((SPECIAL, CONDITION[: SPECIAL.size], 0.0)), Sample((SPECIAL, SPECIAL, math.inf))],
        deviations=[DENORMALS],
        errors=[
            *unary_errors("masked_fill", lambda x: ag.masked_fill(x, [[True], [False]], 0.0)),
            *_condition_errors("masked_fill", lambda c: ag.masked_fill(ag.tensor(np.ones((2, 3))), c, 0.0)),
            Error(lambda m: ag.masked_fill(m(2), [True, False], m(2)), TypeError, ("masked_fill", "value", "where")),
            Error(lambda m: ag.masked_fill(m(2), [True, False], 10**400), ValueError, ("too large",)),
        ],
        rtol=0.0,
    ),
    *[
        Op(
            name=name,
            call=getattr(ag, name),
            numpy=getattr(np, name),
            torch=_torch_extreme(name),
            samples=[*pairs(even, odd), Sample((even(3, 5), 0.25)), Sample((-1, odd(7)))],
            keeps=(1.0, 0.0),
            generate=two(few),
            edges=[Sample(TIES), Sample(NAN_TIES), Sample((TIES[0], 1.0)), Sample((few(3, 5), few(5)))],
            special=[Sample(SPECIAL_PAIRS), Sample((SPECIAL, 1.0)), Sample((math.nan, SPECIAL))],
            deviations=[DENORMALS, SIGN_OF_ZERO],
            errors=binary_errors(name, getattr(ag, name)),
            rtol=0.0,
        )
        for name in ("minimum", "maximum")
    ],
]


def _condition(c: Calls) -> Any:
    return c.one_of(c.operand(), c.operand(), c.floats(c.shape(2)) > 0, ag.tensor([0, 1, 1]), True)


CALLS: Makers = {
    "where": lambda c: (ag.where, _condition(c), *c.fitting()),
    "masked_fill": lambda c: (ag.masked_fill, c.operand(), _condition(c), c.number()),
    "minimum": lambda c: (ag.minimum, *c.fitting()),
    "maximum": lambda c: (ag.maximum, *c.fitting()),
}
