"""What a pool tells somebody who watches it: each piece handed out, passed on and taken back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    from .array import Shape
    from .memory import Pool, Slab


class Made(NamedTuple):
    """What a piece of memory is for. `origin` is the watch's own note of where in the program, where it took one."""

    origin: Any
    label: str
    shape: Shape
    dtype: np.dtype


class Watch(Protocol):
    """Called with the device's lock held, where no other thread hands out memory of that pool; must not raise."""

    def origin(self) -> Any:
        """A note of what the program is doing now: a value recorded here gets memory when its graph runs, later."""

    def taken(self, pool: Pool, slab: Slab, offset: int, size: int, made: Made | None, scratch: bool) -> None:
        """A piece has been handed out."""

    def passed(self, pool: Pool, slab: Slab, offset: int, size: int, made: Made | None, scratch: bool) -> None:
        """A value is written over an operand that nothing reads afterwards, whose piece becomes its own."""

    def given(self, pool: Pool, slab: Slab, offset: int, size: int, when: float | None) -> None:
        """A piece has come back; `when`, by `time.perf_counter`, where that was before now."""
