"""Batches, their order and its state, sources that are streams, the thread that prepares, splits and weights."""

from __future__ import annotations

import doctest
import gc
import inspect
import itertools
import json
import subprocess
import sys
import textwrap
import threading
import traceback
from collections import Counter, namedtuple
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import numpy as np
import pytest

import ggmlpy_ag as ag
from ggmlpy_ag.data import DataLoader, Subset, WeightedSampler, default_collate, random_split

Pair = namedtuple("Pair", "x y")
PREFETCH = [0, 1, 3]


class Squares:
    """A dataset of a user's own."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> tuple[np.ndarray, int]:
        assert type(i) is int and 0 <= i < self.n
        return np.array([i, i * i], np.float64), i


def plain(batch: Any) -> Any:
    """Tensors as lists, for comparing."""
    if isinstance(batch, ag.Tensor):
        return batch.tolist()
    if isinstance(batch, dict):
        return {key: plain(part) for key, part in batch.items()}
    if isinstance(batch, (tuple, list)):
        return [plain(part) for part in batch]
    return batch


def epochs(loader: DataLoader, count: int) -> list[list[Any]]:
    return [[plain(batch) for batch in loader] for _ in range(count)]


def workers() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name == "ggmlpy_ag.data"]


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    assert workers() == []


# ---------------------------------------------------------------- batches


def test_arrays_become_tensors_on_the_default_device(device: str) -> None:
    x = np.arange(15, dtype=np.float64).reshape(5, 3)
    batches = list(DataLoader(x, batch_size=2))
    assert [b.shape for b in batches] == [(2, 3), (2, 3), (1, 3)]
    assert {(b.device, b.dtype.name) for b in batches} == {(device, "float32")}
    np.testing.assert_array_equal(np.concatenate([b.numpy() for b in batches]), x)


def test_the_default_device_is_that_of_the_iteration(device: str) -> None:
    with ag.device("cpu"):
        loader, fixed = DataLoader(np.arange(3)), DataLoader(np.arange(3), device="cpu")
    assert next(iter(loader)).device == device
    assert next(iter(fixed)).device == "cpu"


SOURCES = [
    ((np.arange(4), np.ones((4, 2))), [[0, 1], [[1, 1], [1, 1]]]),
    ({"x": np.arange(4), "name": list("abcd")}, {"x": [0, 1], "name": ["a", "b"]}),
    (Pair(np.arange(4), {"z": np.arange(4) * 0.5}), [[0, 1], {"z": [0, 0.5]}]),
    (np.array(["a", "b", "c", "d"]), ["a", "b"]),
    ([(i, i / 2, f"n{i}") for i in range(4)], [[0, 1], [0, 0.5], ["n0", "n1"]]),
    ([{"x": i, "flag": i > 0} for i in range(4)], {"x": [0, 1], "flag": [0, 1]}),
    ([Pair([1, None], 2)] * 4, [[[1, 1], [None, None]], [2, 2]]),
    (range(4), [0, 1]),
    (Squares(4), [[[0, 0], [1, 1]], [0, 1]]),
    (Subset(Subset((np.arange(9), list("abcdefghi")), [8, 1, 3, 5, 7]), [0, 4, 2, 1]), [[8, 7], ["i", "h"]]),
    (lambda: iter(range(4)), [0, 1]),
    ((i for i in range(4)), [0, 1]),
    ({1.5}, [1.5]),
]


@pytest.mark.parametrize("source, expected", SOURCES, ids=lambda v: type(v).__name__)
def test_every_kind_of_source(source: Any, expected: Any) -> None:
    first = next(iter(DataLoader(source, batch_size=2)))
    assert plain(first) == expected
    if isinstance(source, Pair):
        assert isinstance(first, Pair)


def test_integers_are_int32_and_other_numbers_float32() -> None:
    samples = [(np.int64(1), np.uint8(2), 3, 0.5, np.float16(0.5), True, np.bool_(False))]
    (batch,) = DataLoader(samples)
    assert [part.dtype.name for part in batch] == ["int32"] * 3 + ["float32"] * 4


def test_tensors_as_samples_are_stacked(device: str) -> None:
    rows = [(ag.tensor([1.0, 2.0]) * i, i) for i in range(3)]
    x, i = next(iter(DataLoader(rows, batch_size=3)))
    assert (x.device, x.tolist(), i.tolist()) == (device, [[0, 0], [1, 2], [2, 4]], [0, 1, 2])


@pytest.mark.parametrize("source", [np.arange(4), [0, 1, 2, 3], lambda: iter(range(4))])
def test_collate_joins_samples(source: Any) -> None:
    def doubled(samples: list[Any]) -> dict[str, Any]:
        assert type(samples) is list
        return {"x": np.array(samples) * 2.0, "rest": ["text", samples[0] * 1.5], "size": len(samples)}

    first = next(iter(DataLoader(source, batch_size=2, collate=doubled)))
    assert plain(first) == {"x": [0, 2], "rest": ["text", 0], "size": 2}
    assert isinstance(first["x"], ag.Tensor) and type(first["size"]) is int


@pytest.mark.parametrize("source", [[np.zeros((2, 3)), np.ones((4, 3))], lambda: iter([np.zeros((2, 3))] * 2)])
def test_a_source_of_whole_batches(source: Any) -> None:
    loader = DataLoader(source, batch_size=None)
    assert [b.shape for b in loader][0] == (2, 3)
    assert [plain(b) for b in DataLoader(source, batch_size=None, collate=len)][0] == 2


@pytest.mark.parametrize("n, size", [(10, 1), (10, 3), (10, 5), (10, 10), (3, 4), (1, 1)])
@pytest.mark.parametrize("drop_last", [False, True])
def test_sizes_are_those_of_pytorch(n: int, size: int, drop_last: bool) -> None:
    torch = pytest.importorskip("torch")
    theirs = torch.utils.data.DataLoader(range(n), batch_size=size, drop_last=drop_last)
    expected = [len(b) for b in theirs]
    if not expected:
        with pytest.raises(ValueError, match="make no batch of 4"):
            DataLoader(range(n), size, drop_last=drop_last)
        return
    loader = DataLoader(range(n), size, drop_last=drop_last)
    assert len(loader) == len(theirs)
    assert [len(b) for b in loader] == expected
    assert [len(b) for b in DataLoader(lambda: iter(range(n)), size, drop_last=drop_last)] == expected


def test_collate_is_that_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    samples = [{"x": np.full(2, i), "pair": (i, float(i)), "list": [i, "t"]} for i in range(3)]
    theirs = torch.utils.data.default_collate(samples)
    ours = default_collate(samples)
    assert ours.keys() == theirs.keys()
    np.testing.assert_array_equal(ours["x"], theirs["x"].numpy())
    for a, b in zip(ours["pair"], theirs["pair"], strict=True):
        np.testing.assert_array_equal(a, b.numpy())
    assert ours["list"][0].tolist() == theirs["list"][0].tolist()
    assert ours["list"][1] == list(theirs["list"][1])


@pytest.mark.parametrize(
    "samples, message",
    [
        ([], "no sample"),
        ([np.zeros(3), np.zeros(3), np.zeros(4)], r"shape \(3,\), but sample 2 of the batch \(4,\): pass collate"),
        ([(1, 2), (1,)], "length 2, but sample 1 of the batch 1"),
        ([(1, 2), 7], "length 2, but sample 1 of the batch 7"),
        ([{"a": 1}, {"b": 1}], "keys {'a'}, but sample 1 of the batch {'b'}"),
    ],
)
def test_samples_that_cannot_be_joined(samples: list[Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        default_collate(samples)


# ---------------------------------------------------------------- tables on the device


@pytest.mark.parametrize("shuffle", [False, True])
def test_of_tables_on_the_device_only_indices_move(device: str, shuffle: bool) -> None:
    x, y = ag.rand(50, 3, 2), ag.tensor(np.arange(50))
    source = {"pair": (x, y), "again": Subset(x, np.arange(50)[::-1])}
    loader = DataLoader(source, batch_size=8, shuffle=shuffle, seed=1)
    before = ag.counters()
    for batch in loader:
        rows = batch["pair"][1].size
        moved = ag.counters() - before
        # one array of indices for the pair, and one for the subset
        assert (moved.uploads, moved.upload_bytes, moved.downloads) == (2, 2 * rows * 4, 0)
        assert all(t.device == device for t in (*batch["pair"], batch["again"]))
        seen = batch["pair"][1].numpy()
        np.testing.assert_array_equal(batch["pair"][0].numpy(), x.numpy()[seen])
        np.testing.assert_array_equal(batch["again"].numpy(), x.numpy()[49 - seen])
        before = ag.counters()


def test_tables_elsewhere_follow_to_the_device() -> None:
    for info in ag.devices():
        table = ag.tensor(np.arange(6.0), device=info.name)
        for target in ag.devices():
            (batch,) = DataLoader(table, batch_size=6, device=target.name)
            assert (batch.device, batch.tolist()) == (target.name, list(range(6)))


def test_a_replay_buffer_uploads_rows_once_and_then_indices(device: str) -> None:
    """The peer's ag_buffer: written by ranges, read by indices."""
    capacity, width, size = 32, 5, 4
    table = ag.tensor(np.zeros((capacity, width)))
    kept = np.zeros((capacity, width), np.float32)
    rng = np.random.default_rng(0)
    for step in range(6):
        rows = rng.standard_normal((3, width)).astype(np.float32)
        at = step * 3
        before = ag.counters()
        table[at : at + 3] = rows
        assert (ag.counters() - before).upload_bytes == rows.nbytes
        kept[at : at + 3] = rows
        index = rng.integers(0, at + 3, size)
        before = ag.counters()
        batch = ag.take(table, index)
        loss = ag.mean(batch * batch)
        ag.mean(loss)  # nobody reads it
        moved = ag.counters() - before
        assert (moved.uploads, moved.upload_bytes, moved.downloads) == (1, 4 * size, 0)
        np.testing.assert_allclose(loss.item(), np.mean(kept[index] ** 2), rtol=1e-5)
        assert (ag.counters() - before).download_bytes == 4


