"""Checkpointing layers by their paths, what it would release, and which layers to choose."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
from networks import Cnn, Mlp, Training, Transformer

import ggmlpy_ag as ag

CASES = [
    (Mlp, ["layers"]),
    (Mlp, ["layers.1"]),
    (Mlp, ["layers.[23]"]),
    (Mlp, ["layers.*"]),
    (Mlp, [""]),
    (Cnn, ["conv", "pool"]),
    (Cnn, ["drop", "out"]),
    (Cnn, ["*"]),
    (Transformer, ["blocks.*"]),
    (Transformer, ["blocks.1", "embedding"]),
    (Transformer, ["blocks.*.*"]),
    (Transformer, ["blocks.0", "blocks.0.linear1"]),
]


def named(value: Any) -> str:
    return value.__name__ if isinstance(value, type) else ",".join(map(repr, value))


@pytest.fixture(autouse=True)
def nothing_else() -> None:
    """Garbage of other tests would be in the figures of the real step."""
    ag.zero_grad()
    gc.collect()


def kept(report: ag.TapeReport) -> int:
    """The bytes of what only the tape keeps, computed or not."""
    return sum(row.bytes for row in report.storages if row.part in ("activations", "fields"))


def report_of(training: Training, layers: list[str], computed: bool) -> ag.TapeReport:
    with ag.nn.checkpointed(training.model, layers), ag.grad_tape():
        loss = training.loss(training.x, training.y)
    if computed:
        loss.item()
    return ag.tape_memory(quiet=True)


@pytest.mark.parametrize(("kind", "layers"), CASES, ids=named)
def test_what_if_is_what_checkpointing_does(device: str, kind: type[ag.nn.Module], layers: list[str]) -> None:
    training = Training(kind)
    computed = layers != ["blocks.*"]  # nor need it be, to be known
    plain = report_of(training, [], computed)
    assert plain.what_if([]).after == kept(plain)
    found = plain.what_if(layers)
    before = kept(plain)
    real = report_of(training, layers, computed)
    assert (found.before, found.after) == (before, kept(real))
    again = [node for node in ag.tape.current_tape().nodes if node.op == "checkpoint"]
    assert found.multiply_adds == sum(node.multiply_adds for node in again)
    assert found.operations == plain.nodes - real.nodes + len(again)


@pytest.mark.parametrize(
    ("kind", "layers"), [(Mlp, ["layers.[23]"]), (Cnn, ["*"]), (Transformer, ["blocks.1", "embedding"])], ids=named
)
def test_the_estimate_of_it_is_the_measured_peak(device: str, kind: type[ag.nn.Module], layers: list[str]) -> None:
    training = Training(kind)
    found = ag.estimate(training.step, training.x, training.y).what_if(layers)
    with ag.nn.checkpointed(training.model, layers):
        assert [found.peak_first, found.peak] == [training.measured(), training.measured()]
        same = ag.estimate(training.step, training.x, training.y)  # in the block, the step is checkpointed as it is
        assert same.peak == training.measured()


def test_a_part_by_line(device: str) -> None:
    w = ag.param(np.full((16, 16), 0.1))
    x = ag.param(np.ones((32, 16)))
    with ag.grad_tape(trace=True):
        h = x @ w
        h = h.exp().tanh().exp()
        loss = (h * w.sum()).sum()
    del h
    loss.item()
    report = ag.tape_memory(quiet=True)
    line = next(name for name in report.names["line"] if report.names["line"][name] == 3)
    place = line.split(" in ")[0].replace("\\", "/").rsplit("/", 1)[1]
    found = report.what_if(place)
    value = ag.backend.devices.get().pool.rounded(4 * 32 * 16)
    assert found.released == 2 * value  # of exp and tanh; the product that comes next keeps the last one
    assert found.added == value  # h, the input of the part, which nothing keeps now
    assert found.operations == 3


def test_unknown_layers_and_lines_are_named() -> None:
    with ag.device("cpu"):
        training = Training(Mlp)
        report = report_of(training, [], False)
        with pytest.raises(ValueError, match="no layer is called 'heads'; there are '', 'layers', 'layers.0'"):
            report.what_if("heads")
        with pytest.raises(ValueError, match=r"no operation was called at model.py:12; .*trace=True"):
            report.what_if("model.py:12")
        with pytest.raises(ValueError, match='by rule "lifetime", not'):
            ag.tape_memory(quiet=True, rule="role").what_if("layers")
        with pytest.raises(TypeError, match="named by its path, not by 3"):
            report.what_if([3])
        with pytest.raises(ValueError, match="no layer is called 'heads'"):
            ag.estimate(training.step, training.x, training.y).what_if("heads")
        with (
            pytest.raises(ValueError, match="no layer is called '9'"),
            ag.nn.checkpointed(training.model, ["layers", "9"]),
        ):
            pass
        with (
            pytest.raises(ValueError, match="'blocks' is a ModuleList, which does not run itself: name its parts"),
            ag.nn.checkpointed(Transformer(), "blocks"),
        ):
            pass
        with pytest.raises(TypeError, match="model must be a Module, not list"), ag.nn.checkpointed([], "9"):
            pass


# ---------------------------------------------------------------- suggestions


def test_a_suggestion_holds_when_it_is_followed(device: str) -> None:
    training = Training(Transformer, batch=16)
    plain = ag.estimate(training.step, training.x, training.y)
    assert plain.suggest(10 * plain.peak).layers == ()
    one = plain.what_if("blocks.0")
    target = max(one.peak, one.peak_first)
    found = plain.suggest(target)
    assert len(found.layers) == 1  # and no other, as one is enough
    assert found.before == max(plain.peak, plain.peak_first)
    assert 0 < found.multiply_adds <= plain.tape.what_if("blocks.0").multiply_adds
    assert 0 < found.share < 1
    with ag.nn.checkpointed(training.model, found.layers):
        assert max(training.measured(), training.measured()) == found.after <= target


def test_the_best_that_can_be_had_is_told(device: str) -> None:
    training = Training(Mlp)
    found = ag.estimate(training.step, training.x, training.y)
    with pytest.raises(ValueError, match=r"no layers were found that get to 1000 bytes; the best is \d+ bytes, with"):
        found.suggest(1000)
    with pytest.raises(TypeError, match="target_bytes must be an integer"):
        found.suggest(0.5)


def test_a_report_suggests_for_what_the_tape_keeps(device: str) -> None:
    training = Training(Transformer, batch=16)
    plain = report_of(training, [], True)
    target = kept(plain) // 2
    found = plain.suggest(target)
    assert "checkpoint 'blocks." in str(found)
    assert kept(report_of(training, list(found.layers), True)) == found.after <= target


# ---------------------------------------------------------------- running checkpointed


@pytest.mark.parametrize(("kind", "layers"), [(Mlp, "layers.*"), (Transformer, ["blocks.*", "blocks.*.linear1"])])
def test_gradients_are_those_of_the_plain_model(device: str, kind: type[ag.nn.Module], layers: Any) -> None:
    def gradients(chosen: Any) -> list[np.ndarray]:
        training = Training(kind)
        if chosen is None:
            with ag.grad_tape():
                loss = training.loss(training.x, training.y)
        else:
            with ag.nn.checkpointed(training.model, chosen), ag.grad_tape():
                loss = training.loss(training.x, training.y)
        ag.backward(loss)  # after the block
        return [p.grad.numpy() for p in training.model.parameters()]

    for plain, saving in zip(gradients(None), gradients(layers), strict=True):
        if device == "cpu":
            np.testing.assert_array_equal(plain, saving)
        else:
            np.testing.assert_allclose(plain, saving, 1e-5, 1e-6)


def test_operations_that_run_again_carry_the_path_that_they_had() -> None:
    seen: list[list[Any]] = []

    class Inner(ag.nn.Module):
        def __init__(self) -> None:
            self.linear = ag.nn.Linear(4, 4)

        def forward(self, x: ag.Tensor) -> ag.Tensor:
            out = self.linear(x).tanh()
            seen.append([node.layer for node in ag.tape.recording_tape().nodes])
            return out

    with ag.device("cpu"):
        model = ag.nn.Sequential(Inner(), ag.nn.Linear(4, 1))
        with ag.nn.checkpointed(model, "0") as chosen, ag.grad_tape() as tape:
            loss = model(ag.tensor(np.ones((2, 4)))).sum()
        assert [node.layer for node in tape.nodes] == ["0", "1", None]
        ag.backward(loss)
    assert chosen == ["0"]
    assert seen == [["0.linear", "0"]] * 2


def test_a_layer_of_several_results_is_refused_by_name(device: str) -> None:
    class Net(ag.nn.Module):
        def __init__(self) -> None:
            self.gru, self.out = ag.nn.GRU(4, 8), ag.nn.Linear(8, 2)

        def forward(self, x: ag.Tensor) -> ag.Tensor:
            return self.out(self.gru(x)[0])

    model = Net()
    x = ag.tensor(np.ones((3, 2, 4)))
    with (
        ag.nn.checkpointed(model, "gru"),
        ag.grad_tape(),
        pytest.raises(TypeError, match=r"GRU \(gru\) returns a tuple: only a module that returns one tensor"),
    ):
        model(x)

    def step(x: ag.Tensor) -> None:
        with ag.grad_tape():
            loss = model(x).sum()
        ag.backward(loss)
        model.zero_grad()

    found = ag.estimate(step, x)
    with pytest.raises(TypeError, match="GRU"):
        found.what_if("gru")
    with pytest.raises(ValueError, match="the best is"):  # and not the TypeError: that layer is left out
        found.suggest(1)


def test_blocks_nest(device: str) -> None:
    training = Training(Mlp)
    with ag.nn.checkpointed(training.model, "layers.0"):
        with ag.nn.checkpointed(training.model, "layers.2"), ag.grad_tape() as tape:
            training.loss(training.x, training.y)
        assert [node.op for node in tape.nodes] == [
            "checkpoint",
            "tanh",
            "checkpoint",
            "gelu",
            "linear",
            *tape_end(tape),
        ]
        with ag.grad_tape() as tape:
            training.loss(training.x, training.y)
        assert [node.op for node in tape.nodes].count("checkpoint") == 1


def tape_end(tape: ag.Tape) -> list[str]:
    return [node.op for node in tape.nodes[5:]]
