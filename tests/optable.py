"""The op table: one entry for each public operation. test_ops.py makes its tests from it.

An entry holds calls that are right (samples), what NumPy makes of them in float64, what PyTorch makes of them, how
exact the result is, where it deviates from NumPy and why, and calls that are wrong with the error each raises.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
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
    `edges`: operands where the gradient is a convention, which is PyTorch's. `special`: operands with infinities, NaN
    and the like. `smooth`: gradients of gradients are checked.
    """

    name: str
    call: Callable[..., ag.Tensor]
    numpy: Callable[..., Any]
    torch: Callable[..., Any] | None
    samples: Sequence[Sample]
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


# ---------------------------------------------------------------- references in NumPy float64

_erf = np.vectorize(math.erf, otypes=[float])


def _gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1.0 + _erf(x / math.sqrt(2.0)))


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-x))


def _log_softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    shifted = x - x.max(axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))


def _softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    return np.exp(_log_softmax(x, axis))


def _clamp(x: np.ndarray, low: float | None = None, high: float | None = None) -> np.ndarray:
    return np.clip(x, low, high)


def _cross_entropy(logits: np.ndarray, target: Any) -> float:
    target = np.asarray(target)
    log_p = _log_softmax(logits)
    if target.shape == logits.shape:
        terms = np.where(target == 0, 0.0, target * log_p)
    else:
        terms = np.take_along_axis(log_p, target.astype(np.int64)[..., None], -1)
    return float(-terms.sum() / (logits.size // logits.shape[-1]))


def _transpose(x: np.ndarray, axes: tuple[int, ...] = ()) -> np.ndarray:
    return np.swapaxes(x, *axes) if axes else x.T


def _torch_sum(name: str) -> Callable[..., Any]:
    def reduced(torch: Any, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        if axis == ():  # PyTorch takes it for all axes, NumPy for none
            return x
        return getattr(torch, name)(x, dim=axis, keepdim=keepdims)

    return reduced


def _torch_pad(torch: Any, x: Any, widths: Sequence[tuple[int, int]]) -> Any:
    return torch.nn.functional.pad(x, [w for pair in reversed(widths) for w in pair])


def _torch_cross_entropy(torch: Any, logits: Any, target: Any) -> Any:
    if not isinstance(target, torch.Tensor):
        target = torch.tensor(target)
    return torch.nn.functional.cross_entropy(logits, target)


def _torch_argmax(torch: Any, x: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    if axis is None and keepdims:
        return torch.argmax(x).reshape((1,) * x.ndim)
    return torch.argmax(x, dim=axis, keepdim=keepdims)


def _torch_clamp(torch: Any, x: Any, low: float | None = None, high: float | None = None) -> Any:
    return torch.clamp(x, low, high)


# ---------------------------------------------------------------- samples with a story

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

AXES: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((), {}),
    ((), {"axis": ()}),
    ((5,), {}),
    ((5,), {"axis": 0, "keepdims": True}),
    ((3, 7), {}),
    ((3, 7), {"axis": 0}),
    ((3, 7), {"axis": -1}),
    ((3, 7), {"axis": ()}),
    ((2, 3, 5), {"axis": 1}),
    ((2, 3, 5), {"axis": (0, 2)}),
    ((2, 3, 5), {"axis": [2, 1], "keepdims": True}),
    ((2, 3, 1, 5), {"axis": (-1, 1)}),
    ((2, 3, 1, 5), {"axis": (0, 1, 2, 3), "keepdims": True}),
    ((2, 3, 1, 5), {"axis": 2}),
    ((31, 33), {"axis": 0}),
    ((31, 33), {"axis": 1}),
    ((257,), {}),
    ((509, 3), {"axis": 0}),  # a prime length: no divisor to sum in parts of
    ((3, 512, 2), {"axis": 1}),
]

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


def _row_ties() -> np.ndarray:
    return np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0], [0.0, -0.0, -1.0], [5.0, 1.0, 5.0]], np.float32)


def _rows_with_nan() -> np.ndarray:
    nan, inf = np.nan, np.inf
    rows = [[1.0, nan, 5.0, nan], [nan] * 4, [-inf, nan, inf, 0.0], [-inf] * 4, [0.0, inf, nan, inf], [-1e30, -inf] * 2]
    return np.array(rows, np.float32)


