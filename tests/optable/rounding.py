"""Rounding to whole numbers."""

from __future__ import annotations

import numpy as np

import ggmlpy_ag as ag

from .calls import Makers
from .table import DENORMALS, SIGN_OF_ZERO, SPECIAL, Op, Sample, each, one, special, unary_errors, uniform


def _wide(*shape: int) -> np.ndarray:
    return uniform(*shape, low=-100.0, high=100.0)


HALVES = (np.arange(-20, 20) * np.float32(0.5)).astype(np.float32)
# where float32 has halves and quarters last, and their neighbours
LARGE = np.float32(2.0) ** np.arange(20, 25) + np.array([[-1.0], [-0.5], [-0.25], [0.25], [0.5], [1.0]], np.float32)
EXTREME = np.array([0.49999997, 0.50000006, 1.5 + 1e-7, 3.4e38, -3.4e38, 2.0**47 + 2.0**24, 2.0**31, -(2.0**31)])
ODD = np.concatenate([LARGE.reshape(-1), -LARGE.reshape(-1), EXTREME, SPECIAL]).astype(np.float32)


OPS: list[Op] = [
    Op(
        name=name,
        call=getattr(ag, name),
        numpy=getattr(np, name),
        torch=lambda torch, x, name=name: getattr(torch, name)(x),
        samples=[*each(_wide), Sample((HALVES,)), Sample((ODD[np.isfinite(ODD) & (np.abs(ODD) > 1e-30)],))],
        generate=one(_wide),
        gradient=False,
        special=[special(), Sample((HALVES,)), Sample((ODD,))],
        deviations=[DENORMALS, *([SIGN_OF_ZERO] if name == "round" else [])],
        errors=unary_errors(name, getattr(ag, name)),
        rtol=0.0,
    )
    for name in ("floor", "ceil", "round", "trunc")
]

CALLS: Makers = {op.name: lambda c, call=op.call: (call, c.operand()) for op in OPS}
