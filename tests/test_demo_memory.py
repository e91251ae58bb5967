"""The memory report on the networks of the demos: what it says is what is measured, to the byte."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ggmlpy_ag as ag

SCRIPTS = Path(ag.__file__).resolve().parent.parent / "scripts"
LAYERS = {"digits": "1", "cnn": "6", "charlm": "blocks.0"}


class Training:
    """A demo's network and a step like the demo's."""

    def __init__(self, model: ag.nn.Module, x: np.ndarray, y: np.ndarray) -> None:
        self.model, self.x, self.y = model, ag.tensor(x), ag.tensor(y)
        self.optimizer = ag.optim.AdamW(model.parameters())

    def forward(self) -> ag.Tape:
        with ag.grad_tape(trace=True) as tape:
            loss = ag.cross_entropy_loss(self.model(self.x), self.y)
        ag.backward(loss)
        return tape

    def step(self) -> None:
        self.forward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def peak(self) -> int:
        ag.reset_peak_memory()
        self.step()
        return ag.memory_stats().peak


@pytest.fixture(params=list(LAYERS))
def demo(request: pytest.FixtureRequest, device: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Training, str]:
    """The training of a demo, and the path of a layer."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    module: Any = importlib.import_module(f"demo_{request.param}")
    rng = np.random.default_rng(0)
    ag.manual_seed(0)
    if request.param == "charlm":
        text = rng.integers(0, 97, (4, 49))
        training = Training(module.Model(), text[:, :-1], text[:, 1:].reshape(-1))
    else:
        shape = (16, 64) if request.param == "digits" else (16, 1, 8, 8)
        training = Training(module.network(), rng.random(shape, np.float32), rng.integers(0, 10, 16))
    training.step()  # the optimizer has its state from here on
    return training, LAYERS[request.param]


def freed(action: Callable[[], object]) -> int:
    before = ag.memory_stats().live
    action()
    return before - ag.memory_stats().live


def test_tables_add_up_and_what_can_be_freed_is_freed(demo: tuple[Training, str]) -> None:
    training, _ = demo
    tape = training.forward()
    report = ag.tape_memory(quiet=True)
    for table in (report.by_op, report.by_layer, report.by_line, report.by_dtype, report.by_device):
        assert sum(row.bytes for row in table) == report.bytes_total
        assert sum(row.bytes_snapshots for row in table) == report.bytes_snapshots
    assert freed(tape.clear) == report.bytes_freeable > 0


def test_the_estimate_is_the_measured_peak(demo: tuple[Training, str]) -> None:
    training, _ = demo
    found = ag.estimate(training.step)
    assert found.peak == training.peak()


def test_what_if_is_what_is_measured_with_the_layer_checkpointed(demo: tuple[Training, str]) -> None:
    training, layer = demo
    training.forward()
    report = ag.tape_memory(quiet=True)
    promised = report.what_if([layer])
    peak = ag.estimate(training.step).what_if([layer]).peak
    ag.zero_grad()
    with ag.nn.checkpointed(training.model, [layer]):
        tape = training.forward()
        assert ag.tape_memory(quiet=True).bytes_freeable == promised.after
        tape.clear()
        training.optimizer.zero_grad()
        assert training.peak() == peak
