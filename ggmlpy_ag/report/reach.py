"""Which storages a tape reaches, and which of them something outside the tape holds as well.

The method is that of CPython's cycle collector: walk everything the tape refers to, count for each object the
references found on the way, and compare with its reference count. What has more is held from outside, and so is all
that can be reached from it. Nothing is read from a device.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import CellType, FunctionType, MethodType
from typing import Any

from ..backend.array import Array
from ..backend.memory import Storage
from ..tape import Node, Tape
from ..tensor import Tensor

_LEAVES = (str, bytes, int, float, complex, bool, type(None), type)


def _children(thing: Any) -> Iterator[Any]:
    """The objects a thing refers to, one for each reference."""
    kind = type(thing)
    if kind is Tensor:
        yield thing._array
        yield thing.grad
    elif kind is Array:
        yield thing.storage
    elif kind is FunctionType:
        yield thing.__closure__
        yield thing.__defaults__
        yield thing.__kwdefaults__
    elif kind is CellType:
        try:
            yield thing.cell_contents
        except ValueError:  # never bound
            return
    elif kind in (tuple, list, set, frozenset):
        yield from thing
    elif kind is dict:
        yield from thing.keys()
        yield from thing.values()
    elif kind is MethodType:
        yield thing.__self__
        yield thing.__func__
    elif kind is functools.partial:
        yield from (thing.func, thing.args, thing.keywords)
    elif kind is not Storage and hasattr(thing, "__dict__"):
        yield vars(thing)


@dataclass
class Reach:
    """Storages that a tape reaches: the first node that does, those that only fields do, and the gradients of its tensors."""

    first_node: dict[Storage, int]
    from_fields: set[Storage]
    gradients: set[Storage]
    held_outside: set[Storage]


class _Walk:
    def __init__(self) -> None:
        self.things: dict[int, Any] = {}
        self.found: dict[int, int] = {}  # references seen, by id

    def visit(self, roots: Iterable[Any], skip_gradients: bool) -> list[int]:
        """Walk from these references; returns the ids of the storages met for the first time."""
        met: list[int] = []
        stack = list(roots)
        while stack:
            thing = stack.pop()
            if isinstance(thing, _LEAVES) or type(thing) is Node:
                continue
            key = id(thing)
            self.found[key] = self.found.get(key, 0) + 1
            if key in self.things:
                continue
            self.things[key] = thing
            if type(thing) is Storage:
                met.append(key)
            elif type(thing) is Tensor and skip_gradients:
                stack.append(thing._array)
            else:
                stack.extend(_children(thing))
        return met


def reach(tape: Tape) -> Reach:
    """What the tape reaches: by operands and rules first, then by fields, then as gradients of what it holds."""
    walk = _Walk()
    first_node: dict[int, int] = {}  # by id: a reference here would look like one from outside
    for i, node in enumerate(tape.nodes):
        # the node's own references are what clear() drops, whoever holds the node
        first_node.update(dict.fromkeys(walk.visit((node.grad_fn, node.edges), skip_gradients=True), i))
    by_rules = len(first_node)
    for i, node in enumerate(tape.nodes):
        first_node.update(dict.fromkeys(walk.visit((node.fields,), skip_gradients=True), i))
    tensors = [key for key, thing in walk.things.items() if type(thing) is Tensor]
    gradients = [g for key in tensors for g in walk.visit((walk.things[key].grad,), skip_gradients=False)]
    outside = _held_outside(walk)
    things = walk.things
    return Reach(
        first_node={things[key]: i for key, i in first_node.items()},
        from_fields={things[key] for key in list(first_node)[by_rules:]},
        gradients={things[key] for key in gradients},
        held_outside={thing for thing in _reachable(outside) if type(thing) is Storage},
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
        if isinstance(thing, _LEAVES) or type(thing) is Node or id(thing) in seen:
            continue
        seen.add(id(thing))
        yield thing
        stack.extend(_children(thing))
