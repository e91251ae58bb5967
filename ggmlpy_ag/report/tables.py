"""What a report shows, as cells of text: its figures and its tables, for every form it is printed in."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ..backend.memory import format_bytes
from .storages import UNTRACED, StorageRow, SumRow

if TYPE_CHECKING:
    from .tape_report import TapeReport

FEW = 10  # storages that need no list: the operations' table says it all


class Table(NamedTuple):
    """Cells by rows. `words` says which columns hold words, to be cut where there is no room; others hold figures."""

    heading: tuple[str, ...]
    words: tuple[bool, ...]
    rows: Sequence[tuple[str, ...]]


def figures(report: TapeReport) -> list[tuple[str, str, str]]:
    """The parts of the total and what is beside it: name, bytes, and what it means."""
    f = format_bytes
    lifetime = report.rule == "lifetime"
    pending = f"{report.values_pending} values not yet computed" if report.values_pending else "everything is computed"
    return [
        ("operands", f(report.bytes_inputs), "outlive the tape" if lifetime else "operands of operations"),
        ("activations", f(report.bytes_snapshots), "freed when the tape is cleared" if lifetime else "saved by rules"),
        ("fields", f(report.bytes_fields), "freed as well" if lifetime else "named extras"),
        ("gradients", f(report.bytes_grads), "beside the tape"),
        ("host", f(report.bytes_host), f"device {f(report.bytes_device)}"),
        ("pending", f(report.bytes_pending), pending),
    ]


def tables(report: TapeReport, top: int) -> list[Table]:
    """The tables that say something new of this tape, `top` rows of each."""
    found = [sum_table("operation", report.by_op, top)]
    if len(report.by_layer) > 1:
        found.append(sum_table("layer", report.by_layer, top))
    if traced := list(report.names["line"]) != [UNTRACED]:
        rows = [replace(row, name=short_line(row.name)) for row in report.by_line]
        found.append(sum_table("line", rows, top))
    if len(report.by_dtype) > 1:
        found.append(sum_table("dtype", report.by_dtype, top, nodes=False))
    if sum(row.name != "cpu" for row in report.by_device) > 1:
        found.append(sum_table("device", report.by_device, top, nodes=False))
    if len(report.storages) > FEW:
        found.append(_largest(report, top, len(report.by_layer) > 1, traced))
    if any(row.holders for row in report.storages):
        found.append(_held(report, top))
    return found


def sum_table(
    title: str,
    rows: list[SumRow],
    top: int,
    nodes: bool = True,
    amount: Callable[[int], str] = format_bytes,
    count: Callable[[int], str] = str,
) -> Table:
    """A table of sums; `amount` and `count` write bytes and numbers of nodes, and `nodes` says whether to."""
    columns = [("bytes", "bytes"), ("operands", "bytes_inputs"), ("activations", "bytes_snapshots")]
    columns += [("fields", "bytes_fields")]
    if any(row.bytes_pending for row in rows):
        columns.append(("pending", "bytes_pending"))
    heading = (title, *(["nodes"] if nodes else []), *(word for word, _ in columns))
    cells = [
        (row.name, *([count(row.nodes)] if nodes else []), *(amount(getattr(row, key)) for _, key in columns))
        for row in rows[:top]
    ]
    if rest := rows[top:]:
        line = (f"... {len(rest)} more", *([""] if nodes else []), amount(sum(row.bytes for row in rest)))
        cells.append((*line, *[""] * (len(heading) - len(line))))
    return Table(heading, (True, *[False] * (len(heading) - 1)), cells)


def _largest(report: TapeReport, top: int, layers: bool, lines: bool) -> Table:
    def cells(row: StorageRow) -> tuple[str, ...]:
        what = (format_bytes(row.bytes), _shape(row), row.dtype, row.made_by, "pending" if row.pending else row.part)
        where = [row.layer] * layers + [short_line(row.line)] * lines
        return (*what, *(where or [f"{row.node} {row.op}"]))

    where = ["layer"] * layers + ["line"] * lines
    heading = ("largest", "shape", "dtype", "made by", "part", *(where or ["first used by"]))
    return Table(heading, (False, *[True] * (len(heading) - 1)), list(map(cells, report.largest(top))))


def _held(report: TapeReport, top: int) -> Table:
    rows = [row for row in report.largest(len(report.storages)) if row.holders][:top]
    cells = [(format_bytes(row.bytes), _shape(row), row.made_by, row.holders) for row in rows]
    return Table(("operand", "shape", "made by", "held by"), (False, True, True, True), cells)


def _shape(row: StorageRow) -> str:
    return "x".join(map(str, row.shape)) or "scalar"


def short_line(line: str) -> str:
    """A "file:line in function" with the file as seen from the working directory, where it is below that."""
    try:
        here = os.path.join(os.getcwd(), "")
    except OSError:  # it was removed
        return line
    return line[len(here) :] if line.startswith(here) else line
