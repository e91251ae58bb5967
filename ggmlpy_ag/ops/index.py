"""Indexing with brackets: windows on a tensor, and writing through them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ..backend import primitives as prim
from ..backend.array import INT, Array, Shape, dtype_name
from ..tape import record, recording_tape
from ..tensor import Index, Tensor, TensorLike, as_numpy
from . import base
from .base import check_dims
from .join import pad
from .moving import flipped
from .rearrange import flip
from .rows import joined_bounds
from .select import taken
from .shape import reshape


def getitem(x: Tensor, index: Index) -> Tensor:
    """x[index]: a view for integers, slices with a positive step, None and ...; otherwise a copy.

    Args:
        x: any shape, any type.
        index: integers, slices (a negative step turns an axis round), None, ..., or several of these in a tuple; one
            of them may be a list, a NumPy array or an int32 tensor of indices, of any shape, which takes its axis'
            place. Integers beside that one must be its neighbours, where NumPy and PyTorch agree on the result.
            Negative indices count from the end; not so in a tensor, where those computed on the device are limited
            to the axis.

    Raises:
        IndexError: an index out of range, too many indices, or integers apart from a list of indices.
        TypeError: another kind of index, or two lists. A mask is none: use `where` or `masked_fill`.
        ValueError: a step of 0, nothing selected, or a result of more than four dimensions.

    >>> x = ag.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    >>> x[0, ::-1].tolist()
    [3.0, 2.0, 1.0]
    >>> x[:, [2, 0]].tolist()
    [[3.0, 1.0], [6.0, 4.0]]
    """
    items = index if isinstance(index, tuple) else (index,)
    if any(isinstance(item, (list, np.ndarray, Tensor)) for item in items):
        return _chosen(x, items)
    cuts, kept = _parse_index(x.shape, items)
    turned = tuple([i for i, cut in enumerate(cuts) if cut.step < 0])
    cuts = [_forwards(cut) for cut in cuts]
    window = _window(x._array, cuts)
    before, picked = x.shape, window.shape
    for i in turned:
        window = flipped(window, i)
    out = Tensor(_kept(window, kept))

    def grad(g: Tensor) -> tuple[Tensor]:
        g = reshape(g, picked)
        return (_scatter(flip(g, turned) if turned else g, before, cuts),)

    return record("index", out, (x,), grad)


def setitem(x: Tensor, index: Index, value: TensorLike) -> None:
    """x[index] = value: written in place, after everything recorded so far that reads x.

    A backward rule that saved the old values raises instead of using the new ones. What is written comes without a
    gradient; for one, make a new tensor with `where` or `concat`.

    Args:
        x: any shape, any type; not one that requires a gradient, while a tape records.
        index: integers, slices, None and ..., as for reading.
        value: a number, an array or a tensor on the same device, which broadcasts to the window and is cast to x's
            type. It may be part of x itself: all of it is read first.

    Raises:
        RuntimeError: a tape records, and x or the value requires a gradient.
        ValueError: the value does not broadcast, is on another device, or nothing is selected.
        IndexError: an index out of range. TypeError: another kind of index, such as a list or a mask.

    >>> x = ag.tensor([1.0, 2.0, 3.0, 4.0])
    >>> x[1:3] = 0.0
    >>> x[::-1] = x
    >>> x.tolist()
    [4.0, 0.0, 0.0, 1.0]
    """
    items = index if isinstance(index, tuple) else (index,)
    for item in items:
        if isinstance(item, (list, np.ndarray, Tensor)):
            raise TypeError(
                f"index: assignment takes integers, slices, None and ..., not a {type(item).__name__}: make a new "
                "tensor with where, masked_fill or scatter_add"
            )
    cuts, kept = _parse_index(x.shape, items)
    target = _kept(_window(x._array, [_forwards(cut) for cut in cuts]), kept)
    if recording_tape() is not None:
        _refuse_gradients(x, value)
    source = _values(value, target)
    for at, i in enumerate(kept):
        if i is not None and cuts[i].step < 0:
            source = flipped(source, at)
    storage = target.storage
    bounds = joined_bounds(target, source)
    target.device.graph.update([(prim.ASSIGN, (source, target))])
    storage.bounds = bounds


def _refuse_gradients(x: Tensor, value: TensorLike) -> None:
    for tensor, what in ((x, "the tensor"), (value, "the value")):
        if isinstance(tensor, Tensor) and tensor.requires_grad:
            raise RuntimeError(
                f"index: assigning in place records no gradient, but a tape records, and {what} of shape "
                f"{tensor.shape} requires one: make a new tensor with where or concat, or assign under no_grad()"
            )


def _values(value: TensorLike, target: Array) -> Array:
    """What is to be written: of the target's type and shape, and no part of its storage."""
    if isinstance(value, Tensor):
        source = value._array
        if source.device is not target.device:
            raise ValueError(
                f"index: the value is on {value.device}, the tensor on {target.device.name}; move one with .to(device)"
            )
    else:
        source = target.device.upload(as_numpy(value, target.dtype, "index: the value"))
    shape = source.shape
    extra = max(0, len(shape) - len(target.shape))
    if shape[:extra] != (1,) * extra or base.broadcast("index", shape[extra:], target.shape) != target.shape:
        raise ValueError(f"index: a value of shape {shape} does not broadcast to {target.shape}")
    source = base.cast(source.view(shape[extra:], source.strides[extra:]), target.dtype)
    if source.shape != target.shape:
        return base.expanded(source, target.shape)
    if source.storage is target.storage:
        return source.device.graph.record(prim.COPY, (source,), source.shape, source.dtype)
    return source


# ---------------------------------------------------------------- integers and slices


