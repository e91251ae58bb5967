"""Choosing between elements."""

from __future__ import annotations

import numpy as np

from ..backend import primitives as prim
from ..backend.array import FLOAT, INT, Array
from ..tape import record
from ..tensor import Tensor, TensorLike, as_numpy
from . import base
from .base import binary, expanded, floats, number, packed, result, scaled, unary, wide
from .compare import eq, gt, lt, order
from .reduce import sum_to
from .rows import concat

PART = 1 << 22  # elements chosen at once on Vulkan: bounds the memory for it, and no tensor of pairs gets too large


def where(condition: TensorLike, a: TensorLike, b: TensorLike) -> Tensor:
    """a where the condition is not 0, else b, exactly: what is not chosen leaves no trace, be it NaN or infinite.

    So it is with gradients: what was not chosen gets 0, even where the gradient of the result is NaN or infinite.

    Args:
        condition: a tensor of floats or int32, or a host array or number, also of bools. NaN is not 0.
        a: floats, or a number.
        b: floats, or a number. The three shapes broadcast.

    Raises:
        ValueError: the shapes do not broadcast, or the tensors are on different devices.
        TypeError: int32 to choose from, or what is no number.

    >>> ag.where([True, False, True], [1.0, np.nan, 3.0], 0.0).tolist()
    [1.0, 0.0, 3.0]
    >>> x = ag.tensor([4.0, -4.0])
    >>> ag.where(ag.gt(x, 0.0), ag.sqrt(x), 0.0).tolist()
    [2.0, 0.0]
    """
    return _where("where", condition, a, b)


def masked_fill(x: TensorLike, mask: TensorLike, value: float) -> Tensor:
    """x with a number in its place where the mask is not 0: `where(mask, value, x)`.

    Args:
        x: floats.
        mask: a tensor of floats or int32, or a host array or number, also of bools. The shapes broadcast.
        value: a number.

    Raises:
        ValueError: the shapes do not broadcast, or the tensors are on different devices.
        TypeError: x is int32, or value is no number.

    >>> ag.masked_fill([[1.0, 2.0], [3.0, 4.0]], [True, False], -np.inf).tolist()
    [[-inf, 2.0], [-inf, 4.0]]
    """
    fill = number(value)
    if fill is None:
        raise TypeError(f"masked_fill: value must be a number, not {type(value).__name__}: use where")
    return _where("masked_fill", mask, fill, x)


def _where(op: str, condition: TensorLike, a: TensorLike, b: TensorLike) -> Tensor:
    is_number = number(a) is not None, number(b) is not None
    mask, a, b = floats(op, _as_floats(op, condition), a, b)
    shape = base.broadcast(op, mask.shape, a.shape, b.shape)
    known = not isinstance(condition, Tensor)  # to be 0 or 1
    first = wide(mask) if known else scaled(_zero_mask(wide(mask)), -1.0, 1.0)
    array = _choose(*(_spread(v, shape) for v in (first, wide(a), wide(b))))
    typed = [x for x, without_type in zip((a, b), is_number, strict=True) if not without_type]
    out = result(array, *(typed or (a,)))
    kept = mask if known else condition
    shape_a, shape_b = a.shape, b.shape
    to_a, to_b = a.requires_grad, b.requires_grad

    def grad(g: Tensor) -> tuple[Tensor | None, Tensor | None]:
        return (
            sum_to(_where(op, kept, g, 0.0), shape_a) if to_a else None,
            sum_to(_where(op, kept, 0.0, g), shape_b) if to_b else None,
        )

    return record(op, out, (a, b), grad)


def _as_floats(op: str, condition: TensorLike) -> TensorLike:
    """A condition as floats; 1 and 0 where it comes from the host."""
    if isinstance(condition, Tensor):
        return Tensor(base.cast(condition._array, FLOAT)) if condition._array.dtype is INT else condition
    value = number(condition)
    if value is not None:
        return float(value != 0.0)
    as_numpy(condition, FLOAT, f"{op}: a condition")
    true = np.not_equal(condition, 0)  # of the numbers as given: float32 may have 0 for one
    return np.asarray(true, np.float32)


def minimum(a: TensorLike, b: TensorLike) -> Tensor:
    """The lesser of two elements, NaN where one is NaN.

    Where they are equal each gets half of the gradient, as in PyTorch.

    Args:
        a: floats of any shape, or a number.
        b: floats of a shape that broadcasts with that of a, or a number.

    Raises:
        ValueError: the shapes do not broadcast, or the tensors are on different devices.
        TypeError: int32, or what is no number.

    >>> ag.minimum([1.0, 5.0, np.nan], 2.0).tolist()
    [1.0, 2.0, nan]
    """
    return _extreme("minimum", a, b)


