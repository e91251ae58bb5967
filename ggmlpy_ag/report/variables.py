"""The variables that a function may change: those that it names, and those of the object whose method it is."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from operator import setitem
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from ..backend.simulation import Variable
from ..backend.undo import role_of


def variables(function: Any) -> Iterator[Variable]:
    """Value of each variable now, and what assigns it.

    These are the names that the function, or another of its file that it names, takes from around it, and the
    attributes of the object that it belongs to.
    """
    seen: set[int] = set()
    left = [function]
    file: Any = None
    while left:
        value = left.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, partial):
            left.append(value.func)
        elif isinstance(value, MethodType):
            left.append(value.__func__)
            yield from _attributes(value.__self__)
        elif not isinstance(value, FunctionType):
            if callable(value) and value is function and role_of(type(value)) is None:
                yield from _attributes(value)
                left.append(type(value).__call__)
        else:
            file = value.__globals__ if file is None else file
            if value.__globals__ is file:
                for found, assign in _named(value):
                    yield found, assign
                    left.append(found)


def _attributes(thing: Any) -> Iterator[Variable]:
    """All in one: their dictionary, which is restored in place."""
    if role_of(type(thing)) is None and not isinstance(thing, (type, ModuleType)) and hasattr(thing, "__dict__"):
        yield vars(thing), lambda restored: None


def _named(function: FunctionType) -> Iterator[Variable]:
    cells: tuple[CellType, ...] = function.__closure__ or ()
    for cell in cells:
        try:
            yield cell.cell_contents, partial(setattr, cell, "cell_contents")
        except ValueError:  # not bound yet
            continue
    around = function.__globals__
    for name in _names(function.__code__):
        if name in around and not isinstance(around[name], (ModuleType, type)):
            yield around[name], partial(setitem, around, name)


def _names(code: CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _names(constant)
    return names
