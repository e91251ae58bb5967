"""Activation functions as layers. Each keeps the shape, but for the gated ones, which halve an axis."""

from __future__ import annotations

from typing import Any

from ..ops.activation import (
    elu,
    hardsigmoid,
    leaky_relu,
    log_softmax,
    relu,
    sigmoid,
    softmax,
    softplus,
    tanh,
)
from ..ops.base import integer
from ..ops.gated import geglu, glu, swiglu
from ..ops.swish import gelu, hardswish, mish, silu
from ..tensor import Tensor, TensorLike
from .arguments import sample
from .module import Module


class Identity(Module):
    """The input itself. Takes any arguments, to stand in for a layer.

    >>> ag.nn.Identity(54, unused=True)(ag.tensor([1.0])).tolist()
    [1.0]
    """

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def forward(self, x: Any) -> Any:
        """Anything -> itself."""
        return x


class ReLU(Module):
    """max(x, 0); see `ag.relu`."""

    def forward(self, x: TensorLike) -> Tensor:
        """Any shape -> the same."""
        return relu(x)


class LeakyReLU(Module):
    """x above 0, and x * negative_slope below; see `ag.leaky_relu`.

    Args:
        negative_slope: a finite number.

    Raises:
        ValueError: the slope is not finite. TypeError: it is no number.
    """

    def __init__(self, negative_slope: float = 0.01) -> None:
        self.negative_slope = negative_slope
        self.forward(sample())  # checks it, as in all layers here

    def forward(self, x: TensorLike) -> Tensor:
        """Any shape -> the same."""
        return leaky_relu(x, self.negative_slope)

    def extra_repr(self) -> str:
        """The slope."""
        return f"negative_slope={self.negative_slope}"


class ELU(Module):
    """x above 0, and alpha * (exp(x) - 1) below; see `ag.elu`.

    Args:
        alpha: a finite number from 0 on.

    Raises:
        ValueError: alpha is negative or not finite. TypeError: it is no number.
    """

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha
        self.forward(sample())

    def forward(self, x: TensorLike) -> Tensor:
        """Any shape -> the same."""
        return elu(x, self.alpha)

    def extra_repr(self) -> str:
        """The limit."""
        return f"alpha={self.alpha}"


class GELU(Module):
    """x * Phi(x), Phi being the normal distribution function; see `ag.gelu`.

    Args:
        approximate: "none", or "tanh" for an approximation by it.

    Raises:
        ValueError: approximate is neither.
    """

    def __init__(self, approximate: str = "none") -> None:
        self.approximate = approximate
        self.forward(sample())

    def forward(self, x: TensorLike) -> Tensor:
        """Any shape -> the same."""
        return gelu(x, self.approximate)

    def extra_repr(self) -> str:
        """How it is computed."""
        return f"approximate={self.approximate!r}"


class SiLU(Module):
    """x * sigmoid(x), also called swish; see `ag.silu`."""

    def forward(self, x: TensorLike) -> Tensor:
        """Any shape -> the same."""
        return silu(x)


class Mish(Module):
    """x * tanh(softplus(x)); see `ag.mish`."""

    def forward(self, x: TensorLike) -> Tensor:
        """Any shape -> the same."""
        return mish(x)


class Softplus(Module):
    """log(1 + exp(beta * x)) / beta, and x where beta * x is above the threshold; see `ag.softplus`.

    Args:
        beta: a finite number other than 0.
        threshold: a number from 0 on.

    Raises:
        ValueError: a number out of its range. TypeError: no number.
    """

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        self.beta, self.threshold = beta, threshold
        self.forward(sample())

    def forward(self, x: TensorLike) -> Tensor:
        """Any shape -> the same."""
        return softplus(x, self.beta, self.threshold)

    def extra_repr(self) -> str:
        """The arguments."""
        return f"beta={self.beta}, threshold={self.threshold}"


class Hardswish(Module):
    """x * hardsigmoid(x); see `ag.hardswish`."""

    def forward(self, x: TensorLike) -> Tensor:
        """Any shape -> the same."""
        return hardswish(x)


class Hardsigmoid(Module):
    """x / 6 + 1/2, limited to [0, 1]; see `ag.hardsigmoid`."""

    def forward(self, x: TensorLike) -> Tensor:
        """Any shape -> the same."""
        return hardsigmoid(x)


class Sigmoid(Module):
    """1 / (1 + exp(-x)); see `ag.sigmoid`."""

    def forward(self, x: TensorLike) -> Tensor:
        """Any shape -> the same."""
        return sigmoid(x)


class Tanh(Module):
    """The hyperbolic tangent; see `ag.tanh`."""

    def forward(self, x: TensorLike) -> Tensor:
        """Any shape -> the same."""
        return tanh(x)


class _OfAxis(Module):
    def __init__(self, axis: int = -1) -> None:
        self.axis = integer(type(self).__name__, "axis", axis)

    def extra_repr(self) -> str:
        """The axis."""
        return f"axis={self.axis}"


class Softmax(_OfAxis):
    """exp(x) / sum(exp(x)) along an axis; see `ag.softmax`.

    Args:
        axis: which sums to 1; negative ones count from the last.

    Raises:
        TypeError: the axis is no integer.

    >>> ag.nn.Softmax()([[0.0, 0.0], [5.0, -np.inf]]).tolist()
    [[0.5, 0.5], [1.0, 0.0]]
    """

    def forward(self, x: TensorLike) -> Tensor:
        """Any shape but a scalar -> the same."""
        return softmax(x, self.axis)


class LogSoftmax(_OfAxis):
    """log(softmax(x)) along an axis; see `ag.log_softmax`.

    Args:
        axis: whose probabilities sum to 1; negative ones count from the last.

    Raises:
        TypeError: the axis is no integer.
    """

    def forward(self, x: TensorLike) -> Tensor:
        """Any shape but a scalar -> the same."""
        return log_softmax(x, self.axis)


class GLU(_OfAxis):
    """a * sigmoid(b), a and b being the halves of x along an axis; see `ag.glu`.

    Args:
        axis: which is halved, of even extent; negative ones count from the last.

    Raises:
        TypeError: the axis is no integer.

    >>> ag.nn.GLU()([2.0, 4.0, 0.0, np.inf]).tolist()
    [1.0, 4.0]
    """

    def forward(self, x: TensorLike) -> Tensor:
        """Any shape but a scalar -> half as many elements along the axis."""
        return glu(x, self.axis)


class GEGLU(_OfAxis):
    """gelu(a) * b, a and b being the halves of x along an axis; see `ag.geglu`.

    Args:
        axis: which is halved, of even extent; negative ones count from the last.

    Raises:
        TypeError: the axis is no integer.
    """

    def forward(self, x: TensorLike) -> Tensor:
        """Any shape but a scalar -> half as many elements along the axis."""
        return geglu(x, self.axis)


class SwiGLU(_OfAxis):
    """silu(a) * b, a and b being the halves of x along an axis; see `ag.swiglu`.

    Args:
        axis: which is halved, of even extent; negative ones count from the last.

    Raises:
        TypeError: the axis is no integer.
    """

    def forward(self, x: TensorLike) -> Tensor:
        """Any shape but a scalar -> half as many elements along the axis."""
        return swiglu(x, self.axis)


__all__ = [
    "ELU", "GEGLU", "GELU", "GLU", "Hardsigmoid", "Hardswish", "Identity", "LeakyReLU", "LogSoftmax", "Mish", "ReLU",
    "SiLU", "Sigmoid", "Softmax", "Softplus", "SwiGLU", "Tanh",
]  # fmt: skip
