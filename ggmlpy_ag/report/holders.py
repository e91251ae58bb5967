"""Why a tensor's memory is held: everything that refers to it, in words."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from types import CellType, FrameType, FunctionType, MethodType
from typing import Any

from ..backend.array import Array
from ..backend.exchange import Loan
from ..backend.graph import Graph
from ..backend.graph import Node as PendingNode
from ..backend.memory import Storage
from ..tape import Node, current_tape
from ..tensor import Tensor
from .heap import CONTAINERS, SUSPENDED, Heap, Variable, attributes, captured_as, is_inside, key_of, namespace, own_dict
from .naming import MAX_STEPS, MAX_THINGS, Named, Names, in_brackets, path_down
from .recorder import Frame

# What comes between a view and its holder, where that is not " held by "
_JOINING = {"rule": " ", "input": ": ", "field": ": ", "gradient": ": ", "pending": ": "}
_OPTIMIZER_STATE = ("ggmlpy_ag.optim.state", "ParameterState")  # on a floor above


@dataclass(frozen=True)
class Holder:
    """One thing that keeps a tensor's memory, which prints as its text.

    `kind` is "variable", "global", "attribute", "parameter", "buffer", "class", "captured", "default", "gradient",
    "optimizer", "input", "rule", "field" (of a tape), "pending", "exported" or "unnamed". `line`, "file:line", is where
    the program writes to what holds it; "" where that is not known.
    """

    text: str
    kind: str
    line: str = field(default="", compare=False)

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__


def holders(tensor: Tensor) -> list[Holder]:
    """Everything that keeps this tensor's memory, in words, the closest first.

    All tensors over the same memory count, views among them: the memory of a large tensor lives as long as the smallest
    view of it. It looks at the variables of all running functions and of those that a traceback keeps, at whatever
    Python's collector knows, such as lists, attributes and closures, and at the tape, optimizers and operations that
    wait to be computed. It computes and copies nothing, and keeps nothing. What C code holds by itself is not found,
    a NumPy array of objects for one.

    Args:
        tensor: any tensor.

    Returns:
        A list of `Holder`, each with `text`, `kind` and `line`; empty for a tensor that only this call has.

    Raises:
        TypeError: no tensor.

    >>> w = ag.param([[1.0, 2.0]])
    >>> with ag.grad_tape():
    ...     y = w.tanh()
    >>> for holder in ag.holders(w):
    ...     print(holder)
    global variable w of __main__
    operation waiting to be computed: tanh, for global variable y of __main__
    input of node 0 tanh
    """
    return holders_of(tensor, sys._getframe(1))


def holders_of(tensor: Tensor, frame: FrameType) -> list[Holder]:
    """`holders`, as the function of this frame sees them."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"holders: tensor must be a Tensor, not {type(tensor).__name__}")
    return Search(frame).holders(tensor._array.storage)


