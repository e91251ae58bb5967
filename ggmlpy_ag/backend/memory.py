"""Device memory: slabs of backend buffers, blocks cut from them, and the storages that own blocks.

Vulkan drivers cap the number of allocations and take long over each, so a Pool asks for few large slabs and
cuts blocks from them. A freed block is kept for reuse, and joined with its free neighbours when room runs out.
"""

from __future__ import annotations

import bisect
import gc
import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from time import perf_counter
from typing import TYPE_CHECKING, Any

from . import library as lib
from .errors import OutOfMemoryError, Refusal, explainers

if TYPE_CHECKING:
    from .arena import Leaf
    from .devices import Device
    from .graph import Node
    from .watch import Made, Watch

MIN_SLAB = 4 << 20
MAX_SLAB = 64 << 20  # below every device's largest storage-buffer binding (128 MiB is the least that Vulkan promises)
BLOCK_ALIGNMENT = 64  # a cache line; more where the device asks for more


def format_bytes(n: int) -> str:
    """`n` bytes for people: exact below 1 KiB, else with two decimals and a binary unit."""
    if abs(n) < 1024:
        return f"{n} B"
    size = float(n)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        size /= 1024
        if abs(size) < 1024 or unit == "TiB":
            break
    return f"{size:.2f} {unit}"


class Slab:
    """One backend buffer, seen by ggml as one tensor of bytes."""

    __slots__ = ("base", "buffer", "context", "ends", "number", "size", "starts", "tensor", "used")

    def __init__(self, buffer: int, size: int, number: int) -> None:
        self.number = number
        self.buffer = buffer
        self.size = size
        self.base: int = lib.buffer_base(buffer)
        self.context = lib.init_context(lib.InitParams(mem_size=2 * lib.tensor_overhead(), no_alloc=True))
        self.tensor = lib.new_tensor_1d(self.context, lib.TYPE_I8, size)
        lib.tensor_alloc(self.buffer, self.tensor, self.base)
        self.used = 0
        # free pieces of this slab: offset -> size, and end -> offset, to find neighbours in constant time
        self.starts: dict[int, int] = {}
        self.ends: dict[int, int] = {}

    def close(self) -> None:
        lib.free_context(self.context)
        lib.buffer_free(self.buffer)


class Block:
    """A piece of a slab that a storage holds. Dropping the last reference to it returns it to its pool, if any."""

    __slots__ = ("offset", "pool", "size", "slab")

    def __init__(self, pool: Pool | None, slab: Slab, offset: int, size: int) -> None:
        self.pool = pool
        self.slab = slab
        self.offset = offset
        self.size = size

    @property
    def address(self) -> int:
        """Where it begins, as ggml sees it."""
        return self.slab.base + self.offset

    def __del__(self) -> None:
        # Only note it: this may run in the middle of the pool's own work, when the collector breaks a cycle.
        if self.pool is not None:
            piece = (self.slab, self.offset, self.size)
            self.pool.returned.append(piece if self.pool.watch is None else (*piece, perf_counter()))


class Storage:
    """The memory behind one or more tensors: a block, or the pending node that will fill one.

    `version` counts the writes in place. `bounds` are the least and greatest value of an int32 storage, so that
    indices can be checked without downloading them. `label` is the operation that made it, for messages. `leaves` are
    the ggml tensors over its block, one for each window that graphs have used. `constant` is the value of a scalar
    that was made from a number, which operations may use as a number again.
    """

    __slots__ = (
        "__weakref__", "block", "bounds", "constant", "device", "label", "leaves", "nbytes", "node", "version",
    )  # fmt: skip

    def __init__(self, device: Device, nbytes: int, label: str) -> None:
        self.device = device
        self.nbytes = nbytes
        self.label = label
        self.block: Block | None = None
        self.node: Node | None = None
        self.version = 0
        self.bounds: tuple[int, int] | None = None
        self.leaves: dict[Any, Leaf] | None = None
        self.constant: float | None = None

    def overwritten(self) -> None:
        """Note that its values have been replaced in place."""
        self.version += 1
        self.constant = None

    @property
    def block_bytes(self) -> int:
        """Bytes of device memory it takes, or will take once computed: its own, rounded up to the alignment."""
        return self.block.size if self.block is not None else self.device.pool.rounded(self.nbytes)

    @property
    def memory(self) -> Block:
        """Its block. Raises RuntimeError for what a simulated step (backend/simulation.py) has left behind."""
        if self.block is None:
            raise RuntimeError(
                f"this value has no memory: it was made (by {self.label}) in a step that was simulated, and something "
                "that the step changed still refers to it"
            )
        return self.block

    @property
    def borrowed(self) -> bool:
        """Whether its memory is another library's (backend/exchange.py), which no pool counts."""
        return self.block is not None and self.block.pool is None


