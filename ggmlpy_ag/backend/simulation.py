"""Simulation: code that runs as ever, but computes nothing, moves nothing and takes no memory.

Every open device gets a pool that only keeps the books. Operations are recorded, graphs are planned, and blocks are
handed out and come back by the same code as in a real run, so what the books say at each moment is what would be in
use. A graph is not executed once it is planned, an upload writes nothing, and whatever is read is zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, TypeAlias

from . import devices
from .devices import Device
from .graph import Node
from .memory import Block, Pool, Slab, Storage
from .undo import Snapshot, live_objects, role_of

Variable: TypeAlias = tuple[Any, Callable[[Any], object]]  # its value, and what assigns one


class SimulatedPool(Pool):
    """The books of a pool, without memory. Each piece has a number of its own, in place of an offset."""

    simulated = True

    def __init__(self, real: Pool) -> None:
        super().__init__(real.device, real.buffer_type)
        self._nowhere = object.__new__(Slab)
        self._nowhere.used = 0
        self._in_use = self._peak = real.stats().live
        self.unknown = self._in_use  # bytes of storages that no search finds, as gc.freeze() hides them: they stay
        self._sizes: dict[int, int] = {}  # of all pieces, by number
        self._scratch_pieces: set[int] = set()
        self._log: list[int] = []  # the numbers of pieces that were taken, and given back (negative)
        self._high = 0  # how much of the log leads to the peak
        # Called when a graph would run, if there was a new peak: with the graph's nodes, which have their memory, while
        # the storages that want their results have not.
        self.onlooker: Callable[[Sequence[Node]], None] | None = None
        self._seen = self._peak

    def stand_in(self, block: Block) -> Block:
        """For a block of the real pool, whose bytes are in these books already."""
        slab, number = self._cut(block.size)
        slab.used += block.size
        self.unknown -= block.size
        self._log.append(number)
        self._high = len(self._log)
        return Block(self, slab, number, block.size)

    def ran(self, nodes: Sequence[Node]) -> None:
        """Note that a graph would run now."""
        if self._peak > self._seen and self.onlooker is not None:
            self.onlooker(nodes)
        self._seen = self._peak

    def pieces_at_peak(self) -> dict[int, tuple[int, bool]]:
        """Of each piece that was in use at the last peak: its bytes, and whether it was scratch."""
        pieces: set[int] = set()
        for event in self._log[: self._high]:
            if event > 0:
                pieces.add(event)
            else:
                pieces.discard(-event)
        return {number: (self._sizes[number], number in self._scratch_pieces) for number in pieces}

    def alloc_scratch(self, size: int, made: Any = None) -> tuple[Slab, int]:
        piece = super().alloc_scratch(size, made)
        self._scratch_pieces.add(piece[1])
        return piece

    def trim(self) -> int:
        self.collect()
        return 0

    def reset_peaks(self) -> None:
        super().reset_peaks()
        self._high = len(self._log)
        self._seen = 0  # what is in use now is the first peak

    def _take(self, size: int) -> tuple[Slab, int]:
        before = self._peak
        piece = super()._take(size)
        self._log.append(piece[1])
        if self._peak > before:
            self._high = len(self._log)
        return piece

    def _give(self, slab: Slab, offset: int, size: int, when: float | None = None) -> None:
        super()._give(slab, offset, size, when)
        self._bins.clear()  # nothing is used twice
        self._log.append(-offset)

    def _cut(self, size: int) -> tuple[Slab, int]:
        self._made += 1
        self._sizes[self._made] = size
        return self._nowhere, self._made


@contextmanager
def simulated(variables: Iterable[Variable] = ()) -> Iterator[dict[str, SimulatedPool]]:
    """Compute nothing in the `with` block, and have everything as before afterwards, whatever happens in it.

    Everything: the values, versions and pending operations of all storages, the state of all objects of `undoable`
    classes, and these variables, with the lists and dictionaries that they are. What the block makes dies with it; a
    value that something still refers to raises when it is read. Other threads that use a device wait.

    Gives:
        The books by device name. They begin with what is in use, garbage that is still to be collected among it.
    """
    with ExitStack() as stack:
        # GPUs first: whoever computes on the CPU what a GPU cannot holds both locks in this order
        opened = sorted(devices.opened(), key=lambda device: device.is_cpu)
        for device in opened:
            stack.enter_context(device.graph.lock)
        pools = {device: device.pool for device in opened}
        pending = {device: list(map(id, device.graph.pending)) for device in opened}
        live: list[Any] = [node for device in opened for node in device.graph.pending]
        live += live_objects(lambda kind: role_of(kind) is not None)
        snapshot = Snapshot(live)
        values = [(snapshot.describe(value), assign) for value, assign in variables]
        storages = [thing for thing in live if type(thing) is Storage]
        live.clear()  # the snapshot keeps nothing alive
        books: dict[str, SimulatedPool] = {}
        try:
            books = _exchanged(opened, storages)
            yield books
        finally:
            for book in books.values():
                book.onlooker = None  # which may hold the block's own variables
            for storage in live_objects(lambda kind: kind is Storage):
                block = storage.block
                if storage.node is not None or (block is not None and block.pool is not None and block.pool.simulated):
                    storage.node = storage.block = None
            found = snapshot.restore()
            for device, pool in pools.items():
                device.pool = pool
                device.graph.pending = [found[key] for key in pending[device]]
            for value, assign in values:
                assign(value())


def _exchanged(opened: Sequence[Device], storages: list[Storage]) -> dict[str, SimulatedPool]:
    """Exchange the pools of these devices, and the blocks of all storages, which are taken from the list."""
    books: dict[Pool, SimulatedPool] = {}
    for device in opened:
        device.pool.collect()
        real, device.pool = device.pool, SimulatedPool(device.pool)
        books[real] = device.pool
    while storages:
        storage = storages.pop()
        if storage.block is not None and storage.block.pool in books:
            storage.block = books[storage.block.pool].stand_in(storage.block)
    return {pool.device: pool for pool in books.values()}
