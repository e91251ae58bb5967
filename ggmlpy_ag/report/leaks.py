"""What survives each repetition of a function: its memory grows for as long as it is called."""

from __future__ import annotations

import gc
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple
from weakref import ref

from ..backend.array import Shape, dtype_name
from ..backend.memory import Storage, format_bytes
from ..backend.watch import Made
from .holders import Holder, Search
from .naming import short
from .recorder import Frame, Origin, Recording


@dataclass(frozen=True)
class LeakRow:
    """Memory of one kind, made at one place, of which every repetition leaves more behind.

    Attributes:
        bytes: what a repetition adds, on average.
        count: how many blocks of memory that are, on average.
        made_by: the operation that made them.
        shape: their shape; None where they differ, and for memory of another library.
        dtype, device: their type, and where they are.
        layer: the path of the `nn.Module` that made them; None outside of any.
        line: the line of your code that did, "file:line in function"; "" where that is not known.
        holders: who keeps the first of them, the closest first; each has the line where it is written to.
    """

    bytes: int
    count: float
    made_by: str
    shape: Shape | None
    dtype: str
    device: str
    layer: str | None
    line: str
    holders: tuple[Holder, ...]

    def __str__(self) -> str:
        shape = "of any shape" if self.shape is None else str(self.shape)
        made = f", made at {short(self.line)}" if self.line else ""
        layer = f", layer {self.layer}" if self.layer else ""
        what = f"{self.count:g} {self.made_by} {shape} {self.dtype} on {self.device}{layer}{made}"
        held = map(str, self.holders or ("by something that Python's collector does not see",))
        return "\n".join([f"  {format_bytes(self.bytes):>10}  {what}", *(f"{'':14}held: {text}" for text in held)])


@dataclass(frozen=True)
class LeakReport:
    """What `memory_leaks` found, which prints as text. It is false where nothing leaks.

    Attributes:
        rows: the leaks, the largest first.
        repeat: how many repetitions were compared.
        name: of the function.
    """

    rows: tuple[LeakRow, ...]
    repeat: int
    name: str

    @property
    def bytes(self) -> int:
        """What a repetition adds, on average."""
        return sum(row.bytes for row in self.rows)

    def __bool__(self) -> bool:
        return bool(self.rows)

    def __str__(self) -> str:
        if not self.rows:
            return f"memory leaks: none in {self.repeat} repetitions of {self.name}"
        head = f"memory leaks: each of {self.repeat} repetitions of {self.name} keeps {format_bytes(self.bytes)} more"
        return "\n".join([head, *map(str, self.rows)])

    def to_dict(self) -> dict[str, Any]:
        """The report as numbers, text, lists and dicts, for JSON."""
        return {
            "name": self.name,
            "repeat": self.repeat,
            "bytes": self.bytes,
            "rows": [asdict(row) for row in self.rows],
        }


def memory_leaks(fn: Callable[[], object], repeat: int = 5, warmup: int = 1, quiet: bool = False) -> LeakReport:
    """Call a function again and again, and find the memory of which every call leaves more behind, and who keeps it.

    A leak is memory of one kind (operation, line, type and device) that is made in each of the repetitions and is still
    there after the last. What is made once, such as the state of an optimizer, or replaced by the next call, or kept
    until a cache of fewer than `repeat` calls is full, is none. A training step makes a good function; one that does
    something every other call only does not.

    Operations wait until somebody reads a result, a backward pass ends or some 2,000 are waiting, and keep what they
    will read. That growth is shown as well: a loop over `total = total + loss` without gradients has it, until it reads
    the values, as `loss.item()` does.

    Args:
        fn: called without arguments; its result is dropped. It does run, and trains if that is what it does.
        repeat: repetitions to compare, at least 2.
        warmup: calls before these.
        quiet: do not print.

    Returns:
        A `LeakReport`, false where nothing leaks: `assert not ag.memory_leaks(step)`.

    Raises:
        TypeError: fn cannot be called, or a number is no integer. ValueError: repeat < 2 or warmup < 0.

    >>> kept = []
    >>> x = ag.tensor([1.0, 2.0])
    >>> def step():
    ...     kept.append(x.exp())
    ...     return x.sum().item()
    >>> leaks = ag.memory_leaks(step, quiet=True)
    >>> [(row.made_by, row.count, row.shape) for row in leaks.rows]
    [('exp', 1.0, (2,))]
    >>> leaks.rows[0].holders[0].kind
    'global'
    """
    if not callable(fn):
        raise TypeError(f"memory_leaks: fn must be a function, not {type(fn).__name__}")
    for name, n, least in (("repeat", repeat, 2), ("warmup", warmup, 0)):
        if isinstance(n, bool) or not isinstance(n, int):
            raise TypeError(f"memory_leaks: {name} must be an integer, not {n!r}")
        if n < least:
            raise ValueError(f"memory_leaks: {name} must be at least {least}, not {n}")
    recording = Recording()
    try:
        births = _births(fn, repeat, warmup)
    finally:
        recording.stop()
    pieces = {(entry.device, entry.piece): entry.made for entry in recording.entries if entry.made is not None}
    survivors = [
        _survivor(i, storage, pieces)
        for i, links in enumerate(births)
        for link in links
        if (storage := link()) is not None
    ]
    search = Search(sys._getframe(1))
    rows = [_row(kind, some, repeat, search) for kind, some in _leaking(survivors, repeat).items()]
    rows.sort(key=lambda row: -row.bytes)
    report = LeakReport(tuple(rows), repeat, getattr(fn, "__name__", type(fn).__name__))
    if not quiet:
        print(report)
    return report


