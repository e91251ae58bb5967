"""Operands on a device in every layout: windows on larger memory, with strides of all kinds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ggmlpy_ag.backend.array import Array
from ggmlpy_ag.backend.devices import Device
from ggmlpy_ag.backend.primitives import ANY, PACKED, ROWS, Primitive

from .table import Entry

ALIGNED = 128  # elements: 256 bytes or more, the greatest alignment that a Vulkan device may ask for


def stored(device: Device, memory: np.ndarray, view: np.ndarray) -> Array:
    """A view of an array, as the same view of its copy on the device."""
    item = memory.itemsize
    start = (view.__array_interface__["data"][0] - memory.__array_interface__["data"][0]) // item
    whole = device.upload(memory)
    return whole.view(view.shape, tuple(s // item for s in view.strides), start)


def _room(x: np.ndarray, *shape: int) -> np.ndarray:
    """Memory full of other elements."""
    return np.array(np.resize(x.reshape(-1)[::-1], shape))


def _window(x: np.ndarray, start: int) -> tuple[np.ndarray, np.ndarray]:
    memory = _room(x, start + x.size + 5)
    view = memory[start : start + x.size].reshape(x.shape)
    view[...] = x
    return memory, view


def _cut(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first columns of a wider matrix."""
    memory = _room(x, *x.shape[:-1], x.shape[-1] + 5)
    view = memory[..., : x.shape[-1]]
    view[...] = x
    return memory, view


def _stepped(x: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Every second element along an axis."""
    shape = list(x.shape)
    shape[axis] *= 2
    memory = _room(x, *shape)
    view = np.moveaxis(np.moveaxis(memory, axis, 0)[::2], 0, axis)
    view[...] = x
    return memory, view


def _permuted(x: np.ndarray, axes: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Stored with its dimensions in another order."""
    memory = np.ascontiguousarray(x.transpose(axes))
    return memory, memory.transpose(np.argsort(axes))


def _expanded(x: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """The same along an axis, whose stride is 0."""
    memory = np.ascontiguousarray(x.take([0], axis))
    return memory, np.broadcast_to(memory, x.shape)


def _overlapping(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All strides 1."""
    memory = np.ascontiguousarray(x.reshape(-1)[: sum(x.shape) - x.ndim + 1])
    return memory, np.lib.stride_tricks.as_strided(memory, x.shape, (memory.itemsize,) * x.ndim)


def _skewed(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows that begin one element further on each time, and elements three apart."""
    rows, columns = x.shape[-2:]
    memory = _room(x, *x.shape[:-2], rows + 3 * columns)
    item = memory.itemsize
    return memory, np.lib.stride_tricks.as_strided(memory, x.shape, (*memory.strides[:-1], item, 3 * item))


_Way = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
WAYS: dict[str, tuple[str, int, _Way]] = {  # which layout it is, how many dimensions it needs, and how it is made
    "packed": (PACKED, 0, lambda x: (x, x)),
    "window": (PACKED, 0, lambda x: _window(x, ALIGNED)),
    "cut": (ROWS, 2, _cut),
    "every second row": (ROWS, 2, lambda x: _stepped(x, -2)),
    "every second matrix": (ROWS, 3, lambda x: _stepped(x, -3)),
    "first two swapped": (ROWS, 3, lambda x: _permuted(x, (1, 0, *range(2, x.ndim)))),
    "misaligned": (ANY, 0, lambda x: _window(x, 1)),
    "every second column": (ANY, 1, lambda x: _stepped(x, -1)),
    "transposed": (ANY, 2, lambda x: _permuted(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))),
    "reversed": (ANY, 3, lambda x: _permuted(x, range(x.ndim)[::-1])),
    "last first": (ANY, 3, lambda x: _permuted(x, (x.ndim - 1, *range(x.ndim - 1)))),
    "same columns": (ANY, 1, lambda x: _expanded(x, -1)),
    "same rows": (ANY, 2, lambda x: _expanded(x, -2)),
    "same matrices": (ANY, 3, lambda x: _expanded(x, -3)),
    "overlapping": (ANY, 2, _overlapping),
    "skewed": (ANY, 2, _skewed),
}
_TAKES = {PACKED: (PACKED,), ROWS: (PACKED, ROWS), ANY: (PACKED, ROWS, ANY)}


def lay(x: np.ndarray, way: str) -> tuple[np.ndarray, np.ndarray]:
    """Memory, and a view of it laid out in a way, with x's values except where elements share memory."""
    return WAYS[way][2](x)


def place(device: Device, x: np.ndarray, way: str) -> tuple[Array, np.ndarray]:
    """An operand on a device laid out in a way, and its values."""
    memory, view = lay(x, way)
    return stored(device, memory, view), view


def allowed(entry: Entry, arrays: Sequence[np.ndarray]) -> Iterator[tuple[str, ...]]:
    """For each way an operand may lie, that operand alone in it, and all those together that may lie so."""
    names = [_ways(entry, i, x) for i, x in enumerate(arrays)]
    chosen = {tuple("packed" for _ in arrays)}
    for way in WAYS:
        those = [way in ways for ways in names]
        chosen.add(tuple(way if there else "packed" for there in those))
        for i, there in enumerate(those):
            if there:
                chosen.add(tuple(way if i == k else "packed" for k in range(len(arrays))))
    return iter(sorted(chosen))


def _ways(entry: Entry, position: int, x: np.ndarray) -> list[str]:
    takes = _TAKES[entry.primitive.layouts[position]]
    ways = [way for way, (layout, ndim, _) in WAYS.items() if layout in takes and ndim <= x.ndim]
    return [way for way in ways if not entry.ways or way in entry.ways[position]]


def forbidden(primitive: Primitive, position: int, x: np.ndarray) -> list[str]:
    """The ways in which an operand may not lie."""
    takes = _TAKES[primitive.layouts[position]]
    return [way for way, (layout, ndim, _) in WAYS.items() if layout not in takes and ndim <= x.ndim]