@dataclass(frozen=True)
class MemoryStats:
    """Bytes of one device's pool.

    `live`: blocks that tensors hold. `peak`: the most that was in use at once, scratch included, since the last
    reset. `scratch`: the most that one graph used for values nobody kept, since the last reset. `cached`: reserved
    but free. `reserved`: all backend buffers. `buffers`: (size, in use) of each backend buffer. `limit`: what may be in
    use at once, scratch included (`set_memory_limit`), or None.
    """

    device: str
    live: int
    peak: int
    cached: int
    scratch: int
    reserved: int
    buffers: tuple[tuple[int, int], ...]
    limit: int | None = None

    def __str__(self) -> str:
        f = format_bytes
        head = (
            f"{self.device}: live {f(self.live)}, peak {f(self.peak)}, scratch {f(self.scratch)}, "
            f"cached {f(self.cached)}, reserved {f(self.reserved)} in {len(self.buffers)} buffers"
        )
        if self.limit is not None:
            head += f", limit {f(self.limit)}"
        return "\n".join([head, *(f"  buffer of {f(size)}: {f(used)} in use" for size, used in self.buffers)])


class Pool:
    """Cuts pieces from slabs of one buffer type and keeps the books. A simulated one keeps the books only.

    A piece that comes back first waits in a bin for the next request of its size, which in training nearly always
    comes. Only when no free piece is large enough are the bins emptied and their pieces joined with free neighbours.
    """

    simulated = False

    def __init__(self, device: str, buffer_type: int) -> None:
        self.device = device
        self.buffer_type = buffer_type
        self.alignment: int = max(BLOCK_ALIGNMENT, lib.buffer_alignment(buffer_type))
        self.max_block: int = lib.buffer_max_size(buffer_type)
        self.limit: int | None = None  # bytes that may be in use at once
        self.slabs: list[Slab] = []
        # by blocks that were dropped; while somebody watches, with the time
        self.returned: deque[tuple[Slab, int, int] | tuple[Slab, int, int, float]] = deque()
        self.watch: Watch | None = None
        self._bins: dict[int, list[tuple[Slab, int]]] = {}
        self._free: list[tuple[int, int, int, Slab]] = []  # (size, slab number, offset, slab), sorted
        self._made = 0
        self._in_use = 0
        self._scratch = 0
        self._peak = 0
        self._peak_scratch = 0

    def rounded(self, nbytes: int) -> int:
        """The size of the piece that holds `nbytes`."""
        return -(-nbytes // self.alignment) * self.alignment

    def alloc(self, nbytes: int, made: Made | None = None) -> Block:
        """A block of at least `nbytes`. Raises Refusal where it cannot be had; nothing has changed then."""
        size = self.rounded(nbytes)
        slab, offset = self._take(size)
        if self.watch is not None:
            self.watch.taken(self, slab, offset, size, made, scratch=False)
        return Block(self, slab, offset, size)

    def alloc_scratch(self, size: int, made: Made | None = None) -> tuple[Slab, int]:
        """A piece of a rounded size for a value inside a running graph, to be given to `free_scratch` or `keep`."""
        piece = self._take(size)
        self._scratch += size
        if self._scratch > self._peak_scratch:
            self._peak_scratch = self._scratch
        if self.watch is not None:
            self.watch.taken(self, *piece, size, made, scratch=True)
        return piece

    def free_scratch(self, slab: Slab, offset: int, size: int) -> None:
        """Take a scratch piece back."""
        self._scratch -= size
        self._give(slab, offset, size)

    def keep(self, slab: Slab, offset: int, size: int) -> Block:
        """Turn a scratch piece into a block."""
        self._scratch -= size
        return Block(self, slab, offset, size)

    def ran(self, nodes: Sequence[Node]) -> None:
        """Called in place of running a graph, where the pool is simulated."""
        raise NotImplementedError

    def collect(self) -> None:
        """Take back every block whose last reference has gone."""
        while self.returned:
            self._give(*self.returned.popleft())

    def _take(self, size: int) -> tuple[Slab, int]:
        if self.returned:
            self.collect()
        if self.limit is not None and self._in_use + size > self.limit:
            raise Refusal(size, self._in_use - self._scratch, self._scratch, self.limit)
        waiting = self._bins.get(size)
        if waiting:
            slab, offset = waiting.pop()
        else:
            slab, offset = self._cut(size)
        slab.used += size
        self._in_use += size
        if self._in_use > self._peak:
            self._peak = self._in_use
        return slab, offset

    def _give(self, slab: Slab, offset: int, size: int, when: float | None = None) -> None:
        slab.used -= size
        self._in_use -= size
        if self.watch is not None:
            self.watch.given(self, slab, offset, size, when)
        self._bins.setdefault(size, []).append((slab, offset))

    def _cut(self, size: int) -> tuple[Slab, int]:
        """A piece of the smallest free one that is large enough."""
        free = self._free
        i = bisect.bisect_left(free, (size,))
        if i == len(free):
            self._empty_bins()
            i = bisect.bisect_left(free, (size,))
        if i == len(free):
            try:
                self._add_slab(size)
            except MemoryError:
                raise Refusal(size, self._in_use - self._scratch, self._scratch, None) from None
            i = bisect.bisect_left(free, (size,))
        have, _, offset, slab = free.pop(i)
        del slab.starts[offset], slab.ends[offset + have]
        if have > size:
            self._insert(slab, offset + size, have - size)
        return slab, offset

    def _empty_bins(self) -> None:
        """Join every waiting piece with its free neighbours."""
        for size, waiting in self._bins.items():
            for slab, offset in waiting:
                self._join(slab, offset, size)
        self._bins.clear()

    def _join(self, slab: Slab, offset: int, size: int) -> None:
        after = slab.starts.get(offset + size)
        if after is not None:
            self._remove(slab, offset + size, after)
            size += after
        before = slab.ends.get(offset)
        if before is not None:
            self._remove(slab, before, offset - before)
            size += offset - before
            offset = before
        self._insert(slab, offset, size)

    def trim(self) -> int:
        """Give slabs without a block in use back to the device; returns the bytes given back."""
        self.collect()
        self._empty_bins()
        empty = [slab for slab in self.slabs if slab.used == 0]
        for slab in empty:
            self._remove(slab, 0, slab.size)
            self.slabs.remove(slab)
            slab.close()
        return sum(slab.size for slab in empty)

    def stats(self) -> MemoryStats:
        """The pool's figures now."""
        self.collect()
        reserved = sum(slab.size for slab in self.slabs)
        return MemoryStats(
            device=self.device,
            live=self._in_use - self._scratch,
            peak=self._peak,
            cached=reserved - self._in_use,
            scratch=self._peak_scratch,
            reserved=reserved,
            buffers=tuple((lib.buffer_size(slab.buffer), slab.used) for slab in self.slabs),
            limit=self.limit,
        )

    def reset_peaks(self) -> None:
        """Let `peak` and `scratch` start again from what is in use now."""
        self.collect()
        self._peak = self._in_use
        self._peak_scratch = self._scratch

    def explain(self, refusal: Refusal) -> OutOfMemoryError:
        """The error for a request that could not be met: its figures, the largest holders, what upper floors add."""
        f = format_bytes
        head = f"out of memory on {self.device}: {f(refusal.size)} wanted, {f(refusal.live)} live"
        if refusal.scratch:
            head += f", {f(refusal.scratch)} scratch"
        head += f", {f(sum(slab.size for slab in self.slabs))} reserved"
        if refusal.limit is not None:
            head += f", limit {f(refusal.limit)}"
        lines = [head]
        if largest := self._largest(5):
            lines += ["largest holders:", *(f"  {f(size)} made by {label}" for size, label in largest)]
        error = OutOfMemoryError(head, self.device, refusal)
        for explainer in explainers:
            try:
                lines += explainer(error)
            except Exception as failure:  # which must not take the place of what it was to explain
                lines.append(f"({explainer.__name__} failed: {failure!r})")
        error.args = ("\n".join(lines),)
        return error

    def _largest(self, n: int) -> list[tuple[int, str]]:
        """Bytes and label of the largest storages. No storage itself: explainers count the references to those."""
        held = (s for s in gc.get_objects() if type(s) is Storage and s.block is not None and s.block.pool is self)
        return heapq.nlargest(n, ((s.block_bytes, s.label) for s in held), key=itemgetter(0))

    def _add_slab(self, size: int) -> None:
        reserved = sum(slab.size for slab in self.slabs)
        want = min(MAX_SLAB, max(MIN_SLAB, reserved))
        if self.limit is not None:  # no more than the limit can ever use
            want = min(want, max(MIN_SLAB, self.limit - reserved))
        want = max(size, want)
        for attempt in (want, size):
            try:
                slab = Slab(self._buffer(attempt), attempt, self._made)
                break
            except MemoryError:
                if attempt == size:
                    raise
        self._made += 1
        self.slabs.append(slab)
        self._insert(slab, 0, slab.size)

    def _buffer(self, size: int) -> int:
        """A backend buffer. Raises MemoryError when the device refuses."""
        if size >= 1 << 63:  # C's size_t would wrap around
            raise MemoryError
        buffer: int | None = lib.buffer_alloc(self.buffer_type, size)
        if not buffer:
            raise MemoryError
        return buffer

    def _insert(self, slab: Slab, offset: int, size: int) -> None:
        slab.starts[offset] = size
        slab.ends[offset + size] = offset
        bisect.insort(self._free, (size, slab.number, offset, slab))

    def _remove(self, slab: Slab, offset: int, size: int) -> None:
        del slab.starts[offset], slab.ends[offset + size]
        key: Any = (size, slab.number, offset)
        del self._free[bisect.bisect_left(self._free, key)]
