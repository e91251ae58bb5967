"""A report as text of at most 100 columns."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from ..backend.memory import format_bytes
from .tables import Table, figures, tables

if TYPE_CHECKING:
    from .tape_report import TapeReport

WIDTH = 100
LEAST = 8  # a cell of words keeps so many columns

WHEN_TO_CALL = (
    "tape memory: the tape is empty. Call tape_memory() after `with ag.grad_tape():`, "
    "between backward() and zero_grad(), to see what a step holds."
)


def report_text(report: TapeReport, top: int, colours: bool = False) -> str:
    """The printed report, with `top` rows of each table."""
    if not report.nodes:
        return WHEN_TO_CALL
    title = f"tape memory: {report.nodes} operations, {format_bytes(report.bytes_total)}"
    lines = [_bold(title) if colours else title]
    lines += [f"  {name:<12}{size:>12}  {note}" for name, size, note in figures(report)]
    for i, table in enumerate(tables(report, top)):
        lines += [*([""] if i else []), *lay_out(table, colours)]
    return "\n".join(lines)


def lay_out(table: Table, colours: bool = False) -> list[str]:
    """The lines of a table: words to the left, figures to the right, the widest words cut until all fits."""
    rows = [tuple(map(_printable, row)) for row in (table.heading, *table.rows)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    while sum(widths) + 2 * len(widths) > WIDTH:
        widest = max((i for i, words in enumerate(table.words) if words), key=widths.__getitem__)
        if widths[widest] <= LEAST:
            break
        widths[widest] -= 1
    lines = []
    for row in rows:
        cells = [
            cut(cell, width).ljust(width) if words else cell.rjust(width)
            for cell, width, words in zip(row, widths, table.words, strict=True)
        ]
        lines.append("  " + "  ".join(cells).rstrip())
    return [_bold(lines[0]), *lines[1:]] if colours else lines


def cut(text: str, width: int) -> str:
    """At most `width` characters of it, without its middle."""
    if len(text) <= width:
        return text
    kept = max(width - 3, 0)
    return f"{text[: kept // 2]}...{text[len(text) - (kept - kept // 2) :]}"


def colours_wanted() -> bool:
    """Whether standard output is a terminal whose user has not asked for plain text (https://no-color.org)."""
    isatty = getattr(sys.stdout, "isatty", None)  # a program may put something simpler there, or None
    return bool(isatty and isatty()) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _bold(line: str) -> str:
    return f"\x1b[1m{line}\x1b[0m"


def _printable(text: str) -> str:
    """Without what moves a terminal's cursor: names may come from a file."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)
