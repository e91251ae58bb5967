"""The memory report of a tape: what it keeps alive, what clearing it would free, and where that is."""

from __future__ import annotations

from dataclasses import dataclass

from ..backend.memory import Storage, format_bytes
from ..tape import Tape, current_tape
from .reach import reach

WHEN_TO_CALL = (
    "tape memory: the tape is empty. Call tape_memory() after `with ag.grad_tape():`, "
    "between backward() and zero_grad(), to see what a step holds."
)


@dataclass
class OpRow:
    """What the operations of one name keep: bytes of storages first reached by them, in the report's three parts."""

    op: str
    nodes: int = 0
    bytes_inputs: int = 0
    bytes_snapshots: int = 0
    bytes_fields: int = 0
    bytes_pending: int = 0

    @property
    def bytes(self) -> int:
        return self.bytes_inputs + self.bytes_snapshots + self.bytes_fields


@dataclass(frozen=True)
class TapeReport:
    """Figures of `tape_memory`, in bytes of device memory (blocks, so rounded up to the pool's alignment).

    Every storage counts once. `bytes_inputs` (operands): outlives the tape, because something outside refers to it.
    `bytes_snapshots` (activations): only the tape keeps it alive. `bytes_fields`: only named extras of the tape do.
    `bytes_grads`: gradients of the tape's leaves; not on the tape, but in memory with it. `bytes_host` and
    `bytes_device` split `bytes_total` by where it lies. `bytes_pending`: what values that are not computed yet will
    take; no part of the total.
    """

    nodes: int
    bytes_inputs: int
    bytes_snapshots: int
    bytes_fields: int
    bytes_grads: int
    bytes_host: int
    bytes_device: int
    bytes_pending: int
    values_pending: int
    by_op: list[OpRow]
    rule: str

    @property
    def bytes_total(self) -> int:
        """All memory the tape refers to."""
        return self.bytes_inputs + self.bytes_snapshots + self.bytes_fields

    @property
    def bytes_freeable(self) -> int:
        """What clearing the tape frees now (by `rule="lifetime"`)."""
        return self.bytes_snapshots + self.bytes_fields

    def text(self, top: int = 10) -> str:
        """The printed report, with the `top` most expensive operations."""
        if not self.nodes:
            return WHEN_TO_CALL
        f = format_bytes
        lifetime = self.rule == "lifetime"
        rows = [
            ("operands", self.bytes_inputs, "outlive the tape" if lifetime else "operands of operations"),
            ("activations", self.bytes_snapshots, "freed when the tape is cleared" if lifetime else "saved by rules"),
            ("fields", self.bytes_fields, "freed as well" if lifetime else "named extras"),
            ("gradients", self.bytes_grads, "beside the tape"),
        ]
        lines = [f"tape memory: {self.nodes} operations, {f(self.bytes_total)}"]
        lines += [f"  {name:<12}{f(n):>12}  {note}" for name, n, note in rows]
        lines.append(f"  {'host':<12}{f(self.bytes_host):>12}  device {f(self.bytes_device)}")
        if self.values_pending:
            lines.append(f"  {'pending':<12}{f(self.bytes_pending):>12}  {self.values_pending} values not yet computed")
        else:
            lines.append(f"  {'pending':<12}{f(0):>12}  everything is computed")
        lines.append(f"  {'operation':<22}{'nodes':>6}{'bytes':>13}{'operands':>13}{'activations':>13}{'fields':>13}")
        for row in self.by_op[:top]:
            figures = (row.bytes, row.bytes_inputs, row.bytes_snapshots, row.bytes_fields)
            lines.append(f"  {row.op:<22}{row.nodes:>6}" + "".join(f"{f(n):>13}" for n in figures))
        if len(self.by_op) > top:
            rest = sum(row.bytes for row in self.by_op[top:])
            lines.append(f"  {f'... {len(self.by_op) - top} more':<22}{'':>6}{f(rest):>13}")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text()


def tape_memory(top: int = 10, quiet: bool = False, rule: str = "lifetime", tape: Tape | None = None) -> TapeReport:
    """Report what the tape keeps in memory; prints unless `quiet`, and returns the figures.

    It computes nothing and copies nothing between host and device: sizes come from the pool's blocks.

    Args:
        top: how many operations to print, the most expensive first.
        quiet: do not print.
        rule: "lifetime" asks what outlives the tape (operands) and what goes with it (activations, fields).
            "role" files each storage by how a node first refers to it: as operand, captured value or field. That
            is the accounting of ggmlR's `ag_tape_memory`; an intermediate that feeds the next operation is an
            operand to it, although clearing the tape frees it.
        tape: which tape; by default the one that records now, else the one that finished last.

    Raises:
        ValueError: another rule, or top < 0. TypeError: top is no integer, tape no tape.
    """
    if isinstance(top, bool) or not isinstance(top, int):
        raise TypeError(f"tape_memory: top must be an integer, not {top!r}")
    if tape is not None and not isinstance(tape, Tape):
        raise TypeError(f"tape_memory: tape must be a Tape of ag.grad_tape(), not {type(tape).__name__}")
    if rule not in ("lifetime", "role"):
        raise ValueError(f'tape_memory: rule must be "lifetime" or "role", not {rule!r}')
    if top < 0:
        raise ValueError(f"tape_memory: top must not be negative, not {top}")
    tape = tape if tape is not None else current_tape()
    report = _count(tape if tape is not None else Tape(), rule)
    if not quiet:
        print(report.text(top))
    return report


def _count(tape: Tape, rule: str) -> TapeReport:
    found = reach(tape)
    rows: dict[str, OpRow] = {}
    for node in tape.nodes:
        rows.setdefault(node.op, OpRow(node.op)).nodes += 1
    operands = _role_operands(tape) if rule == "role" else found.held_outside
    host = pending = values_pending = grads = 0

    def add(part: str, storage: Storage, i: int) -> None:
        nonlocal host, pending, values_pending
        row = rows[tape.nodes[i].op]
        size = storage.block_bytes
        if storage.block is None:
            pending += size
            values_pending += 1
            row.bytes_pending += size
            return
        host += size if storage.device.is_cpu else 0
        setattr(row, part, getattr(row, part) + size)

    for storage, i in found.values.items():
        add("bytes_inputs" if storage in operands else "bytes_snapshots", storage, i)
    for storage, i in found.fields.items():
        add("bytes_inputs" if storage in operands else "bytes_fields", storage, i)
    for storage, i in found.gradients.items():
        if storage not in found.held_outside:
            add("bytes_snapshots", storage, i)  # the gradient of a leaf that only the tape holds goes with it
        elif storage.block is not None:
            grads += storage.block_bytes
    for storage, i in found.reads.items():
        if storage not in found.held_outside:
            add("bytes_snapshots", storage, i)
    by_op = sorted(rows.values(), key=lambda r: -r.bytes)
    total = sum(row.bytes for row in by_op)
    return TapeReport(
        nodes=len(tape.nodes),
        bytes_inputs=sum(row.bytes_inputs for row in by_op),
        bytes_snapshots=sum(row.bytes_snapshots for row in by_op),
        bytes_fields=sum(row.bytes_fields for row in by_op),
        bytes_grads=grads,
        bytes_host=host,
        bytes_device=total - host,
        bytes_pending=pending,
        values_pending=values_pending,
        by_op=by_op,
        rule=rule,
    )


def _role_operands(tape: Tape) -> set[Storage]:
    return {storage for node in tape.nodes for ref in node.operands if (storage := ref()) is not None}