@pytest.mark.parametrize("prefetch", PREFETCH)
def test_a_batch_is_freed_when_its_user_lets_go(device: str, prefetch: int) -> None:
    rows = ag.tensor(np.zeros((4, 1000)))
    source: tuple[Any, ...] = (rows, np.zeros((4, 1000)))
    if not prefetch:  # a thread joins the tensors of later batches too
        source = (*source, [rows[i] for i in range(4)])
    with closing(iter(DataLoader(source, batch_size=2, prefetch=prefetch))) as loader:
        before = ag.memory_stats().live
        batch = next(loader)
        assert {t.numpy().shape for t in batch} == {(2, 1000)}
        assert ag.memory_stats().live > before
        del batch
        assert ag.memory_stats().live == before


# ---------------------------------------------------------------- order


def test_a_seed_pins_the_order() -> None:
    loader = DataLoader(range(10), batch_size=10, shuffle=True, seed=0)
    assert epochs(loader, 2) == [[[1, 4, 5, 6, 8, 2, 0, 3, 9, 7]], [[7, 8, 6, 2, 9, 3, 1, 0, 4, 5]]]
    assert list(WeightedSampler([1, 2, 3], 8, seed=0)) == [2, 0, 1, 2, 1, 1, 1, 2]
    assert list(WeightedSampler([1, 2, 3], 2, replacement=False, seed=0)) == [1, 2]
    assert random_split(range(6), [2, 4], seed=0)[0].indices.tolist() == [1, 4]


