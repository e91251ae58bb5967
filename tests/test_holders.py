"""Who holds a tensor's memory: found, and said in the words of the program."""

from __future__ import annotations

import asyncio
import gc
import re
import sys
import threading
import weakref
from collections import deque, namedtuple
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import pytest

import ggmlpy_ag as ag
from ggmlpy_ag.report.holders import Search, holders_of

SOURCE = Path(__file__).read_text("utf-8").splitlines()


def at(mark):
    """ "file:line" of the only line here that ends with this mark."""
    lines = [i for i, line in enumerate(SOURCE, 1) if re.search(f"#.* {mark}$", line)]
    assert len(lines) == 1, mark
    return f"{Path(__file__).name}:{lines[0]}"


def texts(tensor):
    return [str(holder) for holder in holders_of(tensor, sys._getframe(1))]


def value(seed=0.0):
    return ag.tensor([seed, seed + 1.0])


# ---------------------------------------------------------------- variables


def test_a_variable(device):
    h = value()  # here
    assert texts(h) == [f"variable h in test_a_variable, {at('here')}"]
    [holder] = ag.holders(h)
    assert (holder.kind, Path(holder.line).name) == ("variable", at("here"))
    assert f"{holder!r} {[holder]}" == f"{holder} [{holder}]"


def test_two_variables_and_one_of_a_function_that_called(device):
    first = second = value()  # both

    def inner(third):
        return texts(third)

    names = [f"variable {name} in test_two_variables_and_one_of_a_function_that_called" for name in ("first", "second")]
    found = inner(first)
    assert [text for text in found if "inner" not in text] == [f"{name}, {at('both')}" for name in names]
    assert [text.split(",")[0] for text in found if "inner" in text] == ["variable third in inner"]
    assert second is first


def test_a_tensor_that_nobody_has(device):
    assert ag.holders(value()) == []
    with pytest.raises(TypeError, match="tensor must be a Tensor, not list"):
        ag.holders([1.0])


def test_the_line_that_sets_it_last(device):
    h = value()
    for _ in range(2):
        h = h + 1  # last
    found = texts(h)
    h = None
    assert found == [f"variable h in test_the_line_that_sets_it_last, {at('last')}"]


KEPT = []
OTHER = {}


@pytest.fixture(autouse=True)
def empty():
    yield
    KEPT.clear()
    OTHER.clear()


@pytest.mark.usefixtures("whole_heap")
def test_a_list_in_a_global_variable(device):
    KEPT.append(0)
    KEPT.append([value()])  # append
    found = texts(KEPT[1][0])
    # the first line of the file that puts something into it
    assert [text.rpartition(",")[0] for text in found] == [f"global variable KEPT[1][0] of {__name__}"]


@pytest.mark.usefixtures("whole_heap")
def test_containers(device):
    Pair = namedtuple("Pair", "left right")
    h = {"x": [value(), deque([(Pair(1, value(1.0)),)])]}  # dict
    member = value(2.0)
    OTHER[3] = {member}  # set
    where = f"in test_containers, {at('dict')}"
    assert texts(h["x"][0]) == [f"variable h['x'][0] {where}"]
    assert texts(h["x"][1][0][0].right) == [f"variable h['x'][1][0][0].right {where}"]
    [text] = [text for text in texts(member) if "member" not in text]
    assert text == f"global variable OTHER[3] (in a set) of {__name__}, {at('set')}"


def test_a_tensor_as_a_key_is_neither_printed_nor_compared(device):
    pending = value() * 2
    by_tensor = {pending: value(5.0), 7: 8}
    before = ag.counters()
    held = texts(next(iter(by_tensor.values())))
    keys = texts(next(iter(by_tensor)))
    assert ag.counters() == before
    assert held[0].startswith("variable by_tensor[...] in test_a_tensor_as_a_key")
    assert any(text.startswith("variable by_tensor (as a key) in") for text in keys)


