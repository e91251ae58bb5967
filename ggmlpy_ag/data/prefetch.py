"""Prefetcher: the next items of an iterator, prepared in a thread while the last one is used."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Generator, Iterator
from itertools import islice
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from ..backend.devices import default_name, device

T = TypeVar("T")
Outcome = tuple[Any, "BaseException | None"]  # an item, or what was raised: StopIteration at the end


class Prefetcher(Generic[T]):
    """Takes items from an iterator, `count` of them ahead of need; without a thread where that is 0.

    The queues are `SimpleQueue`s: a generator may be closed by the garbage collector anywhere, even in the thread.
    """

    def __init__(self, items: Iterator[T], count: int) -> None:
        self._items = items
        self._count = count
        self._made: SimpleQueue[Outcome] = SimpleQueue()  # and not handed out yet
        self._worker: _Worker | None = None

    def take(self, limit: int | None) -> Generator[T, None, None]:
        """The next items, `limit` at most. What was prepared when this generator is closed comes in the next call.

        The thread lives as long as this generator, and never asks the iterator for more than `limit`.
        """
        if not self._count:
            yield from islice(self._items, limit)
            return
        if self._worker is not None:
            self._worker.stop()
        worker = _Worker(self._items, self._made)
        worker.start()
        self._worker = worker
        asked = self._made.qsize()
        taken = 0
        try:
            atexit.register(worker.stop)
            while limit is None or taken < limit:
                while asked <= self._count and (limit is None or taken + asked < limit):
                    worker.wanted.put(True)
                    asked += 1
                found = self._made.get()
                asked -= 1
                taken += 1
                if isinstance(found[1], StopIteration):
                    return
                yield _opened(found)
        finally:
            worker.stop()
            atexit.unregister(worker.stop)


class _Worker(threading.Thread):
    """Makes one item for each `wanted`, until it is stopped."""

    def __init__(self, items: Iterator[Any], made: SimpleQueue[Outcome]) -> None:
        super().__init__(name="ggmlpy_ag.data", daemon=True)  # Python waits for others before it calls atexit
        self.wanted: SimpleQueue[bool] = SimpleQueue()
        self._items = items
        self._made = made
        self._device = default_name()
        self._stopped = False

    def run(self) -> None:
        device(self._device)  # the default is local to a thread
        while self.wanted.get() and not self._stopped:
            self._made.put(_next(self._items))

    def stop(self) -> None:
        """End the thread, after the item that it is at."""
        self._stopped = True
        self.wanted.put(False)
        if threading.current_thread() is not self:
            self.join()


def _next(items: Iterator[Any]) -> Outcome:
    try:
        return next(items), None
    except BaseException as error:
        return None, error


def _opened(outcome: Outcome) -> Any:
    item, error = outcome
    if error is None:
        return item
    try:
        raise error
    finally:
        del error, outcome  # its traceback refers to this frame
