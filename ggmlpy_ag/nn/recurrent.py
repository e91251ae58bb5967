"""Recurrent layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ops.activation import sigmoid, tanh
from ..ops.base import floats
from ..ops.join import chunk, concat, split, stack
from ..ops.linalg import linear
from ..ops.random import check_rate, dropout
from ..ops.shape import permute
from ..ops.windows import flag
from ..tensor import Tensor, TensorLike, param
from . import init
from .arguments import count
from .module import Module

State = tuple[Tensor, ...]


class _Recurrent(Module):
    """What GRU and LSTM share: parameters by layer and direction, and the way through layers and time."""

    _gates: int  # how many blocks of hidden_size rows the weights have
    _states: int  # tensors that a cell hands on to its next step, the output first

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = True,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        device: str | None = None,
        dtype: Any = "float32",
    ) -> None:
        kind = type(self).__name__
        self.input_size = count(kind, "input_size", input_size)
        self.hidden_size = count(kind, "hidden_size", hidden_size)
        self.num_layers = count(kind, "num_layers", num_layers)
        self.bias = flag(kind, "bias", bias)
        self.batch_first = flag(kind, "batch_first", batch_first)
        self.dropout = check_rate(kind, "dropout", dropout)
        self.bidirectional = flag(kind, "bidirectional", bidirectional)
        rows, bound = self._gates * self.hidden_size, 1.0 / math.sqrt(self.hidden_size)
        for layer in range(self.num_layers):
            columns = self.hidden_size * self._directions if layer else self.input_size
            shapes: dict[str, tuple[int, ...]] = {"weight_ih": (rows, columns), "weight_hh": (rows, self.hidden_size)}
            if self.bias:
                shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
            for direction in range(self._directions):
                for name, shape in shapes.items():
                    values = init.uniform_(param(np.zeros(shape, np.float32), device, dtype), -bound, bound)
                    setattr(self, _name(name, layer, direction), values)

    def extra_repr(self) -> str:
        """The extents, and whatever else is not the default."""
        usual = {"num_layers": 1, "bias": True, "batch_first": True, "dropout": 0.0, "bidirectional": False}
        rest = [f"{k}={getattr(self, k)}" for k, v in usual.items() if getattr(self, k) != v]
        return ", ".join([str(self.input_size), str(self.hidden_size), *rest])

    @property
    def _directions(self) -> int:
        return 2 if self.bidirectional else 1

    def _cell(self, x: Tensor, state: State, weight: Tensor, bias: Tensor | None) -> State:
        """The state after a step, from the input's part of the gates, (n, gates * hidden_size)."""
        raise NotImplementedError

    def _run(self, x: TensorLike, states: Sequence[TensorLike] | None) -> tuple[Tensor, State]:
        """The outputs of the last layer, and the last states of all layers and directions."""
        x, *given = floats(type(self).__name__, x, *(states or ()))
        self._check(x, given)
        if self.batch_first:
            x = permute(x, 1, 0, 2)
        finals: list[State] = []
        for layer in range(self.num_layers):
            if layer:
                x = dropout(x, self.dropout, self.training)
            outputs = []
            for direction in range(self._directions):
                state = tuple(tensor[len(finals)] for tensor in given) or self._zeros(x)
                output, state = self._through_time(x, state, layer, direction)
                outputs.append(output)
                finals.append(state)
            x = concat(outputs, axis=-1)
        last = tuple(stack(parts) for parts in zip(*finals, strict=True))
        return permute(x, 1, 0, 2) if self.batch_first else x, last

    def _through_time(self, x: Tensor, state: State, layer: int, direction: int) -> tuple[Tensor, State]:
        """(length, n, columns) -> (length, n, hidden_size), and the last state."""
        weights = [getattr(self, _name(name, layer, direction)) for name in ("weight_ih", "weight_hh")]
        biases = [getattr(self, _name(name, layer, direction), None) for name in ("bias_ih", "bias_hh")]
        steps = _steps(linear(x, weights[0], biases[0]))
        outputs = []
        for step in reversed(steps) if direction else steps:
            state = self._cell(step, state, weights[1], biases[1])
            outputs.append(state[0])
        return stack(outputs[::-1] if direction else outputs), state

    def _zeros(self, x: Tensor) -> State:
        zeros = Tensor(x._array.device.full((x.shape[1], self.hidden_size), 0.0)).astype(x.dtype)
        return (zeros,) * self._states

    def _check(self, x: Tensor, states: Sequence[Tensor]) -> None:
        kind = type(self).__name__
        if x.ndim != 3 or x.shape[2] != self.input_size:
            needed = "n, length" if self.batch_first else "length, n"
            raise ValueError(f"{kind}: x must be ({needed}, {self.input_size}), not {x.shape}")
        shape = (self.num_layers * self._directions, x.shape[0 if self.batch_first else 1], self.hidden_size)
        for tensor in states:
            if tensor.shape != shape:
                raise ValueError(f"{kind}: state must have shape {shape} for x of {x.shape}, not {tensor.shape}")


