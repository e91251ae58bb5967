"""Which storages a tape reaches, and which of them something outside the tape holds as well.

A walk over everything the tape refers to (walk.py) finds what is held from outside, and so is all that can be reached
from there. Nothing is read from a device. On a tape of 10,000 nodes a report takes about a seventh of the time that
recording it took; `python scripts/bench.py report` measures it.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, compress, repeat
from operator import attrgetter, is_, itemgetter
from typing import Any
from weakref import ref

import numpy as np

from ..backend.array import Array, Shape
from ..backend.graph import Node as PendingNode
from ..backend.memory import Storage
from ..tape import Node, Tape
from ..tensor import Tensor
from .walk import Walk


@dataclass
class Reach:
    """The storages that a tape reaches, each with the number of the node that does so first, and once only:

    `values` by operands and rules, `fields` by named extras alone, `gradients` as gradients of tensors on the tape, and
    `reads` because an operation that is not computed yet will read them. `held_outside` are those among all of them
    that stay when the tape is cleared, which includes another library's memory. `windows` has the shape and type of one
    array on each.
    """

    values: dict[Storage, int]
    fields: dict[Storage, int]
    gradients: dict[Storage, int]
    reads: dict[Storage, int]
    held_outside: set[Storage]
    windows: dict[Storage, tuple[Shape, np.dtype]]


@contextmanager
def collector_paused() -> Iterator[None]:
    """Without CPython's collector, which many new objects set off: it would cost as much as a report."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def reach(tape: Tape) -> Reach:
    """What the tape reaches, in the order of Reach's fields."""
    nodes = tape.nodes
    walk = Walk()
    # By ids: a reference here would look like one from outside. The node's own references are what clear() drops.
    leaves = _leaves(nodes)
    walk.count(map(attrgetter("edges"), nodes))
    values = walk.visit(chain(map(attrgetter("grad_fn"), nodes), map(itemgetter(0), leaves)))
    first = _first_nodes(nodes, leaves)
    del leaves
    _complete(first, values, nodes, lambda node: (node.grad_fn, node.edges))
    fields = walk.visit(node.fields for node in nodes if node.fields)
    _complete(first, fields, nodes, lambda node: (node.fields,))
    gradients = _visit_gradients(walk, first)
    first.update(gradients)
    reads = _visit_pending(walk, first)
    held = [thing for kind in walk.kinds.values() for thing in kind.held_outside()]

    storages = {id(storage): storage for storage in walk.of(Storage)}
    held += [storage for storage in storages.values() if storage.borrowed]

    def by_node(keys: Iterable[int], nodes: dict[int, int]) -> dict[Storage, int]:
        return {storages[key]: nodes[key] for key in sorted(keys, key=nodes.__getitem__)}

    return Reach(
        values=by_node(values, first),
        fields=by_node(fields, first),
        gradients=by_node(gradients, gradients),
        reads=by_node(reads, reads),
        held_outside=_storages_below(held),
        windows=_windows(walk),
    )


def _visit_gradients(walk: Walk, first: dict[int, int]) -> dict[int, int]:
    """Walk the gradients of the tensors met; the ids of the storages found there, each with its tensor's node."""
    found: dict[int, int] = {}
    for tensor in [tensor for tensor in walk.of(Tensor) if tensor.grad is not None]:
        found.update(dict.fromkeys(walk.visit((tensor.grad,)), first[id(tensor._array.storage)]))
    return found


def _visit_pending(walk: Walk, first: dict[int, int]) -> dict[int, int]:
    """Walk the operations that storages wait for; the ids of the storages found, each with the waiting one's node."""
    found: dict[int, int] = {}
    for storage in [storage for storage in walk.of(Storage) if storage.node is not None]:
        found.update(dict.fromkeys(walk.visit((storage.node,), shallow=False), first[id(storage)]))
    return found


def _windows(walk: Walk) -> dict[Storage, tuple[Shape, np.dtype]]:
    """Shape and type of the first array on each storage, or else of what a pending operation reads of it."""
    found: dict[Storage, tuple[Shape, np.dtype]] = {}
    for node in walk.of(PendingNode):
        for origin, _, shape, _, dtype in node.sources:
            if type(origin) is Storage:
                found.setdefault(origin, (shape, dtype))
    arrays = walk.of(Array)[::-1]  # of several, the first one is last
    found.update(zip(map(attrgetter("storage"), arrays), map(attrgetter("shape", "dtype"), arrays), strict=True))
    return found


def _leaves(nodes: list[Node]) -> list[tuple[Tensor, int]]:
    """Each leaf among the operands, with the number of its node; once for each reference."""
    edges, numbers = _flat(list(map(attrgetter("edges"), nodes)))
    return list(compress(zip(edges, numbers, strict=True), map(is_, map(type, edges), repeat(Tensor))))


def _first_nodes(nodes: list[Node], leaves: list[tuple[Tensor, int]]) -> dict[int, int]:
    """The number of the first node that has each storage as a saved value or a leaf, by the storage's id."""
    links, numbers = _flat(list(map(attrgetter("saved"), nodes)))
    keys = list(map(id, map(ref.__call__, map(itemgetter(0), links))))
    first = dict(zip(reversed(keys), reversed(numbers), strict=True))  # of several, the first one is last
    for tensor, i in dict(reversed(leaves)).items():
        key = id(tensor._array.storage)
        first[key] = min(i, first.get(key, i))
    return first


def _flat(lists: list[Any]) -> tuple[list[Any], list[int]]:
    """The items of all lists, and the number of the list that each is in."""
    numbers: list[int] = np.repeat(np.arange(len(lists)), list(map(len, lists))).tolist()
    return list(chain.from_iterable(lists)), numbers


def _complete(first: dict[int, int], keys: list[int], nodes: list[Node], roots: Any) -> None:
    """Find the first nodes of those storages that are none of these, by a walk from each node in turn."""
    left = set(keys) - first.keys()
    walk = Walk()
    for i, node in enumerate(nodes):
        if not left:
            return
        for key in left.intersection(walk.visit(roots(node))):
            first[key] = i
            left.discard(key)


def _storages_below(roots: list[Any]) -> set[Storage]:
    """All storages that can be reached from these."""
    walk = Walk()
    walk.visit(roots, shallow=False)
    return set(walk.of(Storage))
