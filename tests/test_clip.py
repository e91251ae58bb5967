"""Clipping of gradients against NumPy and PyTorch, on one device and on several, and the search for NaN."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import numpy as np
import pytest
from bowls import start

import ggmlpy_ag as ag
from ggmlpy_ag.optim import check_grad_anomaly, clip_grad_norm, clip_grad_value

NORMS = {1: lambda v: np.abs(v).sum(), 2.0: lambda v: np.sqrt((v**2).sum()), math.inf: lambda v: np.abs(v).max()}


def with_gradients(device: str | None = None) -> tuple[list[ag.Tensor], list[np.ndarray]]:
    params = [ag.param(a, device=device) for a in start()]
    grads = [np.asarray(np.random.default_rng(5).standard_normal(a.shape)) for a in start()]
    for p, g in zip(params, grads, strict=True):
        p.grad = ag.tensor(g, device=device)
    return params, grads


def gradients(params: list[ag.Tensor]) -> list[np.ndarray]:
    found = [p.grad for p in params]
    assert all(g is not None for g in found)
    return [g.numpy() for g in found if g is not None]


@pytest.mark.parametrize("norm_type", NORMS)
@pytest.mark.parametrize("max_norm", [0.5, 100.0])
def test_clip_grad_norm(device: str, max_norm: float, norm_type: float) -> None:
    params, grads = with_gradients()
    norm = clip_grad_norm(params + params[:1], max_norm, norm_type)
    expected = NORMS[norm_type](np.concatenate([g.reshape(-1) for g in grads]))
    assert norm.shape == ()
    np.testing.assert_allclose(norm.item(), expected, rtol=1e-6)
    factor = min(1.0, max_norm / (expected + 1e-6))
    for now, g in zip(gradients(params), grads, strict=True):
        np.testing.assert_allclose(now, g * factor, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("norm_type", NORMS)
def test_clipping_follows_pytorch(device: str, norm_type: float) -> None:
    torch = pytest.importorskip("torch")
    for max_norm in (0.0, 0.3, 50.0, math.inf):
        params, _ = with_gradients()
        theirs = [torch.nn.Parameter(torch.tensor(a)) for a in start()]
        for q, g in zip(theirs, gradients(params), strict=True):
            q.grad = torch.tensor(g)
        norm = clip_grad_norm(params, max_norm, norm_type)
        expected = torch.nn.utils.clip_grad_norm_(theirs, max_norm, norm_type)
        np.testing.assert_allclose(norm.item(), expected.item(), rtol=1e-6)
        for now, q in zip(gradients(params), theirs, strict=True):
            np.testing.assert_allclose(now, q.grad.numpy(), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("norm_type", NORMS)
def test_parameters_on_two_devices_have_one_norm(device: str, norm_type: float) -> None:
    params, grads = with_gradients()
    more, _ = with_gradients("cpu")
    norm = clip_grad_norm(params + more, 0.5, norm_type)
    expected = NORMS[norm_type](np.concatenate([g.reshape(-1) for g in grads * 2]))
    assert norm.device == device
    np.testing.assert_allclose(norm.item(), expected, rtol=1e-6)
    for some, where in ((params, device), (more, "cpu")):
        assert all(p.grad is not None and p.grad.device == where for p in some)
        for now, g in zip(gradients(some), grads, strict=True):
            np.testing.assert_allclose(now, g * 0.5 / expected, rtol=1e-5, atol=1e-7)


def test_clipping_moves_nothing(device: str) -> None:
    params, _ = with_gradients()
    before = ag.counters()
    clip_grad_norm(params, 0.5)
    clip_grad_value(params, 0.1)
    moved = ag.counters() - before
    assert (moved.uploads, moved.downloads) == (0, 0)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_norm_that_is_not_finite(device: str, bad: float) -> None:
    """PyTorch scales by it all the same, unless it shall raise."""
    for norm_type in NORMS:
        p, q = ag.param([1.0, 2.0]), ag.param([3.0])
        p.grad, q.grad = ag.tensor([bad, 1.0]), ag.tensor([2.0])
        with pytest.raises(RuntimeError, match="norm of the gradients is (nan|inf)"):
            clip_grad_norm([p, q], 1.0, norm_type, error_if_nonfinite=True)
        np.testing.assert_array_equal(gradients([p, q])[0], [bad, 1.0])
        np.testing.assert_array_equal(clip_grad_norm([p, q], 1.0, norm_type).item(), bad)
        assert gradients([q])[0] == 0.0 if bad == math.inf else np.isnan(gradients([q])[0])


def test_a_finite_norm_is_clipped_with_the_check_too(device: str) -> None:
    p = ag.param([0.0, 0.0])
    p.grad = ag.tensor([3.0, 4.0])
    assert clip_grad_norm({"p": p}, 1.0, error_if_nonfinite=True).item() == pytest.approx(5.0)
    np.testing.assert_allclose(gradients([p])[0], [0.6, 0.8], rtol=1e-6)


def test_clipping_float16_gradients_does_not_overflow(device: str) -> None:
    p = ag.param([300.0, 400.0], dtype="float16")
    with ag.grad_tape():
        loss = ag.mean(p * ag.tensor([600.0, 800.0], dtype="float16"))
    ag.backward(loss)
    norm = clip_grad_norm([p], 50.0)
    assert norm.item() == pytest.approx(500.0)
    assert p.grad is not None and p.grad.dtype == np.float16
    np.testing.assert_allclose(p.grad.numpy(), [30.0, 40.0], 1e-3)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_clip_grad_value(device: str, dtype: str) -> None:
    p, q = ag.param([1.0, 2.0, 3.0, 4.0], dtype=dtype), ag.param([1.0])
    p.grad = ag.tensor([0.25, -5.0, np.inf, np.nan], dtype=dtype)
    clip_grad_value(iter([p, q]), 2)
    assert p.grad.dtype == p.dtype and q.grad is None
    np.testing.assert_array_equal(p.grad.numpy(), [0.25, -2.0, 2.0, np.nan])


class Net(ag.nn.Module):
    def __init__(self) -> None:
        self.w, self.b = ag.param(np.ones((2, 3))), ag.param(np.ones(2))
        self.inner = ag.nn.Module()
        self.inner.w = ag.param(np.ones(4))


def test_anomalies_are_named(device: str) -> None:
    net = Net()
    net.w.grad, net.b.grad = ag.tensor(np.ones((2, 3))), ag.tensor([np.nan, 1.0])
    net.inner.w.grad = ag.tensor([np.inf, -np.inf, np.nan, 3e38], dtype="float32")
    before = ag.counters()
    with pytest.warns(RuntimeWarning, match=r"b \(1 NaN, 0 infinite\), inner.w \(1 NaN, 2 infinite\)") as caught:
        assert check_grad_anomaly(net) == ["b", "inner.w"]
    assert caught[0].filename == __file__
    moved = ag.counters() - before
    assert (moved.uploads, moved.downloads) == (0, 1)
    with pytest.raises(RuntimeError, match="b .*inner.w"):
        check_grad_anomaly(dict(net.named_parameters()), action="raise")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert check_grad_anomaly(net.parameters(), action="ignore") == ["1", "2"]
        net.b.grad, net.inner.w.grad = ag.tensor([-0.0, -3e38]), None
        assert check_grad_anomaly(net) == []
        net.zero_grad()
        assert check_grad_anomaly(net, "raise") == []


def test_anomalies_of_16_bit_gradients_and_several_devices(device: str) -> None:
    params = {
        name: ag.param([1.0, 1.0], dtype=dtype, device=where)
        for name, dtype, where in (("a", "float16", device), ("b", "float32", "cpu"), ("c", "bfloat16", device))
    }
    for p, values in zip(params.values(), ([1e6, 1.0], [1e6, 1.0], [np.nan, 1.0]), strict=True):
        p.grad = ag.tensor(values, dtype=p.dtype, device=p.device)
    assert check_grad_anomaly(params, "ignore") == ["a", "c"]  # 1e6 is infinite in float16


@pytest.mark.parametrize(
    "call, error, word",
    [
        (lambda p: clip_grad_norm([p], 1.0), ValueError, "no parameter has a gradient"),
        (lambda p: clip_grad_norm([p], -1.0), ValueError, "max_norm"),
        (lambda p: clip_grad_norm([p], "1"), TypeError, "max_norm"),
        (lambda p: clip_grad_norm([p], 1.0, 3), ValueError, "norm_type"),
        (lambda p: clip_grad_norm([p], 1.0, error_if_nonfinite=1), TypeError, "error_if_nonfinite"),
        (lambda p: clip_grad_norm(p, 1.0), TypeError, "not one tensor"),
        (lambda p: clip_grad_norm([1.0], 1.0), TypeError, "parameter 0 .*float"),
        (lambda p: clip_grad_value([p], 1.0), ValueError, "no parameter has a gradient"),
        (lambda p: clip_grad_value([p], -1.0), ValueError, "max_value"),
        (lambda p: clip_grad_value(5, 1.0), TypeError, "int"),
        (lambda p: check_grad_anomaly([p], "print"), ValueError, "action"),
        (lambda p: check_grad_anomaly({"p": 1.0}), TypeError, "parameter p "),
    ],
)
def test_bad_arguments(call: Callable[[ag.Tensor], object], error: type[Exception], word: str) -> None:
    with ag.device("cpu"), pytest.raises(error, match=word):
        call(ag.param([1.0, 2.0]))
