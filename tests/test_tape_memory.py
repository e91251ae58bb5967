"""The report of what a tape keeps in memory: figures to the byte, and nothing computed or moved for them."""

from __future__ import annotations

import functools
import gc
import itertools
import sys
import types
import weakref
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

import ggmlpy_ag as ag
from ggmlpy_ag.backend import devices
from ggmlpy_ag.backend.memory import format_bytes


def block(nbytes):
    """What the pool takes for a value of `nbytes`."""
    return devices.get().pool.rounded(nbytes)


N = 64
SQUARE = 4 * N * N  # bytes of most values here


def square(seed=0):
    return ag.param(np.random.default_rng(seed).uniform(0.5, 1.5, (N, N)))


def live():
    return ag.memory_stats().live


def report(**options):
    return ag.tape_memory(quiet=True, **options)


def cleared(tape):
    """The bytes that clearing the tape frees."""
    before = live()
    tape.clear()
    return before - live()


# ---------------------------------------------------------------- figures by hand


def test_an_intermediate_that_nobody_holds_is_an_activation(device):
    x, w = ag.tensor(np.ones((32, N))), square()
    with ag.grad_tape() as tape:
        h = (x @ w.T).relu()
        loss = (h * h).sum()
    del h
    loss.item()
    r = report()
    assert r.nodes == 5  # transpose, matmul, relu, mul, sum
    assert r.bytes_inputs == 4 * 32 * N + SQUARE  # x, which the product saved, and w
    assert r.bytes_snapshots == 4 * 32 * N  # h, which relu and the product saved: once
    assert (r.bytes_fields, r.bytes_grads, r.bytes_pending, r.values_pending) == (0, 0, 0, 0)
    assert r.bytes_total == 2 * 4 * 32 * N + SQUARE
    assert r.bytes_freeable == cleared(tape) == 4 * 32 * N


def test_an_intermediate_that_a_name_holds_is_an_operand(device):
    x, w = ag.tensor(np.ones((32, N))), square()
    with ag.grad_tape() as tape:
        h = (x @ w.T).relu()
        loss = (h * h).sum()
    loss.item()
    r = report()
    assert r.bytes_inputs == 2 * 4 * 32 * N + SQUARE
    assert r.bytes_snapshots == 0
    assert r.bytes_freeable == cleared(tape) == 0
    assert h.shape == (32, N)


def mlp(rng, sizes):
    return [(ag.param(rng.uniform(-0.05, 0.05, (m, n))), ag.param(np.zeros(m))) for n, m in itertools.pairwise(sizes)]


def forward(layers, x, labels):
    *hidden, (w, b) = layers
    for weight, bias in hidden:
        x = (x @ weight.T + bias).relu()
    return ag.cross_entropy_loss(x @ w.T + b, labels)


def test_a_three_layer_network(device):
    """Batch 128, 784-256-256-10: its activations are h1, h2 and the logits."""
    rng = np.random.default_rng(0)
    layers = mlp(rng, (784, 256, 256, 10))
    x, labels = ag.tensor(rng.random((128, 784), np.float32)), ag.tensor(rng.integers(0, 10, 128))
    weights = [784 * 256, 256 * 256, 256 * 10]
    biases = [256, 256, 10]
    with ag.grad_tape() as tape:
        loss = forward(layers, x, labels)
    r = report()
    assert (r.bytes_pending, r.values_pending) == (267_264, 3)
    assert r.bytes_snapshots == 0
    grads = ag.backward(loss)
    r = report()
    assert r.nodes == 12
    assert r.bytes_snapshots == 4 * (128 * 256 + 128 * 256 + 128 * 10) == 267_264
    operands = [128 * 784, 128, *weights, *biases]
    assert r.bytes_inputs == sum(block(4 * n) for n in operands)
    assert r.bytes_grads == sum(block(4 * n) for n in [*weights, *biases])
    assert (r.bytes_fields, r.bytes_pending, r.values_pending) == (0, 0, 0)
    assert [(row.op, row.nodes, row.bytes) for row in r.by_op] == [
        ("transpose", 3, sum(4 * n for n in weights)),
        ("matmul", 3, 4 * 128 * 784),
        ("relu", 2, 2 * 4 * 128 * 256),
        ("cross_entropy_loss", 1, 4 * 128 * 10 + block(4 * 128)),
        ("add", 3, sum(block(4 * n) for n in biases)),
    ]
    assert r.bytes_freeable == cleared(tape) == 267_264
    assert len(grads) == 6 and loss.item() > 0


