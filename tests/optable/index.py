"""Indexing with brackets, and assignment."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import ggmlpy_ag as ag

from .calls import Calls, Makers
from .table import SPECIAL, Draw, Error, Op, Sample, normal

ALL = slice(None)
INDICES: list[tuple[tuple[int, ...], Any]] = [
    ((5,), 2),
    ((5,), -1),
    ((5,), np.int8(-2)),
    ((5,), slice(1, 4)),
    ((5,), slice(None, None, 2)),
    ((5,), slice(3, None, 1000)),
    ((5,), slice(-10, 10)),
    ((), None),
    ((), ...),
    ((3, 7), 1),
    ((3, 7), (ALL, 1)),
    ((3, 7), (..., slice(1, -1))),
    ((3, 7), (slice(1, None), slice(1, None, 3))),
    ((3, 7), (None, 1, ..., None)),
    ((2, 3, 5), (ALL, slice(None, None, 2), slice(None, None, 2))),
    ((2, 3, 5), (..., 1, ALL)),
    ((2, 3, 5), (1, 2, 3)),
    ((2, 3, 4, 5), (slice(1, None), slice(None, None, 2), slice(0, 1), slice(4, None))),
    ((31, 33), (slice(5, 30, 3), slice(1, 32, 2))),
    ((257,), slice(1, 256)),
    ((5,), slice(None, None, -1)),
    ((5,), slice(None, None, -2)),
    ((5,), slice(3, None, -1000)),
    ((5,), slice(3, 0, -1)),
    ((3, 7), (slice(None, None, -1), slice(5, 0, -2))),
    ((3, 7), (1, slice(None, None, -3))),
    ((2, 3, 5), (slice(None, None, -1), 1, None, slice(1, None))),
    ((2, 3, 4, 5), (..., slice(None, None, -1), ALL)),
    ((31, 33), (slice(29, 4, -3), slice(None, None, -1))),
]
LISTS: list[tuple[tuple[int, ...], Any]] = [  # one list or array of indices
    ((5,), [2, 0, 2]),
    ((5,), [-1, 0]),
    ((5,), [[1, 2], [3, 4]]),
    ((5,), np.array([4, 1], np.uint8)),
    ((5,), np.array(3)),
    ((300,), np.array([-1, 5], np.int8)),
    ((3, 7), [0, 2]),
    ((3, 7), (ALL, [6, 0, 1])),
    ((3, 7), (1, [6, 0, 1])),
    ((3, 7), ([2, 0, 1], -1)),
    ((3, 7), ([2, 0], slice(None, None, -2))),
    ((3, 7), (slice(1, None), [[6], [0]])),
    ((2, 3, 5), (0, [2, 0], 1)),
    ((2, 3, 5), (..., [3, 3, 0])),
    ((2, 3, 5), (None, [1], ..., slice(1, 4))),
    ((2, 3, 4, 5), (ALL, [2, 0], slice(None, None, 2), slice(1, 3))),
    ((31, 33), (ALL, np.arange(32, -1, -5))),
]
# a tensor of indices is made beside the operand: numpy and torch get the array
TENSORS: list[tuple[tuple[int, ...], Any, Any]] = [
    ((5,), ALL, [2, 0, 2]),
    ((5,), ALL, 3),
    ((3, 7), (ALL,), [[6, 0], [1, 1]]),
    ((2, 3, 5), (1, ALL), [2, 0]),
]


def _with(index: Any, chosen: Any) -> Any:
    """The last full slice of an index replaced."""
    items = list(index) if isinstance(index, tuple) else [index]
    items[-1] = chosen
    return tuple(items)


def _call(x: ag.Tensor, *chosen: Any, index: Any) -> ag.Tensor:
    return x[_with(index, chosen[0]) if chosen else index]


def _numpy(x: np.ndarray, *chosen: Any, index: Any) -> np.ndarray:
    return x[_with(index, np.asarray(chosen[0])) if chosen else index]


def _torch(torch: Any, x: Any, *chosen: Any, index: Any) -> Any:
    if chosen:
        return x[_with(index, chosen[0])]
    items = index if isinstance(index, tuple) else (index,)
    full = [item for item in items if item is not None]
    if ... in [item for item in full if not isinstance(item, (list, np.ndarray))]:
        at = next(i for i, item in enumerate(full) if item is ...)
        full[at : at + 1] = [ALL] * (x.ndim - len(full) + 1)
    for axis, item in enumerate(full):  # PyTorch has no negative steps
        if isinstance(item, slice) and (item.step or 1) < 0:
            places = torch.tensor(list(range(*item.indices(x.shape[axis]))))
            x = x.index_select(axis, places)
    items = tuple(
        ALL if isinstance(i, slice) and (i.step or 1) < 0 else torch.tensor(np.asarray(i, np.int64)) if isinstance(i, (list, np.ndarray)) else i
        for i in items
    )
    return x[items]


# ---------------------------------------------------------------- assignment


def _assigned(x: Any, *values: Any, index: Any, value: Any = None) -> ag.Tensor:
    """x after an assignment, on a copy."""
    whole = x + 0 if x.dtype != np.int32 else ag.concat([x])[...].astype("int32")
    whole = ag.tensor(x.numpy(), dtype=x.dtype) if isinstance(x, ag.Tensor) else x
    whole[index] = values[0] if values else value
    return whole


def _numpy_assigned(x: np.ndarray, *values: np.ndarray, index: Any, value: Any = None) -> np.ndarray:
    whole = x.copy()
    whole[index] = values[0] if values else value
    return whole
