"""Which samples, and in what order: random orders that depend on a seed and the epoch alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np

from ..ops.base import integer
from ..ops.random import draw_seed
from ..tensor import TensorLike

Seed: TypeAlias = "int | np.random.Generator | None"


def at_least(least: int, who: str, name: str, value: Any) -> int:
    """A Python integer. Raises TypeError for another type, and ValueError for one below `least`."""
    checked = integer(who, name, value)
    if checked < least:
        raise ValueError(f"{who}: {name} must be at least {least}, not {value}")
    return checked


def seed_from(who: str, seed: Seed) -> int:
    """The seed itself, or one drawn from a generator: by default that of `ag.manual_seed`."""
    if seed is None:
        return draw_seed()
    if isinstance(seed, np.random.Generator):
        return int(seed.integers(1 << 63))
    return at_least(0, who, "seed", seed)


def random_bits(n: int, seed: int, epoch: int) -> np.ndarray:
    """n integers of 64 random bits (Philox, Salmon et al. 2011).

    NumPy promises the raw numbers of a bit generator to stay the same in all versions, and the methods of
    `numpy.random.Generator` (`permutation`, `choice`) not to (NEP 19).
    """
    return np.random.Philox(np.random.SeedSequence(seed, spawn_key=(epoch,))).random_raw(n)


def permutation(n: int, seed: int, epoch: int = 0) -> np.ndarray:
    """0, 1, .. n - 1 in random order."""
    return np.argsort(random_bits(n, seed, epoch), kind="stable")


class Sampler:
    """Indices in an order that depends on the seed and the epoch: a base, of which `__iter__` gives the indices."""

    def __init__(self, num_samples: int, seed: Seed) -> None:
        self.num_samples = num_samples
        self.seed = seed_from(type(self).__name__, seed)
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch's order comes next; a `DataLoader` does."""
        self.epoch = at_least(0, type(self).__name__, "epoch", epoch)

    def __len__(self) -> int:
        return self.num_samples


class Shuffle(Sampler):
    """Each index once, in random order."""

    def __iter__(self) -> Iterator[int]:
        return iter(permutation(self.num_samples, self.seed, self.epoch).tolist())


class WeightedSampler(Sampler):
    """Indices drawn with given weights, as in `torch.utils.data.WeightedRandomSampler`.

    Each epoch draws others, by `set_epoch`, which a `DataLoader` calls; the same seed gives the same ones in every run.

    Args:
        weights: one for each sample, not negative; they need not add up to 1.
        num_samples: how many indices an epoch has.
        replacement: whether an index may come several times. Without it, they come in the order of drawing one after
            the other (Efraimidis and Spirakis 2006).
        seed: an integer from 0 on, or a `numpy.random.Generator` to draw one from; by default it is drawn from the
            random numbers of `ag.manual_seed`, now.

    Raises:
        ValueError: weights that are negative, infinite, NaN, all 0 or not in one dimension; fewer positive ones than
            `num_samples` without replacement; `num_samples` below 1; a negative seed.
        TypeError: weights that are no numbers; `num_samples` or `seed` of another type.

    >>> sampler = ag.data.WeightedSampler([0.0, 1.0, 3.0], 4, seed=0)
    >>> len(list(sampler)), 0 in list(sampler)
    (4, False)
    """

    def __init__(self, weights: TensorLike, num_samples: int, replacement: bool = True, seed: Seed = None) -> None:
        name = type(self).__name__
        self.weights = _weights(name, weights)
        self.replacement = replacement
        wanted = at_least(1, name, "num_samples", num_samples)
        possible = np.count_nonzero(self.weights)
        if not replacement and wanted > possible:
            raise ValueError(
                f"{name}: num_samples is {wanted}, but only {possible} weights are positive, and replacement is off"
            )
        super().__init__(wanted, seed)

    def __iter__(self) -> Iterator[int]:
        weights = self.weights
        if self.replacement:
            edges = np.cumsum(weights / weights.max())
            places = _fractions(random_bits(self.num_samples, self.seed, self.epoch)) * edges[-1]
            return iter(np.searchsorted(edges, places, side="right").tolist())
        fractions = _fractions(random_bits(weights.size, self.seed, self.epoch))
        with np.errstate(divide="ignore", invalid="ignore"):  # the arrival for a weight of 0 is infinite, or NaN: last
            arrivals = np.log(-np.log1p(-fractions)) - np.log(weights)
        return iter(np.argsort(arrivals, kind="stable")[: self.num_samples].tolist())


def _weights(name: str, weights: TensorLike) -> np.ndarray:
    try:
        values = np.asarray(weights, np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name}: weights must be a sequence of numbers: {error}") from None
    if values.ndim != 1 or not values.size:
        raise ValueError(f"{name}: weights must have one dimension and an element, not shape {values.shape}")
    wrong = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
    if wrong.size:
        at = wrong[0]
        raise ValueError(f"{name}: weights must be finite and not negative, but weight {at} is {values[at]}")
    if not values.any():
        raise ValueError(f"{name}: all {values.size} weights are 0")
    return values


def _fractions(bits: np.ndarray) -> np.ndarray:
    """Numbers in [0, 1) of 52 random bits: times any number, the product is less than that."""
    return (bits >> np.uint64(12)) * 2.0**-52