def test_labels_from_numpy_belong_to_the_tape(device):
    logits = ag.param(np.zeros((128, 16)))
    with ag.grad_tape() as tape:
        loss = ag.cross_entropy_loss(logits, np.zeros(128, int))
    loss.item()
    assert report().bytes_freeable == cleared(tape) == block(4 * 128)


SAVED = {
    "a + b": 0,
    "a - b": 0,
    "-a": 0,
    "a * 3.0": 0,
    "a.sum(0)": 0,
    "a.mean()": 0,
    "a.T": 0,
    "a.reshape(-1)": 0,
    "a[3:5]": 0,
    "ag.pad(a, [(1, 1), (0, 0)])": 0,
    "a * b": 2,
    "a * a": 1,
    "a @ b": 2,
    "a @ a.T": 1,
    "a * c": 0,  # only c, which outlives the tape
    "a @ c": 0,
    "a.relu()": 1,
    "a.sigmoid()": 1,
    "a.tanh()": 1,
    "ag.silu(a)": 1,
    "ag.gelu(a)": 1,
    "a.softmax()": 1,
    "a.log_softmax()": 1,
    "a.exp()": 1,
    "a.log()": 1,
    "a.sqrt()": 1,
    "a.abs()": 1,
    "a.clamp(0.0, 1.0)": 1,
    "a / b": 2,  # the divisor and the result
    "a / c": 0,
    "a ** 3": 1,
    "ag.mse_loss(a, b)": 2,
    "ag.cross_entropy_loss(a, labels)": 1,
    "ag.sign(a)": 0,
    "a.argmax(1)": 0,
}


@pytest.mark.parametrize("expression", SAVED)
def test_an_operation_saves_what_its_rule_needs_and_no_more(device, expression):
    names = {"ag": ag, "p": square(0), "q": square(1), "c": ag.tensor(np.ones((N, N)))}
    names["labels"] = ag.tensor(np.zeros(N, int))
    with ag.grad_tape() as tape:
        exec("a, b = p + 1.0, q + 1.0", names)
        exec(f"out = {expression}", names)
    names["out"].numpy()
    del names["a"], names["b"], names["out"]
    assert report().bytes_snapshots == SAVED[expression] * SQUARE
    assert report().bytes_freeable == cleared(tape)


# ---------------------------------------------------------------- once, however many refer to it


def test_views_share_their_storage(device):
    x = square()
    with ag.grad_tape() as tape:
        h = x.exp()
        y = h.T @ h + h.reshape(N, N) * h[:, :] + h.permute(1, 0) * h
        loss = y.sum()
    del h, y
    loss.item()
    assert report().bytes_snapshots == SQUARE  # h alone
    assert report().bytes_freeable == cleared(tape)


def test_a_window_counts_its_whole_storage(device):
    x = square()
    with ag.grad_tape() as tape:
        row = (x + 1.0)[3]
        loss = (row * row).sum()
    del row
    loss.item()
    assert report().bytes_snapshots == SQUARE
    assert report().bytes_freeable == cleared(tape) == SQUARE


def test_closures_and_fields_count_once(device):
    x = square()
    with ag.grad_tape() as tape:
        h = x.exp()
        box = {"h": [h, h.T]}
        ag.record("mine", x.detach() * 1.0, (x,), lambda g, saved=(h, h): (g,), fields={"a": h, "b": (h.T, box)})
        loss = (h * h).sum()
    del h, box
    loss.item()
    r = report()
    assert (r.bytes_snapshots, r.bytes_fields) == (SQUARE, 0)
    assert r.bytes_freeable == cleared(tape) == SQUARE


