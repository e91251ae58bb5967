"""The gradient tape: what is recorded, for how long, and the walk back.

An operation calls `record` with its name, its result, its operands and its rule: a closure that takes the gradient
of the result and returns those of the operands, made of public operations. The rule captures by name what it needs,
and nothing else keeps a value alive: a node knows its operands only as edges, to the nodes that made them or to
leaves such as parameters.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from functools import partial, wraps
from types import FunctionType, TracebackType
from typing import Any, TypeAlias, TypeVar

from .tensor import Tensor, TensorLike, as_numpy

GradFn: TypeAlias = Callable[[Tensor], Sequence[Tensor | None]]
_Function = TypeVar("_Function", bound=Callable[..., Any])


# Path of the module that runs below the outermost one: nn.Module sets it, nodes remember it.
running_layer: ContextVar[str | None] = ContextVar("ggmlpy_ag_layer", default=None)
# What runs, for a memory timeline: "backward", "update", or "" for anything else; and in a backward pass a list that
# holds the node whose rule runs.
running_phase: ContextVar[str] = ContextVar("ggmlpy_ag_phase", default="")
running_rule: ContextVar[list[Node] | None] = ContextVar("ggmlpy_ag_rule", default=None)
# Asked whether a module, of this path, shall keep its inputs only and run again for its gradients; None: none shall.
recomputed: ContextVar[Callable[[Any, str], bool] | None] = ContextVar("ggmlpy_ag_recomputed", default=None)
# Multiply-adds by layer, of all operations whether a tape records them or not, where somebody counts.
work: ContextVar[Counter[str | None] | None] = ContextVar("ggmlpy_ag_work", default=None)


class Node:
    """One recorded operation.

    `op` is the name the user called. `edges` has one entry an operand: the node that made it, the operand itself
    when it is a leaf that requires a gradient, or None. `specs` are the operands' shapes and dtypes. `operands` are
    weak links to the operands' storages, for the report. `saved` has the storage (a weak link), version and shape of
    each value that the rule captured. `fields` are named extras that only a report looks at. `layer` is the path of the
    `nn.Module` that ran, "" in the outermost one, None outside of any. `line` is where the user's code called it,
    "file:line in function", on a tape that traces. `multiply_adds` is what computing the result needs of them, by the
    textbook formula and not as a device does it; 0 but for products, convolutions and attention.
    """

    __slots__ = (
        "__weakref__", "edges", "fields", "grad_fn", "index", "layer", "line", "multiply_adds", "op", "operands",
        "saved", "specs", "tape",
    )  # fmt: skip

    def __init__(
        self,
        op: str,
        tape: Tape,
        inputs: Sequence[Tensor],
        grad_fn: GradFn,
        fields: Mapping[str, Any],
        multiply_adds: int,
    ) -> None:
        self.op = op
        self.tape = tape.link
        self.index = len(tape.nodes)
        edges: list[Node | Tensor | None] = []
        specs = []
        operands = []
        for tensor in inputs:
            array = tensor._array
            specs.append((array.shape, array.dtype))
            operands.append(weakref.ref(array.storage))
            node = None
            if tensor.requires_grad and tensor._node is not None:
                node = tensor._node()
            if node is not None and node.tape is tape.link:
                edges.append(node)
            else:
                edges.append(tensor if tensor.requires_grad else None)
        self.edges: Sequence[Node | Tensor | None] = edges
        self.specs = specs
        self.operands = operands
        self.grad_fn: GradFn | None = grad_fn
        self.fields = fields
        self.layer = running_layer.get()
        self.line = _calling_line() if tape.trace else None
        self.multiply_adds = multiply_adds
        self.saved = []
        for tensor in captured(grad_fn):
            storage = tensor._array.storage
            self.saved.append((weakref.ref(storage), storage.version, tensor._array.shape))


_LIBRARY = os.path.dirname(os.path.abspath(__file__)) + os.sep
_DEMOS = os.path.join(_LIBRARY, "demos", "")  # where a wheel has them; they are programs like a user's


def in_library(file: str) -> bool:
    """Whether a source file is this library's own."""
    return file.startswith(_LIBRARY) and not file.startswith(_DEMOS)


