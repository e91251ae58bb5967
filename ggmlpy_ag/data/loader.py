"""DataLoader: batches of samples, epoch after epoch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from ..backend import devices
from .collate import default_collate, on_device, on_host
from .prefetch import Prefetcher
from .sampler import Seed, Shuffle, at_least, seed_from
from .sources import as_indices, check_iterable, is_indexed, length, sample, samples


@dataclass
class _Progress:
    epoch: int = 0
    position: int = 0  # batches of it that were handed out
    begun: bool = False  # whether an iteration is at it


class DataLoader:
    """Batches of samples as tensors on a device; each iteration over it is an epoch.

    A thread prepares the next batches on the host while one is used; they come to the device when they are handed out.
    The names and conventions are those of `torch.utils.data.DataLoader`, with a thread in place of processes.

        for x, y in ag.data.DataLoader((images, labels), batch_size=64, shuffle=True):
            ...

    In a batch, integers are int32 and other real numbers float32; text and other objects are lists.

    Args:
        source: where samples come from. Read by index: a NumPy array or a tensor; a tuple or mapping of columns (arrays
            or sequences of one length; a batch is a tuple or dict); a sequence of samples, such as a list of pairs or
            any object with `__len__` and `__getitem__`. In their own order: an iterable, a generator, or a function
            without arguments that makes an iterator for each epoch. Tensors stay on their device: batches of them
            are taken there, and only the indices are uploaded.
        batch_size: samples in a batch; None if the source has whole batches.
        shuffle: whether each epoch has another random order, which depends on `seed` and the epoch alone.
        drop_last: whether to leave out the last batch if it is smaller than the others.
        seed: an integer from 0 on, or a `numpy.random.Generator` to draw one from; by default it is drawn from the
            random numbers of `ag.manual_seed` when the loader is made.
        collate: makes a batch of a list of samples, instead of `default_collate`; of the one sample if `batch_size` is
            None. NumPy arrays in what it returns become tensors.
        sampler: the indices of an epoch, instead of `shuffle`: an iterable with a length, such as `WeightedSampler`. If
            it has a method `set_epoch`, that is called with the number of the epoch first; an attribute `seed` is part
            of the loader's state.
        prefetch: how many batches the thread prepares ahead; 0 for no thread. The batches are the same. What the source
            and `collate` do happens in the thread: see docs/data.md about their random numbers.
        device: a device name; by default the one that is the default device when an iteration begins.
        steps_per_epoch: batches in an epoch, which goes on in the source where the last one ended, and begins anew
            there at its end; for endless generators, or shorter epochs.

    Raises:
        ValueError: an empty source; columns of different lengths; `drop_last` leaves no batch; a number below its least
            value; `sampler` beside `shuffle`; `shuffle` or `sampler` for an iterable; an unknown device. During the
            iteration: an iterable gives nothing, or less than `steps_per_epoch`.
        TypeError: an argument of another type.

    >>> loader = ag.data.DataLoader((np.arange(5), list("abcde")), batch_size=2)
    >>> len(loader)
    3
    >>> [(x.tolist(), names) for x, names in loader]
    [([0, 1], ['a', 'b']), ([2, 3], ['c', 'd']), ([4], ['e'])]
    """

    def __init__(
        self,
        source: Any,
        batch_size: int | None = 1,
        shuffle: bool = False,
        *,
        drop_last: bool = False,
        seed: Seed = None,
        collate: Callable[[Any], Any] | None = None,
        sampler: Iterable[int] | None = None,
        prefetch: int = 2,
        device: str | None = None,
        steps_per_epoch: int | None = None,
    ) -> None:
        self.source = source
        self.batch_size = None if batch_size is None else at_least(1, "DataLoader", "batch_size", batch_size)
        self.drop_last = bool(drop_last)
        self.prefetch = at_least(0, "DataLoader", "prefetch", prefetch)
        self.device = None if device is None else devices.resolve(device)
        if collate is not None and not callable(collate):
            raise TypeError(f"DataLoader: collate must be a function of a list of samples, not {collate!r}")
        if shuffle and sampler is not None:
            raise ValueError("DataLoader: sampler decides the order itself: it does not go with shuffle")
        self.collate = collate
        if steps_per_epoch is not None:
            steps_per_epoch = at_least(1, "DataLoader", "steps_per_epoch", steps_per_epoch)
        self.steps_per_epoch = steps_per_epoch
        self.sampler: Any = None  # of a source that is read by index
        self._steps = self.steps_per_epoch  # batches in an epoch, where that is known
        self._batches_per_pass = 0
        self._progress = _Progress()
        self._stream: Prefetcher[Any] | None = None  # of an iterable that the next epoch goes on with
        self._ordering = threading.Lock()
        if is_indexed(source):
            self._count_batches(shuffle, seed, sampler)
        else:
            check_iterable("DataLoader", source, shuffle, sampler)

    def _count_batches(self, shuffle: bool, seed: Seed, sampler: Any) -> None:
        self._samples = length("DataLoader", self.source)
        if not self._samples:
            raise ValueError("DataLoader: source is empty")
        if sampler is None:
            sampler = Shuffle(self._samples, seed_from("DataLoader", seed)) if shuffle else range(self._samples)
        if not isinstance(sampler, Sized) or not isinstance(sampler, Iterable):
            raise TypeError(f"DataLoader: sampler must be an iterable with a length, not a {type(sampler).__name__}")
        size = self.batch_size or 1
        self._batches_per_pass = len(sampler) // size if self.drop_last else -(-len(sampler) // size)
        if not self._batches_per_pass:
            raise ValueError(f"DataLoader: {len(sampler)} samples make no batch of {size}")
        self.sampler = sampler
        self._steps = self.steps_per_epoch or self._batches_per_pass

    def __len__(self) -> int:
        """Batches in an epoch. TypeError for an iterable without `steps_per_epoch`."""
        if self._steps is None:
            raise TypeError("DataLoader: an iterable has no length; with steps_per_epoch an epoch has one")
        return self._steps

    # ------------------------------------------------------------ iterating

    def __iter__(self) -> Iterator[Any]:
        device = devices.get(self.device)
        progress = self._begin()
        prefetcher = self._prefetcher(progress)
        left = None if self._steps is None else self._steps - progress.position
        try:
            with closing(prefetcher.take(left)) as batches:
                for batch in batches:
                    placed = [on_device(batch, device)]
                    del batch
                    progress.position += 1
                    yield placed.pop()  # so that it is freed when its user lets go of it
                    if prefetcher is self._stream and progress is not self._progress:
                        raise RuntimeError("DataLoader: another iteration has begun, which goes on with this iterable")
            if self.sampler is None and progress.position < (self._steps or 1):
                raise ValueError(_too_few(progress.position, self._steps))
        except Exception:
            if progress is self._progress:
                self._stream = None  # a generator that raised is at its end
            raise
        if progress is self._progress:
            self._progress = _Progress(progress.epoch + 1)

    def _begin(self) -> _Progress:
        """The progress of a new epoch, or of the loaded one."""
        if self._progress.begun:
            self._progress = _Progress(self._progress.epoch + 1)
        self._progress.begun = True
        return self._progress

    def _prefetcher(self, progress: _Progress) -> Prefetcher[Any]:
        if self.sampler is not None:
            first = progress.epoch * len(self)
            return Prefetcher(self._indexed(first + progress.position, first + len(self)), self.prefetch)
        if self._steps is None and not isinstance(self.source, Iterator):
            return Prefetcher(self._streamed(), self.prefetch)
        if self._stream is None:
            self._stream = Prefetcher(self._endless(), self.prefetch)
        return self._stream

    # ------------------------------------------------------------ preparing, perhaps in the thread

    def _indexed(self, first: int, last: int) -> Iterator[Any]:
        """Batches by their number, counted from the first epoch on."""
        size = self.batch_size or 1
        current, order = -1, np.zeros(0, np.int64)
        for number in range(first, last):
            turn, at = divmod(number, self._batches_per_pass)
            if turn != current:
                current, order = turn, self._order(turn)
            yield on_host(self._read(order[at * size : (at + 1) * size]))

    def _order(self, turn: int) -> np.ndarray:
        with self._ordering:  # two iterations may be at different epochs
            if hasattr(self.sampler, "set_epoch"):
                self.sampler.set_epoch(turn)
            order = as_indices("DataLoader: sampler", list(self.sampler), self._samples)
        if len(order) != len(self.sampler):
            raise ValueError(f"DataLoader: sampler gave {len(order)} indices, but its length is {len(self.sampler)}")
        return order

    def _read(self, indices: np.ndarray) -> Any:
        if self.batch_size is not None and self.collate is None:
            return samples(self.source, indices)
        return self._joined([sample(self.source, i) for i in indices.tolist()])

    def _joined(self, found: list[Any]) -> Any:
        if self.batch_size is None:
            return found[0] if self.collate is None else self.collate(found[0])
        return (self.collate or default_collate)(found)

    def _streamed(self) -> Iterator[Any]:
        """Batches of an iterable, once through."""
        found = iter(self.source if isinstance(self.source, Iterable) else self.source())
        size = self.batch_size or 1
        while batch := list(islice(found, size)):
            if len(batch) == size or not self.drop_last:
                yield on_host(self._joined(batch))

    def _endless(self) -> Iterator[Any]:
        """Batches of an iterable, again and again, as long as there are any."""
        some = True
        while some:
            some = False
            for batch in self._streamed():
                some = True
                yield batch

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        """Where the iteration is, as numbers that JSON can hold.

        After a break, that is where it broke off, although the next iteration here would begin another epoch.

        Raises:
            TypeError: the source is an iterable, which cannot be begun anywhere but where it stands.
        """
        return {
            **self._kind("state_dict"),
            "epoch": self._progress.epoch,
            "position": self._progress.position,
            "seed": getattr(self.sampler, "seed", None),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next iteration go on with the batch after the last one that the saved loader had handed out.

        Args:
            state: what `state_dict` of a loader with as many samples, of the same batch size and sampler gave.

        Raises:
            ValueError: a state of another kind of loader, or none. TypeError: a number of another type; the source is
            an iterable. Nothing has changed then.
        """
        own = self._kind("load_state_dict")
        missing = {*own, "epoch", "position", "seed"} - set(state)
        if missing:
            raise ValueError(f"this is no state of a DataLoader: it lacks {', '.join(sorted(missing))}")
        for name, value in own.items():
            if state[name] != value:
                raise ValueError(f"this is the state of a DataLoader with {name} {state[name]}, here it is {value}")
        epoch = at_least(0, "load_state_dict", "epoch", state["epoch"])
        position = at_least(0, "load_state_dict", "position", state["position"])
        if position > len(self):
            raise ValueError(f"load_state_dict: position {position} is beyond the {len(self)} batches of an epoch")
        if (state["seed"] is None) != (getattr(self.sampler, "seed", None) is None):
            raise ValueError("load_state_dict: one of the two loaders has a seed (shuffle or sampler), and one has not")
        if state["seed"] is not None:
            self.sampler.seed = at_least(0, "load_state_dict", "seed", state["seed"])
        self._progress = _Progress(epoch, position)

    def _kind(self, method: str) -> dict[str, Any]:
        """What two loaders have in common that give the same batches."""
        if self.sampler is None:
            raise TypeError(
                f"{method}: a DataLoader over an iterable cannot go on in the midst of it; a source with __len__ and "
                "__getitem__ can"
            )
        return {"samples": len(self.sampler), "batch_size": self.batch_size, "steps": len(self)}


def _too_few(found: int, steps: int | None) -> str:
    if steps is not None:
        return f"DataLoader: the source ended after {found} of the {steps} batches that steps_per_epoch asks for"
    return (
        "DataLoader: the source gave no batch: it is empty, or a generator that has come to its end; pass the function "
        "that makes it, which is called for each epoch"
    )


__all__ = ["DataLoader"]
