"""Graph: operations that wait to run on one device, and running them.

Recording an operation appends a Node; nothing is computed. `run` computes every node that is still wanted: one
whose result a Storage refers to, or that such a node needs. Nodes refer to what they read, and storages to the node
that will fill them; nothing else does. So a value that nobody wants any more disappears by itself, uncomputed.

Memory is planned here and not by ggml_gallocr, which aborts when more than 256 free pieces exist: every wanted
result gets a block of the pool to keep, every other one a block that goes back after its last use.
"""

from __future__ import annotations

import gc
import logging
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from . import library as lib
from . import primitives as prim
from .arena import Arena, Leaf
from .array import BFLOAT, FLOAT, INT, Array, Shape, is_packed, packed_strides, rows_packed, to_bfloat
from .counters import COUNTS
from .errors import FallbackError, GgmlError, Refusal
from .memory import Block, Slab, Storage
from .primitives import ANY, PACKED, Primitive
from .watch import Made

if TYPE_CHECKING:
    from .devices import Device

log = logging.getLogger("ggmlpy_ag")

MAX_PENDING = 2048  # nodes; then the graph runs by itself
MAX_LEAVES = 32  # windows a storage keeps: a data set cut into batches would else keep one for each
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


# An operand of a node: (origin, offset, shape, strides, dtype), a window on a computed storage or on the result of
# another node. A tuple and no class, since two or three are made for every recorded operation.
Source: TypeAlias = "tuple[Storage | Node, int, Shape, Shape, np.dtype]"


class Node:
    """One pending operation. `storage` is a weak link: when nobody wants the result for itself, it is scratch.

    `origin` is the note that a watch of the pool took when it was recorded.
    """

    __slots__ = (
        "__weakref__", "dtype", "last_use", "offset", "origin", "parameters", "primitive", "scratch", "shape", "size",
        "slab", "sources", "storage", "strides", "tensor",
    )  # fmt: skip

    storage: Callable[[], Storage | None]
    size: int  # bytes of its block
    # set for each run: its memory and its ggml tensor
    scratch: bool  # whether its memory is to be freed after its last use
    last_use: int  # index of the last node that reads it
    slab: Slab
    offset: int
    tensor: int

    def __init__(
        self,
        primitive: Primitive,
        sources: list[Source],
        shape: Shape,
        dtype: np.dtype,
        parameters: tuple[Any, ...],
    ) -> None:
        self.primitive = primitive
        self.sources = sources
        self.shape = shape
        self.strides = packed_strides(shape)
        self.dtype = dtype
        self.parameters = parameters
        self.origin: Any = None

    @property
    def nbytes(self) -> int:
        """Bytes of its result."""
        return prod(self.shape) * self.dtype.itemsize

    def __str__(self) -> str:
        operands = ", ".join(str(list(shape)) for _, _, shape, _, _ in self.sources)
        return f"{self.primitive.name}({operands}) -> {list(self.shape)}"


