"""Views, types and devices."""

from __future__ import annotations

from typing import Any

import numpy as np

import ggmlpy_ag as ag

from .calls import Calls, Makers
from .table import (
    DEVICES,
    SHAPES,
    Draw,
    Error,
    Op,
    Sample,
    axes_errors,
    each,
    normal,
    unary_errors,
    wrong_operands,
)


def _transpose(x: np.ndarray, axes: tuple[int, ...] = ()) -> np.ndarray:
    return np.swapaxes(x, *axes) if axes else x.T


def _ints(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape, dtype=int), dtype=np.int32).reshape(shape) - 3


def _factors(draw: Draw, n: int) -> tuple[int, ...]:
    """Up to four extents whose product is n."""
    shape = []
    for _ in range(draw.integer(0, 3)):
        shape.append(draw.one_of([k for k in range(1, n + 1) if n % k == 0]))
        n //= shape[-1]
    shape.insert(draw.integer(0, len(shape)), n)
    return tuple(shape)


def _reshape(draw: Draw) -> Sample:
    before = draw.shape()
    after = list(_factors(draw, int(np.prod(before, dtype=int))))
    if draw.one_of((False, True)):
        after[draw.integer(0, len(after) - 1)] = -1
    return Sample((draw.floats(normal, *before),), {"shape": tuple(after)})


def _flatten(draw: Draw) -> Sample:
    shape = draw.shape()
    start = draw.integer(0, max(len(shape) - 1, 0))
    end = draw.integer(start, max(len(shape) - 1, 0))
    options = {"start": start, "end": end - draw.one_of((0, max(len(shape), 1)))}
    return Sample((draw.floats(normal, *shape),), draw.one_of((options, {})))


def _numpy_flatten(x: np.ndarray, start: int = 0, end: int = -1) -> np.ndarray:
    n = max(x.ndim, 1)
    shape = x.shape or (1,)
    first, last = start % n, end % n
    return x.reshape(*shape[:first], -1, *shape[last + 1 :])


def _order(draw: Draw) -> Sample:
    shape = draw.shape()
    left = list(range(len(shape)))
    axes = tuple(left.pop(draw.integer(0, len(left) - 1)) for _ in shape)
    return Sample((draw.floats(normal, *shape),), {"axes": axes})


def _swap(draw: Draw) -> Sample:
    shape = draw.shape(1)
    axes = draw.one_of(((), (draw.axis(len(shape)), draw.axis(len(shape)))))
    return Sample((draw.floats(normal, *shape),), {"axes": axes})


def _squeeze(draw: Draw) -> Sample:
    shape = tuple(draw.one_of((n, 1)) for n in draw.shape())
    ones = [i - draw.one_of((0, len(shape))) for i, n in enumerate(shape) if n == 1]
    some = tuple(i for i in ones if draw.one_of((False, True)))
    return Sample((draw.floats(normal, *shape),), {"axis": draw.one_of((None, some, *ones))})


def _unsqueeze(draw: Draw) -> Sample:
    shape = draw.shape(0, 3)
    return Sample((draw.floats(normal, *shape),), {"axis": draw.axis(len(shape) + 1)})


def _expand(draw: Draw) -> Sample:
    target = draw.shape()
    before = tuple(draw.one_of((n, 1)) for n in target[draw.integer(0, len(target)) :])
    new = len(target) - len(before)
    asked = tuple(draw.one_of((n, -1)) if i >= new and before[i - new] == n else n for i, n in enumerate(target))
    return Sample((draw.floats(normal, *before),), {"shape": asked})


