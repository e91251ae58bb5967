"""Where memory becomes ggml tensors: leaves over memory that is filled, and the arena for the nodes of a graph.

Fields of `struct ggml_tensor` are written directly, at the offsets that the bindings give (library.py).
"""

from __future__ import annotations

import ctypes
import struct
from functools import lru_cache

import numpy as np

from . import library as lib
from .array import GGML_TYPE, ITEM, Shape, extents
from .memory import Slab

_PACK_INT = struct.Struct("=i").pack_into
_PACK_POINTER = struct.Struct("=Q").pack_into
_UNPACK_POINTER = struct.Struct("=Q").unpack_from
# type, buffer, ne and nb, then nothing (no operation, no sources) up to data
_PACK_LEAF = struct.Struct(f"=i4xQ4Q4Q{lib.FIELD_DATA - lib.FIELD_NB - 32}xQ").pack_into
_TENSOR_MEMORY = ctypes.c_char * lib.TENSOR_SIZE


class Leaf:
    """A ggml tensor over memory that exists, in memory of its own: a storage keeps it for the next graphs.

    One write makes it. ggml's constructor costs more, and would put it into an arena that is emptied.
    """

    __slots__ = ("_memory", "tensor")

    def __init__(self, dtype: np.dtype, shape: Shape, strides: Shape, slab: Slab, offset: int) -> None:
        memory = self._memory = _TENSOR_MEMORY()
        steps = _byte_strides(shape, strides)
        _PACK_LEAF(memory, 0, GGML_TYPE[dtype], slab.buffer, *extents(shape), *steps, slab.base + offset)
        self.tensor: int = ctypes.addressof(memory)


class Arena:
    """One ggml context without data, emptied for every graph, in memory of our own so that fields can be set fast."""

    def __init__(self) -> None:
        self.context: int = 0
        self.leaves: list[Leaf] = []  # that no storage keeps
        self._size = 0

    def begin(self, nodes: int) -> None:
        """Empty the arena and make room for `nodes` operations."""
        self.leaves.clear()
        # An operation makes up to three tensors. Each engine's part is a graph of its own, whose hash table has up to
        # twice the size it needs; in the worst case every node is a graph.
        need = 3 * nodes * lib.tensor_overhead() + 2 * lib.graph_overhead(nodes, False)
        need += nodes * lib.graph_overhead(1, False)
        if need > self._size:
            if self.context:
                lib.free_context(self.context)
            self._size = max(1 << 18, 2 * need)
            self._memory = (ctypes.c_char * (self._size + 16))()
            self._base = ctypes.addressof(self._memory)
            start = -(-self._base // 16) * 16
            self.context = lib.init_context(lib.InitParams(mem_size=self._size, mem_buffer=start, no_alloc=True))
        else:
            lib.reset_context(self.context)

    def place(self, tensor: int, slab: Slab, offset: int) -> None:
        """Put the result of an operation into a slab.

        Each carries the OUTPUT flag: without it a backend may fuse it into the next operation and never write it.
        """
        at = tensor - self._base
        memory = self._memory
        _PACK_POINTER(memory, at + lib.FIELD_BUFFER, slab.buffer)
        _PACK_POINTER(memory, at + lib.FIELD_DATA, slab.base + offset)
        _PACK_INT(memory, at + lib.FIELD_FLAGS, lib.FLAG_COMPUTE | lib.FLAG_OUTPUT)

    def graph(self, tensors: list[int]) -> int:
        """A ggml graph of these tensors in this order: its list of nodes is written at once."""
        n = len(tensors)
        graph: int = lib.new_graph(self.context, n, False)
        at = graph - self._base
        (nodes,) = _UNPACK_POINTER(self._memory, at + lib.GRAPH_NODES)
        struct.pack_into(f"={n}Q", self._memory, nodes - self._base, *tensors)
        _PACK_INT(self._memory, at + lib.GRAPH_COUNT, n)
        return graph


@lru_cache(maxsize=4096)
def _byte_strides(shape: Shape, strides: Shape) -> Shape:
    """ggml's `nb`. A dimension of one element gets the stride it would have if packed on the one below it."""
    nb = []
    step = ITEM
    for n, s in zip(reversed(shape), reversed(strides), strict=True):
        step = step if n == 1 else s * ITEM
        nb.append(step)
        step *= n
    nb += [step] * (4 - len(nb))
    return tuple(nb)
