"""Sorting."""

from __future__ import annotations

import numpy as np

from ..backend import primitives as prim
from ..backend.array import FLOAT, INT, Array
from ..tape import record
from ..tensor import Tensor, TensorLike
from . import base
from .base import binary, cast, counting, expanded, floats, integer, one_axis, packed, scaled, unary
from .moving import cut, padded
from .order import differ
from .rows import EXACT, as_rows, from_rows, pick_along
from .rows import argsort as argsort_rows
from .scan import scanned
from .select import gathered

LONGEST = 1 << 23  # elements along the axis: as many as float32 tells apart between a power of two and the next
EXPONENTS = 254  # of normal float32 numbers


def sort(x: TensorLike, axis: int = -1, descending: bool = False) -> tuple[Tensor, Tensor]:
    """The values along an axis in order, and where each was.

    The order is stable: equal values (0 and -0 are equal) stay in theirs. NaN counts as greatest, as in PyTorch, so it
    comes last, or first in descending order. The gradient of a value goes to where that was.

    Args:
        x: float32, float16 or bfloat16, of at least one dimension.
        axis: the axis; negative ones count from the last.
        descending: greatest first.

    Returns:
        Values, and int32 indices along the axis, both of the shape of `x`.

    Raises:
        IndexError: there is no such axis. TypeError: the axis is no integer.
        ValueError: more than 2**23 values along the axis.

    >>> values, indices = ag.sort([3.0, 1.0, 2.0])
    >>> values.tolist(), indices.tolist()
    ([1.0, 2.0, 3.0], [1, 2, 0])
    """
    (x,) = floats("sort", x)
    axis = one_axis("sort", axis, x.ndim)
    index = _index(_order("sort", x, axis, descending), x, axis)
    return _reordered(x, index, axis), index


def argsort(x: TensorLike, axis: int = -1, descending: bool = False) -> Tensor:
    """The indices that put the values along an axis in order; no gradient.

    The order is stable, and NaN counts as greatest, as in `sort`.

    Args:
        x: float32, float16 or bfloat16, of at least one dimension.
        axis: the axis; negative ones count from the last.
        descending: greatest first.

    Returns:
        int32, of the shape of `x`.

    Raises:
        IndexError: there is no such axis. TypeError: the axis is no integer.
        ValueError: more than 2**23 values along the axis.

    >>> ag.argsort([3.0, 1.0, 2.0]).tolist()
    [1, 2, 0]
    >>> ag.argsort([3.0, 1.0, 3.0], descending=True).tolist()
    [0, 2, 1]
    """
    (x,) = floats("argsort", x)
    axis = one_axis("argsort", axis, x.ndim)
    return _index(_order("argsort", x, axis, descending), x, axis)


def topk(x: TensorLike, k: int, axis: int = -1, largest: bool = True) -> tuple[Tensor, Tensor]:
    """The k greatest (or least) values along an axis, in order, and where each was.

    Of equal values the earlier ones are taken first. NaN counts as greatest, as in PyTorch. The gradient of a value
    goes to where that was.

    Args:
        x: float32, float16 or bfloat16, of at least one dimension.
        k: how many, from 1 to the extent of the axis.
        axis: the axis; negative ones count from the last.
        largest: the greatest in descending order; False for the least in ascending order.

    Returns:
        Values, and int32 indices along the axis, of the shape of `x` but for the axis, whose extent is k.

    Raises:
        IndexError: there is no such axis. TypeError: the axis or k is no integer.
        ValueError: k is less than 1 or more than there are; more than 2**23 values along the axis.

    >>> values, indices = ag.topk([3.0, 1.0, 2.0], 2)
    >>> values.tolist(), indices.tolist()
    ([3.0, 2.0], [0, 2])
    """
    (x,) = floats("topk", x)
    axis = one_axis("topk", axis, x.ndim)
    k = integer("topk", "k", k)
    if not 1 <= k <= x.shape[axis]:
        raise ValueError(f"topk: k must be from 1 to {x.shape[axis]}, the extent of axis {axis}, not {k}")
    order = _order("topk", x, axis, largest)
    index = _index(packed(cut(order, 1, 0, k)), x, axis)
    return gathered("topk", x, index, axis), index


def _index(rows: Array, x: Tensor, axis: int) -> Tensor:
    rows.storage.bounds = (0, x.shape[axis] - 1)
    return Tensor(from_rows(rows, x.shape, axis))


