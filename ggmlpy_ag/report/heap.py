"""The references of the running program, upwards: who refers to an object, and by what name.

What CPython's collector tracks is asked for with `gc.get_referrers`; the variables of running functions, which it does
not see, are read from their frames. Nothing that is found here is compared with ==, printed or called: a tensor would
compute.
"""

from __future__ import annotations

import gc
import inspect
import os
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from types import (
    AsyncGeneratorType,
    CodeType,
    CoroutineType,
    FrameType,
    FunctionType,
    GeneratorType,
    MemberDescriptorType,
    ModuleType,
)
from typing import Any, NamedTuple

from ..tape import in_library
from .recorder import Frame

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_CHUNK = 64  # get_referrers compares every reference of the program with every object it is asked about
CONTAINERS = (dict, list, tuple, set, frozenset, deque)
# Functions that may be suspended, and the attribute that has their frame
SUSPENDED: dict[type, str] = {GeneratorType: "gi_frame", CoroutineType: "cr_frame", AsyncGeneratorType: "ag_frame"}


class Variable(NamedTuple):
    """A variable of a function that is running, and the line at which that is."""

    name: str
    code: CodeType
    line: int


class Heap:
    """Who refers to what. Made for one question, and dropped with its answer.

    Objects go by their id, so that only `things`, and no other list or path of ours, looks like one that holds them.

    Args:
        frame: the innermost running function that counts; those that it called in this thread ask the question.
    """

    def __init__(self, frame: FrameType | None) -> None:
        self.things: dict[int, Any] = {}
        self._above: dict[int, list[int]] = {}  # what refers to each, as far as it was asked for
        self._variables: dict[int, list[Variable]] = {}  # by the id of the value
        self._running: set[int] = set()  # ids of frames, and of what they are known to copy
        self.stack: list[Frame] = []  # where the user's own running functions are
        here = threading.get_ident()
        stacks = [f for thread, f in sys._current_frames().items() if thread != here]
        for top in [frame, *stacks]:
            while top is not None:
                self._running.add(id(top))
                self._read(top)
                top = top.f_back

    def _read(self, frame: FrameType) -> None:
        code = frame.f_code
        if not in_library(code.co_filename):
            self.stack.append(Frame(code.co_filename, frame.f_lineno, code.co_name))
        if not code.co_flags & inspect.CO_OPTIMIZED:  # a module or a class body: its namespace is a dict like others
            return
        if frame.f_trace is not None:  # a copy of them may stay
            self._running.add(id(frame.f_locals))
        for name, value in variables(frame):
            if gc.is_tracked(value) and not name.startswith("@"):  # those are pytest's own
                self._variables.setdefault(id(value), []).append(Variable(name, code, frame.f_lineno))

    def add(self, thing: Any) -> int:
        """The number by which this object goes here: its id."""
        self.things[id(thing)] = thing
        return id(thing)

    def variables(self, key: int) -> list[Variable]:
        """The variables of running functions whose value this is."""
        return self._variables.get(key, [])

    def referrers(self, key: int) -> list[int]:
        """The objects that refer to this one, but for running functions, modules and what this report is made of."""
        self.prepare([key])
        return self._above[key]

    def owners(self, key: int) -> list[int]:
        """The objects that refer to this one, or to a dict that does: its attributes, if it is theirs."""
        found = self.referrers(key)
        dicts = [other for other in found if type(self.things[other]) is dict]
        self.prepare(dicts)
        return [*found, *(owner for other in dicts for owner in self._above[other])]

    def prepare(self, keys: Iterable[int]) -> None:
        """Find the referrers of all of these at once, which takes little longer than those of one."""
        unknown = [key for key in dict.fromkeys(keys) if key not in self._above]
        for start in range(0, len(unknown), _CHUNK):
            part = unknown[start : start + _CHUNK]
            self._above.update({key: [] for key in part})
            asked = tuple(self.things[key] for key in part)
            for referrer in gc.get_referrers(*asked):
                if referrer is self.things or referrer is asked or self._is_machinery(referrer):
                    continue
                for key in set(part).intersection(map(id, gc.get_referents(referrer))):
                    self._above[key].append(self.add(referrer))

    def _is_machinery(self, referrer: Any) -> bool:
        if isinstance(referrer, ModuleType):
            return True  # its namespace, which is found as well, has the name
        if id(referrer) in self._running:
            return True
        if type(referrer) in SUSPENDED:  # on a stack it has been read there; or it has ended
            referrer = getattr(referrer, SUSPENDED[type(referrer)])
        if isinstance(referrer, FrameType):  # CPython 3.10 tracks the running ones
            return id(referrer) in self._running or referrer.f_code.co_filename.startswith(_HERE)
        return referrer is None