def _calling_line() -> str:
    """The innermost line outside of this library that is being run."""
    frame = sys._getframe(2)
    while frame.f_back is not None and in_library(frame.f_code.co_filename):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Say that the `with` block is a phase of training, such as "backward"."""
    token = running_phase.set(name)
    try:
        yield
    finally:
        running_phase.reset(token)


def captured(rule: Any) -> list[Tensor]:
    """The tensors that a rule holds: in its cells and defaults, or in tuples, lists, dicts and functions there."""
    found: list[Tensor] = []
    _collect(rule, found, set())
    return found


_CONTAINERS = {tuple, list, dict, FunctionType, partial}


def _collect(value: Any, found: list[Tensor], seen: set[int]) -> None:
    """The tensors in a function or a container. Each is entered once: a function may well refer to itself."""
    seen.add(id(value))
    for item in _items(value):
        kind = type(item)
        if kind is Tensor:
            found.append(item)
        elif kind in _CONTAINERS and id(item) not in seen:
            _collect(item, found, seen)


def _items(value: Any) -> Iterable[Any]:
    kind = type(value)
    if kind is FunctionType:
        items: list[Any] = []
        for cell in value.__closure__ or ():
            try:
                items.append(cell.cell_contents)
            except ValueError:  # a name that was never bound
                continue
        if value.__defaults__:
            items += value.__defaults__
        if value.__kwdefaults__:
            items += value.__kwdefaults__.values()
        return items
    if kind is partial:
        return (value.func, value.args, value.keywords)
    if kind is dict:
        return value.values()  # type: ignore[no-any-return]
    return value if kind in _CONTAINERS else ()


class Tape:
    """Recorded operations in the order of their calls; with `trace`, each knows the line that called it."""

    __slots__ = ("__weakref__", "link", "nodes", "trace")

    def __init__(self, trace: bool = False) -> None:
        self.nodes: list[Node] = []
        self.link = weakref.ref(self)
        self.trace = trace

    def __len__(self) -> int:
        return len(self.nodes)

    def __repr__(self) -> str:
        return f"<tape of {len(self.nodes)} operations>"

    def clear(self) -> None:
        """Forget everything recorded: what only the tape kept alive is freed."""
        for node in self.nodes:
            node.grad_fn = None
            node.edges = ()
            node.fields = {}
        self.nodes.clear()


_recording: ContextVar[tuple[Tape | None, ...]] = ContextVar("ggmlpy_ag_recording", default=())
_finished: ContextVar[Tape | None] = ContextVar("ggmlpy_ag_finished", default=None)


@contextmanager
def recording_on(tape: Tape) -> Iterator[None]:
    """Record on this tape in the `with` block, beside whatever tape finished last."""
    token = _recording.set((*_recording.get(), tape))
    try:
        yield
    finally:
        _recording.reset(token)


# Set by `python -m ggmlpy_ag tape`: whether tapes trace that do not say so, and what to call with a tape that a
# backward pass has walked.
trace_by_default = False
after_backward: Callable[[Tape], None] | None = None


class grad_tape:
    """Record the operations in the `with` block that touch a tensor that requires a gradient.

    The tape outlives the block, so that `backward` and `tape_memory` can use it after it, until `clear()`, `zero_grad`
    of an optimizer or of `ag`, or the next tape. Tapes nest: only the innermost records, and to it a value made on
    an outer tape is a leaf. Tapes are local to a thread or task.

        with ag.grad_tape() as tape:
            loss = ...
        ag.backward(loss)

    Args:
        trace: whether nodes remember the line of your code that called each operation, for reports by line. Not by
            default, but in a script that `python -m ggmlpy_ag tape` runs.
    """

    def __init__(self, trace: bool | None = None) -> None:
        self.trace = trace_by_default if trace is None else trace

    def __enter__(self) -> Tape:
        _finished.set(None)  # the tape before goes now, before this one's forward begins
        self.tape = Tape(self.trace)
        self._token = _recording.set((*_recording.get(), self.tape))
        return self.tape

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _recording.reset(self._token)
        _finished.set(self.tape)
        del self.tape


class no_grad:
    """Record nothing in the `with` block or the decorated function."""

    def __enter__(self) -> None:
        self._token = _recording.set((*_recording.get(), None))

    def __exit__(self, *_: object) -> None:
        _recording.reset(self._token)

    def __call__(self, function: _Function) -> _Function:
        @wraps(function)
        def silent(*arguments: Any, **named: Any) -> Any:
            with no_grad():  # one for each call: calls may nest, and run in several threads
                return function(*arguments, **named)

        return silent  # type: ignore[return-value]


def recording_tape() -> Tape | None:
    """The tape that records now, if any."""
    stack = _recording.get()
    return stack[-1] if stack else None


def current_tape() -> Tape | None:
    """The tape that records now, else the one that finished last, if it still lives."""
    tape = recording_tape()
    return tape if tape is not None else _finished.get()  # an empty tape is false


def clear_tape() -> None:
    """Forget the tape that finished last, and what only it kept alive."""
    tape = _finished.get()
    if tape is not None:
        tape.clear()
        _finished.set(None)


def record(
    op: str,
    out: Tensor,
    inputs: Sequence[Tensor],
    grad_fn: GradFn,
    fields: Mapping[str, Any] | None = None,
    multiply_adds: int = 0,
) -> Tensor:
    """Put an operation on the recording tape, if there is one and an operand requires a gradient.

    Args:
        op: the name a report shows.
        out: the result, returned.
        inputs: the operands the rule gives gradients for.
        grad_fn: takes the gradient of `out`, returns one gradient (or None) for each operand, of its shape.
        fields: named extras (tensors, or containers of them) that the tape shall hold besides.
        multiply_adds: what computing `out` needs, for `nn.summary`; of matrix products and the like only.
    """
    if multiply_adds and (counted := work.get()) is not None:
        counted[running_layer.get()] += multiply_adds
    tape = recording_tape()
    if tape is None or True not in [t.requires_grad for t in inputs]:
        return out
    node = Node(op, tape, inputs, grad_fn, fields or {}, multiply_adds)
    tape.nodes.append(node)
    out.requires_grad = True
    out._node = weakref.ref(node)
    return out


def backward(loss: Tensor, gradient: TensorLike | None = None, create_graph: bool = False) -> dict[Tensor, Tensor]:
    """Walk the tape back from `loss` and compute the gradients of every leaf that requires one.

    Adds to the `.grad` of each leaf and returns this pass's gradients by leaf. The tape stays, so a second call is
    possible until it is cleared. What the gradients need is computed at the end, on their device; when that fails,
    as it does out of memory, every `.grad` is as before.

    Args:
        loss: a float32 tensor that a tape recorded; one element unless `gradient` is given.
        gradient: the gradient of the final quantity with respect to `loss`, of its shape; 1 by default.
        create_graph: record the backward pass too, for gradients of gradients; inside the block that recorded the loss.

    Raises:
        ValueError: `loss` has several elements and no gradient was given; shapes differ.
        RuntimeError: `loss` is not on a tape, or its tape was cleared; a saved value was overwritten; `create_graph`
            where the loss's tape does not record.
        TypeError: `loss` is no tensor; a rule returned something else than gradients.
    """
    if not isinstance(loss, Tensor):
        raise TypeError(f"backward needs a Tensor, not {type(loss).__name__}")
    if gradient is None and loss.size != 1:
        raise ValueError(
            f"backward needs a loss of one element, but its shape is {loss.shape}: reduce it with sum() or mean(), "
            "or pass `gradient` of that shape"
        )
    node, _ = _start(loss)
    recording = recording_tape()
    if create_graph and (recording is None or (node is not None and node.tape is not recording.link)):
        raise RuntimeError(
            "create_graph=True records the backward pass on the loss's own tape: call it inside the "
            "`with ag.grad_tape():` block that recorded the loss"
        )
    with phase("backward"), nullcontext() if create_graph else no_grad():
        leaves = walk(loss, _seed(loss, gradient))
        totals = [(leaf, grad if leaf.grad is None else leaf.grad + grad) for leaf, grad in leaves.items()]
        if not create_graph:
            for device in dict.fromkeys(grad._array.device for grad in leaves.values()):
                device.graph.run()
    for leaf, total in totals:  # now that nothing can fail any more
        leaf.grad = total
    if after_backward is not None and node is not None and (tape := node.tape()) is not None:
        after_backward(tape)
    return leaves


def _seed(loss: Tensor, gradient: TensorLike | None) -> Tensor:
    device = loss._array.device
    if gradient is None:
        return Tensor(device.constant(1.0).reshaped(loss.shape)).astype(loss.dtype)
    if isinstance(gradient, Tensor):
        seed = gradient.astype(loss.dtype)
    else:
        seed = Tensor(device.upload(as_numpy(gradient, loss.dtype, "gradient")))
    if seed.shape != loss.shape:
        raise ValueError(f"gradient has shape {seed.shape}, but the loss has shape {loss.shape}")
    return seed


def _start(loss: Tensor) -> tuple[Node | None, list[Node]]:
    """The node of the loss and its tape's nodes, or an error that says why there is none."""
    if loss._node is None:
        if loss.requires_grad:
            return None, []  # a leaf: its gradient is the seed
        raise RuntimeError(
            "the loss is not on a tape: compute it inside `with ag.grad_tape():` from at least one tensor that "
            "requires a gradient (with nested tapes, only the innermost records)"
        )
    node = loss._node()
    tape = node.tape() if node is not None else None
    if node is None or tape is None or node.grad_fn is None:
        raise RuntimeError(
            "the loss's tape is gone: it was cleared (by clear() or zero_grad) or a new tape has begun; "
            "call backward before that"
        )
    return node, tape.nodes