def _parse_index(shape: Shape, items: tuple[Any, ...]) -> tuple[list[range], list[int | None]]:
    """For each dimension the range of indices taken; for each of the result, which one that is (None: a new one)."""
    for item in items:
        if isinstance(item, (bool, np.bool_)) or not (
            item is None or item is Ellipsis or isinstance(item, (int, np.integer, slice))
        ):
            raise TypeError(
                f"index: only integers, slices, None, ... and lists of integers select here, not {_kind(item)}"
            )
    cuts: list[range] = []
    kept: list[int | None] = []
    for item in _expanded(items, shape):
        if item is None:
            kept.append(None)
            continue
        n = shape[len(cuts)]
        if isinstance(item, slice):
            kept.append(len(cuts))
            cuts.append(_cut(item, n))
        else:
            if not -n <= item < n:
                raise IndexError(f"index: {item} is out of range for dimension {len(cuts)} of shape {shape}")
            start = int(item) % n  # an int8 may be too small for n
            cuts.append(range(start, start + 1))
    check_dims("index", tuple([1 if i is None else len(cuts[i]) for i in kept]))
    return cuts, kept


def _kind(item: Any) -> str:
    kind = type(item).__name__
    return f"{kind}: a mask selects with where or masked_fill" if isinstance(item, (bool, np.bool_)) else kind


def _expanded(items: tuple[Any, ...], shape: Shape) -> list[Any]:
    """The index with ... (or its end) written out as full slices."""
    dots = [i for i, item in enumerate(items) if item is Ellipsis]
    named = sum(1 for item in items if item is not None) - len(dots)
    if len(dots) > 1:
        raise IndexError("index: more than one ...")
    if named > len(shape):
        raise IndexError(f"index: {named} indices for shape {shape}")
    full = [slice(None)] * (len(shape) - named)
    at = dots[0] if dots else len(items)
    return [*items[:at], *full, *items[at + 1 :]]


def _cut(item: slice, n: int) -> range:
    try:
        cut = range(*item.indices(n))
    except (TypeError, ValueError) as error:  # bounds that are no integers, a step of 0
        raise type(error)(f"index: {error}") from None
    if not cut:
        raise ValueError(f"index: {item} selects nothing of {n}: a tensor needs at least one element")
    # one element, however large the step was: the gradient of a slice pads by steps
    return cut if len(cut) > 1 else range(cut.start, cut.start + 1)


def _forwards(cut: range) -> range:
    return cut if cut.step > 0 else range(cut[-1], cut[0] + 1, -cut.step)


def _window(a: Array, cuts: Sequence[range]) -> Array:
    return a.view(
        tuple([len(cut) for cut in cuts]),
        tuple([s * cut.step for s, cut in zip(a.strides, cuts, strict=True)]),
        a.offset + sum(s * cut.start for s, cut in zip(a.strides, cuts, strict=True)),
    )


def _kept(a: Array, kept: Sequence[int | None]) -> Array:
    """Without the dimensions that an integer took, and with new ones."""
    return a.view(
        tuple([1 if i is None else a.shape[i] for i in kept]), tuple([0 if i is None else a.strides[i] for i in kept])
    )


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


# ---------------------------------------------------------------- lists of indices


def _chosen(x: Tensor, items: tuple[Any, ...]) -> Tensor:
    """An index one of whose items is a list, an array or a tensor of indices."""
    places = [i for i, item in enumerate(items) if isinstance(item, (list, np.ndarray, Tensor))]
    if len(places) > 1:
        raise TypeError(f"index: one list of indices at a time, not {len(places)}: use gather, or index twice")
    chosen = _indices(items[places[0]])
    simple = tuple([slice(None) if i == places[0] else item for i, item in enumerate(items)])
    cuts, kept = _parse_index(x.shape, simple)
    order = _expanded(tuple([_Here if i == places[0] else item for i, item in enumerate(items)]), x.shape)
    at = order.index(_Here)
    advanced = [i for i, item in enumerate(order) if item is _Here or isinstance(item, (int, np.integer))]
    if advanced[-1] - advanced[0] >= len(advanced):
        raise IndexError(
            "index: integers apart from a list of indices mean one thing to NumPy and another to PyTorch: index twice"
        )
    shape = tuple([1 if i is None else len(cuts[i]) for i in kept])
    axis = sum(1 for item in order[:at] if item is None or isinstance(item, slice))
    check_dims("index", (*shape[:axis], *chosen.shape, *shape[axis + 1 :]))
    n = shape[axis]
    if isinstance(chosen, np.ndarray):
        wrong = chosen[(chosen < -n) | (chosen >= n)]
        if wrong.size:
            raise IndexError(
                f"index: {wrong[0]} is out of range for {n} places of dimension {kept[axis]} of shape {x.shape}"
            )
        chosen = chosen.astype(np.int64) % n
    index = Tensor(base.indices("index", chosen, n, x._array.device))
    return taken("index", getitem(x, simple), index, axis)


class _Here:
    """Stands for the list of indices."""


def _indices(item: Any) -> Tensor | np.ndarray:
    if isinstance(item, Tensor):
        if item._array.dtype is not INT:
            raise TypeError(
                f"index: a {dtype_name(item.dtype)} tensor holds no indices; a mask selects with where or masked_fill"
            )
        return item
    try:
        chosen = np.asarray(item)
    except ValueError as error:
        raise ValueError(f"index: a list of indices must be regular: {error}") from None
    if chosen.size == 0:
        raise ValueError("index: an empty list selects nothing: a tensor needs at least one element")
    if chosen.dtype.kind not in "iu":
        raise TypeError(
            f"index: a list of indices holds integers, not {chosen.dtype}; a mask selects with where or masked_fill"
        )
    return chosen
