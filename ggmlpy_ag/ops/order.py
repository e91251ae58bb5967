"""Greatest and least, and order."""

from __future__ import annotations

from math import prod

from ..backend import primitives as prim
from ..backend.array import FLOAT, INT, Array
from ..tensor import Tensor, TensorLike
from . import base
from .base import floats, one_axis, packed, scaled, wide


def argmax(x: TensorLike, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Index (int32) of the greatest value along an axis, or in the flattened tensor; no gradient.

    Of equal values the first counts, and NaN counts as greatest, as in NumPy. ggml's own argmax returns the last of
    equal values on the CPU and the first on Vulkan, so it is composed here.

    Raises:
        IndexError: there is no such axis. ValueError: more than 2**24 values along the axis.
    """
    (x,) = floats("argmax", x)
    if axis is None:
        a, shape = base.reshaped(wide(x), (1, x.size)), ((1,) * x.ndim if keepdims else ())
    else:
        i = one_axis("argmax", axis, x.ndim)
        moved = wide(x).permuted((*(k for k in range(x.ndim) if k != i), i))
        a = base.reshaped(moved, (prod(moved.shape[:-1]), moved.shape[-1]))
        shape = tuple(1 if k == i else n for k, n in enumerate(x.shape) if keepdims or k != i)
    n = a.shape[1]
    graph = a.device.graph
    rank = base.binary("argmax", prim.ADD, base.equal_mask(a, row_max(a)), base.nan_mask(a))
    best = base.equal_mask(rank, row_max(rank))
    backwards = scaled(base.counting("argmax", a.device, n), -1.0, float(n))  # n, n-1, .. 1
    first = row_max(base.binary("argmax", prim.MUL, best, backwards))
    index = graph.record(prim.TO_INT, (scaled(first, -1.0, float(n)),), first.shape, INT)
    index.storage.bounds = (0, n - 1)
    return Tensor(index.reshaped(shape))


# ---------------------------------------------------------------- on arrays


def row_max(a: Array) -> Array:
    """The greatest value of each row, NaN aside: (n, columns) -> (n, 1). ggml has it only as a pooling."""
    a = packed(a)
    rows, columns = prod(a.shape[:-1]), a.shape[-1]
    result = a.device.graph.record(prim.ROW_MAX, (a.reshaped((rows, columns)),), (rows, 1), FLOAT, columns)
    return result.reshaped((*a.shape[:-1], 1))


__all__ = ["argmax"]
