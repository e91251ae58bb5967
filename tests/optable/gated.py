"""Gated linear units."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import ggmlpy_ag as ag

from .activation import sigmoid
from .calls import Makers
from .swish import gelu
from .table import Draw, Error, Op, Sample, arrays, axis_errors, normal, unary_errors

SAMPLES = [
    *[arrays(normal, shape) for shape in [(2,), (6,), (3, 8), (2, 3, 4), (2, 1, 3, 6), (31, 34), (258,)]],
    *[arrays(normal, s, axis=a) for s, a in [((4, 3), 0), ((2, 6, 5), 1), ((2, 6, 5), -3), ((5, 3, 7, 2), 3)]],
]


def _generate(draw: Draw) -> Sample:
    shape = list(draw.shape(1))
    axis = draw.axis(len(shape))
    shape[axis] = 2 * draw.integer(1, 5)
    return Sample((draw.floats(normal, *shape),), {"axis": axis})


def _op(name: str, of_halves: Callable[[Any, Any], Any], of_torch: Callable[[Any, Any, Any], Any], atol: float) -> Op:
    call = getattr(ag, name)
    return Op(
        name=name,
        call=call,
        numpy=lambda x, axis=-1: of_halves(*np.split(x, 2, axis)),
        torch=lambda torch, x, axis=-1: of_torch(torch.nn.functional, *torch.chunk(x, 2, axis)),
        samples=SAMPLES,
        keeps=(1.0, 0.0),
        generate=_generate,
        smooth=True,
        errors=[
            *unary_errors(name, lambda x: call(x, 0)),
            *axis_errors(name, call),
            Error(lambda m: call(m(2, 3)), ValueError, (name, "axis -1", "(2, 3)", "even")),
            Error(lambda m: call(m(5, 2), 0), ValueError, (name, "axis 0", "(5, 2)", "even")),
        ],
        atol=atol,
    )


OPS: list[Op] = [
    _op("glu", lambda a, b: a * sigmoid(b), lambda f, a, b: a * b.sigmoid(), 0.0),
    _op("swiglu", lambda a, b: a * sigmoid(a) * b, lambda f, a, b: f.silu(a) * b, 0.0),
    _op("geglu", lambda a, b: gelu(a) * b, lambda f, a, b: f.gelu(a) * b, 2e-6),  # gelu's, times |b| up to 4
]

CALLS: Makers = {
    name: lambda c, name=name: (getattr(ag, name), c.operand((*c.shape(3), c.one_of(1, 2, 4))), c.axis())
    for name in "glu swiglu geglu".split()
}
