"""Functions of single elements."""

from __future__ import annotations

import numpy as np

import ggmlpy_ag as ag

from .calls import Makers
from .table import (
    DENORMALS,
    LOST_SIGN_OF_ZERO,
    Op,
    Sample,
    at_nan,
    each,
    nonzero,
    normal,
    special,
    unary_errors,
    uniform,
)

OPS: list[Op] = [
    Op(
        name="sqrt",
        call=ag.sqrt,
        numpy=np.sqrt,
        torch=lambda torch, x: torch.sqrt(x),
        samples=each(uniform),
        smooth=True,
        edges=[Sample((np.array([0.0, 4.0], np.float32),))],
        special=[special()],
        deviations=[DENORMALS],
        errors=unary_errors("sqrt", ag.sqrt),
    ),
    Op(
        name="exp",
        call=ag.exp,
        numpy=np.exp,
        torch=lambda torch, x: torch.exp(x),
        samples=each(normal),
        smooth=True,
        special=[special()],
        deviations=[DENORMALS],
        errors=unary_errors("exp", ag.exp),
    ),
    Op(
        name="log",
        call=ag.log,
        numpy=np.log,
        torch=lambda torch, x: torch.log(x),
        samples=each(uniform),
        smooth=True,
        special=[special()],
        deviations=[DENORMALS],
        errors=unary_errors("log", ag.log),
        atol=5e-7,  # near 1, where the logarithm is near 0: Vulkan promises 2**-21
    ),
    Op(
        name="abs",
        call=ag.abs,
        numpy=np.abs,
        torch=lambda torch, x: torch.abs(x),
        samples=each(nonzero),
        edges=[Sample((np.array([0.0, -0.0, 2.0, -2.0], np.float32),))],
        special=[special()],
        deviations=[DENORMALS],
        errors=unary_errors("abs", ag.abs),
    ),
    Op(
        name="sign",
        call=ag.sign,
        numpy=np.sign,
        torch=lambda torch, x: torch.sign(x),
        samples=each(nonzero),
        gradient=False,
        special=[special()],
        deviations=[DENORMALS, at_nan(0.0, "ggml's sgn(NaN) is 0 on every device"), LOST_SIGN_OF_ZERO],
        errors=unary_errors("sign", ag.sign),
    ),
]

CALLS: Makers = {
    name: lambda c, name=name: (getattr(ag, name), c.operand()) for name in "abs exp log sign sqrt".split()
}
