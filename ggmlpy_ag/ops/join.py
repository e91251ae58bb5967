"""Putting tensors together and taking them apart."""

from __future__ import annotations

from collections.abc import Sequence

from ..backend import primitives as prim
from ..backend.array import FLOAT
from ..tape import record
from ..tensor import Tensor, TensorLike
from .base import floats, int_shape, result, sequence, wide


def pad(x: TensorLike, widths: Sequence[tuple[int, int]]) -> Tensor:
    """Zeros before and after each dimension.

    Args:
        widths: (before, after) for each dimension, from 0 to 2**31 - 1.

    Raises:
        ValueError: not one pair a dimension, or a width outside its limits. TypeError: widths that are no integers.
    """
    (x,) = floats("pad", x)
    pairs = [int_shape("pad", pair) for pair in sequence("pad", widths)]
    if len(pairs) != x.ndim or any(len(p) != 2 or min(p) < 0 or max(p) >= 1 << 31 for p in pairs):
        raise ValueError(f"pad: shape {x.shape} needs {x.ndim} pairs of widths from 0 to 2**31 - 1, not {widths}")
    if not any(map(any, pairs)):
        return x
    shape = tuple(n + before + after for n, (before, after) in zip(x.shape, pairs, strict=True))
    flat = [w for pair in reversed(pairs) for w in pair]
    flat += [0] * (8 - len(flat))
    out = result(x._array.device.graph.record(prim.PAD, (wide(x),), shape, FLOAT, *flat), x)
    inside = tuple(slice(before, before + n) for n, (before, _) in zip(x.shape, pairs, strict=True))
    return record("pad", out, (x,), lambda g: (g[inside],))


__all__ = ["pad"]
