"""Reductions other than sums and extremes."""

from __future__ import annotations

import math
from math import prod as product
from typing import Any

from ..backend import primitives as prim
from ..backend.array import FLOAT, Array, Shape
from ..tape import record
from ..tensor import Axes, Tensor, TensorLike
from . import base
from .base import binary, clamped, floats, number, packed, result, scaled, some_axes, unary, wide
from .functions import abs, exp, sign
from .join import concat
from .order import LARGEST, greatest, row_max, shares
from .reduce import _splits, _sum, mean
from .rows import as_rows
from .shape import astype

LEAST = 1.1754943508222875e-38  # normal float32


def _shapes(shape: Shape, axes: tuple[int, ...], keepdims: bool) -> tuple[Shape, Shape]:
    """With the reduced axes kept, and as the result has them."""
    kept = tuple([1 if i in axes else n for i, n in enumerate(shape)])
    return kept, kept if keepdims else tuple([n for i, n in enumerate(shape) if i not in axes])


def var(x: TensorLike, axis: Axes = None, keepdims: bool = False, correction: float = 1) -> Tensor:
    """Variance over some axes (all by default): sum((x - mean)**2) / (n - correction), of n elements.

    Computed from the differences from the mean, whose own rounding error is corrected for (Chan, Golub and LeVeque
    1983). With n <= correction it is NaN, or infinite where not all elements are equal.

    Args:
        x: float32, float16 or bfloat16, any shape.
        axis: an axis or several, negative ones counted from the last.
        keepdims: leave the reduced axes in the shape, with extent 1.
        correction: 1 (Bessel's) is PyTorch's default; 0 is NumPy's, which calls it ddof.

    Raises:
        IndexError: there is no such axis. ValueError: an axis is named twice, correction is not finite.
        TypeError: the axis is no integer, correction no number.

    >>> ag.var([1.0, 2.0, 3.0]).item()
    1.0
    >>> ag.var([[1.0, 3.0], [5.0, 5.0]], axis=1, correction=0).tolist()
    [1.0, 0.0]
    """
    (x,) = floats("var", x)
    axes = some_axes("var", axis, x.ndim)
    factor = _factor("var", x.shape, axes, correction)
    kept, shape = _shapes(x.shape, axes, keepdims)
    out = result(_variance(wide(x), axes, factor).reshaped(shape), x)
    return record("var", out, (x,), lambda g: (_centered(x, axes) * (g.reshape(kept) * (2.0 * factor)),))


def std(x: TensorLike, axis: Axes = None, keepdims: bool = False, correction: float = 1) -> Tensor:
    """Standard deviation over some axes (all by default): the square root of `var`.

    The gradient is 0 where the deviation is, as in PyTorch.

    Args:
        x: float32, float16 or bfloat16, any shape.
        axis: an axis or several, negative ones counted from the last.
        keepdims: leave the reduced axes in the shape, with extent 1.
        correction: 1 (Bessel's) is PyTorch's default; 0 is NumPy's, which calls it ddof.

    Raises:
        IndexError: there is no such axis. ValueError: an axis is named twice, correction is not finite.
        TypeError: the axis is no integer, correction no number.

    >>> ag.std([1.0, 2.0, 3.0]).item()
    1.0
    >>> ag.std([[1.0, 5.0], [7.0, 7.0]], axis=1, correction=0).tolist()
    [2.0, 0.0]
    """
    (x,) = floats("std", x)
    axes = some_axes("std", axis, x.ndim)
    factor = _factor("std", x.shape, axes, correction)
    kept, shape = _shapes(x.shape, axes, keepdims)
    out = result(unary(prim.SQRT, _variance(wide(x), axes, factor)).reshaped(shape), x)
    return record("std", out, (x,), lambda g: (_centered(x, axes) * (g * factor / _nonzero(out)).reshape(kept),))


def _factor(op: str, shape: Shape, axes: tuple[int, ...], correction: Any) -> float:
    value = number(correction)
    if value is None:
        raise TypeError(f"{op}: correction must be a number, not {type(correction).__name__}")
    if not math.isfinite(value):
        raise ValueError(f"{op}: correction must be finite, not {value}")
    count = product(shape[i] for i in axes) - value
    return 1.0 / count if count > 0 else math.inf


