"""Optimizers against their formulas in NumPy float64 and against PyTorch, and what they do with state."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ggmlpy_ag as ag
from ggmlpy_ag.optim import SGD, Adam, AdamW, Optimizer, clip_grad_norm

SHAPES = ((3, 5), (7,), (), (2, 3, 4))
STEPS = 20
CASES: list[tuple[type[Optimizer], dict[str, Any]]] = [
    (SGD, {"lr": 0.1}),
    (SGD, {"lr": 0.1, "weight_decay": 0.05}),
    (SGD, {"lr": 0.05, "momentum": 0.9}),
    (SGD, {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.05, "nesterov": True}),
    (Adam, {"lr": 0.02}),
    (Adam, {"lr": 0.02, "betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": 0.1}),
    (AdamW, {"lr": 0.02}),
    (AdamW, {"lr": 0.02, "betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": 0.1}),
]
every_case = pytest.mark.parametrize("kind, options", CASES, ids=lambda v: getattr(v, "__name__", str(v)))


def start() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [np.asarray(rng.standard_normal(shape), np.float32) for shape in SHAPES]


def gradient(values: np.ndarray, i: int) -> np.ndarray:
    """The gradient of a bowl that lies elsewhere for each parameter: sum((w - i)**2 / 2 + sin(w))."""
    return values - i + np.cos(values)


def train(optimizer: Optimizer, params: list[ag.Tensor], steps: int = STEPS) -> None:
    for _ in range(steps):
        for i, p in enumerate(params):
            p.grad = ag.tensor(np.asarray(gradient(p.numpy().astype(np.float64), i), np.float32))
        optimizer.step()


def formula(kind: type[Optimizer], options: dict[str, Any]) -> list[np.ndarray]:
    """The same training in NumPy float64."""
    lr, decay = options["lr"], options.get("weight_decay", 0.01 if kind is AdamW else 0.0)
    b1, b2 = options.get("betas", (0.9, 0.999))
    eps, momentum = options.get("eps", 1e-8), options.get("momentum", 0.0)
    results = []
    for i, w in enumerate(a.astype(np.float64) for a in start()):
        m = v = np.zeros_like(w)
        for t in range(1, STEPS + 1):
            g = gradient(w, i)
            if kind is not AdamW:
                g = g + decay * w
            if kind is SGD:
                m = momentum * m + g
                w = w - lr * (g + momentum * m if options.get("nesterov") else m)
                continue
            m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
            if kind is AdamW:
                w = w * (1 - lr * decay)
            w = w - lr * (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + eps)
        results.append(w)
    return results


@every_case
def test_follows_its_formula(device: str, kind: type[Optimizer], options: dict[str, Any]) -> None:
    params = [ag.param(a) for a in start()]
    train(kind(params, **options), params)
    for p, expected in zip(params, formula(kind, options), strict=True):
        np.testing.assert_allclose(p.numpy(), expected, rtol=5e-6, atol=5e-6)


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
@every_case
def test_follows_pytorch(device: str, kind: type[Optimizer], options: dict[str, Any]) -> None:
    import torch

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
    assert list(optimizer.state) == [0]


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


@every_case
def test_a_saved_state_goes_on_exactly_the_same(device: str, kind: type[Optimizer], options: dict[str, Any]) -> None:
    params = [ag.param(a) for a in start()]
    optimizer = kind(params, **options)
    train(optimizer, params, 3)
    saved = optimizer.state_dict()
    copies = [ag.param(p.numpy()) for p in params]
    other = kind(copies, **{**options, "lr": 9.0})
    other.load_state_dict(saved)
    train(optimizer, params, 3)
    train(other, copies, 3)
    for p, q in zip(params, copies, strict=True):
        np.testing.assert_array_equal(p.numpy(), q.numpy())


def test_bad_states_change_nothing(device: str) -> None:
    params = [ag.param(a) for a in start()]
    optimizer = AdamW(params, lr=0.1)
    train(optimizer, params, 1)
    good = optimizer.state_dict()
    bad: list[Callable[[dict[str, Any]], None]] = [
        lambda s: s.update(kind="SGD"),
        lambda s: s["hyper"].pop("eps"),
        lambda s: s["state"][0].update(first_moment=np.zeros((1, 1))),
        lambda s: s["state"].update({9: {}}),
        lambda s: s["state"][0].update(momentum=np.zeros((3, 5))),
    ]
    for spoil in bad:
        state = {**good, "hyper": dict(good["hyper"]), "state": {i: dict(v) for i, v in good["state"].items()}}
        spoil(state)
        with pytest.raises(ValueError):
            optimizer.load_state_dict(state)
        now = optimizer.state_dict()
        assert now["hyper"] == good["hyper"] and now["steps"] == good["steps"]
        np.testing.assert_array_equal(now["state"][0]["first_moment"], good["state"][0]["first_moment"])


@pytest.mark.parametrize(
    "make, error, word",
    [
        (lambda p: SGD([p], lr=-1.0), ValueError, "lr"),
        (lambda p: SGD([p], momentum=1.0), ValueError, "momentum"),
        (lambda p: SGD([p], nesterov=True), ValueError, "nesterov"),
        (lambda p: SGD([p], weight_decay=-0.1), ValueError, "weight_decay"),
        (lambda p: AdamW([p], betas=(0.9, 1.0)), ValueError, r"betas\[1\]"),
        (lambda p: AdamW([p], eps=-1e-8), ValueError, "eps"),
        (lambda p: Adam([p], lr="fast"), TypeError, "lr"),
        (lambda p: AdamW([]), ValueError, "at least one parameter"),
        (AdamW, TypeError, "list"),
        (lambda p: AdamW([p.detach()]), TypeError, "leaf"),
        (lambda p: AdamW([np.zeros(3)]), TypeError, "ndarray"),
        (lambda p: clip_grad_norm([p], 1.0), ValueError, "no parameter has a gradient"),
        (lambda p: clip_grad_norm([p], -1.0), ValueError, "max_norm"),
    ],
)
def test_bad_arguments(make: Callable[[ag.Tensor], object], error: type[Exception], word: str) -> None:
    with ag.device("cpu"), pytest.raises(error, match=word):
        make(ag.param([1.0, 2.0]))


@pytest.mark.parametrize("max_norm", [0.5, 100.0])
def test_clip_grad_norm(device: str, max_norm: float) -> None:
    params = [ag.param(a) for a in start()]
    grads = [np.asarray(np.random.default_rng(5).standard_normal(a.shape)) for a in start()]
    for p, g in zip(params, grads, strict=True):
        p.grad = ag.tensor(g)
    norm = clip_grad_norm(params + params[:1], max_norm)
    expected = np.sqrt(sum((g**2).sum() for g in grads))
    np.testing.assert_allclose(norm.item(), expected, rtol=1e-6)
    factor = min(1.0, max_norm / (expected + 1e-6))
    for p, g in zip(params, grads, strict=True):
        assert p.grad is not None
        np.testing.assert_allclose(p.grad.numpy(), g * factor, rtol=1e-5, atol=1e-7)


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


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
@every_case
def test_gaps_are_as_in_pytorch(device: str, kind: type[Optimizer], options: dict[str, Any]) -> None:
    import torch

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


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
def test_clipping_follows_pytorch(device: str) -> None:
    import torch

    for max_norm in (0.0, 0.3, 50.0):
        params = [ag.param(a) for a in start()]
        theirs = [torch.nn.Parameter(torch.tensor(a)) for a in start()]
        for p, q, a in zip(params, theirs, start(), strict=True):
            p.grad, q.grad = ag.tensor(a * 2.0), torch.tensor(a * 2.0)
        norm = clip_grad_norm(params, max_norm)
        np.testing.assert_allclose(norm.item(), torch.nn.utils.clip_grad_norm_(theirs, max_norm).item(), rtol=1e-6)
        for p, q in zip(params, theirs, strict=True):
            assert p.grad is not None and q.grad is not None
            np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("kind", [SGD, AdamW])
def test_the_pieces_of_a_large_parameter(device: str, kind: type[Optimizer], monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut into pieces, at bounds that suit no row length, a parameter is stepped as in one piece."""
    from ggmlpy_ag.optim import optimizer as module

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


