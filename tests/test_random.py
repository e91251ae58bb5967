"""Random numbers: their distribution, the same on every device, and their state."""

from __future__ import annotations

import numpy as np
import pytest

import ggmlpy_ag as ag

N = 200_000


def test_a_seed_gives_the_same_numbers_on_every_device() -> None:
    found = []
    for info in ag.devices():
        with ag.device(info.name):
            ag.manual_seed(11)
            x = ag.tensor(np.ones((31, 33)))
            drawn = (ag.rand(5, 7), ag.randn(3), ag.bernoulli(0.3, (9, 9)), ag.bernoulli(x * 0.5), ag.dropout(x, 0.2))
            found.append([t.numpy() for t in drawn])
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_distributions() -> None:
    ag.manual_seed(0)
    u, z, b = ag.rand(N).numpy(), ag.randn(N).numpy(), ag.bernoulli(0.3, (N,)).numpy()
    sigma = 1 / np.sqrt(N)
    assert u.min() >= 0.0 and u.max() < 1.0
    assert abs(u.mean() - 0.5) < 5 * sigma * np.sqrt(1 / 12)
    assert abs(u.var() - 1 / 12) < 5 * sigma * np.sqrt(1 / 180)
    assert abs(z.mean()) < 5 * sigma
    assert abs(z.var() - 1.0) < 5 * sigma * np.sqrt(2)
    assert abs((z**4).mean() - 3.0) < 5 * sigma * np.sqrt(96)
    assert set(np.unique(b)) == {0.0, 1.0}
    assert abs(b.mean() - 0.3) < 5 * sigma * np.sqrt(0.21)


def test_dropout_keeps_the_mean_and_draws_anew(device: str) -> None:
    x = ag.tensor(np.ones(N))
    first, second = ag.dropout(x, 0.25).numpy(), ag.dropout(x, 0.25).numpy()
    assert abs(first.mean() - 1.0) < 5 / np.sqrt(N)
    assert 0.3 < (first != second).mean() < 0.45  # 2 * 0.25 * 0.75


def test_the_mask_of_dropout_is_that_of_its_gradient(device: str) -> None:
    x = ag.param(np.full(1000, 3.0))
    with ag.grad_tape():
        y = ag.dropout(x, 0.4)
    np.testing.assert_allclose(ag.backward(y, np.ones(1000))[x].numpy(), y.numpy() / 3.0, 1e-6)


def test_the_state_can_be_put_back() -> None:
    ag.manual_seed(4)
    ag.randn(3)
    state = ag.get_rng_state()
    first = [ag.rand(3).tolist(), ag.randn(5).tolist(), ag.bernoulli(0.5, (20,)).tolist()]
    ag.set_rng_state(state)
    assert [ag.rand(3).tolist(), ag.randn(5).tolist(), ag.bernoulli(0.5, (20,)).tolist()] == first


@pytest.mark.parametrize("wrong", [None, {}, {"bit_generator": "PCG64"}, 3, [1, 2]])
def test_another_state_is_refused(wrong: object) -> None:
    before = ag.get_rng_state()
    with pytest.raises(ValueError, match="get_rng_state"):
        ag.set_rng_state(wrong)  # type: ignore[arg-type]
    assert repr(ag.get_rng_state()) == repr(before)


@pytest.mark.parametrize("seed, error", [(-1, ValueError), (1.0, TypeError), (True, TypeError), ("one", TypeError)])
def test_a_wrong_seed_is_refused(seed: object, error: type[Exception]) -> None:
    with pytest.raises(error, match="manual_seed: seed"):
        ag.manual_seed(seed)  # type: ignore[arg-type]


def test_types_and_gradients() -> None:
    x = ag.rand(2, 3, dtype="float16", requires_grad=True)
    assert (x.dtype, x.requires_grad, x.is_leaf) == (np.float16, True, True)
    assert ag.randn(2, dtype="bfloat16").dtype == ag.bfloat16