def test_fields_are_what_only_they_add(device):
    x = square()
    mask, shared = ag.tensor(np.ones((N, N))), ag.tensor(np.ones((N, N)))
    kept = ag.tensor(np.ones((N, N)))
    with ag.grad_tape() as tape:
        ag.record(
            "mine",
            x.detach() * shared,
            (x,),
            functools.partial(lambda saved, g: (g * saved,), shared),
            fields={"mask": [mask, mask.T], "shared": shared, "kept": kept, "name": "mine", "p": 0.5},
        )
    del mask, shared
    r = report()
    assert r.bytes_inputs == 2 * SQUARE  # x and kept
    assert r.bytes_snapshots == SQUARE
    assert r.bytes_fields == SQUARE
    assert [(row.op, row.bytes_fields) for row in r.by_op] == [("mine", SQUARE)]
    assert r.bytes_freeable == cleared(tape) == 2 * SQUARE


def test_storage_shared_by_two_tensors_is_charged_to_the_operand(device):
    x = square()
    other = x.detach()
    with ag.grad_tape() as tape:
        loss = (x * other + x.T * other.T).sum()
    loss.item()
    for rule in ("lifetime", "role"):
        r = report(rule=rule)
        assert (r.bytes_inputs, r.bytes_snapshots) == (SQUARE, 0), rule
    assert cleared(tape) == 0


def test_two_nodes_of_one_operation_share_a_row(device):
    x = square()
    with ag.grad_tape():
        loss = x.exp().exp().exp().sum()
    loss.item()
    r = report()
    assert [(row.op, row.nodes, row.bytes_inputs, row.bytes_snapshots) for row in r.by_op] == [
        ("exp", 3, SQUARE, 3 * SQUARE),
        ("sum", 1, 0, 0),
    ]


def test_rows_are_sorted_and_sum_to_the_total(device):
    rng = np.random.default_rng(0)
    layers = mlp(rng, (64, 128, 32, 16))
    with ag.grad_tape():
        loss = forward(layers, ag.tensor(rng.random((64, 64))), np.zeros(64, int)) + layers[0][0].exp().mean()
    ag.backward(loss)
    r = report()
    sizes = [row.bytes for row in r.by_op]
    assert sizes == sorted(sizes, reverse=True)
    assert sum(sizes) == r.bytes_total
    assert sum(row.nodes for row in r.by_op) == r.nodes
    for part in ("bytes_inputs", "bytes_snapshots", "bytes_fields"):
        assert sum(getattr(row, part) for row in r.by_op) == getattr(r, part)


# ---------------------------------------------------------------- what is freed, to the byte


class Holder:
    def __init__(self, value):
        self.value = value

    def method(self):
        return self.value


class Slots:
    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value


class Pair(NamedTuple):
    first: object
    second: object


@dataclass
class Record:
    value: object


@dataclass(slots=True)
class SlotRecord:
    value: object


def closure_over(h):
    return lambda: h


def paused_generator(h):
    def generate():
        yield 1
        yield h.shape

    generator = generate()
    next(generator)
    return generator


def frame_of_its_own(h):
    def generate(value):
        yield 1
        yield value.shape

    generator = generate(h)
    next(generator)
    return generator


