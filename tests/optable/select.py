"""Selecting by index."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import ggmlpy_ag as ag

from .calls import Calls, Makers
from .table import DEVICES, Draw, Error, Maker, Op, Sample, axis_errors, normal, rng, wrong_operands

Shape = tuple[int, ...]


def _indices(n: int, *shape: int) -> np.ndarray:
    return np.asarray(rng.integers(0, n, shape), np.int32)


# ---------------------------------------------------------------- references, place by place


def _gather(x: np.ndarray, index: np.ndarray, axis: int) -> np.ndarray:
    out = np.empty(index.shape, x.dtype)
    for place in np.ndindex(*index.shape):
        out[place] = x[_moved(place, axis, index[place])]
    return out


def _scatter_add(x: np.ndarray, index: np.ndarray, src: np.ndarray, axis: int) -> np.ndarray:
    out = np.array(x)
    for place in np.ndindex(*index.shape):
        out[_moved(place, axis, index[place])] += src[place]
    return out


def _moved(place: Shape, axis: int, to: int) -> Shape:
    axis %= len(place)
    return (*place[:axis], int(to), *place[axis + 1 :])


def _torch_take(torch: Any, x: Any, indices: Any, axis: int = 0) -> Any:
    axis %= x.ndim
    if not isinstance(indices, torch.Tensor):
        indices = torch.tensor(indices)
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    return torch.index_select(x, axis, indices.reshape(-1)).reshape(shape)


# ---------------------------------------------------------------- samples

TAKEN: list[tuple[Shape, Shape, int]] = [
    ((1,), (1,), 0),
    ((5,), (), 0),
    ((5,), (7,), 0),
    ((5,), (2, 3), -1),
    ((3, 7), (4,), 0),
    ((3, 7), (2, 2), 1),
    ((2, 3, 5), (4,), 1),
    ((2, 1, 3, 5), (6,), 2),
    ((2, 1, 3, 5), (), -4),
    ((31, 33), (40,), 0),
    ((31, 33), (5,), 1),
]
EMBEDDED: list[tuple[Shape, Shape]] = [
    ((), (5, 3)),
    ((1,), (1, 1)),
    ((7,), (5, 3)),
    ((2, 3), (4, 1)),
    ((2, 1, 3), (3, 7)),
    ((40,), (31, 33)),
]
ALONG: list[tuple[Shape, Shape, int]] = [
    ((1,), (1,), 0),
    ((5,), (7,), 0),
    ((3, 7), (3, 2), 1),
    ((3, 7), (5, 7), 0),
    ((3, 7), (2, 4), -1),
    ((2, 3, 5), (2, 4, 5), 1),
    ((2, 3, 5), (1, 2, 9), -1),
    ((2, 1, 3, 4), (2, 1, 5, 4), 2),
    ((2, 1, 3, 4), (3, 1, 2, 4), 0),
    ((31, 33), (31, 5), 1),
    ((33, 5), (40, 3), 0),
]
HOST: list[tuple[np.ndarray, Any]] = [
    (np.arange(6, dtype=np.int32).reshape(3, 2), [2, 0, 0]),
    (np.array([-(2**31), 2**31 - 1, 2**24 + 1, -1], np.int32), [[3, 1], [0, 2]]),
]


def _take(draw: Draw) -> Sample:
    shape = draw.shape(least=1)
    axis = draw.axis(len(shape))
    index = draw.shape(most=4 - len(shape) + 1, high=4)
    return Sample((draw.floats(normal, *shape), draw.indices(shape[axis], *index)), {"axis": axis})


def _embed(draw: Draw) -> Sample:
    n, columns = draw.integer(1, 6), draw.integer(1, 33)
    return Sample((draw.indices(n, *draw.shape(most=3, high=4)), draw.floats(normal, n, columns)))


def _along(draw: Draw) -> tuple[Shape, Shape, int]:
    shape = draw.shape(least=1, high=5)
    axis = draw.axis(len(shape))
    at = axis % len(shape)
    where = tuple(draw.integer(1, 6) if i == at else draw.integer(max(1, n - 1), n) for i, n in enumerate(shape))
    return shape, where, axis


def _gathered(draw: Draw) -> Sample:
    shape, where, axis = _along(draw)
    return Sample((draw.floats(normal, *shape), draw.indices(shape[axis], *where)), {"axis": axis})


def _scattered(draw: Draw) -> Sample:
    shape, where, axis = _along(draw)
    src = tuple(n + draw.integer(0, 1) for n in where)
    index = draw.indices(shape[axis], *where)
    return Sample((draw.floats(normal, *shape), index, draw.floats(normal, *src)), {"axis": axis})


def _hot(draw: Draw) -> Sample:
    n = draw.one_of((1, 2, 5, 300))
    return Sample((draw.indices(n, *draw.shape(most=3, high=4)),), {"n": n})


# ---------------------------------------------------------------- errors


def index_errors(name: str, call: Callable[[Maker, Any], Any], n: int) -> list[Error]:
    """`call(maker, indices)`, of which those from 0 to n - 1 are right, in one dimension."""
    below = f"[0, {n})"
    return [
        Error(lambda m: call(m, [0, n]), IndexError, (name, str(n), "(1,)", below)),
        Error(lambda m: call(m, [-1, 0]), IndexError, (name, "-1", "(0,)", below)),
        Error(lambda m: call(m, [0, 2**40]), IndexError, (name, str(2**40), below)),
        Error(lambda m: call(m, np.array([2**63], np.uint64)), IndexError, (name, below)),
        Error(lambda m: call(m, m.ints(n + 1)), IndexError, (name, str(n), below)),
        Error(lambda m: call(m, m.ints(3) - 1 if n < 0 else ag.tensor([-1])), IndexError, (name, "-1", below)),
        Error(lambda m: call(m, [0.0]), TypeError, (name, "indices", "integers", "float64")),
        Error(lambda m: call(m, [True]), TypeError, (name, "integers", "bool")),
        Error(lambda m: call(m, [10**30]), TypeError, (name, "integers", "object")),
        Error(lambda m: call(m, None), TypeError, (name, "integers")),
        Error(lambda m: call(m, "a"), TypeError, (name, "integers")),
        Error(lambda m: call(m, []), TypeError, (name, "integers")),
        Error(lambda m: call(m, [[0], [0, 0]]), ValueError, (name, "regular")),
        Error(lambda m: call(m, np.zeros((0,), int)), ValueError, (name, "indices", "(0,)", "at least one element")),
        Error(lambda m: call(m, m(2)), TypeError, (name, "indices", "int32", "float32")),
        Error(lambda m: call(m, np.zeros((1, 1, 1, 1, 1), int)), ValueError, (name, "at most 4")),
    ]


def _elsewhere(name: str, call: Callable[[Maker, Any], Any]) -> Error:
    def other(m: Maker) -> Any:
        return call(m, ag.tensor([0], device=next(d for d in DEVICES if d != ag.device().name)))

    return Error(other, ValueError, (name, *DEVICES[:2], ".to("), devices=2)


OPS: list[Op] = [
    Op(
        name="take",
        call=ag.take,
        numpy=lambda x, indices, axis=0: np.take(x, indices, axis),
        torch=_torch_take,
        samples=[
            *(Sample((normal(*shape), _indices(shape[axis], *where)), {"axis": axis}) for shape, where, axis in TAKEN),
            Sample((normal(3, 4), np.zeros(9, np.int32))),
            Sample((normal(3, 4), [2, 0, 2])),
            Sample((normal(3, 4), 1), {"axis": 1}),
            *(Sample((table, index)) for table, index in HOST),
            Sample((_indices(99, 4, 1030), [3, 1])),  # rows that Vulkan's kernel copies a part of
        ],
        generate=_take,
        smooth=True,
        keeps=(0, 1 / 33),
        errors=[
            *wrong_operands("take", lambda x: ag.take(x, [0]), lambda m: m(2, 3), ints=False),
            *axis_errors("take", lambda x, axis: ag.take(x, [0], axis)),
            *index_errors("take", lambda m, index: ag.take(m(3, 2), index), 3),
            _elsewhere("take", lambda m, index: ag.take(m(3, 2), index)),
            Error(lambda m: ag.take(m(1, 1, 1, 2), [[0]]), ValueError, ("take", "more than 4")),
        ],
    ),
    Op(
        name="embedding",
        call=ag.embedding,
        numpy=lambda indices, weight: weight[indices],
        torch=lambda torch, indices, weight: torch.nn.functional.embedding(torch.as_tensor(indices), weight),
        samples=[
            *(Sample((_indices(shape[0], *where), normal(*shape))) for where, shape in EMBEDDED),
            Sample((np.full((3, 3), 2, np.int32), normal(4, 5))),
            Sample(([1, 0, 1], normal(2, 3))),
        ],
        generate=_embed,
        smooth=True,
        keeps=(0, 1 / 33),
        errors=[
            *wrong_operands("embedding", lambda w: ag.embedding([0], w), lambda m: m(2, 3), ints=False),
            *index_errors("embedding", lambda m, index: ag.embedding(index, m(3, 2)), 3),
            _elsewhere("embedding", lambda m, index: ag.embedding(index, m(3, 2))),
            Error(lambda m: ag.embedding([0], m(3)), ValueError, ("embedding", "weight", "(3,)")),
            Error(
                lambda m: ag.embedding(np.zeros((1, 1, 1, 1), int), m(3, 2)), ValueError, ("embedding", "more than 4")
            ),
        ],
    ),
    Op(
        name="gather",
        call=lambda x, index, axis: ag.gather(x, axis, index),
        numpy=_gather,
        torch=lambda torch, x, index, axis: torch.gather(x, axis, index),
        samples=[
            *(Sample((normal(*shape), _indices(shape[axis], *where)), {"axis": axis}) for shape, where, axis in ALONG),
            Sample((normal(3, 4), np.full((3, 6), 2, np.int32)), {"axis": 1}),
            Sample((_indices(99, 3, 4), _indices(3, 5, 4)), {"axis": 0}),
        ],
        generate=_gathered,
        smooth=True,
        keeps=(0, 1),
        errors=[
            *wrong_operands("gather", lambda x: ag.gather(x, 1, [[0]]), lambda m: m(2, 3), ints=False),
            *axis_errors("gather", lambda x, axis: ag.gather(x, axis, [[0]])),
            *index_errors("gather", lambda m, index: ag.gather(m(3), 0, index), 3),
            _elsewhere("gather", lambda m, index: ag.gather(m(3), 0, index)),
            Error(lambda m: ag.gather(m(2, 3), 0, [1]), ValueError, ("gather", "(1,)", "(2, 3)")),
            Error(lambda m: ag.gather(m(2, 3), 0, [[1] * 4]), ValueError, ("gather", "(1, 4)", "(2, 3)", "axis 0")),
        ],
    ),
    Op(
        name="scatter_add",
        call=lambda x, index, src, axis: ag.scatter_add(x, axis, index, src),
        numpy=_scatter_add,
        torch=lambda torch, x, index, src, axis: torch.scatter_add(x, axis, index, src),
        samples=[
            *(
                Sample((normal(*shape), _indices(shape[axis], *where), normal(*where)), {"axis": axis})
                for shape, where, axis in ALONG
            ),
            Sample((normal(3, 4), np.full((2, 3), 2, np.int32), normal(2, 3)), {"axis": 1}),
            Sample((normal(3), np.zeros(257, np.int32), normal(257)), {"axis": 0}),
        ],
        generate=_scattered,
        smooth=True,
        keeps=(0, 33 * 5 / (31 * 33)),
        errors=[
            *wrong_operands(
                "scatter_add", lambda x, y: ag.scatter_add(x, 1, [[0]], y), lambda m: m(2, 3), lambda m: m(2, 3)
            ),
            *axis_errors("scatter_add", lambda x, axis: ag.scatter_add(x, axis, [[0]], x)),
            *index_errors("scatter_add", lambda m, index: ag.scatter_add(m(3), 0, index, m(9)), 3),
            _elsewhere("scatter_add", lambda m, index: ag.scatter_add(m(3), 0, index, m(9))),
            Error(lambda m: ag.scatter_add(m(2, 3), 0, [1], m(2, 3)), ValueError, ("scatter_add", "(1,)", "(2, 3)")),
            Error(lambda m: ag.scatter_add(m(2, 3), 0, [[1] * 3], m(3)), ValueError, ("scatter_add", "(1, 3)", "(3,)")),
            Error(
                lambda m: ag.scatter_add(m(2, 3), 0, [[1] * 3], m(1, 2)),
                ValueError,
                ("scatter_add", "(1, 3)", "(1, 2)"),
            ),
            Error(lambda m: ag.scatter_add(m(3), 0, [0], 1.0), ValueError, ("scatter_add", "src", "()")),
            Error(
                lambda m: ag.scatter_add(m(3), 0, [0], m.elsewhere(3)), ValueError, ("scatter_add", ".to("), devices=2
            ),
        ],
        atol=1e-6,  # sums
    ),
    Op(
        name="one_hot",
        call=ag.one_hot,
        numpy=lambda indices, n: np.eye(n)[indices],
        torch=lambda torch, indices, n: torch.nn.functional.one_hot(torch.as_tensor(indices), n),
        samples=[
            Sample((_indices(5),), {"n": 5}),
            Sample((_indices(1, 1),), {"n": 1}),
            Sample((_indices(5, 7),), {"n": 5}),
            Sample((_indices(3, 2, 3),), {"n": 4}),
            Sample((_indices(300, 2, 1, 3),), {"n": 300}),
            Sample(([2, 0, 2],), {"n": 3}),
        ],
        generate=_hot,
        gradient=False,
        errors=[
            *index_errors("one_hot", lambda m, index: ag.one_hot(index, 3), 3)[:-2],
            Error(lambda m: ag.one_hot(m(2), 3), TypeError, ("one_hot", "indices", "int32")),
            Error(lambda m: ag.one_hot(np.zeros((1, 1, 1, 1), int), 3), ValueError, ("one_hot", "more than 4")),
            Error(lambda m: ag.one_hot([0], 0), ValueError, ("one_hot", "n", "from 1", "0")),
            Error(lambda m: ag.one_hot([0], 2**24 + 1), ValueError, ("one_hot", str(2**24 + 1))),
            Error(lambda m: ag.one_hot([0], 2.0), TypeError, ("one_hot", "n", "2.0")),
            Error(lambda m: ag.one_hot([0], True), TypeError, ("one_hot", "True")),
        ],
    ),
]


# ---------------------------------------------------------------- random calls


def _where(c: Calls, n: int, shape: Shape) -> Any:
    """Indices, nearly always right: computed on the device, from the host, or as a tensor."""
    high = c.one_of(n, n, n, n + 2)
    values = c.normal.integers(c.one_of(0, 0, 0, -1), max(high, 1), shape).astype(np.int32)
    computed = ag.tensor(values * np.float32(1.5) - 1).astype("int32") if values.size else values
    return c.one_of(values, ag.tensor(values) if values.size else values, computed, values.tolist(), c.operand())


def _extent(x: Any, axis: Any) -> int:
    try:
        return int(np.shape(x)[axis])
    except (TypeError, ValueError, IndexError):
        return 3


def _take_call(c: Calls) -> tuple[Any, ...]:
    x, axis = c.operand(), c.one_of(0, -1, c.axis())
    return ag.take, x, _where(c, _extent(x, axis), c.shape(2)), axis


def _embedding_call(c: Calls) -> tuple[Any, ...]:
    weight = c.operand(c.one_of((3, 5), (1, 2), c.shape()))
    return ag.embedding, _where(c, _extent(weight, 0), c.shape(3)), weight


def _gather_call(c: Calls) -> tuple[Any, ...]:
    shape = c.shape() or (3,)
    axis = c.one_of(0, -1, c.axis())
    return (
        ag.gather,
        c.operand(shape),
        axis,
        _where(c, _extent(np.empty(shape), axis), c.one_of(shape, shape, c.shape())),
    )


def _scatter_call(c: Calls) -> tuple[Any, ...]:
    _, x, axis, index = _gather_call(c)
    src = (
        c.operand(c.one_of(np.shape(index)[:4], c.shape()))
        if isinstance(index, (np.ndarray, ag.Tensor))
        else c.operand()
    )
    return ag.scatter_add, x, axis, index, src


CALLS: Makers = {
    "take": _take_call,
    "embedding": _embedding_call,
    "gather": _gather_call,
    "scatter_add": _scatter_call,
    "one_hot": lambda c: (ag.one_hot, _where(c, 3, c.shape(3)), c.one_of(3, 3, 5, c.integer(), 1.5, None)),
}
