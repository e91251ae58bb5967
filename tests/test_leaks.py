"""Memory that every repetition leaves more of: planted leaks are found with the line that holds them, and no others."""

from __future__ import annotations

import gc
import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest

import ggmlpy_ag as ag

SOURCE = Path(__file__).read_text("utf-8").splitlines()


def at(mark):
    """ "file:line" of the only line here that ends with this mark."""
    lines = [i for i, line in enumerate(SOURCE, 1) if line.endswith(f"# {mark}")]
    assert len(lines) == 1, mark
    return f"{Path(__file__).name}:{lines[0]}"


class Net(ag.nn.Module):
    def __init__(self):
        self.first = ag.nn.Linear(6, 16)
        self.norm = ag.nn.BatchNorm1d(16)
        self.drop = ag.nn.Dropout(0.2)
        self.last = ag.nn.Linear(16, 3)
        self.hooks = []

    def forward(self, x):
        h = self.norm(self.first(x)).relu()  # hidden
        for hook in self.hooks:
            hook(h)
        return self.last(self.drop(h))


class Training:
    def __init__(self, loader=False):
        rng = np.random.default_rng(0)
        self.x, self.labels = rng.random((32, 6), np.float32), rng.integers(0, 3, 32)
        self.net = Net()
        self.optimizer = ag.optim.AdamW(self.net, lr=0.01)
        self.batches = ag.data.DataLoader((self.x, self.labels), batch_size=8, shuffle=True) if loader else None

    def step(self, x, labels):
        with ag.grad_tape() as tape:
            loss = ag.cross_entropy_loss(self.net(x), labels)  # loss
        ag.backward(loss)
        self.optimizer.step()
        return tape, loss

    def once(self):
        return self.step(self.x[:8], self.labels[:8])


def leaks(fn, **options):
    report = ag.memory_leaks(fn, repeat=3, quiet=True, **options)
    json.dumps(report.to_dict())
    assert bool(report) == bool(report.rows)
    return report


# ---------------------------------------------------------------- what is none


def test_training_does_not_leak(device):
    """AdamW makes its state in the first step, batch norm replaces its averages, the loader its order and batches."""
    training = Training(loader=True)

    def epoch():
        total = ag.tensor(0.0)
        for x, labels in training.batches:
            _, loss = training.step(x, labels)
            total += loss.detach()
            training.optimizer.zero_grad()
        return total.item()

    for warmup in (0, 1):
        report = leaks(epoch, warmup=warmup)
        assert not report, str(report)
    assert str(report) == "memory leaks: none in 3 repetitions of epoch"
    assert report.to_dict() == {"name": "epoch", "repeat": 3, "bytes": 0, "rows": []}


def test_what_is_replaced_or_full_is_no_leak(device):
    training = Training()
    kept, last = {}, []
    number = itertools.count()

    def step():
        tape, loss = training.once()
        last[:] = [tape, loss]
        kept[next(number) % 2] = loss  # full after two

    report = leaks(step, warmup=0)
    assert not report, str(report)


def test_a_running_sum_keeps_nothing(device):
    training = Training()
    total = ag.tensor(0.0)

    def step():
        nonlocal total
        total += training.once()[1]

    report = leaks(step)
    assert not report, str(report)


def test_a_cycle_that_the_collector_breaks_is_no_leak(device):
    def step():
        cycle = [ag.rand(4)]
        cycle.append(cycle)

    assert not leaks(step)


# ---------------------------------------------------------------- planted leaks


LOSSES = []


@pytest.fixture(autouse=True)
def empty():
    yield
    LOSSES.clear()


@pytest.mark.usefixtures("whole_heap")
def test_losses_kept_with_their_tapes(device):
    training = Training()

    def step():
        tape, loss = training.once()
        LOSSES.append((loss, tape))  # kept

    report = leaks(step)
    assert len(LOSSES) == 4
    [loss] = [row for row in report.rows if row.shape == ()]
    assert [str(holder) for holder in loss.holders] == [f"global variable LOSSES[1][0] of {__name__}, {at('kept')}"]
    assert Path(loss.line).name == f"{at('loss')} in step"
    [relu] = [row for row in report.rows if row.made_by == "relu"]
    assert (relu.count, relu.shape, relu.dtype, relu.device) == (1.0, (8, 16), "float32", device)
    assert Path(relu.line).name == f"{at('hidden')} in forward"
    rule = next(holder for holder in relu.holders if holder.kind == "rule")
    assert str(rule).endswith(f", on the tape of global variable LOSSES[1][1] of {__name__}, {at('kept')}")
    assert Path(rule.line).name == at("kept")
    # what a repetition adds is what each of the tapes in the list keeps
    live = ag.memory_stats().live
    del LOSSES[1:3]
    gc.collect()
    assert live - ag.memory_stats().live == 2 * report.bytes > 0


