"""Views, types and devices."""

from __future__ import annotations

import numpy as np

import ggmlpy_ag as ag

from .calls import Makers
from .table import DEVICES, SHAPES, Error, Op, Sample, each, normal, wrong_operands


def _transpose(x: np.ndarray, axes: tuple[int, ...] = ()) -> np.ndarray:
    return np.swapaxes(x, *axes) if axes else x.T


def _on(*shapes: tuple[int, ...]) -> list[Sample]:
    return [Sample((normal(*shape),), {"device": name}) for name in DEVICES for shape in shapes]


OPS: list[Op] = [
    Op(
        name="reshape",
        call=lambda x, shape: ag.reshape(x, *shape),
        numpy=np.reshape,
        torch=lambda torch, x, shape: torch.reshape(x, shape),
        samples=[
            Sample((normal(*before),), {"shape": after})
            for before, after in [
                ((), ()),
                ((), (1, 1, 1, 1)),
                ((1,), ()),
                ((6,), (2, 3)),
                ((3, 7), (7, 3)),
                ((3, 7), (-1,)),
                ((2, 3, 5), (5, -1, 2)),
                ((2, 1, 3, 5), (6, 5)),
                ((31, 33), (33, 31)),
            ]
        ],
        errors=[
            *wrong_operands("reshape", lambda x: ag.reshape(x, -1), lambda m: m(2, 3), ints=False),
            Error(lambda m: ag.reshape(m(2, 3), 4), ValueError, ("reshape", "(2, 3)", "(4,)")),
            Error(lambda m: ag.reshape(m(2, 3), 4, -1), ValueError, ("reshape", "(2, 3)", "(4, -1)")),
            Error(lambda m: ag.reshape(m(2, 3), -1, -1), ValueError, ("reshape", "one -1")),
            Error(lambda m: ag.reshape(m(2, 3), 0, -1), ValueError, ("reshape", "positive", "(0, -1)")),
            Error(lambda m: ag.reshape(m(2, 3), -2, -3), ValueError, ("reshape", "positive", "(-2, -3)")),
            Error(lambda m: ag.reshape(m(2, 3), 1, 1, 1, 2, 3), ValueError, ("reshape", "more than 4")),
            Error(lambda m: ag.reshape(m(2, 3), 2.0, 3), TypeError, ("reshape", "2.0")),
            Error(lambda m: ag.reshape(m(2, 3), "six"), TypeError, ("reshape", "six")),
            Error(lambda m: m(2, 3).reshape(True, 6), TypeError, ("reshape", "True")),
        ],
    ),
    Op(
        name="transpose",
        call=lambda x, axes=(): ag.transpose(x, *axes),
        numpy=_transpose,
        torch=lambda torch, x, axes=(): torch.swapaxes(x, *axes) if axes else x.permute(tuple(reversed(range(x.ndim)))),
        samples=[
            *each(normal),
            *[Sample((normal(*s),), {"axes": a}) for s, a in [((3, 7), (0, 1)), ((2, 3, 5), (0, -1)), ((5,), (0, 0))]],
            Sample((normal(2, 3, 4, 5),), {"axes": (1, 3)}),
        ],
        errors=[
            *wrong_operands("transpose", ag.transpose, lambda m: m(2, 3), ints=False),
            Error(lambda m: ag.transpose(m(2, 3), 1), ValueError, ("transpose", "(1,)")),
            Error(lambda m: ag.transpose(m(2, 3, 4), 2, 1, 0), ValueError, ("transpose", "(2, 1, 0)", "permute")),
            Error(lambda m: ag.transpose(m(2, 3), 0, 2), IndexError, ("transpose", "axis 2")),
            Error(lambda m: ag.transpose(m(2, 3), 0, 1.0), TypeError, ("transpose", "1.0")),
        ],
    ),
    Op(
        name="permute",
        call=lambda x, axes: ag.permute(x, *axes),
        numpy=np.transpose,
        torch=lambda torch, x, axes: x.permute(axes),
        samples=[
            Sample((normal(*shape),), {"axes": axes})
            for shape, axes in [
                ((), ()),
                ((5,), (0,)),
                ((3, 7), (1, 0)),
                ((3, 7), (0, -1)),
                ((2, 3, 5), (2, 0, 1)),
                ((2, 3, 4, 5), (0, 2, 1, 3)),
                ((2, 3, 4, 5), (3, 1, 0, 2)),
                ((31, 33), (1, 0)),
            ]
        ],
        errors=[
            *wrong_operands("permute", lambda x: ag.permute(x, 1, 0), lambda m: m(2, 3), ints=False),
            Error(lambda m: ag.permute(m(2, 3), 0), ValueError, ("permute", "(0,)", "2 dimensions")),
            Error(lambda m: ag.permute(m(2, 3), 0, 0), ValueError, ("permute", "(0, 0)", "once")),
            Error(lambda m: ag.permute(m(2, 3), 0, 2), IndexError, ("permute", "axis 2")),
            Error(lambda m: ag.permute(m(2, 3), (1, None)), TypeError, ("permute", "None")),
        ],
    ),
    Op(
        name="matrix_transpose",
        call=lambda x: x.mT,
        numpy=lambda x: np.swapaxes(x, -1, -2),
        torch=lambda torch, x: x.mT,
        samples=each(normal, [*(s for s in SHAPES if len(s) > 1), (1, 5), (4, 1, 1)]),
        errors=[
            Error(lambda m: m(3).mT, ValueError, ("matrix_transpose", "(3,)", "two dimensions")),
            Error(lambda m: m().mT, ValueError, ("matrix_transpose", "()")),
        ],
    ),
    Op(
        name="astype",
        call=ag.astype,
        numpy=np.asarray,
        torch=None,
        samples=[
            *each(lambda *shape: 100 * normal(*shape), dtype="int32"),
            *each(normal, [(), (3, 5)], dtype=np.float64(1).astype(np.float32).dtype),
            *[
                Sample((np.arange(-n, n, 2, dtype=np.int32).reshape(shape),), {"dtype": np.float32})
                for n, shape in [(1, ()), (5, (5,)), (6, (2, 3)), (1023, (31, 33))]
            ],
            Sample((np.array([2**24, -(2**24), 2**31 - 1], np.int32),), {"dtype": "float32"}),
        ],
        gradient=False,
        errors=[
            *wrong_operands("astype", lambda x: ag.astype(x, "int32"), lambda m: m(2, 3), ints=False),
            Error(lambda m: ag.astype(m(2), "float64"), TypeError, ("float32, float16, bfloat16 or int32", "float64")),
            Error(lambda m: ag.astype(m(2), np.int64), TypeError, ("float32, float16, bfloat16 or int32", "int64")),
            Error(lambda m: ag.astype(m(2), "wood"), TypeError, ("float32, float16, bfloat16 or int32", "wood")),
            Error(lambda m: m(2).astype(7), TypeError, ("float32, float16, bfloat16 or int32", "7")),
        ],
    ),
    Op(
        name="to",
        call=ag.to,
        numpy=lambda x, device: x,
        torch=None,
        samples=_on((), (5,), (3, 7), (2, 3, 5), (2, 1, 3, 5)),
        errors=[
            Error(lambda m: ag.to(m(2), "cuda"), ValueError, ("'cuda'", "cpu")),
            Error(lambda m: ag.to(m(2), "vulkan:99"), ValueError, ("'vulkan:99'", "cpu")),
            Error(lambda m: ag.to(m(2), 1), TypeError, ("device", "int")),
            Error(lambda m: m(2).to("float64"), ValueError, ("'float64'",)),
            Error(lambda m: ag.to(np.ones(2), "cpu"), TypeError, ("to", "ndarray")),
        ],
    ),
]

CALLS: Makers = {
    "reshape": lambda c: (ag.reshape, c.operand(), c.extents()),
    "transpose": lambda c: (ag.transpose, c.operand(), *c.axes()),
    "permute": lambda c: (ag.permute, c.operand(), c.one_of((1, 0), (2, 0, 1), (), c.axes())),
    "matrix_transpose": lambda c: (lambda x: x.mT, c.window(c.shape())),
    "astype": lambda c: (ag.astype, c.operand(), c.one_of("int32", "float32", "float64", int, None, 3)),
    "to": lambda c: (ag.to, c.operand(), c.one_of("cpu", "vulkan", "vulkan:7", "auto", "", None, 3)),
}
