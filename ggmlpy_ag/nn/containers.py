"""Modules in a row: Sequential, which runs them one after the other, and ModuleList, which leaves that to its owner."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import Any, TypeVar, overload

from ..ops.base import integer, sequence
from .module import Module

_R = TypeVar("_R", bound="_Row")


class _Row(Module):
    """Parts in order, named "0", "1" and so on, with the protocol of a sequence."""

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter([vars(self)[name] for name in self._modules])

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._name(index), *_checked(type(self).__name__, [module]))

    def append(self: _R, module: Module) -> _R:
        """Add a module at the end, under the next number that is free.

        Returns:
            This module.

        Raises:
            TypeError: no module.
        """
        return self.extend([module])

    def extend(self: _R, modules: Iterable[Module]) -> _R:
        """Add modules at the end, under the next numbers that are free.

        Returns:
            This module.

        Raises:
            TypeError: one is no module; none has been added then.
        """
        for module in _checked(type(self).__name__, modules):
            name = next(str(i) for i in count(len(self)) if str(i) not in self._modules)
            setattr(self, name, module)
        return self

    def _name(self, index: int) -> str:
        """The name of the part at an index."""
        kind = type(self).__name__
        place = integer(kind, "index", index)
        if not -len(self) <= place < len(self):
            raise IndexError(f"{kind}: index {index} is out of range for {len(self)} modules")
        return list(self._modules)[place]


class Sequential(_Row):
    """Modules that run one after the other: each gets what the one before returns.

    Args:
        modules: the modules; or one mapping of names to them, such as an OrderedDict.

    Raises:
        TypeError: one is no module. ValueError: a name with a dot, or of a method.

    >>> model = ag.nn.Sequential(ag.nn.Linear(4, 8), ag.nn.ReLU(), ag.nn.Linear(8, 2))
    >>> model(ag.rand(5, 4)).shape
    (5, 2)
    >>> len(model), model[:2], model[-1]
    (3, Sequential(
      (0): Linear(in_features=4, out_features=8, bias=True)
      (1): ReLU()
    ), Linear(in_features=8, out_features=2, bias=True))
    """

    def __init__(self, *modules: Module | Mapping[str, Module]) -> None:
        if len(modules) == 1 and isinstance(modules[0], Mapping):
            names = list(modules[0])
            for name, module in zip(names, _checked("Sequential", modules[0].values()), strict=True):
                self.add_module(name, module)
        else:
            self.extend(modules)  # type: ignore[arg-type]

    @overload
    def __getitem__(self, index: int) -> Module: ...
    @overload
    def __getitem__(self, index: slice) -> Sequential: ...
    def __getitem__(self, index: int | slice) -> Module | Sequential:
        """One of them, or a Sequential of several, under the names they have here."""
        if isinstance(index, slice):
            return Sequential({name: vars(self)[name] for name in list(self._modules)[index]})
        found: Module = vars(self)[self._name(index)]
        return found

    def forward(self, x: Any) -> Any:
        """What the last module makes of what those before it make of `x`."""
        for module in self:
            x = module(x)
        return x


class ModuleList(_Row):
    """A list of modules, whose parameters its owner has too. The owner's `forward` calls them.

    Args:
        modules: the modules; none by default.

    Raises:
        TypeError: one is no module.

    >>> layers = ag.nn.ModuleList(ag.nn.Linear(3, 3) for _ in range(2))
    >>> [name for name, _ in layers.named_parameters()]
    ['0.weight', '0.bias', '1.weight', '1.bias']
    """

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        self.extend(modules)

    @overload
    def __getitem__(self, index: int) -> Module: ...
    @overload
    def __getitem__(self, index: slice) -> ModuleList: ...
    def __getitem__(self, index: int | slice) -> Module | ModuleList:
        """One of them, or a ModuleList of several, numbered anew."""
        if isinstance(index, slice):
            return ModuleList(list(self)[index])
        found: Module = vars(self)[self._name(index)]
        return found

    def insert(self, index: int, module: Module) -> None:
        """Put a module before the one at an index, as a list does; those after it get the next numbers.

        Raises:
            TypeError: no module, or an index that is no integer.
        """
        modules = list(self)
        modules.insert(integer("ModuleList", "index", index), *_checked("ModuleList", [module]))
        for i, part in enumerate(modules):
            setattr(self, str(i), part)


def _checked(kind: str, modules: Any) -> tuple[Module, ...]:
    found = sequence(kind, modules)
    for i, module in enumerate(found):
        if not isinstance(module, Module):
            raise TypeError(f"{kind}: module {i} must be a Module, not {type(module).__name__}")
    return found


__all__ = ["ModuleList", "Sequential"]
