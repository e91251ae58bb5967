"""Sums of everything up to each element."""

from __future__ import annotations

from math import prod

from ..backend import primitives as prim
from ..backend.array import FLOAT, Array
from ..tape import record
from ..tensor import Tensor, TensorLike
from . import base
from .base import binary, floats, one_axis, result, wide
from .moving import cut, padded

LONGEST = 64  # elements scanned in one go; longer axes are made of such blocks
ACC_SIZE = 512 * 65_535  # elements of Vulkan's largest launch for acc


def cumsum(x: TensorLike, axis: int) -> Tensor:
    """Sums along an axis: element i of the result is the sum of elements 0 to i.

    They are added in blocks, the same way on every device, so that the error grows slowly. From a NaN on, all is NaN.

    Args:
        x: float32, float16 or bfloat16, of at least one dimension.
        axis: the axis; negative ones count from the last.

    Raises:
        IndexError: there is no such axis. TypeError: the axis is no integer.

    >>> ag.cumsum([1.0, 2.0, 3.0], 0).tolist()
    [1.0, 3.0, 6.0]
    >>> ag.cumsum([[1.0, 2.0], [3.0, 4.0]], axis=0).tolist()
    [[1.0, 2.0], [4.0, 6.0]]
    """
    (x,) = floats("cumsum", x)
    return _cumsum(x, one_axis("cumsum", axis, x.ndim), reverse=False)


def _cumsum(x: Tensor, axis: int, reverse: bool) -> Tensor:
    """`reverse`: of elements i to the last, which is the gradient of the other."""
    out = result(scanned(wide(x), axis, reverse), x)
    return record("cumsum", out, (x,), lambda g: (_cumsum(g, axis, not reverse),))


# ---------------------------------------------------------------- on arrays


def scanned(a: Array, axis: int, reverse: bool = False) -> Array:
    """The sum of all up to each element along an axis, or from each on; packed."""
    # Vulkan's cumsum needs subgroups that not every device has, and the CPU's adds one after another.
    shape = a.shape
    split = (prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :]))
    return base.reshaped(_scan(base.reshaped(a, split[: 3 if split[2] > 1 else 2]), reverse), shape)


def _scan(a: Array, reverse: bool) -> Array:
    """(outer, n) or (outer, n, inner) along n: each block by itself, and to each the sum of the blocks before it."""
    outer, n, *inner = a.shape
    if n <= LONGEST:
        return _scan_block(a, reverse)
    block = next((k for k in range(LONGEST, 15, -1) if n % k == 0), LONGEST)
    count = -(-n // block)
    if count * block > n:
        a = padded(a, [(0, 0), (0, count * block - n), *[(0, 0) for _ in inner]])
    inside = _scan_block(a.reshaped((outer * count, block, *inner)), reverse)
    total = cut(inside, 1, 0, 1) if reverse else cut(inside, 1, block - 1, block)
    totals = base.reshaped(total, (outer, count, *inner))
    others = base.reshaped(_shifted(_scan(totals, reverse), 1, reverse), (outer * count, 1, *inner))
    whole = binary("cumsum", prim.ADD, inside, others).reshaped((outer, count * block, *inner))
    return cut(whole, 1, 0, n)


def _scan_block(a: Array, reverse: bool) -> Array:
    """In log2(n) rounds: after each, an element is the sum of twice as many (Hillis and Steele 1986)."""
    step = 1
    while step < a.shape[1]:
        a = _add_shifted(a, step, reverse)
        step *= 2
    return a


def _add_shifted(a: Array, step: int, reverse: bool) -> Array:
    """a with its element i - step (i + step in reverse) added to element i, where there is one."""
    if a.size > ACC_SIZE and not a.device.is_cpu:
        return binary("cumsum", prim.ADD, a, _shifted(a, step, reverse))
    n = a.shape[1]
    part = cut(a, 1, step, n) if reverse else cut(a, 1, 0, n - step)
    strides = [*reversed(a.strides[:-1]), a.size, a.size][:3]
    target = 0 if reverse else step * a.strides[1]
    sizes = [4 * elements for elements in (*strides, target)]  # in bytes
    return a.device.graph.record(prim.ACC, (a, part), a.shape, FLOAT, *sizes)


def _shifted(a: Array, step: int, reverse: bool) -> Array:
    """Each element moved `step` places on (back in reverse), with zeros where there was none."""
    n = a.shape[1]
    part = cut(a, 1, step, n) if reverse else cut(a, 1, 0, n - step)
    return padded(part, [(0, 0), (0, step) if reverse else (step, 0), *[(0, 0) for _ in a.shape[2:]]])


__all__ = ["cumsum"]
