"""Which storages a tape reaches, and which of them something outside the tape holds as well.

The method is that of CPython's cycle collector: walk everything the tape refers to, count for each object the
references found on the way, and compare with its reference count. What has more is held from outside, and so is all
that can be reached from it. Nothing is read from a device.

The walk goes level by level and leaves the work on each to C (gc.get_referents, map, Counter): a node costs it about
3 us, a twentieth of what recording one costs (`python scripts/bench.py report`).
"""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import chain, compress
from operator import attrgetter, is_
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from ..backend.array import Array, Shape
from ..backend.graph import Node as PendingNode
from ..backend.memory import Storage
from ..tape import Node, Tape
from ..tensor import Tensor

# Not entered: they outlive the tape whatever it holds.
_LEAVES = (type, ModuleType, Node)

# The attributes through which our own objects, and functions (all but their globals), refer to others
_ATTRIBUTES = {
    FunctionType: ("__closure__", "__defaults__", "__kwdefaults__"),
    Array: ("storage",),
    PendingNode: ("sources",),
    Storage: ("node",),
    Tensor: ("_array", "grad"),
}
_SHALLOW = {**_ATTRIBUTES, Storage: (), Tensor: ("_array",)}


@dataclass
class Reach:
    """The storages that a tape reaches, each with the number of the node that does so first, and once only:

    `values` by operands and rules, `fields` by named extras alone, `gradients` as gradients of tensors on the tape, and
    `reads` because an operation that is not computed yet will read them. `held_outside` are those among all of them
    that stay when the tape is cleared, which includes another library's memory. `arrays` has one window on each.
    """

    values: dict[Storage, int]
    fields: dict[Storage, int]
    gradients: dict[Storage, int]
    reads: dict[Storage, int]
    held_outside: set[Storage]
    windows: dict[Storage, tuple[Shape, np.dtype]]


class _Walk:
    def __init__(self) -> None:
        self.things: dict[int, Any] = {}
        self.found: Counter[int] = Counter()  # references seen, by id
        self.known: dict[type, list[int]] = {Tensor: [], Array: [], PendingNode: [], Storage: []}  # ids of each kind

    def visit(self, roots: Iterable[Any], shallow: bool = True) -> list[int]:
        """Walk from these references; returns the ids of the storages met for the first time.

        A shallow walk enters neither the gradient of a tensor nor the operation that a storage waits for.
        """
        met: list[int] = []
        level = _tracked(roots)
        while level:
            keys = list(map(id, level))
            self.found.update(keys)
            new = dict(zip(keys, level, strict=True))
            for key in new.keys() & self.things.keys():
                del new[key]
            self.things.update(new)
            kinds = _by_kind(list(new.values()))
            for kind, known in self.known.items():
                known += map(id, kinds.get(kind, ()))
            met += map(id, kinds.get(Storage, ()))
            level = _referents(kinds, _SHALLOW if shallow else _ATTRIBUTES)
        return met


def _tracked(things: Iterable[Any]) -> list[Any]:
    """Those that may refer to others: to CPython's collector, numbers, text, None and tuples of them do not."""
    return list(filter(gc.is_tracked, things))


def _by_kind(things: list[Any]) -> dict[type, list[Any]]:
    kinds = list(map(type, things))
    found = {}
    for kind in set(kinds):
        if not issubclass(kind, _LEAVES):
            found[kind] = things if len(kinds) == 1 else list(compress(things, map(partial(is_, kind), kinds)))
    return found


def _referents(kinds: dict[type, list[Any]], attributes: dict[type, tuple[str, ...]]) -> list[Any]:
    """The objects that these refer to, one for each reference."""
    found: list[Any] = []
    for kind, things in kinds.items():
        if kind in attributes:
            for name in attributes[kind]:
                found += _tracked(map(attrgetter(name), things))
        else:
            found += _tracked(gc.get_referents(*things))
    return found