def test_each_epoch_has_another_order_of_all_samples() -> None:
    found = epochs(DataLoader(range(50), batch_size=7, shuffle=True, seed=3), 4)
    orders = [tuple(itertools.chain.from_iterable(epoch)) for epoch in found]
    assert len(set(orders)) == 4
    assert all(sorted(order) == list(range(50)) for order in orders)
    assert found == epochs(DataLoader(range(50), batch_size=7, shuffle=True, seed=3), 4)
    assert found != epochs(DataLoader(range(50), batch_size=7, shuffle=True, seed=4), 4)


def test_the_first_place_is_uniform() -> None:
    counts = np.bincount([next(iter(DataLoader(range(5), 1, True, seed=s, prefetch=0))).item() for s in range(500)])
    assert np.all(abs(counts - 100) < 5 * np.sqrt(500 * 0.2 * 0.8))


def test_without_a_seed_manual_seed_decides() -> None:
    def order(loader: DataLoader) -> list[Any]:
        return epochs(loader, 2)

    ag.manual_seed(5)
    first, second = DataLoader(range(30), 4, True), DataLoader(range(30), 4, True)
    ag.rand(3)  # what is drawn later changes nothing
    ag.manual_seed(5)
    again = DataLoader(range(30), 4, True)
    assert order(first) == order(again) != order(second)
    draw = np.random.default_rng
    assert order(DataLoader(range(30), 4, True, seed=draw(1))) == order(DataLoader(range(30), 4, True, seed=draw(1)))