def variables(frame: FrameType) -> Iterator[tuple[str, Any]]:
    """The variables that belong to a frame: those that it takes from functions around it are theirs.

    Up to CPython 3.12, asking for `f_locals` leaves a copy of all variables in the frame, which would keep them alive
    until the function ends. It is emptied again, unless somebody has that dict, as `locals()` or as a debugger.
    """
    names = frame.f_locals
    items = [item for item in names.items() if item[0] not in frame.f_code.co_freevars]
    optimized = frame.f_code.co_flags & inspect.CO_OPTIMIZED
    if optimized and type(names) is dict and frame.f_trace is None and sys.getrefcount(names) <= _UNSHARED:
        names.clear()
    return iter(items)


def _count_of_own() -> int:
    names = sys._getframe().f_locals
    return sys.getrefcount(names)


_UNSHARED = _count_of_own()


# ---------------------------------------------------------------- by what name


def namespace(thing: Any) -> str | None:
    """The module whose global variables a dict has; None for another object."""
    if type(thing) is not dict or "__name__" not in thing:
        return None
    name = thing["__name__"]
    if not isinstance(name, str):
        return None
    module = sys.modules.get(name)
    return name if "__builtins__" in thing or (module is not None and vars(module) is thing) else None


def attributes(owner: Any, value: Any) -> list[str]:
    """The attributes of an object, in its dict or its slots, that have this very value."""
    found = [name for name, other in own_dict(owner).items() if other is value]
    for kind in type(owner).__mro__:
        for name, member in vars(kind).items():
            if type(member) is MemberDescriptorType and _slot(owner, member) is value:
                found.append(name)
    return found


def own_dict(owner: Any) -> dict[str, Any]:
    """An object's attributes, of which it may have none."""
    try:
        found = vars(owner)
    except TypeError:
        return {}
    return found if type(found) is dict else {}


def _slot(owner: Any, member: MemberDescriptorType) -> Any:
    try:
        return member.__get__(owner)
    except AttributeError:  # empty
        return None


def place(container: Any, value: Any) -> str:
    """Where in a container the value is: "[3]", "['h']", or in words where it has no index."""
    if isinstance(container, dict):
        for key, other in dict.items(container):
            if other is value:
                return f"[{key!r}]" if type(key) in (str, int, bool, type(None)) else "[...]"
        return " (as a key)"
    if isinstance(container, (list, tuple, deque)):
        fields = getattr(type(container), "_fields", None) if isinstance(container, tuple) else None
        for i, other in enumerate(_plain(container)):
            if other is value:
                return f".{fields[i]}" if isinstance(fields, tuple) and i < len(fields) else f"[{i}]"
    return f" (in a {type(container).__name__})"


def key_of(names: Mapping[Any, Any], value: Any) -> Any:
    """The key of a dict that has this very value."""
    return next((key for key, other in names.items() if other is value), "?")


def _plain(container: list[Any] | tuple[Any, ...] | deque[Any]) -> Iterator[Any]:
    """Its items, whatever a subclass makes of iteration."""
    base = next(kind for kind in (list, tuple, deque) if isinstance(container, kind))
    iterate: Iterator[Any] = base.__iter__(container)  # type: ignore[arg-type]
    return iterate


def captured_as(function: FunctionType, through: Any, value: Any) -> str:
    """What a function calls what it keeps: `value` is a cell of its closure, or an argument's default, and `through`
    the tuple or dict that has it.
    """
    code = function.__code__
    named: Iterable[tuple[str, Any]] = ()
    if through is function.__closure__:
        named = zip(code.co_freevars, through or (), strict=True)
    elif through is function.__defaults__:
        defaults = through or ()
        named = zip(code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount], defaults, strict=True)
    elif through is function.__kwdefaults__:
        named = (through or {}).items()
    return next((name for name, kept in named if kept is value), "")


def is_inside(inner: CodeType, outer: CodeType) -> bool:
    """Whether a function is defined in the body of another."""
    return any(part is inner or is_inside(inner, part) for part in outer.co_consts if isinstance(part, CodeType))