class Search:
    """Finds the holders of storages, as they are now. Made for one question, and dropped with its answer.

    Args:
        frame: the innermost running function that counts.
    """

    def __init__(self, frame: FrameType | None) -> None:
        self._heap = Heap(frame)
        self._names = Names(self._heap)

    def holders(self, storage: Storage, stack: Sequence[Frame] | None = None) -> list[Holder]:
        """Everything that keeps this memory, the closest first. Where a name is written to in several lines, the one is
        told that is closest to a place of this stack; by default to where the program is.
        """
        self._names.stack = self._heap.stack if stack is None else stack
        found: dict[Holder, None] = {}
        for end, path in self._climb(storage):
            if self._is_told(path):
                continue
            window = self._window(path)
            for named in self._named(end, path):
                text = f"{window}{_JOINING.get(named.kind, ' held by ')}{named}" if window else str(named)
                found.setdefault(Holder(text, named.kind, named.line))
        return list(found)

    def beside_tape(self, storage: Storage) -> list[Holder]:
        """Everything but the nodes of tapes that keeps this memory."""
        return [holder for holder in self.holders(storage) if holder.kind not in ("input", "rule", "field")]

    # ------------------------------------------------------------ finding

    def _climb(self, storage: Storage) -> list[tuple[int | Variable, list[int]]]:
        """What names the memory, an object or a variable, and the path from below it, or from its value, down."""
        heap = self._heap
        start = heap.add(storage)
        below = {start: 0}
        ends: list[tuple[int | Variable, int]] = []
        level = [start]
        for _ in range(MAX_STEPS):
            heap.prepare(level)
            above = []
            for key in level:
                ends += [(variable, key) for variable in heap.variables(key)]
                for other in heap.referrers(key):
                    if self._is_end(other, key):
                        ends.append((other, key))
                    elif other not in below:
                        below[other] = key
                        above.append(other)
                named = heap.variables(key) or heap.referrers(key)
                if not named and type(heap.things[key]) not in (Storage, Array, Tensor, CellType):
                    ends.append((key, key))
            level = above
            if len(below) > MAX_THINGS:
                break
        return [(end, path_down(key, below)) for end, key in ends]

    def _is_end(self, key: int, below: int) -> bool:
        """Whether this has a name for what is below it."""
        owner, value = self._heap.things[key], self._heap.things[below]
        kind = type(owner)
        if kind in (Array, CellType, FunctionType, MethodType, partial):
            return False
        if kind is Tensor:
            return owner.grad is value
        if kind in (Node, PendingNode, Loan) or kind in SUSPENDED or isinstance(owner, (type, FrameType)):
            return True
        if isinstance(owner, CONTAINERS):
            return namespace(owner) is not None
        return own_dict(owner) is value or bool(attributes(owner, value))

    def _is_told(self, path: list[int]) -> bool:
        """Whether it leads through a function that shares a variable with a running one around it, which has it too."""
        things = self._heap.things
        for i, key in enumerate(path):
            function = things[key]
            if type(function) is FunctionType and type(things[path[i + 2]]) is CellType:
                name = captured_as(function, function.__closure__, things[path[i + 2]])
                variables = self._heap.variables(path[i + 3])
                if any(name == variable.name and is_inside(function.__code__, variable.code) for variable in variables):
                    return True
        return False

    # ------------------------------------------------------------ saying

    def _window(self, path: list[int]) -> str:
        """ "view of shape .." where the tensor on this path has only a part of its memory."""
        for key in path:
            array = self._heap.things[key]
            if type(array) is Array and array.size * array.dtype.itemsize < array.storage.nbytes:
                return f"view of shape {array.shape}"
        return ""

    def _named(self, end: int | Variable, path: list[int]) -> list[Named]:
        """The names by which the end of a path holds what is below."""
        names = self._names
        if isinstance(end, Variable):
            return [names.follow(names.variable(end, path[0]), path)]
        thing = self._heap.things[end]
        kind = type(thing)
        if namespace(thing) is not None:
            return [names.follow(named, path) for named in names.global_variables(end, path[0])]
        if kind is Tensor:
            return [Named("gradient", ".grad of ", names.tensor(end), "")]
        if kind is Node:
            return [self._on_tape(thing, path)]
        if kind is PendingNode:
            return [self._pending(thing, self._heap.things[path[-1]].device.graph)]
        if kind is Loan:
            return [Named("exported", "an array of NumPy or of another library that shares it", "", "")]
        if (kind.__module__, kind.__name__) == _OPTIMIZER_STATE:
            return [self._in_optimizer(end, path)]
        if isinstance(thing, type):
            return [names.class_attribute(end, path)] if type(self._heap.things[path[0]]) is dict else []
        if kind in SUSPENDED or isinstance(thing, FrameType):
            return [names.follow(names.place(end), [end, *path])]
        if end == path[0]:
            return [Named("unnamed", f"a {kind.__name__} without a name, as a running loop has", "", "")]
        tensor = next((self._heap.things[key] for key in path if type(self._heap.things[key]) is Tensor), None)
        named = self._of_optimizer(end, tensor)
        return names.attributes(end, path) if named is None else [named]

    def _on_tape(self, node: Node, path: list[int]) -> Named:
        """How a node of a tape holds what is below."""
        things = self._heap.things
        where = f"node {node.index} {node.op}" + (f" ({node.layer})" if node.layer else "")
        tape = node.tape()
        place = None if tape is None or tape is current_tape() else self._names.place(self._heap.add(tape))
        tail = "" if place is None else f", on the tape of {place}"
        line = "" if place is None else place.line
        below = things[path[0]]
        if below is node.edges:
            return Named("input", f"input of {where}", "", tail, line)
        if below is node.fields:
            field = key_of(below, things[path[1]])
            return self._names.follow(Named("field", "field ", field, f" of {where}{tail}", line), path[1:])
        return self._names.follow(Named("rule", f"captured by the rule of {where} as ", "", tail, line), path)

    def _pending(self, node: PendingNode, graph: Graph) -> Named:
        """An operation that reads what is below, and who wants what is computed with it in the end."""
        op = getattr(node.origin, "op", None) or node.primitive.name
        wanted = graph.outcome(node)
        found = [] if wanted is None else self.holders(wanted, self._names.stack)
        holder = next((holder for holder in found if holder.kind != "pending"), None)
        tail, line = ("", "") if holder is None else (f", for {holder}", holder.line)
        return Named("pending", "operation waiting to be computed: ", op, tail, line)

    def _in_optimizer(self, state: int, path: list[int]) -> Named:
        """How the state that an optimizer has of a parameter holds what is below: in an array, or as the parameter."""
        heap = self._heap
        array = key_of(heap.things[path[0]], heap.things[path[1]]) if type(heap.things[path[0]]) is dict else ""
        for table in heap.referrers(state):
            for optimizer in heap.owners(table):
                if named := self._of_optimizer(optimizer, heap.things[state].param, array):
                    return named
        return Named("optimizer", f"{array} of a parameter of an optimizer", "", "")

    def _of_optimizer(self, owner: int, parameter: Any, array: str = "") -> Named | None:
        """A parameter of an optimizer, or an array of its state; None where the object is no optimizer that has it."""
        optimizer = self._heap.things[owner]
        groups = own_dict(optimizer).get("param_groups")
        if not isinstance(groups, list):
            return None
        parameters = [param for group in groups for param in group["params"]]
        i = next((i for i, param in enumerate(parameters) if param is parameter), None)
        if i is None:
            return None
        place = self._names.place(owner)
        head = f"{array} of parameter {i}" if array else f"parameter {i}"
        tail = f" of {type(optimizer).__name__}" + in_brackets(place)
        return Named("optimizer", head, "", tail, "" if place is None else place.line)
