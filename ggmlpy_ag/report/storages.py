"""The rows of a report: one a storage, and their sums by operation, layer, line, type or device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from ..backend.array import Shape

NO_LAYER = "(no layer)"  # outside of every nn.Module
THE_MODEL = "(model)"  # in the outermost one itself
UNTRACED = "(not traced)"


class StorageRow(NamedTuple):
    """One block of memory, however many tensors, views and closures share it.

    `part` is "operands", "activations", "fields" or "gradients". `bytes` is what it takes of device memory, `nbytes`
    what its elements do. `made_by` is the operation that made it. `op`, `node`, `layer` and `line` are of the first
    operation on the tape that reaches it. A `pending` one is not computed yet, and takes no memory so far. `holders`
    says who keeps it beside the tape, where `tape_memory(holders=True)` was asked for that.
    """

    part: str
    bytes: int
    nbytes: int
    device: str
    dtype: str
    shape: Shape
    made_by: str
    op: str
    node: int
    layer: str
    line: str
    pending: bool
    holders: str = ""


@dataclass
class SumRow:
    """What the storages of one name (an operation, a layer, a line, a type, a device) take, in the parts of a report.

    `nodes` counts the tape's operations of that name. `bytes_pending` is no part of `bytes`.
    """

    name: str
    nodes: int = 0
    bytes_inputs: int = 0
    bytes_snapshots: int = 0
    bytes_fields: int = 0
    bytes_pending: int = 0

    @property
    def op(self) -> str:
        """The name, which in `by_op` is that of an operation."""
        return self.name

    @property
    def bytes(self) -> int:
        """The three parts together."""
        return self.bytes_inputs + self.bytes_snapshots + self.bytes_fields

    def __sub__(self, before: SumRow) -> SumRow:
        """The change of each figure."""
        return SumRow(self.name, *(value - vars(before)[key] for key, value in vars(self).items() if key != "name"))


def sums(rows: Iterable[StorageRow], key: str, nodes: Counter[str]) -> list[SumRow]:
    """The rows summed by an attribute, the most expensive first; also what has nodes but no storage."""
    found = {name: SumRow(name, count) for name, count in nodes.items()}
    at = StorageRow._fields.index(key)
    for row in rows:
        name = str(row[at])
        total = found.get(name) or found.setdefault(name, SumRow(name))
        if row.part == "gradients":
            continue
        if row.pending:
            total.bytes_pending += row.bytes
        elif row.part == "operands":
            total.bytes_inputs += row.bytes
        elif row.part == "activations":
            total.bytes_snapshots += row.bytes
        else:
            total.bytes_fields += row.bytes
    return sorted(found.values(), key=lambda total: -total.bytes)