# ---------------------------------------------------------------- what is left of each repetition

# Storages go by weak links: a list of them would be found among their holders.
Link = ref[Storage]


def _births(fn: Callable[[], object], repeat: int, warmup: int) -> list[list[Link]]:
    """What each repetition left behind, in the order of its making."""
    for _ in range(warmup):
        fn()
    known = set(_alive())
    births = []
    for _ in range(repeat):
        fn()
        births.append([link for link in _alive() if link not in known])
        known.update(births[-1])
    return births


def _alive() -> list[Link]:
    gc.collect()
    return [ref(thing) for thing in gc.get_objects() if type(thing) is Storage]


class _Kind(NamedTuple):
    """What storages have in common that are reported together."""

    made_by: str
    shape: Shape | None
    dtype: str
    device: str
    layer: str | None
    line: str


class _Survivor(NamedTuple):
    """A storage that a repetition has left behind: where the program was when it was made, and a link."""

    repetition: int
    kind: _Kind
    stack: tuple[Frame, ...]
    link: Link


def _survivor(repetition: int, storage: Storage, pieces: dict[Any, Made]) -> _Survivor:
    """By the note that was taken of its making; there is none of another library's memory."""
    made: Made | None = None
    if (node := storage.node) is not None:
        made = Made(node.origin, node.primitive.name, node.shape, node.dtype)
    elif (block := storage.block) is not None:
        made = pieces.get((storage.device.name, (block.slab.number, block.offset)))
    device = storage.device.name
    if made is None or made.origin is None:
        return _Survivor(repetition, _Kind(storage.label, None, "", device, None, ""), (), ref(storage))
    origin: Origin = made.origin
    kind = _Kind(origin.op or made.label, made.shape, dtype_name(made.dtype), device, origin.layer, origin.line)
    return _Survivor(repetition, kind, origin.stack, ref(storage))


def _leaking(survivors: list[_Survivor], repeat: int) -> dict[_Kind, list[_Survivor]]:
    """The survivors of each kind that every repetition has left some of, the oldest first."""
    found: dict[_Kind, list[_Survivor]] = {}
    for any_shape in (False, True):  # a second look at what was made in another shape each time
        kinds: dict[_Kind, list[_Survivor]] = defaultdict(list)
        for survivor in survivors:
            kind = survivor.kind._replace(shape=None) if any_shape else survivor.kind
            kinds[kind].append(survivor)
        leaking = {kind: some for kind, some in kinds.items() if len({one.repetition for one in some}) == repeat}
        found.update(leaking)
        survivors = [survivor for survivor in survivors if survivor.kind not in leaking]
    return found


def _row(kind: _Kind, survivors: list[_Survivor], repeat: int, search: Search) -> LeakRow:
    """A leak, with the holders of its oldest storage."""
    oldest = survivors[0].link()
    held = () if oldest is None else tuple(search.holders(oldest, survivors[0].stack))
    total = sum(storage.block_bytes for survivor in survivors if (storage := survivor.link()) is not None)
    return LeakRow(round(total / repeat), len(survivors) / repeat, *kind, held)
