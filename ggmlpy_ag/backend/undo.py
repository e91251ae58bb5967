"""Undo: the state of objects as it is now, to go back to.

A snapshot keeps nothing alive that can be made again: references between values are kept as descriptions, so that
memory is freed in between exactly when it would be without a snapshot. What has died by then is made again. Nobody can
tell: whoever still referred to it would have kept it alive.
"""

from __future__ import annotations

import gc
import weakref
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import compress
from operator import is_
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from .array import Array
from .graph import Node
from .memory import Storage

_T = TypeVar("_T")

# Classes whose objects have state that a simulated step may change, each with what a report calls memory it holds.
_stateful: dict[type, str] = {Storage: "", Node: ""}
_roles: WeakKeyDictionary[type, str | None] = WeakKeyDictionary()  # of all classes that were asked about
_slot_names: WeakKeyDictionary[type, frozenset[str]] = WeakKeyDictionary()
# Restored in place, since several may refer to one of them
_CONTAINERS = {dict, list, set, deque, OrderedDict, defaultdict, Counter}


def undoable(role: str = "") -> Callable[[type[_T]], type[_T]]:
    """Decorates a class whose objects, and those of its subclasses, a simulation leaves as they were."""

    def register(kind: type[_T]) -> type[_T]:
        _stateful[kind] = role
        _roles.clear()
        return kind

    return register


def role_of(kind: type) -> str | None:
    """What `undoable` said of a class or the nearest of its bases; None where it is not registered."""
    if kind not in _roles:
        _roles[kind] = next((_stateful[base] for base in kind.__mro__ if base in _stateful), None)
    return _roles[kind]


def live_objects(wanted: Callable[[type], bool]) -> list[Any]:
    """All objects whose type is wanted; each type is asked about once."""
    things = gc.get_objects()
    kinds = list(map(type, things))
    chosen = {kind for kind in set(kinds) if wanted(kind)}
    return list(compress(things, map(chosen.__contains__, kinds)))


def attributes(thing: Any) -> dict[str, Any]:
    """What an object's slots and its dictionary hold."""
    state = {name: getattr(thing, name) for name in _slots(type(thing)) if hasattr(thing, name)}
    return {**state, **getattr(thing, "__dict__", {})}


class _Record:
    """One object: how to find it or make it again, and what it referred to."""

    __slots__ = ("kind", "link", "state", "thing")

    def __init__(self, thing: Any) -> None:
        self.kind = kind = type(thing)
        self.thing: Any = None
        self.link: Callable[[], Any] | None = None
        self.state: Any = None
        if kind is Array:
            return  # a value: an equal one does as well
        with suppress(TypeError):  # of a class without room for links
            self.link = weakref.ref(thing) if kind not in _CONTAINERS else None
        if self.link is None:
            self.thing = thing


class _Copy(NamedTuple):
    """A tuple or a list that is made again."""

    kind: type
    items: list[Any]


class Snapshot:
    """The state of these objects and of the stateful ones that they refer to."""

    def __init__(self, things: Iterable[Any]) -> None:
        self._records: dict[int, _Record] = {}  # by id, while all things still live
        self._left: list[tuple[_Record, Any]] = []
        for thing in things:
            self._described(thing)
        self._enter()

    def describe(self, value: Any) -> Callable[[], Any]:
        """What gives the value, in the state that it has now, once everything has been restored."""
        described = self._described(value)
        self._enter()
        return lambda: _resolved(described)

    def _enter(self) -> None:
        while self._left:
            record, thing = self._left.pop()
            record.state = self._state(record.kind, thing)

    def _described(self, value: Any) -> Any:
        """The value itself, or the description of one that holds state."""
        kind = type(value)
        if kind is tuple:
            items = [self._described(item) for item in value]
            return _Copy(tuple, items) if any(map(_is_description, items)) else value
        if kind is not Array and kind not in _CONTAINERS and role_of(kind) is None:
            return value
        record = self._records.get(id(value))
        if record is None:
            record = self._records[id(value)] = _Record(value)
            self._left.append((record, value))
        return record

    def _state(self, kind: type, thing: Any) -> Any:
        if issubclass(kind, dict):
            return [(self._described(key), self._described(value)) for key, value in thing.items()]
        if kind in _CONTAINERS:
            return list(thing) if _plain(thing) else [self._described(item) for item in thing]
        state = attributes(thing)
        if kind is Node:  # its list is its own, and would hold the operands
            sources = _Copy(list, [self._described(source) for source in state.pop("sources")])
            return {**state, "sources": sources}
        return {name: self._described(value) for name, value in state.items()}

    def restore(self) -> dict[int, Any]:
        """Give every object the state that it had; returns the objects by the ids that they had."""
        records = list(self._records.values())
        for record in records:
            if record.link is not None:
                record.thing = record.link()
            if record.thing is None:
                record.thing = object.__new__(record.kind)
        for record in records:
            _fill(record.thing, record.kind, record.state)
        for record in records:  # a weak link, which one made again has no longer
            if record.kind is Storage and record.thing.node is not None:
                record.thing.node.storage = weakref.ref(record.thing)
        return {key: record.thing for key, record in self._records.items()}


def _is_description(value: Any) -> bool:
    return type(value) in (_Record, _Copy)


def _plain(items: Iterable[Any]) -> bool:
    """Whether none of these holds state, told by their types: there may be many."""
    return not any(
        kind is tuple or kind is Array or kind in _CONTAINERS or role_of(kind) is not None
        for kind in set(map(type, items))
    )


def _resolved(value: Any) -> Any:
    if type(value) is _Record:
        return value.thing
    if type(value) is _Copy:
        return value.kind([_resolved(item) for item in value.items])
    return value


def _fill(thing: Any, kind: type, state: Any) -> None:
    if issubclass(kind, dict):
        _refill(thing, [(_resolved(key), _resolved(value)) for key, value in state])
    elif kind in _CONTAINERS:
        items = [_resolved(item) for item in state]
        if len(thing) != len(items) or not all(map(is_, thing, items)):
            thing.clear()
            (thing.update if kind is set else thing.extend)(items)
    else:
        slots = _slots(kind)
        for name in slots & state.keys():
            object.__setattr__(thing, name, _resolved(state[name]))
        if hasattr(thing, "__dict__"):
            _refill(vars(thing), [(name, _resolved(value)) for name, value in state.items() if name not in slots])


def _refill(thing: dict[Any, Any], items: list[tuple[Any, Any]]) -> None:
    """Give a dictionary these items; one that has them is left alone, since somebody may be looking at it."""
    same = len(thing) == len(items) and all(
        key is name and value is wanted for (key, value), (name, wanted) in zip(thing.items(), items, strict=True)
    )
    if not same:
        thing.clear()
        for key, value in items:
            thing[key] = value


def _slots(kind: type) -> frozenset[str]:
    if kind not in _slot_names:
        names = [vars(base).get("__slots__", ()) for base in kind.__mro__]
        flat = [name for some in names for name in ([some] if isinstance(some, str) else some)]
        _slot_names[kind] = frozenset(flat) - {"__weakref__", "__dict__"}
    return _slot_names[kind]
