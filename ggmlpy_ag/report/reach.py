"""Which storages a tape reaches, and which of them something outside the tape holds as well.

The method is that of CPython's cycle collector: walk everything the tape refers to, count for each object the
references found on the way, and compare with its reference count. What has more is held from outside, and so is all
that can be reached from it. Nothing is read from a device.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

from ..backend.array import Array
from ..backend.graph import Node as PendingNode
from ..backend.memory import Storage
from ..tape import Node, Tape
from ..tensor import Tensor

# Not entered: they hold no tensors, or (modules, classes, a tape's nodes) they outlive the tape whatever it holds.
_LEAVES = (str, bytes, int, float, complex, type(None), type, ModuleType, Node)


def _children(thing: Any) -> Sequence[Any]:
    """The objects a thing refers to, one for each reference."""
    kind = type(thing)
    if kind is Tensor:
        return (thing._array, thing.grad)
    if kind is Array:
        return (thing.storage,)
    if kind is Storage:
        return (thing.node,)
    if kind is PendingNode:
        return (thing.sources,)
    if kind is FunctionType:  # all but its globals
        return (thing.__closure__, thing.__defaults__, thing.__kwdefaults__)
    return gc.get_referents(thing)


@dataclass
class Reach:
    """The storages that a tape reaches, each with the number of the node that does so first, and once only:

    `values` by operands and rules, `fields` by named extras alone, `gradients` as gradients of tensors on the tape, and
    `reads` because an operation that is not computed yet will read them. `held_outside` are those among all of them
    that stay when the tape is cleared; the memory of another library is that library's to free, and counts as such.
    """

    values: dict[Storage, int]
    fields: dict[Storage, int]
    gradients: dict[Storage, int]
    reads: dict[Storage, int]
    held_outside: set[Storage]


class _Walk:
    def __init__(self) -> None:
        self.things: dict[int, Any] = {}
        self.found: dict[int, int] = {}  # references seen, by id
        self.first: dict[int, int] = {}  # the tape node that a thing was first met from, by id

    def visit(self, roots: Iterable[Any], node: int, shallow: bool = True) -> list[int]:
        """Walk from these references of a node; returns the ids of the storages met for the first time.

        A shallow walk enters neither the gradient of a tensor nor the operation that a storage waits for.
        """
        met: list[int] = []
        stack = list(roots)
        while stack:
            thing = stack.pop()
            if isinstance(thing, _LEAVES):
                continue
            key = id(thing)
            self.found[key] = self.found.get(key, 0) + 1
            if key in self.things:
                continue
            self.things[key] = thing
            self.first[key] = node
            if type(thing) is Storage:
                met.append(key)
            if not shallow or type(thing) not in (Storage, Tensor):
                stack.extend(_children(thing))
            elif type(thing) is Tensor:
                stack.append(thing._array)
        return met

    def known(self, kind: type) -> list[tuple[int, int]]:
        """The ids of all things of a kind, each with the node it was first met from."""
        return [(key, self.first[key]) for key, thing in self.things.items() if type(thing) is kind]


def reach(tape: Tape) -> Reach:
    """What the tape reaches, in the order of Reach's fields."""
    walk = _Walk()
    things = walk.things
    # By ids: a reference here would look like one from outside. The node's own references are what clear() drops.
    values = {k: i for i, node in enumerate(tape.nodes) for k in walk.visit((node.grad_fn, node.edges), i)}
    fields = {k: i for i, node in enumerate(tape.nodes) for k in walk.visit((node.fields,), i)}
    gradients = {k: i for t, i in walk.known(Tensor) for k in walk.visit((things[t].grad,), i)}
    reads = {k: i for s, i in walk.known(Storage) for k in walk.visit((things[s].node,), i, shallow=False)}
    outside = _held_outside(walk)
    borrowed = [things[s] for s, _ in walk.known(Storage) if things[s].borrowed]

    def storages(part: dict[int, int]) -> dict[Storage, int]:
        return {things[k]: i for k, i in part.items()}

    return Reach(
        values=storages(values),
        fields=storages(fields),
        gradients=storages(gradients),
        reads=storages(reads),
        held_outside={thing for thing in _reachable([*outside, *borrowed]) if type(thing) is Storage},
    )


def _held_outside(walk: _Walk) -> list[Any]:
    """Things with more references than the walk found."""
    probe = object.__new__(Tensor)  # known to this walk alone: what its count shows is this function's own share
    walk.things[id(probe)] = probe
    key = id(probe)
    del probe
    counts = {k: sys.getrefcount(walk.things[k]) for k in walk.things}
    own = counts.pop(key)
    del walk.things[key]
    return [walk.things[k] for k, n in counts.items() if n - own > walk.found[k]]


def _reachable(roots: list[Any]) -> Iterator[Any]:
    seen: set[int] = set()
    stack = list(roots)
    while stack:
        thing = stack.pop()
        if isinstance(thing, _LEAVES) or id(thing) in seen:
            continue
        seen.add(id(thing))
        yield thing
        stack.extend(_children(thing))
