"""The difference of two reports: what grew, and what shrank."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..backend.memory import format_bytes
from .formats import FIGURES, TABLES, sums_to_dict
from .storages import SumRow
from .tables import short_line, sum_table
from .text import lay_out

if TYPE_CHECKING:
    from .tape_report import TapeReport

SCHEMA = {"name": "ggmlpy_ag.tape_report_difference", "version": 1}


@dataclass(frozen=True)
class Difference:
    """`after - before` of two reports of tapes, with one and the same rule.

    Its figures and tables have the names of a report's, and are changes: what shrank is negative. A table lists what
    changed, the largest change first, and adds up to the change of `bytes_total`.

    Attributes:
        before, after: the reports.
    """

    before: TapeReport
    after: TapeReport

    def __getattr__(self, name: str) -> int:
        """The change of a figure of the reports, such as `bytes_total`."""
        if name not in FIGURES:
            raise AttributeError(f"a Difference has no {name!r}")
        change: int = getattr(self.after, name) - getattr(self.before, name)
        return change

    @cached_property
    def by_op(self) -> list[SumRow]:
        """The changes by operation."""
        return self._table("by_op")

    @cached_property
    def by_layer(self) -> list[SumRow]:
        """The changes by layer."""
        return self._table("by_layer")

    @cached_property
    def by_line(self) -> list[SumRow]:
        """The changes by line of code."""
        return self._table("by_line")

    @cached_property
    def by_dtype(self) -> list[SumRow]:
        """The changes by type."""
        return self._table("by_dtype")

    @cached_property
    def by_device(self) -> list[SumRow]:
        """The changes by device."""
        return self._table("by_device")

    def _table(self, table: str) -> list[SumRow]:
        before = {row.name: row for row in getattr(self.before, table)}
        after = {row.name: row for row in getattr(self.after, table)}
        changes = [
            after.get(name, SumRow(name)) - before.get(name, SumRow(name)) for name in dict.fromkeys((*after, *before))
        ]
        return sorted((row for row in changes if row != SumRow(row.name)), key=lambda row: -abs(row.bytes))

    def text(self, top: int = 10) -> str:
        """What changed, as text of at most 100 columns, with `top` rows of each table."""
        change = f"{_signed(self.bytes_total)}, from {_total(self.before)} to {_total(self.after)}"
        lines = [f"tape memory: {change}"]
        for name, key in (
            ("operands", "bytes_inputs"),
            ("activations", "bytes_snapshots"),
            ("fields", "bytes_fields"),
            ("gradients", "bytes_grads"),
            ("pending", "bytes_pending"),
        ):
            if getattr(self, key):
                lines.append(f"  {name:<12}{_signed(getattr(self, key)):>12}")
        for title, table in (("operation", "by_op"), ("layer", "by_layer"), ("line", "by_line"), ("dtype", "by_dtype")):
            rows = getattr(self, table)
            names = {row.name for report in (self.before, self.after) for row in getattr(report, table)}
            if rows and (table == "by_op" or len(names) > 1):
                shown = [replace(row, name=short_line(row.name)) for row in rows] if table == "by_line" else rows
                counted = any(row.nodes for row in rows)
                lines += lay_out(sum_table(title, shown, top, counted, _signed, lambda n: f"{n:+d}" if n else "0"))
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text()

    def to_dict(self) -> dict[str, Any]:
        """Figures and tables of plain Python, of the form in docs/report.schema.json."""
        return {
            "schema": dict(SCHEMA),
            "rule": self.after.rule,
            "figures": {name: getattr(self, name) for name in FIGURES},
            **{table: sums_to_dict(getattr(self, table)) for table in TABLES},
        }

    def to_json(self, indent: int | None = None) -> str:
        """`to_dict()` as JSON; `indent` as in `json.dumps`."""
        return json.dumps(self.to_dict(), indent=indent)


def _signed(n: int) -> str:
    return f"+{format_bytes(n)}" if n > 0 else format_bytes(n)


def _total(report: TapeReport) -> str:
    return f"{format_bytes(report.bytes_total)} ({report.nodes} operations)"
