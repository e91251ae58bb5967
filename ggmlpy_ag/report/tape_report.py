"""TapeReport: what a tape keeps alive, as plain data, and the forms in which it is shown and saved."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from typing import Any

from ..tensor import Tensor
from . import formats, page
from .difference import Difference
from .edges import Edges
from .holders import Holder, holders_of
from .storages import StorageRow, SumRow, sums
from .suggest import Suggestion, suggest_for_tape
from .text import report_text
from .timeline import Timeline
from .what_if import WhatIf, what_if


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
    edges: Edges | None = field(default=None, repr=False, compare=False)  # for what_if

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
        """Operands: what outlives the tape."""
        return self._bytes["operands"]

    @property
    def bytes_snapshots(self) -> int:
        """Activations: what only the tape keeps alive."""
        return self._bytes["activations"]

    @property
    def bytes_fields(self) -> int:
        """What only named extras of the tape keep alive."""
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
        """Gradients, beside the tape."""
        return self._bytes["gradients"]

    @property
    def bytes_host(self) -> int:
        """What of the total lies in host memory."""
        return self._bytes["host"]

    @property
    def bytes_device(self) -> int:
        """What of the total lies on devices."""
        return self.bytes_total - self.bytes_host

    @property
    def bytes_pending(self) -> int:
        """What values that are not computed yet will take."""
        return self._bytes["pending"]

    @property
    def values_pending(self) -> int:
        """How many values are not computed yet."""
        return self._bytes["values pending"]

    @cached_property
    def by_op(self) -> list[SumRow]:
        """Sums by operation."""
        return self._table("op")

    @cached_property
    def by_layer(self) -> list[SumRow]:
        """Sums by layer."""
        return self._table("layer")

    @cached_property
    def by_line(self) -> list[SumRow]:
        """Sums by line of code, of a tape that traces."""
        return self._table("line")

    @cached_property
    def by_dtype(self) -> list[SumRow]:
        """Sums by type."""
        return self._table("dtype")

    @cached_property
    def by_device(self) -> list[SumRow]:
        """Sums by device."""
        return self._table("device")

    def _table(self, key: str) -> list[SumRow]:
        return sums(self.storages, key, self.names.get(key, Counter()))

    def largest(self, n: int = 10) -> list[StorageRow]:
        """The `n` largest storages, those of gradients among them."""
        return sorted(self.storages, key=lambda row: -row.bytes)[:n]

    def rows(self) -> list[dict[str, Any]]:
        """The storages as flat dicts, such as `pandas.DataFrame(report.rows())` takes."""
        return [row._asdict() for row in self.storages]

    def text(self, top: int = 10) -> str:
        """The printed report, of at most 100 columns, with `top` rows of each table.

        Tables that would say nothing new are left out: by layer where no `nn.Module` ran, by line where the tape did
        not trace, by type where there is one, and the largest storages where there are few.
        """
        return report_text(self, top)

    def to_dict(self) -> dict[str, Any]:
        """Figures, tables, names and storages of plain Python, of the form in docs/report.schema.json."""
        return formats.to_dict(self)

    def to_json(self, indent: int | None = None) -> str:
        """`to_dict()` as JSON; `indent` as in `json.dumps`."""
        return json.dumps(self.to_dict(), indent=indent)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TapeReport:
        """The report that `to_dict` wrote, to be shown or compared; `what_if` needs the tape's own report.

        Raises:
            TypeError: data is no mapping. ValueError: it is no report, of another version, or a value is not possible.
        """
        return cls(*formats.parsed(data))

    @classmethod
    def from_json(cls, text: str | bytes) -> TapeReport:
        """The report that `to_json` wrote, as `from_dict`.

        Raises:
            ValueError: this is no JSON, or no report.
        """
        return cls(*formats.loaded(text))

    def to_markdown(self, top: int = 10) -> str:
        """The printed report as GitHub's Markdown, with `top` rows of each table."""
        return formats.to_markdown(self, top)

    def _repr_html_(self) -> str:
        return formats.to_notebook(self, 10)

    def __sub__(self, before: TapeReport) -> Difference:
        """What changed since the report `before`.

        Raises:
            ValueError: the two follow different rules.
        """
        if not isinstance(before, TapeReport):
            return NotImplemented
        if before.rule != self.rule:
            raise ValueError(f"reports by rule {self.rule!r} and {before.rule!r} cannot be compared")
        return Difference(before, self)

    def to_html(self, path: str | PathLike[str], timeline: Timeline | None = None) -> None:
        """Write the report as a page for a browser: one file that needs no other and no network.

        It has the totals, a map of the storages by layer and operation, tables that sort, and a filter.

        Args:
            path: of the file.
            timeline: of `memory_timeline`, whose curve the page then shows, and what was alive at each moment of it.

        Raises:
            TypeError: path is no path, timeline no timeline.
        """
        page.write(self, path, timeline)

    def holders(self, tensor: Tensor) -> list[Holder]:
        """Everything that keeps a tensor's memory now, as `ag.holders`; the report itself keeps nothing."""
        return holders_of(tensor, sys._getframe(1))

    def what_if(self, checkpoint: str | Iterable[str]) -> WhatIf:
        """What the tape would keep if these layers, or the operations called at these lines, were checkpointed.

        Nothing is run: the report knows which operation needs which value. To the byte it is what `tape_memory` shows
        of the same forward pass in `ag.nn.checkpointed(model, layers)`, as long as a layer does not run twice in a row
        (which counts as one run) and what it makes without a gradient is not what its first operation takes.
        `Estimate.what_if` simulates the step, and so has the peak, too.

        Args:
            checkpoint: paths of layers, or patterns as `ag.nn.checkpointed` takes them; or lines, "file.py:12", where
                the tape traces.

        Raises:
            ValueError: no operation of the tape is of such a layer or line.

        >>> model = ag.nn.Sequential(ag.nn.Linear(4, 8), ag.nn.Tanh(), ag.nn.Tanh(), ag.nn.Linear(8, 1))
        >>> with ag.grad_tape():
        ...     loss = model(np.ones((64, 4))).sum()
        >>> found = ag.tape_memory(quiet=True).what_if(["0", "1"])
        >>> found.before - found.after, found.multiply_adds
        (0, 2048)
        """
        return what_if(self, checkpoint)

    def suggest(self, target_bytes: int) -> Suggestion:
        """Layers to checkpoint so that only so much is left that the tape alone keeps.

        Looked for as `Estimate.suggest` does for the peak of a whole step, but told from the report alone, as `what_if`
        is, and among the layers that have operations of their own.

        Args:
            target_bytes: the activations to get down to.

        Raises:
            ValueError: no choice gets there; the message has the best one. TypeError: no integer.
        """
        return suggest_for_tape(self, target_bytes)

    def __str__(self) -> str:
        return self.text()
