"""Turned round, rolled, repeated; triangles and diagonals."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import ggmlpy_ag as ag

from .calls import Calls, Makers
from .table import SPECIAL, Draw, Error, Op, Sample, axes_errors, each, normal, unary_errors, wrong_operands


def _ints(*shape: int) -> np.ndarray:
    return np.arange(2**31 - math.prod(shape), 2**31, dtype=np.int64).astype(np.int32).reshape(shape)


def _square_special() -> np.ndarray:
    """Everything special on either side of the diagonal."""
    return np.stack([np.roll(SPECIAL, i) for i in range(SPECIAL.size)])


def _samples(option: str, cases: list[tuple[tuple[int, ...], Any]]) -> list[Sample]:
    return [Sample((normal(*shape),), {option: value}) for shape, value in cases]


# ---------------------------------------------------------------- references


def _numpy_axes(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, axis=None: function(x, tuple(axis) if isinstance(axis, list) else axis)


def _torch_flip(torch: Any, x: Any, axis: Any = None) -> Any:
    axes = range(x.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
    return torch.flip(x, tuple(axes))


def _numpy_roll(x: np.ndarray, shift: Any, axis: Any = None) -> np.ndarray:
    return np.roll(
        x, tuple(shift) if isinstance(shift, list) else shift, tuple(axis) if isinstance(axis, list) else axis
    )


def _torch_roll(torch: Any, x: Any, shift: Any, axis: Any = None) -> Any:
    if isinstance(axis, (tuple, list)) and isinstance(shift, int):
        shift = [shift] * len(axis)
    return torch.roll(x, shift % x.shape[axis] if shift == 10**30 else shift, axis)


# ---------------------------------------------------------------- random samples


def _turned(draw: Draw) -> Sample:
    shape = draw.shape()
    return Sample((draw.floats(normal, *shape),), {"axis": draw.axes(len(shape))})


def _rolled(draw: Draw) -> Sample:
    shape = draw.shape(1)
    axis = draw.one_of((None, draw.axis(len(shape)), tuple(draw.axis(len(shape)) for _ in range(2))))
    shift: Any = draw.integer(-9, 9)
    if isinstance(axis, tuple):
        shift = draw.one_of((shift, (shift, draw.integer(-9, 9))))
    return Sample((draw.floats(normal, *shape),), {"shift": shift, "axis": axis})


def _repeated(draw: Draw) -> Sample:
    shape = draw.shape(0, 3, 4)
    times = tuple(draw.integer(1, 3) for _ in range(draw.integer(len(shape), 4)))
    return Sample((draw.floats(normal, *shape),), {"times": times})


def _halved(draw: Draw) -> Sample:
    shape = draw.shape(2)
    return Sample((draw.floats(normal, *shape),), {"k": draw.integer(-shape[-2] - 1, shape[-1] + 1)})


def _diagonals(draw: Draw) -> Sample:
    shape = draw.shape(1, 2)
    k = draw.integer(-3, 3) if len(shape) == 1 else draw.integer(1 - shape[0], shape[1] - 1)
    return Sample((draw.floats(normal, *shape),), {"k": k})


TRIANGLES: list[tuple[tuple[int, ...], int]] = [
    ((1, 1), 0),
    ((1, 1), 1),
    ((1, 1), -1),
    ((3, 3), 0),
    ((3, 3), 1),
    ((3, 3), -2),
    ((3, 3), 3),
    ((3, 3), -3),
    ((3, 3), 2**40),
    ((3, 3), -(2**40)),
    ((3, 7), 0),
    ((3, 7), 2),
    ((3, 7), -1),
    ((7, 3), 0),
    ((7, 3), -2),
    ((7, 3), 1),
    ((1, 257), 100),
    ((257, 1), -100),
    ((2, 5, 5), 0),
    ((2, 3, 4, 5), -1),
    ((2, 1, 5, 4), 1),
    ((31, 33), 5),
    ((33, 31), -5),
]


def _triangle(name: str) -> Op:
    call = getattr(ag, name)
    return Op(
        name=name,
        call=call,
        numpy=getattr(np, name),
        torch=lambda torch, x, k=0: getattr(torch, name)(x, max(-(2**20), min(k, 2**20))),
        samples=[*each(normal, [(1, 1), (3, 7), (2, 3, 5, 5)]), *_samples("k", TRIANGLES)],
        smooth=True,
        generate=_halved,
        special=[Sample((_square_special(),), {"k": k}) for k in (0, 2, -3)],
        errors=[
            *unary_errors(name, call),
            Error(lambda m: call(m(3)), ValueError, (name, "(3,)", "two dimensions")),
            Error(lambda m: call(m()), ValueError, (name, "()")),
            Error(lambda m: call(m(2, 3), 1.0), TypeError, (name, "k", "1.0")),
            Error(lambda m: call(m(2, 3), True), TypeError, (name, "k", "True")),
            Error(lambda m: call(m(2, 3), None), TypeError, (name, "k", "None")),
        ],
        rtol=0.0,
    )


OPS: list[Op] = [
    Op(
        name="flip",
        call=ag.flip,
        numpy=_numpy_axes(np.flip),
        torch=_torch_flip,
        samples=[
            *each(normal),
            *_samples(
                "axis",
                [
                    ((5,), 0),
                    ((3, 7), 0),
                    ((3, 7), -1),
                    ((3, 7), ()),
                    ((2, 3, 5), [2, 0]),
                    ((2, 3, 4, 5), 1),
                    ((2, 3, 4, 5), (1, -1)),
                    ((31, 33), 1),
                ],
            ),
            Sample((normal(4867, 3),), {"axis": 0}),  # so long that it goes by blocks
            Sample((normal(2, 5120),), {"axis": 1}),
            Sample((_ints(3, 5),)),
            Sample((_ints(2, 600),), {"axis": 0}),
        ],
        smooth=True,
        generate=_turned,
        special=[Sample((SPECIAL,))],
        errors=[
            *wrong_operands("flip", ag.flip, lambda m: m(2, 3), ints=False),
            *axes_errors("flip", ag.flip),
        ],
        rtol=0.0,
    ),
    Op(
        name="roll",
        call=ag.roll,
        numpy=_numpy_roll,
        torch=_torch_roll,
        samples=[
            Sample((values,), {"shift": shift, "axis": axis})
            for values, shift, axis in [
                (normal(), 3, None),
                (normal(1), 1, 0),
                (normal(5), 2, None),
                (normal(5), -2, 0),
                (normal(5), 5, 0),
                (normal(5), 12, -1),
                (normal(3, 7), 4, None),
                (normal(3, 7), 1, 0),
                (normal(3, 7), (1, -2), (0, 1)),
                (normal(3, 7), (1, 2), [1, 1]),
                (normal(2, 3, 5), 2, (0, 1, 2)),
                (normal(2, 3, 4, 5), [1, 2], (2, -1)),
                (normal(31, 33), 10**30, 1),
                (_ints(3, 5), 2, 1),
            ]
        ],
        smooth=True,
        generate=_rolled,
        special=[Sample((SPECIAL,), {"shift": 4})],
        errors=[
            *wrong_operands("roll", lambda x: ag.roll(x, 1, 0), lambda m: m(2, 3), ints=False),
            Error(lambda m: ag.roll(m(2, 3), 1, 2), IndexError, ("roll", "axis 2", "2 dimensions")),
            Error(lambda m: ag.roll(m(2, 3), 1, -3), IndexError, ("roll", "axis -3")),
            Error(lambda m: ag.roll(m(), 1, 0), IndexError, ("roll", "axis 0", "0 dimensions")),
            Error(lambda m: ag.roll(m(2, 3), 1, 1.0), TypeError, ("roll", "1.0")),
            Error(lambda m: ag.roll(m(2, 3), 1.5, 0), TypeError, ("roll", "1.5")),
            Error(lambda m: ag.roll(m(2, 3), True, 0), TypeError, ("roll", "True")),
            Error(lambda m: ag.roll(m(2, 3), None, 0), TypeError, ("roll", "None")),
            Error(lambda m: ag.roll(m(2, 3), (1, 2), 0), ValueError, ("roll", "2 shifts", "1 axes")),
            Error(lambda m: ag.roll(m(2, 3), (1, 2)), ValueError, ("roll", "2 shifts", "None")),
        ],
        rtol=0.0,
    ),
    Op(
        name="repeat",
        call=lambda x, times: ag.repeat(x, *times),
        numpy=lambda x, times: np.tile(x, reps=times),
        torch=lambda torch, x, times: x.repeat(times),
        samples=[
            *_samples(
                "times",
                [
                    ((), ()),
                    ((), (3,)),
                    ((1,), (5,)),
                    ((5,), (1,)),
                    ((5,), (2, 3)),
                    ((3, 7), (2, 1)),
                    ((3, 7), (1, 2)),
                    ((2, 3, 5), (2, 3, 2)),
                    ((2, 3, 5), (2, 1, 2, 1)),
                    ((2, 1, 3, 2), (1, 3, 2, 2)),
                    ((31, 33), (2, 3)),
                ],
            ),
            Sample((_ints(3, 5),), {"times": (2, 1, 3)}),
        ],
        smooth=True,
        generate=_repeated,
        special=[Sample((SPECIAL,), {"times": (2, 3)})],
        errors=[
            *wrong_operands("repeat", lambda x: ag.repeat(x, 2, 1), lambda m: m(2, 3), ints=False),
            Error(lambda m: ag.repeat(m(2, 3), 2), ValueError, ("repeat", "(2, 3)", "from 2 to 4", "(2,)")),
            Error(lambda m: ag.repeat(m(2, 3), 1, 1, 1, 1, 1), ValueError, ("repeat", "(2, 3)", "from 2 to 4")),
            Error(lambda m: ag.repeat(m(3), 0), ValueError, ("repeat", "(3,)", "from 1", "(0,)")),
            Error(lambda m: ag.repeat(m(3), -1), ValueError, ("repeat", "(-1,)")),
            Error(lambda m: ag.repeat(m(3), 2**31), ValueError, ("repeat", str(2**31))),
            Error(lambda m: ag.repeat(m(3), 1.0), TypeError, ("repeat", "1.0")),
            Error(lambda m: ag.repeat(m(3), True), TypeError, ("repeat", "True")),
            Error(lambda m: ag.repeat(m(3), (1, None)), TypeError, ("repeat", "None")),
        ],
        rtol=0.0,
    ),
    _triangle("tril"),
    _triangle("triu"),
    Op(
        name="diag",
        call=ag.diag,
        numpy=np.diag,
        torch=lambda torch, x, k=0: torch.diag(x, k),
        samples=[
            *each(normal, [(1,), (5,), (3, 3), (1, 1), (7, 3)]),
            *_samples(
                "k",
                [
                    ((1,), 2),
                    ((5,), 1),
                    ((5,), -2),
                    ((33,), 0),
                    ((3, 7), 0),
                    ((3, 7), 5),
                    ((3, 7), -2),
                    ((7, 3), -4),
                    ((31, 33), 3),
                ],
            ),
            Sample((_ints(3, 5),), {"k": 1}),
        ],
        smooth=True,
        generate=_diagonals,
        special=[Sample((SPECIAL,), {"k": k}) for k in (0, 1)],
        errors=[
            *wrong_operands("diag", ag.diag, lambda m: m(2, 3), ints=False),
            Error(lambda m: ag.diag(m.ints(3)), TypeError, ("diag", "(3,)", "int32", "astype")),
            Error(lambda m: ag.diag(m()), ValueError, ("diag", "()", "neither")),
            Error(lambda m: ag.diag(m(2, 3, 4)), ValueError, ("diag", "(2, 3, 4)", "neither")),
            Error(lambda m: ag.diag(m(2, 3), 3), ValueError, ("diag", "(2, 3)", "diagonal 3")),
            Error(lambda m: ag.diag(m(2, 3), -2), ValueError, ("diag", "(2, 3)", "diagonal -2")),
            Error(lambda m: ag.diag(m(3), 2**31), ValueError, ("diag", "k", str(2**31))),
            Error(lambda m: ag.diag(m(3), 1.0), TypeError, ("diag", "k", "1.0")),
            Error(lambda m: ag.diag(m(3), True), TypeError, ("diag", "k", "True")),
        ],
        rtol=0.0,
    ),
]


def _matrix(c: Calls) -> Any:
    return c.operand(c.one_of((*c.shape(2), 3, 5), (5, 1), c.shape()))


def _shift(c: Calls) -> Any:
    return c.one_of(1, -1, c.integer(), (1, 2), [1, -1], 1.5, None)


def _times(c: Calls) -> Any:
    usual = [c.one_of(1, 1, 2, 3) for _ in range(c.random.randint(1, 4))]
    return c.one_of(usual, usual, tuple(usual), c.extents())


CALLS: Makers = {
    "flip": lambda c: (ag.flip, c.operand(), c.axis()),
    "roll": lambda c: (ag.roll, c.operand(), _shift(c), c.axis()),
    "repeat": lambda c: (ag.repeat, c.operand(c.shape(3)), _times(c)),
    "tril": lambda c: (ag.tril, _matrix(c), c.one_of(0, c.integer(), 1.0)),
    "triu": lambda c: (ag.triu, _matrix(c), c.one_of(0, c.integer(), None)),
    "diag": lambda c: (ag.diag, c.operand(c.shape(2)), c.one_of(0, 1, c.integer(), "a")),
}
