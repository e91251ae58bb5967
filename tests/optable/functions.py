"""Functions of single elements."""

from __future__ import annotations

from typing import Any

import numpy as np

import ggmlpy_ag as ag

from .calls import Makers
from .table import (
    DENORMALS,
    LOST_SIGN_OF_ZERO,
    SIGN_OF_ZERO,
    VULKAN_SIGN_OF_ZERO,
    Deviation,
    Op,
    Sample,
    at_nan,
    each,
    nonzero,
    normal,
    one,
    special,
    unary_errors,
    uniform,
)


def _sample(*values: float) -> Sample:
    return Sample((np.array(values, np.float32),))


def _tiny() -> Sample:
    """Of either sign, from 1e-20 to 0.5: where 1 + x rounds."""
    sizes = np.logspace(-20, np.log10(0.5), 50)
    return Sample((np.concatenate([sizes, -sizes]).astype(np.float32),))


def _angles(most: float) -> Sample:
    """Also those where the sine or the cosine is 0 or 1."""
    even = np.linspace(-most, most, 101)
    quarters = np.round(even / (np.pi / 2)) * (np.pi / 2)
    return Sample((np.concatenate([even, quarters]).astype(np.float32),))


def _above_minus_one(*shape: int) -> np.ndarray:
    return uniform(*shape, low=-0.9, high=4.0)


HUGE_ANGLES = Deviation(
    "Vulkan's sine and cosine of angles far beyond 10,000 are some number between -1 and 1",
    where=lambda expected, x: (np.abs(x) > 1e5) & (np.abs(x) < np.inf),
    values=lambda reference, x: [-1.0, 1.0],
    device="vulkan",
)


def _op(name: str, numpy: Any, *, make: Any = normal, more: Any = (), deviations: Any = (), **known: Any) -> Op:
    """An entry of a smooth function; PyTorch calls it as we do."""
    call = getattr(ag, name)
    return Op(
        name=name,
        call=call,
        numpy=numpy,
        torch=lambda torch, x: getattr(torch, name)(x),
        samples=[*each(make), *more],
        generate=one(make),
        special=[special()],
        deviations=[DENORMALS, *deviations],
        errors=unary_errors(name, call),
        **{"smooth": True, **known},
    )


OPS: list[Op] = [
    _op("sqrt", np.sqrt, make=uniform, keeps=(0.0, 1.0), edges=[_sample(0.0, 4.0)]),
    _op("rsqrt", lambda x: 1.0 / np.sqrt(x), make=uniform, keeps=(0.0, 1.0), edges=[_sample(0.0, 4.0, np.inf)]),
    _op("reciprocal", lambda x: 1.0 / x, make=nonzero, keeps=(0.0, 1.0), edges=[_sample(0.0, -0.0, 4.0, np.inf)]),
    _op("square", np.square, keeps=(1.0, 0.0), edges=[_sample(0.0, np.inf, -1e15)]),
    _op("exp", np.exp, keeps=(0.0, 1.0)),
    _op(
        "expm1",
        np.expm1,
        keeps=(0.0, 1.0),
        more=[_tiny(), Sample((uniform(257, low=-3.0, high=3.0),))],
        edges=[_sample(0.0, -np.inf, 1e-7, -1e-7)],
        deviations=[SIGN_OF_ZERO],
    ),
    _op(
        "log",
        np.log,
        make=uniform,
        keeps=(1.0, 0.0),
        atol=5e-7,  # near 1, where the logarithm is near 0: Vulkan promises 2**-21
    ),
    _op(
        "log1p",
        np.log1p,
        make=_above_minus_one,
        keeps=(1.0, 0.0),
        more=[_tiny(), Sample((uniform(257, low=-0.75, high=3.0),))],
        edges=[_sample(0.0, np.inf, 1e-7, -1e-7, -0.5, 1.0, 1e30)],
        deviations=[SIGN_OF_ZERO],
    ),
    _op(
        "sin",
        np.sin,
        keeps=(1.0, 0.0),
        more=[_angles(4.0), _angles(100.0), _angles(1e4)],
        deviations=[VULKAN_SIGN_OF_ZERO, HUGE_ANGLES],
        atol=3e-7,  # absolute errors near zeros, and the rounding of what is left of a large angle
    ),
    _op(
        "cos",
        np.cos,
        keeps=(1.0, 0.0),
        more=[_angles(4.0), _angles(100.0), _angles(1e4)],
        deviations=[HUGE_ANGLES],
        atol=3e-7,
    ),
    _op("abs", np.abs, make=nonzero, keeps=(1.0, 0.0), smooth=False, edges=[_sample(0.0, -0.0, 2.0, -2.0)]),
    _op(
        "sign",
        np.sign,
        make=nonzero,
        gradient=False,
        smooth=False,
        deviations=[at_nan(0.0, "sgn(NaN) is 0 in ggml, and in PyTorch"), LOST_SIGN_OF_ZERO],
    ),
]

CALLS: Makers = {op.name: lambda c, call=op.call: (call, c.operand()) for op in OPS}