class GRU(_Recurrent):
    """Gated recurrent units (Cho et al. 2014), one layer upon another, in PyTorch's form:

        r = sigmoid(W_ir x + b_ir + W_hr h + b_hr)
        z = sigmoid(W_iz x + b_iz + W_hz h + b_hz)
        n = tanh(W_in x + b_in + r * (W_hn h + b_hn))
        h' = (1 - z) * n + z * h

    The products with x are one for all steps. The first axis of the input counts samples, as everywhere in this
    library, whereas PyTorch's default here is `batch_first=False`.

    Args:
        input_size: extent of the last dimension of the input.
        hidden_size: that of the state.
        num_layers: how many; each takes the output of the one before.
        bias: whether there are b_ih and b_hh.
        batch_first: the input and output are (n, length, ...), or else (length, n, ...). The state does not change.
        dropout: the probability in [0, 1] with which, in training, elements of the output of all layers but the last
            are dropped.
        bidirectional: a second set of units in each layer goes from the end to the beginning; its output follows that
            of the first in the last dimension.
        device: where the parameters are; by default the default device.
        dtype: of the parameters; "float32", "float16" or "bfloat16".

    Attributes:
        weight_ih_l0, weight_hh_l0: (3 * hidden_size, input_size) and (3 * hidden_size, hidden_size) of layer 0, the
            rows of r, z and n in turn; those of further layers take hidden_size columns for each direction. All
            parameters are at first uniform in +-1 / sqrt(hidden_size).
        bias_ih_l0, bias_hh_l0: (3 * hidden_size,); with `bias`.
        weight_ih_l0_reverse, ...: those of the second direction.

    Raises:
        ValueError: an extent below 1, dropout outside [0, 1], or an unknown device. TypeError: extents that are no
        integers, flags that are no bools, another dtype.

    >>> output, state = ag.nn.GRU(10, 20, num_layers=2)(ag.rand(3, 5, 10))
    >>> output.shape, state.shape
    ((3, 5, 20), (2, 3, 20))
    """

    _gates, _states = 3, 1

    def forward(self, x: TensorLike, state: TensorLike | None = None) -> tuple[Tensor, Tensor]:
        """The states of the last layer at each step, and those of all layers after the last step.

        Args:
            x: (n, length, input_size), or (length, n, input_size) without `batch_first`.
            state: (num_layers * directions, n, hidden_size) to begin with; zeros by default.

        Returns:
            (n, length, directions * hidden_size), or (length, n, ...); and the new state.

        Raises:
            ValueError: another shape, or operands on different devices. TypeError: operands that are not of floats.
        """
        output, (last,) = self._run(x, None if state is None else (state,))
        return output, last

    def _cell(self, x: Tensor, state: State, weight: Tensor, bias: Tensor | None) -> State:
        (h,) = state
        sizes = (2 * self.hidden_size, self.hidden_size)
        x_rz, x_n = split(x, sizes, -1)
        h_rz, h_n = split(linear(h, weight, bias), sizes, -1)
        r, z = chunk(sigmoid(x_rz + h_rz), 2, -1)
        n = tanh(x_n + r * h_n)
        return (n + z * (h - n),)


