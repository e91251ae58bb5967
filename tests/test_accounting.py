"""Random networks: whatever a tape holds, and whoever else does, the report charges each block of memory once.

A network is drawn from a seed, by a Draft that takes one step after the other from INGREDIENTS: layers that share
weights, views, residual links, writes in place, nested tapes and so on. Some of its values are computed, some are kept
by something outside, and then the report has to say to the byte what clearing the tape frees.
"""

from __future__ import annotations

import functools
import gc
import itertools
import random
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import ggmlpy_ag as ag
from ggmlpy_ag import nn
from ggmlpy_ag.backend.memory import Storage
from ggmlpy_ag.tape import Node

SEEDS = range(100)
ROWS, COLUMNS = 6, 8  # of every value


class Draft:
    """A network being drawn: its leaves, the values so far, and what outside of the tape keeps some of them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.weights = [ag.param(self.array(COLUMNS, COLUMNS)) for _ in range(3)]
        self.weights.append(ag.param(self.array(COLUMNS, COLUMNS), dtype=self.random.choice(["float16", "bfloat16"])))
        self.buffers = [ag.tensor(self.array(ROWS, COLUMNS)) for _ in range(2)]
        self.stack = nn.Sequential(nn.Linear(COLUMNS, COLUMNS), nn.Sequential(nn.LayerNorm(COLUMNS), nn.GELU()))
        self.norm = nn.BatchNorm1d(COLUMNS)
        self.values: list[ag.Tensor] = [*self.buffers]
        self.kept: list[Any] = []
        self.tapes: list[ag.Tape] = []

    def array(self, *shape: int) -> np.ndarray:
        return self.numbers.uniform(0.5, 1.5, shape)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def value(self) -> ag.Tensor:
        """One of the latest values more often than one of the first."""
        return self.values[max(self.random.randrange(len(self.values)) for _ in range(2))]

    def weight(self) -> ag.Tensor:
        return self.random.choice(self.weights)


Ingredient = Callable[[Draft], Any]


def product(d: Draft) -> ag.Tensor:
    return d.value() @ d.weight().T


def function(d: Draft) -> ag.Tensor:
    apply = d.random.choice([ag.relu, ag.tanh, ag.exp, ag.softmax, ag.square, ag.sigmoid, ag.abs, ag.neg])
    return ag.tanh(apply(d.value()))


def residual(d: Draft) -> ag.Tensor:
    return d.value() * 0.5 + d.value()


def gate(d: Draft) -> ag.Tensor:
    return d.value() * d.value().sigmoid()


def view(d: Draft) -> ag.Tensor:
    x = d.value()
    turned = d.random.choice([lambda x: x.T.reshape(ROWS, COLUMNS), lambda x: x.reshape(4, 12).reshape(ROWS, COLUMNS)])
    return turned(x) * x if d.chance(0.5) else turned(x)


def window(d: Draft) -> ag.Tensor:
    return ag.concat([d.value()[: ROWS // 2], d.value()[ROWS // 2 :]])


def bias(d: Draft) -> ag.Tensor:
    return d.value() + d.weight()[0]


def reduction(d: Draft) -> ag.Tensor:
    x = d.value()
    return x - x.mean(0, keepdims=True)


def rows(d: Draft) -> ag.Tensor:
    index = d.numbers.integers(0, ROWS, ROWS)
    return d.value().take(ag.tensor(index) if d.chance(0.5) else index, 0)


def narrow(d: Draft) -> ag.Tensor:
    return d.value().astype(d.random.choice(["float16", "bfloat16", "float32"]))


def layers(d: Draft) -> ag.Tensor:
    return d.stack(d.value().astype("float32"))


def batch_norm(d: Draft) -> ag.Tensor:
    """Which writes its running values in place."""
    return d.norm(d.value().astype("float32"))


def dropout(d: Draft) -> ag.Tensor:
    return ag.dropout(d.value(), 0.25)


def detached(d: Draft) -> ag.Tensor:
    return d.value().detach() * d.weight()[0]


def from_the_host(d: Draft) -> ag.Tensor:
    return d.value() * d.array(ROWS, COLUMNS)


def foreign(d: Draft) -> ag.Tensor:
    """Memory that is NumPy's, on the CPU."""
    array = d.array(ROWS, COLUMNS).astype(np.float32)
    if d.chance(0.5):
        d.kept.append(array)
    borrowed = ag.from_dlpack(array) if d.buffers[0].device == "cpu" else ag.tensor(array)
    return borrowed * d.value()


