"""Moment: what was alive at one point of a memory timeline."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from ..backend.memory import format_bytes
from .events import BEFORE, Event


class LiveRow(NamedTuple):
    """Bytes alive by one name. `blocks` is how many pieces of memory; those from before the timeline aren't counted."""

    name: str
    bytes: int
    blocks: int


@dataclass(frozen=True)
class Moment:
    """What was alive on a device just after an event, or as the timeline began.

    Every table adds up to `bytes`: `LiveRow`s, the most expensive first, "(before the timeline)" among them.

    Attributes:
        device: name of the device.
        event: number of the event; None as the timeline began.
        seconds: since the timeline began.
        before: bytes that were in use as it began, and still were.
        rows: the events ("alloc" or "reuse") that took what was alive, in their order.
    """

    device: str
    event: int | None
    seconds: float
    before: int
    rows: tuple[Event, ...] = field(repr=False)

    @cached_property
    def bytes(self) -> int:
        """All that was in use."""
        return self.before + sum(row.bytes for row in self.rows)

    @property
    def tensors(self) -> int:
        """Bytes of tensors."""
        return self.bytes - self.scratch

    @cached_property
    def scratch(self) -> int:
        """Bytes of values inside a running graph that nobody keeps."""
        return sum(row.bytes for row in self.rows if row.part == "scratch")

    @cached_property
    def by_op(self) -> list[LiveRow]:
        """A row for each operation."""
        return self._table("op")

    @cached_property
    def by_layer(self) -> list[LiveRow]:
        """A row for each layer."""
        return self._table("layer")

    @cached_property
    def by_line(self) -> list[LiveRow]:
        """A row for each line of your code."""
        return self._table("line")

    @cached_property
    def by_phase(self) -> list[LiveRow]:
        """A row for each phase of training."""
        return self._table("phase")

    @cached_property
    def by_part(self) -> list[LiveRow]:
        """A row each for tensors and scratch."""
        return self._table("part")

    def _table(self, key: str) -> list[LiveRow]:
        sizes: Counter[str] = Counter({BEFORE: self.before} if self.before else {})
        blocks: Counter[str] = Counter()
        for row in self.rows:
            name = getattr(row, key)
            sizes[name] += row.bytes
            blocks[name] += 1
        return [LiveRow(name, n, blocks[name]) for name, n in sizes.most_common()]

    def largest(self, n: int = 10) -> list[Event]:
        """The `n` largest pieces that the timeline saw being taken."""
        return sorted(self.rows, key=lambda row: -row.bytes)[:n]

    def to_dict(self) -> dict[str, Any]:
        """All of it as numbers, text, lists and dicts; `rows` are the numbers of their events."""
        tables = ("by_op", "by_layer", "by_line", "by_phase", "by_part")
        return {
            "device": self.device,
            "event": self.event,
            "seconds": self.seconds,
            "bytes": self.bytes,
            "tensors": self.tensors,
            "scratch": self.scratch,
            "before": self.before,
            "rows": [row.number for row in self.rows],
            **{name: [row._asdict() for row in getattr(self, name)] for name in tables},
        }

    def text(self, top: int = 5) -> str:
        """For people: the figures, and the `top` most expensive rows of each table."""
        f = format_bytes
        when = "as it began" if self.event is None else f"at {self.seconds:.3f} s, event {self.event}"
        lines = [
            f"{self.device}: {f(self.bytes)} in use {when}",
            f"  tensors {f(self.tensors)}, scratch {f(self.scratch)}; of it before the timeline {f(self.before)}",
        ]
        for title, table in (
            ("phase", self.by_phase),
            ("operation", self.by_op),
            ("layer", self.by_layer),
            ("line", self.by_line),
        ):
            lines.append(f"  {title:<{NAME}}{'blocks':>8}{'bytes':>12}{'share':>8}")
            lines += [self._line(row.name, row.bytes, row.blocks) for row in table[:top]]
            if rest := table[top:]:
                size, blocks = sum(row.bytes for row in rest), sum(row.blocks for row in rest)
                lines.append(self._line(f"... {len(rest)} more", size, blocks))
        if self.rows:
            lines.append(f"  {'largest':<{NAME + 8}}{'bytes':>12}{'share':>8}")
        for row in self.largest(top):
            name = f"{row.op} {list(row.shape)} {row.dtype}, {row.phase}, {row.part}"
            lines.append(self._line(name, row.bytes, None))
        return "\n".join(lines)

    def _line(self, name: str, size: int, blocks: int | None) -> str:
        width = NAME if blocks is not None else NAME + 8
        if len(name) >= width:
            name = "..." + name[4 - width :]  # of a path, the end says more
        count = "" if blocks is None else f"{blocks or '':>8}"
        return f"  {name:<{width}}{count}{format_bytes(size):>12}{size / max(self.bytes, 1):>8.1%}"

    def __str__(self) -> str:
        return self.text()


NAME = 64  # columns of a name