def test_a_variable_that_the_frame_of_another_thread_has(device):
    ready, done = threading.Event(), threading.Event()
    links = []

    def work():
        theirs = value()
        links.append(weakref.ref(theirs))
        ready.set()
        done.wait()
        assert theirs is not None

    thread = threading.Thread(target=work)
    thread.start()
    ready.wait()
    found = texts(links[0]())
    done.set()
    thread.join()
    assert [text.split(",")[0] for text in found] == ["variable theirs in work"]


def test_a_list_that_a_loop_runs_over_has_no_name(device):
    for _ in [value(3.0)]:
        found = texts(_)
    assert found[0].startswith("variable _ in")
    assert len(found) == 2 and found[1].endswith("_iterator without a name, as a running loop has")


# ---------------------------------------------------------------- objects and classes


class Trainer:
    best = None

    def __init__(self):
        self.cache = {}
        self.first = self.second = None

    def step(self):
        self.cache["h"] = [value()]  # cache


class Slotted:
    __slots__ = ("inside",)


@pytest.mark.usefixtures("whole_heap")
def test_attributes(device):
    trainer = Trainer()  # trainer
    trainer.step()
    trainer.first = trainer.second = value(1.0)
    place = f"(variable trainer in test_attributes, {at('trainer')})"
    assert texts(trainer.cache["h"][0]) == [f"attribute cache['h'][0] of Trainer, {at('cache')} {place}"]
    assert [text.split(",")[0] for text in texts(trainer.first)] == [
        "attribute first of Trainer",
        "attribute second of Trainer",
    ]
    Trainer.best = value(2.0)
    assert texts(Trainer.best) == [f"class attribute Trainer.best of {__name__}"]
    Trainer.best = Slotted()
    Trainer.best.inside = value(4.0)  # within
    assert texts(Trainer.best.inside)[0].endswith(f" (class attribute Trainer.best of {__name__})")
    Trainer.best = None
    OTHER["slotted"] = Slotted()
    OTHER["slotted"].inside = value(3.0)  # inside
    [text] = texts(OTHER["slotted"].inside)
    assert text.startswith(f"attribute inside of Slotted, {at('inside')} (global variable OTHER['slotted'] of")


class Block(ag.nn.Module):
    def __init__(self):
        self.linear = ag.nn.Linear(2, 3)
        self.cache = {}

    def forward(self, x):
        self.cache["h"] = self.linear(x).relu()  # block
        return self.cache["h"]


class Net(ag.nn.Module):
    def __init__(self):
        self.layers = ag.nn.Sequential(Block(), ag.nn.Linear(3, 1))
        self.register_buffer("scale", value())

    def forward(self, x):
        return self.layers(x)


def trained():
    net = Net()
    optimizer = ag.optim.AdamW(net, lr=0.1)
    with ag.grad_tape() as tape:
        loss = net(ag.rand(4, 2)).square().mean()
    ag.backward(loss)
    optimizer.step()
    return net, optimizer, tape, loss


def test_a_model_and_its_optimizer(device):
    net, optimizer, tape, _ = trained()  # trained
    weight = net.layers[0].linear.weight
    place = f"in test_a_model_and_its_optimizer, {at('trained')}"
    found = texts(weight)
    assert f"parameter layers.0.linear.weight of Net (variable net {place})" in found
    assert f"parameter 0 of AdamW (variable optimizer {place})" in found
    assert f"input of node 0 {tape.nodes[0].op} (layers.0.linear)" in found
    assert texts(weight.grad) == [".grad of layers.0.linear.weight of Net"]
    assert texts(net.scale) == [f"buffer scale of Net (variable net {place})"]
    cache = f"attribute layers.0.cache['h'] of Net, {at('block')} (variable net {place})"
    assert cache in texts(net.layers[0].cache["h"])
    moments = optimizer.state[net.layers[1].weight].arrays
    for name in ("first_moment", "second_moment"):
        assert texts(ag.Tensor(moments[name]))[1:] == [f"{name} of parameter 2 of AdamW (variable optimizer {place})"]


def test_a_gradient_of_a_tensor_of_no_module(device):
    w = ag.param([1.0, 2.0])
    pairs = [ag.param([[1.0, 2.0]])]
    with ag.grad_tape():
        loss = (w * pairs[0]).sum()
    ag.backward(loss)
    assert ".grad of w in test_a_gradient_of_a_tensor_of_no_module" in texts(w.grad)
    assert ".grad of a tensor of shape (1, 2)" in texts(pairs[0].grad)


