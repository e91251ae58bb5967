"""Optimizers against their formulas in NumPy float64 and against PyTorch, and the steps that they make."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from bowls import CASES, STEPS, gradient, start, train

import ggmlpy_ag as ag
from ggmlpy_ag.optim import SGD, Adagrad, Adam, AdamW, Lion, Optimizer, RMSprop


def name_of(value: Any) -> str:
    return getattr(value, "__name__", "") or ",".join(f"{k}={v}" for k, v in value.items()) or "defaults"


every_case = pytest.mark.parametrize("kind, options", CASES, ids=name_of)
case_of_pytorch = pytest.mark.parametrize("kind, options", [c for c in CASES if c[0] is not Lion], ids=name_of)


def formula(kind: type[Optimizer], options: dict[str, Any]) -> list[np.ndarray]:
    """The same training in NumPy float64."""
    o = {**kind([ag.param(0.0, device="cpu")]).defaults, **options}
    lr, decay = o["lr"], o["weight_decay"]
    b1, b2 = o.get("betas", (0.0, 0.0))
    results = []
    for i, w in enumerate(a.astype(np.float64) for a in start()):
        m, v, u = np.zeros_like(w), np.full_like(w, o.get("initial_accumulator_value", 0.0)), np.zeros_like(w)
        for t in range(1, STEPS + 1):
            g = gradient(w, i)
            if kind in (AdamW, Lion):
                w = w * (1 - lr * decay)
            else:
                g = g + decay * w
            if kind is SGD:
                m = o["momentum"] * m + (1 - o["dampening"] if t > 1 else 1) * g
                w = w - lr * (g + o["momentum"] * m if o["nesterov"] else m)
            elif kind is RMSprop:
                m, v = o["alpha"] * m + (1 - o["alpha"]) * g, o["alpha"] * v + (1 - o["alpha"]) * g * g
                root = np.sqrt(v - m * m if o["centered"] else v)
                u = o["momentum"] * u + g / (root + o["eps"])
                w = w - lr * u
            elif kind is Adagrad:
                v = v + g * g
                w = w - lr / (1 + (t - 1) * o["lr_decay"]) * g / (np.sqrt(v) + o["eps"])
            elif kind is Lion:
                w = w - lr * np.sign(b1 * m + (1 - b1) * g)
                m = b2 * m + (1 - b2) * g
            else:
                m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
                w = w - lr * (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + o["eps"])
        results.append(w)
    return results


@every_case
def test_follows_its_formula(device: str, kind: type[Optimizer], options: dict[str, Any]) -> None:
    params = [ag.param(a) for a in start()]
    train(kind(params, **options), params)
    for p, expected in zip(params, formula(kind, options), strict=True):
        np.testing.assert_allclose(p.numpy(), expected, rtol=5e-6, atol=5e-6)


@case_of_pytorch
def test_follows_pytorch(device: str, kind: type[Optimizer], options: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    params = [ag.param(a) for a in start()]
    train(kind(params, **options), params)
    theirs = [torch.nn.Parameter(torch.tensor(a)) for a in start()]
    peer = getattr(torch.optim, kind.__name__)(theirs, **options)
    for _ in range(STEPS):
        for i, p in enumerate(theirs):
            p.grad = torch.tensor(np.asarray(gradient(p.detach().numpy().astype(np.float64), i), np.float32))
        peer.step()
    for p, q in zip(params, theirs, strict=True):
        np.testing.assert_allclose(p.numpy(), q.detach().numpy(), rtol=1e-5, atol=1e-5)


def test_many_parameters_are_stepped_in_several_graphs(device: str) -> None:
    params = [ag.param(np.full(i % 5 + 1, 1.0)) for i in range(130)]
    optimizer = SGD(params, lr=0.5)
    for p in params:
        p.grad = ag.tensor(np.ones(p.shape))
    optimizer.step()
    for p in params:
        np.testing.assert_array_equal(p.numpy(), np.full(p.shape, 0.5))


@pytest.mark.parametrize("kind", [SGD, AdamW])
def test_one_step_of_a_parameter_larger_than_a_fused_step(device: str, kind: type[Optimizer]) -> None:
    """Over 2**24 elements: cut into pieces. The first step of Adam is -lr whatever the gradient."""
    n = (1 << 24) + 3
    gradient = np.linspace(1.0, 2.0, n, dtype=np.float32)
    p = ag.param(np.zeros(n, np.float32))
    p.grad = ag.tensor(gradient)
    kind([p], lr=0.5, weight_decay=0.0).step()
    expected = -0.5 * gradient if kind is SGD else np.float32(-0.5)
    assert np.abs(p.numpy() - expected).max() < 1e-5


def test_a_parameter_named_twice_is_stepped_once(device: str) -> None:
    p = ag.param([1.0])
    p.grad = ag.tensor([1.0])
    SGD([p, p], lr=0.25).step()
    assert p.item() == 0.75


def test_parameters_without_gradient_are_left_alone(device: str) -> None:
    p, q = ag.param([1.0]), ag.param([2.0])
    p.grad = ag.tensor([1.0])
    optimizer = AdamW({"p": p, "q": q}, lr=0.1)
    optimizer.step()
    assert q.item() == 2.0 and p.item() < 1.0
    assert list(optimizer.state) == [p] and optimizer.steps == [1, 0]


def test_a_transposed_gradient_is_taken_in_the_right_order(device: str) -> None:
    p = ag.param(np.zeros((2, 3)))
    p.grad = ag.tensor(np.arange(6.0).reshape(3, 2)).T
    SGD([p], lr=1.0).step()
    np.testing.assert_array_equal(p.numpy(), -np.arange(6.0).reshape(3, 2).T)


def test_the_learning_rate_may_change(device: str) -> None:
    p = ag.param([0.0])
    optimizer = SGD([p], lr=1.0)
    for lr, expected in ((1.0, -1.0), (0.5, -1.5), (0.0, -1.5), (2.0, -3.5)):
        optimizer.lr = lr
        p.grad = ag.tensor([1.0])
        optimizer.step()
        assert p.item() == expected


def test_zero_grad_drops_gradients_and_the_tape(device: str) -> None:
    p = ag.param([1.0, 2.0])
    with ag.grad_tape() as tape:
        loss = (p * p).sum()
    ag.backward(loss)
    SGD([p], lr=0.1).zero_grad()
    assert p.grad is None and len(tape) == 0


@pytest.mark.parametrize(
    "make, error, word",
    [
        (lambda p: SGD([p], lr=-1.0), ValueError, "lr"),
        (lambda p: SGD([p], lr=float("nan")), ValueError, "lr"),
        (lambda p: SGD([p], momentum=1.0), ValueError, "momentum"),
        (lambda p: SGD([p], dampening=1.5), ValueError, "dampening"),
        (lambda p: SGD([p], nesterov=True), ValueError, "nesterov"),
        (lambda p: SGD([p], momentum=0.9, dampening=0.1, nesterov=True), ValueError, "nesterov"),
        (lambda p: SGD([p], momentum=0.9, nesterov=1), TypeError, "nesterov"),
        (lambda p: SGD([p], weight_decay=-0.1), ValueError, "weight_decay"),
        (lambda p: AdamW([p], betas=(0.9, 1.0)), ValueError, r"betas\[1\]"),
        (lambda p: AdamW([p], betas=0.9), ValueError, "betas"),
        (lambda p: AdamW([p], eps=-1e-8), ValueError, "eps"),
        (lambda p: Adam([p], lr="fast"), TypeError, "lr"),
        (lambda p: RMSprop([p], alpha=1.0), ValueError, "alpha"),
        (lambda p: RMSprop([p], momentum=-0.1), ValueError, "momentum"),
        (lambda p: RMSprop([p], centered=0), TypeError, "centered"),
        (lambda p: Adagrad([p], lr_decay=-1), ValueError, "lr_decay"),
        (lambda p: Adagrad([p], initial_accumulator_value=-1), ValueError, "initial_accumulator_value"),
        (lambda p: Lion([p], betas=(0.9,)), ValueError, "betas"),
        (lambda p: Lion([p], weight_decay=-1), ValueError, "weight_decay"),
        (lambda p: AdamW([]), ValueError, "at least one parameter"),
        (AdamW, TypeError, "list"),
        (lambda p: AdamW(5), TypeError, "list"),
        (lambda p: AdamW({p}), TypeError, "set"),
        (lambda p: AdamW([p.detach()]), TypeError, "leaf"),
        (lambda p: AdamW([np.zeros(3)]), TypeError, "ndarray"),
        (lambda p: AdamW([ag.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True).T]), TypeError, "parameter 0"),
    ],
)
def test_bad_arguments(make: Callable[[ag.Tensor], object], error: type[Exception], word: str) -> None:
    with ag.device("cpu"), pytest.raises(error, match=word):
        make(ag.param([1.0, 2.0]))


@pytest.mark.parametrize("kind", [SGD, AdamW, Lion])
def test_a_gradient_that_does_not_fit_changes_nothing(device: str, kind: type[Optimizer]) -> None:
    p, q = ag.param([1.0, 2.0]), ag.param([3.0, 4.0, 5.0])
    optimizer = kind([p, q], lr=0.5)
    p.grad = ag.tensor([1.0, 1.0])
    for wrong, error in ((ag.tensor([1.0]), ValueError), ([1.0, 1.0, 1.0], TypeError)):
        q.grad = wrong
        with pytest.raises(error, match=r"parameter of shape \(3,\)"):
            optimizer.step()
        assert p.tolist() == [1.0, 2.0] and optimizer.steps == [0, 0] and optimizer.state_dict()["state"] == {}


@every_case
def test_nan_gradients_are_not_hidden(device: str, kind: type[Optimizer], options: dict[str, Any]) -> None:
    p = ag.param([1.0, 2.0])
    p.grad = ag.tensor([np.nan, 1.0])
    kind([p], **options).step()
    assert np.isnan(p.numpy()).tolist() == [True, False]


def test_a_constant_gradient_has_no_negative_variance(device: str) -> None:
    """v - m^2 rounds to less than 0 then, whose root would be NaN."""
    p = ag.param(np.zeros(50))
    optimizer = RMSprop([p], lr=1e-9, alpha=0.5, centered=True)
    for _ in range(60):
        p.grad = ag.tensor(np.linspace(0.1, 3.0, 50))
        optimizer.step()
    assert np.isfinite(p.numpy()).all()


def test_two_half_batches_make_one_step_as_one_batch(device: str) -> None:
    """Gradients of several backward passes add up in `.grad` until zero_grad(), and a step takes all of them."""
    rng = np.random.default_rng(3)
    x, y = rng.standard_normal((8, 5)), rng.standard_normal((8, 3))
    results = []
    for parts in (1, 2, 4):
        w = ag.param(start()[0])
        optimizer = AdamW([w], lr=0.05)
        for _ in range(3):
            for some in np.split(np.arange(8), parts):
                with ag.grad_tape():
                    loss = ag.mse_loss(ag.tensor(x[some]) @ w.T, y[some]) / parts
                ag.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        results.append(w.numpy())
    assert np.abs(results[0] - start()[0]).min() > 0.01
    for other in results[1:]:
        np.testing.assert_allclose(other, results[0], rtol=1e-5, atol=1e-6)


def test_the_momentum_is_not_the_gradient_itself(device: str) -> None:
    p = ag.param([0.0])
    optimizer = SGD([p], lr=1.0, momentum=0.5)
    p.grad = ag.tensor([1.0])
    optimizer.step()
    p.grad.copy_([100.0])
    p.grad = ag.tensor([0.0])
    optimizer.step()
    assert p.item() == -1.5


def with_gaps(t: int, i: int) -> bool:
    """Whether parameter i has a gradient in step t: the second one comes late, the third one not every time."""
    return i == 0 or (i == 1 and t > 10) or (i > 1 and t % 3 != 0)


@pytest.mark.parametrize("kind", [Adam, AdamW])
def test_each_parameter_counts_its_own_steps(device: str, kind: type[Optimizer]) -> None:
    """Adam corrects its moments by the number of steps: of the parameter, not of the optimizer."""
    params = [ag.param(a) for a in start()]
    optimizer = kind(params, lr=0.05)
    for t in range(STEPS):
        for i, p in enumerate(params):
            p.grad = ag.tensor(gradient(p.numpy(), i)) if with_gaps(t, i) else None
        optimizer.step()
    for i, (p, w) in enumerate(zip(params, start(), strict=True)):
        w = w.astype(np.float64)
        m = v = np.zeros_like(w)
        step = 0
        for t in range(STEPS):
            if with_gaps(t, i):
                step += 1
                g = gradient(w, i)
                m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
                w = w * (1 - 0.05 * 0.01) if kind is AdamW else w
                w = w - 0.05 * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
        np.testing.assert_allclose(p.numpy(), w, rtol=5e-6, atol=5e-6)


@case_of_pytorch
def test_gaps_are_as_in_pytorch(device: str, kind: type[Optimizer], options: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    params = [ag.param(a) for a in start()]
    theirs = [torch.nn.Parameter(torch.tensor(a)) for a in start()]
    optimizer, peer = kind(params, **options), getattr(torch.optim, kind.__name__)(theirs, **options)
    for t in range(STEPS):
        for i, (p, q) in enumerate(zip(params, theirs, strict=True)):
            p.grad = ag.tensor(gradient(p.numpy(), i)) if with_gaps(t, i) else None
            q.grad = torch.tensor(gradient(q.detach().numpy(), i)) if with_gaps(t, i) else None
        optimizer.step()
        peer.step()
    for p, q in zip(params, theirs, strict=True):
        np.testing.assert_allclose(p.numpy(), q.detach().numpy(), rtol=5e-6, atol=5e-6)


@pytest.mark.parametrize("kind", [SGD, AdamW])
def test_the_pieces_of_a_large_parameter(device: str, kind: type[Optimizer], monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut into pieces, at bounds that suit no row length, a parameter is stepped as in one piece."""
    from ggmlpy_ag.optim import fused as module

    values = np.random.default_rng(0).standard_normal(5003).astype(np.float32)
    whole, cut = ag.param(values), ag.param(values)
    for p, elements in ((whole, module.FUSED_ELEMENTS), (cut, 1024)):
        monkeypatch.setattr(module, "FUSED_ELEMENTS", elements)
        module._cuts.cache_clear()
        optimizer = kind([p], lr=0.1, weight_decay=0.1)
        for _ in range(3):
            p.grad = ag.tensor(values[::-1] + 1.0)
            optimizer.step()
    module._cuts.cache_clear()
    np.testing.assert_allclose(cut.numpy(), whole.numpy(), rtol=1e-6)