class Graph:
    """The pending operations of one device."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.lock = threading.RLock()
        self._pending: list[weakref.ref[Node]] = []
        self._holds = 0
        self._arena = Arena()
        self._supported: dict[tuple[Any, ...], bool] = {}
        self._warned: set[str] = set()

    # ------------------------------------------------------------ recording

    def record(
        self, primitive: Primitive, operands: Sequence[Array], shape: Shape, dtype: np.dtype, *parameters: Any
    ) -> Array:
        """Append one operation and return its result-to-be. Shapes have been checked by the caller."""
        with self.lock:  # another thread may be running this graph
            sources: list[Source] = []
            for array, layout in zip(operands, primitive.layouts, strict=True):
                if layout is not ANY and (array.offset or not is_packed(array.shape, array.strides)):
                    array = self._conform(array, layout)
                storage = array.storage
                sources.append((storage.node or storage, array.offset, array.shape, array.strides, array.dtype))
            node = Node(primitive, sources, shape, dtype, parameters)
            storage = self._promise(node)
            pool = self.device.pool
            node.size = pool.rounded(storage.nbytes)
            if pool.watch is not None:
                node.origin = pool.watch.origin()
            if dtype is INT and operands:
                storage.bounds = operands[0].storage.bounds  # copying and repeating leaves integers in their range
            self._pending.append(weakref.ref(node))
            if len(self._pending) > MAX_PENDING and not self._holds:
                self._pending = [r for r in self._pending if r() is not None]
                if len(self._pending) > MAX_PENDING // 2:
                    self.run()
            return Array(storage, dtype, shape, node.strides)

    @contextmanager
    def held(self) -> Iterator[None]:
        """In the `with` block, do not run by itself however much is pending: for what nobody will read."""
        with self.lock:
            self._holds += 1
        try:
            yield
        finally:
            with self.lock:
                self._holds -= 1

    def _promise(self, node: Node) -> Storage:
        """A storage for the result of a node, which is wanted as long as the storage lives."""
        storage = Storage(self.device, node.nbytes, node.primitive.name)
        storage.node = node
        node.storage = weakref.ref(storage)
        return storage

    def packed(self, array: Array) -> Array:
        """The array itself where it is packed, else a packed copy."""
        return array if array.packed else self.copy(array)

    def copy(self, array: Array) -> Array:
        """A packed copy, with memory of its own."""
        # Vulkan would take a last extent of 1 for that of a transpose, whose kernel is 500 times slower here.
        shape, strides = array.shape, array.strides
        while shape and shape[-1] == 1:
            shape, strides = shape[:-1], strides[:-1]
        copy = self.record(prim.COPY, [array.view(shape, strides)], shape, array.dtype)
        return copy if shape is array.shape else copy.reshaped(array.shape)

    def _conform(self, array: Array, layout: str) -> Array:
        """The array, or a copy of it, in a layout the primitive takes."""
        check = is_packed if layout == PACKED else rows_packed
        # Vulkan binds buffers at multiples of an alignment; many kernels abort on a view between two of them.
        if array.offset * array.dtype.itemsize % self.device.offset_alignment == 0 and check(
            array.shape, array.strides
        ):
            return array
        return self.copy(array)

    # ------------------------------------------------------------ running

    def run(self, target: Storage | None = None, updates: Sequence[Node] = ()) -> None:
        """Compute everything that is wanted, and then the updates.

        When that needs too much memory at once, or something the device cannot run, values are computed one after the
        other: the target only, or all of them. What could not be computed stays pending, and nothing else has changed.

        Raises:
            OutOfMemoryError, FallbackError: the target (or, without one, some value) could not be computed.
        """
        with self.lock:
            try:
                self._run(self._alive(), [], updates)
                return
            except (Refusal, FallbackError):
                pass  # and let go of the error first: it holds what had been planned
            gc.collect()
            self.device.trim()
            try:
                self._run_apart(target, updates)
                return
            except Refusal as error:
                refusal = error.with_traceback(None)  # likewise
            raise self.device.pool.explain(refusal)

    def _run_apart(self, target: Storage | None, updates: Sequence[Node]) -> None:
        """Compute values one after the other, the target only or all of them, and then the updates."""
        wanted = [target] if target is not None else [n.storage() for n in self._alive()]
        for storage in wanted:
            if storage is not None and storage.node is not None:
                nodes, rest = self._parted(storage.node)
                self._run(nodes, [*rest, *updates])
        self._run([], self._alive(), updates)

    def _run(self, nodes: list[Node], rest: list[Node], updates: Sequence[Node] = ()) -> None:
        """Compute pending nodes, which need none of the rest, and then the updates."""
        if not nodes and not updates:
            return
        # what the rest reads is wanted too, and will be read from its storage
        computed = set(nodes) if rest else set()
        links = []
        for node in rest:
            for i, source in enumerate(node.sources):
                origin = source[0]
                if isinstance(origin, Node) and origin in computed:
                    links.append((node, i, origin.storage() or self._promise(origin)))
        storages = [node.storage() for node in nodes]
        blocks = self._plan(nodes, storages)
        lib.Running.thread = threading.get_ident()
        try:
            self._execute([*nodes, *updates])
        finally:
            lib.Running.nodes = ()
        for node, storage, block in zip(nodes, storages, blocks, strict=True):
            node.sources = []
            if storage is not None:
                storage.block = block
                storage.node = None
        for node, i, storage in links:
            node.sources[i] = (storage, *node.sources[i][1:])
        self._pending = [weakref.ref(node) for node in rest if not node.primitive.writes]

    def update(self, steps: Iterable[tuple[Primitive, Sequence[Array]]]) -> None:
        """Run primitives that write their operands in place, after everything recorded so far that reads those.

        A reader of the old value in the same graph would be a race: ggml orders a graph by who needs whose result.
        So such readers run first, in a graph of their own. The operands must be packed.
        """
        with self.lock:
            steps = list(steps)
            written = [operands[i].storage for primitive, operands in steps for i in primitive.writes]
            overwritten = set(written)
            reads = any(source[0] in overwritten for node in self._alive() for source in node.sources)
            if reads or any(storage.node is not None for storage in written) or len(steps) > UPDATE_CHUNK:
                self.run()
            nodes = []
            for primitive, operands in steps:
                sources = [(a.storage.node or a.storage, a.offset, a.shape, a.strides, a.dtype) for a in operands]
                nodes.append(Node(primitive, sources, (), FLOAT, ()))
            for start in range(0, len(nodes), UPDATE_CHUNK):
                self.run(updates=nodes[start : start + UPDATE_CHUNK])
            for storage in written:
                storage.overwritten()

    @property
    def pending(self) -> list[Node]:
        """What waits, in order."""
        return self._alive()

    @pending.setter
    def pending(self, nodes: Sequence[Node]) -> None:
        self._pending = [weakref.ref(node) for node in nodes]

    def _alive(self) -> list[Node]:
        return [node for ref in self._pending if (node := ref()) is not None]

    def outcome(self, node: Node) -> Storage | None:
        """What a pending operation is to be computed for: the result of the last one that needs it."""
        last, needed = node, {node}
        for other in self._alive():
            if any(source[0] in needed for source in other.sources):
                last = other
                needed.add(other)
        return last.storage()

    def _parted(self, node: Node) -> tuple[list[Node], list[Node]]:
        """The pending nodes in order: those that a node needs, with itself, and the rest."""
        needed = {node}
        stack = [node]
        while stack:
            for origin, *_ in stack.pop().sources:
                if type(origin) is Node and origin not in needed:
                    needed.add(origin)
                    stack.append(origin)
        alive = self._alive()
        return [n for n in alive if n in needed], [n for n in alive if n not in needed]

    def _plan(self, nodes: Sequence[Node], storages: Sequence[Storage | None]) -> list[Block | None]:
        """Give every node memory: a block where somebody wants the result, else scratch until its last use."""
        for i, node in enumerate(nodes):
            node.scratch = False
            for source in node.sources:
                if type(source[0]) is Node:
                    source[0].last_use = i
        pool = self.device.pool
        watch = pool.watch
        blocks: list[Block | None] = []
        try:
            for i, (node, storage) in enumerate(zip(nodes, storages, strict=True)):
                dying = [s[0] for s in node.sources if type(s[0]) is Node and s[0].last_use == i and s[0].scratch]
                heir = _heir(node, dying) if dying and node.primitive.elementwise else None
                made = None if watch is None else Made(node.origin, node.primitive.name, node.shape, node.dtype)
                if heir is not None:
                    if watch is not None:
                        watch.passed(pool, heir.slab, heir.offset, heir.size, made, scratch=storage is None)
                    node.slab, node.offset = heir.slab, heir.offset
                    heir.scratch = False
                    block = None if storage is None else pool.keep(heir.slab, heir.offset, heir.size)
                elif storage is None:
                    node.slab, node.offset = pool.alloc_scratch(node.size, made)
                    block = None
                else:
                    block = pool.alloc(storage.nbytes, made)
                    node.slab, node.offset = block.slab, block.offset
                blocks.append(block)
                node.scratch = storage is None
                for origin in dying:
                    if origin.scratch:
                        origin.scratch = False
                        pool.free_scratch(origin.slab, origin.offset, origin.size)
        finally:  # all of it has served, or the plan failed
            for node in nodes:
                if node.scratch:
                    node.scratch = False
                    pool.free_scratch(node.slab, node.offset, node.size)
        return blocks

    def _execute(self, nodes: Sequence[Node]) -> None:
        """Build the ggml graph of these nodes, whose memory is planned, and compute it."""
        if self.device.pool.simulated:
            self.device.pool.ran(nodes)
            return
        lib.Running.nodes = nodes
        arena = self._arena
        arena.begin(len(nodes))
        start, engine = 0, ""
        parts: list[tuple[str, Sequence[Node]]] = []
        all_supported = self.device.is_cpu  # ggml says so of everything there; the primitives' table and tests decide
        for i, node in enumerate(nodes):
            primitive = node.primitive
            pointers = []
            for source in node.sources:
                origin = source[0]
                if type(origin) is Node and source[2] is origin.shape and source[3] is origin.strides:
                    pointers.append(origin.tensor)  # its whole result
                else:
                    pointers.append(_window(source, arena))
            node.tensor = primitive.build(arena.context, *pointers, *node.parameters)
            if primitive.writes:
                target = node.sources[primitive.writes[0]]
                slab, offset = _memory(target)
                arena.place(node.tensor, slab, offset + target[1] * target[4].itemsize)
            else:
                arena.place(node.tensor, node.slab, node.offset)
            wanted = primitive.engine if all_supported or self._supports(node) else "host"
            if wanted == "host" and _fallback == "error":  # before anything has been computed or overwritten
                raise FallbackError(f'{self.device.name} cannot run {node}; set_fallback("warn") would use the CPU')
            if wanted != engine:
                if i:
                    parts.append((engine, nodes[start:i]))
                start, engine = i, wanted
        parts.append((engine, nodes[start:]))
        for engine, part in parts:
            if engine == "host":
                for node in part:
                    self._run_on_host(node)
            else:
                lib.Running.nodes = part
                self._compute(engine, part)

    def _compute(self, engine: str, nodes: Sequence[Node]) -> None:
        graph = self._arena.graph([node.tensor for node in nodes])
        status = lib.compute(self.device.engine(engine, nodes), graph)
        if status != 0:
            raise GgmlError(f"{self.device.name} failed with status {status} in a graph of {len(nodes)} operations")
        COUNTS.graphs += 1
        COUNTS.nodes += len(nodes)

    def _supports(self, node: Node) -> bool:
        """Whether the device computes this node; ggml's Vulkan backend would skip it silently if not."""
        key = (node.primitive.name, node.shape, *(source[2:] for source in node.sources))
        known = self._supported.get(key)
        if known is None:
            known = self._supported[key] = bool(lib.supports_op(self.device.backend, node.tensor))
        return known

    def _run_on_host(self, node: Node) -> None:
        """Compute one node on the CPU device, saying so, because its own cannot."""
        primitive = node.primitive
        if primitive.name not in self._warned:
            self._warned.add(primitive.name)
            log.warning("%s cannot run %s: computed on the CPU, with copies both ways", self.device.name, str(node))
        COUNTS.fallbacks += 1
        cpu = self.device.host()
        arrays = []
        for source in node.sources:
            origin, offset, shape, strides, dtype = source
            slab, start = _memory(source)
            whole = cpu.upload(self.device.read(slab, start, origin.nbytes).view(dtype), primitive.name)
            arrays.append(Array(whole.storage, dtype, shape, strides, offset))
        if primitive.writes:
            cpu.graph.update([(primitive, arrays)])
            for i in primitive.writes:
                slab, start = _memory(node.sources[i])
                storage = arrays[i].storage
                whole = Array(storage, arrays[i].dtype, (storage.nbytes // arrays[i].dtype.itemsize,), (1,))
                self.device.write(slab, start, cpu.download(whole))
        else:
            result = cpu.graph.record(primitive, arrays, node.shape, node.dtype, *node.parameters)
            values = cpu.download(result)
            self.device.write(node.slab, node.offset, to_bfloat(values) if node.dtype is BFLOAT else values)


def _heir(node: Node, dying: list[Node]) -> Node | None:
    """An operand read here for the last time, element by element: the result may be written over it."""
    for origin in dying:
        if origin.size == node.size and all(
            shape == node.shape and offset == 0 and is_packed(shape, strides)
            for other, offset, shape, strides, _ in node.sources
            if other is origin
        ):
            return origin
    return None


def _memory(source: Source) -> tuple[Slab, int]:
    """Where an operand's origin begins: slab and offset in it."""
    origin = source[0]
    if isinstance(origin, Node):
        return origin.slab, origin.offset
    block = origin.block or origin.memory
    return block.slab, block.offset


def _window(source: Source, arena: Arena) -> int:
    """The ggml tensor of an operand that is a window on memory: a leaf, which its storage keeps for the next graphs."""
    origin, start, shape, strides, dtype = source
    slab, offset = _memory(source)
    if isinstance(origin, Node):
        return arena.leaf(dtype, shape, strides, slab, offset + start * dtype.itemsize)
    leaves = origin.leaves
    if leaves is None:
        leaves = origin.leaves = {}
    key = source[1:]
    leaf = leaves.get(key)
    if leaf is not None:
        return leaf.tensor
    if len(leaves) == MAX_LEAVES:
        return arena.leaf(dtype, shape, strides, slab, offset + start * dtype.itemsize)
    leaf = leaves[key] = Leaf()
    return leaf.point(dtype, shape, strides, slab, offset + start * dtype.itemsize)
