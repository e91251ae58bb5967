"""checkpoint keeps the inputs only, and its gradients are those of the plain call."""

from __future__ import annotations

import gc
from collections.abc import Callable

import numpy as np
import pytest

import ggmlpy_ag as ag

rng = np.random.default_rng(0)
DATA = rng.standard_normal((16, 32)).astype(np.float32)


class Block:
    """A layer with its parameters, called like a function."""

    def __init__(self, width: int = 32) -> None:
        generator = np.random.default_rng(1)
        self.first = ag.param(generator.standard_normal((64, width)) * 0.2)
        self.second = ag.param(generator.standard_normal((width, 64)) * 0.2)

    def __call__(self, x: ag.Tensor) -> ag.Tensor:
        return x + ag.linear(ag.gelu(ag.linear(x, self.first)), self.second)


def gradients(run: Callable[[Callable[[ag.Tensor], ag.Tensor], ag.Tensor], ag.Tensor]) -> list[np.ndarray]:
    """Of three blocks in a row, each called by `run`: of the input and of all parameters."""
    blocks = [Block() for _ in range(3)]
    x = ag.param(DATA)
    ag.manual_seed(8)
    with ag.grad_tape():
        h = x
        for block in blocks:
            h = run(block, h)
        loss = ag.mean(h * h)
    grads = ag.backward(loss)
    return [loss.numpy(), *(grads[t].numpy() for t in (x, *(p for b in blocks for p in (b.first, b.second))))]


def test_gradients_are_those_of_the_plain_call_to_the_bit(device: str) -> None:
    plain = gradients(lambda block, h: block(h))
    saving = gradients(ag.checkpoint)
    for a, b in zip(plain, saving, strict=True):
        if device == "cpu":
            np.testing.assert_array_equal(a, b)
        else:
            np.testing.assert_allclose(a, b, 1e-5, 1e-6)


def test_random_numbers_are_replayed_and_those_after_it_go_on(device: str) -> None:
    def noisy(block: Callable[[ag.Tensor], ag.Tensor]) -> Callable[[ag.Tensor], ag.Tensor]:
        return lambda h: ag.dropout(block(h), 0.3)

    plain = gradients(lambda block, h: noisy(block)(h))
    after_plain = ag.rand(4).tolist()
    saving = gradients(lambda block, h: ag.checkpoint(noisy(block), h))
    assert ag.rand(4).tolist() == after_plain
    for a, b in zip(plain, saving, strict=True):
        np.testing.assert_allclose(a, b, 1e-5, 1e-6)


def test_the_tape_holds_the_inputs_only(device: str) -> None:
    block, x = Block(), ag.tensor(DATA)
    with ag.grad_tape() as tape:
        h = ag.checkpoint(block, ag.checkpoint(block, x))
        loss = ag.mean(h * h)
    del h
    loss.item()
    gc.collect()
    report = ag.tape_memory(quiet=True)
    assert [node.op for node in tape.nodes] == ["checkpoint", "checkpoint", "mul", "mean"]
    assert report.bytes_snapshots == 2 * DATA.nbytes  # what is between the blocks, and the last result
    held = ag.memory_stats().live
    tape.clear()
    assert held - ag.memory_stats().live == report.bytes_freeable


def test_values_of_the_outer_tape_may_be_used_inside(device: str) -> None:
    w = ag.param([1.0, 2.0, 3.0])
    with ag.grad_tape():
        outer = w * w
        loss = ag.sum(ag.checkpoint(lambda x: ag.exp(x) * outer + w, w * 0.5))
    found = ag.backward(loss)[w].numpy()
    v = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(found, np.exp(v / 2) * (0.5 * v * v + 2 * v) + 1, 1e-5)
    np.testing.assert_array_equal(w.grad.numpy(), found)


def test_checkpoints_nest(device: str) -> None:
    w = ag.param([0.5, -1.5])

    def inner(x: ag.Tensor) -> ag.Tensor:
        return ag.tanh(x) * w

    with ag.grad_tape():
        loss = ag.sum(ag.checkpoint(lambda x: ag.checkpoint(inner, x * 2.0) + x, w))
    v = np.array([0.5, -1.5])
    expected = 2 * (1 - np.tanh(2 * v) ** 2) * v + np.tanh(2 * v) + 1
    np.testing.assert_allclose(ag.backward(loss)[w].numpy(), expected, 1e-5, 1e-6)


def test_keyword_arguments_and_other_values_pass_through(device: str) -> None:
    w = ag.param([1.0, 2.0])
    with ag.grad_tape():
        y = ag.checkpoint(lambda x, power, *, factor: x**power * factor, w, 3, factor=w)
    assert ag.backward(y.sum() if y.is_leaf else y, np.ones(2))[w].tolist() == [4.0, 32.0]


def test_without_a_tape_or_a_gradient_it_is_the_plain_call(device: str) -> None:
    w = ag.param([1.0, 2.0])
    assert ag.checkpoint(ag.exp, w).is_leaf
    with ag.grad_tape() as tape:
        assert ag.checkpoint(ag.exp, ag.tensor([0.0])).tolist() == [1.0]
        assert ag.checkpoint(lambda x: x, w) is w
    assert len(tape) == 0


def test_a_parameter_that_was_stepped_since_is_noticed(device: str) -> None:
    w = ag.param([1.0, 2.0])
    with ag.grad_tape():
        y = ag.checkpoint(lambda x: x * w, ag.tensor([3.0, 4.0]))
    w.copy_([5.0, 6.0])
    with pytest.raises(RuntimeError, match="checkpoint.*overwritten"):
        ag.backward(y, np.ones(2))


def test_what_it_cannot_do_is_said() -> None:
    w = ag.param([1.0, 2.0])
    with ag.grad_tape(), pytest.raises(TypeError, match=r"checkpoint: fn must return a Tensor, not tuple"):
        ag.checkpoint(lambda x: (x, x), w)
    state = ag.get_rng_state()
    with ag.grad_tape(), pytest.raises(RuntimeError, match="create_graph"):
        ag.backward(ag.sum(ag.checkpoint(lambda x: x * x, w)), create_graph=True)
    assert repr(ag.get_rng_state()) == repr(state)
