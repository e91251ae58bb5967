"""Activation functions."""

from __future__ import annotations

import math

import numpy as np

import ggmlpy_ag as ag

from .calls import Makers
from .table import (
    DENORMALS,
    SHAPES,
    VULKAN_SIGN_OF_ZERO,
    Op,
    Sample,
    at_nan,
    axis_errors,
    each,
    nonzero,
    normal,
    special,
    unary_errors,
)

_erf = np.vectorize(math.erf, otypes=[float])


def _gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1.0 + _erf(x / math.sqrt(2.0)))


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-x))


def _log_softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    shifted = x - x.max(axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))


def _softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    return np.exp(_log_softmax(x, axis))


OPS: list[Op] = [
    Op(
        name="relu",
        call=ag.relu,
        numpy=lambda x: np.maximum(x, 0.0),
        torch=lambda torch, x: torch.relu(x),
        samples=each(nonzero),
        edges=[Sample((np.array([0.0, -0.0, 3.0, -3.0], np.float32),))],
        special=[special()],
        deviations=[DENORMALS, at_nan(0.0, "ggml's relu(NaN) is 0 on every device")],
        errors=unary_errors("relu", ag.relu),
    ),
    Op(
        name="sigmoid",
        call=ag.sigmoid,
        numpy=_sigmoid,
        torch=lambda torch, x: torch.sigmoid(x),
        samples=each(normal),
        smooth=True,
        special=[special()],
        deviations=[DENORMALS],
        errors=unary_errors("sigmoid", ag.sigmoid),
    ),
    Op(
        name="tanh",
        call=ag.tanh,
        numpy=np.tanh,
        torch=lambda torch, x: torch.tanh(x),
        samples=each(normal),
        smooth=True,
        special=[special()],
        deviations=[DENORMALS, VULKAN_SIGN_OF_ZERO],
        errors=unary_errors("tanh", ag.tanh),
        atol=2e-7,  # Vulkan: 1 - 2 / (exp(2x) + 1)
    ),
    Op(
        name="gelu",
        call=ag.gelu,
        numpy=_gelu,
        torch=lambda torch, x: torch.nn.functional.gelu(x),
        samples=each(normal),
        smooth=True,
        edges=[Sample((np.array([0.0, -0.0, 30.0, -30.0, 1e-20, -1e-5], np.float32),))],
        special=[special()],
        deviations=[DENORMALS],
        errors=unary_errors("gelu", ag.gelu),
        atol=5e-7,  # 1 + erf(x) cancels below 0
    ),
    Op(
        name="silu",
        call=ag.silu,
        numpy=lambda x: x * _sigmoid(x),
        torch=lambda torch, x: torch.nn.functional.silu(x),
        samples=each(normal),
        smooth=True,
        special=[special()],
        deviations=[DENORMALS],
        errors=unary_errors("silu", ag.silu),
    ),
    Op(
        name="softmax",
        call=ag.softmax,
        numpy=_softmax,
        torch=lambda torch, x, axis=-1: torch.softmax(x, axis),
        samples=[
            *each(normal, [s for s in SHAPES if s]),
            *[Sample((normal(*s),), {"axis": a}) for s, a in [((3, 7), 0), ((2, 3, 5), 1), ((2, 1, 3, 5), -4)]],
        ],
        smooth=True,
        errors=[*unary_errors("softmax", ag.softmax), *axis_errors("softmax", ag.softmax)],
    ),
    Op(
        name="log_softmax",
        call=ag.log_softmax,
        numpy=_log_softmax,
        torch=lambda torch, x, axis=-1: torch.log_softmax(x, axis),
        samples=[
            *each(normal, [s for s in SHAPES if s]),
            *[Sample((normal(*s),), {"axis": a}) for s, a in [((3, 7), 0), ((2, 3, 5), 1), ((2, 1, 3, 5), -4)]],
        ],
        smooth=True,
        errors=[*unary_errors("log_softmax", ag.log_softmax), *axis_errors("log_softmax", ag.log_softmax)],
        atol=5e-7,  # log(sum) rounds at the size of the largest logit
    ),
]

CALLS: Makers = {
    **{name: lambda c, name=name: (getattr(ag, name), c.operand()) for name in "gelu relu sigmoid silu tanh".split()},
    "softmax": lambda c: (ag.softmax, c.operand(), c.axis()),
    "log_softmax": lambda c: (ag.log_softmax, c.operand(), c.axis()),
}
