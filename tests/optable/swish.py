"""Activation functions that are x times a gate."""

from __future__ import annotations

import math

import numpy as np

import ggmlpy_ag as ag

from .activation import functional, sigmoid, tiny, values, wide
from .calls import Makers
from .table import DENORMALS, Error, Op, Sample, each, normal, one, special, unary_errors

_erf = np.vectorize(math.erf, otypes=[float])


def gelu(x: np.ndarray, approximate: str = "none") -> np.ndarray:
    if approximate == "tanh":
        return 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1.0 + _erf(x / math.sqrt(2.0)))


OPS: list[Op] = [
    Op(
        name="silu",
        call=ag.silu,
        numpy=lambda x: x * sigmoid(x),
        torch=functional("silu"),
        samples=each(normal),
        keeps=(1.0, 0.0),
        generate=one(normal),
        smooth=True,
        special=[special()],
        deviations=[DENORMALS],
        errors=unary_errors("silu", ag.silu),
    ),
    Op(
        name="hardswish",
        call=ag.hardswish,
        numpy=lambda x: x * np.clip(x + 3.0, 0.0, 6.0) / 6.0,
        torch=functional("hardswish"),
        samples=each(wide),
        keeps=(1.0, 0.0),
        generate=one(wide),
        smooth=True,
        edges=[values(-3.0, 3.0, 0.0, -2.9999998, 2.9999998, -5.0, 5.0, 1e30)],
        special=[special()],
        deviations=[DENORMALS],
        errors=unary_errors("hardswish", ag.hardswish),
        atol=5e-7,  # x + 3 rounds near 0
    ),
    Op(
        name="mish",
        call=ag.mish,
        numpy=lambda x: x * np.tanh(np.logaddexp(0.0, x)),
        torch=functional("mish"),
        samples=[*each(normal), Sample((wide(257),)), tiny(), values(-80.0, 19.0, 21.0, 85.0)],
        keeps=(1.0, 0.0),
        generate=one(normal),
        smooth=True,
        edges=[values(0.0, -0.0, 20.0, 20.5, -85.0, 1e30, -1e30)],
        special=[special()],
        deviations=[DENORMALS],
        errors=unary_errors("mish", ag.mish),
        rtol=5e-6,  # exp on Vulkan, whose relative error grows with |x|
    ),
    Op(
        name="gelu",
        call=ag.gelu,
        numpy=gelu,
        torch=functional("gelu"),
        samples=[
            *each(normal),
            *each(normal, [(3,), (3, 7), (257,)], approximate="tanh"),
            values(*np.linspace(-6.0, 6.0, 101), approximate="tanh"),
        ],
        keeps=(1.0, 0.0),
        generate=lambda draw: Sample(
            (draw.floats(normal, *draw.shape()),), {"approximate": draw.one_of(("none", "tanh"))}
        ),
        smooth=True,
        edges=[values(0.0, -0.0, 30.0, -30.0, 1e-20, -1e-5, approximate=a) for a in ("none", "tanh")],
        special=[special(), special(approximate="tanh")],
        deviations=[DENORMALS],
        errors=[
            *unary_errors("gelu", ag.gelu),
            Error(lambda m: ag.gelu(m(2), "erf"), ValueError, ("gelu", "approximate", "'erf'", "tanh")),
            Error(lambda m: ag.gelu(m(2), True), ValueError, ("gelu", "approximate", "True")),
        ],
        atol=5e-7,  # 1 + erf(x) cancels below 0
    ),
]

CALLS: Makers = {
    **{name: lambda c, name=name: (getattr(ag, name), c.operand()) for name in "hardswish mish silu".split()},
    "gelu": lambda c: (ag.gelu, c.operand(), c.one_of("none", "tanh", "tanh", "erf", None, 1, [])),
}