# ---------------------------------------------------------------- functions


def test_closures_defaults_and_partials(device):
    def hooked():
        saved = [value()]  # saved

        def hook():
            return saved

        return hook, texts(saved[0])

    hook, found = hooked()
    captured = f"variable saved[0] captured by {hook.__qualname__}, {at('saved')}"
    assert found == [f"variable saved[0] in hooked, {at('saved')}"]  # of which it is the same variable
    assert texts(hook()[0]) == [captured]

    def default(a, b=value(1.0), *, c=value(2.0)):  # noqa: B008 - default
        return a, b, c

    where = f"of {default.__qualname__}, {at('default')}"
    assert texts(default.__defaults__[0]) == [f"default argument b {where}"]
    assert texts(default.__kwdefaults__["c"]) == [f"default argument c {where}"]
    bound = [partial(default, value(3.0)), value(4.0).sum]
    assert texts(bound[0].args[0])[0].startswith("variable bound[0].args[0] in")
    assert texts(bound[1].__self__)[0].startswith("variable bound[1].__self__ in")


@pytest.mark.usefixtures("whole_heap")
def test_a_closure_says_where_it_is_kept(device):
    def keeping(tensor):
        return lambda: tensor

    OTHER["callback"] = keeping(value())  # callback
    [text] = texts(OTHER["callback"]())
    assert text.startswith("variable tensor captured by test_a_closure_says_where_it_is_kept")
    assert text.endswith(f"(global variable OTHER['callback'] of {__name__}, {at('callback')})")


def test_a_cache_of_functools(device):
    @lru_cache
    def cached(n):
        return value(n)

    [text] = texts(cached(3))
    assert text.startswith("variable cached") and " in test_a_cache_of_functools" in text


def test_suspended_functions(device):
    def batches():
        batch = value()  # batch
        yield 1
        yield batch

    async def waiting():
        fetched = value()  # fetched
        await asyncio.sleep(0)
        return fetched

    generator, coroutine = batches(), waiting()
    next(generator)
    coroutine.send(None)
    storages = [s for s in gc.get_objects() if type(s) is ag.Tensor and s.shape == (2,)]
    found = [text for tensor in storages for text in texts(tensor) if "kept by" in text]
    coroutine.close()
    assert f"variable batch in batches, {at('batch')}, kept by variable generator in" in "".join(found)
    assert f"variable fetched in waiting, {at('fetched')}, kept by variable coroutine in" in "".join(found)


def fail(tensor):
    secret = tensor * 2  # secret
    raise ValueError(len(secret))


@pytest.mark.usefixtures("whole_heap")
def test_tracebacks(device):
    try:
        fail(value())
    except ValueError as error:
        kept = error
    secret = weakref.ref(kept.__traceback__.tb_next.tb_frame.f_locals["secret"])
    [text] = [text for text in texts(secret()) if "secret" in text]
    where = f"variable secret in fail, {at('secret')}, kept by the traceback of ValueError"
    assert text.startswith(f"{where} (variable kept in test_tracebacks")
    sys.last_value = kept  # as an interactive session does
    del kept
    try:
        assert f"{where} (global variable last_value of sys)" in texts(secret())
    finally:
        del sys.last_value
    gc.collect()
    assert secret() is None


# ---------------------------------------------------------------- tapes, pending operations, other libraries


def nested_rule(x, extra):
    saved = {"deep": (1, [extra])}

    def helper(g):
        return g * saved["deep"][1][0]

    with ag.no_grad():
        out = x * extra
    return ag.record("mine", out, [x], lambda g: (helper(g),), fields={"seen": [extra]})