def _numpy_expand(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    new = len(shape) - x.ndim
    return np.broadcast_to(x, [x.shape[i - new] if n == -1 else n for i, n in enumerate(shape)])


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
        ]
        + [Sample((_ints(2, 3, 5),), {"shape": (5, -1)})],
        smooth=True,
        generate=_reshape,
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
            Sample((_ints(2, 3, 5),)),
        ],
        smooth=True,
        generate=_swap,
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
        ]
        + [Sample((_ints(2, 3, 5),), {"axes": (1, 2, 0)})],
        smooth=True,
        generate=_order,
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
        samples=[*each(normal, [*(s for s in SHAPES if len(s) > 1), (1, 5), (4, 1, 1)]), Sample((_ints(2, 3, 5),))],
        smooth=True,
        generate=lambda draw: Sample((draw.floats(normal, *draw.shape(2)),)),
        errors=[
            Error(lambda m: m(3).mT, ValueError, ("matrix_transpose", "(3,)", "two dimensions")),
            Error(lambda m: m().mT, ValueError, ("matrix_transpose", "()")),
        ],
    ),
    Op(
        name="flatten",
        call=ag.flatten,
        numpy=_numpy_flatten,
        torch=lambda torch, x, start=0, end=-1: torch.flatten(x, start, end),
        samples=[
            *each(normal),
            Sample((normal(2, 3, 5),), {"start": 1}),
            Sample((normal(2, 3, 5),), {"end": 1}),
            Sample((normal(2, 3, 5),), {"start": -2, "end": -2}),
            Sample((normal(2, 3, 4, 5),), {"start": 1, "end": -2}),
            Sample((_ints(2, 3, 5),), {"start": 1}),
        ],
        smooth=True,
        generate=_flatten,
        errors=[
            *wrong_operands("flatten", ag.flatten, lambda m: m(2, 3), ints=False),
            Error(lambda m: ag.flatten(m(2, 3), 1, 0), ValueError, ("flatten", "end 0", "start 1", "(2, 3)")),
            Error(lambda m: ag.flatten(m(2, 3), 2), IndexError, ("flatten", "axis 2", "2 dimensions")),
            Error(lambda m: ag.flatten(m(2, 3), 0, -3), IndexError, ("flatten", "axis -3")),
            Error(lambda m: ag.flatten(m(), 1), IndexError, ("flatten", "axis 1")),
            Error(lambda m: ag.flatten(m(2, 3), 0.0), TypeError, ("flatten", "0.0")),
            Error(lambda m: ag.flatten(m(2, 3), 0, True), TypeError, ("flatten", "True")),
        ],
    ),
    Op(
        name="squeeze",
        call=ag.squeeze,
        numpy=lambda x, axis=None: np.squeeze(x, tuple(axis) if isinstance(axis, list) else axis),
        torch=lambda torch, x, axis=None: torch.squeeze(x) if axis is None else torch.squeeze(x, dim=axis),
        samples=[
            *each(normal, [(), (1,), (5,), (2, 1, 3, 1), (1, 1, 1, 1), (1, 31, 33)]),
            Sample((normal(1, 3, 1),), {"axis": 0}),
            Sample((normal(1, 3, 1),), {"axis": -1}),
            Sample((normal(1, 3, 1),), {"axis": (-1, 0)}),
            Sample((normal(1, 3, 1),), {"axis": ()}),
            Sample((normal(2, 1, 1, 5),), {"axis": [1]}),
            Sample((_ints(2, 1, 5),), {"axis": 1}),
        ],
        smooth=True,
        generate=_squeeze,
        errors=[
            *wrong_operands("squeeze", ag.squeeze, lambda m: m(2, 3), ints=False),
            *axes_errors("squeeze", ag.squeeze),
            Error(lambda m: ag.squeeze(m(1, 3), 1), ValueError, ("squeeze", "axis 1", "(1, 3)")),
            Error(lambda m: ag.squeeze(m(1, 3), (0, 1)), ValueError, ("squeeze", "axis 1", "(1, 3)")),
        ],
    ),
    Op(
        name="unsqueeze",
        call=ag.unsqueeze,
        numpy=np.expand_dims,
        torch=lambda torch, x, axis: torch.unsqueeze(x, axis),
        samples=[
            Sample((normal(*shape),), {"axis": axis})
            for shape, axis in [((), 0), ((), -1), ((5,), 0), ((5,), 1), ((3, 7), -3), ((2, 3, 5), 2), ((31, 33), -1)]
        ]
        + [Sample((_ints(2, 5),), {"axis": 1})],
        smooth=True,
        generate=_unsqueeze,
        errors=[
            *wrong_operands("unsqueeze", lambda x: ag.unsqueeze(x, 0), lambda m: m(2, 3), ints=False),
            Error(lambda m: ag.unsqueeze(m(2, 3), 3), IndexError, ("unsqueeze", "axis 3", "3 dimensions")),
            Error(lambda m: ag.unsqueeze(m(2, 3), -4), IndexError, ("unsqueeze", "axis -4")),
            Error(lambda m: ag.unsqueeze(m(2, 3), 1.0), TypeError, ("unsqueeze", "1.0")),
            Error(lambda m: ag.unsqueeze(m(2, 3), None), TypeError, ("unsqueeze", "None")),
            Error(lambda m: ag.unsqueeze(m(1, 1, 1, 2), 0), ValueError, ("unsqueeze", "more than 4")),
        ],
    ),
    Op(
        name="expand",
        call=lambda x, shape: ag.expand(x, *shape),
        numpy=_numpy_expand,
        torch=lambda torch, x, shape: x.expand(shape),
        samples=[
            Sample((normal(*before),), {"shape": after})
            for before, after in [
                ((), ()),
                ((), (3,)),
                ((1,), (5,)),
                ((3,), (2, -1)),
                ((3, 1), (-1, 7)),
                ((3, 1), (4, 3, 7)),
                ((2, 1, 3, 1), (-1, 4, -1, 5)),
                ((1, 33), (31, -1)),
                ((257, 1), (257, 3)),
            ]
        ],
        smooth=True,
        generate=_expand,
        errors=[
            *unary_errors("expand", lambda x: ag.expand(x, 2, 3)),
            Error(lambda m: ag.expand(m(3), 4), ValueError, ("expand", "(3,)", "(4,)")),
            Error(lambda m: ag.expand(m(2, 3), 3), ValueError, ("expand", "(2, 3)", "(3,)")),
            Error(lambda m: ag.expand(m(1), 0), ValueError, ("expand", "(0,)")),
            Error(lambda m: ag.expand(m(3), -1, 3), ValueError, ("expand", "(-1, 3)")),
            Error(lambda m: ag.expand(m(3), -2), ValueError, ("expand", "(-2,)")),
            Error(lambda m: ag.expand(m(3), 1, 1, 1, 1, 3), ValueError, ("expand", "more than 4")),
            Error(lambda m: ag.expand(m(1), 2.0), TypeError, ("expand", "2.0")),
            Error(lambda m: ag.expand(m(1), True), TypeError, ("expand", "True")),
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


def _expanded(c: Calls) -> tuple[Any, ...]:
    shape = c.shape()
    usual = tuple(c.one_of(n, -1, n * c.one_of(1, 1, 3)) for n in shape)
    return (ag.expand, c.operand(shape), c.one_of(usual, usual, (2, *usual), c.extents()))


CALLS: Makers = {
    "flatten": lambda c: (ag.flatten, c.operand(), c.one_of(0, 0, 1, c.axis()), c.one_of(-1, 1, c.axis())),
    "squeeze": lambda c: (ag.squeeze, c.operand(), c.axis()),
    "unsqueeze": lambda c: (ag.unsqueeze, c.operand(), c.axis()),
    "expand": _expanded,
    "reshape": lambda c: (ag.reshape, c.operand(), c.extents()),
    "transpose": lambda c: (ag.transpose, c.operand(), *c.axes()),
    "permute": lambda c: (ag.permute, c.operand(), c.one_of((1, 0), (2, 0, 1), (), c.axes())),
    "matrix_transpose": lambda c: (lambda x: x.mT, c.window(c.shape())),
    "astype": lambda c: (ag.astype, c.operand(), c.one_of("int32", "float32", "float64", int, None, 3)),
    "to": lambda c: (ag.to, c.operand(), c.one_of("cpu", "vulkan", "vulkan:7", "auto", "", None, 3)),
}