def _reordered(x: Tensor, index: Tensor, axis: int) -> Tensor:
    """The values along an axis by indices that name each once. The inverse order brings the gradient back."""
    rows = pick_along(as_rows(x._array, (axis,)), as_rows(index._array, (axis,)))
    out = Tensor(from_rows(rows, x.shape, axis))
    return record("sort", out, (x,), lambda g: (_reordered(g, _inverse(index, axis), axis),))


def _inverse(index: Tensor, axis: int) -> Tensor:
    return Tensor(from_rows(argsort_rows(cast(as_rows(index._array, (axis,)), FLOAT)), index.shape, axis))


# ---------------------------------------------------------------- on arrays


def _order(op: str, x: Tensor, axis: int, descending: bool) -> Array:
    """Indices, (rows, n), that put each row in order, equal elements as they were.

    ggml's argsort leaves equal elements in any order, another on each device, and NaN is undefined in it. So elements
    are numbered by their places in its order, equal ones alike, and sorted again by that number and their index.
    """
    a = as_rows(cast(x._array, FLOAT), (axis,))
    rows, n = a.shape
    if n > LONGEST:
        raise ValueError(f"{op}: {n} values along axis {axis} of {x.shape} are too many: at most {LONGEST}")
    first = argsort_rows(_key(a, descending))
    if n == 1:
        return first
    seen = pick_along(a, first)
    key = _key(seen, descending)
    steps = differ(packed(cut(key, 1, 1, n)), packed(cut(key, 1, 0, n - 1)))
    group = scanned(padded(steps, [(0, 0), (1, 0)]), 1)
    nan = base.nan_mask(seen)  # which were taken for an infinity, and are a group beyond it
    group = binary(op, prim.ADD, group, scaled(nan, -1.0, 1.0) if descending else nan)  # from 0 to n
    if (n + 1) * n <= EXACT or n + 1 <= _capacity(n):
        return pick_along(first, argsort_rows(_pairs(op, group, cast(first, FLOAT), n + 1)))
    # Too many pairs: by the numbers' digits, in the order of the elements to begin with, the lowest digit first.
    rest = pick_along(group, argsort_rows(cast(first, FLOAT)))
    place = expanded(counting(op, a.device, n), (rows, n))
    base_ = _power_of_two(_capacity(n))
    span, order = n + 1, None
    while True:
        higher = unary(prim.FLOOR, scaled(rest, 1.0 / base_))
        digit = binary(op, prim.SUB, rest, scaled(higher, float(base_)))
        now = argsort_rows(_pairs(op, digit, place, min(base_, span)))
        order = now if order is None else pick_along(order, now)
        span = -(-span // base_)
        if span == 1:
            return order
        rest = pick_along(higher, now)


def _key(a: Array, descending: bool) -> Array:
    """a, or -a; an infinity instead of NaN."""
    nan = unary(prim.LOG, unary(prim.SGN, scaled(unary(prim.ABS, a), 1.0, 1.0)))  # -inf, else 0
    number = binary("sort", prim.SUB, unary(prim.RELU, a), unary(prim.RELU, unary(prim.NEG, a)))  # relu(NaN) is 0
    key = binary("sort", prim.SUB, number, nan)
    return unary(prim.NEG, key) if descending else key


def _pairs(op: str, high: Array, low: Array, span: int) -> Array:
    """A float32 for each pair of whole numbers, in their order: `high` below `span`, and `low` below the extent n."""
    n = high.shape[1]
    if span * n <= EXACT:
        return binary(op, prim.ADD, scaled(high, float(n)), low)
    # more than float32 counts: the higher part of `high` becomes the exponent, the rest the digits after it
    part = _power_of_two(LONGEST // n)
    exponent = unary(prim.FLOOR, scaled(high, 1.0 / part))
    inside = binary(op, prim.SUB, high, scaled(exponent, float(part)))
    digits = scaled(binary(op, prim.ADD, scaled(inside, float(n)), low), 1.0 / LONGEST, 1.0)
    powers = high.device.upload(np.ldexp(np.float32(1.0), np.arange(EXPONENTS) - 126).astype(np.float32))
    rows = expanded(powers.reshaped((1, EXPONENTS)), (high.shape[0], EXPONENTS))
    return binary(op, prim.MUL, digits, pick_along(rows, cast(exponent, INT)))


def _capacity(n: int) -> int:
    """The largest span of pairs with a number below n."""
    return EXPONENTS * _power_of_two(LONGEST // n)


def _power_of_two(n: int) -> int:
    """The greatest one up to n."""
    return 1 << (n.bit_length() - 1)


__all__ = ["argsort", "sort", "topk"]