@pytest.mark.parametrize("source", [np.arange(20), list(range(20)), lambda: iter(range(20)), ag.tensor(np.arange(20))])
def test_the_batches_are_the_same_for_every_prefetch(source: Any) -> None:
    shuffle = not callable(source)
    found = [epochs(DataLoader(source, 3, shuffle, seed=2, prefetch=p), 3) for p in (0, 1, 2, 9)]
    assert found[0] == found[1] == found[2] == found[3]


def test_a_sampler_gives_the_order() -> None:
    loader = DataLoader(np.arange(10) * 10, batch_size=2, sampler=[7, 7, 0])
    assert (len(loader), epochs(loader, 2)) == (2, [[[70, 70], [0]]] * 2)
    weighted = DataLoader(range(4), batch_size=8, sampler=WeightedSampler([0, 1, 1, 0], 8, seed=0))
    one, two = epochs(weighted, 2)
    assert one != two and set(one[0] + two[0]) == {1, 2}


@pytest.mark.parametrize(
    "sampler, error, message",
    [
        ([0, 10], IndexError, r"index 10 at \(1,\) is outside \[0, 10\)"),
        ([-1], IndexError, "index -1"),
        ([0.5], TypeError, "integers"),
        ([[0, 1]], TypeError, "one dimension"),
    ],
)
@pytest.mark.parametrize("prefetch", [0, 2])
def test_a_wrong_sampler(sampler: Any, error: type[Exception], message: str, prefetch: int) -> None:
    with pytest.raises(error, match=message):
        list(DataLoader(range(10), sampler=sampler, prefetch=prefetch))


# ---------------------------------------------------------------- state


def resumable() -> dict[str, Callable[[], DataLoader]]:
    return {
        "shuffled": lambda: DataLoader(range(11), 3, True),
        "in order": lambda: DataLoader(np.arange(11), 3, drop_last=True),
        "weighted": lambda: DataLoader(range(4), 2, sampler=WeightedSampler([1, 2, 3, 4], 5)),
        "long epochs": lambda: DataLoader(range(5), 2, True, steps_per_epoch=7),
        "short epochs": lambda: DataLoader(range(17), 2, True, steps_per_epoch=2, prefetch=0),
    }


@pytest.mark.parametrize("kind", resumable())
def test_a_resumed_run_sees_the_batches_it_would_have_seen(kind: str) -> None:
    loader = resumable()[kind]()
    states, batches = [json.dumps(loader.state_dict())], []
    for _ in range(3):
        for batch in loader:
            batches.append(plain(batch))
            states.append(json.dumps(loader.state_dict()))
        states[-1] = json.dumps(loader.state_dict())  # the epoch is over
    for done, state in enumerate(states):
        resumed = resumable()[kind]()  # with another seed
        resumed.load_state_dict(json.loads(state))
        assert resumed.state_dict() == json.loads(state)
        rest: list[Any] = []
        while len(rest) < len(batches) - done:
            rest += [plain(batch) for batch in resumed]
        assert rest == batches[done:]


def test_a_state_within_the_last_batch_of_an_epoch_ends_that_epoch() -> None:
    loader = DataLoader(range(4), 2, True, seed=0)
    iterator = iter(loader)
    next(iterator), next(iterator)
    resumed = DataLoader(range(4), 2, True, seed=1)
    resumed.load_state_dict(loader.state_dict())
    assert list(iterator) == list(resumed) == []
    assert epochs(loader, 1) == epochs(resumed, 1) == epochs(DataLoader(range(4), 2, True, seed=0), 2)[1:]


def test_after_a_break_the_next_epoch_begins_but_its_state_goes_on() -> None:
    loader = DataLoader(range(8), 2, True, seed=0)
    expected = epochs(DataLoader(range(8), 2, True, seed=0), 2)
    for batch in loader:
        assert plain(batch) == expected[0][0]
        break
    resumed = DataLoader(range(8), 2, True, seed=0)
    resumed.load_state_dict(loader.state_dict())
    assert epochs(resumed, 2) == [expected[0][1:], expected[1]]
    assert epochs(loader, 1) == expected[1:]


def test_two_iterations_at_once_are_two_epochs() -> None:
    loader = DataLoader(range(8), 2, True, seed=0)
    pairs = [(plain(a), plain(b)) for a, b in zip(loader, loader, strict=True)]
    assert list(map(list, zip(*pairs, strict=True))) == epochs(DataLoader(range(8), 2, True, seed=0), 2)