HOLDERS = {
    "name": lambda h: h,
    "list": lambda h: [[h]],
    "dict": lambda h: {"h": h},
    "dict key": lambda h: {h: 1},
    "tuple": lambda h: (1, (h,)),
    "attribute": Holder,
    "slot": Slots,
    "bound method": lambda h: Holder(h).method,
    "closure": closure_over,
    "default argument": lambda h: lambda value=h: value,
    "partial": lambda h: functools.partial(print, h),
    "generator's closure": paused_generator,
    "generator's frame": frame_of_its_own,
    "iterator": lambda h: iter([h]),
    "detach": lambda h: h.detach(),
    "row": lambda h: h[0],
    "element": lambda h: h[3, 4],
    "transpose": lambda h: h.T,
    "reshape": lambda h: h.reshape(-1),
    "pending operation": lambda h: h * 2.0,
    "pending operation on a view": lambda h: h.T[1:].exp(),
    "chain of pending operations": lambda h: ((h * 2.0).exp() + 1.0).sum(),
    "pending operation with a mapping": lambda h: {"y": (h @ h).relu()},
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_a_value_that_something_else_holds_is_not_freeable(device, holder):
    x = square()
    with ag.grad_tape() as tape:
        h = x.exp()
        other = h.tanh()
        loss = (h * other).sum()
    loss.item()
    kept = HOLDERS[holder](h)
    del h, other
    r = report()
    assert r.bytes_inputs == 2 * SQUARE  # x and h
    assert r.bytes_snapshots == SQUARE  # tanh's result
    assert r.bytes_freeable == cleared(tape)
    assert kept is not None


RELEASED = {
    "weak reference": weakref.ref,
    "its shape": lambda h: h.shape,
    "a computed result": lambda h: (h * 2.0).item() if h.size == 1 else (h * 2.0).sum().item(),
    "a copy on the host": lambda h: h.numpy(),
    "a finished generator": lambda h: list(frame_of_its_own(h)),
    "a pending result that was dropped": lambda h: (h * 2.0).shape,
}


@pytest.mark.parametrize("use", RELEASED)
def test_a_value_that_nothing_holds_any_more_is_freeable(device, use):
    x = square()
    with ag.grad_tape() as tape:
        h = x.exp()
        loss = (h * h).sum()
    loss.item()
    kept = RELEASED[use](h)
    del h
    assert report().bytes_freeable == cleared(tape) == SQUARE
    assert kept is not None


def times(held, get):
    """A rule that holds an object, and with it the tensor that `get` finds there."""
    return lambda g: (g * get(held),)


RULES = {
    "cell": lambda h: lambda g: (g * h,),
    "tuple": lambda h: times((h, 1), lambda held: held[0]),
    "list": lambda h: times([h], lambda held: held[0]),
    "dict": lambda h: times({"h": h}, lambda held: held["h"]),
    "nested containers": lambda h: times([{"h": (h,)}], lambda held: held[0]["h"][0]),
    "named tuple": lambda h: times(Pair(h, h), lambda held: held.first),
    "deque": lambda h: times(deque([h]), lambda held: held[0]),
    "namespace": lambda h: times(types.SimpleNamespace(value=h), lambda held: held.value),
    "dataclass": lambda h: times(Record(h), lambda held: held.value),
    "dataclass with slots": lambda h: times(SlotRecord(h), lambda held: held.value),
    "object with slots": lambda h: times(Slots(h), lambda held: held.value),
    "bound method": lambda h: times(Holder(h).method, lambda held: held()),
    "nested function": lambda h: times(lambda: h, lambda held: held()),
    "view": lambda h: times(h[:1], lambda held: held),
    "default argument": lambda h: lambda g, h=h: (g * h,),
    "keyword default": lambda h: lambda g, *, h=h: (g * h,),
    "partial": lambda h: functools.partial(lambda h, g: (g * h,), h),
    "partial by name": lambda h: functools.partial(lambda g, h: (g * h,), h=h),
    "method as the rule": lambda h: types.MethodType(lambda self, g: (g * self.value,), Holder(h)),
}


@pytest.mark.parametrize("rule", RULES)
def test_what_a_rule_of_ones_own_holds_is_freed_with_the_tape(device, rule):
    x = square()
    with ag.grad_tape() as tape:
        h = ag.tensor(np.ones((N, N)))
        loss = ag.record("mine", x.detach() * h, (x,), RULES[rule](h)).sum()
    del h
    ag.backward(loss)
    r = report()
    assert (r.bytes_inputs, r.bytes_snapshots, r.bytes_fields) == (SQUARE, SQUARE, 0)
    assert r.bytes_freeable == cleared(tape)


@pytest.mark.parametrize("rule", RULES)
def test_what_a_rule_of_ones_own_shares_with_a_name_stays(device, rule):
    x, h = square(), ag.tensor(np.ones((N, N)))
    with ag.grad_tape() as tape:
        loss = ag.record("mine", x.detach() * h, (x,), RULES[rule](h)).sum()
    ag.backward(loss)
    r = report()
    assert (r.bytes_inputs, r.bytes_snapshots, r.bytes_fields) == (2 * SQUARE, 0, 0)
    assert r.bytes_freeable == cleared(tape)


def test_a_container_that_a_name_holds_too(device):
    x = square()
    saved = [ag.tensor(np.ones((N, N)))]
    with ag.grad_tape() as tape:
        ag.record("mine", x.detach() * 1.0, (x,), lambda g: (g * saved[0],))
    assert report().bytes_freeable == cleared(tape) == 0


def test_a_rule_may_hold_modules_classes_and_the_tape(device):
    x = square()
    with ag.grad_tape() as tape:
        h = ag.tensor(np.ones((N, N)))
        box = (np, sys, Holder, tape, ag.exp, print, devices.get())
        ag.record("mine", x.detach() * 1.0, (x,), lambda g, h=h, box=box: (g * h * len(box),))
    del h, box
    assert report().bytes_freeable == cleared(tape) == SQUARE


def test_a_function_that_calls_itself_in_a_rule(device):
    x = square()

    def rule_for(h):
        def repeat(g, n):
            return g if n == 0 else repeat(g * h, n - 1)

        return lambda g: (repeat(g, 2),)

    with ag.grad_tape() as tape:
        loss = ag.record("mine", x.detach() * 1.0, (x,), rule_for(ag.tensor(np.ones((N, N))))).sum()
    ag.backward(loss)
    gc.collect()  # garbage of other tests
    predicted = report().bytes_freeable
    before = live()
    tape.clear()
    gc.collect()  # the function is a cycle
    assert predicted == before - live() == SQUARE


def test_a_parameter_that_only_the_tape_holds_goes_with_it(device):
    def loss_of_a_new_parameter(x):
        w = square()
        return (x @ w.T).sum()

    x = ag.tensor(np.ones((32, N)))
    with ag.grad_tape() as tape:
        loss = loss_of_a_new_parameter(x)
    loss.item()
    r = report()
    assert (r.bytes_inputs, r.bytes_snapshots) == (4 * 32 * N, SQUARE)
    assert r.bytes_freeable == cleared(tape) == SQUARE


@pytest.mark.parametrize("keep_mapping", [False, True])
@pytest.mark.parametrize("keep_parameter", [False, True])
def test_gradients(device, keep_parameter, keep_mapping):
    x, w = ag.tensor(np.ones((32, N))), square()
    with ag.grad_tape() as tape:
        h = (x @ w.T).tanh()
        loss = h.mean()
    del h
    grads = ag.backward(loss)
    if not keep_mapping:
        del grads
    if not keep_parameter:
        del w
    r = report()
    held = keep_mapping or keep_parameter  # the mapping's keys are the parameters
    h_bytes = 4 * 32 * N
    assert r.bytes_inputs == h_bytes + (SQUARE if held else 0)  # x, and w
    assert r.bytes_snapshots == h_bytes + (0 if held else 2 * SQUARE)  # h, and w with its gradient
    assert r.bytes_grads == (SQUARE if held else 0)
    assert sum(row.bytes for row in r.by_op) == r.bytes_total
    assert r.bytes_freeable == cleared(tape)


def test_gradients_are_beside_the_tape(device):
    w = square()
    with ag.grad_tape():
        loss = (w * w).sum()
    assert report().bytes_grads == 0
    ag.backward(loss)
    r = report()
    assert (r.bytes_grads, r.bytes_inputs, r.bytes_total) == (SQUARE, SQUARE, SQUARE)
    before = live()
    ag.zero_grad([w])
    assert before - live() == SQUARE


def test_a_gradient_on_the_tape_is_counted_there(device):
    w = square()
    with ag.grad_tape():
        slope = ag.backward((w * w).sum(), create_graph=True)[w]
        loss = (slope * slope).sum()
    loss.item()
    r = report()
    assert r.bytes_grads == 0
    assert r.bytes_inputs == 2 * SQUARE  # w, and its gradient, which w.grad holds


def test_a_new_tape_frees_as_clear_does(device):
    x = square()
    with ag.grad_tape():
        loss = x.exp().tanh().sum()
    loss.item()
    freeable, before = report().bytes_freeable, live()
    with ag.grad_tape():
        assert before - live() == freeable == 2 * SQUARE


def test_what_an_outer_tape_holds_does_not_go_with_the_inner_one(device):
    x = square()
    with ag.grad_tape() as outer:
        h = x.exp()
        with ag.grad_tape() as inner:
            loss = (h * h.tanh()).sum()
        del h
        loss.item()
        assert report(tape=inner).bytes_freeable == cleared(inner) == SQUARE
        assert report(tape=outer).bytes_freeable == cleared(outer) == SQUARE


def test_a_node_that_someone_holds_keeps_nothing(device):
    x = square()
    with ag.grad_tape() as tape:
        loss = x.exp().sum()
    loss.item()
    nodes = list(tape.nodes)
    assert report().bytes_freeable == cleared(tape) == SQUARE
    assert len(nodes) == 2


@pytest.mark.parametrize("seed", range(24))
def test_any_program(device, seed):
    """Random operations, some values kept, some computed and some not: the forecast is what is freed."""
    rng = np.random.default_rng(seed)
    unary = [
        lambda a: a.relu(), lambda a: a.tanh(), lambda a: a.softmax(), lambda a: a * 0.5, lambda a: a.T, lambda a: -a,
        lambda a: a.abs(), lambda a: a.clamp(-1.0, 1.0), lambda a: a.reshape(-1).reshape(16, 16), lambda a: a.detach(),
        lambda a: a.sum(0, keepdims=True) + a, lambda a: ag.pad(a[:15, 1:], [(0, 1), (1, 0)]),
    ]  # fmt: skip
    binary = [lambda a, b: a + b, lambda a, b: a * b, lambda a, b: a @ b, lambda a, b: a - b]
    params = [ag.param(rng.uniform(-1, 1, (16, 16))) for _ in range(3)]
    values = [*params, ag.tensor(rng.uniform(-1, 1, (16, 16)))]
    with ag.grad_tape() as tape:
        for _ in range(rng.integers(5, 25)):
            a, b = (values[i] for i in rng.integers(0, len(values), 2))
            if rng.random() < 0.5:
                values.append(unary[rng.integers(len(unary))](a))
            else:
                values.append(binary[rng.integers(len(binary))](a, b))
            if rng.random() < 0.15:
                values[-1].numpy()
        loss = (values[-1] * values[-2] * params[0]).sum()
    if rng.random() < 0.5:
        ag.backward(loss)
    kept = [v.detach() if rng.random() < 0.3 else v for v in values if rng.random() < 0.2]
    waiting = [v.exp() for v in kept if rng.random() < 0.3]
    del a, b
    values.clear()
    if rng.random() < 0.5:
        params.pop()
    counters = ag.counters()
    r = report()
    assert ag.counters() == counters
    assert r.bytes_freeable == cleared(tape)
    assert sum(row.bytes for row in r.by_op) == r.bytes_total
    assert all(v.numpy().shape for v in [*kept, *waiting])


# ---------------------------------------------------------------- nothing is computed or moved


def test_a_report_runs_nothing_and_moves_nothing(device):
    rng = np.random.default_rng(0)
    layers = mlp(rng, (64, 128, 16))
    x = ag.tensor(rng.random((32, 64)))
    with ag.grad_tape():
        loss = forward(layers, x, np.zeros(32, int))
        before = ag.counters()
        ag.tape_memory(quiet=True)  # everything is pending
        assert ag.counters() == before
    ag.backward(loss)
    before, bytes_before = ag.counters(), live()
    for rule in ("lifetime", "role"):
        ag.tape_memory(quiet=True, rule=rule)
    assert ag.counters() == before
    assert live() == bytes_before


def test_what_is_pending_is_reported_as_such(device):
    x, w = ag.tensor(np.ones((32, N))), square()
    with ag.grad_tape() as tape:
        h = (x @ w.T).relu()
        loss = (h * h).sum()
    del h
    r = report()
    assert (r.bytes_pending, r.values_pending) == (4 * 32 * N, 1)
    assert r.bytes_snapshots == 0
    assert r.bytes_total == r.bytes_inputs == 4 * 32 * N + SQUARE
    assert [(row.op, row.bytes_pending) for row in r.by_op if row.bytes_pending] == [("relu", 4 * 32 * N)]
    assert f"{format_bytes(4 * 32 * N)}  1 values not yet computed" in r.text()
    assert r.bytes_freeable == cleared(tape) == 0
    assert loss.item() == pytest.approx(32 * (w.numpy().sum(1) ** 2).sum(), rel=1e-4)


def test_an_operand_that_waits_for_a_pending_value_of_the_tape(device):
    """The only reference to `c` is that of an operation not computed yet, which goes with the tape."""
    x, c = square(), ag.tensor(np.ones((N, N)))
    with ag.grad_tape() as tape:
        h = (x + c).exp()
    del h, c
    r = report()
    assert (r.bytes_snapshots, r.bytes_pending) == (SQUARE, SQUARE)
    assert sum(row.bytes for row in r.by_op) == r.bytes_total
    assert r.bytes_freeable == cleared(tape)


def test_an_activation_that_waits_for_a_pending_value_of_the_tape(device):
    x = square()
    with ag.grad_tape() as tape:
        h = x.exp()
        h.numpy()
        h = h.tanh()
    del h
    r = report()
    assert (r.bytes_snapshots, r.bytes_pending) == (SQUARE, SQUARE)
    assert r.bytes_freeable == cleared(tape)


def test_an_activation_that_waits_for_a_pending_value_of_the_user(device):
    x = square()
    with ag.grad_tape() as tape:
        h = x.exp()
        h.numpy()
        y = h.tanh() * 2.0
    del h
    r = report()
    assert (r.bytes_snapshots, r.bytes_inputs, r.bytes_pending) == (0, 2 * SQUARE, SQUARE)
    assert r.bytes_freeable == cleared(tape) == 0
    np.testing.assert_allclose(y.numpy(), 2 * np.tanh(np.exp(x.numpy())), rtol=1e-6)


def test_a_hundred_reports_leave_no_trace(device):
    x, w = ag.tensor(np.ones((32, N))), square()
    with ag.grad_tape() as tape:
        h = (x @ w.T).relu()
        loss = (h * h).sum()
    grads = ag.backward(loss)
    watched = [x, w, h, loss, grads, tape, w.grad, *(t._array for t in (x, w, h)), *tape.nodes]
    watched += [t._array.storage for t in (x, w, h, loss)] + [node.grad_fn for node in tape.nodes]
    report()
    gc.collect()

    def counts():
        return [sys.getrefcount(thing) for thing in watched]

    before, bytes_before = counts(), live()
    objects = len(gc.get_objects())
    for _ in range(100):
        report()
    assert counts() == before
    assert live() == bytes_before
    gc.collect()
    assert len(gc.get_objects()) <= objects + 5


def test_host_and_device(device):
    x = ag.param(np.ones((N, N)), device="cpu")
    with ag.grad_tape():
        h = x.exp()
        loss = h.to(device).tanh().sum()
    loss.item()
    del h
    r = report()
    on_device = 0 if device == "cpu" else SQUARE  # tanh's result
    assert r.bytes_device == on_device
    assert r.bytes_host == 3 * SQUARE - on_device
    assert r.bytes_total == 3 * SQUARE


# ---------------------------------------------------------------- by role


def test_by_role_an_intermediate_that_feeds_an_operation_is_an_operand(device):
    """The accounting of ggmlR: for batch 128, 784-256-256-10 it finds the labels freeable and nothing else."""
    rng = np.random.default_rng(0)
    layers = mlp(rng, (784, 256, 256, 10))
    with ag.grad_tape():
        loss = forward(layers, ag.tensor(rng.random((128, 784))), rng.integers(0, 10, 128))
    loss.item()
    lifetime, role = report(), report(rule="role")
    assert role.rule == "role"
    assert role.bytes_total == lifetime.bytes_total
    assert role.bytes_snapshots == block(4 * 128)
    assert role.bytes_inputs == role.bytes_total - block(4 * 128)
    assert lifetime.bytes_snapshots == 267_264 + block(4 * 128) + 4 * 128 * 784  # x too: nothing else holds it


def test_by_role_a_result_that_a_rule_saved_is_a_snapshot(device):
    x = square()
    with ag.grad_tape():
        h = x.exp()
    h.numpy()
    r = report(rule="role")
    assert (r.bytes_inputs, r.bytes_snapshots) == (SQUARE, SQUARE)


# ---------------------------------------------------------------- what is printed


def test_the_printed_report(device, capsys):
    x, w = ag.tensor(np.ones((32, N))), square()
    with ag.grad_tape():
        h = (x @ w.T).relu()
        loss = (h * h).sum()
    del h
    ag.backward(loss)
    r = ag.tape_memory()
    lines = capsys.readouterr().out.splitlines()
    assert lines == r.text().splitlines() == str(r).splitlines()
    host, there = ("32.00 KiB", "0 B") if device == "cpu" else ("0 B", "32.00 KiB")
    assert [line.split() for line in lines] == [
        "tape memory: 5 operations, 32.00 KiB".split(),
        "operands 24.00 KiB outlive the tape".split(),
        "activations 8.00 KiB freed when the tape is cleared".split(),
        "fields 0 B freed as well".split(),
        "gradients 16.00 KiB beside the tape".split(),
        f"host {host} device {there}".split(),
        "pending 0 B everything is computed".split(),
        "operation nodes bytes operands activations fields".split(),
        "transpose 1 16.00 KiB 16.00 KiB 0 B 0 B".split(),
        "matmul 1 8.00 KiB 8.00 KiB 0 B 0 B".split(),
        "relu 1 8.00 KiB 0 B 8.00 KiB 0 B".split(),
        "mul 1 0 B 0 B 0 B 0 B".split(),
        "sum 1 0 B 0 B 0 B 0 B".split(),
    ]


def test_top_limits_the_table_and_not_the_figures(device, capsys):
    x = square()
    with ag.grad_tape():
        loss = x.exp().tanh().relu().sum()
    loss.item()
    r = ag.tape_memory(top=1)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[8:]] == ["exp", "..."]
    assert lines[-1].split() == ["...", "3", "more", *format_bytes(2 * SQUARE).split()]
    assert len(r.by_op) == 4
    ag.tape_memory(top=0)
    assert capsys.readouterr().out.splitlines()[8].split()[:3] == ["...", "4", "more"]