def reach(tape: Tape) -> Reach:
    """What the tape reaches, in the order of Reach's fields."""
    walk = _Walk()
    things = walk.things
    # By ids: a reference here would look like one from outside. The node's own references are what clear() drops.
    nodes = tape.nodes
    values = walk.visit(chain(map(attrgetter("grad_fn"), nodes), map(attrgetter("edges"), nodes)))
    first = _first_nodes(nodes)
    _complete(first, values, nodes, lambda node: (node.grad_fn, node.edges))
    fields = walk.visit(node.fields for node in nodes if node.fields)
    _complete(first, fields, nodes, lambda node: (node.fields,))
    gradients = {}
    for key in [key for key in walk.known[Tensor] if things[key].grad is not None]:
        node = first[id(things[key]._array.storage)]
        gradients.update(dict.fromkeys(walk.visit((things[key].grad,)), node))
    first.update(gradients)
    reads = {}
    for key in [key for key in walk.known[Storage] if things[key].node is not None]:
        reads.update(dict.fromkeys(walk.visit((things[key].node,), shallow=False), first[key]))
    outside = _held_outside(walk)
    borrowed = [things[key] for key in walk.known[Storage] if things[key].borrowed]

    def storages(keys: Iterable[int], nodes: dict[int, int]) -> dict[Storage, int]:
        return {things[key]: nodes[key] for key in sorted(keys, key=nodes.__getitem__)}

    return Reach(
        values=storages(values, first),
        fields=storages(fields, first),
        gradients=storages(gradients, gradients),
        reads=storages(reads, reads),
        held_outside=_storages_below([*outside, *borrowed]),
        windows=_windows(walk),
    )


def _windows(walk: _Walk) -> dict[Storage, tuple[Shape, np.dtype]]:
    """Shape and type of the first array on each storage, or else of what a pending operation reads of it."""
    found: dict[Storage, tuple[Shape, np.dtype]] = {}
    for key in walk.known[PendingNode]:
        for origin, _, shape, _, dtype in walk.things[key].sources:
            if type(origin) is Storage:
                found.setdefault(origin, (shape, dtype))
    for key in reversed(walk.known[Array]):
        array = walk.things[key]
        found[array.storage] = array.shape, array.dtype
    return found


def _first_nodes(nodes: list[Node]) -> dict[int, int]:
    """The number of the first node that has each storage as a saved value or a leaf, by the storage's id."""
    saved = [(id(link()), i) for i, node in enumerate(nodes) for link, _, _ in node.saved]
    leaves = [
        (id(edge._array.storage), i) for i, node in enumerate(nodes) for edge in node.edges if type(edge) is Tensor
    ]
    first = dict(reversed(saved))  # of several, the first one is last
    for key, i in leaves:
        first[key] = min(i, first.get(key, i))
    return first


def _complete(first: dict[int, int], keys: list[int], nodes: list[Node], roots: Any) -> None:
    """Find the first nodes of those storages that are none of these, by a walk from each node in turn."""
    left = {key for key in keys if key not in first}
    walk = _Walk()
    for i, node in enumerate(nodes):
        if not left:
            return
        for key in left.intersection(walk.visit(roots(node))):
            first[key] = i
            left.discard(key)


def _held_outside(walk: _Walk) -> list[Any]:
    """Things with more references than the walk found."""
    probe = object.__new__(Tensor)  # known to this walk alone: what its count shows is this function's own share
    key = id(probe)
    walk.things[key] = probe
    del probe
    counts = dict(zip(walk.things, map(sys.getrefcount, walk.things.values()), strict=True))
    own = counts.pop(key)
    del walk.things[key]
    found = walk.found
    return [walk.things[key] for key, n in counts.items() if n - own > found[key]]


def _storages_below(roots: list[Any]) -> set[Storage]:
    """All storages that can be reached from these."""
    walk = _Walk()
    return {walk.things[key] for key in walk.visit(roots, shallow=False)}