@pytest.mark.parametrize(
    "change, error, message",
    [
        ({"batch_size": 3}, ValueError, "with batch_size 3, here it is 2"),
        ({"samples": 9}, ValueError, "with samples 9, here it is 8"),
        ({"steps": 5}, ValueError, "with steps 5, here it is 4"),
        ({"position": 5}, ValueError, "position 5 is beyond the 4 batches"),
        ({"position": -1}, ValueError, "position must be at least 0"),
        ({"epoch": 1.5}, TypeError, "epoch must be an integer"),
        ({"epoch": None}, TypeError, "epoch must be an integer"),
        ({"seed": None}, ValueError, "one of the two loaders has a seed"),
        ({"seed": "x"}, TypeError, "seed must be an integer"),
    ],
)
def test_a_wrong_state_changes_nothing(change: dict[str, Any], error: type[Exception], message: str) -> None:
    loader = DataLoader(range(8), 2, True, seed=0)
    before = loader.state_dict()
    with pytest.raises(error, match=message):
        loader.load_state_dict({**before, **change})
    with pytest.raises(ValueError, match="lacks epoch, position"):
        loader.load_state_dict({k: v for k, v in before.items() if k not in ("epoch", "position")})
    assert loader.state_dict() == before


def test_a_stream_has_no_state() -> None:
    loader = DataLoader(itertools.count, 2, steps_per_epoch=3)
    with pytest.raises(TypeError, match="state_dict: a DataLoader over an iterable"):
        loader.state_dict()
    with pytest.raises(TypeError, match="load_state_dict: a DataLoader over an iterable"):
        loader.load_state_dict({})


# ---------------------------------------------------------------- streams


@pytest.mark.parametrize("prefetch", PREFETCH)
@pytest.mark.parametrize("source", [itertools.count, itertools.count(), (i for i in itertools.count())])
def test_an_epoch_of_an_endless_generator_goes_on_after_the_last_one(source: Any, prefetch: int) -> None:
    loader = DataLoader(source, 2, steps_per_epoch=2, prefetch=prefetch)
    start = next(iter(loader))[0].item()  # and break off: the rest of that epoch is not lost
    assert len(loader) == 2
    numbers = list(range(start + 2, start + 10))
    assert epochs(loader, 2) == [[numbers[:2], numbers[2:4]], [numbers[4:6], numbers[6:]]]


@pytest.mark.parametrize("prefetch", PREFETCH)
def test_no_more_is_taken_from_a_generator_than_an_epoch_needs(prefetch: int) -> None:
    numbers = itertools.count()
    list(DataLoader(numbers, 2, steps_per_epoch=3, prefetch=prefetch))
    assert next(numbers) == 6


@pytest.mark.parametrize("prefetch", PREFETCH)
def test_a_function_or_iterable_is_called_for_each_epoch(prefetch: int) -> None:
    for source in (lambda: iter(range(5)), {0: "a", 1: "b"}.keys()):
        loader = DataLoader(source, 2, prefetch=prefetch)
        next(iter(loader))
        first, second = epochs(loader, 2)
        assert first == second and first[0] == [0, 1]
    with pytest.raises(TypeError, match="has no length"):
        len(loader)


@pytest.mark.parametrize("prefetch", PREFETCH)
def test_a_finite_stream_begins_anew_within_an_epoch(prefetch: int) -> None:
    loader = DataLoader(lambda: iter(range(5)), 2, steps_per_epoch=4, prefetch=prefetch)
    assert epochs(loader, 2) == [[[0, 1], [2, 3], [4], [0, 1]], [[2, 3], [4], [0, 1], [2, 3]]]


@pytest.mark.parametrize("prefetch", PREFETCH)
def test_a_generator_that_has_ended_is_an_error(prefetch: int) -> None:
    once = DataLoader((i for i in range(4)), 2, prefetch=prefetch)
    assert epochs(once, 1) == [[[0, 1], [2, 3]]]
    short = DataLoader((i for i in range(6)), 2, steps_per_epoch=2, prefetch=prefetch)
    assert epochs(short, 1) == [[[0, 1], [2, 3]]]
    empty = DataLoader(lambda: iter(()), prefetch=prefetch)
    for loader, message in ((once, "gave no batch"), (empty, "gave no batch"), (short, "ended after 1 of the 2")):
        with pytest.raises(ValueError, match=message):
            list(loader)