# ---------------------------------------------------------------- parameters in 16 bits


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    "kind, options",
    [(SGD, {}), (SGD, {"momentum": 0.9}), (AdamW, {}), (RMSprop, {"momentum": 0.5}), (Adagrad, {}), (Lion, {})],
    ids=name_of,
)
def test_small_steps_of_16_bit_parameters_add_up(
    device: str, kind: type[Optimizer], options: dict[str, Any], dtype: str
) -> None:
    """Each step is far below the parameter's precision, as in PyTorch only a float32 copy makes it count."""
    start = np.array([1.0, -2.0, 3.0], np.float32)
    half, full = ag.param(start, dtype=dtype), ag.param(start)
    optimizers = [kind([p], lr=1e-4, **options) for p in (half, full)]
    for _ in range(40):
        for p, optimizer in zip((half, full), optimizers, strict=True):
            with ag.grad_tape():
                loss = ag.sum(p * 2.0)
            ag.backward(loss)
            assert p.grad is not None and p.grad.dtype == p.dtype
            optimizer.step()
            optimizer.zero_grad()
    np.testing.assert_array_equal(half.numpy(), full.astype(dtype).numpy())
    assert (full.numpy() != start).all()


def test_a_16_bit_parameter_that_was_written_to_is_stepped_from_there(device: str) -> None:
    p = ag.param([1.0, 2.0], dtype="float16")
    optimizer = ag.optim.SGD([p], lr=0.5)
    for expected in ([0.5, 1.5], [9.5, 7.5]):
        with ag.grad_tape():
            loss = ag.sum(p)
        ag.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        assert p.tolist() == expected
        p.copy_([10.0, 8.0])
