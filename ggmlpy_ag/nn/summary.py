"""What each layer of a model costs: its output, its parameters, its multiply-adds, what it leaves on the tape."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import copy_context
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any

import numpy as np

from ..backend import devices
from ..backend.array import Shape
from ..backend.memory import format_bytes
from ..ops.base import full_shape
from ..ops.random import get_rng_state, set_rng_state
from ..report.reach import reach
from ..tape import Tape, recording_on, running_layer, work
from ..tensor import Tensor
from .module import Module, _root, onlooker

LABEL, OUTPUT, FIGURE = 34, 24, 14  # columns of the printed table: 100 characters


@dataclass(frozen=True)
class LayerRow:
    """One layer's own share: what its parts have is in their rows.

    `path` is the layer's name, "" for the model itself, and `layer` its class. `output_shapes` has the shape of each
    tensor that it returned when it last ran, and none if it did not run. `parameters` counts their elements, those of a
    tensor that several layers have in the first of them, and `trainable` those that require a gradient.
    `multiply_adds` are those of matrix products, convolutions and attention. `activation_bytes` is what the tape keeps
    for the gradient, beside parameters, buffers and the model's inputs.
    """

    path: str
    layer: str
    output_shapes: tuple[Shape, ...]
    parameters: int
    trainable: int
    multiply_adds: int
    activation_bytes: int

    def _label(self) -> str:
        frozen = ", frozen" if self.parameters and not self.trainable else ""
        if not self.path:
            return self.layer + frozen
        *above, name = self.path.split(".")
        return f"{'  ' * (len(above) + 1)}{name}: {self.layer}{frozen}"


@dataclass(frozen=True)
class Summary:
    """What `nn.summary` found: a row for each layer, and their sums. Prints as a table."""

    rows: tuple[LayerRow, ...]

    @property
    def parameters(self) -> int:
        """Elements of all parameters."""
        return sum(row.parameters for row in self.rows)

    @property
    def trainable(self) -> int:
        """Elements of those that require a gradient."""
        return sum(row.trainable for row in self.rows)

    @property
    def multiply_adds(self) -> int:
        """Of one forward pass; a backward pass takes about twice as many."""
        return sum(row.multiply_adds for row in self.rows)

    @property
    def activation_bytes(self) -> int:
        """What the tape of one forward pass keeps, as `ag.tape_memory` counts it when the pass has been computed."""
        return sum(row.activation_bytes for row in self.rows)

    def to_dict(self) -> dict[str, Any]:
        """The rows and the sums as dictionaries, lists, numbers and texts, for JSON."""
        return {
            "rows": [{**asdict(row), "output_shapes": [list(s) for s in row.output_shapes]} for row in self.rows],
            "parameters": self.parameters,
            "trainable": self.trainable,
            "multiply_adds": self.multiply_adds,
            "activation_bytes": self.activation_bytes,
        }

    def __str__(self) -> str:
        rows = [
            _line(
                row._label(),
                ", ".join(map(str, row.output_shapes)),
                _figure(row.parameters),
                _figure(row.multiply_adds),
                format_bytes(row.activation_bytes),
            )
            for row in self.rows
        ]
        trainable = f"{self.trainable:,} trainable"
        sums = (_figure(self.parameters), _figure(self.multiply_adds), format_bytes(self.activation_bytes))
        head = _line("layer", "output", "parameters", "multiply-adds", "activations")
        return "\n".join([head, *rows, _line("total", trainable, *sums)])


def summary(model: Module, *inputs: Any, **kwargs: Any) -> Summary:
    """What each layer of a model costs in one forward pass, which is recorded and, as a rule, not computed.

        print(ag.nn.summary(model, (32, 1, 28, 28)))

    Values are computed only where the model itself reads one, and by batch normalization in training. The model runs
    in the mode that it is in, on a tape of its own; its buffers and the random numbers are afterwards as before.

    Multiply-adds follow the textbook: n * in * out of a linear layer, the elements of the result times those of one
    kernel of a convolution (of the operand, for a transposed one), and rows * places * (e + ev) of each head of
    attention; positions that a mask hides are counted. Other operations count as none.

    Args:
        model: the module to run.
        inputs: what it is called with; a tuple of integers stands for float32 zeros of that shape, on the device of
            the model. For integers, such as those an embedding takes, pass a tensor.
        kwargs: what it is called with by name, as it is.

    Returns:
        A Summary: `rows`, the sums, and `to_dict()`.

    Raises:
        TypeError: model is no Module. ValueError: a shape with an extent below 1 or more than four dimensions.
        Whatever the model raises; everything is as before then, too.

    >>> class Scale(ag.nn.Module):
    ...     def __init__(self):
    ...         self.weight = ag.param(np.ones((10, 3)))
    ...     def forward(self, x):
    ...         return ag.relu(x @ self.weight)
    >>> found = ag.nn.summary(Scale(), (2, 10))
    >>> found.parameters, found.multiply_adds, found.rows[0].output_shapes
    (30, 60, ((2, 3),))
    """
    if not isinstance(model, Module):
        raise TypeError(f"summary: model must be a Module, not {type(model).__name__}")
    arguments = [_zeros(model, value) if _is_shape(value) else value for value in inputs]
    with _restored(model):
        return copy_context().run(_observed, model, arguments, kwargs)  # the tape that finished last stays the last


def _is_shape(value: Any) -> bool:
    return isinstance(value, tuple) and all(isinstance(n, (int, np.integer)) for n in value)


def _zeros(model: Module, extents: Sequence[int]) -> Tensor:
    shape = full_shape("summary", extents)
    first = next(chain(model.parameters(), model.buffers()), None)
    device = devices.get() if first is None else first._array.device
    return Tensor(device.full(shape, 0.0))


@contextmanager
def _restored(model: Module) -> Iterator[None]:
    """Buffers and random numbers are as before after the block, in which buffers have memory of their own."""
    numbers = get_rng_state()
    places = [(vars(module), name) for module in model.modules() for name in module._buffers]
    tensors = [own[name] for own, name in places]
    arrays = [tensor._array for tensor in tensors]
    for tensor, array in zip(tensors, arrays, strict=True):
        tensor._array = array.device.graph.copy(array)  # never computed, unless something is written into it
    try:
        yield
    finally:
        for (own, name), tensor, array in zip(places, tensors, arrays, strict=True):
            tensor._array = array
            own[name] = tensor
        set_rng_state(numbers)


def _observed(model: Module, arguments: Sequence[Any], kwargs: Mapping[str, Any]) -> Summary:
    """Run the model and look on; changes context variables."""
    tape = Tape()
    products: Counter[str | None] = Counter()
    ran: dict[str, tuple[Module, tuple[Shape, ...]]] = {}

    def look(module: Module, out: Any) -> None:
        ran[running_layer.get() or ""] = module, tuple(_shapes(out))

    _root.set(None)
    running_layer.set(None)
    work.set(products)
    onlooker.set(look)
    with ExitStack() as stack:
        for device in devices.opened():
            stack.enter_context(device.graph.held())
        stack.enter_context(recording_on(tape))
        model(*arguments, **kwargs)
    kept = _kept(tape)
    tape.clear()

    rows = []
    counted: set[int] = set()
    modules = dict(model.named_modules())
    for path in dict.fromkeys([*modules, *ran]):
        module, shapes = ran[path] if path in ran else (modules[path], ())
        own = [t for t in module.parameters(recurse=False) if id(t) not in counted]
        counted |= {id(t) for t in own}
        rows.append(
            LayerRow(
                path,
                type(module).__name__,
                shapes,
                sum(t.size for t in own),
                sum(t.size for t in own if t.requires_grad),
                products[path],
                kept[path],
            )
        )
    return Summary(tuple(rows))


def _shapes(out: Any) -> Iterator[Shape]:
    """Of the tensors in what a module returned."""
    if isinstance(out, Tensor):
        yield out.shape
    elif isinstance(out, (tuple, list)):
        for item in out:
            yield from _shapes(item)
    elif isinstance(out, Mapping):
        yield from _shapes(list(out.values()))


def _kept(tape: Tape) -> Counter[str | None]:
    """Bytes that only the tape keeps alive, by the layer whose node is the first to do so."""
    found = reach(tape)
    kept: Counter[str | None] = Counter()
    for storage, i in (*found.values.items(), *found.fields.items()):
        if storage not in found.held_outside:
            kept[tape.nodes[i].layer] += storage.block_bytes
    return kept


def _figure(n: int) -> str:
    """Exact with up to nine digits, else with three decimals and a unit."""
    if n < 10**9:
        return f"{n:,}"
    unit = next(i for i in range(3) if n < 10 ** (12 + 3 * i) or i == 2)
    return f"{n / 10 ** (9 + 3 * unit):,.3f} {'GTP'[unit]}"


def _line(label: str, output: str, *figures: str) -> str:
    cells = [_cut(label, LABEL).ljust(LABEL), _cut(output, OUTPUT).ljust(OUTPUT)]
    return "".join([*cells, *(figure.rjust(FIGURE) for figure in figures)])


def _cut(text: str, width: int) -> str:
    return text if len(text) < width else text[: width - 4] + "..."


__all__ = ["LayerRow", "Summary", "summary"]
