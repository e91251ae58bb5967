"""Rotary positions."""

from __future__ import annotations

import math
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from ..backend import primitives as prim
from ..backend.array import Array
from ..tape import record
from ..tensor import Tensor, TensorLike
from .base import binary, floats, number, packed, reshaped, result, wide
from .rows import concat


def rope(x: TensorLike, positions: Any = None, base: float = 10000.0, interleaved: bool = False) -> Tensor:
    """Pairs of each row rotated by an angle that grows with its position (Su et al. 2021).

    Pair i of e / 2 in the row at position p turns by p * base ** (-2 * i / e). The angles are computed on the host in
    float64, and their sines and cosines copied to the device; the tape keeps those, and not `x`.

    Args:
        x: (..., l, e), e even; float32, float16 or bfloat16.
        positions: (l,) integers from the host; None for 0 to l - 1.
        base: above 0.
        interleaved: pair neighbours, as the paper does. Otherwise element i is paired with i + e / 2, as GPT-NeoX and
            Llama have it.

    Raises:
        ValueError: fewer than two dimensions, e is odd, positions of another shape, base not above 0.
        TypeError: a wrong type; positions that are a tensor.

    >>> ag.rope([[1.0, 2.0, 3.0, 4.0]]).tolist()
    [[1.0, 2.0, 3.0, 4.0]]
    >>> ag.rope([[1.0, 0.0]], positions=[1]).shape
    (1, 2)
    """
    (x,) = floats("rope", x)
    if x.ndim < 2 or x.shape[-1] % 2:
        raise ValueError(f"rope: x must be (..., l, e) with an even e, not {x.shape}")
    step = number(base)
    if step is None:
        raise TypeError(f"rope: base must be a number, not {type(base).__name__}")
    if not 0.0 < step < math.inf:
        raise ValueError(f"rope: base must be a finite number above 0, not {base}")
    places = _places(positions, x.shape[-2])
    device = x._array.device
    cos, sin = (Tensor(device.upload(t, "rope")) for t in _tables(places.tobytes(), x.shape[-1] // 2, step))
    return _rotated(x, cos, sin, bool(interleaved), back=False)


def _rotated(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool, back: bool) -> Tensor:
    """Every pair turned, or turned back: that is the transpose of the rotation, hence its gradient."""
    out = result(_turned(wide(x), cos._array, sin._array, interleaved, back), x)
    return record("rope", out, (x,), lambda g: (_rotated(g, cos, sin, interleaved, not back),))


def _turned(a: Array, cos: Array, sin: Array, interleaved: bool, back: bool) -> Array:
    shape = a.shape
    rows, half = cos.shape
    n = prod(shape[:-2])
    if interleaved:
        a = packed(reshaped(a, (n, rows, half, 2)).permuted((0, 1, 3, 2)))
    pairs = reshaped(a, (n, rows, 2, half))
    along = binary("rope", prim.MUL, pairs, cos.reshaped((rows, 1, half)))
    across = binary("rope", prim.MUL, pairs, sin.reshaped((rows, 1, half)))
    minus, plus = (prim.ADD, prim.SUB) if back else (prim.SUB, prim.ADD)
    first = binary("rope", minus, _half(along, 0), _half(across, 1))
    second = binary("rope", plus, _half(along, 1), _half(across, 0))
    out = concat(first, second, 2)
    if interleaved:
        out = packed(out.reshaped((n, rows, 2, half)).permuted((0, 1, 3, 2)))
    return out.reshaped(shape)


def _half(pairs: Array, i: int) -> Array:
    """All first or all second elements: (n, rows, 2, half) -> (n, rows, half)."""
    n, rows, _, half = pairs.shape
    return pairs.view((n, rows, half), (rows * 2 * half, 2 * half, 1), pairs.offset + i * half)


def _places(positions: Any, rows: int) -> np.ndarray:
    if positions is None:
        return np.arange(rows)
    if isinstance(positions, Tensor):
        raise TypeError("rope: positions must be integers on the host, not a Tensor; pass positions.numpy()")
    try:
        values = np.asarray(positions)
    except ValueError as error:
        raise ValueError(f"rope: positions must be a regular array: {error}") from None
    if values.dtype.kind not in "iu":
        raise TypeError(f"rope: positions must be integers, not {values.dtype}")
    if values.shape != (rows,):
        raise ValueError(f"rope: positions must have shape {(rows,)}, not {values.shape}")
    return values.astype(np.int64)


@lru_cache(maxsize=16)
def _tables(places: bytes, half: int, base: float) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and sines for positions, (l, half) in float32."""
    angles = np.outer(np.frombuffer(places, np.int64), base ** (-np.arange(half) / half))
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


__all__ = ["rope"]