@pytest.mark.parametrize("prefetch", PREFETCH)
def test_a_second_iteration_over_a_stream_ends_the_first(prefetch: int) -> None:
    loader = DataLoader(itertools.count(), 2, steps_per_epoch=3, prefetch=prefetch)
    first, second = iter(loader), iter(loader)
    assert (plain(next(first)), plain(next(second))) == ([0, 1], [2, 3])
    with pytest.raises(RuntimeError, match="another iteration has begun"):
        next(first)
    assert [plain(b) for b in second] == [[4, 5], [6, 7]]


# ---------------------------------------------------------------- the thread


class Failing(Squares):
    def __getitem__(self, i: int) -> tuple[np.ndarray, int]:
        if i == 3:
            raise self.error
        return super().__getitem__(i)

    error: Exception = KeyError("sample 3 is broken")


@pytest.mark.parametrize("prefetch", PREFETCH)
def test_errors_of_the_source_come_through_with_their_traceback(prefetch: int) -> None:
    found = []
    with pytest.raises(KeyError, match="sample 3") as caught:
        for batch in DataLoader(Failing(6), prefetch=prefetch):
            found.append(batch[1].item())
    assert found == [0, 1, 2]
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert frames[-1].line == "raise self.error"


@pytest.mark.parametrize("prefetch", PREFETCH)
def test_stop_iteration_in_a_dataset_does_not_end_an_epoch_silently(prefetch: int) -> None:
    source = Failing(6)
    source.error = StopIteration()
    with pytest.raises(RuntimeError, match="StopIteration"):
        list(DataLoader(source, prefetch=prefetch))


@pytest.mark.parametrize("prefetch", PREFETCH)
def test_a_stream_begins_anew_after_an_error(prefetch: int) -> None:
    calls = []

    def numbers() -> Iterator[int]:
        calls.append(1)
        yield from range(3)
        if len(calls) == 1:
            raise OSError("no network")
        yield from range(3, 9)

    loader = DataLoader(numbers, steps_per_epoch=4, prefetch=prefetch)
    with pytest.raises(OSError, match="no network"):
        list(loader)
    assert epochs(loader, 1) == [[[0], [1], [2], [3]]]


@pytest.mark.parametrize("prefetch", PREFETCH)
def test_the_thread_ends_with_the_iteration(prefetch: int) -> None:
    loader = DataLoader(Squares(50), 2, prefetch=prefetch)
    iterator = iter(loader)
    next(iterator)
    assert len(workers()) == (prefetch > 0)
    del iterator
    assert workers() == []
    for _ in loader:
        break
    assert workers() == []
    with pytest.raises(ZeroDivisionError):
        for _ in loader:
            1 / 0  # noqa: B018
    assert workers() == []
    assert len(list(loader)) == 25
    assert workers() == []


def test_the_garbage_collector_may_end_the_thread() -> None:
    cycle: list[Any] = [iter(DataLoader(Squares(50), 2))]
    cycle.append(cycle)
    next(cycle[0])
    assert len(workers()) == 1
    del cycle
    gc.collect()
    assert workers() == []


def test_the_garbage_collector_may_run_in_the_thread_itself() -> None:
    collect, done = threading.Event(), threading.Event()

    def numbers() -> Iterator[int]:
        yield 0
        collect.wait(60)
        gc.collect()
        done.set()
        yield from itertools.count(1)

    loader = DataLoader(numbers, steps_per_epoch=3, prefetch=1)
    cycle: list[Any] = [iter(loader)]
    cycle.append(cycle)
    gc.disable()
    try:
        assert next(cycle[0]).item() == 0
        del cycle
        collect.set()
        assert done.wait(60)
    finally:
        gc.enable()
    assert epochs(loader, 1) == [[[1], [2], [3]]]


def test_the_thread_prepares_ahead_but_not_too_far() -> None:
    handed, furthest, third = 0, 0, threading.Event()

    class Watched(Squares):
        def __getitem__(self, i: int) -> tuple[np.ndarray, int]:
            nonlocal furthest
            furthest = max(furthest, i - handed)
            if i == 2:
                third.set()
            return super().__getitem__(i)

    for _ in DataLoader(Watched(20), prefetch=2):
        assert third.wait(60)  # while the first batch is in use
        handed += 1
    assert furthest <= 2 + 1


