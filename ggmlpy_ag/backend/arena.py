"""Where memory becomes ggml tensors: leaves over memory that is filled, and the arena for the nodes of a graph.

Fields of `struct ggml_tensor` are written directly, at the offsets that the bindings give (library.py).
"""

from __future__ import annotations

import ctypes
import struct
from array import array
from functools import lru_cache

import numpy as np

from . import library as lib
from .array import GGML_TYPE, Shape, extents
from .memory import Slab

# Writing an element of a typed memoryview takes a third of the time of struct.pack_into, so fields are named by index.
_BUFFER, _DATA, _NODES = lib.FIELD_BUFFER // 8, lib.FIELD_DATA // 8, lib.GRAPH_NODES // 8
_FLAGS, _COUNT = lib.FIELD_FLAGS // 4, lib.GRAPH_COUNT // 4
# type, buffer, ne and nb, then nothing (no operation, no sources) up to data
_PACK_LEAF = struct.Struct(f"=i4xQ4Q4Q{lib.FIELD_DATA - lib.FIELD_NB - 32}xQ").pack_into
_COMPUTE_AND_OUTPUT = lib.FLAG_COMPUTE | lib.FLAG_OUTPUT
_TENSOR = lib.tensor_overhead()  # bytes in a context
_TENSOR_MEMORY = ctypes.c_char * lib.TENSOR_SIZE


class Leaf:
    """A ggml tensor over memory that exists, in memory of its own.

    One write makes it. ggml's constructor costs more, and would put it into a context that is emptied.
    """

    __slots__ = ("_memory", "tensor")

    def __init__(self) -> None:
        self._memory = _TENSOR_MEMORY()
        self.tensor: int = ctypes.addressof(self._memory)

    def point(self, dtype: np.dtype, shape: Shape, strides: Shape, slab: Slab, offset: int) -> int:
        """Make it a window on a slab; returns the tensor."""
        steps = _byte_strides(shape, strides, dtype.itemsize)
        _PACK_LEAF(self._memory, 0, GGML_TYPE[dtype], slab.buffer, *extents(shape), *steps, slab.base + offset)
        return self.tensor


class Arena:
    """One ggml context without data, emptied for every graph, in memory of our own so that fields can be set fast."""

    def __init__(self) -> None:
        self.context: int = 0
        self._size = 0
        self._leaves: list[Leaf] = []  # for one graph, and used again by the next
        self._used = 0

    def begin(self, nodes: int) -> None:
        """Empty the arena and make room for `nodes` operations."""
        self._used = 0
        # An operation makes up to three tensors. Each engine's part is a graph of its own, whose hash table has up to
        # twice the size it needs; in the worst case every node is a graph.
        need = nodes * (3 * _TENSOR + _graph_bytes(1)) + 2 * _graph_bytes(nodes)
        if need > self._size:
            if self.context:
                lib.free_context(self.context)
            self._size = max(1 << 18, 2 * need)
            memory = (ctypes.c_char * (self._size + 16))()
            self._base = ctypes.addressof(memory)
            start = -(-self._base // 16) * 16
            self.context = lib.init_context(lib.InitParams(mem_size=self._size, mem_buffer=start, no_alloc=True))
            self._words = memoryview(memory).cast("B").cast("Q")  # keeps the memory
            self._ints = memoryview(memory).cast("B").cast("i")
        else:
            lib.reset_context(self.context)

    def leaf(self, dtype: np.dtype, shape: Shape, strides: Shape, slab: Slab, offset: int) -> int:
        """A tensor over memory that exists, for this graph only."""
        if self._used == len(self._leaves):
            self._leaves.append(Leaf())
        leaf = self._leaves[self._used]
        self._used += 1
        return leaf.point(dtype, shape, strides, slab, offset)

    def place(self, tensor: int, slab: Slab, offset: int) -> None:
        """Put the result of an operation into a slab.

        Each carries the OUTPUT flag: without it a backend may fuse it into the next operation and never write it.
        """
        at = tensor - self._base
        words = self._words
        words[at // 8 + _BUFFER] = slab.buffer
        words[at // 8 + _DATA] = slab.base + offset
        self._ints[at // 4 + _FLAGS] = _COMPUTE_AND_OUTPUT

    def graph(self, tensors: list[int]) -> int:
        """A ggml graph of these tensors in this order: its list of nodes is written at once."""
        n = len(tensors)
        graph: int = lib.new_graph(self.context, n, False)
        at = graph - self._base
        first = (self._words[at // 8 + _NODES] - self._base) // 8
        self._words[first : first + n] = memoryview(array("Q", tensors))
        self._ints[at // 4 + _COUNT] = n
        return graph


@lru_cache(maxsize=4096)
def _graph_bytes(nodes: int) -> int:
    """Bytes of a graph in a context."""
    return int(lib.graph_overhead(nodes, False))


@lru_cache(maxsize=4096)
def _byte_strides(shape: Shape, strides: Shape, itemsize: int) -> Shape:
    """ggml's `nb`. A dimension of one element gets the stride it would have if packed on the one below it."""
    nb = []
    step = itemsize
    for n, s in zip(reversed(shape), reversed(strides), strict=True):
        step = step if n == 1 else s * itemsize
        nb.append(step)
        step *= n
    nb += [step] * (4 - len(nb))
    return tuple(nb)
