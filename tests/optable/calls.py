"""Random calls, right and wrong ones: the parts that the families' `CALLS` are made of."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

import ggmlpy_ag as ag

Makers: TypeAlias = "dict[str, Callable[[Calls], tuple[Any, ...]]]"  # each gives a function and its arguments


class Calls:
    """Makes random calls as (text, function) from one random generator."""

    def __init__(self, seed: int, makers: Makers) -> None:
        self.makers = makers
        self.random = random.Random(seed)
        self.normal = np.random.default_rng(seed)

    def one_of(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def shape(self, most: int = 4) -> tuple[int, ...]:
        """Extents that often fit one another, of up to `most` dimensions."""
        return tuple(self.one_of(1, 1, 2, 3, 3, 5) for _ in range(self.random.randint(0, most)))

    def floats(self, shape: tuple[int, ...]) -> np.ndarray:
        values = np.asarray(self.normal.standard_normal(shape), np.float32)
        if values.size and self.random.random() < 0.2:
            special = self.one_of(0.0, -0.0, math.inf, -math.inf, math.nan, 1e38)
            values.flat[self.random.randrange(values.size)] = special
        return values

    def operand(self, shape: tuple[int, ...] | None = None) -> Any:
        """Mostly a float tensor, often a window on a larger one; at times something that is no tensor."""
        shape = self.shape() if shape is None else shape
        kind = self.random.random()
        if kind < 0.7:
            return self.window(shape)
        if kind < 0.8:
            return self.floats(shape)
        if kind < 0.86:
            return ag.tensor(self.normal.integers(-3, 9, shape).astype(np.int32))
        return self.one_of(
            1.5, 0, -2, True, -0.0, math.nan, math.inf, -math.inf, 1e300, 10**400, 2**40, np.float64(2.5), None, "text",
            1j, [], [1.0], [[1], [2, 3]], object(), {"a": 1}, float, np.zeros((2, 0)), np.zeros(3, complex),
            np.arange(3), np.zeros((1, 2, 1, 2, 1)), np.array(["a"]), ag.tensor([1, 2, 3]), ag.tensor(0.5),
        )  # fmt: skip

    def window(self, shape: tuple[int, ...]) -> ag.Tensor:
        """A float tensor of this shape: packed, transposed or a slice, on the default device or, rarely, another."""
        how = self.random.random()
        if how < 0.02:
            return ag.tensor(self.floats(shape), device=self.one_of(*(info.name for info in ag.devices())))
        if how < 0.4 or not shape:
            return ag.param(self.floats(shape))
        if how < 0.6:
            return ag.param(self.floats(shape[::-1])).transpose()
        step, first = self.random.randint(1, 3), self.random.randint(0, 2)
        larger = tuple(first + step * (n - 1) + 1 + self.random.randint(0, 1) for n in shape)
        return ag.param(self.floats(larger))[tuple(slice(first, first + step * (n - 1) + 1, step) for n in shape)]

    def integer(self) -> Any:
        return self.one_of(0, 1, 2, 3, -1, -1, -2, -3, 4, 5, -5, 7, 2**31, 2**40, 2**63, -(2**63), 10**30, np.int64(1))

    def axis(self) -> Any:
        simple = self.one_of(0, 1, 2, 3, -1, -1, -2, -3, -4, 4, -5, None, np.int8(-1))
        return self.one_of(
            simple, simple, simple, simple, (0, 1), (-1, 0), [1, 2], (0, 0), (), 1.0, "x", True, 2**40, (None,)
        )

    def axes(self) -> tuple[Any, ...]:
        return tuple(self.axis() for _ in range(self.one_of(0, 1, 2, 2, 3)))

    def extents(self) -> Any:
        """A shape to ask for; the absurdly large ones must be refused before anything is computed."""
        n = self.random.randint(0, 5)
        usual = tuple(self.one_of(1, 1, 2, 3, 5, 6, 15, -1) for _ in range(n))
        odd = tuple(self.one_of(1, 2, 3, -1, 0, -2, 2**40, 2**62, 2**63, 2**70, 1.5, "a", None, True) for _ in range(n))
        return self.one_of(usual, usual, usual, list(usual), odd, odd, 3, "abc", None, 2.0)

    def number(self) -> Any:
        return self.one_of(
            0, 1, 2, 3, -1, -2, 0.5, -0.5, 1.5, 7, 64, 65, 1e-39, 1e30, 1e300, -1e300, math.inf, -math.inf, math.nan,
            10**400, None, "a", 1j, True, np.float32(2), np.bool_(True), ag.tensor(2.0), [1.0],
        )  # fmt: skip

    def fitting(self) -> tuple[Any, Any]:
        """Two operands, which broadcast as often as not."""
        shape = self.shape()
        other = tuple(self.one_of(n, n, n, 1) for n in shape)[self.random.randint(0, 1) :]
        pair = [self.operand(shape), self.operand(self.one_of(other, other, None))]
        self.random.shuffle(pair)
        return pair[0], pair[1]

    def matrices(self) -> tuple[Any, Any]:
        batch = self.shape(2)
        other = tuple(self.one_of(n, 1) for n in batch)
        m, k, n = (self.one_of(1, 2, 3, 5) for _ in range(3))
        left = self.one_of((*batch, m, k), (*batch, m, k), (m, k), (k,), self.shape())
        right = self.one_of((*other, k, n), (*other, k, n), (k, n), (k,), self.shape())
        return self.operand(left), self.operand(right)

    # ------------------------------------------------------------ over all operations

    def __iter__(self) -> Calls:
        return self

    def __next__(self) -> tuple[str, Callable[[], Any]]:
        name = self.random.choice(sorted(self.makers))
        function, *arguments = self.makers[name](self)
        text = f"{name}({', '.join(map(self.describe, arguments))})"
        return text, lambda: function(*arguments)

    @staticmethod
    def describe(argument: Any) -> str:
        if isinstance(argument, ag.Tensor):  # without reading it
            array = argument._array
            return f"tensor({argument.shape}, {argument.dtype}, strides={array.strides}, offset={array.offset})"
        if isinstance(argument, np.ndarray):
            return f"array({argument.shape}, {argument.dtype})"
        text = repr(argument)
        return text if len(text) < 200 else f"{text[:60]}..."
