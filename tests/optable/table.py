"""What an entry of the op table is, and what entries are made of: operands, deviations, wrong calls."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import ggmlpy_ag as ag

DEVICES = [info.name for info in ag.devices()]
rng = np.random.default_rng(20240601)


@dataclass(frozen=True)
class Sample:
    """One call: operands, which become tensors where they are NumPy arrays, and options."""

    operands: tuple[Any, ...]
    options: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        shapes = ["x".join(map(str, np.shape(v))) or repr(v) if np.ndim(v) else "scalar" for v in self.operands]
        return ",".join([*shapes, *(f"{k}={v}" for k, v in self.options.items())])

    @property
    def floats(self) -> list[int]:
        """Positions of the operands that can have a gradient."""
        return [i for i, v in enumerate(self.operands) if isinstance(v, np.ndarray) and v.dtype == np.float32]

    @property
    def size(self) -> int:
        return sum(self.operands[i].size for i in self.floats)


@dataclass(frozen=True)
class Deviation:
    """Special values at which a result may differ from NumPy's, and what it lies between then.

    `where(expected, *operands)` tells the places, all of one shape. `values(reference, *operands)` lists results: what
    comes lies between the least and the greatest of them, and may be NaN where one of them is. The sign of a zero does
    not count there.
    """

    reason: str
    where: Callable[..., np.ndarray]
    values: Callable[..., Sequence[Any]]
    device: str = ""  # what the names of its devices begin with

    def __str__(self) -> str:
        return self.reason


@dataclass(frozen=True)
class Error:
    """A call that is wrong: `call` gets a Maker for its tensors. All `words` are in the message."""

    call: Callable[[Maker], Any]
    type: type[Exception]
    words: tuple[str, ...] = ()
    devices: int = 1  # how many it needs


class Maker:
    """Makes tensors for wrong calls, and remembers what was in them."""

    def __init__(self) -> None:
        self.made: list[tuple[ag.Tensor, np.ndarray]] = []

    def __call__(self, *shape: int) -> ag.Tensor:
        """A float32 tensor that requires a gradient."""
        return self._keep(uniform(*shape), ag.param)

    def ints(self, *shape: int) -> ag.Tensor:
        """An int32 tensor."""
        return self._keep(np.arange(math.prod(shape), dtype=np.int32).reshape(shape), ag.tensor)

    def elsewhere(self, *shape: int) -> ag.Tensor:
        """A float32 tensor on another device."""
        other = next(name for name in DEVICES if name != ag.device().name)
        return self._keep(uniform(*shape), lambda values: ag.tensor(values, device=other))

    def _keep(self, values: np.ndarray, make: Callable[[np.ndarray], ag.Tensor]) -> ag.Tensor:
        tensor = make(values)
        self.made.append((tensor, values))
        return tensor


@dataclass(frozen=True, kw_only=True)
class Op:
    """An operation and all that is known about it.

    `rtol`, `atol`: of values against float64; with `sums`, `rtol` counts from the sum of the terms' magnitudes, which
    is what rounding errors of a sum grow with. `grad_rtol`: of gradients against PyTorch's in float64, with a tenth
    of it times the greatest gradient as absolute tolerance.
    `keeps`: what the rule holds for the backward pass, in bytes: multiples of all the float operands together and of
    the result, for large operands; (0, 1) keeps its result only. test_ops.py checks that it is no more.
    `generate` makes a sample of random shapes, for test_hypothesis.py; None where the samples are all there is.
    `edges`: operands where the gradient is a convention, which is PyTorch's. `special`: operands with infinities, NaN
    and the like. `smooth`: gradients of gradients are checked.
    """

    name: str
    call: Callable[..., ag.Tensor]
    numpy: Callable[..., Any]
    torch: Callable[..., Any] | None
    samples: Sequence[Sample]
    keeps: tuple[float, float] = (0.0, 0.0)
    generate: Callable[[Draw], Sample] | None = None
    gradient: bool = True
    smooth: bool = False
    edges: Sequence[Sample] = ()
    special: Sequence[Sample] = ()
    deviations: Sequence[Deviation] = ()
    errors: Sequence[Error] = ()
    rtol: float = 1e-6
    atol: float = 0.0
    sums: bool = False
    grad_rtol: float = 1e-5


# ---------------------------------------------------------------- random samples


class Draw:
    """Makes the parts of a random sample; hypothesis chooses, and shrinks what it chose when a test fails."""

    def __init__(self, choose: Callable[[Sequence[Any]], Any]) -> None:
        self.one_of = choose

    def integer(self, low: int, high: int) -> int:
        """From low to high, both included."""
        return int(self.one_of(range(low, high + 1)))

    def shape(self, least: int = 0, most: int = 4, high: int = 6) -> tuple[int, ...]:
        """Of `least` to `most` dimensions, each from 1 to `high`, now and then an odd larger one."""
        shape = [self.integer(1, high) for _ in range(self.integer(least, most))]
        if shape and self.one_of((False, False, False, True)):
            shape[self.integer(0, len(shape) - 1)] = self.one_of((31, 33, 65))
        return tuple(shape)

    def broadcast(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Two shapes that broadcast, in either direction."""
        whole = self.shape()
        parts = [tuple(self.one_of((n, n, 1)) for n in whole[self.integer(0, len(whole)) :]) for _ in range(2)]
        return self.one_of(((whole, parts[0]), (parts[0], whole), (parts[0], parts[1])))

    def axis(self, ndim: int) -> int:
        return self.integer(-ndim, ndim - 1)

    def axes(self, ndim: int) -> Any:
        """None, an axis, or several."""
        some = tuple(i for i in range(ndim) if self.one_of((False, True)))
        return self.one_of((None, some, some, *([self.axis(ndim)] if ndim else [])))

    def floats(self, make: Callable[..., np.ndarray], *shape: int) -> np.ndarray:
        """An operand by one of the makers below."""
        global rng  # noqa: PLW0603 - the makers' generator, for a moment a fresh one
        usual, rng = rng, np.random.default_rng(self.integer(0, 1 << 16))
        try:
            return make(*shape)
        finally:
            rng = usual

    def indices(self, n: int, *shape: int) -> np.ndarray:
        """int32 from 0 to n - 1."""
        return np.array([self.integer(0, n - 1) for _ in range(math.prod(shape))], np.int32).reshape(shape)


