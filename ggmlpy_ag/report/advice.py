"""What the message of an OutOfMemoryError says about the tape: what it holds, where, and what would help."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import replace

from ..backend.errors import OutOfMemoryError
from ..backend.memory import format_bytes
from ..paths import named
from ..tape import current_tape, recording_tape, running_phase
from .edges import NONE, Edges
from .storages import NO_LAYER
from .suggest import suggest_for_tape
from .tape_memory import tape_memory
from .tape_report import TapeReport
from .what_if import own_layers, what_if

TOP = 3  # layers or operations to name


def advice(error: OutOfMemoryError) -> list[str]:
    """Lines about what is on the error's device; none where there is no tape."""
    tape = current_tape()
    if tape is None or not tape.nodes:
        return []
    f = format_bytes
    backward = running_phase.get() == "backward"
    report = tape_memory(quiet=True, tape=tape)
    rows = [row for row in report.storages if row.device == error.device and row.part != "gradients"]
    pending = sum(row.bytes for row in rows if row.pending)
    layers = any(row.layer != NO_LAYER for row in rows)
    places: Counter[str] = Counter()
    for row in rows:
        places[f"layer {row.layer}" if layers else row.op] += row.bytes
    held = sum(row.bytes for row in rows) - pending
    lines = [
        f"the tape: {report.nodes} operations hold {f(held)}, and {f(pending)} more once computed; most of it:",
        *(f"  {f(count)} in {name}" for name, count in places.most_common(TOP)),
    ]
    helps = []
    freeable = sum(row.bytes for row in rows if not row.pending and row.part != "operands")
    if freeable and recording_tape() is None and not backward:
        helps.append(f"  clearing the tape frees {f(freeable)}")
    report = _of_one_device(report, error.device, backward)
    if report.edges is not None:
        helps += _checkpoints(report, error)
        if batch := _besides_parameters(report, report.edges):
            helps.append(f"  a batch of half the size keeps about {f(batch // 2)} less")
    return [*lines, "what would help:", *helps] if helps else lines


def _of_one_device(report: TapeReport, device: str, backward: bool) -> TapeReport:
    """The report with only what the tape keeps on a device as activations.

    In a backward pass the gradients that wait to be computed hold, too, what the tape does: nothing is the user's then.
    """
    rows = []
    for row in report.storages:
        if row.device != device:
            row = row._replace(part="operands")
        elif backward and row.part == "operands":
            row = row._replace(part="activations")
        rows.append(row)
    return replace(report, storages=tuple(rows))


def _checkpoints(report: TapeReport, error: OutOfMemoryError) -> list[str]:
    """The layer that frees what is missing for least work, else several that do, else the one that frees most."""
    room = 0 if error.limit is None else max(0, error.limit - error.live - error.scratch)
    missing = error.requested - room
    alone = [one for path in own_layers(report) if (one := what_if(report, path)).after < one.before]
    if not alone:
        return []
    enough = [one for one in alone if one.before - one.after >= missing]
    if enough:
        best = min(enough, key=lambda one: (one.multiply_adds, one.after))
    else:
        best = min(alone, key=lambda one: one.after)
        with suppress(ValueError):  # not even all of them free so much
            best = what_if(report, suggest_for_tape(report, max(0, best.before - missing)).layers)
    layers = f"{'layer' if len(best.checkpoint) == 1 else 'layers'} {named(best.checkpoint)}"
    saved = format_bytes(best.before - best.after)
    again = f"{best.share:.0%} of the forward multiply-adds"
    return [f"  checkpointing {layers} keeps {saved} less and computes {again} again"]


def _besides_parameters(report: TapeReport, edges: Edges) -> int:
    """Bytes of what only the tape keeps, without leaves: nearly all of it grows with the batch."""
    made = {NONE, *edges.nodes}
    leaves = {key for key, maker in zip(edges.operands, edges.makers, strict=True) if maker not in made}
    return sum(
        row.bytes
        for key, row in zip(edges.rows, report.storages, strict=True)
        if row.part == "activations" and key not in leaves
    )