@pytest.mark.usefixtures("whole_heap")
def test_what_a_tape_holds(device):
    x = ag.param([1.0, 2.0])
    with ag.grad_tape() as tape:
        y = nested_rule(x, value(3.0)).exp().sum()
    ag.backward(y)
    link = weakref.ref(tape.nodes[0].fields["seen"][0])
    found = texts(link())
    assert "field seen[0] of node 0 mine" in found
    assert "captured by the rule of node 0 mine as helper.saved['deep'][1][0]" in found
    assert len(found) == 2
    assert "input of node 0 mine" in texts(x)
    with ag.grad_tape():  # the next one: now the older is no longer the current one
        pass
    OTHER["tape"] = tape  # tape
    del tape
    assert (
        f"field seen[0] of node 0 mine, on the tape of global variable OTHER['tape'] of {__name__}, {at('tape')}"
        in (texts(link()))
    )


def test_an_operation_that_waits(device):
    def total():
        x, y = value(), value(1.0)
        return (x.exp() + y).sum(), weakref.ref(y._array.storage)

    result, link = total()  # result
    before = ag.counters()
    found = [str(holder) for holder in Search(sys._getframe()).holders(link())]
    assert ag.counters() == before
    assert found == [
        "operation waiting to be computed: add, for variable result in test_an_operation_that_waits, " + at("result")
    ]
    result.item()
    assert link() is None


def test_views(device):
    big = ag.tensor(np.zeros((1024, 1024), np.float32))  # big
    row = big[:1]  # row
    flat = big.reshape(-1)  # flat
    where = "in test_views, "
    expected = [
        f"variable big {where}{at('big')}",
        f"variable flat {where}{at('flat')}",
        f"view of shape (1, 1024) held by variable row {where}{at('row')}",
    ]
    assert sorted(texts(row)) == sorted(texts(flat)) == expected
    del big, flat
    assert texts(row) == expected[2:]


def test_memory_that_numpy_shares():
    with ag.device("cpu"):
        t = value()
        array = np.asarray(t, copy=False) if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else t.__array__(copy=False)
        other = np.from_dlpack(t)
        found = texts(t)
    assert any(text.startswith("variable t in") for text in found)
    assert "an array of NumPy or of another library that shares it" in found
    assert array[1] == other[1] == 1.0


# ---------------------------------------------------------------- what it leaves behind


def test_it_computes_moves_and_keeps_nothing(device):
    def once():
        net, optimizer, _, loss = trained()
        pending = loss * 2
        everything = [*net.parameters(), loss, pending, net.layers[0].cache["h"]]
        links = [weakref.ref(tensor._array.storage) for tensor in everything]
        before, live = ag.counters(), ag.memory_stats().live
        for tensor in everything:
            assert ag.holders(tensor)
        assert ag.counters() == before
        assert ag.memory_stats().live == live
        return links, weakref.ref(optimizer)

    once()
    gc.collect()
    gc.disable()
    try:
        links, optimizer = once()
        ag.zero_grad()
        assert [link() for link in links] == [None] * len(links)  # without the collector: it made no cycle
        assert optimizer() is None
    finally:
        gc.enable()


def test_variables_are_not_kept_by_their_frames(device):
    """Up to CPython 3.12, reading the variables of a frame leaves a copy of them there."""
    h = value()
    ag.holders(h)
    link = weakref.ref(h)
    h = None
    assert link() is None
    h = value(1.0)
    mine = locals()
    ag.holders(h)
    assert mine["h"].tolist() == [1.0, 2.0] and mine["device"] == device


# ---------------------------------------------------------------- on reports


def test_of_a_report(device):
    net, _, tape, loss = trained()  # report
    assert sum(bool(row.holders) for row in ag.tape_memory(quiet=True, holders=True, top=2).storages) == 2
    report = ag.tape_memory(quiet=True, holders=True)
    assert all(bool(row.holders) == (row.part == "operands") for row in report.storages)
    assert report.holders(net.scale) == ag.holders(net.scale)
    [cache] = [row for row in report.storages if row.shape == (4, 3) and row.part == "operands"]
    assert cache.holders == (
        f"attribute layers.0.cache['h'] of Net, {at('block')} (variable net in test_of_a_report, {at('report')})"
    )
    assert not any(row.holders for row in ag.tape_memory(quiet=True).storages)
    assert len(tape) and loss.size
