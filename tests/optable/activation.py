"""Activation functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import ggmlpy_ag as ag

from .calls import Makers
from .table import (
    DENORMALS,
    SHAPES,
    SIGN_OF_ZERO,
    VULKAN_SIGN_OF_ZERO,
    Draw,
    Error,
    Op,
    Sample,
    at_nan,
    axis_errors,
    each,
    nonzero,
    normal,
    one,
    special,
    unary_errors,
    uniform,
)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-x))


def functional(name: str) -> Any:
    """PyTorch's function of this name."""
    return lambda torch, *operands, **options: getattr(torch.nn.functional, name)(*operands, **options)


def values(*numbers: float, **options: Any) -> Sample:
    return Sample((np.array(numbers, np.float32),), options)


def tiny(**options: Any) -> Sample:
    """Of either sign, from 1e-20 to 0.5: where exp(x) is near 1."""
    sizes = np.logspace(-20, np.log10(0.5), 50)
    return Sample((np.concatenate([sizes, -sizes]).astype(np.float32),), options)


def wide(*shape: int) -> np.ndarray:
    """From -12 to 12, and no nearer to -3, 0 and 3 than 0.1."""
    x = uniform(*shape, low=-12.0, high=12.0)
    for kink in (-3.0, 0.0, 3.0):
        x = np.where(np.abs(x - kink) < 0.1, kink + 0.5, x)
    return np.asarray(x, np.float32)


def _log_softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    shifted = x - x.max(axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))


def _softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    return np.exp(_log_softmax(x, axis))


def _softplus(x: np.ndarray, beta: float = 1.0, threshold: float = 20.0) -> np.ndarray:
    return np.where(x * beta > threshold, x, np.logaddexp(0.0, x * beta) / beta)


def _along_axis(draw: Draw) -> Sample:
    shape = draw.shape(1)
    return Sample((draw.floats(normal, *shape),), {"axis": draw.axis(len(shape))})


SOFTMAX_SAMPLES = [
    *each(normal, [s for s in SHAPES if s]),
    *[Sample((normal(*s),), {"axis": a}) for s, a in [((3, 7), 0), ((2, 3, 5), 1), ((2, 1, 3, 5), -4)]],
]

