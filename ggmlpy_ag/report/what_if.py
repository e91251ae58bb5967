"""What checkpointing parts of a model would release, told from a report."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import compress, pairwise
from math import prod
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ..backend.memory import format_bytes
from ..paths import is_within, listed, matching, named
from .edges import NONE, Edges
from .storages import NO_LAYER, THE_MODEL, StorageRow

if TYPE_CHECKING:
    from .tape_report import TapeReport

_T = TypeVar("_T")

UPLOADED = "tensor"  # the label of data that came from the host: made outside of every layer


@dataclass(frozen=True)
class WhatIf:
    """What a tape would keep if some of its operations were checkpointed, in bytes.

    Attributes:
        checkpoint: the layers' paths, or the lines, that would be.
        before: what only the tape keeps now, computed or not: what clearing it would free.
        after: likewise then.
        released: values that would be freed at once, and made again in the backward pass.
        added: inputs of the checkpointed parts that nothing keeps now, and that would be kept.
        multiply_adds: that would be computed again.
        share: these, as a part of all multiply-adds of the forward pass.
        operations: how many of the tape's operations would run again.
    """

    checkpoint: tuple[str, ...]
    before: int
    released: int
    added: int
    multiply_adds: int
    share: float
    operations: int

    @property
    def after(self) -> int:
        return self.before - self.released + self.added

    def __str__(self) -> str:
        f = format_bytes
        return (
            f"checkpointing {named(self.checkpoint)}: activations {f(self.before)} -> {f(self.after)} "
            f"({f(self.released)} released, {f(self.added)} of inputs added), {self.operations} operations again, "
            f"{self.share:.0%} of the forward multiply-adds"
        )


def what_if(report: TapeReport, checkpoint: str | Iterable[str]) -> WhatIf:
    """See `TapeReport.what_if`."""
    edges = _edges(report)
    chosen, groups = _groups(edges, listed(checkpoint))
    return _released(report, edges, chosen, groups)


def _edges(report: TapeReport) -> Edges:
    if report.edges is None:
        raise ValueError("this report does not know which operation needs which value: make one with tape_memory")
    if report.rule != "lifetime":
        raise ValueError(f'what a tape would keep is told from a report by rule "lifetime", not {report.rule!r}')
    return report.edges


def own_layers(report: TapeReport) -> list[str]:
    """The paths of layers below the model that have operations of their own."""
    return [layer for layer in dict.fromkeys(_edges(report).layers) if layer not in (NO_LAYER, THE_MODEL)]


def _layer_paths(edges: Edges) -> list[str]:
    """The layers that have operations, and those that they are parts of, in the order of their first operation."""
    found: dict[str, None] = {}
    for layer in dict.fromkeys(edges.layers):
        if layer != NO_LAYER:
            parts = [] if layer == THE_MODEL else layer.split(".")
            found.update(dict.fromkeys(".".join(parts[:n]) for n in range(len(parts) + 1)))
    return list(found)


def _groups(edges: Edges, wanted: Sequence[str]) -> tuple[list[str], list[tuple[int, int]]]:
    """What was chosen, and the runs of nodes (first, last + 1) that would each become one checkpoint."""
    lines = [name for name in wanted if isinstance(name, str) and re.search(r":\d+$", name)]
    layers = ["" if name == THE_MODEL else name for name in wanted if name not in lines]
    paths = matching("what_if", layers, _layer_paths(edges))
    for line in lines:
        if not any(_is_at(found, line) for found in set(edges.lines)):
            raise ValueError(f"what_if: no operation was called at {line}; lines are known with grad_tape(trace=True)")
    parts: dict[tuple[str, str], str | None] = {}  # of which part a node is, by its layer and line
    for layer, line in set(zip(edges.layers, edges.lines, strict=True)):
        above = [path for path in paths if layer != NO_LAYER and is_within("" if layer == THE_MODEL else layer, path)]
        at = [name for name in lines if _is_at(line, name)]
        parts[layer, line] = min(above, key=len) if above else at[0] if at else None
    of_node = [parts[key] for key in zip(edges.layers, edges.lines, strict=True)]
    starts = [0, *(i for i, (a, b) in enumerate(pairwise(of_node), 1) if a != b), len(of_node)]
    return [*paths, *lines], [(a, b) for a, b in pairwise(starts) if a < b and of_node[a] is not None]


def _is_at(line: str, wanted: str) -> bool:
    """Whether "/x/y.py:12 in f" is "y.py:12"."""
    place = line.rpartition(" in ")[0]
    return place == wanted or place.endswith(("/" + wanted, "\\" + wanted))


def _released(report: TapeReport, edges: Edges, chosen: Sequence[str], groups: Sequence[tuple[int, int]]) -> WhatIf:
    rows = dict(zip(edges.rows, report.storages, strict=True))
    inside = [False] * len(edges.nodes)
    for first, end in groups:
        inside[first:end] = [True] * (end - first)
    operands = _operands(edges)
    saved = _parts(edges.saved, edges.saved_ends)
    kept: set[int] = set()  # by an operation that stays, or as an input of a checkpoint
    added: dict[int, int] = {}
    for i, again in enumerate(inside):
        if not again:
            kept.update(saved[i])
            kept.update(operand.storage for operand in operands[i] if operand.maker == LEAF)
    for first, end in groups:
        for i in range(first, end):
            kept.update(key for key in saved[i] if key in rows and rows[key].made_by == UPLOADED)
            for operand in operands[i]:
                if _is_input(operand, rows.get(operand.storage), first, i, end):
                    kept.add(operand.storage)
                    if operand.storage not in rows and operand.storage not in edges.alive:
                        added[operand.storage] = max(operand.bytes, added.get(operand.storage, 0))
    freeable = {key: row for key, row in rows.items() if row.part in ("activations", "fields")}
    work = sum(compress(edges.multiply_adds, inside))
    return WhatIf(
        checkpoint=tuple(chosen),
        before=sum(row.bytes for row in freeable.values()),
        released=sum(row.bytes for key, row in freeable.items() if inside[row.node] and key not in kept),
        added=sum(added.values()),
        multiply_adds=work,
        share=work / max(1, sum(edges.multiply_adds)),
        operations=sum(inside),
    )


class _Operand(NamedTuple):
    storage: int
    maker: int  # the node that made it, or LEAF, or UNKNOWN where it has no gradient
    bytes: int


LEAF, UNKNOWN = -1, -2


def _operands(edges: Edges) -> list[list[_Operand]]:
    """The operands of each node."""
    numbers = {key: i for i, key in enumerate(edges.nodes)} | {NONE: UNKNOWN}
    sizes = [-(-prod(shape) * dtype.itemsize // edges.alignment) * edges.alignment for shape, dtype in edges.specs]
    makers = [numbers.get(key, LEAF) for key in edges.makers]
    return _parts(list(map(_Operand, edges.operands, makers, sizes)), edges.operand_ends)


def _parts(items: list[_T], ends: Sequence[int]) -> list[list[_T]]:
    return [items[a:b] for a, b in pairwise([0, *ends])]


def _is_input(operand: _Operand, row: StorageRow | None, first: int, i: int, end: int) -> bool:
    """Whether node i's operand comes into the part from `first` to `end` from outside."""
    if operand.maker != UNKNOWN:
        return not first <= operand.maker < end
    # Without a gradient, a value does not say where it was made: data, or what the first operation takes, are inputs.
    return i == first or (row is not None and row.made_by == UPLOADED)


__all__ = ["WhatIf"]
