"""A walk over everything that some objects refer to, with a count of the references to each.

The method is that of CPython's cycle collector: count for each object the references found on the way, and compare
with its reference count. What has more is held from outside.

Most objects need no books: the one with a single reference has been found through it, and will not be met again. The
walk goes level by level and leaves the work on each to C (gc.get_referents, map, compress).
"""

from __future__ import annotations

import gc
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain, compress, repeat
from operator import attrgetter, eq, ge, is_, not_, sub
from types import FunctionType, ModuleType
from typing import Any

from ..backend.array import Array
from ..backend.graph import Node as PendingNode
from ..backend.memory import Storage
from ..tape import Node
from ..tensor import Tensor

_LIBRARY = __name__.partition(".")[0] + "."

# Not entered: they outlive the tape whatever it holds.
_LEAVES = (type, ModuleType, Node)

# The attributes through which our own objects and functions refer to others; and the type of these where it is always
# the same
_Attributes = dict[type, tuple[tuple[str, "type | None"], ...]]
_ATTRIBUTES: _Attributes = {
    FunctionType: (("__closure__", tuple), ("__defaults__", None), ("__kwdefaults__", None)),
    Array: (("storage", Storage),),
    PendingNode: (("sources", list),),
    Storage: (("node", None),),
    Tensor: (("_array", Array), ("grad", None)),
}
_SHALLOW: _Attributes = {**_ATTRIBUTES, Storage: (), Tensor: (("_array", Array),)}


# What sys.getrefcount says of a thing in one container of ours, when there is one more reference to it
_SOLE = next(map(sys.getrefcount, [object()])) + 1


class _Kind:
    """The things of one type that a walk has met."""

    __slots__ = ("found", "shared", "sole")

    def __init__(self) -> None:
        self.sole: list[list[Any]] = []  # those with a single reference
        self.shared: dict[int, Any] = {}  # those with several, by id
        self.found: Counter[int] = Counter()  # the references seen to each of these

    def add(self, things: list[Any]) -> list[Any]:
        """Count a reference to each of these things; returns those that are new.

        Nobody else may refer to them now but the list and what the walk has entered.
        """
        counts = list(map(sys.getrefcount, things))
        if counts.count(_SOLE) == len(things):
            self.sole.append(things)
            return things
        single = list(map(eq, counts, repeat(_SOLE)))
        sole = list(compress(things, single))
        self.sole.append(sole)
        things = list(compress(things, map(not_, single)))
        keys = list(map(id, things))
        self.found.update(keys)
        new = dict(zip(keys, things, strict=True))
        for key in new.keys() & self.shared.keys():
            del new[key]
        self.shared.update(new)
        return [*sole, *new.values()]

    def all(self) -> list[Any]:
        return [*chain.from_iterable(self.sole), *self.shared.values()]

    def held_outside(self) -> list[Any]:
        """Those with more references than were seen."""
        more = map(sub, map(sys.getrefcount, self.shared.values()), self.found.values())  # in the same order
        held = list(map(ge, more, repeat(_SOLE)))  # before anything else refers to them
        return list(compress(self.shared.values(), held))


class Walk:
    """What has been met so far."""

    def __init__(self) -> None:
        self.kinds: defaultdict[type, _Kind] = defaultdict(_Kind)

    def of(self, kind: type) -> list[Any]:
        """All things of this type that were met."""
        return self.kinds[kind].all()

    def count(self, roots: Iterable[Any]) -> None:
        """Count these references without entering what they lead to."""
        for kind, things in _by_type(roots).items():
            self.kinds[kind].add(things)

    def visit(self, roots: Iterable[Any], shallow: bool = True) -> list[int]:
        """Walk from these references; returns the ids of the storages met for the first time.

        A shallow walk enters neither the gradient of a tensor nor the operation that a storage waits for.
        """
        attributes = _SHALLOW if shallow else _ATTRIBUTES
        met: list[int] = []
        level = _by_type(roots)
        while level:
            groups, level = level, {}
            for kind, things in groups.items():
                new = self.kinds[kind].add(things)
                if kind is Storage:
                    met += map(id, new)
                for found in _referents(kind, new, attributes):
                    for other, things in found.items():
                        if other in level:
                            level[other] += things
                        else:
                            level[other] = things
        return met


def _referents(kind: type, things: list[Any], attributes: _Attributes) -> Iterator[dict[type, list[Any]]]:
    """What these refer to, once for each reference, by type."""
    if kind is FunctionType:
        things, foreign = _parted(things)
        yield _by_type(chain.from_iterable(map(_referents_of_function, foreign)))
    if kind not in attributes:
        yield _by_type(gc.get_referents(*things))
        return
    for name, target in attributes[kind]:
        values = map(attrgetter(name), things)
        yield _by_type(values) if target is None else {target: list(filter(None, values))}


def _parted(functions: list[Any]) -> tuple[list[Any], list[Any]]:
    """Functions of this library, which have no attributes of their own, and all others."""
    modules = list(map(attrgetter("__module__"), functions))
    ours = [module for module in set(modules) if isinstance(module, str) and module.startswith(_LIBRARY)]
    own = list(map(ours.__contains__, modules))
    return list(compress(functions, own)), list(compress(functions, map(not_, own)))


def _referents_of_function(function: Any) -> list[Any]:
    """All but its globals. (Asking for its `__dict__` would make one.)"""
    outer = (function.__globals__, function.__builtins__)
    return [thing for thing in gc.get_referents(function) if thing is not outer[0] and thing is not outer[1]]


def _by_type(things: Iterable[Any]) -> dict[type, list[Any]]:
    """Those that are to be entered, by their type.

    To CPython's collector, numbers, text, None and tuples of them refer to nothing.
    """
    things = list(filter(gc.is_tracked, things))
    kinds = list(map(type, things))
    different = [kind for kind in dict.fromkeys(kinds) if not issubclass(kind, _LEAVES)]
    if len(different) == 1 and kinds.count(different[0]) == len(kinds):
        return {different[0]: things}
    return {kind: list(compress(things, map(is_, kinds, repeat(kind)))) for kind in different}