def checkpointed(d: Draft) -> ag.Tensor:
    w = d.weight()
    return ag.checkpoint(lambda x: (x @ w).tanh().exp().tanh(), d.value())


def own_rule(d: Draft) -> ag.Tensor:
    """A rule that holds values in a container or a function, and fields besides."""
    x, other = d.value(), d.value()
    inner = x.tanh()
    holder = d.random.choice([{"inner": [inner]}, (inner, other), functools.partial(ag.mul, inner)])
    fields = d.random.choice([None, {"gate": other.exp()}, {"all": [inner, (x, other.sigmoid())]}, {"size": 3}])

    def grad(g: ag.Tensor) -> tuple[ag.Tensor]:
        return (holder(g) if callable(holder) else g,)

    return ag.record("own", inner.detach(), (x,), grad, fields)


def nested(d: Draft) -> ag.Tensor:
    """A tape inside, whose gradient goes on outside; the tape may be kept."""
    x = d.value()
    with ag.grad_tape() as tape:
        inner = (x @ d.weight()).tanh()
        loss = (inner.square() * d.array(ROWS, COLUMNS)).sum()
    if d.chance(0.5):
        ag.backward(loss)
    if d.chance(0.5):
        d.tapes.append(tape)
    return inner if d.chance(0.3) else inner.detach() + x


def overwritten(d: Draft) -> ag.Tensor:
    """A leaf of which a rule may have saved the old values."""
    buffer, before = d.random.choice(d.buffers), d.value()
    if d.chance(0.5):
        buffer.copy_(d.array(ROWS, COLUMNS))
    else:
        buffer[1:3] = d.array(2, COLUMNS)
    return before * buffer


INGREDIENTS: list[Ingredient] = [
    product, function, residual, gate, view, window, bias, reduction, rows, narrow, layers, batch_norm, dropout,
    detached, from_the_host, foreign, checkpointed, own_rule, nested, overwritten,
]  # fmt: skip


def holders(value: ag.Tensor) -> list[Callable[[], Any]]:
    """Ways for something outside of the tape to hold a value."""

    def generator() -> Iterator[ag.Tensor]:
        held = value
        yield held
        yield held

    def started() -> Any:
        made = generator()
        next(made)
        return made

    return [
        lambda: value,
        value.detach,
        lambda: value.reshape(-1)[:1],
        value.exp,  # which is not computed yet, and reads it
        lambda: lambda: value,
        lambda: {"a": [value]},
        lambda: functools.partial(ag.add, value),
        started,
        lambda: itertools.chain([value]),
    ]


def drawn(seed: int, settled: bool) -> tuple[list[ag.Tape], list[Any]]:
    """The tapes of a random network, the innermost first, and all that is kept of it besides.

    Where it is settled, everything is computed, and its leaves are kept.
    """
    d = Draft(seed)
    with ag.grad_tape(trace=d.chance(0.5)) as tape:
        for ingredient in [d.random.choice(INGREDIENTS) for _ in range(d.random.randint(3, 14))]:
            d.values.append(ingredient(d))
            if d.chance(0.15):
                d.value().numpy()
        loss = sum(ag.mean(d.value().astype("float32") * d.weight()[0]) for _ in range(2))
    d.values.append(loss)
    if d.chance(0.5):
        try:
            ag.backward(loss)
        except RuntimeError as error:
            assert "overwritten in place" in str(error)
    for value in d.values:
        if d.chance(0.2):
            d.kept.append(d.random.choice(holders(value))())
    if settled:
        d.kept += [d.weights, d.buffers, d.stack, d.norm]
        d.kept += [value for value in d.values if value.grad is not None]  # leaves of a tape inside
        for value in d.values:
            value.numpy()
    else:
        d.kept += [leaf for leaf in (*d.weights, *d.buffers, d.stack, d.norm) if d.chance(0.6)]
    return [*d.tapes, tape], d.kept