def _variance(a: Array, axes: tuple[int, ...], factor: float) -> Array:
    n = product(a.shape[i] for i in axes)
    from_mean = binary("var", prim.SUB, a, scaled(_sum(a, axes), 1.0 / n))
    rest = scaled(unary(prim.SQUARE, _sum(from_mean, axes)), 1.0 / n)  # 0, but for the rounding of the mean
    return scaled(binary("var", prim.SUB, _sum(unary(prim.SQUARE, from_mean), axes), rest), factor)


def _centered(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    x = astype(x, FLOAT)
    return x - mean(x, axes, keepdims=True)


def _nonzero(x: Tensor) -> Tensor:
    """1 instead of 0, to divide what is 0 itself."""
    return x + (1.0 - abs(sign(x)))


# ---------------------------------------------------------------- norms


def norm(x: TensorLike, ord: float = 2, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The p-norm of the elements over some axes (all by default): sum(|x|**p) ** (1/p), as `torch.linalg.vector_norm`.

    Neither large nor small elements are lost: they are measured in units of their size. The gradient of a norm that is
    0 is 0, and so is that of an element 0, as in PyTorch; for p = inf, the greatest elements share it evenly.

    Args:
        x: float32, float16 or bfloat16, any shape.
        ord: p, any number above 0; `math.inf` for the greatest magnitude.
        axis: an axis or several, negative ones counted from the last.
        keepdims: leave the reduced axes in the shape, with extent 1.

    Raises:
        IndexError: there is no such axis. ValueError: an axis is named twice, p is not above 0.
        TypeError: the axis is no integer, p no number.

    >>> ag.norm([3.0, -4.0]).item()
    5.0
    >>> ag.norm([[1.0, -2.0], [3.0, 4.0]], ord=1, axis=1).tolist()
    [3.0, 7.0]
    """
    (x,) = floats("norm", x)
    p = number(ord)
    if p is None:
        raise TypeError(f"norm: ord must be a number, not {type(ord).__name__}")
    if not p > 0:
        raise ValueError(f"norm: ord must be above 0, not {ord}")
    axes = some_axes("norm", axis, x.ndim)
    kept, shape = _shapes(x.shape, axes, keepdims)
    out = result(_norm(wide(x), p, axes).reshaped(shape), x)
    if p == 1.0:
        return record("norm", out, (x,), lambda g: (g.reshape(kept) * sign(x),))

    def grad(g: Tensor) -> tuple[Tensor]:
        g, size = g.reshape(kept), out.reshape(kept)
        if p == math.inf:
            return (g * sign(x) * Tensor(shares(unary(prim.ABS, wide(x)), base.packed(wide(size)), axes)),)
        if p == 2.0:
            return (x * (g / _nonzero(size)),)
        return (g * sign(x) * _nonzero(abs(x) / _nonzero(size)) ** (p - 1.0),)

    return record("norm", out, (x,), grad)


def _norm(a: Array, p: float, axes: tuple[int, ...]) -> Array:
    if p in (1.0, 2.0):
        sizes = _sum(unary(prim.ABS, a), axes)
        if p == 1.0:
            return sizes
        unit = clamped(sizes, LEAST, LARGEST)  # at most as many times the norm as there are elements
        squares = unary(prim.SQUARE, binary("norm", prim.DIV, a, unit))
        return binary("norm", prim.MUL, unit, unary(prim.SQRT, _sum(squares, axes)))
    rows = unary(prim.ABS, as_rows(a, axes))
    if p == math.inf:
        return greatest(rows)
    unit = clamped(row_max(rows), LEAST, LARGEST)
    logs = unary(prim.LOG, binary("norm", prim.DIV, rows, unit))
    total = _sum(unary(prim.EXP, scaled(logs, p)), (1,))
    return binary("norm", prim.MUL, unit, unary(prim.EXP, scaled(unary(prim.LOG, total), 1.0 / p)))


def logsumexp(x: TensorLike, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """log(sum(exp(x))) over some axes (all by default), computed from x minus its maximum: finite wherever it is.

    -inf where all elements are, inf where one is; NaN is the gradient there, as in PyTorch.

    Args:
        x: float32, float16 or bfloat16, any shape.
        axis: an axis or several, negative ones counted from the last.
        keepdims: leave the reduced axes in the shape, with extent 1.

    Raises:
        IndexError: there is no such axis. ValueError: an axis is named twice. TypeError: the axis is no integer.

    >>> ag.logsumexp([1000.0, -1000.0]).item()
    1000.0
    """
    (x,) = floats("logsumexp", x)
    axes = some_axes("logsumexp", axis, x.ndim)
    kept, shape = _shapes(x.shape, axes, keepdims)
    rows = as_rows(wide(x), axes)
    top = clamped(row_max(rows), -LARGEST, LARGEST)
    total = _sum(unary(prim.EXP, binary("logsumexp", prim.SUB, rows, top)), (1,))
    out = result(binary("logsumexp", prim.ADD, unary(prim.LOG, total), top).reshaped(shape), x)
    return record("logsumexp", out, (x,), lambda g: (g.reshape(kept) * exp(x - out.reshape(kept)),))


# ---------------------------------------------------------------- products


def prod(x: TensorLike, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Product over some axes (all by default), of halves and halves of halves.

    The gradient of an element is the product of the others, computed without a division: right where elements are 0.

    Args:
        x: float32, float16 or bfloat16, any shape.
        axis: an axis or several, negative ones counted from the last.
        keepdims: leave the reduced axes in the shape, with extent 1.

    Raises:
        IndexError: there is no such axis. ValueError: an axis is named twice. TypeError: the axis is no integer.

    >>> ag.prod([[1.0, 2.0], [3.0, 4.0]]).item()
    24.0
    >>> ag.prod([[1.0, 2.0], [3.0, 4.0]], axis=0).tolist()
    [3.0, 8.0]
    """
    (x,) = floats("prod", x)
    axes = some_axes("prod", axis, x.ndim)
    _, shape = _shapes(x.shape, axes, keepdims)
    a = wide(x)
    for split in _splits(a.shape, axes):
        a = _product(base.reshaped(a, split))
    out = result(base.reshaped(a, shape), x)

    def grad(g: Tensor) -> tuple[Tensor]:
        rest = [i for i in range(x.ndim) if i not in axes]
        order = [*rest, *axes]
        moved = astype(x, FLOAT).permute(order)
        n = product(x.shape[i] for i in axes)
        parts = _product_grad(moved.reshape(-1, n), astype(g, FLOAT).reshape(-1, 1))
        return (parts.reshape(moved.shape).permute([order.index(i) for i in range(x.ndim)]),)

    return record("prod", out, (x,), grad)


def _product(a: Array) -> Array:
    """(outer, n, inner) -> (outer, 1, inner)."""
    outer, n, inner = a.shape
    odd: Array | None = None
    while n > 1:
        half = n // 2
        row, halves = n * inner, (outer, half * inner)
        if n % 2:
            last = packed(a.view((outer, inner), (row, 1), a.offset + (n - 1) * inner))
            odd = last if odd is None else binary("prod", prim.MUL, last, odd)
        first, second = a.view(halves, (row, 1)), a.view(halves, (row, 1), a.offset + half * inner)
        a = binary("prod", prim.MUL, first, second)
        n = half
    a = a.reshaped((outer, inner))
    return (a if odd is None else binary("prod", prim.MUL, a, odd)).reshaped((outer, 1, inner))


def _product_grad(x: Tensor, g: Tensor) -> Tensor:
    """(rows, n), and the gradient of each row's product -> (rows, n)."""
    n = x.shape[1]
    if n == 1:
        return g
    half = n // 2
    a, b = x[:, :half], x[:, half : 2 * half]
    pairs = a * b
    if n % 2 == 0:
        g = _product_grad(pairs, g)
        return concat([g * b, g * a], 1)
    grads = _product_grad(concat([pairs, x[:, n - 1 :]], 1), g)
    g = grads[:, :half]
    return concat([g * b, g * a, grads[:, half:]], 1)


__all__ = ["logsumexp", "norm", "prod", "std", "var"]
