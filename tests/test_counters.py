"""What crosses between host and device, and what runs, is counted exactly."""

from __future__ import annotations

import numpy as np
import pytest

import ggmlpy_ag as ag


def make(optimizer: str) -> tuple[list[ag.Tensor], ag.optim.Optimizer]:
    rng = np.random.default_rng(0)
    params = [ag.param(rng.standard_normal(shape) * 0.3) for shape in ((16, 8), (16,), (4, 16), (4,))]
    kind = {
        "sgd": lambda: ag.optim.SGD(params, lr=0.1),
        "momentum": lambda: ag.optim.SGD(params, lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True),
        "adam": lambda: ag.optim.Adam(params, lr=0.01, weight_decay=0.01),
        "adamw": lambda: ag.optim.AdamW(params, lr=0.01),
        "rmsprop": lambda: ag.optim.RMSprop(params, lr=0.01, weight_decay=0.01, momentum=0.9, centered=True),
        "adagrad": lambda: ag.optim.Adagrad(params, lr=0.01, lr_decay=0.1, initial_accumulator_value=0.1),
        "lion": lambda: ag.optim.Lion(params, lr=0.001, weight_decay=0.01),
        "groups": lambda: ag.optim.AdamW([{"params": params[:2], "lr": 0.01}, {"params": params[2:]}]),
    }
    return params, kind[optimizer]()


def step(params: list[ag.Tensor], optimizer: ag.optim.Optimizer, x: np.ndarray, y: np.ndarray) -> float:
    images, labels = ag.tensor(x), ag.tensor(y)
    with ag.grad_tape():
        hidden = ag.relu(images @ params[0].T + params[1])
        loss = ag.cross_entropy_loss(hidden @ params[2].T + params[3], labels)
    ag.backward(loss)
    ag.optim.clip_grad_norm(params, 1.0)
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam", "adamw", "rmsprop", "adagrad", "lion", "groups"])
def test_a_step_moves_its_batch_up_and_its_loss_down(device: str, optimizer: str) -> None:
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((32, 8)).astype(np.float32), rng.integers(0, 4, 32).astype(np.int32)
    params, opt = make(optimizer)
    step(params, opt, x, y)  # the first one uploads the optimizer's numbers
    for _ in range(3):
        before = ag.counters()
        step(params, opt, x, y)
        moved = ag.counters() - before
        assert (moved.uploads, moved.upload_bytes) == (2, x.nbytes + y.nbytes)
        assert (moved.downloads, moved.download_bytes) == (1, 4)
        assert moved.fallbacks == 0
        assert moved.graphs >= 1 and moved.nodes >= 20


def test_a_changed_learning_rate_uploads_nothing(device: str) -> None:
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((32, 8)).astype(np.float32), rng.integers(0, 4, 32).astype(np.int32)
    params, opt = make("adamw")
    step(params, opt, x, y)
    for lr in (0.005, 0.0, 0.003):
        opt.lr = lr
        before = ag.counters()
        step(params, opt, x, y)
        assert (ag.counters() - before).uploads == 2


def test_counts_are_a_copy_and_can_be_reset(device: str) -> None:
    ag.counters(reset=True)
    assert ag.counters() == ag.Counters()
    ag.tensor([1.0, 2.0]).numpy()
    first = ag.counters()
    assert first == ag.Counters(uploads=1, upload_bytes=8, downloads=1, download_bytes=8)
    (ag.tensor([1.0, 2.0]) + 1.0).numpy()
    assert first.uploads == 1
    later = ag.counters(reset=True)
    assert later - first == ag.Counters(1, 8, 1, 8, 1, 1, 0)
    assert ag.counters() == ag.Counters()
    assert "2 uploads (16 bytes)" in str(later)


def test_several_reads_run_one_graph(device: str) -> None:
    x = ag.tensor(np.ones((4, 4)))
    a, b = x * 2.0, x + 1.0
    before = ag.counters()
    a.numpy(), b.numpy(), a.numpy()
    moved = ag.counters() - before
    assert (moved.graphs, moved.nodes, moved.downloads) == (1, 2, 3)


def test_what_nobody_wants_is_not_computed(device: str) -> None:
    x = ag.tensor(np.ones((4, 4)))
    kept = x * 2.0
    x.exp().log()  # dropped at once
    before = ag.counters()
    kept.numpy()
    assert (ag.counters() - before).nodes == 1


def test_parameters_on_two_devices_upload_nothing_after_the_first_step(device: str) -> None:
    here, there = ag.param(np.ones(8)), ag.param(np.ones(8), device="cpu")
    optimizer = ag.optim.AdamW([here, there])
    grads = ag.tensor(np.ones(8)), ag.tensor(np.ones(8), device="cpu")

    def step() -> None:
        here.grad, there.grad = grads
        optimizer.step()

    step()
    before = ag.counters()
    step()
    moved = ag.counters() - before
    assert (moved.uploads, moved.downloads) == (0, 0)
    np.testing.assert_allclose(here.numpy(), there.numpy(), rtol=1e-6)


def test_numbers_in_expressions_are_not_uploaded(device: str) -> None:
    x = ag.tensor([1.0, 2.0])
    before = ag.counters()
    (3.0 - (2.0 * x + 1.0) / 4.0 + 1.0 / x - x**2 + np.float32(0.5)).numpy()
    assert (ag.counters() - before).uploads == 0


def test_a_window_is_read_without_the_rest(device: str) -> None:
    x = ag.tensor(np.arange(10_000.0).reshape(100, 100))
    ag.counters(reset=True)
    assert x[3, 5:7].tolist() == [305.0, 306.0]
    assert ag.counters().download_bytes == 8
    assert x[:, 7].tolist() == [100.0 * i + 7 for i in range(100)]
    assert ag.counters().download_bytes == 8 + 400


def test_overwriting_is_one_upload(device: str) -> None:
    x = ag.tensor(np.zeros(5))
    ag.counters(reset=True)
    x.copy_(np.ones(5))
    assert ag.counters() == ag.Counters(uploads=1, upload_bytes=20)


def test_moving_between_devices_is_a_download_and_an_upload(device: str) -> None:
    x = ag.tensor(np.zeros(5))
    ag.counters(reset=True)
    x.to("cpu")
    expected = ag.Counters() if device == "cpu" else ag.Counters(1, 20, 1, 20)
    assert ag.counters() == expected
