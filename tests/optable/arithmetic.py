"""Arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

import ggmlpy_ag as ag

from .calls import Makers
from .table import (
    DENORMALS,
    LOST_SIGN_OF_ZERO,
    SPECIAL,
    SPECIAL_PAIRS,
    Deviation,
    Error,
    Op,
    Sample,
    binary_errors,
    each,
    nonzero,
    normal,
    one,
    pairs,
    special,
    two,
    unary_errors,
    uniform,
)


def _with_numbers(make: Callable[..., np.ndarray]) -> list[Sample]:
    """A number on either side: an operation without a tensor for it."""
    return [Sample((make(3, 5), 1.5)), Sample((-2, make(3, 5))), Sample((make(), np.float32(0.25)))]


OPS: list[Op] = [
    Op(
        name="add",
        call=ag.add,
        numpy=np.add,
        torch=lambda torch, a, b: a + b,
        generate=two(normal),
        samples=[*pairs(normal), *_with_numbers(normal)],
        special=[Sample(SPECIAL_PAIRS), Sample((SPECIAL, -1.0)), Sample((math.inf, SPECIAL))],
        deviations=[DENORMALS],
        errors=binary_errors("add", ag.add),
    ),
    Op(
        name="sub",
        call=ag.sub,
        numpy=np.subtract,
        torch=lambda torch, a, b: a - b,
        generate=two(normal),
        samples=[*pairs(normal), *_with_numbers(normal)],
        special=[Sample(SPECIAL_PAIRS), Sample((SPECIAL, 1.0)), Sample((2.0, SPECIAL)), Sample((SPECIAL, math.inf))],
        deviations=[DENORMALS],
        errors=binary_errors("sub", ag.sub),
    ),
    Op(
        name="mul",
        call=ag.mul,
        numpy=np.multiply,
        torch=lambda torch, a, b: a * b,
        keeps=(1.0, 0.0),
        generate=two(normal),
        samples=[*pairs(normal), *_with_numbers(normal)],
        smooth=True,
        special=[Sample(SPECIAL_PAIRS), Sample((SPECIAL, -3.0)), Sample((0.0, SPECIAL)), Sample((SPECIAL, math.inf))],
        deviations=[DENORMALS, LOST_SIGN_OF_ZERO],
        errors=binary_errors("mul", ag.mul),
    ),
    Op(
        name="div",
        call=ag.div,
        numpy=np.divide,
        torch=lambda torch, a, b: a / b,
        keeps=(0.5, 1.0),  # the divisor and the quotient
        generate=two(normal, nonzero),
        samples=[*pairs(normal, nonzero), *_with_numbers(nonzero), Sample((normal(5), 3)), Sample((1e-30, uniform(5)))],
        smooth=True,
        special=[
            Sample(SPECIAL_PAIRS),
            Sample((SPECIAL, 4.0)),
            Sample((1.0, SPECIAL)),
            Sample((SPECIAL, 0.0)),
            Sample((SPECIAL, -0.0)),
            Sample((SPECIAL, math.inf)),
            Sample((SPECIAL, 1e-39)),
        ],
        deviations=[DENORMALS, LOST_SIGN_OF_ZERO],
        errors=binary_errors("div", ag.div),
    ),
    Op(
        name="neg",
        call=ag.neg,
        numpy=np.negative,
        torch=lambda torch, x: -x,
        generate=one(normal),
        samples=each(normal),
        special=[special()],
        deviations=[DENORMALS],
        errors=unary_errors("neg", ag.neg),
    ),
    Op(
        name="scale",
        call=ag.scale,
        numpy=lambda x, factor, offset=0.0: x * factor + offset,
        torch=lambda torch, x, factor, offset=0.0: x * factor + offset,
        generate=one(normal, factor=-0.75, offset=2.5),
        samples=[*each(normal, factor=-1.5), *each(normal, [(3, 5), (257,)], factor=2, offset=np.float32(0.5))],
        special=[special(factor=2.0), special(factor=-1.0, offset=1.0), special(factor=0.0)],
        deviations=[DENORMALS, LOST_SIGN_OF_ZERO],
        errors=[
            *unary_errors("scale", lambda x: ag.scale(x, 2.0)),
            Error(lambda m: ag.scale(m(2), m(2)), TypeError, ("scale", "Tensor", "mul")),
            Error(lambda m: ag.scale(m(2), 1.0, "one"), TypeError, ("scale", "str")),
            Error(lambda m: ag.scale(m(2), 1j), TypeError, ("scale", "complex")),
            Error(lambda m: ag.scale(m(2), 10**400), ValueError, ("too large",)),
        ],
    ),
    Op(
        name="pow",
        call=ag.pow,
        numpy=np.power,
        torch=lambda torch, a, b: torch.pow(a, b),
        keeps=(1.0, 1.0),
        generate=two(uniform),
        samples=[
            *pairs(uniform),
            *[
                Sample((make(3, 5), exponent))
                for make, exponents in [(nonzero, (1, 2, 3, -1, -2, 7)), (uniform, (0.5, 1.5, -0.5, 0.3, -2.25))]
                for exponent in exponents
            ],
            Sample((2, uniform(3, 5))),
        ],
        smooth=True,
        edges=[
            *[Sample((np.array([0.0, -0.0, 1.0], np.float32), p)) for p in (1, 2, 3)],
            Sample((np.array([0.0, 0.0, 0.0, 1.0], np.float32), np.array([2.0, 1.0, 0.0, 0.0], np.float32))),
        ],
        special=[
            Sample(SPECIAL_PAIRS),
            *[Sample((SPECIAL, p)) for p in (0, 1, 2, 3, -1, -2, 0.5, -0.5, 1.5, 0.3, math.inf, -math.inf, math.nan)],
            Sample((2.0, SPECIAL)),
            Sample((nonzero(2, 3), np.array([[2.0, 3.0, -1.0], [0.0, -4.0, 63.0]], np.float32))),
        ],
        deviations=[
            DENORMALS,
            Deviation(
                "0 and inf to a power below 1e-36 are taken as exp(-3e38) and exp(3e38) to that power",
                where=lambda expected, a, b: ((a == 0) | np.isinf(a)) & (np.abs(b) < 1e-36),
                values=lambda reference, a, b: [reference(a, b), 1.0],
            ),
            LOST_SIGN_OF_ZERO,
            Deviation(
                "a fractional power goes through sqrt and log: NaN for a negative base, -inf too; -0 ** -0.5 is -inf",
                where=lambda expected, a, b: np.signbit(a) & (np.floor(b) != b) & ~np.isnan(b) & (np.abs(b) < np.inf),
                values=lambda reference, a, b: [np.where(a == 0, np.inf, np.nan), np.where(a == 0, -np.inf, np.nan)],
            ),
            Deviation(
                "NumPy has 1 ** NaN = 1 and NaN ** 0 = 1; here only NaN ** 0 with the number 0",
                where=lambda expected, a, b: np.isnan(a) | np.isnan(b),
                values=lambda reference, a, b: [reference(a, b), np.nan],
            ),
        ],
        errors=binary_errors("pow", ag.pow),
        rtol=5e-6,
        grad_rtol=5e-5,
    ),
]

CALLS: Makers = {
    **{name: lambda c, name=name: (getattr(ag, name), *c.fitting()) for name in "add sub mul div pow".split()},
    "neg": lambda c: (ag.neg, c.operand()),
    "pow by a number": lambda c: (ag.pow, c.operand(), c.number()),
    "div by a number": lambda c: (ag.div, c.operand(), c.number()),
    "scale": lambda c: (ag.scale, c.operand(), c.number(), c.number()),
}
