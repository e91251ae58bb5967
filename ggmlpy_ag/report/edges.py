"""Which operation of a tape needs which value: numbers and weak links, which keep nothing alive, for `what_if`."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain
from operator import attrgetter, itemgetter

import numpy as np

from ..backend.array import Shape
from ..backend.memory import Storage
from ..tape import Node

NONE = id(None)
_Link = Callable[[], "Storage | None"]


@dataclass(frozen=True)
class Edges:
    """What the nodes of a tape have, one after the other: node i's operands are those from ends[i - 1] to ends[i].

    Storages go by the number of a weak link to them, which is the same for all links to one storage. A report shall be
    quick: it takes over the nodes' own lists of links, which keep nothing alive, and reads them when it is asked.
    """

    nodes: list[int]  # their ids
    layers: list[str]
    lines: list[str]
    multiply_adds: list[int]
    makers: list[int]  # of each operand: the id of the node that made it, NONE, or of a leaf
    alive: frozenset[int]  # of the operands that are not in the report's rows, those that something else keeps
    alignment: int
    operand_links: list[list[_Link]]  # of each node
    node_specs: list[list[tuple[Shape, np.dtype]]]
    saved_links: list[list[tuple[_Link, int, Shape]]]
    row_links: list[_Link]

    @cached_property
    def operands(self) -> list[int]:
        """The storages of the operands."""
        return list(map(id, chain.from_iterable(self.operand_links)))

    @cached_property
    def operand_ends(self) -> list[int]:
        """Where the operands of each node end."""
        return list(accumulate(map(len, self.operand_links)))

    @cached_property
    def specs(self) -> list[tuple[Shape, np.dtype]]:
        """Shape and type of each operand."""
        return list(chain.from_iterable(self.node_specs))

    @cached_property
    def saved(self) -> list[int]:
        """The storages that rules saved."""
        return list(map(id, map(itemgetter(0), chain.from_iterable(self.saved_links))))

    @cached_property
    def saved_ends(self) -> list[int]:
        """Where what the rule of each node saved ends."""
        return list(accumulate(map(len, self.saved_links)))

    @cached_property
    def rows(self) -> list[int]:
        """The storages of the report's rows."""
        return list(map(id, self.row_links))


def edges_between(nodes: Sequence[Node], layers: list[str], lines: list[str], storages: Sequence[Storage]) -> Edges:
    """The edges between these nodes and the storages of the report's rows."""
    operands = list(map(attrgetter("operands"), nodes))
    others = set(filter(None, map(weakref.ref.__call__, chain.from_iterable(operands))))
    others.difference_update(storages)
    return Edges(
        nodes=list(map(id, nodes)),
        layers=layers,
        lines=lines,
        multiply_adds=list(map(attrgetter("multiply_adds"), nodes)),
        makers=list(map(id, chain.from_iterable(map(attrgetter("edges"), nodes)))),
        alive=frozenset(map(id, map(weakref.ref, others))),
        alignment=storages[0].device.pool.alignment if storages else 1,
        operand_links=operands,
        node_specs=list(map(attrgetter("specs"), nodes)),
        saved_links=list(map(attrgetter("saved"), nodes)),
        row_links=list(map(weakref.ref, storages)),  # the same links that the nodes have
    )