def walk(loss: Tensor, seed: Tensor) -> dict[Tensor, Tensor]:
    """The gradients of the leaves of the loss's tape, when `seed` is that of the loss; leaves their `.grad` alone."""
    start, nodes = _start(loss)
    if start is None:
        return {loss: seed}
    rule = [start]
    token = running_rule.set(rule)
    try:
        return _walk(nodes[: start.index + 1], seed, rule)
    finally:
        running_rule.reset(token)


def _walk(nodes: list[Node], seed: Tensor, rule: list[Node]) -> dict[Tensor, Tensor]:
    """The gradients of the leaves, when `seed` is that of the last node; `rule` is told which node's turn it is."""
    leaves: dict[Tensor, Tensor] = {}
    waiting: dict[Node, Tensor] = {nodes[-1]: seed}
    for node in reversed(nodes):
        grad = waiting.pop(node, None)
        if grad is None:
            continue
        rule[0] = node
        _check_versions(node)
        assert node.grad_fn is not None
        grads = node.grad_fn(grad)
        if not isinstance(grads, (tuple, list)):
            raise TypeError(
                f"the rule of {node.op} returned a {type(grads).__name__}: it must return a tuple with a gradient (or "
                "None) for each operand"
            )
        if len(grads) != len(node.edges):
            raise ValueError(f"the rule of {node.op} returned {len(grads)} gradients for {len(node.edges)} operands")
        for edge, part, (shape, dtype) in zip(node.edges, grads, node.specs, strict=True):
            if edge is None or part is None:
                continue
            if not isinstance(part, Tensor):
                raise TypeError(f"the rule of {node.op} returned a {type(part).__name__} as gradient, not a Tensor")
            if part.shape != shape:
                raise ValueError(f"the rule of {node.op} returned a gradient of shape {part.shape} for {shape}")
            if part._array.dtype is not dtype:  # such as that of a float16 operand beside a float32 one
                part = part.astype(dtype)
            found: dict[Any, Tensor] = waiting if type(edge) is Node else leaves
            before = found.get(edge)
            found[edge] = part if before is None else before + part
    return leaves


def _check_versions(node: Node) -> None:
    for link, version, shape in node.saved:
        storage = link()
        if storage is not None and storage.version != version:
            raise RuntimeError(
                f"backward of {node.op}: a value of shape {shape} that its rule saved was overwritten in place since "
                f"(write {storage.version}, saved at {version}); call backward before updating it, or save a copy"
            )


def zero_grad(tensors: Sequence[Tensor] | Mapping[Any, Tensor] = ()) -> None:
    """Forget the gradients of these tensors, and the tape that finished last with all that only it kept alive."""
    for tensor in tensors.values() if isinstance(tensors, Mapping) else tensors:
        tensor.grad = None
    clear_tape()


Tensor.backward = backward  # type: ignore[method-assign, assignment]
