"""What can go wrong on a device, as exceptions.

GgmlError(RuntimeError)          a device refused or failed
  OutOfMemoryError(MemoryError too)   no memory left for a block, or none within the limit
  FallbackError                  an operation the device cannot run, with fallback "error"
"""

from __future__ import annotations

from collections.abc import Callable, Iterable


class GgmlError(RuntimeError):
    """A device refused to run a graph, or failed while it ran."""


class Refusal(MemoryError):
    """A pool cannot meet a request. Whoever asked makes room and tries again, and then raises OutOfMemoryError.

    `size` is what was wanted; `live` and `scratch` are what was in use just then, with what a graph had been given so
    far; `limit` is the limit that it would have exceeded, or None where the driver had no more.
    """

    def __init__(self, size: int, live: int, scratch: int, limit: int | None) -> None:
        super().__init__(size)
        self.size = size
        self.live = live
        self.scratch = scratch
        self.limit = limit


class OutOfMemoryError(GgmlError, MemoryError):
    """A device has no memory left, or would have more in use than `set_memory_limit` allows.

    The message has the figures, the largest holders, and what helps most. Everything computed so far is intact.

    Attributes:
        device: its name.
        requested: the bytes that could not be had.
        live, scratch: the bytes in use just then, by tensors and by a graph's values in passing.
        limit: the limit that would have been exceeded, None where the driver refused.
    """

    def __init__(self, message: str, device: str = "", refusal: Refusal | None = None) -> None:
        super().__init__(message)
        self.device = device
        self.requested = refusal.size if refusal else 0
        self.live = refusal.live if refusal else 0
        self.scratch = refusal.scratch if refusal else 0
        self.limit = refusal.limit if refusal else None


class FallbackError(GgmlError):
    """An operation cannot run on its device, and `set_fallback("error")` forbids computing it on the CPU."""


# Called with each OutOfMemoryError before it is raised: lines that upper floors add to its message.
explainers: list[Callable[[OutOfMemoryError], Iterable[str]]] = []
