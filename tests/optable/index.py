"""Indexing with brackets, and assignment."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import ggmlpy_ag as ag

from .calls import Calls, Makers
from .table import SPECIAL, Draw, Error, Op, Sample, normal

ALL = slice(None)
INDICES: list[tuple[tuple[int, ...], Any]] = [
    ((5,), 2),
    ((5,), -1),
    ((5,), np.int8(-2)),
    ((5,), slice(1, 4)),
    ((5,), slice(None, None, 2)),
    ((5,), slice(3, None, 1000)),
    ((5,), slice(-10, 10)),
    ((), None),
    ((), ...),
    ((3, 7), 1),
    ((3, 7), (ALL, 1)),
    ((3, 7), (..., slice(1, -1))),
    ((3, 7), (slice(1, None), slice(1, None, 3))),
    ((3, 7), (None, 1, ..., None)),
    ((2, 3, 5), (ALL, slice(None, None, 2), slice(None, None, 2))),
    ((2, 3, 5), (..., 1, ALL)),
    ((2, 3, 5), (1, 2, 3)),
    ((2, 3, 4, 5), (slice(1, None), slice(None, None, 2), slice(0, 1), slice(4, None))),
    ((31, 33), (slice(5, 30, 3), slice(1, 32, 2))),
    ((257,), slice(1, 256)),
    ((5,), slice(None, None, -1)),
    ((5,), slice(None, None, -2)),
    ((5,), slice(3, None, -1000)),
    ((5,), slice(3, 0, -1)),
    ((3, 7), (slice(None, None, -1), slice(5, 0, -2))),
    ((3, 7), (1, slice(None, None, -3))),
    ((2, 3, 5), (slice(None, None, -1), 1, None, slice(1, None))),
    ((2, 3, 4, 5), (..., slice(None, None, -1), ALL)),
    ((31, 33), (slice(29, 4, -3), slice(None, None, -1))),
]
LISTS: list[tuple[tuple[int, ...], Any]] = [  # one list or array of indices
    ((5,), [2, 0, 2]),
    ((5,), [-1, 0]),
    ((5,), [[1, 2], [3, 4]]),
    ((5,), np.array([4, 1], np.uint8)),
    ((5,), np.array(3)),
    ((300,), np.array([-1, 5], np.int8)),
    ((3, 7), [0, 2]),
    ((3, 7), (ALL, [6, 0, 1])),
    ((3, 7), (1, [6, 0, 1])),
    ((3, 7), ([2, 0, 1], -1)),
    ((3, 7), ([2, 0], slice(None, None, -2))),
    ((3, 7), (slice(1, None), [[6], [0]])),
    ((2, 3, 5), (0, [2, 0], 1)),
    ((2, 3, 5), (..., [3, 3, 0])),
    ((2, 3, 5), (None, [1], ..., slice(1, 4))),
    ((2, 3, 4, 5), (ALL, [2, 0], slice(None, None, 2), slice(1, 3))),
    ((31, 33), (ALL, np.arange(32, -1, -5))),
]
TENSORS: list[tuple[tuple[int, ...], tuple[Any, ...], Any]] = [  # a tensor of indices after other items
    ((5,), (), [2, 0, 2]),
    ((5,), (), 3),
    ((3, 7), (ALL,), [[6, 0], [1, 1]]),
    ((2, 3, 5), (slice(None, None, -1), 1), [2, 0]),
    ((31, 33), (...,), [32, 0, 5]),
]
VALUES: list[tuple[tuple[int, ...], Any, Any]] = [  # assigned: a number, or the shape of an array
    ((5,), 2, 1.5),
    ((5,), ..., True),
    ((5,), ALL, (5,)),
    ((5,), slice(1, 4), (1,)),
    ((5,), slice(None, None, -2), (3,)),
    ((), (), -2),
    ((), ..., ()),
    ((3, 7), 1, (7,)),
    ((3, 7), (ALL, 1), (3,)),
    ((3, 7), (slice(1, None), slice(None, None, 3)), (1, 2, 3)),
    ((3, 7), (slice(None, None, -1), slice(5, 0, -2)), (3, 1)),
    ((3, 7), (..., None), (7, 1)),
    ((2, 3, 5), (ALL, 1), (2, 5)),
    ((2, 3, 5), (..., slice(None, None, -1)), (3, 5)),
    ((2, 3, 4, 5), (1, ..., slice(1, 3)), 7),
    ((31, 33), (slice(5, 30, 3), slice(1, 32, 2)), (9, 16)),
]


def _numpy(x: np.ndarray, *chosen: Any, index: Any) -> np.ndarray:
    return x[(*index, *chosen)] if chosen else x[index]


def _torch(torch: Any, x: Any, *chosen: Any, index: Any) -> Any:
    """By the number of each element: PyTorch itself knows no negative steps."""
    numbers = np.arange(math.prod(x.shape)).reshape(x.shape)
    places = _numpy(numbers, *(np.asarray(v) for v in chosen), index=index)
    return x.reshape(-1)[torch.tensor(np.array(places))]


def _assigned(x: ag.Tensor, *values: Any, index: Any, value: Any = None) -> ag.Tensor:
    """A copy of x after an assignment."""
    copy = ag.tensor(x.numpy(), dtype=x.dtype)
    copy[index] = values[0].detach() if values else value
    return copy


def _numpy_assigned(x: np.ndarray, *values: Any, index: Any, value: Any = None) -> np.ndarray:
    copy = x.copy()
    copy[index] = values[0] if values else value
    return copy


def _torch_assigned(torch: Any, x: Any, *values: Any, index: Any, value: Any = None) -> Any:
    return torch.tensor(_numpy_assigned(x.numpy(), *(v.numpy() for v in values), index=index, value=value))


# ---------------------------------------------------------------- random samples


def _items(draw: Draw, shape: tuple[int, ...]) -> list[Any]:
    """An integer or a slice for some of the dimensions, with None and ... among them."""
    items: list[Any] = []
    for n in shape[: draw.integer(0, len(shape))]:
        first, last, step = draw.integer(0, n - 1), draw.integer(0, n - 1), draw.integer(1, 3)
        low, high = sorted((first, last))
        backwards = slice(high, low - 1 if low else None, -step)
        items.append(draw.one_of((ALL, slice(low, high + 1, step), backwards, first, first - n)))
    if draw.one_of((False, True)):
        items.append(...)
    if len(shape) < 4 and draw.one_of((False, True)):
        items.insert(draw.integer(0, len(items)), None)
    return items


def _random_index(draw: Draw) -> Sample:
    shape = draw.shape()
    items = _items(draw, shape)
    places = [i for i, item in enumerate(items) if isinstance(item, slice)]
    if places and not any(isinstance(item, int) for item in items) and None not in items and draw.one_of((False, True)):
        at = draw.one_of(places)
        items[at] = draw.indices(shape[at], draw.integer(1, 4)).tolist()
    return Sample((draw.floats(normal, *shape),), {"index": tuple(items)})


def _random_assignment(draw: Draw) -> Sample:
    shape = draw.shape()
    index = tuple(_items(draw, shape))
    window = np.zeros(shape)[index].shape
    value = tuple(draw.one_of((n, n, 1)) for n in window[draw.integer(0, len(window)) :])
    return Sample((draw.floats(normal, *shape), draw.floats(normal, *value)), {"index": index})


def _set(x: ag.Tensor, index: Any, value: Any) -> None:
    x[index] = value


def _on(m: Any, *shape: int) -> ag.Tensor:
    """Without a gradient, so that a recording tape is no obstacle."""
    return m(*shape).detach()


OPS: list[Op] = [
    Op(
        name="indexing",
        call=lambda x, *chosen, index: x[(*index, *chosen)] if chosen else x[index],
        numpy=_numpy,
        torch=_torch,
        samples=[
            *[Sample((normal(*shape),), {"index": index}) for shape, index in (*INDICES, *LISTS)],
            *[
                Sample((normal(*shape), np.array(chosen, np.int32)), {"index": before})
                for shape, before, chosen in TENSORS
            ],
            *[
                Sample((np.arange(2**31 - 15, 2**31).astype(np.int32).reshape(3, 5),), {"index": index})
                for index in (1, slice(None, None, -1), (ALL, [1, 0]))
            ],
        ],
        smooth=True,
        generate=_random_index,
        special=[
            Sample((SPECIAL,), {"index": index}) for index in (slice(None, None, -1), slice(1, None, 2), [3, 4, 5])
        ],
        errors=[
            Error(lambda m: m(3)[3], IndexError, ("3", "(3,)")),
            Error(lambda m: m(3)[-4], IndexError, ("-4", "(3,)")),
            Error(lambda m: m(3, 2)[0, 2], IndexError, ("2", "dimension 1", "(3, 2)")),
            Error(lambda m: m(3)[0, 0], IndexError, ("2 indices", "(3,)")),
            Error(lambda m: m()[0], IndexError, ("1 indices", "()")),
            Error(lambda m: m(3)[..., ...], IndexError, ("...",)),
            Error(lambda m: m(3)[::0], ValueError, ("step", "zero")),
            Error(lambda m: m(3)[2:1], ValueError, ("nothing",)),
            Error(lambda m: m(3)[1:2:-1], ValueError, ("nothing",)),
            Error(lambda m: m(3)[5:], ValueError, ("nothing",)),
            Error(lambda m: m(3)[1.0], TypeError, ("float",)),
            Error(lambda m: m(3)[True], TypeError, ("bool", "where", "masked_fill")),
            Error(lambda m: m(3)["a"], TypeError, ("str",)),
            Error(lambda m: m(3)[(0,),], TypeError, ("tuple",)),
            Error(lambda m: m(3)["a":], TypeError, ("integers",)),
            Error(lambda m: m(3)[0:2:0.5], TypeError, ("integers",)),
            Error(lambda m: m(1, 1, 1, 1)[None], ValueError, ("more than 4",)),
            Error(lambda m: m(3)[[0, 3]], IndexError, ("3", "3 places", "dimension 0", "(3,)")),
            Error(lambda m: m(2, 3)[:, [-4]], IndexError, ("-4", "dimension 1", "(2, 3)")),
            Error(lambda m: m(3)[np.array([2**63], np.uint64)], IndexError, (str(2**63),)),
            Error(lambda m: m(3)[ag.tensor([0, 3])], IndexError, ("index", "3", "[0, 3)")),
            Error(lambda m: m(3)[[0.0]], TypeError, ("integers", "float64")),
            Error(lambda m: m(3)[[True, False, True]], TypeError, ("bool", "where", "masked_fill")),
            Error(lambda m: m(3)[m(3)], TypeError, ("float32", "mask", "where", "masked_fill")),
            Error(lambda m: m(3)[["a"]], TypeError, ("integers",)),
            Error(lambda m: m(3)[[[1], [1, 2]]], ValueError, ("regular",)),
            Error(lambda m: m(3)[[]], ValueError, ("nothing",)),
            Error(lambda m: m(3, 3)[[0], [1]], TypeError, ("one list", "2", "gather")),
            Error(lambda m: m(3, 3, 3)[0, :, [1]], IndexError, ("NumPy", "PyTorch", "twice")),
            Error(lambda m: m(3)[[0], 0], IndexError, ("2 indices", "(3,)")),
            Error(lambda m: m(2, 1, 1)[[[[0]]]], ValueError, ("more than 4",)),
            Error(lambda m: m(3)[m.elsewhere(2).astype("int32")], ValueError, ("index", ".to("), devices=2),
        ],
        rtol=0.0,
    ),
    Op(
        name="assignment",
        call=_assigned,
        numpy=_numpy_assigned,
        torch=_torch_assigned,
        samples=[
            *[
                Sample((normal(*shape), normal(*value)), {"index": index})
                if isinstance(value, tuple)
                else Sample((normal(*shape),), {"index": index, "value": value})
                for shape, index, value in VALUES
            ],
            Sample(
                (np.arange(15, dtype=np.int32).reshape(3, 5),),
                {"index": (ALL, slice(None, None, -2)), "value": 2**31 - 1},
            ),
        ],
        gradient=False,
        generate=_random_assignment,
        special=[Sample((SPECIAL, SPECIAL), {"index": slice(None, None, -1)})],
        errors=[
            Error(lambda m: _set(m(3), 0, 1.0), RuntimeError, ("tape", "tensor", "(3,)", "where", "no_grad")),
            Error(lambda m: _set(_on(m, 3), 0, m()), RuntimeError, ("tape", "value", "()", "where")),
            Error(lambda m: _set(_on(m, 3), 3, 1.0), IndexError, ("3", "(3,)")),
            Error(lambda m: _set(_on(m, 3), (0, 0), 1.0), IndexError, ("2 indices", "(3,)")),
            Error(lambda m: _set(_on(m, 3), slice(2, 1), 1.0), ValueError, ("nothing",)),
            Error(lambda m: _set(_on(m, 3), slice(None, None, 0), 1.0), ValueError, ("step",)),
            Error(lambda m: _set(_on(m, 3), True, 1.0), TypeError, ("bool", "where", "masked_fill")),
            Error(lambda m: _set(_on(m, 3), [0, 1], 1.0), TypeError, ("list", "where", "scatter_add")),
            Error(lambda m: _set(_on(m, 3), _on(m, 3), 1.0), TypeError, ("Tensor", "where", "masked_fill")),
            Error(lambda m: _set(_on(m, 3), np.array([True] * 3), 1.0), TypeError, ("ndarray", "masked_fill")),
            Error(lambda m: _set(_on(m, 3), 1.5, 1.0), TypeError, ("float",)),
            Error(lambda m: _set(_on(m, 3), 0, "a"), TypeError, ("value",)),
            Error(lambda m: _set(_on(m, 3), 0, None), TypeError, ("value",)),
            Error(lambda m: _set(_on(m, 3), 0, 1j), TypeError, ("value", "complex")),
            Error(lambda m: _set(_on(m, 3), 0, []), ValueError, ("value", "(0,)")),
            Error(lambda m: _set(_on(m, 3), 0, 10**400), TypeError, ("value", "object")),
            Error(lambda m: _set(_on(m, 3), ALL, [1.0, 2.0]), ValueError, ("(2,)", "(3,)", "broadcast")),
            Error(lambda m: _set(_on(m, 3), 0, [1.0, 2.0]), ValueError, ("(2,)", "()", "broadcast")),
            Error(lambda m: _set(_on(m, 3), ALL, np.ones((2, 3))), ValueError, ("(2, 3)", "(3,)", "broadcast")),
            Error(lambda m: _set(m.ints(3), 0, 0.5), TypeError, ("value", "int32")),
            Error(lambda m: _set(m.ints(3), 0, 2**31), ValueError, ("value", "int32")),
            Error(lambda m: _set(_on(m, 3), ALL, m.elsewhere(3)), ValueError, ("value", ".to("), devices=2),
        ],
        rtol=0.0,
    ),
]


def _index(c: Calls) -> Any:
    def item() -> Any:
        number = c.one_of(0, 0, 1, -1, 2, -3, 7, np.int8(1), 2**40, -(2**63))
        bounds = [c.one_of(None, None, 0, 1, -1, 2, 3, -2, 9, 2**65) for _ in range(2)]
        step = c.one_of(None, None, 1, 2, 3, -1, -2, 0, 2**40, -(2**40), 2**65, 1.5)
        cut = slice(*bounds, step)
        chosen = c.one_of([0], [0, -1], [[0], [1]], np.array([0, 0]), np.array(0), ag.tensor([0, 1]), ag.tensor(0))
        strange = c.one_of(
            1.0, "a", [], [5], [0.5], [[0], [1, 2]], True, [True], (0,), ag.tensor(1.0), np.uint64(2**63)
        )
        return c.one_of(number, number, cut, cut, cut, ..., None, chosen, chosen, strange)

    return c.one_of(item(), tuple(item() for _ in range(c.random.randint(0, 5))))


def _assignment(c: Calls) -> tuple[Any, ...]:
    def plain(operand: Any) -> Any:
        return operand.detach() if isinstance(operand, ag.Tensor) else operand

    def assign(x: ag.Tensor, index: Any, value: Any) -> ag.Tensor:
        x[index] = value
        return x

    shape = c.shape()
    x = plain(c.window(shape))
    value = c.one_of(c.number(), c.operand(shape), c.operand(), c.window(shape[1:]), x)
    return (assign, x, _index(c), plain(value))


CALLS: Makers = {
    "indexing": lambda c: (lambda x, index: x[index], c.window(c.shape()), _index(c)),
    "assignment": _assignment,
}
