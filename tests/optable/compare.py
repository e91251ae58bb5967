"""Comparing elements, and limiting them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

import ggmlpy_ag as ag

from . import table
from .calls import Makers
from .table import (
    DENORMALS,
    SPECIAL,
    SPECIAL_PAIRS,
    VULKAN_SIGN_OF_ZERO,
    Draw,
    Error,
    Op,
    Sample,
    binary_errors,
    each,
    nonzero,
    normal,
    pairs,
    special,
    two,
    unary_errors,
)


def few(*shape: int) -> np.ndarray:
    """Values that are often the same."""
    return np.asarray(table.rng.integers(-1, 2, shape), np.float32)


NUMBERS = np.array([1.0, -1.0, 1e-30, 1e30, 2.0**-120, 3.4028235e38, 16777216.0], np.float32)
BELOW, INSIDE = (np.nextafter(NUMBERS, np.float32(to)) for to in (-np.inf, 0.0))
NEIGHBOURS = (np.concatenate([NUMBERS, NUMBERS, NUMBERS]), np.concatenate([NUMBERS, BELOW, INSIDE]))


def _comparison(name: str, compare: Callable[[Any, Any], Any]) -> Op:
    call = getattr(ag, name)
    return Op(
        name=name,
        call=call,
        numpy=lambda a, b: compare(a, b) * 1.0,
        torch=lambda torch, a, b: compare(a, b).double(),
        samples=[
            *pairs(few),
            Sample((normal(31, 33), normal(33))),
            Sample(NEIGHBOURS),
            Sample((few(3, 5), 0)),
            Sample((1.0, few(257))),
            Sample((few(), np.float32(-1.0))),
        ],
        generate=two(few),
        gradient=False,
        special=[
            Sample(SPECIAL_PAIRS),
            *[Sample((SPECIAL, c)) for c in (0.0, 1.0, math.inf, -math.inf, math.nan)],
            *[Sample((c, SPECIAL)) for c in (-2.5, math.inf, -math.inf, math.nan)],
        ],
        deviations=[DENORMALS],
        errors=binary_errors(name, call),
        rtol=0.0,
    )


def _clamp(x: np.ndarray, low: float | None = None, high: float | None = None) -> np.ndarray:
    return np.clip(x, low, high)


def _torch_clamp(torch: Any, x: Any, low: float | None = None, high: float | None = None) -> Any:
    return torch.clamp(x, low, high)


def _any_clamp(draw: Draw) -> Sample:
    options = draw.one_of(({"low": -0.1}, {"high": 0.1}, {"low": -0.1, "high": 0.1}, {"low": -9.0, "high": 9.0}))
    return Sample((draw.floats(nonzero, *draw.shape()),), options)


OPS: list[Op] = [
    _comparison("lt", operator.lt),
    _comparison("le", operator.le),
    _comparison("gt", operator.gt),
    _comparison("ge", operator.ge),
    _comparison("eq", operator.eq),
    _comparison("ne", operator.ne),
    Op(
        name="clamp",
        call=ag.clamp,
        numpy=_clamp,
        torch=_torch_clamp,
        samples=[
            *each(nonzero, low=-0.1, high=0.1),
            *[Sample((nonzero(3, 5),), o) for o in ({"low": 0}, {"high": 0.1}, {"low": -5, "high": np.float32(5)})],
        ],
        keeps=(1.0, 0.0),
        generate=_any_clamp,
        edges=[Sample((np.array([-1.0, 1.0, 0.0, -2.0, 2.0], np.float32),), {"low": -1.0, "high": 1.0})],
        special=[special(low=-1.0, high=1.0), special(low=0.5), special(high=-math.inf), special(low=-1e38, high=1e38)],
        deviations=[DENORMALS, VULKAN_SIGN_OF_ZERO],
        errors=[
            *unary_errors("clamp", lambda x: ag.clamp(x, 0.0, 1.0)),
            Error(lambda m: ag.clamp(m(2)), ValueError, ("clamp", "low", "high")),
            Error(lambda m: ag.clamp(m(2), 1.0, 0.0), ValueError, ("clamp", "1.0", "0.0")),
            Error(lambda m: ag.clamp(m(2), "a"), TypeError, ("clamp", "'a'")),
            Error(lambda m: ag.clamp(m(2), None, m(2)), TypeError, ("clamp",)),
            Error(lambda m: ag.clamp(m(2), math.nan), ValueError, ("clamp", "nan")),
        ],
    ),
]

CALLS: Makers = {
    **{name: lambda c, name=name: (getattr(ag, name), *c.fitting()) for name in "lt le gt ge eq ne".split()},
    "gt of a number": lambda c: (ag.gt, c.operand(), c.number()),
    "eq of a number": lambda c: (ag.eq, c.number(), c.operand()),
    "clamp": lambda c: (ag.clamp, c.operand(), c.number(), c.number()),
}
