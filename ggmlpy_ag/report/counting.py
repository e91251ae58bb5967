"""From a tape to its report."""

from __future__ import annotations

from collections import Counter
from functools import partial
from itertools import repeat
from operator import attrgetter, is_, itemgetter
from weakref import ref

from ..backend.array import dtype_name
from ..backend.memory import Storage
from ..tape import Tape
from .edges import edges_between
from .reach import reach
from .storages import NO_LAYER, THE_MODEL, UNTRACED, StorageRow
from .tape_report import TapeReport


def counted(tape: Tape, rule: str, links: list[ref[Storage]] | None = None) -> TapeReport:
    """The report; `links` gets a weak link to the storage of each of its rows."""
    found = reach(tape)
    held = found.held_outside
    operands = _role_operands(tape) if rule == "role" else held
    parts = ["operands" if storage in operands else "activations" for storage in found.values]
    parts += ["operands" if storage in operands else "fields" for storage in found.fields]
    # the gradient of a leaf that only the tape holds goes with it, and so does what only a pending value reads
    parts += ["gradients" if storage in held else "activations" for storage in found.gradients]
    reads = {storage: i for storage, i in found.reads.items() if storage not in held}
    parts += ["activations"] * len(reads)
    groups = (found.values, found.fields, found.gradients, reads)
    storages = [storage for group in groups for storage in group]
    numbers = [number for group in groups for number in group.values()]
    if links is not None:
        links += map(ref, storages)
    windows = list(map(found.windows.__getitem__, storages))

    ops = list(map(attrgetter("op"), tape.nodes))
    layers = [NO_LAYER if layer is None else layer or THE_MODEL for layer in map(attrgetter("layer"), tape.nodes)]
    lines = [line or UNTRACED for line in map(attrgetter("line"), tape.nodes)]
    columns = {
        "part": parts,
        "bytes": map(attrgetter("block_bytes"), storages),
        "nbytes": map(attrgetter("nbytes"), storages),
        "device": map(attrgetter("device.name"), storages),
        "dtype": map(dtype_name, map(itemgetter(1), windows)),
        "shape": map(itemgetter(0), windows),
        "made_by": map(attrgetter("label"), storages),
        "op": map(ops.__getitem__, numbers),
        "node": numbers,
        "layer": map(layers.__getitem__, numbers),
        "line": map(lines.__getitem__, numbers),
        "pending": map(is_, map(attrgetter("block"), storages), repeat(None)),
        "holders": [""] * len(storages),
    }
    # a column at a time, and past the Python call that a named tuple makes of each row: tapes may have 100,000 nodes
    rows = map(partial(tuple.__new__, StorageRow), zip(*map(columns.__getitem__, StorageRow._fields), strict=True))
    names = {"op": Counter(ops), "layer": Counter(layers), "line": Counter(lines)}
    return TapeReport(len(tape), tuple(rows), rule, names, edges_between(tape.nodes, layers, lines, storages))


def _role_operands(tape: Tape) -> set[Storage]:
    return {storage for node in tape.nodes for link in node.operands if (storage := link()) is not None}