OPS: list[Op] = [
    Op(
        name="relu",
        call=ag.relu,
        numpy=lambda x: np.maximum(x, 0.0),
        torch=functional("relu"),
        samples=each(nonzero),
        keeps=(0.0, 1.0),
        generate=one(normal),
        edges=[values(0.0, -0.0, 3.0, -3.0)],
        special=[special()],
        deviations=[DENORMALS, at_nan(0.0, "ggml's relu(NaN) is 0 on every device")],
        errors=unary_errors("relu", ag.relu),
    ),
    Op(
        name="leaky_relu",
        call=ag.leaky_relu,
        numpy=lambda x, negative_slope=0.01: np.where(x > 0, x, x * negative_slope),
        torch=functional("leaky_relu"),
        samples=[*each(nonzero), *[Sample((nonzero(3, 5),), {"negative_slope": s}) for s in (0, 0.3, 1.5, -0.5)]],
        keeps=(0.0, 1.0),
        generate=one(normal, negative_slope=0.25),
        smooth=True,
        edges=[values(0.0, -0.0, 3.0, -3.0, negative_slope=s) for s in (0.01, 0.0, -0.5)],
        special=[special(), special(negative_slope=-2.0), special(negative_slope=0.0)],
        deviations=[DENORMALS, SIGN_OF_ZERO],
        errors=[
            *unary_errors("leaky_relu", ag.leaky_relu),
            Error(lambda m: ag.leaky_relu(m(2), "a"), TypeError, ("leaky_relu", "negative_slope", "'a'")),
            Error(lambda m: ag.leaky_relu(m(2), math.inf), ValueError, ("leaky_relu", "negative_slope", "inf")),
            Error(lambda m: ag.leaky_relu(m(2), 10**400), ValueError, ("too large",)),
        ],
    ),
    Op(
        name="elu",
        call=ag.elu,
        numpy=lambda x, alpha=1.0: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0.0))),
        torch=functional("elu"),
        samples=[*each(nonzero), tiny(), Sample((wide(5),)), *[Sample((wide(3, 5),), {"alpha": a}) for a in (0.5, 2)]],
        keeps=(0.0, 1.0),
        generate=one(normal, alpha=0.75),
        smooth=True,
        edges=[values(0.0, -0.0, 1e-7, -1e-7, -30.0, alpha=a) for a in (1.0, 0.5, 0.0)],
        special=[special(), special(alpha=0.25)],
        deviations=[DENORMALS, SIGN_OF_ZERO],
        errors=[
            *unary_errors("elu", ag.elu),
            Error(lambda m: ag.elu(m(2), None), TypeError, ("elu", "alpha", "None")),
            Error(lambda m: ag.elu(m(2), -1.0), ValueError, ("elu", "alpha", "-1.0")),
            Error(lambda m: ag.elu(m(2), math.nan), ValueError, ("elu", "alpha", "nan")),
        ],
    ),
    Op(
        name="sigmoid",
        call=ag.sigmoid,
        numpy=sigmoid,
        torch=lambda torch, x: torch.sigmoid(x),
        samples=each(normal),
        keeps=(0.0, 1.0),
        generate=one(normal),
        smooth=True,
        special=[special()],
        deviations=[DENORMALS],
        errors=unary_errors("sigmoid", ag.sigmoid),
    ),
    Op(
        name="hardsigmoid",
        call=ag.hardsigmoid,
        numpy=lambda x: np.clip(x + 3.0, 0.0, 6.0) / 6.0,
        torch=functional("hardsigmoid"),
        samples=each(wide),
        keeps=(1.0, 0.0),
        generate=one(wide),
        smooth=True,
        edges=[values(-3.0, 3.0, 0.0, -2.9999998, 2.9999998, -5.0, 5.0)],
        special=[special()],
        deviations=[DENORMALS],
        errors=unary_errors("hardsigmoid", ag.hardsigmoid),
        atol=1e-7,  # x + 3 rounds near 0
    ),
    Op(
        name="tanh",
        call=ag.tanh,
        numpy=np.tanh,
        torch=lambda torch, x: torch.tanh(x),
        samples=each(normal),
        keeps=(0.0, 1.0),
        generate=one(normal),
        smooth=True,
        special=[special()],
        deviations=[DENORMALS, VULKAN_SIGN_OF_ZERO],
        errors=unary_errors("tanh", ag.tanh),
        atol=2e-7,  # Vulkan: 1 - 2 / (exp(2x) + 1)
    ),
    Op(
        name="softplus",
        call=ag.softplus,
        numpy=_softplus,
        torch=functional("softplus"),
        samples=[
            *each(normal),
            Sample((wide(257),)),
            Sample((wide(3, 5),), {"beta": 2.5, "threshold": 3}),
            Sample((wide(3, 5),), {"beta": 0.5, "threshold": 0.0}),
            Sample((wide(3, 5),), {"beta": -1, "threshold": 100.0}),
            values(-30.0, -80.0, 19.0, 21.0, 85.0),
        ],
        keeps=(1.0, 0.0),
        generate=one(normal, beta=1.5, threshold=1.0),
        smooth=True,
        edges=[values(0.0, -100.0, 100.0, 2.0, beta=0.5, threshold=1.0), values(20.0, 20.5, -85.0)],
        special=[special(), special(beta=2.0, threshold=1.0)],
        deviations=[DENORMALS],
        errors=[
            *unary_errors("softplus", ag.softplus),
            Error(lambda m: ag.softplus(m(2), 0.0), ValueError, ("softplus", "beta", "0.0")),
            Error(lambda m: ag.softplus(m(2), math.inf), ValueError, ("softplus", "beta", "inf")),
            Error(lambda m: ag.softplus(m(2), "a"), TypeError, ("softplus", "beta", "'a'")),
            Error(lambda m: ag.softplus(m(2), 1.0, None), TypeError, ("softplus", "threshold", "None")),
            Error(lambda m: ag.softplus(m(2), 1.0, -1), ValueError, ("softplus", "threshold", "-1")),
            Error(lambda m: ag.softplus(m(2), 1.0, math.nan), ValueError, ("softplus", "threshold", "nan")),
        ],
        rtol=5e-6,  # exp on Vulkan, whose relative error grows with |x|
    ),
    Op(
        name="softmax",
        call=ag.softmax,
        numpy=_softmax,
        torch=lambda torch, x, axis=-1: torch.softmax(x, axis),
        samples=SOFTMAX_SAMPLES,
        keeps=(0.0, 1.0),
        generate=_along_axis,
        smooth=True,
        errors=[*unary_errors("softmax", ag.softmax), *axis_errors("softmax", ag.softmax)],
    ),
    Op(
        name="log_softmax",
        call=ag.log_softmax,
        numpy=_log_softmax,
        torch=lambda torch, x, axis=-1: torch.log_softmax(x, axis),
        samples=SOFTMAX_SAMPLES,
        keeps=(0.0, 1.0),
        generate=_along_axis,
        smooth=True,
        errors=[*unary_errors("log_softmax", ag.log_softmax), *axis_errors("log_softmax", ag.log_softmax)],
        atol=5e-7,  # log(sum) rounds at the size of the largest logit
    ),
]

CALLS: Makers = {
    **{name: lambda c, name=name: (getattr(ag, name), c.operand()) for name in "hardsigmoid relu sigmoid tanh".split()},
    "leaky_relu": lambda c: (ag.leaky_relu, c.operand(), c.number()),
    "elu": lambda c: (ag.elu, c.operand(), c.number()),
    "softplus": lambda c: (ag.softplus, c.operand(), c.number(), c.number()),
    "softmax": lambda c: (ag.softmax, c.operand(), c.axis()),
    "log_softmax": lambda c: (ag.log_softmax, c.operand(), c.axis()),
}
