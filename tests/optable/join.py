"""Putting tensors together, taking them apart, padding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import ggmlpy_ag as ag

from .calls import Calls, Makers
from .table import DEVICES, SPECIAL, Draw, Error, Op, Sample, arrays, axis_errors, normal, wrong_operands

FLAT_SPECIAL = SPECIAL.reshape(1, -1)


def _ints(*shape: int, start: int = -3) -> np.ndarray:
    return np.arange(start, start + math.prod(shape), dtype=np.int32).reshape(shape)


def _join(*tensors: Any, axis: int = 0) -> ag.Tensor:
    return ag.concat(tensors, axis)


def _stack(*tensors: Any, axis: int = 0) -> ag.Tensor:
    return ag.stack(tensors, axis)


def _list_errors(name: str, call: Any) -> list[Error]:
    """`call(tensors)`, of two or more tensors."""
    return [
        *wrong_operands(name, lambda a, b: call([a, b]), *[lambda m: m(2, 3)] * 2, ints=False, named=False),
        Error(lambda m: call([m(2, 3), m.ints(2, 3)]), TypeError, (name, "int32", "float32", "astype")),
        Error(lambda m: call([m.ints(2, 3), np.ones((2, 3))]), TypeError, (name, "int32", "float32", "astype")),
        Error(lambda m: call([m(2, 3), 10**400]), ValueError, ("too large",)),
        Error(lambda m: call([]), ValueError, (name, "at least one tensor")),
        Error(lambda m: call(m(2, 3)), TypeError, (name, "sequence", "(2, 3)")),
        Error(lambda m: call(None), TypeError, (name, "None")),
        Error(lambda m: call(3), TypeError, (name, "3")),
        Error(lambda m: call([m(2), m.elsewhere(2)]), ValueError, (name, *DEVICES[:2], ".to("), devices=2),
        Error(lambda m: call([m.ints(2), m.elsewhere(2).astype("int32")]), ValueError, (name, *DEVICES[:2]), devices=2),
    ]


# ---------------------------------------------------------------- pieces


def _rejoined(pieces: Sequence[Any], axis: int, concat: Any) -> Any:
    """All pieces, in another order, so that each one counts."""
    return concat(pieces[::-1], axis)


def _split(x: Any, sizes: Any, axis: int = 0) -> ag.Tensor:
    return _rejoined(ag.split(x, sizes, axis), axis, ag.concat)


def _numpy_split(x: np.ndarray, sizes: Any, axis: int = 0) -> np.ndarray:
    step = [sizes] * (x.shape[axis] // sizes) if isinstance(sizes, int) else list(sizes)[:-1]
    return _rejoined([v for v in np.split(x, np.cumsum(step), axis) if v.size], axis, np.concatenate)


def _torch_split(torch: Any, x: Any, sizes: Any, axis: int = 0) -> Any:
    return _rejoined(torch.split(x, sizes if isinstance(sizes, int) else list(sizes), axis), axis, torch.cat)


def _chunk(x: Any, chunks: int, axis: int = 0) -> ag.Tensor:
    return _rejoined(ag.chunk(x, chunks, axis), axis, ag.concat)


def _numpy_chunk(x: np.ndarray, chunks: int, axis: int = 0) -> np.ndarray:
    return _numpy_split(x, -(-x.shape[axis] // chunks), axis)


# ---------------------------------------------------------------- padding


def _numpy_pad(x: np.ndarray, widths: Any, mode: str = "constant", value: float = 0.0) -> np.ndarray:
    if not widths:
        return x
    return np.pad(x, widths, mode="reflect") if mode == "reflect" else np.pad(x, widths, constant_values=value)


def _torch_pad(torch: Any, x: Any, widths: Any, mode: str = "constant", value: float = 0.0) -> Any:
    if mode == "constant":
        return torch.nn.functional.pad(x, [w for pair in reversed(widths) for w in pair], value=value)
    for axis, pair in enumerate(widths):  # PyTorch's own reflects the last dimensions of some shapes only
        x = x.index_select(axis, torch.tensor(np.pad(np.arange(x.shape[axis]), pair, mode="reflect")))
    return x


# ---------------------------------------------------------------- random samples


def _several(draw: Draw) -> Sample:
    shape, axis = list(draw.shape(1)), 0
    axis = draw.axis(len(shape))
    tensors = []
    for _ in range(draw.integer(1, 5)):
        shape[axis] = draw.integer(1, 4)
        tensors.append(draw.floats(normal, *shape))
    return Sample(tuple(tensors), {"axis": axis})


def _layers(draw: Draw) -> Sample:
    shape = draw.shape(0, 3)
    return Sample(
        tuple(draw.floats(normal, *shape) for _ in range(draw.integer(1, 5))), {"axis": draw.axis(len(shape) + 1)}
    )


def _sizes(draw: Draw) -> Sample:
    shape = draw.shape(1)
    axis = draw.axis(len(shape))
    sizes, left = [], shape[axis]
    while left:
        sizes.append(draw.integer(1, left))
        left -= sizes[-1]
    return Sample((draw.floats(normal, *shape),), {"sizes": draw.one_of((tuple(sizes), sizes[0])), "axis": axis})


def _chunks(draw: Draw) -> Sample:
    shape = draw.shape(1)
    return Sample((draw.floats(normal, *shape),), {"chunks": draw.integer(1, 7), "axis": draw.axis(len(shape))})


def _padding(draw: Draw) -> Sample:
    shape = draw.shape()
    mode = draw.one_of(("constant", "reflect"))
    most = [n - 1 if mode == "reflect" else 3 for n in shape]
    widths = [(draw.integer(0, min(n, 4)), draw.integer(0, min(n, 4))) for n in most]
    options = {"widths": widths, "mode": mode}
    if mode == "constant":
        options["value"] = draw.one_of((0.0, 0.0, -1.5, math.inf, -math.inf, math.nan))
    return Sample((draw.floats(normal, *shape),), options)


PADDINGS: list[tuple[tuple[int, ...], Any]] = [
    ((), []),
    ((1,), [(0, 1)]),
    ((5,), [(0, 0)]),
    ((5,), [(2, 1)]),
    ((3, 7), [(1, 0), (0, 2)]),
    ((3, 7), [(0, 0), (3, 3)]),
    ((2, 3, 5), [(1, 1), (0, 0), (1, 0)]),
    ((2, 1, 3, 5), [(1, 2), (0, 1), (2, 0), (1, 1)]),
    ((2, 3, 4, 5), [(0, 0), (0, 0), (1, 2), (3, 1)]),
    ((31, 33), [(1, 1), (1, 1)]),
]
REFLECTIONS: list[tuple[tuple[int, ...], Any]] = [
    ((1,), [(0, 0)]),
    ((2,), [(1, 1)]),
    ((5,), [(4, 4)]),  # each element but the ends is met three times
    ((5,), [(2, 0)]),
    ((3, 7), [(2, 1), (0, 6)]),
    ((2, 3, 5), [(1, 0), (0, 0), (1, 3)]),
    ((2, 3, 3, 4), [(1, 1), (0, 2), (2, 0), (1, 3)]),
    ((31, 33), [(5, 4), (0, 32)]),
]


OPS: list[Op] = [
    Op(
        name="concat",
        call=_join,
        numpy=lambda *tensors, axis=0: np.concatenate(tensors, axis),
        torch=lambda torch, *tensors, axis=0: torch.cat(tensors, axis),
        samples=[
            arrays(normal, (5,)),
            arrays(normal, (1,), (2,)),
            arrays(normal, (5,), (3,), (1,), (2,), (4,)),
            arrays(normal, (3, 7), (1, 7)),
            arrays(normal, (3, 7), (3, 1), (3, 2), axis=1),
            arrays(normal, (2, 3, 5), (2, 1, 5), (2, 4, 5), axis=-2),
            arrays(normal, (2, 3, 4, 5), (1, 3, 4, 5)),
            arrays(normal, (2, 3, 4, 5), (2, 3, 4, 1), axis=3),
            arrays(normal, *[(1, 3)] * 17),
            arrays(normal, (31, 33), (31, 257), axis=1),
            Sample((_ints(2, 3), _ints(1, 3, start=2**31 - 3))),
            Sample((_ints(2, 3), _ints(2, 2), _ints(2, 1, start=-(2**31))), {"axis": 1}),
        ],
        smooth=True,
        generate=_several,
        special=[Sample((FLAT_SPECIAL, FLAT_SPECIAL, FLAT_SPECIAL), {"axis": axis}) for axis in (0, 1)],
        errors=[
            *_list_errors("concat", ag.concat),
            *axis_errors("concat", lambda x, axis: ag.concat([x, x], axis)),
            Error(lambda m: ag.concat([m(2, 3), m(2, 4)]), ValueError, ("concat", "tensor 1", "(2, 4)", "(2, 3)")),
            Error(lambda m: ag.concat([m(2, 3), m(2)]), ValueError, ("concat", "tensor 1", "(2,)", "(2, 3)")),
            Error(lambda m: ag.concat([m(2), m(2), m(2, 3)]), ValueError, ("concat", "tensor 2", "(2, 3)")),
        ],
        rtol=0.0,
    ),
    Op(
        name="stack",
        call=_stack,
        numpy=lambda *tensors, axis=0: np.stack(tensors, axis),
        torch=lambda torch, *tensors, axis=0: torch.stack(tensors, axis),
        samples=[
            arrays(normal, ()),
            arrays(normal, (), (), ()),
            arrays(normal, (5,), (5,)),
            arrays(normal, (5,), (5,), (5,), axis=1),
            arrays(normal, (3, 7), (3, 7), axis=1),
            arrays(normal, (2, 3, 5), (2, 3, 5), axis=-1),
            arrays(normal, (2, 3, 5), (2, 3, 5), (2, 3, 5), axis=-4),
            arrays(normal, (31, 33), (31, 33), axis=2),
            Sample((_ints(2, 3), _ints(2, 3, start=2**31 - 6)), {"axis": 1}),
        ],
        smooth=True,
        generate=_layers,
        special=[Sample((SPECIAL, SPECIAL, SPECIAL), {"axis": axis}) for axis in (0, 1)],
        errors=[
            *_list_errors("stack", ag.stack),
            Error(lambda m: ag.stack([m(2, 3), m(3, 2)]), ValueError, ("stack", "tensor 1", "(3, 2)", "(2, 3)")),
            Error(lambda m: ag.stack([m(2)], 2), IndexError, ("stack", "axis 2", "2 dimensions")),
            Error(lambda m: ag.stack([m(2)], -3), IndexError, ("stack", "axis -3")),
            Error(lambda m: ag.stack([m(2)], 1.0), TypeError, ("stack", "1.0")),
            Error(lambda m: ag.stack([m(1, 1, 2, 3)] * 2), ValueError, ("stack", "more than 4")),
        ],
        rtol=0.0,
    ),
    Op(
        name="split",
        call=_split,
        numpy=_numpy_split,
        torch=_torch_split,
        samples=[
            Sample((values,), {"sizes": sizes, "axis": axis})
            for values, sizes, axis in [
                (normal(1), 1, 0),
                (normal(5), 2, 0),
                (normal(5), 9, -1),
                (normal(5), (1, 4), 0),
                (normal(3, 7), [2, 3, 2], 1),
                (normal(3, 7), 2, -2),
                (normal(2, 3, 5), 2, 2),
                (normal(2, 3, 4, 5), (1, 2), 1),
                (normal(31, 33), (16, 17), 1),
                (_ints(2, 6), (1, 2, 3), 1),
            ]
        ],
        smooth=True,
        generate=_sizes,
        errors=[
            *wrong_operands("split", lambda x: ag.split(x, 1), lambda m: m(2, 3), ints=False),
            *axis_errors("split", lambda x, axis: ag.split(x, 1, axis)),
            Error(lambda m: ag.split(m(2, 3), 0), ValueError, ("split", "at least 1", "0")),
            Error(lambda m: ag.split(m(2, 3), -1), ValueError, ("split", "at least 1", "-1")),
            Error(lambda m: ag.split(m(5), (2, 2)), ValueError, ("split", "add up to 5", "(5,)", "(2, 2)")),
            Error(lambda m: ag.split(m(5), (5, 0)), ValueError, ("split", "positive", "(5, 0)")),
            Error(lambda m: ag.split(m(5), (6, -1)), ValueError, ("split", "positive", "(6, -1)")),
            Error(lambda m: ag.split(m(5), ()), ValueError, ("split", "()")),
            Error(lambda m: ag.split(m(5), 2.0), TypeError, ("split", "2.0")),
            Error(lambda m: ag.split(m(5), (2, 3.0)), TypeError, ("split", "3.0")),
            Error(lambda m: ag.split(m(5), True), TypeError, ("split", "True")),
            Error(lambda m: ag.split(m(5), None), TypeError, ("split", "None")),
        ],
        rtol=0.0,
    ),
    Op(
        name="chunk",
        call=_chunk,
        numpy=_numpy_chunk,
        torch=lambda torch, x, chunks, axis=0: _rejoined(torch.chunk(x, chunks, axis), axis, torch.cat),
        samples=[
            Sample((values,), {"chunks": chunks, "axis": axis})
            for values, chunks, axis in [
                (normal(1), 1, 0),
                (normal(5), 2, 0),
                (normal(6), 4, 0),
                (normal(5), 9, -1),
                (normal(3, 7), 3, 1),
                (normal(2, 3, 5), 2, -1),
                (normal(2, 3, 4, 5), 4, 2),
                (normal(31, 33), 2, 1),
                (_ints(6, 2), 3, 0),
            ]
        ],
        smooth=True,
        generate=_chunks,
        errors=[
            *wrong_operands("chunk", lambda x: ag.chunk(x, 1), lambda m: m(2, 3), ints=False),
            *axis_errors("chunk", lambda x, axis: ag.chunk(x, 1, axis)),
            Error(lambda m: ag.chunk(m(2, 3), 0), ValueError, ("chunk", "at least 1", "0")),
            Error(lambda m: ag.chunk(m(2, 3), -2), ValueError, ("chunk", "at least 1", "-2")),
            Error(lambda m: ag.chunk(m(5), 2.0), TypeError, ("chunk", "2.0")),
            Error(lambda m: ag.chunk(m(5), True), TypeError, ("chunk", "True")),
            Error(lambda m: ag.chunk(m(5), (2, 3)), TypeError, ("chunk", "(2, 3)")),
        ],
        rtol=0.0,
    ),
    Op(
        name="pad",
        call=ag.pad,
        numpy=_numpy_pad,
        torch=_torch_pad,
        samples=[
            *[Sample((normal(*shape),), {"widths": widths}) for shape, widths in PADDINGS],
            *[
                Sample((normal(*shape),), {"widths": widths, "value": value})
                for (shape, widths), value in zip(
                    PADDINGS[3:], (-1.5, 0.25, 7, True, -0.5, 64, np.float16(3)), strict=True
                )
            ],
            *[Sample((normal(*shape),), {"widths": widths, "mode": "reflect"}) for shape, widths in REFLECTIONS],
            *[
                Sample((_ints(3, 5, start=2**31 - 15),), {"widths": [(1, 2), (0, 3)], **options})
                for options in ({}, {"value": -(2**31)}, {"mode": "reflect"})
            ],
        ],
        smooth=True,
        generate=_padding,
        special=[
            Sample((FLAT_SPECIAL,), {"widths": [(1, 0), (2, 1)], **options})
            for options in ({}, *({"value": v} for v in (math.inf, -math.inf, math.nan, 0.75 * 2**-130, 2.0**100)))
        ]
        + [Sample((SPECIAL,), {"widths": [(3, 5)], "mode": "reflect"})],
        errors=[
            *wrong_operands("pad", lambda x: ag.pad(x, [(1, 1), (1, 1)]), lambda m: m(2, 3), ints=False),
            Error(lambda m: ag.pad(m(2, 3), [(1, 1)]), ValueError, ("pad", "(2, 3)", "2 pairs")),
            Error(lambda m: ag.pad(m(3), [(1, -1)]), ValueError, ("pad", "(3,)", "from 0", "-1")),
            Error(lambda m: ag.pad(m(3), [(1, 1, 1)]), ValueError, ("pad", "(3,)")),
            Error(lambda m: ag.pad(m(3), [(1, 2**31)]), ValueError, ("pad", str(2**31))),
            Error(lambda m: ag.pad(m(3), [(1.0, 1)]), TypeError, ("pad", "1.0")),
            Error(lambda m: ag.pad(m(3), 1), TypeError, ("pad", "1")),
            Error(lambda m: ag.pad(m(3), [1]), TypeError, ("pad", "1")),
            Error(lambda m: ag.pad(m(3), [(1, 1)], "wrap"), ValueError, ("pad", "mode", "'wrap'")),
            Error(lambda m: ag.pad(m(3), [(1, 1)], None), ValueError, ("pad", "mode", "None")),
            Error(lambda m: ag.pad(m(3), [(1, 1)], value="one"), TypeError, ("pad", "value", "str")),
            Error(lambda m: ag.pad(m(3), [(1, 1)], value=m(1)), TypeError, ("pad", "value", "Tensor")),
            Error(lambda m: ag.pad(m.ints(3), [(1, 1)], value=0.5), TypeError, ("pad", "value", "int32")),
            Error(lambda m: ag.pad(m.ints(3), [(1, 1)], value=2**31), ValueError, ("pad", "value", "int32")),
            Error(lambda m: ag.pad(m(2, 3), [(0, 1), (3, 0)], "reflect"), ValueError, ("pad", "(3, 0)", "at most 2")),
            Error(lambda m: ag.pad(m(1), [(0, 1)], "reflect"), ValueError, ("pad", "(0, 1)", "at most 0", "(1,)")),
        ],
        rtol=0.0,
    ),
]


def _widths(c: Calls, operand: Any) -> Any:
    def width() -> Any:
        return c.one_of(0, 0, 1, 2, 3, c.integer(), 1.5)

    n = c.one_of(np.ndim(operand), np.ndim(operand), 1) if isinstance(operand, ag.Tensor) else 2
    usual = [(c.one_of(0, 1, 2), c.one_of(0, 1)) for _ in range(n)]
    return c.one_of(usual, usual, [(width(), width()) for _ in range(n)], 1, [1], [(1,)], None, "ab")


def _some(c: Calls) -> Any:
    shape = c.shape()
    ints = [ag.tensor(c.normal.integers(-3, 9, shape).astype(np.int32)) for _ in range(2)]
    alike = [c.operand(shape) for _ in range(c.random.randint(1, 4))]
    return c.one_of(alike, alike, alike, tuple(alike), ints, [*ints, c.operand()], [], None, c.operand(), 3)


def _piece(cut: Any) -> Any:
    return lambda x, sizes, axis: cut(x, sizes, axis)[-1]


CALLS: Makers = {
    "pad": lambda c: (
        ag.pad,
        x := c.operand(),
        _widths(c, x),
        c.one_of("constant", "constant", "constant", "reflect", "wrap", None),
        c.one_of(0.0, 0.0, 0, -1.5, -math.inf, c.number()),
    ),
    "concat": lambda c: (ag.concat, _some(c), c.one_of(0, 0, 1, -1, c.axis())),
    "stack": lambda c: (ag.stack, _some(c), c.one_of(0, 0, 1, -1, c.axis())),
    "split": lambda c: (
        _piece(ag.split),
        c.operand(),
        c.one_of(1, 2, 3, (1, 2), [2, 1], c.integer(), c.extents(), 1.5),
        c.one_of(0, -1, c.axis()),
    ),
    "chunk": lambda c: (_piece(ag.chunk), c.operand(), c.one_of(1, 2, 3, c.integer(), None), c.one_of(0, -1, c.axis())),
}
