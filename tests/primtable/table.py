"""What an entry about a primitive is: right calls, what NumPy makes of them, and where the backends differ."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ggmlpy_ag.backend.array import BFLOAT, FLOAT, HALF, INT, from_bfloat
from ggmlpy_ag.backend.primitives import Primitive

MANY = 70_000  # more than the 65,535 workgroups a Vulkan device need not exceed
TINY = 2.0**-126  # the least normal float32: results below it may be flushed to 0 on Vulkan
TYPES = (FLOAT, HALF, BFLOAT, INT)
LEAST = 2.0**-149
GREATEST = float(np.finfo(np.float32).max)
LLVMPIPE = "llvmpipe Mesa 22."  # whose shaders' loops end, silently, after 65,535 rounds

# ggml's dimensions 0 to 3 are many in turn: columns, rows, and two beyond
LARGE = ((3, MANY), (MANY, 3), (MANY, 2, 3), (MANY, 2, 1, 3))
SHAPES = ((), (1,), (3,), (31,), (33,), (257,), (3, 31), (33, 257), (2, 3, 31), (2, 3, 5, 7), (3, 1, 2, 1))

SPECIAL = np.array(
    [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 3.0, 10.0, -10.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40,
     LEAST, -LEAST, TINY, -TINY, 1e-20, -1e-20, 1e-8, -1e-8, 1e-3, 2**23 + 0.5, 2**24, 1e20, -1e20, 3e38, GREATEST,
     -GREATEST],
    np.float32,
)  # fmt: skip

ODD_BITS = np.array([0, 0x80000000, 1, 0x007FFFFF, 0x7F800001, 0x7FC00000, 0xFFFFFFFF, 0x7F800000], np.uint32)


@dataclass(frozen=True)
class Sample:
    """One call. An operand is an array, or the shape of one with normal float32 values."""

    operands: tuple[np.ndarray | tuple[int, ...], ...]
    parameters: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return ",".join([*map(_text, self.operands), *(f"{p}" for p in self.parameters)]).replace(" ", "")

    def arrays(self) -> list[np.ndarray]:
        return [v if isinstance(v, np.ndarray) else normal(*v, seed=i) for i, v in enumerate(self.operands)]


def _alike(got: np.ndarray, wanted: np.ndarray | Callable[[np.ndarray], bool]) -> bool:
    if callable(wanted):
        return wanted(got)
    return got.shape == wanted.shape and bool(np.allclose(got, wanted, 1e-6, 0, equal_nan=True))


def _text(operand: np.ndarray | tuple[int, ...]) -> str:
    if isinstance(operand, tuple):
        return "x".join(map(str, operand)) or "scalar"
    name = "bfloat16" if operand.dtype == BFLOAT else operand.dtype.name
    return f"{name}-{'x'.join(map(str, operand.shape)) or 'scalar'}"


@dataclass(frozen=True)
class Difference:
    """A call whose result differs between the backends, or from NumPy's on both: what each gives.

    `vulkan` may be a check of what is given. What a driver does, and not ggml, has the beginning of the driver's name;
    with another driver either is right.
    """

    about: str
    sample: Sample
    cpu: np.ndarray
    vulkan: np.ndarray | Callable[[np.ndarray], bool]
    driver: str = "llvmpipe"

    def holds(self, got: np.ndarray, driver: str | None) -> bool:
        """Whether a Vulkan device with this driver, or the CPU (None), gave what is stated."""
        if driver is None:
            return _alike(got, self.cpu)
        return _alike(got, self.vulkan) or (not driver.startswith(self.driver) and _alike(got, self.cpu))

    def __str__(self) -> str:
        return self.about


@dataclass(frozen=True, kw_only=True)
class Entry:
    """All that is known about a primitive.

    `numpy(*operands, *parameters)` has the result's shape, and its type where that is not float32: float64 is compared
    within `rtol` and `atol`, all else bit for bit, but for the payload of a NaN that was computed. With `sums`, `rtol`
    counts from the sum of the terms' magnitudes. `edges` are calls with special values, within `edge_rtol` and
    TINY. `large` has many of something. `laid` is the call whose operands are laid out in every way that the primitive
    takes; `ways` names them where they are fewer than the primitive's table says, because its callers see to it.
    """

    primitive: Primitive
    numpy: Callable[..., np.ndarray]
    samples: Sequence[Sample]
    large: Sequence[Sample] = ()
    edges: Sequence[Sample] = ()
    differences: Sequence[Difference] = ()
    laid: Sequence[Sample] = ()
    ways: tuple[tuple[str, ...], ...] = ()
    rtol: float = 0.0
    atol: float = 0.0
    edge_rtol: float = 0.0
    sums: bool = False

    def expected(self, arrays: Sequence[np.ndarray], parameters: Sequence[Any]) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.asarray(self.numpy(*arrays, *parameters))

    def check(self, got: np.ndarray, arrays: Sequence[np.ndarray], parameters: Sequence[Any], edge: bool) -> None:
        """Compare a result with NumPy's."""
        wanted = self.expected(arrays, parameters)
        if wanted.dtype != np.float64:
            same(got, wanted)
            return
        rtol, atol = (self.edge_rtol or self.rtol, max(self.atol, TINY)) if edge else (self.rtol, self.atol)
        if self.sums:
            sizes = self.expected([np.abs(v) if v.dtype == FLOAT else v for v in arrays], parameters)
            known = np.isfinite(wanted)
            np.testing.assert_array_equal(got[~known], wanted[~known].astype(np.float32))
            np.testing.assert_array_less(np.abs(got[known] - wanted[known]), (rtol * sizes + TINY)[known])
        else:
            with np.errstate(over="ignore"):
                np.testing.assert_allclose(got, wanted.astype(np.float32), rtol, atol)


def same(got: np.ndarray, wanted: np.ndarray) -> None:
    """Check that two arrays are the same, bit for bit but for the bits of a NaN; bfloat16 comes as float32."""
    if wanted.dtype == BFLOAT:
        wanted = from_bfloat(wanted)
    assert got.dtype == wanted.dtype
    np.testing.assert_array_equal(got, wanted)
    if wanted.dtype.kind == "f":
        number = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(got)[number], np.signbit(wanted)[number])


# ---------------------------------------------------------------- values


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.array(np.random.default_rng(seed + sum(shape)).standard_normal(shape, np.float32))


def integers(*shape: int, below: int, seed: int = 0) -> np.ndarray:
    """Indices from 0 to `below` - 1."""
    return np.array(np.random.default_rng(seed).integers(0, below, shape, np.int32))


def floats(*values: Any) -> np.ndarray:
    return np.array(values, np.float32)


def patterns(dtype: np.dtype, *shape: int) -> np.ndarray:
    """Elements of a type with all kinds of bits: NaNs, infinities and denormals among them."""
    count = math.prod(shape)
    if dtype in (HALF, BFLOAT):  # 40503 is odd, so that 65,536 elements are all there are
        return (np.arange(count, dtype=np.uint32) * 40503).astype(np.uint16).view(dtype).reshape(shape)
    bits = np.random.default_rng(count).integers(0, 1 << 32, count, np.uint32)
    bits[: len(ODD_BITS)] = ODD_BITS[:count]
    return bits.view(dtype).reshape(shape)


def halves(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return x.astype(np.float16)
