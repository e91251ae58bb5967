"""The memory report of a tape: what it keeps alive, what clearing it would free, and where that is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter

from ..backend.array import dtype_name
from ..backend.memory import Storage, format_bytes
from ..tape import Tape, current_tape
from .reach import reach
from .storages import NO_LAYER, THE_MODEL, UNTRACED, StorageRow, SumRow, sums

WHEN_TO_CALL = (
    "tape memory: the tape is empty. Call tape_memory() after `with ag.grad_tape():`, "
    "between backward() and zero_grad(), to see what a step holds."
)


@dataclass(frozen=True)
class TapeReport:
    """Figures of `tape_memory`, in bytes of device memory (blocks, so rounded up to the pool's alignment).

    Every storage counts once, and every table adds up to `bytes_total`.

    Attributes:
        nodes: how many operations the tape has.
        storages: a row for each storage, in the order in which the tape reaches them.
        rule: the accounting, "lifetime" or "role".
        bytes_inputs: operands: what outlives the tape, because something outside refers to it, or because the memory
            is another library's (`from_dlpack`).
        bytes_snapshots: activations: what only the tape keeps alive.
        bytes_fields: what only named extras of the tape keep alive.
        bytes_total: the three together.
        bytes_host, bytes_device: the total, by where it lies.
        bytes_grads: gradients of the tape's leaves; not on the tape, but in memory with it.
        bytes_pending: what values that are not computed yet will take; no part of the total.
        values_pending: how many these are.
        by_op, by_layer, by_line, by_dtype, by_device: a row for each name, the most expensive first; lines need
            `grad_tape(trace=True)`.
    """

    nodes: int
    storages: tuple[StorageRow, ...]
    rule: str
    names: Mapping[str, Counter[str]] = field(repr=False)  # how many operations go by each name: "op", "layer", "line"

    @cached_property
    def _bytes(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for row in self.storages:
            if not row.pending:
                found[row.part] += row.bytes
                found["host"] += row.bytes * (row.device == "cpu" and row.part != "gradients")
            elif row.part != "gradients":
                found["pending"] += row.bytes
                found["values pending"] += 1
        return found

    @property
    def bytes_inputs(self) -> int:
        return self._bytes["operands"]

    @property
    def bytes_snapshots(self) -> int:
        return self._bytes["activations"]

    @property
    def bytes_fields(self) -> int:
        return self._bytes["fields"]

    @property
    def bytes_total(self) -> int:
        """All memory the tape refers to."""
        return self.bytes_inputs + self.bytes_snapshots + self.bytes_fields

    @property
    def bytes_freeable(self) -> int:
        """What clearing the tape frees now (by `rule="lifetime"`)."""
        return self.bytes_snapshots + self.bytes_fields

    @property
    def bytes_grads(self) -> int:
        return self._bytes["gradients"]

    @property
    def bytes_host(self) -> int:
        return self._bytes["host"]

    @property
    def bytes_device(self) -> int:
        return self.bytes_total - self.bytes_host

    @property
    def bytes_pending(self) -> int:
        return self._bytes["pending"]

    @property
    def values_pending(self) -> int:
        return self._bytes["values pending"]

    @cached_property
    def by_op(self) -> list[SumRow]:
        return self._table("op")

    @cached_property
    def by_layer(self) -> list[SumRow]:
        return self._table("layer")

    @cached_property
    def by_line(self) -> list[SumRow]:
        return self._table("line")

    @cached_property
    def by_dtype(self) -> list[SumRow]:
        return self._table("dtype")

    @cached_property
    def by_device(self) -> list[SumRow]:
        return self._table("device")

    def _table(self, key: str) -> list[SumRow]:
        return sums(self.storages, key, self.names.get(key, Counter()))

    def largest(self, n: int = 10) -> list[StorageRow]:
        """The `n` largest storages, those of gradients among them."""
        return sorted(self.storages, key=lambda row: -row.bytes)[:n]

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
    nodes = tape.nodes
    operands = _role_operands(tape) if rule == "role" else found.held_outside
    parts = [
        *((s, i, "operands" if s in operands else "activations") for s, i in found.values.items()),
        *((s, i, "operands" if s in operands else "fields") for s, i in found.fields.items()),
        # the gradient of a leaf that only the tape holds goes with it, and so does what only a pending value reads
        *((s, i, "gradients" if s in found.held_outside else "activations") for s, i in found.gradients.items()),
        *((s, i, "activations") for s, i in found.reads.items() if s not in found.held_outside),
    ]
    layers = [NO_LAYER if node.layer is None else node.layer or THE_MODEL for node in nodes]
    lines = [node.line or UNTRACED for node in nodes]
    rows = []
    for storage, i, part in parts:
        shape, dtype = found.windows[storage]
        rows.append(
            StorageRow(
                part,
                storage.block_bytes,
                storage.nbytes,
                storage.device.name,
                dtype_name(dtype),
                shape,
                storage.label,
                nodes[i].op,
                i,
                layers[i],
                lines[i],
                storage.block is None,
            )
        )
    names = {"op": Counter(map(attrgetter("op"), nodes)), "layer": Counter(layers), "line": Counter(lines)}
    return TapeReport(len(nodes), tuple(rows), rule, names)


def _role_operands(tape: Tape) -> set[Storage]:
    return {storage for node in tape.nodes for ref in node.operands if (storage := ref()) is not None}
