"""Comparing, choosing and limiting elements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import ggmlpy_ag as ag

from .calls import Makers
from .table import DENORMALS, VULKAN_SIGN_OF_ZERO, Error, Op, Sample, each, nonzero, special, unary_errors


def _clamp(x: np.ndarray, low: float | None = None, high: float | None = None) -> np.ndarray:
    return np.clip(x, low, high)


def _torch_clamp(torch: Any, x: Any, low: float | None = None, high: float | None = None) -> Any:
    return torch.clamp(x, low, high)


OPS: list[Op] = [
    Op(
        name="clamp",
        call=ag.clamp,
        numpy=_clamp,
        torch=_torch_clamp,
        samples=[
            *each(nonzero, low=-0.1, high=0.1),
            *[Sample((nonzero(3, 5),), o) for o in ({"low": 0}, {"high": 0.1}, {"low": -5, "high": np.float32(5)})],
        ],
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

CALLS: Makers = {"clamp": lambda c: (ag.clamp, c.operand(), c.number(), c.number())}
