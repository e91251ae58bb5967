"""Rows: picked by index, and put in order. On arrays, below the tape; no operations."""

from __future__ import annotations

from math import prod

from ..backend import primitives as prim
from ..backend.array import FLOAT, INT, Array, Shape
from . import base
from .base import cast, counting, expanded, packed, scaled

COLUMNS = 1 << 24  # of a row that Vulkan's get_rows copies in one launch
INT_COLUMNS = 512  # ... of integers: of a longer row, it leaves out every second 512
EXACT = 1 << 24  # float32 holds integers up to here
SORTED_AT_ONCE = 1 << 23  # elements; ggml's scratch for them, which must not fail, is 64 MiB
IDENTITY = 256  # classes; rows of a larger identity matrix would take more memory than what they serve


def pick(table: Array, index: Array) -> Array:
    """Rows by index: (batch, n, columns) and (batch, k) int32 from 0 to n - 1 -> (batch, k, columns), of any type."""
    shape = (*index.shape, table.shape[-1])
    widest = INT_COLUMNS if table.dtype is INT else COLUMNS
    if shape[-1] > widest and not table.device.is_cpu:
        return _pick_wide(packed(table), index, widest)
    return _picked(table, index, shape)


def _picked(table: Array, index: Array, shape: Shape) -> Array:
    # ggml has halves as float32 already
    dtype = table.dtype if table.dtype is INT else FLOAT
    return cast(table.device.graph.record(prim.GET_ROWS, (table, index), shape, dtype), table.dtype)


def _pick_wide(table: Array, index: Array, width: int) -> Array:
    """Long rows, which Vulkan's kernel does not copy: as several short ones each."""
    (batch, n, columns), k = table.shape, index.shape[1]
    parts, rest = divmod(columns, width)
    pieces = table.view((batch, parts, n, width), (n * columns, width, columns, 1))
    indices = expanded(index.reshaped((batch, 1, k)), (batch, parts, k))
    picked = _picked(pieces, indices, (batch, parts, k, width))
    whole = base.reshaped(picked.permuted((0, 2, 1, 3)), (batch, k, parts * width))
    if not rest:
        return whole
    tail = table.view((batch, n, rest), table.strides, table.offset + parts * width)
    return concat(whole, pick(tail, index), 2)


def pick_along(a: Array, index: Array) -> Array:
    """One element of its row by index: (rows, n) and (rows, k) int32 -> (rows, k)."""
    return pick(base.reshaped(a, (*a.shape, 1)), index).reshaped(index.shape)


def as_rows(a: Array, axes: tuple[int, ...]) -> Array:
    """(rows, n), packed: the elements along these axes side by side, those along the others one below another."""
    rest = tuple([i for i in range(len(a.shape)) if i not in axes])
    moved = a.permuted((*rest, *axes))
    return base.reshaped(moved, (prod(moved.shape[: len(rest)]), prod(moved.shape[len(rest) :])))


def from_rows(a: Array, shape: Shape, axis: int) -> Array:
    """Rows along an axis of `shape`, whose extent there they may change: what `as_rows` did, undone."""
    rest = [n for i, n in enumerate(shape) if i != axis]
    order = list(range(len(rest)))
    order.insert(axis, len(rest))
    return a.reshaped((*rest, a.shape[1])).permuted(tuple(order))


def concat(a: Array, b: Array, axis: int) -> Array:
    """One after the other along an axis."""
    shape = tuple([n + (b.shape[i] if i == axis else 0) for i, n in enumerate(a.shape)])
    out = a.device.graph.record(prim.CONCAT, (a, b), shape, a.dtype, len(shape) - 1 - axis)
    out.storage.bounds = joined_bounds(a, b)
    return out


def joined_bounds(a: Array, b: Array) -> tuple[int, int] | None:
    """Least and greatest integer of both storages; None where one is unknown."""
    x, y = a.storage.bounds, b.storage.bounds
    return None if x is None or y is None else (min(x[0], y[0]), max(x[1], y[1]))


# ---------------------------------------------------------------- order


def argsort(a: Array) -> Array:
    """Indices that put each row in ascending order, equal elements in any: (rows, n) float32 without NaN -> int32."""
    rows, n = a.shape
    at_once = max(1, SORTED_AT_ONCE >> (n - 1).bit_length())
    if rows <= at_once or a.device.is_cpu:
        out = a.device.graph.record(prim.ARGSORT, (a,), a.shape, INT)
        out.storage.bounds = (0, n - 1)
        return out
    a = packed(a)
    head = argsort(a.view((at_once, n), a.strides))
    return concat(head, argsort(packed(a.view((rows - at_once, n), a.strides, a.offset + at_once * n))), 0)


def one_hot(index: Array, n: int) -> Array:
    """(...) int32 from 0 to n - 1 -> (..., n) float32: 1 at the index, else 0."""
    k = index.size
    if n <= IDENTITY:
        ones = scaled(counting("one_hot", index.device, n), 0.0, 1.0)
        identity = index.device.graph.record(prim.DIAG, (ones,), (n, n), FLOAT)
        return pick(identity.reshaped((1, n, n)), index.reshaped((1, k))).reshaped((*index.shape, n))
    numbers = expanded(counting("one_hot", index.device, n), (k, n))
    return base.equal_mask(numbers, cast(index.reshaped((k, 1)), FLOAT)).reshaped((*index.shape, n))
