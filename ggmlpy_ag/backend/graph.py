"""Graph: operations that wait to run on one device, and running them.

Recording an operation appends a Node; nothing is computed. `run` computes every node that is still wanted: one
whose result a Storage refers to, or that such a node needs. Nodes refer to what they read, and storages to the node
that will fill them; nothing else does. So a value that nobody wants any more disappears by itself, uncomputed.

Memory is planned here and not by ggml_gallocr, which aborts when more than 256 free pieces exist: every wanted
result gets a block of the pool to keep, every other one a block that goes back after its last use.
"""

from __future__ import annotations

import ctypes
import logging
import struct
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from . import library as lib
from . import primitives as prim
from .array import GGML_TYPE, INT, ITEM, Array, Shape, is_packed, packed_strides, rows_packed
from .counters import COUNTS
from .errors import FallbackError, GgmlError
from .memory import Block, Slab, Storage
from .primitives import PACKED, ROWS, Primitive

if TYPE_CHECKING:
    from .devices import Device

log = logging.getLogger("ggmlpy_ag")

MAX_PENDING = 2048  # nodes; then the graph runs by itself
UPDATE_CHUNK = 48  # Vulkan compares each node with all independent ones before it: 800 in one graph took 116 ms

_fallback = "warn"


def set_fallback(mode: str) -> None:
    """What to do with an operation that a device cannot run: "warn" (once per operation) and compute it on the CPU,
    or "error": raise FallbackError.
    """
    global _fallback  # noqa: PLW0603 - one policy per process
    if mode not in ("warn", "error"):
        raise ValueError(f'fallback must be "warn" or "error", not {mode!r}')
    _fallback = mode


class Source:
    """An operand of a node: a window on a computed storage, or on the result of another node."""

    __slots__ = ("dtype", "offset", "origin", "shape", "strides")

    def __init__(self, array: Array) -> None:
        storage = array.storage
        self.origin: Storage | Node = storage.node or storage
        self.dtype = array.dtype
        self.shape = array.shape
        self.strides = array.strides
        self.offset = array.offset


class Node:
    """One pending operation. `storage` is a weak link: when nobody wants the result for itself, it is scratch."""

    __slots__ = (
        "__weakref__", "address", "block", "dtype", "last_use", "nbytes", "parameters", "primitive", "shape", "slab",
        "sources", "storage", "tensor",
    )  # fmt: skip

    def __init__(
        self, primitive: Primitive, sources: Sequence[Source], shape: Shape, dtype: np.dtype, parameters: tuple[Any, ...]
    ) -> None:
        self.primitive = primitive
        self.sources = sources
        self.shape = shape
        self.dtype = dtype
        self.parameters = parameters
        self.storage: Callable[[], Storage | None] = _nothing
        self.nbytes = prod(shape) * ITEM
        # while it runs: its memory, its ggml tensor, and the index of the last node that reads it
        self.block: Block | None = None
        self.slab: Slab
        self.address = 0
        self.tensor = 0
        self.last_use = -1

    def __str__(self) -> str:
        operands = ", ".join(str(list(s.shape)) for s in self.sources)
        return f"{self.primitive.name}({operands}) -> {list(self.shape)}"


def _nothing() -> None:
    return None