def test_quiet_prints_nothing(device, capsys):
    with ag.grad_tape():
        square().exp()
    ag.tape_memory(quiet=True)
    assert capsys.readouterr().out == ""


def test_an_empty_tape_says_when_to_call(device, capsys):
    ag.zero_grad()
    r = ag.tape_memory()
    text = capsys.readouterr().out
    assert text.count("\n") == 1
    assert "tape is empty" in text
    assert "between backward() and zero_grad()" in text
    assert (r.nodes, r.bytes_total, r.bytes_grads, r.by_op) == (0, 0, 0, [])


def test_the_report_is_of_the_recording_tape_then_of_the_finished_one(device):
    x = square()
    with ag.grad_tape() as outer:
        x.exp()
        with ag.grad_tape() as inner:
            assert report().nodes == 0
            x.tanh().tanh()
            assert report().nodes == 2
        assert report().nodes == 1
    assert report().nodes == 1
    assert (report(tape=inner).nodes, report(tape=outer).nodes) == (2, 1)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"rule": "both"}, ValueError, "'both'"),
        ({"rule": None}, ValueError, "rule must be"),
        ({"top": -1}, ValueError, "top must not be negative"),
        ({"top": 2.5}, TypeError, "top must be an integer"),
        ({"top": True}, TypeError, "top must be an integer"),
        ({"tape": 3}, TypeError, "tape must be a Tape of ag.grad_tape.*not int"),
    ],
)
def test_wrong_arguments(options, error, message, capsys):
    with pytest.raises(error, match=message):
        ag.tape_memory(**options)
    assert capsys.readouterr().out == ""
