"""tape_memory: what a tape keeps alive, what clearing it would free, and where that is."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import FrameType
from weakref import ref

from ..backend.memory import Storage
from ..tape import Tape, current_tape
from .counting import counted
from .formats import RULES
from .holders import Search
from .reach import collector_paused
from .tape_report import TapeReport
from .text import colours_wanted, report_text


def tape_memory(
    top: int = 10,
    quiet: bool = False,
    rule: str = "lifetime",
    tape: Tape | None = None,
    holders: bool = False,
) -> TapeReport:
    """Report what the tape keeps in memory; prints unless `quiet`, and returns the figures.

    It computes nothing and copies nothing between host and device: sizes come from the pool's blocks.

    Args:
        top: how many rows of each table to print, the most expensive first.
        quiet: do not print.
        rule: "lifetime" asks what outlives the tape (operands) and what goes with it (activations, fields).
            "role" files each storage by how a node first refers to it: as operand, captured value or field. That
            is the accounting of ggmlR's `ag_tape_memory`; an intermediate that feeds the next operation is an
            operand to it, although clearing the tape frees it.
        tape: which tape; by default the one that records now, else the one that finished last.
        holders: also say who keeps the `top` largest operands beside the tape, as `ag.holders` does, in the rows'
            `holders`. That looks through the whole program, several times.

    Raises:
        ValueError: another rule, or top < 0. TypeError: top is no integer, tape no tape.
    """
    if isinstance(top, bool) or not isinstance(top, int):
        raise TypeError(f"tape_memory: top must be an integer, not {top!r}")
    if tape is not None and not isinstance(tape, Tape):
        raise TypeError(f"tape_memory: tape must be a Tape of ag.grad_tape(), not {type(tape).__name__}")
    if rule not in RULES:
        raise ValueError(f'tape_memory: rule must be "lifetime" or "role", not {rule!r}')
    if top < 0:
        raise ValueError(f"tape_memory: top must not be negative, not {top}")
    tape = tape if tape is not None else current_tape()
    links: list[ref[Storage]] = []
    with collector_paused():
        report = counted(tape if tape is not None else Tape(), rule, links if holders else None)
    if holders:
        report = _with_holders(report, links, top, sys._getframe(1))
    if not quiet:
        print(report_text(report, top, colours_wanted()))
    return report


def _with_holders(report: TapeReport, links: list[ref[Storage]], top: int, frame: FrameType) -> TapeReport:
    """The report, with the holders of its largest operands as the function of this frame sees them."""
    rows = list(report.storages)
    operands = [i for i, row in enumerate(rows) if row.part == "operands"]
    search = Search(frame)
    for i in sorted(operands, key=lambda i: -rows[i].bytes)[:top]:
        storage = links[i]()
        if storage is not None:
            rows[i] = rows[i]._replace(holders="; ".join(map(str, search.beside_tape(storage))))
    return replace(report, storages=tuple(rows))
