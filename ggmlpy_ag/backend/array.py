"""Array: a typed, strided window on a storage. What an operation takes and returns below the tape."""

from __future__ import annotations

from functools import cache, lru_cache
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from . import library as lib

if TYPE_CHECKING:
    from .devices import Device
    from .memory import Storage

FLOAT = np.dtype(np.float32)
HALF = np.dtype(np.float16)
BFLOAT = np.dtype([("bfloat16", np.uint16)])  # NumPy has no bfloat16: the upper half of a float32
INT = np.dtype(np.int32)
GGML_TYPE: dict[np.dtype, int] = {FLOAT: lib.TYPE_F32, HALF: lib.TYPE_F16, BFLOAT: lib.TYPE_BF16, INT: lib.TYPE_I32}
MAX_DIMS = 4
_OWN = {dtype: dtype for dtype in GGML_TYPE}

Shape = tuple[int, ...]


def own_dtype(dtype: np.dtype) -> np.dtype:
    """The one of the four types that equals it: we compare by identity, and the types of unpickled arrays are others.

    Raises:
        KeyError: none does.
    """
    return _OWN[dtype]


@cache
def dtype_name(dtype: np.dtype) -> str:
    """Its name in messages."""
    return "bfloat16" if dtype == BFLOAT else dtype.name


def to_bfloat(values: np.ndarray) -> np.ndarray:
    """float32 -> bfloat16, to the nearest, ties to even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = (bits + (0x7FFF + ((bits >> 16) & 1))) >> 16
    rounded = np.where(np.isnan(values), 0x7FC0 | (bits >> 16), rounded)  # adding could turn a NaN into infinity
    return rounded.astype(np.uint16).view(BFLOAT).reshape(values.shape)


def from_bfloat(values: np.ndarray) -> np.ndarray:
    """bfloat16 -> float32, exactly."""
    return (values["bfloat16"].astype(np.uint32) << 16).view(np.float32)


@lru_cache(maxsize=4096)
def packed_strides(shape: Shape) -> Shape:
    """Strides, in elements, of a C-contiguous array of this shape."""
    strides = []
    step = 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


@lru_cache(maxsize=4096)
def is_packed(shape: Shape, strides: Shape) -> bool:
    """Whether elements lie side by side in C order; the stride of a dimension of one element does not matter."""
    return all(n == 1 or s == p for n, s, p in zip(shape, strides, packed_strides(shape), strict=True))


@lru_cache(maxsize=4096)
def rows_packed(shape: Shape, strides: Shape) -> bool:
    """Whether each row (last dimension) lies side by side and rows do not run against each other."""
    if not shape or (shape[-1] != 1 and strides[-1] != 1):
        return not shape
    # ggml reads a row stride below the row's length as a transpose: an expanded or transposed view is no row layout
    return all(n == 1 or s >= shape[-1] for n, s in zip(shape[:-1], strides[:-1], strict=True))


@lru_cache(maxsize=4096)
def extents(shape: Shape) -> Shape:
    """ggml's `ne`: four extents, the fastest first."""
    return (*reversed(shape), 1, 1, 1, 1)[:MAX_DIMS]


class Array:
    """`shape` elements of `dtype`, `strides` elements apart, from element `offset` of a storage on."""

    __slots__ = ("dtype", "offset", "shape", "storage", "strides")

    def __init__(self, storage: Storage, dtype: np.dtype, shape: Shape, strides: Shape, offset: int = 0) -> None:
        self.storage = storage
        self.dtype = dtype
        self.shape = shape
        self.strides = strides
        self.offset = offset

    @property
    def device(self) -> Device:
        return self.storage.device

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def packed(self) -> bool:
        return is_packed(self.shape, self.strides)

    def view(self, shape: Shape, strides: Shape, offset: int | None = None) -> Array:
        """Another window on the same storage."""
        return Array(self.storage, self.dtype, shape, strides, self.offset if offset is None else offset)

    def reshaped(self, shape: Shape) -> Array:
        """The same elements in another shape; self must be packed."""
        return self.view(shape, packed_strides(shape))

    def permuted(self, axes: tuple[int, ...]) -> Array:
        shape, strides = self.shape, self.strides
        return self.view(tuple([shape[i] for i in axes]), tuple([strides[i] for i in axes]))

    def swapped(self) -> Array:
        """The last two dimensions swapped."""
        shape, strides = self.shape, self.strides
        return Array(
            self.storage,
            self.dtype,
            (*shape[:-2], shape[-1], shape[-2]),
            (*strides[:-2], strides[-1], strides[-2]),
            self.offset,
        )