def one(make: Callable[..., np.ndarray], **options: Any) -> Callable[[Draw], Sample]:
    """A sample of one operand of any shape."""
    return lambda draw: Sample((draw.floats(make, *draw.shape()),), options)


def two(make: Callable[..., np.ndarray], second: Callable[..., np.ndarray] | None = None) -> Callable[[Draw], Sample]:
    """A sample of two operands whose shapes broadcast."""

    def generate(draw: Draw) -> Sample:
        a, b = draw.broadcast()
        return Sample((draw.floats(make, *a), draw.floats(second or make, *b)))

    return generate


# ---------------------------------------------------------------- operands


def normal(*shape: int) -> np.ndarray:
    return np.asarray(rng.standard_normal(shape), np.float32)


def uniform(*shape: int, low: float = 0.5, high: float = 2.0) -> np.ndarray:
    return np.asarray(rng.uniform(low, high, shape), np.float32)


def nonzero(*shape: int) -> np.ndarray:
    """Of either sign, at least 0.2 from 0: finite differences do not cross a kink there."""
    return np.asarray(rng.uniform(0.2, 1.8, shape) * rng.choice([-1.0, 1.0], shape), np.float32)


def labels(n: int, classes: int) -> np.ndarray:
    return rng.integers(0, classes, n).astype(np.int32)


SHAPES = [(), (1,), (5,), (3, 7), (2, 3, 5), (2, 1, 3, 5), (31, 33), (257,)]
PAIRS = [
    ((), ()),
    ((3,), ()),
    ((), (2, 3)),
    ((5,), (5,)),
    ((5, 1), (1, 3)),
    ((3,), (2, 3)),
    ((2, 3), (3,)),
    ((3, 1, 5), (4, 1)),
    ((2, 1, 3, 1), (1, 4, 1, 3)),
    ((7,), (2, 3, 5, 7)),
    ((2, 3, 5, 7), (1, 5, 1)),
    ((31, 33), (31, 33)),
    ((1, 33), (257, 1)),
    ((257,), (1,)),
]
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 1e30, -1e30, 1.0, -2.5], np.float32)
SPECIAL_PAIRS = tuple(np.ascontiguousarray(v.reshape(-1)) for v in np.meshgrid(SPECIAL, SPECIAL, indexing="ij"))


def each(make: Callable[..., np.ndarray], shapes: Sequence[tuple[int, ...]] = SHAPES, **options: Any) -> list[Sample]:
    """A sample of one operand for each shape."""
    return [Sample((make(*shape),), options) for shape in shapes]


def pairs(make: Callable[..., np.ndarray], second: Callable[..., np.ndarray] | None = None) -> list[Sample]:
    """A sample of two operands for each pair of shapes."""
    return [Sample((make(*a), (second or make)(*b))) for a, b in PAIRS]


def arrays(make: Callable[..., np.ndarray], *shapes: tuple[int, ...], **options: Any) -> Sample:
    return Sample(tuple(make(*shape) for shape in shapes), options)


def special(**options: Any) -> Sample:
    return Sample((SPECIAL,), options)


# ---------------------------------------------------------------- deviations

LEAST_NORMAL = float(np.finfo(np.float32).tiny)


def denormal(x: Any) -> np.ndarray:
    return (np.abs(x) > 0) & (np.abs(x) < LEAST_NORMAL)


def _with_denormals_moved(reference: Callable[..., Any], *operands: np.ndarray) -> list[np.ndarray]:
    choices = [[x, *(np.where(denormal(x), np.copysign(to, x), x) for to in (0.0, LEAST_NORMAL))] for x in operands]
    results = [np.asarray(reference(*chosen)) for chosen in itertools.product(*choices)]
    return [*results, *(np.where(denormal(r), 0.0, r) for r in results)]