def test_a_state_survives_a_file(device: str, tmp_path: Any) -> None:
    import pickle

    p = ag.param([1.0, 2.0])
    optimizer = AdamW([p])
    p.grad = ag.tensor([0.5, -0.5])
    optimizer.step()
    (tmp_path / "state").write_bytes(pickle.dumps(optimizer.state_dict()))
    other = AdamW([ag.param([1.0, 2.0])], lr=1.0)
    other.load_state_dict(pickle.loads((tmp_path / "state").read_bytes()))
    assert other.lr == optimizer.lr and other.steps == [1]


@pytest.mark.parametrize(
    "changes, error",
    [
        ({"lr": -1.0}, ValueError),
        ({"lr": "fast"}, TypeError),
        ({"hyper": {"betas": (0.9, 1.5), "eps": 1e-8, "weight_decay": 0.0}}, ValueError),
        ({"steps": [1, 2]}, ValueError),
        ({"steps": [-1]}, ValueError),
        ({"state": {0: {"first_moment": np.zeros(2)}}}, ValueError),
        ({"state": {1: {"first_moment": np.zeros(2), "second_moment": np.zeros(2)}}}, ValueError),
    ],
)
def test_a_state_with_wrong_numbers_changes_nothing(changes: dict[str, Any], error: type[Exception]) -> None:
    with ag.device("cpu"):
        p = ag.param([1.0, 2.0])
        optimizer = AdamW([p], lr=0.1)
        p.grad = ag.tensor([0.5, -0.5])
        optimizer.step()
        good = optimizer.state_dict()
        with pytest.raises(error):
            optimizer.load_state_dict({**good, **changes})
        for name in good:
            with pytest.raises(ValueError, match=f"lacks {name}"):
                optimizer.load_state_dict({k: v for k, v in good.items() if k != name})
        now = optimizer.state_dict()
        assert (now["lr"], now["hyper"], now["steps"]) == (good["lr"], good["hyper"], good["steps"])
        np.testing.assert_array_equal(now["state"][0]["second_moment"], good["state"][0]["second_moment"])