@pytest.mark.parametrize("prefetch", [0, 2])
def test_the_source_sees_the_default_device_of_the_iteration(device: str, prefetch: int) -> None:
    names = DataLoader(lambda: iter([ag.device().name] * 2), 2, prefetch=prefetch)
    assert list(names) == [[device] * 2]


def test_a_program_may_end_while_the_thread_works() -> None:
    program = """
        import itertools, time
        import ggmlpy_ag as ag

        def slow():
            for i in itertools.count():
                time.sleep(0.01)
                print(end="")
                yield i

        iterator = iter(ag.data.DataLoader(slow, steps_per_epoch=1000))
        print(next(iterator).item())
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")


# ---------------------------------------------------------------- splits and weights


@pytest.mark.parametrize("n", [1, 7, 10, 101])
@pytest.mark.parametrize("lengths", [[0.5, 0.5], [0.8, 0.1, 0.1], [0.33, 0.33, 0.34], [1.0], [0.1] * 10, [1.0, 0.0]])
@pytest.mark.filterwarnings("ignore:Length of split")
def test_splits_have_the_sizes_of_pytorch(n: int, lengths: list[float]) -> None:
    torch = pytest.importorskip("torch")
    parts = random_split(np.arange(n), lengths, seed=1)
    assert [len(p) for p in parts] == [len(p) for p in torch.utils.data.random_split(range(n), lengths)]
    assert sorted(int(v) for p in parts for v in p) == list(range(n))


def test_splits_depend_on_the_seed() -> None:
    def split(seed: Any) -> list[list[int]]:
        return [list(p) for p in random_split(list(range(20)), [12, 8], seed=seed)]

    assert split(1) == split(1) != split(2)
    ag.manual_seed(3)
    drawn = split(None)
    ag.manual_seed(3)
    assert drawn == split(None) != split(None)


def test_a_part_of_a_split_is_a_source() -> None:
    x = np.arange(20.0)
    train, test = random_split((x, list(range(20))), [0.75, 0.25], seed=0)
    (a, b), (c, d) = next(iter(DataLoader(train, 15, True))), next(iter(DataLoader(test, 5)))
    assert a.tolist() == b.tolist() and c.tolist() == d.tolist()
    assert sorted(a.tolist() + c.tolist()) == x.tolist()
    with pytest.raises(ValueError, match="source is empty"):
        DataLoader(random_split(x, [20, 0])[1])


def test_a_subclass_of_subset_is_asked_for_its_samples() -> None:
    class Negated(Subset):
        def __getitem__(self, i: int) -> Any:
            return -super().__getitem__(i)

    assert epochs(DataLoader(Negated(np.arange(5), [4, 2]), 2), 1) == [[[-4, -2]]]


def test_weights_are_followed() -> None:
    weights = [0.0, 1.0, 2.0, 0.0, 5.0, 0.0]
    drawn = Counter(WeightedSampler(weights, 8000, seed=0))
    for i, w in enumerate(weights):
        p = w / 8
        assert abs(drawn[i] - 8000 * p) <= 5 * np.sqrt(8000 * p * (1 - p))
    first: Counter[int] = Counter()
    for seed in range(2000):
        order = list(WeightedSampler(weights, 3, replacement=False, seed=seed))
        assert sorted(order) == [1, 2, 4]
        first[order[0]] += 1
    for i in (1, 2, 4):
        p = weights[i] / 8
        assert abs(first[i] - 2000 * p) <= 5 * np.sqrt(2000 * p * (1 - p))


@pytest.mark.parametrize("scale", [5e-324, 1e-300, 1e300])
def test_weights_of_any_size(scale: float) -> None:
    weights = np.array([0.0, 1.0, 1.0, 0.0]) * scale
    assert set(WeightedSampler(weights, 100, seed=0)) == {1, 2}
    assert set(WeightedSampler(ag.tensor([0, 1, 1]), 2, replacement=False, seed=0)) == {1, 2}
    assert set(WeightedSampler(weights, 2, replacement=False, seed=0)) == {1, 2}


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        ({"batch_size": 0}, ValueError, "batch_size must be at least 1, not 0"),
        ({"batch_size": 2.0}, TypeError, "batch_size must be an integer"),
        ({"batch_size": True}, TypeError, "batch_size must be an integer"),
        ({"prefetch": -1}, ValueError, "prefetch must be at least 0"),
        ({"steps_per_epoch": 0}, ValueError, "steps_per_epoch must be at least 1"),
        ({"shuffle": True, "seed": -1}, ValueError, "seed must be at least 0"),
        ({"shuffle": True, "seed": "a"}, TypeError, "seed must be an integer"),
        ({"shuffle": True, "sampler": [0]}, ValueError, "does not go with shuffle"),
        ({"sampler": (i for i in range(3))}, TypeError, "iterable with a length"),
        ({"sampler": []}, ValueError, "0 samples make no batch"),
        ({"collate": "stack"}, TypeError, "collate must be a function"),
        ({"device": "tpu"}, ValueError, "no device 'tpu'"),
        ({"source": []}, ValueError, "source is empty"),
        ({"source": (np.zeros(3), np.zeros(4))}, ValueError, "0: 3, 1: 4"),
        ({"source": {"x": np.zeros(3), "y": [1]}}, ValueError, "'x': 3, 'y': 1"),
        ({"source": (np.zeros(3), iter(range(3)))}, TypeError, "not from a range_iterator"),
        ({"source": ()}, ValueError, "there is none"),
        ({"source": np.zeros(())}, ValueError, "without dimensions"),
        ({"source": ag.tensor(1.0)}, ValueError, "without dimensions"),
        ({"source": 3}, TypeError, "not a int"),
        ({"source": iter(range(3)), "shuffle": True}, ValueError, "shuffle needs samples that are read by index"),
        ({"source": itertools.count, "sampler": [0]}, ValueError, "sampler needs samples that are read by index"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    before = ag.get_rng_state()
    with pytest.raises(error, match=message):
        DataLoader(**{"source": range(3), **arguments})
    assert repr(ag.get_rng_state()) == repr(before)


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: random_split(range(5), [2, 2]), ValueError, r"\[2, 2\] must add up to the number of samples, 5"),
        (lambda: random_split(range(5), [0.5, 0.4]), ValueError, "fractions must be positive and add up to 1"),
        (lambda: random_split(range(5), [1.5, -0.5]), ValueError, "fractions must be positive"),
        (lambda: random_split(range(5), [6, -1]), ValueError, "each length must be at least 0"),
        (lambda: random_split(range(5), ["5"]), TypeError, "each length must be an integer"),
        (lambda: random_split(iter(range(5)), [5]), TypeError, "read by index"),
        (lambda: Subset(range(5), [5]), IndexError, "index 5"),
        (lambda: Subset(range(5), [True]), TypeError, "integers in one dimension, not bool"),
        (lambda: Subset(range(5), [0])["a"], TypeError, "integer"),
        (lambda: WeightedSampler([], 1), ValueError, r"shape \(0,\)"),
        (lambda: WeightedSampler([[1.0]], 1), ValueError, r"shape \(1, 1\)"),
        (lambda: WeightedSampler([1, -2], 1), ValueError, "weight 1 is -2"),
        (lambda: WeightedSampler([1, float("nan")], 1), ValueError, "weight 1 is nan"),
        (lambda: WeightedSampler([0, 0], 1), ValueError, "all 2 weights are 0"),
        (lambda: WeightedSampler(["a"], 1), TypeError, "weights must be a sequence of numbers"),
        (lambda: WeightedSampler([1, 0, 1], 3, replacement=False), ValueError, "only 2 weights are positive"),
        (lambda: WeightedSampler([1], 0), ValueError, "num_samples must be at least 1"),
        (lambda: WeightedSampler([1], 1, seed=-1), ValueError, "seed must be at least 0"),
        (lambda: WeightedSampler([1], 1).set_epoch(-1), ValueError, "epoch must be at least 0"),
    ],
)
def test_wrong_splits_and_weights(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("values", [np.zeros((2, 1, 1, 1, 1)), np.zeros((2, 0)), np.array([0, 1 << 40])])
def test_batches_that_no_device_can_hold(values: np.ndarray) -> None:
    with pytest.raises(ValueError, match="a batch"):
        list(DataLoader(values, batch_size=2))


@pytest.mark.parametrize("name", ag.data.__all__)
def test_docstrings(name: str) -> None:
    thing = getattr(ag.data, name)
    for test in doctest.DocTestFinder(recurse=False).find(thing, name, globs={"ag": ag, "np": np}):
        assert test.examples
        text: list[str] = []
        failed, _ = doctest.DocTestRunner(verbose=False).run(test, out=text.append)
        assert not failed, "".join(text)
    for argument in inspect.signature(thing).parameters:
        assert f"{argument}:" in inspect.getdoc(thing)