def test_a_hook_that_keeps_activations(device):
    training = Training()

    def watch(net):
        seen = []

        def hook(h):
            seen.append(h)  # seen

        net.hooks.append(hook)

    watch(training.net)

    def step():
        training.once()
        training.optimizer.zero_grad()

    report = leaks(step)
    [found] = report.rows
    assert (found.made_by, found.count, found.shape) == ("relu", 1.0, (8, 16))
    assert Path(found.line).name == f"{at('hidden')} in forward"
    [holder] = found.holders
    assert str(holder).startswith(
        f"variable seen[1] captured by test_a_hook_that_keeps_activations.<locals>.watch.<locals>.hook, {at('seen')} ("
    )
    assert (holder.kind, Path(holder.line).name) == ("captured", at("seen"))


def test_an_optimizer_recreated_each_step(device):
    training = Training()
    optimizers = {}

    def step():
        optimizers[len(optimizers)] = training.optimizer  # old
        training.optimizer = ag.optim.AdamW(training.net, lr=0.01)
        training.once()
        training.optimizer.zero_grad()

    report = leaks(step)
    held = [str(holder) for row in report.rows for holder in row.holders]
    place = f"(variable optimizers[2] in test_an_optimizer_recreated_each_step, {at('old')})"
    assert {f"first_moment of parameter 0 of AdamW {place}", f"second_moment of parameter 0 of AdamW {place}"} & {*held}
    weights = sum(2 * parameter.nbytes for parameter in training.net.parameters())
    assert report.bytes >= weights


def test_operations_that_nobody_computes(device):
    training = Training()
    training.net.eval()
    total = ag.tensor(0.0)

    @ag.no_grad()
    def evaluate():
        nonlocal total
        total = total + training.net(training.x).mean()  # total

    report = leaks(evaluate)
    waiting = [holder for row in report.rows for holder in row.holders if holder.kind == "pending"]
    assert waiting, str(report)
    assert {Path(holder.line).name for holder in waiting} == {at("total")}
    assert str(waiting[0]).endswith(f", for variable total in test_operations_that_nobody_computes, {at('total')}")

    def read():
        evaluate()
        total.item()

    assert not leaks(read)


def test_another_shape_each_time(device):
    kept = []
    sizes = itertools.count(5)

    def step():
        kept.append(ag.rand(next(sizes)).exp())  # exp
        kept[-1].tolist()

    report = leaks(step)
    [found] = report.rows
    assert (found.made_by, found.shape, found.count) == ("exp", None, 1.0)
    assert "1 exp of any shape float32" in str(report)
    assert Path(found.line).name == f"{at('exp')} in step"


# ---------------------------------------------------------------- its face


def test_the_report(device, capsys):
    kept = []

    def step():
        kept.extend([ag.rand(256), ag.rand(256)])  # two

    report = ag.memory_leaks(step)
    text = capsys.readouterr().out
    assert text == f"{report}\n"
    assert re.sub(r", made at .*|(?<=kept)\[[23]\]", "", text) == (
        "memory leaks: each of 5 repetitions of step keeps 2.00 KiB more\n"
        f"    2.00 KiB  2 rand (256,) float32 on {device}\n"
        f"              held: variable kept in test_the_report, {at('two')}\n"
    )
    assert report.to_dict()["rows"][0]["holders"][0]["kind"] == "variable"
    assert ag.memory_leaks(lambda: None, repeat=2, warmup=0).name == "<lambda>"


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"fn": 3}, TypeError, "fn must be a function, not int"),
        ({"repeat": 1}, ValueError, "repeat must be at least 2, not 1"),
        ({"repeat": 2.0}, TypeError, "repeat must be an integer, not 2.0"),
        ({"warmup": -1}, ValueError, "warmup must be at least 0, not -1"),
        ({"warmup": True}, TypeError, "warmup must be an integer, not True"),
    ],
)
def test_bad_arguments(options, error, message):
    with pytest.raises(error, match=message):
        ag.memory_leaks(**{"fn": lambda: None, **options})


def test_an_error_of_the_function(device):
    def fail():
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        ag.memory_leaks(fail)
    assert ag.device(device) and not leaks(lambda: None)  # and the next one works