def _loss_samples() -> Iterator[Sample]:
    for n, classes in [(1, 1), (1, 5), (3, 1), (3, 7), (31, 33), (257, 3), (2, 257)]:
        yield Sample((normal(n, classes), labels(n, classes)))
        yield Sample((normal(n, classes), uniform(n, classes)))
    yield Sample((normal(5), np.asarray(np.int32(3))))
    yield Sample((normal(5), uniform(5)))
    yield Sample((normal(3, 5), [4, 0, 2]))


def _with_numbers(make: Callable[..., np.ndarray]) -> list[Sample]:
    """A number on either side: an operation without a tensor for it."""
    return [Sample((make(3, 5), 1.5)), Sample((-2, make(3, 5))), Sample((make(), np.float32(0.25)))]


def _on(*shapes: tuple[int, ...]) -> list[Sample]:
    return [Sample((normal(*shape),), {"device": name}) for name in DEVICES for shape in shapes]


# ---------------------------------------------------------------- the table

OPS: list[Op] = [
    # ------------------------------------------------------------ arithmetic
    Op(
        name="add",
        call=ag.add,
        numpy=np.add,
        torch=lambda torch, a, b: a + b,
        samples=[*pairs(normal), *_with_numbers(normal)],
        special=[Sample(SPECIAL_PAIRS), Sample((SPECIAL, -1.0)), Sample((math.inf, SPECIAL))],
        deviations=[DENORMALS],
        errors=binary_errors("add", ag.add),
    ),
    Op(
        name="sub",
        call=ag.sub,
        numpy=np.subtract,
        torch=lambda torch, a, b: a - b,
        samples=[*pairs(normal), *_with_numbers(normal)],
        special=[Sample(SPECIAL_PAIRS), Sample((SPECIAL, 1.0)), Sample((2.0, SPECIAL)), Sample((SPECIAL, math.inf))],
        deviations=[DENORMALS],
        errors=binary_errors("sub", ag.sub),
    ),
    Op(
        name="mul",
        call=ag.mul,
        numpy=np.multiply,
        torch=lambda torch, a, b: a * b,
        samples=[*pairs(normal), *_with_numbers(normal)],
        smooth=True,
        special=[Sample(SPECIAL_PAIRS), Sample((SPECIAL, -3.0)), Sample((0.0, SPECIAL)), Sample((SPECIAL, math.inf))],
        deviations=[DENORMALS, LOST_SIGN_OF_ZERO],
        errors=binary_errors("mul", ag.mul),
    ),
    Op(
        name="div",
        call=ag.div,
        numpy=np.divide,
        torch=lambda torch, a, b: a / b,
        samples=[*pairs(normal, nonzero), *_with_numbers(nonzero), Sample((normal(5), 3)), Sample((1e-30, uniform(5)))],
        smooth=True,
        special=[
            Sample(SPECIAL_PAIRS),
            Sample((SPECIAL, 4.0)),
            Sample((1.0, SPECIAL)),
            Sample((SPECIAL, 0.0)),
            Sample((SPECIAL, -0.0)),
            Sample((SPECIAL, math.inf)),
            Sample((SPECIAL, 1e-39)),
        ],
        deviations=[DENORMALS, LOST_SIGN_OF_ZERO],
        errors=binary_errors("div", ag.div),
    ),
    Op(
        name="neg",
        call=ag.neg,
        numpy=np.negative,
        torch=lambda torch, x: -x,
        samples=each(normal),
        special=[special()],
        deviations=[DENORMALS],
        errors=unary_errors("neg", ag.neg),
    ),
    Op(
        name="scale",
        call=ag.scale,
        numpy=lambda x, factor, offset=0.0: x * factor + offset,
        torch=lambda torch, x, factor, offset=0.0: x * factor + offset,
        samples=[*each(normal, factor=-1.5), *each(normal, [(3, 5), (257,)], factor=2, offset=np.float32(0.5))],
        special=[special(factor=2.0), special(factor=-1.0, offset=1.0), special(factor=0.0)],
        deviations=[DENORMALS, LOST_SIGN_OF_ZERO],
        errors=[
            *unary_errors("scale", lambda x: ag.scale(x, 2.0)),
            Error(lambda m: ag.scale(m(2), m(2)), TypeError, ("scale", "Tensor", "mul")),
            Error(lambda m: ag.scale(m(2), 1.0, "one"), TypeError, ("scale", "str")),
            Error(lambda m: ag.scale(m(2), 1j), TypeError, ("scale", "complex")),
            Error(lambda m: ag.scale(m(2), 10**400), ValueError, ("too large",)),
        ],
    ),
    Op(
        name="pow",
        call=ag.pow,
        numpy=np.power,
        torch=lambda torch, a, b: torch.pow(a, b),
        samples=[
            *pairs(uniform),
            *[
                Sample((make(3, 5), exponent))
                for make, exponents in [(nonzero, (1, 2, 3, -1, -2, 7)), (uniform, (0.5, 1.5, -0.5, 0.3, -2.25))]
                for exponent in exponents
            ],
            Sample((2, uniform(3, 5))),
        ],
        smooth=True,
        edges=[
            *[Sample((np.array([0.0, -0.0, 1.0], np.float32), p)) for p in (1, 2, 3)],
            Sample((np.array([0.0, 0.0, 0.0, 1.0], np.float32), np.array([2.0, 1.0, 0.0, 0.0], np.float32))),
        ],
        special=[
            Sample(SPECIAL_PAIRS),
            *[Sample((SPECIAL, p)) for p in (0, 1, 2, 3, -1, -2, 0.5, -0.5, 1.5, 0.3, math.inf, -math.inf, math.nan)],
            Sample((2.0, SPECIAL)),
            Sample((nonzero(2, 3), np.array([[2.0, 3.0, -1.0], [0.0, -4.0, 63.0]], np.float32))),
        ],
        deviations=[
            DENORMALS,
            Deviation(
                "0 and inf to a power below 1e-36 are taken as exp(-3e38) and exp(3e38) to that power",
                where=lambda expected, a, b: ((a == 0) | np.isinf(a)) & (np.abs(b) < 1e-36),
                values=lambda reference, a, b: [reference(a, b), 1.0],
            ),
            LOST_SIGN_OF_ZERO,
            Deviation(
                "a fractional power goes through sqrt and log: NaN for a negative base, -inf too; -0 ** -0.5 is -inf",
                where=lambda expected, a, b: np.signbit(a) & (np.floor(b) != b) & ~np.isnan(b) & (np.abs(b) < np.inf),
                values=lambda reference, a, b: [np.where(a == 0, np.inf, np.nan), np.where(a == 0, -np.inf, np.nan)],
            ),
            Deviation(
                "NumPy has 1 ** NaN = 1 and NaN ** 0 = 1; here only NaN ** 0 with the number 0",
                where=lambda expected, a, b: np.isnan(a) | np.isnan(b),
                values=lambda reference, a, b: [reference(a, b), np.nan],
            ),
        ],
        errors=binary_errors("pow", ag.pow),
        rtol=5e-6,
        grad_rtol=5e-5,
    ),
    # ------------------------------------------------------------ functions of single elements
    Op(
        name="sqrt",
        call=ag.sqrt,
        numpy=np.sqrt,
        torch=lambda torch, x: torch.sqrt(x),
        samples=each(uniform),
        smooth=True,
        edges=[Sample((np.array([0.0, 4.0], np.float32),))],
        special=[special()],
        deviations=[DENORMALS],
        errors=unary_errors("sqrt", ag.sqrt),
    ),
    Op(
        name="exp",
        call=ag.exp,
        numpy=np.exp,
        torch=lambda torch, x: torch.exp(x),
        samples=each(normal),
        smooth=True,
        special=[special()],
        deviations=[DENORMALS],
        errors=unary_errors("exp", ag.exp),
    ),
    Op(
        name="log",
        call=ag.log,
        numpy=np.log,
        torch=lambda torch, x: torch.log(x),
        samples=each(uniform),
        smooth=True,
        special=[special()],
        deviations=[DENORMALS],
        errors=unary_errors("log", ag.log),
        atol=5e-7,  # near 1, where the logarithm is near 0: Vulkan promises 2**-21
    ),
    Op(
        name="abs",
        call=ag.abs,
        numpy=np.abs,
        torch=lambda torch, x: torch.abs(x),
        samples=each(nonzero),
        edges=[Sample((np.array([0.0, -0.0, 2.0, -2.0], np.float32),))],
        special=[special()],
        deviations=[DENORMALS],
        errors=unary_errors("abs", ag.abs),
    ),
    Op(
        name="sign",
        call=ag.sign,
        numpy=np.sign,
        torch=lambda torch, x: torch.sign(x),
        samples=each(nonzero),
        gradient=False,
        special=[special()],
        deviations=[DENORMALS, at_nan(0.0, "ggml's sgn(NaN) is 0 on every device"), LOST_SIGN_OF_ZERO],
        errors=unary_errors("sign", ag.sign),
    ),
    Op(
        name="clamp",
        call=ag.clamp,
        numpy=_clamp,
        torch=_torch_clamp,
        samples=[
            *each(nonzero, low=-0.1, high=0.1),
            *[Sample((nonzero(3, 5),), o) for o in ({"low": 0}, {"high": 0.1}, {"low": -5, "high": np.float32(5)})],
        ],
        edges=[Sample((np.array([-1.0, 1.0, 0.0, -2.0, 2.0], np.float32),), {"low": -1.0, "high": 1.0})],
        special=[special(low=-1.0, high=1.0), special(low=0.5), special(high=-math.inf), special(low=-1e38, high=1e38)],
        deviations=[DENORMALS, VULKAN_SIGN_OF_ZERO],
        errors=[
            *unary_errors("clamp", lambda x: ag.clamp(x, 0.0, 1.0)),
            Error(lambda m: ag.clamp(m(2)), ValueError, ("clamp", "low", "high")),
            Error(lambda m: ag.clamp(m(2), 1.0, 0.0), ValueError, ("clamp", "1.0", "0.0")),
            Error(lambda m: ag.clamp(m(2), "a"), TypeError, ("clamp", "'a'")),
            Error(lambda m: ag.clamp(m(2), None, m(2)), TypeError, ("clamp",)),
            Error(lambda m: ag.clamp(m(2), math.nan), ValueError, ("clamp", "nan")),
        ],
    ),
    # ------------------------------------------------------------ activations
    Op(
        name="relu",
        call=ag.relu,
        numpy=lambda x: np.maximum(x, 0.0),
        torch=lambda torch, x: torch.relu(x),
        samples=each(nonzero),
        edges=[Sample((np.array([0.0, -0.0, 3.0, -3.0], np.float32),))],
        special=[special()],
        deviations=[DENORMALS, at_nan(0.0, "ggml's relu(NaN) is 0 on every device")],
        errors=unary_errors("relu", ag.relu),
    ),
    Op(
        name="sigmoid",
        call=ag.sigmoid,
        numpy=_sigmoid,
        torch=lambda torch, x: torch.sigmoid(x),
        samples=each(normal),
        smooth=True,
        special=[special()],
        deviations=[DENORMALS],
        errors=unary_errors("sigmoid", ag.sigmoid),
    ),
    Op(
        name="tanh",
        call=ag.tanh,
        numpy=np.tanh,
        torch=lambda torch, x: torch.tanh(x),
        samples=each(normal),
        smooth=True,
        special=[special()],
        deviations=[DENORMALS, VULKAN_SIGN_OF_ZERO],
        errors=unary_errors("tanh", ag.tanh),
        atol=2e-7,  # Vulkan: 1 - 2 / (exp(2x) + 1)
    ),
    Op(
        name="gelu",
        call=ag.gelu,
        numpy=_gelu,
        torch=lambda torch, x: torch.nn.functional.gelu(x),
        samples=each(normal),
        smooth=True,
        edges=[Sample((np.array([0.0, -0.0, 30.0, -30.0, 1e-20, -1e-5], np.float32),))],
        special=[special()],
        deviations=[DENORMALS],
        errors=unary_errors("gelu", ag.gelu),
        atol=5e-7,  # 1 + erf(x) cancels below 0
    ),
    Op(
        name="silu",
        call=ag.silu,
        numpy=lambda x: x * _sigmoid(x),
        torch=lambda torch, x: torch.nn.functional.silu(x),
        samples=each(normal),
        smooth=True,
        special=[special()],
        deviations=[DENORMALS],
        errors=unary_errors("silu", ag.silu),
    ),
    Op(
        name="softmax",
        call=ag.softmax,
        numpy=_softmax,
        torch=lambda torch, x, axis=-1: torch.softmax(x, axis),
        samples=[
            *each(normal, [s for s in SHAPES if s]),
            *[Sample((normal(*s),), {"axis": a}) for s, a in [((3, 7), 0), ((2, 3, 5), 1), ((2, 1, 3, 5), -4)]],
        ],
        smooth=True,
        errors=[*unary_errors("softmax", ag.softmax), *axis_errors("softmax", ag.softmax)],
    ),
    Op(
        name="log_softmax",
        call=ag.log_softmax,
        numpy=_log_softmax,
        torch=lambda torch, x, axis=-1: torch.log_softmax(x, axis),
        samples=[
            *each(normal, [s for s in SHAPES if s]),
            *[Sample((normal(*s),), {"axis": a}) for s, a in [((3, 7), 0), ((2, 3, 5), 1), ((2, 1, 3, 5), -4)]],
        ],
        smooth=True,
        errors=[*unary_errors("log_softmax", ag.log_softmax), *axis_errors("log_softmax", ag.log_softmax)],
        atol=5e-7,  # log(sum) rounds at the size of the largest logit
    ),
    # ------------------------------------------------------------ matrix products
    Op(
        name="matmul",
        call=ag.matmul,
        numpy=np.matmul,
        torch=lambda torch, a, b: torch.matmul(a, b),
        samples=[arrays(normal, *shapes) for shapes in MATMUL_SHAPES],
        smooth=True,
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
        errors=[
            *wrong_operands("linear", ag.linear, lambda m: m(2, 3), lambda m: m(4, 3)),
            Error(lambda m: ag.linear(m(2, 3), m(3, 4)), ValueError, ("linear", "(2, 3)", "(3, 4)", "(out, in)")),
            Error(lambda m: ag.linear(m(2, 3), m(3)), ValueError, ("linear", "(2, 3)", "(3,)")),
            Error(lambda m: ag.linear(m(), m(2, 1)), ValueError, ("linear", "()", "(2, 1)")),
            Error(lambda m: ag.linear(m(2, 3), m(4, 3), m(3)), ValueError, ("linear", "(4, 3)", "bias (3,)")),
            Error(lambda m: ag.linear(m(2, 3), m(4, 3), m(2, 4)), ValueError, ("linear", "bias (2, 4)")),
        ],
        sums=True,
    ),
    # ------------------------------------------------------------ sums
    Op(
        name="sum",
        call=ag.sum,
        numpy=lambda x, axis=None, keepdims=False: np.sum(
            x, tuple(axis) if isinstance(axis, list) else axis, keepdims=keepdims
        ),
        torch=_torch_sum("sum"),
        samples=[Sample((normal(*shape),), options) for shape, options in AXES],
        errors=[*unary_errors("sum", ag.sum), *axes_errors("sum", ag.sum)],
        sums=True,
    ),
    Op(
        name="mean",
        call=ag.mean,
        numpy=lambda x, axis=None, keepdims=False: np.mean(
            x, tuple(axis) if isinstance(axis, list) else axis, keepdims=keepdims
        ),
        torch=_torch_sum("mean"),
        samples=[Sample((normal(*shape),), options) for shape, options in AXES],
        errors=[*unary_errors("mean", ag.mean), *axes_errors("mean", ag.mean)],
        sums=True,
    ),
    Op(
        name="broadcast_to",
        call=ag.broadcast_to,
        numpy=np.broadcast_to,
        torch=lambda torch, x, shape: torch.broadcast_to(x, tuple(shape)),
        samples=[
            Sample((normal(*before),), {"shape": after})
            for before, after in [
                ((), ()),
                ((), (3,)),
                ((1,), (5,)),
                ((3,), (2, 3)),
                ((3, 1), [3, 7]),
                ((1, 3), (2, 5, 3)),
                ((2, 1, 3, 1), (2, 4, 3, 5)),
                ((), (1, 1, 1, 1)),
                ((1, 33), (31, 33)),
                ((257, 1), (257, 3)),
            ]
        ],
        errors=[
            *unary_errors("broadcast_to", lambda x: ag.broadcast_to(x, (2, 3))),
            Error(lambda m: ag.broadcast_to(m(3), (4,)), ValueError, ("broadcast_to", "(3,)", "(4,)")),
            Error(lambda m: ag.broadcast_to(m(2, 3), (3,)), ValueError, ("broadcast_to", "(2, 3)", "(3,)")),
            Error(lambda m: ag.broadcast_to(m(1), (0,)), ValueError, ("broadcast_to", "(0,)")),
            Error(lambda m: ag.broadcast_to(m(1), (-1,)), ValueError, ("broadcast_to", "(-1,)")),
            Error(lambda m: ag.broadcast_to(m(1), (1, 1, 1, 1, 1)), ValueError, ("broadcast_to", "more than 4")),
            Error(lambda m: ag.broadcast_to(m(1), (2.0,)), TypeError, ("broadcast_to", "2.0")),
            Error(lambda m: ag.broadcast_to(m(1), 2), TypeError, ("broadcast_to", "2")),
        ],
    ),
    Op(
        name="argmax",
        call=ag.argmax,
        numpy=lambda x, axis=None, keepdims=False: np.argmax(x, axis, keepdims=keepdims),
        torch=_torch_argmax,
        samples=[
            *each(normal),
            *[
                Sample((normal(*shape),), {"axis": axis, "keepdims": keep})
                for shape, axis in [((5,), 0), ((3, 7), 0), ((3, 7), -1), ((2, 3, 5), 1), ((2, 1, 3, 5), 0)]
                for keep in (False, True)
            ],
            Sample((normal(2, 3),), {"keepdims": True}),
            Sample((normal(33, 31),), {"axis": 1}),
            Sample((_row_ties(),), {"axis": 1}),
            Sample((_row_ties(),), {"axis": 0}),
            Sample((_row_ties(),)),
        ],
        gradient=False,
        special=[special(), *[Sample((_rows_with_nan(),), {"axis": axis}) for axis in (0, 1)]],
        errors=[*unary_errors("argmax", ag.argmax), *axis_errors("argmax", ag.argmax)],
    ),
    # ------------------------------------------------------------ shape
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
        name="pad",
        call=ag.pad,
        numpy=lambda x, widths: np.pad(x, widths) if widths else x,
        torch=_torch_pad,
        samples=[
            Sample((normal(*shape),), {"widths": widths})
            for shape, widths in [
                ((), []),
                ((1,), [(0, 1)]),
                ((5,), [(0, 0)]),
                ((5,), [(2, 1)]),
                ((3, 7), [(1, 0), (0, 2)]),
                ((3, 7), [(0, 0), (3, 3)]),
                ((2, 3, 5), [(1, 1), (0, 0), (1, 0)]),
                ((2, 1, 3, 5), [(1, 2), (0, 1), (2, 0), (1, 1)]),
                ((31, 33), [(1, 1), (1, 1)]),
            ]
        ],
        errors=[
            *unary_errors("pad", lambda x: ag.pad(x, [(1, 1), (1, 1)])),
            Error(lambda m: ag.pad(m(2, 3), [(1, 1)]), ValueError, ("pad", "(2, 3)", "2 pairs")),
            Error(lambda m: ag.pad(m(3), [(1, -1)]), ValueError, ("pad", "(3,)", "from 0", "-1")),
            Error(lambda m: ag.pad(m(3), [(1, 1, 1)]), ValueError, ("pad", "(3,)")),
            Error(lambda m: ag.pad(m(3), [(1, 2**31)]), ValueError, ("pad", str(2**31))),
            Error(lambda m: ag.pad(m(3), [(1.0, 1)]), TypeError, ("pad", "1.0")),
            Error(lambda m: ag.pad(m(3), 1), TypeError, ("pad", "1")),
            Error(lambda m: ag.pad(m(3), [1]), TypeError, ("pad", "1")),
        ],
    ),
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
            Error(lambda m: ag.astype(m(2), "float64"), TypeError, ("float32 or int32", "float64")),
            Error(lambda m: ag.astype(m(2), np.int64), TypeError, ("float32 or int32", "int64")),
            Error(lambda m: ag.astype(m(2), "wood"), TypeError, ("float32 or int32", "wood")),
            Error(lambda m: m(2).astype(7), TypeError, ("float32 or int32", "7")),
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
            Error(lambda m: m(2).to("float32"), ValueError, ("'float32'",)),
            Error(lambda m: ag.to(np.ones(2), "cpu"), TypeError, ("to", "ndarray")),
        ],
    ),
    # ------------------------------------------------------------ losses
    Op(
        name="mse_loss",
        call=ag.mse_loss,
        numpy=lambda a, b: np.mean((a - b) ** 2),
        torch=lambda torch, a, b: torch.nn.functional.mse_loss(a, b),
        samples=[arrays(normal, shape, shape) for shape in SHAPES],
        smooth=True,
        errors=[
            *wrong_operands("mse_loss", ag.mse_loss, lambda m: m(2, 3), lambda m: m(2, 3)),
            Error(lambda m: ag.mse_loss(m(2, 3), m(3)), ValueError, ("mse_loss", "(2, 3)", "(3,)")),
            Error(lambda m: ag.mse_loss(m(3), 1.0), ValueError, ("mse_loss", "(3,)", "()")),
            Error(lambda m: ag.mse_loss(m(2), m.elsewhere(2)), ValueError, ("mse_loss", *DEVICES[:2]), devices=2),
        ],
    ),
    Op(
        name="cross_entropy_loss",
        call=ag.cross_entropy_loss,
        numpy=_cross_entropy,
        torch=_torch_cross_entropy,
        samples=list(_loss_samples()),
        smooth=True,
        errors=[
            *wrong_operands("cross_entropy_loss", lambda x: ag.cross_entropy_loss(x, [0, 1]), lambda m: m(2, 3)),
            Error(lambda m: ag.cross_entropy_loss(m(2, 3), [0, 3]), IndexError, ("index 3 of sample 1", "[0, 3)")),
            Error(lambda m: ag.cross_entropy_loss(m(2, 3), [-1, 0]), IndexError, ("class index -1", "sample 0")),
            Error(lambda m: ag.cross_entropy_loss(m(2, 3), [0, 2**40]), IndexError, (str(2**40), "sample 1")),
            Error(lambda m: ag.cross_entropy_loss(m(3, 2), m.ints(3)), IndexError, ("class index 2", "sample 2")),
            Error(lambda m: ag.cross_entropy_loss(m(3), -1), IndexError, ("class index -1", "sample 0")),
            Error(lambda m: ag.cross_entropy_loss(m(2, 3), [0.0, 1.0]), TypeError, ("indices", "float64")),
            Error(lambda m: ag.cross_entropy_loss(m(2, 3), m(2)), TypeError, ("indices", "float32")),
            Error(lambda m: ag.cross_entropy_loss(m(2, 3), [True, False]), TypeError, ("indices", "bool")),
            Error(lambda m: ag.cross_entropy_loss(m(2, 3), ["a", "b"]), TypeError, ("indices",)),
            Error(lambda m: ag.cross_entropy_loss(m(2, 3), m.ints(2, 3)), TypeError, ("cross_entropy_loss", "int32")),
            Error(lambda m: ag.cross_entropy_loss(m(2, 3), [0, 1, 2]), ValueError, ("(2, 3)", "(2,)", "(3,)")),
            Error(lambda m: ag.cross_entropy_loss(m(2, 3), m(3, 2)), ValueError, ("(2, 3)", "(3, 2)")),
            Error(lambda m: ag.cross_entropy_loss(m(2, 3), [[0], [1, 2]]), ValueError, ("cross_entropy_loss",)),
            Error(lambda m: ag.cross_entropy_loss(m(2, 2, 3), [0, 1]), ValueError, ("classes", "(2, 2, 3)")),
            Error(lambda m: ag.cross_entropy_loss(m(), 0), ValueError, ("classes", "()")),
            Error(lambda m: ag.cross_entropy_loss(m(2, 3), m.elsewhere(2, 3)), ValueError, DEVICES[:2], devices=2),
        ],
    ),
]