def reached(tape: ag.Tape) -> int:
    """Bytes of all blocks that the tape's operations refer to, each once, by a walk of its own."""
    blocks: dict[int, int] = {}
    seen: set[int] = set()
    left: list[Any] = [thing for node in tape.nodes for thing in (node.grad_fn, node.edges, node.fields)]
    while left:
        thing = left.pop()
        if id(thing) in seen or isinstance(thing, (type, ModuleType, Node)):
            continue
        seen.add(id(thing))
        if type(thing) is Storage:
            if thing.block is not None:
                blocks[id(thing.block)] = thing.block.size
        elif type(thing) is ag.Tensor:
            left.append(thing._array.storage)
        elif hasattr(thing, "__globals__"):
            left += [thing.__closure__, thing.__defaults__, thing.__kwdefaults__]
        else:
            left += gc.get_referents(thing)
    return sum(blocks.values())


def check_tables(report: ag.TapeReport) -> None:
    parts = ("bytes_inputs", "bytes_snapshots", "bytes_fields", "bytes_pending")
    for name in ("by_op", "by_layer", "by_line", "by_dtype", "by_device"):
        table = getattr(report, name)
        for part in parts:
            assert sum(getattr(row, part) for row in table) == getattr(report, part), (name, part)
        assert sum(row.bytes for row in table) == report.bytes_total, name
        if name in ("by_op", "by_layer", "by_line"):
            assert sum(row.nodes for row in table) == report.nodes, name
    assert report.bytes_total == report.bytes_inputs + report.bytes_snapshots + report.bytes_fields
    assert report.bytes_freeable == report.bytes_snapshots + report.bytes_fields
    assert report.bytes_host + report.bytes_device == report.bytes_total
    computed = [row for row in report.storages if not row.pending]
    assert sum(row.bytes for row in computed) == report.bytes_total + report.bytes_grads
    assert sum(row.pending for row in report.storages if row.part != "gradients") == report.values_pending
    assert all(row.bytes >= row.nbytes > 0 for row in report.storages)


def check(tape: ag.Tape, settled: bool) -> None:
    counters = ag.counters()
    report = ag.tape_memory(quiet=True, tape=tape)
    by_role = ag.tape_memory(quiet=True, tape=tape, rule="role")
    assert ag.counters() == counters
    for one in (report, by_role):
        check_tables(one)
    assert by_role.bytes_total == report.bytes_total
    assert report.nodes == len(tape)
    if settled:
        assert report.values_pending == 0
        assert report.bytes_total == reached(tape)
    before = ag.memory_stats().live
    tape.clear()
    assert before - ag.memory_stats().live == report.bytes_freeable


@pytest.fixture(scope="module", autouse=True)
def nothing_else_to_collect() -> Iterator[None]:
    """Let the collector, which each network calls, look at none of the objects of other tests."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.parametrize("seed", SEEDS)
def test_each_block_is_charged_once_and_to_whom_it_belongs(device: str, seed: int) -> None:
    settled = seed % 2 == 0
    ag.manual_seed(seed)
    gc.collect()
    gc.disable()  # what is freed goes at once, and not when the collector comes by
    try:
        tapes, kept = drawn(seed, settled)
        for tape in tapes:
            check(tape, settled)
    finally:
        gc.enable()
    ag.zero_grad()
    assert all(value.numpy().size for value in kept if isinstance(value, ag.Tensor))
