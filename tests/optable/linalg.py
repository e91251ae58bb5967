"""Matrix products."""

from __future__ import annotations

import numpy as np

import ggmlpy_ag as ag

from .calls import Calls, Makers
from .table import DEVICES, Draw, Error, Op, Sample, arrays, normal, wrong_operands

LINEAR_SHAPES = [
    ((3, 5), (7, 5)),
    ((3, 5), (7, 5), (7,)),
    ((5,), (7, 5), (7,)),
    ((2, 3, 5), (7, 5), (7,)),
    ((2, 1, 3, 5), (1, 5), (1,)),
    ((33, 31), (257, 31), (257,)),
]
MATMUL_SHAPES = [
    ((2, 3), (3, 4)),
    ((1, 1), (1, 1)),
    ((1, 5), (5, 1)),
    ((3, 1), (1, 3)),
    ((3,), (3,)),
    ((3,), (3, 2)),
    ((2, 3), (3,)),
    ((3,), (2, 3, 2)),
    ((2, 2, 3), (3,)),
    ((2, 2, 3), (3, 4)),
    ((2, 3), (2, 3, 2)),
    ((2, 2, 3), (2, 3, 2)),
    ((1, 2, 3), (3, 3, 2)),
    ((3, 2, 3), (1, 3, 2)),
    ((2, 1, 2, 3), (3, 3, 2)),
    ((2, 3, 1, 3), (2, 1, 3, 2)),
    ((1, 3, 1, 3), (2, 1, 3, 2)),
    ((7, 31), (31, 33)),
    ((33, 257), (257, 5)),
    ((64, 33), (33, 31)),  # large enough for BLAS on the CPU, odd
]


def _matrices(draw: Draw) -> Sample:
    whole = draw.shape(0, 2, 4)
    batches = [tuple(draw.one_of((n, n, 1)) for n in whole[draw.integer(0, len(whole)) :]) for _ in range(2)]
    m, k, n = (draw.one_of((1, 2, 3, 5, 9, 33)) for _ in range(3))
    left = draw.one_of(((*batches[0], m, k), (*batches[0], m, k), (k,)))
    right = draw.one_of(((*batches[1], k, n), (*batches[1], k, n), (k,)))
    return Sample((draw.floats(normal, *left), draw.floats(normal, *right)))


def _layer(draw: Draw) -> Sample:
    k, n = (draw.one_of((1, 2, 5, 33)) for _ in range(2))
    shapes = [(*draw.shape(0, 3, 4), k), (n, k), (n,)]
    return Sample(tuple(draw.floats(normal, *shape) for shape in shapes[: draw.integer(2, 3)]))


OPS: list[Op] = [
    Op(
        name="matmul",
        call=ag.matmul,
        numpy=np.matmul,
        torch=lambda torch, a, b: torch.matmul(a, b),
        samples=[arrays(normal, *shapes) for shapes in MATMUL_SHAPES],
        smooth=True,
        keeps=(1, 0),
        generate=_matrices,
        errors=[
            *wrong_operands("matmul", ag.matmul, lambda m: m(2, 3), lambda m: m(3, 2)),
            Error(lambda m: ag.matmul(m(2, 3), m(2, 3)), ValueError, ("matmul", "(2, 3)", "3 columns", "2 rows")),
            Error(lambda m: ag.matmul(m(3), m(4)), ValueError, ("matmul", "(3,)", "(4,)")),
            Error(lambda m: ag.matmul(m(2, 3), m(4)), ValueError, ("matmul", "(2, 3)", "(4,)")),
            Error(lambda m: ag.matmul(m(), m(2, 2)), ValueError, ("matmul", "()", "scalar")),
            Error(lambda m: ag.matmul(m(2, 2), 3.0), ValueError, ("matmul", "(2, 2)", "scalar")),
            Error(lambda m: ag.matmul(m(2, 2, 3), m(4, 3, 2)), ValueError, ("matmul", "(2,)", "(4,)")),
            Error(lambda m: ag.matmul(m(2, 3), m.elsewhere(3, 2)), ValueError, ("matmul", *DEVICES[:2]), devices=2),
        ],
        sums=True,
    ),
    Op(
        name="linear",
        call=ag.linear,
        numpy=lambda x, w, b=None: x @ w.T if b is None else x @ w.T + b,
        torch=lambda torch, *operands: torch.nn.functional.linear(*operands),
        samples=[arrays(normal, *shapes) for shapes in LINEAR_SHAPES],
        smooth=True,
        keeps=(1, 0),  # and not the bias
        generate=_layer,
        errors=[
            *wrong_operands("linear", ag.linear, lambda m: m(2, 3), lambda m: m(4, 3)),
            *wrong_operands("linear", lambda b: ag.linear(np.ones((2, 3)), np.ones((4, 3)), b), lambda m: m(4)),
            Error(lambda m: ag.linear(m(2, 3), m(3, 4)), ValueError, ("linear", "(2, 3)", "(3, 4)", "(out, in)")),
            Error(lambda m: ag.linear(m(2, 3), m(3)), ValueError, ("linear", "(2, 3)", "(3,)")),
            Error(lambda m: ag.linear(m(), m(2, 1)), ValueError, ("linear", "()", "(2, 1)")),
            Error(lambda m: ag.linear(m(2, 3), m(4, 3), m(3)), ValueError, ("linear", "(4, 3)", "bias (3,)")),
            Error(lambda m: ag.linear(m(2, 3), m(4, 3), m(2, 4)), ValueError, ("linear", "bias (2, 4)")),
            Error(lambda m: ag.linear(m(2, 3), m.elsewhere(4, 3)), ValueError, ("linear", *DEVICES[:2]), devices=2),
        ],
        sums=True,
    ),
]


def _layer_call(c: Calls) -> tuple[object, ...]:
    k, n = c.one_of(1, 2, 3), c.one_of(1, 3, 5)
    x = c.operand(c.one_of((*c.shape(3), k), (*c.shape(3), k), c.shape()))
    weight = c.operand(c.one_of((n, k), (n, k), (n, k), c.shape()))
    return (ag.linear, x, weight, c.one_of(None, c.operand((n,)), c.operand()))


CALLS: Makers = {"matmul": lambda c: (ag.matmul, *c.matrices()), "linear": _layer_call}
