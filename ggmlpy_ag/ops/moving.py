"""Elements put elsewhere: joined, padded, picked along an axis. On arrays, below the tape; no operations."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ..backend import primitives as prim
from ..backend.array import FLOAT, INT, Array, Shape
from ..backend.devices import Device
from . import base, rows

SMALL_PAD = 1 << 14  # elements; on the CPU, larger results are joined twice as fast as ggml pads them
ZERO = np.zeros((), FLOAT)
LEAST_NORMAL = np.finfo(FLOAT).tiny
LONG = 1 << 12  # places along an axis
BLOCK = 1 << 8


def joined(parts: Sequence[Array], axis: int) -> Array:
    """One after the other along a non-negative axis, in any type; many of them by halves, as ggml joins two."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return rows.concat(joined(parts[:middle], axis), joined(parts[middle:], axis), axis)


def cut(a: Array, axis: int, start: int, stop: int) -> Array:
    """A window: places from start to before stop on an axis."""
    return a.view((*a.shape[:axis], stop - start, *a.shape[axis + 1 :]), a.strides, a.offset + start * a.strides[axis])


def filled(device: Device, shape: Shape, value: np.ndarray) -> Array:
    """A scalar of one of the four types everywhere."""
    if value.dtype == FLOAT and (not any(value.tobytes()) or not abs(value) < LEAST_NORMAL):
        return device.full(shape, float(value))
    return base.expanded(device.upload(value), shape)  # Vulkan may compute 0 for a denormal number


def padded(a: Array, pairs: Sequence[Sequence[int]], value: np.ndarray = ZERO) -> Array:
    """A scalar of the array's type before and after each dimension."""
    shape = tuple([n + before + after for n, (before, after) in zip(a.shape, pairs, strict=True)])
    few = sum(1 for pair in pairs for n in pair if n) <= 2
    faster = few and a.device.is_cpu and prod(shape) > SMALL_PAD
    if a.dtype is FLOAT and not any(value.tobytes()) and not faster:
        return _zero_padded(a, pairs, shape)
    for axis in reversed(range(len(pairs))):
        before, after = pairs[axis]
        parts = [filled(a.device, (*a.shape[:axis], n, *a.shape[axis + 1 :]), value) for n in (before, after) if n]
        parts.insert(1 if before else 0, a)
        a = joined(parts, axis)
    return a


def _zero_padded(a: Array, pairs: Sequence[Sequence[int]], shape: Shape) -> Array:
    # ggml's kernel for the CPU walks the first of four dimensions fastest: dimensions that stay are made one
    first = next((i for i, pair in enumerate(pairs) if any(pair)), 0)
    kept = max(1, first)
    flat = [w for pair in reversed(pairs[kept - 1 :]) for w in pair]
    flat += [0] * (8 - len(flat))
    target = (prod(shape[:kept]), *shape[kept:])
    a = base.reshaped(a, (prod(a.shape[:kept]), *a.shape[kept:]))
    return a.device.graph.record(prim.PAD, (a,), target, FLOAT, *flat).reshaped(shape)


def picked(a: Array, places: np.ndarray, axis: int) -> Array:
    """Places along an axis, in any type: a permuted view of rows that lie along that axis."""
    order = (axis, *(i for i in range(len(a.shape)) if i != axis))
    moved = a.permuted(order)
    n, columns = a.shape[axis], prod(moved.shape[1:])
    table = base.reshaped(moved, (1, n, columns))
    index = a.device.upload(np.asarray(places, INT).reshape(1, -1))
    out = rows.pick(table, index).reshaped((places.size, *moved.shape[1:]))
    return out.permuted(tuple([order.index(i) for i in range(len(order))]))


def flipped(a: Array, axis: int) -> Array:
    """Backwards along an axis."""
    n = a.shape[axis]
    if n == 1:
        return a
    if n <= LONG or a.size >= n * BLOCK:
        return picked(a, np.arange(n)[::-1], axis)
    # Rows of few elements are picked slowly, on Vulkan above all. So blocks are put in order, and then what is in them.
    whole = n // BLOCK * BLOCK
    outer, inner = a.shape[:axis], a.shape[axis + 1 :]
    blocks = base.reshaped(cut(a, axis, 0, whole), (prod(outer), whole // BLOCK, BLOCK, prod(inner)))
    for i in (1, 2):
        blocks = picked(blocks, np.arange(blocks.shape[i])[::-1], i)
    head = base.reshaped(blocks, (*outer, whole, *inner))
    return head if whole == n else joined([flipped(cut(a, axis, whole, n), axis), head], axis)
