"""Normalization where it is delicate: large means, and running statistics that are written in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ggmlpy_ag as ag


def normal(*shape: int, seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def standardized(x: np.ndarray, axes: Any) -> np.ndarray:
    x = x.astype(np.float64)
    deviation = x - x.mean(axes, keepdims=True)
    return deviation / np.sqrt((deviation**2).mean(axes, keepdims=True) + 1e-5)


NORMS: dict[str, tuple[Callable[[Any], ag.Tensor], Callable[[np.ndarray], np.ndarray]]] = {
    "layer": (lambda x: ag.layer_norm(x, x.shape[1:]), lambda x: standardized(x, (1, 2))),
    "group": (
        lambda x: ag.group_norm(x, 2),
        lambda x: standardized(x.reshape(len(x), 2, -1), 2).reshape(x.shape),
    ),
    "batch": (lambda x: ag.batch_norm(x, training=True), lambda x: standardized(x, (0, 2))),
}


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("shape", [(3, 4, 31), (5, 2, 701)], ids=str)  # short rows and long ones
@pytest.mark.parametrize("offset", [0.0, 1e4, -1e6])
def test_a_large_mean_costs_no_digits(name: str, shape: tuple[int, ...], offset: float, device: str) -> None:
    call, expected = NORMS[name]
    x = normal(*shape) + np.float32(offset)
    g = normal(*shape, seed=4)
    grads = []
    for values in (x, x - np.float32(offset)):  # the difference is exact, and the gradient the same
        leaf = ag.param(values)
        with ag.grad_tape():
            out = call(leaf)
        np.testing.assert_allclose(out.numpy(), expected(values), 1e-6, 2e-6)
        grads.append(ag.backward(out, g)[leaf].numpy())
    np.testing.assert_allclose(grads[0], grads[1], 1e-5, 2e-6)


def test_rows_that_are_constant_or_of_one_element_become_zero(device: str) -> None:
    for x in (np.full((3, 7), 1e4 / 3, np.float32), normal(5, 1)):
        leaf = ag.param(x)
        with ag.grad_tape():
            out = ag.layer_norm(leaf, x.shape[1])
        np.testing.assert_array_equal(out.numpy(), 0.0)
    np.testing.assert_array_equal(ag.backward(out, normal(5, 1))[leaf].numpy(), 0.0)


# ---------------------------------------------------------------- running statistics

SHAPE = (4, 3, 5)
MEAN, VAR = np.array([1.0, -2.0, 0.5], np.float32), np.array([1.0, 4.0, 0.25], np.float32)


def moved(x: np.ndarray, momentum: float) -> tuple[np.ndarray, np.ndarray]:
    x = x.astype(np.float64)
    return (
        MEAN + momentum * (x.mean((0, 2)) - MEAN),
        VAR + momentum * (x.var((0, 2), ddof=1) - VAR),
    )


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("momentum", [0.1, 1.0, 0])
def test_running_statistics_move_as_in_pytorch(momentum: float, dtype: str, device: str) -> None:
    torch = pytest.importorskip("torch")
    x = normal(*SHAPE)
    running = [ag.tensor(v, dtype=dtype) for v in (MEAN, VAR)]
    theirs = [torch.tensor(v, dtype=torch.float64) for v in (MEAN, VAR)]
    for _ in range(3):
        ag.batch_norm(x, *running, training=True, momentum=momentum)
        torch.nn.functional.batch_norm(torch.tensor(x).double(), *theirs, training=True, momentum=momentum)
    for mine, wanted in zip(running, theirs, strict=True):
        assert mine.dtype == np.dtype(dtype)
        np.testing.assert_allclose(mine.numpy(), wanted.numpy(), 1e-6 if dtype == "float32" else 2e-3)


def test_nothing_is_downloaded_or_uploaded_to_move_them(device: str) -> None:
    x, weight = ag.param(normal(*SHAPE)), ag.param(normal(3))
    mean, var = ag.tensor(MEAN), ag.tensor(VAR)
    before = ag.counters()
    with ag.grad_tape():
        loss = ag.sum(ag.batch_norm(x, mean, var, weight, training=True) ** 2.0)
    ag.backward(loss)
    copies = ag.counters() - before
    assert (copies.downloads, copies.uploads) == (0, 0)
    np.testing.assert_allclose(mean.numpy(), moved(x.numpy(), 0.1)[0], 1e-6)


def test_they_move_after_what_was_recorded_before_has_read_them(device: str) -> None:
    x = ag.tensor(normal(*SHAPE))
    mean, var = ag.tensor(MEAN), ag.tensor(VAR)
    doubled = mean * 2.0
    with_old = ag.batch_norm(x, mean, var)
    ag.batch_norm(x, mean, var, training=True, momentum=1.0)
    with_new = ag.batch_norm(x, mean, var)
    np.testing.assert_array_equal(doubled.numpy(), MEAN * 2)
    column = (slice(None), None)
    wide = x.numpy().astype(np.float64)
    np.testing.assert_allclose(with_old.numpy(), (wide - MEAN[column]) / np.sqrt(VAR[column] + 1e-5), 1e-6, 1e-6)
    middle, spread = moved(x.numpy(), 1.0)
    np.testing.assert_allclose(with_new.numpy(), (wide - middle[column]) / np.sqrt(spread[column] + 1e-5), 1e-6, 1e-6)


def test_moving_them_is_a_write_that_a_rule_notices(device: str) -> None:
    x = ag.param(normal(*SHAPE))
    mean, var = ag.tensor(MEAN), ag.tensor(VAR)
    with ag.grad_tape():
        loss = ag.sum(ag.batch_norm(x, mean, var))  # saves both
        ag.batch_norm(x, mean, var, training=True)
    with pytest.raises(RuntimeError, match="backward of batch_norm: .* overwritten in place"):
        ag.backward(loss)


def test_running_statistics_may_be_windows(device: str) -> None:
    both = ag.tensor(np.stack([MEAN, VAR], 1))
    x = normal(*SHAPE)
    ag.batch_norm(x, both[:, 0], both[:, 1], training=True)
    np.testing.assert_allclose(both.numpy(), np.stack(moved(x, 0.1), 1), 1e-6)


def test_a_wrong_call_moves_nothing(device: str) -> None:
    mean, var = ag.tensor(MEAN), ag.tensor(VAR)
    for wrong in ({"weight": np.ones(2)}, {"eps": -1.0}, {"momentum": np.nan}, {"bias": "none"}):
        with pytest.raises((ValueError, TypeError)):
            ag.batch_norm(normal(*SHAPE), mean, var, training=True, **wrong)
    np.testing.assert_array_equal(mean.numpy(), MEAN)
    np.testing.assert_array_equal(var.numpy(), VAR)
