"""Names for what is on the heap: variables, global variables, attributes, and the way from there, in words."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Sequence
from types import CellType, FrameType, FunctionType
from typing import Any, NamedTuple

from ..backend.array import Array
from ..backend.graph import Node as PendingNode
from ..backend.memory import Storage
from ..tape import Node, in_library
from ..tensor import Tensor
from .heap import SUSPENDED, Heap, Variable, attributes, captured_as, key_of, namespace, own_dict, place, variables
from .recorder import Frame
from .source import Sources

MAX_STEPS = 12  # from an object up to a name
MAX_THINGS = 2000  # met on the way
_GROWING = (list, dict, set, deque)
# What a tensor's own references do not name: the way up to an owner does not lead through these.
_NO_WAY = (Node, PendingNode, Tensor, Array, Storage)


class Named(NamedTuple):
    """A name with the words around it: "variable " "losses[3]" " in main, train.py:41"."""

    kind: str
    head: str
    name: str
    tail: str
    line: str = ""  # "file:line"

    def at(self, label: str) -> Named:
        """A part of it."""
        return self._replace(name=self.name + label)

    def __str__(self) -> str:
        return self.head + self.name + self.tail


class Names:
    """Names what is on a heap, by its objects' numbers there."""

    def __init__(self, heap: Heap) -> None:
        self._heap = heap
        self._sources = Sources()
        self.stack: Sequence[Frame] = heap.stack  # to choose among the lines that write to a name
        self._places: dict[int, Named | None] = {}

    # ------------------------------------------------------------ names to begin with

    def variable(self, variable: Variable, value: int) -> Named:
        """A variable of a running function, at the line that sets it or puts something into it."""
        name, code, now = variable
        line = self._sources.of_variable(code, name, self._grows(value), now) or now
        where = f"{code.co_filename}:{line}"
        return Named("variable", "variable ", name, f" in {code.co_name}, {short(where)}", where)

    def global_variables(self, module: int, value: int) -> list[Named]:
        """The global variables, of the module whose namespace this is, that have this value."""
        names, thing = self._heap.things[module], self._heap.things[value]
        file = str(names.get("__file__"))
        found = []
        for name in [name for name, other in names.items() if other is thing]:
            line = self._sources.of_global(file, name, self._grows(value), self.stack)
            where = f"{file}:{line}" if line else ""
            found.append(Named("global", "global variable ", name, f" of {namespace(names)}" + _comma(where), where))
        return found

    def attributes(self, owner: int, path: list[int]) -> list[Named]:
        """The attributes of an object through which it holds what is at the end of the path, with its own place.

        In a tree of modules they are attributes of the outermost: "layers.0.cache of Net".
        """
        things = self._heap.things
        thing = things[owner]
        rest = path[1:] if own_dict(thing) is things[path[0]] else path
        top, way = self.outermost(owner)
        found = []
        for name in attributes(thing, things[rest[0]]):
            kinds = (kind for kind in ("parameter", "buffer") if name in own_dict(thing).get(f"_{kind}s", ()))
            kind = next(kinds, "attribute")
            where = self._line_of_attribute(thing, name, rest[0]) if kind == "attribute" else ""
            tail = f" of {type(things[top]).__qualname__}" + _comma(where) + in_brackets(self.place(top))
            found.append(self.follow(Named(kind, f"{kind} ", f"{way}.{name}".lstrip("."), tail, where), rest))
        return found

    def class_attribute(self, owner: int, path: list[int]) -> Named:
        """An attribute of a class: the path begins with its namespace."""
        kind = self._heap.things[owner]
        name = key_of(self._heap.things[path[0]], self._heap.things[path[1]])
        named = Named("class", "class attribute ", f"{kind.__qualname__}.{name}", f" of {kind.__module__}")
        return self.follow(named, path[1:])

    def tensor(self, key: int) -> str:
        """A tensor's own name: the parameter that it is, its variable, or else its shape."""
        things, tensor = self._heap.things, self._heap.things[key]
        for owner, name in self._owners(key, "_parameters"):
            top, way = self.outermost(owner)
            return f"{way}.{name}".lstrip(".") + f" of {type(things[top]).__qualname__}"
        for variable in self._heap.variables(key):
            return f"{variable.name} in {variable.code.co_name}"
        for other in self._heap.referrers(key):
            if (module := namespace(things[other])) is not None:
                return f"{key_of(things[other], tensor)} of {module}"
        return f"a tensor of shape {tensor.shape}"

    def outermost(self, module: int) -> tuple[int, str]:
        """The root of the tree of nn.Modules that an object is in, and its path there, "" for the root."""
        way: list[str] = []
        seen = {module}
        while True:
            above = next(((o, name) for o, name in self._owners(module, "_modules") if o not in seen), None)
            if above is None:
                return module, ".".join(reversed(way))
            module = above[0]
            seen.add(module)
            way.append(above[1])

    def _owners(self, key: int, listed: str) -> list[tuple[int, str]]:
        """The modules that list this as one of theirs, and by what name. (Module itself is on a floor above.)"""
        heap = self._heap
        found = []
        for owner in heap.owners(key):
            own = own_dict(heap.things[owner])
            names = own.get(listed)
            if isinstance(names, dict):
                found += [(owner, name) for name in names if own.get(name) is heap.things[key]]
        return found

    # ------------------------------------------------------------ the way from a name

    def place(self, start: int) -> Named | None:
        """The closest name that an object can be reached by, and the way from there to it."""
        if start not in self._places:
            self._places[start] = self._find(start)
        return self._places[start]

    def _find(self, start: int) -> Named | None:
        heap = self._heap
        below = {start: 0}
        level = [start]
        for _ in range(MAX_STEPS):
            for key in level:
                if found := heap.variables(key):  # rather the user's own, and not that of a method
                    best = min(found, key=lambda v: (in_library(v.code.co_filename), v.name == "self"))
                    return self.follow(self.variable(best, key), path_down(key, below))
            heap.prepare(level)
            above = []
            for key in level:
                for other in heap.referrers(key):
                    thing = heap.things[other]
                    if namespace(thing) is not None:
                        return self.follow(self.global_variables(other, key)[0], path_down(key, below))
                    if isinstance(thing, type):
                        if type(heap.things[key]) is dict:
                            return self.class_attribute(other, path_down(key, below))
                        continue
                    if other not in below and type(thing) not in _NO_WAY:
                        below[other] = key
                        above.append(other)
            level = above
            if len(below) > MAX_THINGS:
                break
        return None

    def follow(self, named: Named | None, path: list[int]) -> Named:
        """The name of what is at the end of a path, when the first on it is `named`, or has no name."""
        named = named or Named("unnamed", "", "", "")
        things = self._heap.things
        i = 0
        while i + 1 < len(path):
            owner, value = things[path[i]], things[path[i + 1]]
            below = things[path[i + 2]] if i + 2 < len(path) else None
            step = 1
            if type(owner) in (Tensor, Array):
                break
            if type(owner) is CellType or isinstance(value, FrameType):  # a frame names its variables itself
                pass
            elif type(owner) is FunctionType and below is not None:
                named, step = self._captured(named, owner, value, path[i + 2 :]), 2
            elif isinstance(owner, FrameType) or type(owner) in SUSPENDED:
                copied = below is not None and type(value) is dict  # the frame's own copy of its variables
                named, step = self._of_frame(named, owner, path[i + 1 + copied]), 1 + copied
            elif isinstance(owner, BaseException) and owner.__traceback__ is value:
                named = Named("unnamed", "the traceback of ", type(owner).__name__, in_brackets(named), named.line)
            elif type(owner).__name__ == "traceback":
                pass
            elif below is not None and own_dict(owner) is value:
                named, step = named.at(f".{key_of(value, below)}"), 2
            elif found := attributes(owner, value):
                named = named.at(f".{found[0]}")
            else:
                named = named.at(place(owner, value))
            i += step
        return named

    def _captured(self, named: Named, function: FunctionType, through: Any, rest: list[int]) -> Named:
        """What a function keeps in its closure, its defaults or its attributes."""
        value = self._heap.things[rest[0]]
        if own_dict(function) is through:
            return named.at(f".{key_of(through, value)}")
        name = captured_as(function, through, value)
        if named.kind == "rule":  # of an operation: the rest of it is said already
            return named.at(f".{name}" if named.name else name)
        code = function.__code__
        closure = through is function.__closure__
        kept = rest[1] if closure and len(rest) > 1 else rest[0]
        line = self._sources.of_variable(code, name, self._grows(kept), outer=closure) or code.co_firstlineno
        where = f"{code.co_filename}:{line}"
        tail = f"{' captured by' if closure else ' of'} {function.__qualname__}, {short(where)}"
        if named.name != function.__name__:  # beside the function's own name, it is told where that is kept
            tail += in_brackets(named)
        kind, head = ("captured", "variable ") if closure else ("default", "default argument ")
        return Named(kind, head, name, tail, where)

    def _of_frame(self, named: Named, owner: Any, value: int) -> Named:
        """A variable of a function that has ended but is kept, by a traceback as a rule, or that is suspended."""
        frame = getattr(owner, SUSPENDED[type(owner)]) if type(owner) in SUSPENDED else owner
        thing = self._heap.things[value]
        name = next((name for name, other in variables(frame) if other is thing), "(unnamed)")  # as a loop's own list
        found = self.variable(Variable(name, frame.f_code, frame.f_lineno), value)
        keeper = str(named) or ("a traceback" if frame is owner else "a suspended function")
        return found._replace(tail=f"{found.tail}, kept by {keeper}")

    def _line_of_attribute(self, owner: Any, name: str, value: int) -> str:
        """Where the file of the object's class, or that of the running function, writes to an attribute, if there."""
        kind = type(owner)
        module = sys.modules.get(kind.__module__)
        for file in [str(getattr(module, "__file__", "")), *(frame.file for frame in self._heap.stack[:1])]:
            if not in_library(file):
                line = self._sources.of_attribute(file, kind.__name__, name, self._grows(value), self.stack)
                if line:
                    return f"{file}:{line}"
        return ""

    def _grows(self, key: int) -> bool:
        return isinstance(self._heap.things[key], _GROWING)


def path_down(key: int, below: dict[int, int]) -> list[int]:
    """From an object down, where `below` has what is under each, and 0 under the last."""
    path = []
    while key:
        path.append(key)
        key = below[key]
    return path


def short(where: str) -> str:
    """ "file:line" without the folders."""
    return os.path.basename(where)


def _comma(where: str) -> str:
    return f", {short(where)}" if where else ""


def in_brackets(named: Named | None) -> str:
    """ " (variable x in main, train.py:3)", or nothing."""
    return f" ({named})" if named is not None and str(named) else ""