class Graph:
    """The pending operations of one device."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.lock = threading.RLock()
        self._pending: list[weakref.ref[Node]] = []
        self._arena = Arena()
        self._supported: dict[tuple[Any, ...], bool] = {}
        self._warned: set[str] = set()

    # ------------------------------------------------------------ recording

    def record(
        self, primitive: Primitive, operands: Sequence[Array], shape: Shape, dtype: np.dtype, *parameters: Any
    ) -> Array:
        """Append one operation and return its result-to-be. Shapes have been checked by the caller."""
        sources = [Source(self._conform(a, layout)) for a, layout in zip(operands, primitive.layouts, strict=True)]
        node = Node(primitive, sources, shape, dtype, parameters)
        storage = Storage(self.device, node.nbytes, primitive.name)
        node.storage = weakref.ref(storage)
        storage.node = node
        if dtype is INT and operands:
            storage.bounds = operands[0].storage.bounds  # copying and repeating integers leaves them in their range
        self._pending.append(weakref.ref(node))
        if len(self._pending) > MAX_PENDING:
            self._pending = [r for r in self._pending if r() is not None]
            if len(self._pending) > MAX_PENDING // 2:
                self.run()
        return Array(storage, dtype, shape, packed_strides(shape))

    def packed(self, array: Array) -> Array:
        """The array itself where it is packed, else a packed copy."""
        return array if array.packed else self.record(prim.COPY, [array], array.shape, array.dtype)

    def _conform(self, array: Array, layout: str) -> Array:
        """The array, or a copy of it, in a layout the primitive takes."""
        if layout == PACKED:
            ok = is_packed(array.shape, array.strides)
        elif layout == ROWS:
            ok = rows_packed(array.shape, array.strides)
        else:
            return array
        # Vulkan binds buffers at multiples of an alignment; many kernels abort on a view between two of them.
        if ok and not array.offset * ITEM % self.device.offset_alignment:
            return array
        return self.record(prim.COPY, [array], array.shape, array.dtype)

    # ------------------------------------------------------------ running

    def run(self) -> None:
        """Compute everything that is wanted."""
        with self.lock:
            nodes = [node for ref in self._pending if (node := ref()) is not None]
            if nodes:
                kept = [node.storage() for node in nodes]
                try:
                    blocks = self._plan(nodes, kept)
                    self._execute(nodes)
                finally:
                    for node in nodes:
                        node.block = None
                for node, storage, block in zip(nodes, kept, blocks, strict=True):
                    node.sources = ()
                    if storage is not None:
                        storage.block = block
                        storage.node = None
            self._pending.clear()

    def update(self, steps: Iterable[tuple[Primitive, Sequence[Array]]]) -> None:
        """Run primitives that write their operands in place, after everything recorded so far.

        They go in graphs of their own: ggml orders a graph by who needs whose result, so an update beside a
        reader of the old value would be a race. The operands must be packed.
        """
        with self.lock:
            self.run()
            nodes = []
            written: list[Storage] = []
            for primitive, operands in steps:
                nodes.append(Node(primitive, [Source(a) for a in operands], (), operands[0].dtype, ()))
                written += [operands[i].storage for i in primitive.writes]
            for start in range(0, len(nodes), UPDATE_CHUNK):
                self._execute(nodes[start : start + UPDATE_CHUNK])
            for storage in written:
                storage.version += 1

    def _plan(self, nodes: list[Node], kept: list[Storage | None]) -> list[Block | None]:
        """Give every node a block: to keep where somebody wants the result, else until its last use."""
        for i, node in enumerate(nodes):
            for source in node.sources:
                if type(source.origin) is Node:
                    source.origin.last_use = i
        blocks: list[Block | None] = []
        pool = self.device.pool
        for i, (node, storage) in enumerate(zip(nodes, kept, strict=True)):
            dying = [
                s.origin
                for s in node.sources
                if type(s.origin) is Node and s.origin.last_use == i and s.origin.block is not None
            ]
            block = self._inherited(node, dying) if dying and node.primitive.elementwise else None
            if block is None:
                block = self.device.alloc(node.nbytes, scratch=storage is None)
            elif storage is not None:
                pool.keep(block)
            node.address = block.address
            node.slab = block.slab
            for origin in dying:
                origin.block = None
            if storage is None:
                node.block = block
                blocks.append(None)
            else:
                blocks.append(block)
            del block  # or the next round would find it still in use
        return blocks

    @staticmethod
    def _inherited(node: Node, dying: list[Node]) -> Block | None:
        """The block of an operand that is read here for the last time, element by element, if there is one."""
        for origin in dying:
            reads = [s for s in node.sources if s.origin is origin]
            if all(s.shape == node.shape and s.offset == 0 and is_packed(s.shape, s.strides) for s in reads):
                if origin.nbytes == node.nbytes:
                    return origin.block
        return None

    def _execute(self, nodes: Sequence[Node]) -> None:
        """Build the ggml graph of these nodes, whose memory is planned, and compute it."""
        arena = self._arena
        arena.begin(tensors=sum(2 + len(node.sources) for node in nodes), nodes=len(nodes))
        operands: dict[tuple[Any, ...], int] = {}
        segments: list[tuple[str, list[Node]]] = []
        for node in nodes:
            pointers = [_operand(arena, source, operands) for source in node.sources]
            node.tensor = node.primitive.build(arena.context, *pointers, *node.parameters)
            if node.primitive.writes:
                slab, address = _memory(node.sources[node.primitive.writes[0]])
                arena.place(node.tensor, slab.buffer, address)
            else:
                arena.place(node.tensor, node.slab.buffer, node.address)
            engine = node.primitive.engine if self._supports(node) else "host"
            if not segments or segments[-1][0] != engine:
                segments.append((engine, []))
            segments[-1][1].append(node)
        for engine, part in segments:
            if engine == "host":
                for node in part:
                    self._run_on_host(node)
            else:
                self._compute(engine, part)

    def _compute(self, engine: str, nodes: list[Node]) -> None:
        graph = self._arena.graph([node.tensor for node in nodes])
        lib.Running.thread = threading.get_ident()
        lib.Running.operations = lambda: [str(node) for node in nodes]
        status = lib.compute(self.device.engine(engine, nodes), graph)
        lib.Running.operations = None
        if status != 0:
            raise GgmlError(f"{self.device.name} failed with status {status} in a graph of {len(nodes)} operations")
        COUNTS.graphs += 1
        COUNTS.nodes += len(nodes)

    def _supports(self, node: Node) -> bool:
        """Whether the device computes this node; ggml's Vulkan backend would skip it silently if not."""
        if self.device.is_cpu:
            return True  # ggml says yes to everything there; the table of primitives and the tests decide
        key = (node.primitive.name, node.shape, *((s.shape, s.strides, s.dtype) for s in node.sources))
        known = self._supported.get(key)
        if known is None:
            known = self._supported[key] = bool(lib.supports_op(self.device.backend, node.tensor))
        return known

    def _run_on_host(self, node: Node) -> None:
        """Compute one node on the CPU device, saying so, because its own cannot."""
        primitive = node.primitive
        if _fallback == "error":
            raise FallbackError(f'{self.device.name} cannot run {node}; set_fallback("warn") would use the CPU')
        if primitive.name not in self._warned:
            self._warned.add(primitive.name)
            log.warning("%s cannot run %s: computed on the CPU, with copies both ways", self.device.name, node)
        COUNTS.fallbacks += 1
        cpu = self.device.host()
        arrays = []
        for source in node.sources:
            slab, address = _memory(source)
            data = self.device.read(slab, address - slab.base, source.origin.nbytes)
            whole = cpu.upload(data.view(source.dtype), primitive.name)
            arrays.append(Array(whole.storage, source.dtype, source.shape, source.strides, source.offset))
        if primitive.writes:
            cpu.graph.update([(primitive, arrays)])
            for i in primitive.writes:
                slab, address = _memory(node.sources[i])
                whole = Array(arrays[i].storage, source.dtype, (arrays[i].storage.nbytes // ITEM,), (1,))
                self.device.write(slab, address - slab.base, cpu.download(whole))
        else:
            result = cpu.graph.record(primitive, arrays, node.shape, node.dtype, *node.parameters)
            self.device.write(node.slab, node.address - node.slab.base, cpu.download(result))


def _memory(source: Source) -> tuple[Slab, int]:
    """Where an operand's storage begins: slab and address."""
    origin = source.origin
    if type(origin) is Node:
        return origin.slab, origin.address
    block = origin.block  # type: ignore[union-attr]
    assert block is not None
    return block.slab, block.address


def _operand(arena: Arena, source: Source, known: dict[tuple[Any, ...], int]) -> int:
    """The ggml tensor of an operand: its node's own, or a leaf over the memory it lies in."""
    origin = source.origin
    if type(origin) is Node and source.shape == origin.shape and is_packed(source.shape, source.strides):
        return origin.tensor  # a packed window of the same shape is the whole
    key = (id(origin), source.offset, source.shape, source.strides)
    tensor = known.get(key)
    if tensor is None:
        slab, address = _memory(source)
        tensor = arena.leaf(source.dtype, source.shape, source.strides)
        arena.place(tensor, slab.buffer, address + source.offset * ITEM)
        known[key] = tensor
    return tensor


class Arena:
    """One ggml context without data, emptied for every graph, in memory of our own so that fields can be set fast."""

    def __init__(self) -> None:
        self.context: int = 0
        self._size = 0

    def begin(self, tensors: int, nodes: int) -> None:
        """Empty the arena and make room for `tensors` tensors and graphs of together `nodes` nodes."""
        # each engine segment is a graph of its own; in the worst case every node is one
        need = tensors * lib.tensor_overhead() + lib.graph_overhead(nodes, False) + nodes * lib.graph_overhead(1, False)
        if need > self._size:
            if self.context:
                lib.free_context(self.context)
            self._size = max(1 << 18, 2 * need)
            self._memory = (ctypes.c_char * (self._size + 16))()
            start = -(-ctypes.addressof(self._memory) // 16) * 16
            self.context = lib.init_context(lib.InitParams(mem_size=self._size, mem_buffer=start, no_alloc=True))
            self._base = ctypes.addressof(self._memory)
        else:
            lib.reset_context(self.context)

    def leaf(self, dtype: np.dtype, shape: Shape, strides: Shape) -> int:
        """A tensor over memory that is filled already."""
        tensor: int = lib.new_tensor_4d(self.context, GGML_TYPE[dtype], *_extents(shape))
        if not is_packed(shape, strides):
            _PACK_4Q(self._memory, tensor - self._base + lib.Field.nb, *_byte_strides(shape, strides))
        return tensor

    def place(self, tensor: int, buffer: int, address: int) -> None:
        """Put a tensor's data at an address inside a backend buffer.

        Each carries the OUTPUT flag: without it a backend may fuse it into the next operation and never write it.
        """
        at = tensor - self._base
        _PACK_Q(self._memory, at + lib.Field.buffer, buffer)
        _PACK_Q(self._memory, at + lib.Field.data, address)
        _PACK_I(self._memory, at + lib.Field.flags, lib.FLAG_COMPUTE | lib.FLAG_OUTPUT)

    def graph(self, tensors: list[int]) -> int:
        """A ggml graph of these tensors in this order."""
        graph: int = lib.new_graph(self.context, len(tensors), False)
        for tensor in tensors:
            lib.add_node(graph, tensor)
        return graph


_PACK_I = struct.Struct("=i").pack_into
_PACK_Q = struct.Struct("=Q").pack_into
_PACK_4Q = struct.Struct("=4Q").pack_into


@lru_cache(maxsize=4096)
def _extents(shape: Shape) -> tuple[int, int, int, int]:
    """ggml's `ne`: four extents, the fastest first."""
    ne = (*reversed(shape), 1, 1, 1, 1)
    return ne[:4]


@lru_cache(maxsize=4096)
def _byte_strides(shape: Shape, strides: Shape) -> tuple[int, int, int, int]:
    """ggml's `nb`. A dimension of one element gets the stride it would have if packed on the one below it."""
    nb = []
    step = ITEM
    for n, s in zip(reversed(shape), reversed(strides), strict=True):
        step = step if n == 1 else s * ITEM
        nb.append(step)
        step *= n
    nb += [step] * (4 - len(nb))
    return tuple(nb)  # type: ignore[return-value]