def maximum(a: TensorLike, b: TensorLike) -> Tensor:
    """The greater of two elements, NaN where one is NaN.

    Where they are equal each gets half of the gradient, as in PyTorch.

    Args:
        a: floats of any shape, or a number.
        b: floats of a shape that broadcasts with that of a, or a number.

    Raises:
        ValueError: the shapes do not broadcast, or the tensors are on different devices.
        TypeError: int32, or what is no number.

    >>> ag.maximum([1.0, 5.0, np.nan], 2.0).tolist()
    [2.0, 5.0, nan]
    """
    return _extreme("maximum", a, b)


def _extreme(op: str, a: TensorLike, b: TensorLike) -> Tensor:
    is_number = number(a) is not None, number(b) is not None
    a, b = floats(op, a, b)
    shape = base.broadcast(op, a.shape, b.shape)
    x, y = _spread(wide(a), shape), _spread(wide(b), shape)
    beaten = order(op, x, y) if op == "minimum" else order(op, y, x)  # above 0 where b is taken
    first = scaled(unary(prim.RELU, beaten), -1.0, 1.0)
    typed = [v for v, without_type in zip((a, b), is_number, strict=True) if not without_type]
    out = result(base.nan_kept(_choose(first, x, y), y), *(typed or (a,)))
    saved_a, saved_b = a, b

    def grad(g: Tensor) -> tuple[Tensor | None, Tensor | None]:
        beyond, within = (gt, lt) if op == "minimum" else (lt, gt)
        part = g * (1.0 - eq(saved_a, saved_b) * 0.5)
        return (
            sum_to(masked_fill(part, beyond(saved_a, saved_b), 0.0), saved_a.shape) if saved_a.requires_grad else None,
            sum_to(masked_fill(part, within(saved_a, saved_b), 0.0), saved_b.shape) if saved_b.requires_grad else None,
        )

    return record(op, out, (a, b), grad)


# ---------------------------------------------------------------- on arrays


def _spread(a: Array, shape: tuple[int, ...]) -> Array:
    return packed(a) if a.shape == shape else expanded(a, shape)


def _zero_mask(a: Array) -> Array:
    """1 where a is 0, else 0, NaN being other than 0."""
    # |a| times 2**160 is beyond 1 for any other number; relu(NaN) is 0
    return unary(prim.RELU, scaled(scaled(unary(prim.ABS, a), 2.0**100), -(2.0**60), 1.0))


def _choose(first: Array, a: Array, b: Array) -> Array:
    """a where the first is 1, b where it is 0, -0, infinities and NaN included; packed arrays of one shape."""
    second = scaled(first, -1.0, 1.0)
    if not a.device.is_cpu:
        flat = [v.reshaped((v.size,)) for v in (second, first, a, b)]
        return _by_rows(*flat).reshaped(a.shape)
    graph = a.device.graph
    # The zeros in place of what is not chosen have such signs that adding them changes no -0.
    from_a, from_b = (
        graph.record(prim.REGLU, (mask, unary(prim.NEG, v)), a.shape, FLOAT) for mask, v in ((first, a), (second, b))
    )
    return binary("choose", prim.SUB, unary(prim.NEG, from_a), from_b)


def _by_rows(second: Array, first: Array, a: Array, b: Array) -> Array:
    """What takes the first place when a[i] goes to place second[i], and b[i] to place first[i]."""
    (n,) = a.shape
    if n > PART:
        cut = (n // PART + 1) // 2 * PART
        arrays = second, first, a, b
        head, tail = (
            _by_rows(*(v.view((stop - start,), (1,), v.offset + start) for v in arrays))
            for start, stop in ((0, cut), (cut, n))
        )
        return concat(head, tail, 0)
    places = base.cast(concat(second, first, 0), INT).view((n, 2), (1, n))
    pairs = concat(a, b, 0).view((n, 2, 1), (1, n, 1))
    placed = a.device.graph.record(prim.SET_ROWS, (pairs, places), (n, 2, 1), FLOAT, n, 2, 1)
    return packed(placed.view((n,), (2,)))


__all__ = ["masked_fill", "maximum", "minimum", "where"]
