"""The estimate of a step is what the real step has in memory, to the byte, and estimating changes nothing."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest
from networks import Cnn, Mlp, Training, Transformer

import ggmlpy_ag as ag

PARTS = ("parameters", "gradients", "optimizer", "activations", "inputs", "scratch", "other")


def sgd(model: ag.nn.Module) -> ag.optim.SGD:
    return ag.optim.SGD(model, lr=0.1, momentum=0.9)


CASES: dict[str, dict[str, Any]] = {
    "mlp": {"kind": Mlp},
    "cnn": {"kind": Cnn, "batch": 4},
    "transformer": {"kind": Transformer},
    "accumulating and clipping": {"kind": Transformer, "passes": 2, "clip": True},
    "bfloat16": {"kind": Mlp, "dtype": "bfloat16", "clip": True},
    "momentum": {"kind": Cnn, "optimizer_of": sgd, "batch": 4, "forget": "before"},
    "arrays": {"kind": Mlp, "upload": False, "read": True, "forget": "before"},
}


@pytest.fixture(autouse=True)
def nothing_else() -> None:
    """Garbage of other tests would be in the figures of the real step."""
    ag.zero_grad()
    gc.collect()


@pytest.mark.parametrize("name", CASES)
def test_the_peak_is_that_of_the_real_step(device: str, name: str) -> None:
    training = Training(**CASES[name])
    found = ag.estimate(training.step, training.x, training.y)
    assert [found.peak_first, found.peak] == [training.measured(), training.measured()]
    for row in found.by_device:
        assert sum(getattr(row, part) for part in PARTS) == row.peak
    if training.forget == "before":  # now from the midst of a training: gradients and a tape are left
        again = ag.estimate(training.step, training.x, training.y)
        assert [again.peak_first, again.peak] == [training.measured(), training.measured()]


def test_the_parts_are_what_they_are_called(device: str) -> None:
    others = ag.estimate(lambda: None).main  # what another test may have left
    training = Training(Mlp)
    found = ag.estimate(training.step, training.x, training.y).main
    block = ag.backend.devices.get().pool.rounded
    weights = sum(block(p.nbytes) for p in training.model.parameters())
    assert found.parameters - others.parameters == weights
    moments = found.optimizer - others.optimizer
    assert 2 * weights <= moments <= 2 * weights + 16 * 256  # and the numbers of a fused step
    assert found.inputs == block(8 * 16 * 4) + block(8 * 4)
    assert found.scratch > 0
    assert 0 < found.gradients - others.gradients <= weights


def test_the_tape_report_is_that_of_the_real_step(device: str) -> None:
    training = Training(Cnn, batch=4)
    found = ag.estimate(training.step, training.x, training.y).tape
    training.run()
    with ag.grad_tape():
        loss = training.loss(training.x, training.y)
    ag.backward(loss)
    real = ag.tape_memory(quiet=True)
    assert (found.nodes, found.bytes_total, found.bytes_freeable) == (real.nodes, real.bytes_total, real.bytes_freeable)
    assert found.by_op == real.by_op
    assert found.values_pending == 0


@pytest.mark.parametrize("kind", [Mlp, Cnn, Transformer])
def test_another_batch_size_is_as_measured_with_such_inputs(device: str, kind: type[ag.nn.Module]) -> None:
    training = Training(kind, batch=4)
    found = ag.estimate(training.step, training.x, training.y, batch_size=[3, 12])
    predicted = {one.batch_size: one.peak for one in found}
    del found  # which keeps the inputs that it was asked about
    training.run()
    for n in (3, 12):
        training.x = training.y = None
        training.x, training.y = training.data(n)
        assert training.measured() == predicted[n]


def test_lists_and_dictionaries_of_inputs_get_the_batch_size_too(device: str) -> None:
    w = ag.param(np.ones((4, 4)))

    def step(batch: dict[str, Any], pair: list[Any]) -> None:
        assert batch["x"].shape == (6, 4)
        assert pair[0].shape == (6, 2)
        assert pair[1] == "kept"
        assert batch["other"].shape == (3,)
        (batch["x"] @ w).sum().item()

    batch = {"x": ag.tensor(np.ones((2, 4))), "other": np.ones(3)}
    ag.estimate(step, batch, [np.ones((2, 2)), "kept"], batch_size=6)
    assert batch["x"].tolist() == [[1.0] * 4] * 2


def test_the_largest_batch_fits_and_the_next_does_not() -> None:
    w = ag.param(np.ones((16, 64)), device="cpu")
    x = ag.tensor(np.ones((2, 16)), device="cpu")

    def step(x: ag.Tensor) -> None:
        with ag.grad_tape():
            loss = (x @ w).exp().sum()
        ag.backward(loss)
        ag.zero_grad([w])

    limit = ag.memory_stats("cpu").live + 100_000
    best = ag.largest_batch(step, x, limit=limit, device="cpu")
    assert best.batch_size > 8
    assert best.fits(limit)
    assert not ag.estimate(step, x, batch_size=best.batch_size + 1, device="cpu").fits(limit)
    assert ag.largest_batch(step, x, limit=limit, device="cpu", at_most=5).batch_size == 5
    with pytest.raises(ValueError, match="with a batch of 1, a step has .* beyond 1000"):
        ag.largest_batch(step, x, limit=1000, device="cpu")


# ---------------------------------------------------------------- nothing changes


@pytest.mark.parametrize("name", ["cnn", "bfloat16", "momentum"])
def test_a_training_goes_on_as_if_nobody_had_asked(device: str, name: str) -> None:
    asked = Training(**CASES[name])
    rate = asked.optimizer.lr
    schedule = ag.optim.lr.StepLR(asked.optimizer, 1, 0.5)

    def step(x: ag.Tensor, y: ag.Tensor) -> None:
        asked.step(x, y)
        schedule.step()

    step(asked.x, asked.y)
    before = asked.state()
    stats, counted, numbers = ag.memory_stats(), ag.counters(), str(ag.get_rng_state())
    grads = [p.grad for p in asked.model.parameters()]
    ag.estimate(step, asked.x, asked.y, batch_size=16)
    assert ag.counters() - counted == ag.Counters()
    assert ag.memory_stats() == stats
    assert str(ag.get_rng_state()) == numbers
    assert all(p.grad is grad for p, grad in zip(asked.model.parameters(), grads, strict=True))
    assert asked.state() == before
    assert (asked.optimizer.lr, schedule.last_epoch) == (rate / 2, 1)
    step(asked.x, asked.y)

    other = Training(**CASES[name])
    for other.optimizer.lr in (rate, rate / 2):
        other.run()
    if device == "cpu":
        assert asked.state() == other.state()


def test_what_a_step_forgets_and_overwrites_is_there_again(device: str) -> None:
    w = ag.param(np.arange(8.0).reshape(2, 4))
    w.grad = ag.tensor(np.ones((2, 4)))
    buffer = ag.tensor(np.zeros(4))
    gradient, grad_storage, version = w.grad, w.grad._array.storage, buffer._array.storage.version
    del gradient

    def step() -> None:
        w.grad = None
        gc.collect()
        buffer.copy_(np.ones(4))
        w.requires_grad = False
        buffer._array = w._array

    before = ag.memory_stats()
    ag.estimate(step)
    assert ag.memory_stats() == before
    assert w.requires_grad
    assert w.grad.tolist() == np.ones((2, 4)).tolist()
    assert w.grad._array.storage is grad_storage
    assert buffer.tolist() == [0.0] * 4
    assert buffer._array.storage.version == version


def test_a_gradient_that_only_its_tensor_held_counts_until_it_is_forgotten(device: str) -> None:
    n = 4 * 64 * 64
    w = ag.param(np.ones((64, 64)))
    w.grad = ag.tensor(np.full((64, 64), 3.0))

    def forgetting() -> None:
        w.grad = None
        ag.tensor(np.ones((64, 64)))

    found = ag.estimate(forgetting)
    assert found.peak_first == 2 * n + base(w, w.grad)
    assert found.peak == 2 * n + base(w, w.grad)
    assert ag.estimate(lambda: ag.tensor(np.ones((64, 64)))).peak == 3 * n + base(w, w.grad)
    assert w.grad.tolist() == np.full((64, 64), 3.0).tolist()


def base(*tensors: ag.Tensor) -> int:
    """What other things than these have in use now."""
    return ag.memory_stats().live - sum(t._array.storage.block_bytes for t in tensors)


def test_a_finished_tape_is_freed_when_the_real_one_would_be(device: str) -> None:
    w = ag.param(np.ones((64, 64)))
    n = 4 * 64 * 64

    def forward() -> ag.Tensor:
        with ag.grad_tape():
            return w.exp().exp().sum()

    loss = forward()
    loss.item()
    held = ag.memory_stats().live
    assert ag.tape_memory(quiet=True).bytes_freeable == 2 * n

    def large() -> None:
        ag.tensor(np.ones((256, 64)))

    def clearing() -> None:
        ag.zero_grad()
        large()

    def another() -> None:
        with ag.grad_tape():
            large()

    assert ag.estimate(large).peak == held + 4 * n
    assert ag.estimate(clearing).peak_first == ag.estimate(another).peak_first == held - 2 * n + 4 * n
    gradient = np.exp(np.exp(1.0)) * np.exp(1.0)
    np.testing.assert_allclose(ag.backward(loss)[w].numpy(), gradient, 1e-5)  # of the tape of before
    ag.zero_grad()
    assert ag.memory_stats().live < held


def test_what_was_pending_stays_so_and_counts_as_in_the_real_step(device: str) -> None:
    x = ag.tensor(np.ones((64, 64)))
    waiting = x + 1.0
    more = waiting * 2.0
    assert waiting._array.storage.block is None

    def step() -> None:
        (more + x).sum().item()

    found = ag.estimate(step)
    assert waiting._array.storage.block is None
    ag.reset_peak_memory()
    step()
    assert ag.memory_stats().peak == found.peak_first
    assert more.tolist() == np.full((64, 64), 4.0).tolist()


def test_variables_that_the_step_names_are_as_before(device: str) -> None:
    losses: list[Any] = []
    counts = {"steps": 0}
    state = ag.tensor(np.ones(3))
    last: Any = None

    def helper() -> None:
        counts["steps"] += 1

    def step() -> None:
        nonlocal state, last
        state = state * 2.0
        last = state
        losses.append(state.sum())
        helper()

    ag.estimate(step)
    assert (losses, counts, last, state.tolist()) == ([], {"steps": 0}, None, [1.0, 1.0, 1.0])


def test_attributes_of_the_object_whose_method_is_the_step_are_as_before(device: str) -> None:
    class Trainer:
        def __init__(self) -> None:
            self.hidden = ag.tensor(np.zeros(4))
            self.seen: list[float] = []

        def step(self) -> None:
            self.hidden = self.hidden + 1.0
            self.seen.append(float(self.hidden.sum()))

    trainer = Trainer()
    ag.estimate(trainer.step)
    assert trainer.seen == []
    assert trainer.hidden.tolist() == [0.0] * 4


def test_a_value_of_the_simulation_that_is_kept_elsewhere_raises_when_it_is_read(device: str) -> None:
    class Store:
        kept: Any = None

    def step() -> None:
        Store.kept = ag.tensor(np.ones(4)) * 2.0
        Store.kept.numpy()

    ag.estimate(step)
    with pytest.raises(RuntimeError, match=r"no memory: it was made \(by .*\) in a step that was simulated"):
        Store.kept.numpy()
    later = Store.kept + 1.0
    with pytest.raises(RuntimeError, match="simulated"):
        later.numpy()
    with pytest.raises(RuntimeError, match="simulated"):
        Store.kept.copy_(np.zeros(4))


def test_an_error_in_the_step_comes_out_and_everything_is_as_before(device: str) -> None:
    training = Training(Mlp)
    before, stats = training.state(), ag.memory_stats()

    def step(x: Any, y: Any) -> None:
        training.step(x, y)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        ag.estimate(step, training.x, training.y)
    assert training.state() == before
    gc.collect()
    assert ag.memory_stats() == stats
    assert training.measured() > 0


def test_values_that_are_read_are_zero_and_peaks_can_be_asked_for(device: str) -> None:
    x = ag.tensor(np.ones((8, 8)))
    seen: list[Any] = []

    def step() -> None:
        ag.reset_peak_memory()
        seen.append((x.sum().item(), x.numpy().shape, ag.memory_stats().live > 0))
        seen.clear() if seen[-1] == (0.0, (8, 8), True) else None
        assert not seen
        ag.empty_cache()

    ag.estimate(step)
    assert x.sum().item() == 64.0


def test_another_thread_waits(device: str) -> None:
    class Thread(threading.Thread):
        made: Any = None
        begun = False

        def run(self) -> None:
            with ag.device(device):
                self.made = ag.tensor(np.ones(5)) + 1.0

    class Here:  # which no step restores, unlike variables of this function
        thread = Thread()

    def step() -> None:
        if not Here.thread.begun:
            Here.thread.begun = True
            Here.thread.start()

    ag.estimate(step)
    Here.thread.join()
    assert Here.thread.made.tolist() == [2.0] * 5


def test_bad_arguments_are_named(device: str) -> None:
    w = ag.param(np.ones(4))
    with pytest.raises(TypeError, match="step_fn must be a function, not Tensor"):
        ag.estimate(w)
    with pytest.raises(ValueError, match="no device 'abacus'"):
        ag.estimate(lambda: None, device="abacus")
    with pytest.raises(ValueError, match="must be positive, not 0"):
        ag.estimate(lambda x: None, w, batch_size=0)
    with pytest.raises(TypeError, match="must be an integer, not 2.5"):
        ag.estimate(lambda x: None, w, batch_size=[2.5])
    with pytest.raises(ValueError, match="none of the inputs"):
        ag.estimate(lambda x: None, 3, batch_size=4)
    with pytest.raises(TypeError, match="limit must be an integer"):
        ag.largest_batch(lambda x: None, w, limit=1.5)


def test_it_prints_and_gives_its_figures(device: str) -> None:
    training = Training(Mlp)
    found = ag.estimate(training.step, training.x, training.y, batch_size=16)
    text = str(found)
    assert "at batch size 16" in text
    assert f"{device}: peak" in text
    assert "optimizer" in text
    figures = found.to_dict()
    assert figures["batch_size"] == 16
    assert {row["device"]: row["peak"] for row in figures["by_device"]}[device] == found.peak