DENORMALS = Deviation(
    "a Vulkan device may read or write a number below the least normal one as 0, and Mesa's log reads it as another",
    where=lambda expected, *operands: np.logical_or.reduce([denormal(x) for x in (expected, *operands)]),
    values=_with_denormals_moved,
    device="vulkan",
)
LOST_SIGN_OF_ZERO = Deviation(
    "the sign of a zero is lost: a number as operand is one fused multiply-add, and -0 + 0 is 0",
    where=lambda expected, *operands: expected == 0,
    values=lambda reference, *operands: [0.0],
)
VULKAN_SIGN_OF_ZERO = Deviation(
    "Vulkan's kernel loses the sign of a zero",
    where=lambda expected, *operands: expected == 0,
    values=lambda reference, *operands: [0.0],
    device="vulkan",
)


SIGN_OF_ZERO = Deviation(
    "the sign of a zero is lost where several steps make a result",
    where=lambda expected, *operands: expected == 0,
    values=lambda reference, *operands: [0.0],
)


def at_nan(result: float, reason: str) -> Deviation:
    """NaN becomes a number."""
    return Deviation(
        reason,
        where=lambda expected, x, *_: np.isnan(x),
        values=lambda reference, x, *_: [result],
    )


# ---------------------------------------------------------------- errors


def wrong_operands(
    name: str, call: Callable[..., Any], *good: Callable[[Maker], Any], ints: bool = True, named: bool = True
) -> list[Error]:
    """What every operation says to an operand of a wrong kind, in each position. `ints`: int32 tensors are wrong."""
    head = (name,) if named else ()
    bad: list[tuple[Callable[[Maker], Any], type[Exception], tuple[str, ...]]] = [
        (lambda m: np.ones(3, complex), TypeError, (*head, "complex128")),
        (lambda m: np.array([None, 1]), TypeError, (*head, "object")),
        (lambda m: "three", TypeError, head),
        (lambda m: [[1.0, 2.0], [3.0]], ValueError, (*head, "regular")),
        (lambda m: np.ones((2, 0)), ValueError, (*head, "(2, 0)", "at least one element")),
        (lambda m: np.ones((1, 1, 1, 1, 2)), ValueError, (*head, "(1, 1, 1, 1, 2)", "at most 4")),
    ]
    if named:
        bad.append((lambda m: 10**400, ValueError, ("too large",)))
    if ints:
        bad.append((lambda m: m.ints(2, 3), TypeError, (*head, "(2, 3)", "int32", "astype")))

    def with_bad(position: int, make_bad: Callable[[Maker], Any]) -> Callable[[Maker], Any]:
        return lambda m: call(*(make_bad(m) if i == position else make(m) for i, make in enumerate(good)))

    return [Error(with_bad(i, make), kind, words) for i in range(len(good)) for make, kind, words in bad]


def unary_errors(name: str, call: Callable[..., Any]) -> list[Error]:
    return wrong_operands(name, call, lambda m: m(2, 3))


def binary_errors(name: str, call: Callable[..., Any]) -> list[Error]:
    return [
        *wrong_operands(name, call, lambda m: m(2, 3), lambda m: m(2, 3)),
        Error(lambda m: call(m(2, 3), m(4)), ValueError, (name, "(2, 3)", "(4,)", "broadcast")),
        Error(lambda m: call(m(2, 3, 1), np.ones((3, 3, 1))), ValueError, (name, "(2, 3, 1)", "(3, 3, 1)")),
        Error(lambda m: call(m(2), m.elsewhere(2)), ValueError, (name, *DEVICES[:2], ".to("), devices=2),
    ]


def axis_errors(name: str, call: Callable[..., Any]) -> list[Error]:
    """`call(x, axis)`."""
    return [
        Error(lambda m: call(m(2, 3), 2), IndexError, (name, "axis 2", "2 dimensions")),
        Error(lambda m: call(m(2, 3), -3), IndexError, (name, "axis -3")),
        Error(lambda m: call(m(), 0), IndexError, (name, "axis 0", "0 dimensions")),
        Error(lambda m: call(m(2, 3), 1.0), TypeError, (name, "1.0")),
        Error(lambda m: call(m(2, 3), "rows"), TypeError, (name, "rows")),
        Error(lambda m: call(m(2, 3), True), TypeError, (name, "True")),
    ]


def axes_errors(name: str, call: Callable[..., Any]) -> list[Error]:
    """`call(x, axis)` where several axes are possible."""
    return [
        *axis_errors(name, call),
        Error(lambda m: call(m(2, 3), (0, 2)), IndexError, (name, "axis 2")),
        Error(lambda m: call(m(2, 3), (0, 0)), ValueError, (name, "(0, 0)", "twice")),
        Error(lambda m: call(m(2, 3), (1, -1)), ValueError, (name, "(1, -1)", "twice")),
        Error(lambda m: call(m(2, 3), (0, 1.5)), TypeError, (name, "1.5")),
    ]
