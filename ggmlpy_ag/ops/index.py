"""Indexing with brackets: windows on a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ..backend.array import Shape
from ..tape import record
from ..tensor import Index, Tensor
from .base import check_dims
from .join import pad
from .shape import reshape


def getitem(x: Tensor, index: Index) -> Tensor:
    """x[index] for integers, slices with a positive step, None and ...: a view.

    Raises:
        IndexError: an integer out of range, or too many indices. TypeError: another kind of index.
        ValueError: a step that is not positive, or nothing selected.
    """
    items = index if isinstance(index, tuple) else (index,)
    cuts, kept = _parse_index(x.shape, items)
    a = x._array
    picked = tuple(len(c) for c in cuts)
    strides = tuple(s * c.step for s, c in zip(a.strides, cuts, strict=True))
    offset = a.offset + sum(s * c.start for s, c in zip(a.strides, cuts, strict=True))
    shape = tuple(1 if i is None else picked[i] for i in kept)
    check_dims("index", shape)
    out = Tensor(a.view(shape, tuple(0 if i is None else strides[i] for i in kept), offset))
    before = x.shape
    return record("index", out, (x,), lambda g: (_scatter(reshape(g, picked), before, cuts),))


def _parse_index(shape: Shape, items: tuple[Any, ...]) -> tuple[list[range], list[int | None]]:
    """For each dimension the range of indices taken; for each of the result, which one that is (None: a new one)."""
    for item in items:
        if isinstance(item, (bool, np.bool_)) or not (
            item is None or item is Ellipsis or isinstance(item, (int, np.integer, slice))
        ):
            raise TypeError(f"index: only integers, slices, None and ... select here, not {type(item).__name__}")
    named = sum(1 for i in items if i is not None and i is not Ellipsis)
    if items.count(Ellipsis) > 1:
        raise IndexError("index: more than one ...")
    if named > len(shape):
        raise IndexError(f"index: {named} indices for shape {shape}")
    cuts: list[range] = []
    kept: list[int | None] = []
    for item in _expanded(items, len(shape) - named):
        if item is None:
            kept.append(None)
            continue
        n = shape[len(cuts)]
        if isinstance(item, slice):
            try:
                cut = range(*item.indices(n))
            except (TypeError, ValueError) as error:  # bounds that are no integers, a step of 0
                raise type(error)(f"index: {error}") from None
            if cut.step < 1:
                raise ValueError(f"index: a slice's step must be positive, not {cut.step}")
            if not cut:
                raise ValueError(f"index: {item} selects nothing of {n}: a tensor needs at least one element")
            if len(cut) == 1:  # however large its step was: the gradient of a slice pads by steps
                cut = range(cut.start, cut.start + 1)
            kept.append(len(cuts))
        else:
            if not -n <= item < n:
                raise IndexError(f"index: {item} is out of range for dimension {len(cuts)} of shape {shape}")
            start = int(item) % n  # an int8 may be too small for n
            cut = range(start, start + 1)
        cuts.append(cut)
    return cuts, kept


def _expanded(items: tuple[Any, ...], missing: int) -> list[Any]:
    """The index with ... (or its end) written out as full slices."""
    full = [slice(None)] * missing
    at = items.index(Ellipsis) if Ellipsis in items else len(items)
    return [*items[:at], *full, *items[at + 1 :]]


def _scatter(g: Tensor, shape: Shape, cuts: Sequence[range]) -> Tensor:
    """Zeros of `shape` with `g` where the ranges point: the adjoint of a slice."""
    for axis, (n, cut) in enumerate(zip(shape, cuts, strict=True)):
        if cut.step > 1:  # element, step - 1 zeros, element, ...: pad in a dimension of its own, and merge
            before = g.shape
            rows, inner = prod(before[: axis + 1]), prod(before[axis + 1 :])
            wide = pad(reshape(g, rows, inner), [(0, 0), (0, (cut.step - 1) * inner)])
            g = reshape(wide, *before[:axis], before[axis] * cut.step, *before[axis + 1 :])
            g = getitem(g, (slice(None),) * axis + (slice(0, min(g.shape[axis], n - cut.start)),))
    widths = [(cut.start, n - cut.start - m) for n, m, cut in zip(shape, g.shape, cuts, strict=True)]
    return pad(g, widths)
