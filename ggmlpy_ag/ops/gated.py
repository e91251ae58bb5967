"""Gated linear units: one half of the elements along an axis opens and closes the other. Each rule saves x."""

from __future__ import annotations

from collections.abc import Callable

from ..backend import primitives as prim
from ..backend.array import Array
from ..backend.primitives import Primitive
from ..tape import record
from ..tensor import Tensor, TensorLike
from .activation import sigmoid
from .base import binary, floats, one_axis, result, unary, wide
from .join import concat
from .moving import cut
from .swish import gelu, gelu_slope, silu, silu_slope

Halves = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


def glu(x: TensorLike, axis: int = -1) -> Tensor:
    """a * sigmoid(b), a being the first half of x along an axis and b, the gate, the second (Dauphin et al. 2017).

    Args:
        x: floats of any shape but a scalar, with an even extent along the axis.
        axis: which is halved; negative ones count from the last.

    Returns:
        half as many elements along the axis.

    Raises:
        ValueError: the extent is odd. IndexError: there is no such axis. TypeError: int32, or what is no number.

    >>> ag.glu([2.0, 4.0, 0.0, np.inf]).tolist()
    [1.0, 4.0]
    """

    def grad(g: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        gate = sigmoid(b)
        return g * gate, g * a * (gate * (1.0 - gate))

    return _gated("glu", x, axis, prim.SIGMOID, 1, grad)


def swiglu(x: TensorLike, axis: int = -1) -> Tensor:
    """silu(a) * b, a, the gate, being the first half of x along an axis and b the second (SwiGLU, Shazeer 2020).

    With x = concat(h @ W, h @ V) it is Shazeer's Swish(h W) * (h V); mind that in `glu` the second half is the gate.

    Args:
        x: floats of any shape but a scalar, with an even extent along the axis.
        axis: which is halved; negative ones count from the last.

    Returns:
        half as many elements along the axis.

    Raises:
        ValueError: the extent is odd. IndexError: there is no such axis. TypeError: int32, or what is no number.

    >>> ag.swiglu([[100.0, 0.0, 2.0, 3.0]]).tolist()
    [[200.0, 0.0]]
    """
    return _gated("swiglu", x, axis, prim.SILU, 0, lambda g, a, b: (g * b * silu_slope(a), g * silu(a)))


def geglu(x: TensorLike, axis: int = -1) -> Tensor:
    """gelu(a) * b, a, the gate, being the first half of x along an axis and b the second (GEGLU, Shazeer 2020).

    With x = concat(h @ W, h @ V) it is Shazeer's GELU(h W) * (h V); mind that in `glu` the second half is the gate.

    Args:
        x: floats of any shape but a scalar, with an even extent along the axis.
        axis: which is halved; negative ones count from the last.

    Returns:
        half as many elements along the axis.

    Raises:
        ValueError: the extent is odd. IndexError: there is no such axis. TypeError: int32, or what is no number.

    >>> ag.geglu([[100.0, 0.0, 2.0, 3.0]]).tolist()
    [[200.0, 0.0]]
    """
    return _gated("geglu", x, axis, prim.GELU_ERF, 0, lambda g, a, b: (g * b * gelu_slope(a), g * gelu(a)))


def _gated(op: str, x: TensorLike, axis: int, primitive: Primitive, gate: int, slopes: Halves) -> Tensor:
    """The gate (half 0 or 1), through a primitive, times the other half; `slopes` gives the gradients of both."""
    (x,) = floats(op, x)
    i = one_axis(op, axis, x.ndim)
    n = x.shape[i]
    if n % 2:
        raise ValueError(f"{op}: axis {axis} of shape {x.shape} must have an even extent, to be halved")
    whole = wide(x)
    halves: list[Array] = [cut(whole, i, 0, n // 2), cut(whole, i, n // 2, n)]
    out = result(binary(op, prim.MUL, unary(primitive, halves[gate]), halves[1 - gate]), x)
    first, second = ((slice(None),) * i + (slice(start, start + n // 2),) for start in (0, n // 2))
    return record(op, out, (x,), lambda g: (concat(slopes(g, x[first], x[second]), i),))


__all__ = ["geglu", "glu", "swiglu"]