# ---------------------------------------------------------------- parameters in 16 bits


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("kind, options", [(ag.optim.AdamW, {}), (ag.optim.SGD, {"momentum": 0.9})])
def test_small_steps_of_16_bit_parameters_add_up(
    device: str, kind: type[Optimizer], options: dict[str, Any], dtype: str
) -> None:
    """Each step is far below the parameter's precision, as in PyTorch only a float32 copy makes it count."""
    start = np.array([1.0, -2.0, 3.0], np.float32)
    half, full = ag.param(start, dtype=dtype), ag.param(start)
    optimizers = [kind([p], lr=1e-4, **options) for p in (half, full)]
    for _ in range(60):
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


def test_the_state_of_a_16_bit_parameter_holds_its_float32_copy(device: str) -> None:
    results = []
    for stop in (None, 3):
        p = ag.param([1.0, 2.0], dtype="bfloat16")
        optimizer = ag.optim.AdamW([p], lr=1e-3)
        for step in range(6):
            if step == stop:
                saved = optimizer.state_dict()
                optimizer = ag.optim.AdamW([p], lr=1e-3)
                optimizer.load_state_dict(saved)
            with ag.grad_tape():
                loss = ag.sum(p * p)
            ag.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        results.append(optimizer.state_dict()["state"][0]["master"].tolist())
    assert results[0] == results[1]
    with pytest.raises(ValueError, match="expected .*first_moment.*second_moment"):
        ag.optim.AdamW([ag.param([1.0, 2.0])]).load_state_dict(optimizer.state_dict())


def test_clipping_float16_gradients_does_not_overflow(device: str) -> None:
    p = ag.param([300.0, 400.0], dtype="float16")
    with ag.grad_tape():
        loss = ag.mean(p * ag.tensor([600.0, 800.0], dtype="float16"))
    ag.backward(loss)
    norm = ag.optim.clip_grad_norm([p], 50.0)
    assert norm.item() == pytest.approx(500.0)
    assert p.grad is not None and p.grad.dtype == np.float16
    np.testing.assert_allclose(p.grad.numpy(), [30.0, 40.0], 1e-3)