BY_NAME = {op.name: op for op in OPS}

# ---------------------------------------------------------------- making tensors

MAKING_ERRORS = [
    *wrong_operands("", ag.tensor, lambda m: [1.0], ints=False, named=False),
    Error(lambda m: ag.tensor(10**400), TypeError, ("data", "object")),
    Error(lambda m: ag.tensor([2**31]), ValueError, ("data", str(2**31), "int32")),
    Error(lambda m: ag.tensor(np.array([0, -(2**40)])), ValueError, ("data", str(-(2**40)), "int32")),
    Error(lambda m: ag.tensor(np.array([2**64 - 1], np.uint64)), ValueError, ("data", "int32")),
    Error(lambda m: ag.tensor([1.5], dtype="int32"), TypeError, ("data", "whole", "int32")),
    Error(lambda m: ag.tensor([math.nan], dtype="int32"), TypeError, ("data", "whole", "int32")),
    Error(lambda m: ag.tensor([math.inf], dtype="int32"), ValueError, ("data", "inf", "int32")),
    Error(lambda m: ag.tensor([1.0], dtype="float64"), TypeError, ("float32 or int32", "float64")),
    Error(lambda m: ag.tensor([1], requires_grad=True), TypeError, ("int32", "gradient")),
    Error(lambda m: ag.tensor([1.0], device="tpu"), ValueError, ("'tpu'", "cpu")),
    Error(lambda m: ag.param([1j]), TypeError, ("data", "complex128")),
]