class LSTM(_Recurrent):
    """Long short-term memory (Hochreiter and Schmidhuber 1997), one layer upon another, in PyTorch's form:

        i = sigmoid(W_ii x + b_ii + W_hi h + b_hi)
        f = sigmoid(W_if x + b_if + W_hf h + b_hf)
        g = tanh(W_ig x + b_ig + W_hg h + b_hg)
        o = sigmoid(W_io x + b_io + W_ho h + b_ho)
        c' = f * c + i * g
        h' = o * tanh(c')

    The products with x are one for all steps. The first axis of the input counts samples, as everywhere in this
    library, whereas PyTorch's default here is `batch_first=False`.

    Args:
        input_size: extent of the last dimension of the input.
        hidden_size: that of h and of c.
        num_layers: how many; each takes the output of the one before.
        bias: whether there are b_ih and b_hh.
        batch_first: the input and output are (n, length, ...), or else (length, n, ...). The states do not change.
        dropout: the probability in [0, 1] with which, in training, elements of the output of all layers but the last
            are dropped.
        bidirectional: a second set of units in each layer goes from the end to the beginning; its output follows that
            of the first in the last dimension.
        device: where the parameters are; by default the default device.
        dtype: of the parameters; "float32", "float16" or "bfloat16".

    Attributes:
        weight_ih_l0, weight_hh_l0: (4 * hidden_size, input_size) and (4 * hidden_size, hidden_size) of layer 0, the
            rows of i, f, g and o in turn; those of further layers take hidden_size columns for each direction. All
            parameters are at first uniform in +-1 / sqrt(hidden_size).
        bias_ih_l0, bias_hh_l0: (4 * hidden_size,); with `bias`.
        weight_ih_l0_reverse, ...: those of the second direction.

    Raises:
        ValueError: an extent below 1, dropout outside [0, 1], or an unknown device. TypeError: extents that are no
        integers, flags that are no bools, another dtype.

    >>> output, (h, c) = ag.nn.LSTM(10, 20, bidirectional=True)(ag.rand(3, 5, 10))
    >>> output.shape, h.shape, c.shape
    ((3, 5, 40), (2, 3, 20), (2, 3, 20))
    """

    _gates, _states = 4, 2

    def forward(
        self, x: TensorLike, state: tuple[TensorLike, TensorLike] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """h of the last layer at each step, and h and c of all layers after the last step.

        Args:
            x: (n, length, input_size), or (length, n, input_size) without `batch_first`.
            state: h and c to begin with, (num_layers * directions, n, hidden_size) each; zeros by default.

        Returns:
            (n, length, directions * hidden_size), or (length, n, ...); and the new (h, c).

        Raises:
            ValueError: another shape, or operands on different devices. TypeError: operands that are not of floats, a
            state that is no pair.
        """
        if state is not None and not (isinstance(state, (tuple, list)) and len(state) == 2):
            raise TypeError(f"LSTM: state must be a pair (h, c), not {type(state).__name__}")
        output, (h, c) = self._run(x, state)
        return output, (h, c)

    def _cell(self, x: Tensor, state: State, weight: Tensor, bias: Tensor | None) -> State:
        h, c = state
        i, f, g, o = chunk(x + linear(h, weight, bias), 4, -1)
        c = sigmoid(f) * c + sigmoid(i) * tanh(g)
        return sigmoid(o) * tanh(c), c


def _name(name: str, layer: int, direction: int) -> str:
    """As PyTorch names a parameter."""
    return f"{name}_l{layer}{'_reverse' if direction else ''}"


def _steps(x: Tensor) -> list[Tensor]:
    """x[0], x[1], ... cut out by halves: the gradient of a cut is as large as what it was cut from."""
    if len(x) == 1:
        return [x[0]]
    middle = len(x) // 2
    return [*_steps(x[:middle]), *_steps(x[middle:])]


__all__ = ["GRU", "LSTM"]
