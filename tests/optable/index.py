"""Indexing with brackets."""

from __future__ import annotations

from typing import Any

import numpy as np

import ggmlpy_ag as ag

from .calls import Calls, Makers
from .table import Error, Op, Sample, normal

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
    ((3, 7), (slice(None), 1)),
    ((3, 7), (..., slice(1, -1))),
    ((3, 7), (slice(1, None), slice(1, None, 3))),
    ((3, 7), (None, 1, ..., None)),
    ((2, 3, 5), (slice(None), slice(None, None, 2), slice(None, None, 2))),
    ((2, 3, 5), (..., 1, slice(None))),
    ((2, 3, 5), (1, 2, 3)),
    ((2, 3, 4, 5), (slice(1, None), slice(None, None, 2), slice(0, 1), slice(4, None))),
    ((31, 33), (slice(5, 30, 3), slice(1, 32, 2))),
    ((257,), slice(1, 256)),
]


OPS: list[Op] = [
    Op(
        name="indexing",
        call=lambda x, index: x[index],
        numpy=lambda x, index: x[index],
        torch=lambda torch, x, index: x[index],
        samples=[Sample((normal(*shape),), {"index": index}) for shape, index in INDICES],
        errors=[
            Error(lambda m: m(3)[3], IndexError, ("3", "(3,)")),
            Error(lambda m: m(3)[-4], IndexError, ("-4", "(3,)")),
            Error(lambda m: m(3, 2)[0, 2], IndexError, ("2", "dimension 1", "(3, 2)")),
            Error(lambda m: m(3)[0, 0], IndexError, ("2 indices", "(3,)")),
            Error(lambda m: m()[0], IndexError, ("1 indices", "()")),
            Error(lambda m: m(3)[..., ...], IndexError, ("...",)),
            Error(lambda m: m(3)[::-1], ValueError, ("step", "-1")),
            Error(lambda m: m(3)[::0], ValueError, ("step", "zero")),
            Error(lambda m: m(3)[2:1], ValueError, ("nothing",)),
            Error(lambda m: m(3)[5:], ValueError, ("nothing",)),
            Error(lambda m: m(3)[1.0], TypeError, ("float",)),
            Error(lambda m: m(3)[True], TypeError, ("bool",)),
            Error(lambda m: m(3)[[0, 1]], TypeError, ("list",)),
            Error(lambda m: m(3)[np.array([0])], TypeError, ("ndarray",)),
            Error(lambda m: m(3)["a"], TypeError, ("str",)),
            Error(lambda m: m(3)["a":], TypeError, ("integers",)),
            Error(lambda m: m(3)[0:2:0.5], TypeError, ("integers",)),
            Error(lambda m: m(1, 1, 1, 1)[None], ValueError, ("more than 4",)),
        ],
    ),
]


def _index(c: Calls) -> Any:
    def item() -> Any:
        number = c.one_of(0, 0, 1, -1, 2, -3, 7, np.int8(1), 2**40, -(2**63))
        bounds = [c.one_of(None, None, 0, 1, -1, 2, 3, -2, 9, 2**65) for _ in range(2)]
        step = c.one_of(None, None, 1, 2, 3, -1, 0, 2**40, 2**65, 1.5)
        cut = slice(*bounds, step)
        strange = c.one_of(1.0, "a", [0], np.array([1]), True, (0,), ag.tensor(1))
        return c.one_of(number, number, cut, cut, cut, ..., None, strange)

    return c.one_of(item(), tuple(item() for _ in range(c.random.randint(0, 5))))


CALLS: Makers = {"indexing": lambda c: (lambda x, index: x[index], c.window(c.shape()), _index(c))}
