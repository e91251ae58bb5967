"""Sources that are read by index: how long they are, one sample, several at once; and parts of a source."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from ..ops.base import check_indices
from ..tensor import Tensor
from .collate import Rows, default_collate, mapped
from .sampler import Seed, at_least, permutation, seed_from


def is_indexed(source: Any) -> bool:
    """Whether it is read by index: it has a length and brackets."""
    return hasattr(type(source), "__getitem__") and hasattr(type(source), "__len__")


def length(who: str, source: Any) -> int:
    """How many samples a source has that is read by index.

    Raises:
        ValueError: columns of different lengths, no column, an array without dimensions. TypeError: no such source.
    """
    if isinstance(source, (tuple, Mapping)):
        columns = source if isinstance(source, Mapping) else dict(enumerate(source))
        lengths = {key: length(who, column) for key, column in columns.items()}
        if len(set(lengths.values())) != 1:
            found = ", ".join(f"{key!r}: {n}" for key, n in lengths.items()) or "there is none"
            raise ValueError(f"{who}: source is a {type(source).__name__} of columns of one length, but {found}")
        return next(iter(lengths.values()))
    if not is_indexed(source):
        raise TypeError(
            f"{who}: samples are read by index from arrays and sequences, not from a {type(source).__name__}"
        )
    if isinstance(source, (Tensor, np.ndarray)) and not source.ndim:
        raise ValueError(f"{who}: source is an array without dimensions: the first one counts samples")
    return len(source)


def check_iterable(who: str, source: Any, shuffle: bool, sampler: Any) -> None:
    """Raise TypeError for what is no iterable and no function, and ValueError for an order that it cannot have."""
    kind = type(source).__name__
    if not isinstance(source, Iterable) and not callable(source):
        raise TypeError(
            f"{who}: source must be an array, a tuple or mapping of them, an object with __len__ and __getitem__, an "
            f"iterable, or a function that makes an iterator, not a {kind}"
        )
    if shuffle or sampler is not None:
        raise ValueError(
            f"{who}: {'shuffle' if shuffle else 'sampler'} needs samples that are read by index, but a {kind} gives "
            "them in its own order: pass a list, or arrays"
        )


def sample(source: Any, i: int) -> Any:
    """One sample: of a tuple or mapping of columns, a tuple or mapping."""
    if isinstance(source, (tuple, Mapping)):
        return mapped(lambda column: sample(column, i), source)
    return source[i]


def samples(source: Any, indices: np.ndarray) -> Any:
    """Several samples, joined; of tensors, `Rows` that are taken later."""
    if isinstance(source, Tensor):
        return Rows(source, indices)
    if isinstance(source, np.ndarray):
        return source[indices]
    if type(source) is Subset:  # a subclass may do more than to select
        return samples(source.source, source.indices[indices])
    if isinstance(source, (tuple, Mapping)):
        return mapped(lambda column: samples(column, indices), source)
    return default_collate([source[i] for i in indices.tolist()])


def as_indices(who: str, values: Any, n: int) -> np.ndarray:
    """Indices from 0 to n - 1 as an array of one dimension.

    Raises:
        IndexError: one is out of range. TypeError: no integers, or not in one dimension.
    """
    found = np.asarray(values)
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        raise TypeError(f"{who}: indices must be integers in one dimension, not {found.dtype} of shape {found.shape}")
    check_indices(who, found, n)
    return found.astype(np.int64)


class Subset:
    """Some samples of a source, by their indices; a source itself.

    Args:
        source: what is read by index: see `DataLoader`.
        indices: integers from 0 on, in the order wanted; one may come several times.

    Raises:
        IndexError: an index is out of range. TypeError: indices that are no integers; a source without a length.
        ValueError: columns of different lengths.

    >>> evens = ag.data.Subset(([0, 1, 2, 3, 4, 5], "abcdef"), [0, 2, 4])
    >>> len(evens), evens[1]
    (3, (2, 'c'))
    """

    def __init__(self, source: Any, indices: Any) -> None:
        self.indices = as_indices("Subset", indices, length("Subset", source))
        self.source = source

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, i: int) -> Any:
        return sample(self.source, int(self.indices[operator.index(i)]))


def random_split(source: Any, lengths: Sequence[int | float], seed: Seed = None) -> list[Subset]:
    """Parts of a source that have no sample in common, chosen at random, as in `torch.utils.data.random_split`.

    Args:
        source: what is read by index: see `DataLoader`.
        lengths: integers that add up to the number of samples; or fractions that add up to 1. A fraction is rounded
            down, and what is left goes to the parts in turn, one sample each, from the first on.
        seed: an integer from 0 on, or a `numpy.random.Generator` to draw one from; by default it is drawn from the
            random numbers of `ag.manual_seed`.

    Returns:
        A `Subset` for each length, in that order.

    Raises:
        ValueError: lengths or fractions that are negative or do not add up; a negative seed; a source with columns of
            different lengths. TypeError: lengths that are no numbers; a source without a length.

    >>> train, test = ag.data.random_split(np.arange(10), [0.75, 0.25], seed=0)
    >>> len(train), len(test)
    (8, 2)
    """
    n = length("random_split", source)
    sizes = _sizes(list(lengths), n)
    order = permutation(n, seed_from("random_split", seed))
    return [Subset(source, order[end - size : end]) for end, size in zip(accumulate(sizes), sizes, strict=True)]


def _sizes(lengths: list[int | float], n: int) -> list[int]:
    """The number of samples in each part."""
    if any(isinstance(x, (float, np.floating)) for x in lengths):
        if not all(x >= 0 for x in lengths) or not math.isclose(sum(lengths), 1):
            raise ValueError(f"random_split: fractions must be positive and add up to 1, not {lengths}")
        sizes = [math.floor(n * x) for x in lengths]
        rest = n - sum(sizes)
        return [size + (i < rest) for i, size in enumerate(sizes)]
    sizes = [at_least(0, "random_split", "each length", x) for x in lengths]
    if sum(sizes) != n:
        raise ValueError(f"random_split: lengths {sizes} must add up to the number of samples, {n}")
    return sizes
