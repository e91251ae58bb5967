"""Gradients of gradients in use: a Hessian-vector product, a gradient penalty, third derivatives."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import ggmlpy_ag as ag

rng = np.random.default_rng(3)
X = rng.standard_normal((8, 5)).astype(np.float32)
LABELS = rng.integers(0, 4, 8)
WEIGHTS = [(rng.standard_normal(s) * 0.5).astype(np.float32) for s in ((6, 5), (6,), (4, 6), (4,))]
DIRECTION = [rng.standard_normal(w.shape).astype(np.float32) for w in WEIGHTS]


def loss_of(x: ag.Tensor, weights: list[ag.Tensor], activation: Callable[[ag.Tensor], ag.Tensor]) -> ag.Tensor:
    w1, b1, w2, b2 = weights
    return ag.cross_entropy_loss(ag.linear(activation(ag.linear(x, w1, b1)), w2, b2), LABELS)


ACTIVATIONS = {"tanh": ag.tanh, "gelu": ag.gelu, "silu": ag.silu, "sigmoid": ag.sigmoid}


def pytorchs(name: str, torch) -> Callable:
    return {"gelu": torch.nn.functional.gelu, "silu": torch.nn.functional.silu}.get(name) or getattr(torch, name)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_hessian_vector_product_of_a_network(name: str, device: str) -> None:
    torch = pytest.importorskip("torch")
    weights = [ag.param(w) for w in WEIGHTS]
    with ag.grad_tape():
        loss = loss_of(ag.tensor(X), weights, ACTIVATIONS[name])
        first = ag.backward(loss, create_graph=True)
        along = ag.sum(first[weights[0]] * DIRECTION[0])
        for w, d in zip(weights[1:], DIRECTION[1:], strict=True):
            along = along + ag.sum(first[w] * d)
    product = ag.backward(along)

    theirs = [torch.tensor(w, dtype=torch.float64, requires_grad=True) for w in WEIGHTS]
    linear = torch.nn.functional.linear
    x = torch.tensor(X, dtype=torch.float64)
    hidden = pytorchs(name, torch)(linear(x, theirs[0], theirs[1]))
    out = torch.nn.functional.cross_entropy(linear(hidden, theirs[2], theirs[3]), torch.tensor(LABELS))
    grads = torch.autograd.grad(out, theirs, create_graph=True)
    expected = torch.autograd.grad(grads, theirs, [torch.tensor(d, dtype=torch.float64) for d in DIRECTION])
    for w, e in zip(weights, expected, strict=True):
        np.testing.assert_allclose(product[w].numpy(), e.numpy(), 2e-4, 2e-6)


def test_a_hessian_vector_product_is_the_slope_of_the_gradient(device: str) -> None:
    """Without PyTorch: central differences of the gradient along the direction."""

    def gradient(step: float) -> list[np.ndarray]:
        weights = [ag.param(w + step * d) for w, d in zip(WEIGHTS, DIRECTION, strict=True)]
        with ag.grad_tape():
            loss = loss_of(ag.tensor(X), weights, ag.tanh)
        grads = ag.backward(loss)
        return [grads[w].numpy().astype(np.float64) for w in weights]

    weights = [ag.param(w) for w in WEIGHTS]
    with ag.grad_tape():
        first = ag.backward(loss_of(ag.tensor(X), weights, ag.tanh), create_graph=True)
        parts = [ag.sum(first[w] * d) for w, d in zip(weights, DIRECTION, strict=True)]
        along = parts[0] + parts[1] + parts[2] + parts[3]
    product = ag.backward(along)
    h = 3e-3
    for w, high, low in zip(weights, gradient(h), gradient(-h), strict=True):
        np.testing.assert_allclose(product[w].numpy(), (high - low) / (2 * h), atol=5e-3)


def test_gradient_penalty_trains(device: str) -> None:
    """The penalty of Gulrajani et al. 2017: (norm of the gradient with respect to the input - 1) ** 2."""
    torch = pytest.importorskip("torch")
    x, w1, w2 = ag.param(X), ag.param(WEIGHTS[0]), ag.param(WEIGHTS[2][:1])
    with ag.grad_tape():
        score = ag.sum(ag.linear(ag.tanh(ag.linear(x, w1)), w2))
        slope = ag.backward(score, create_graph=True)[x]
        penalty = ag.mean((ag.sqrt(ag.sum(slope * slope, 1)) - 1.0) ** 2)
    found = ag.backward(penalty)

    tx, t1, t2 = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (X, WEIGHTS[0], WEIGHTS[2][:1]))
    out = torch.nn.functional.linear(torch.tanh(torch.nn.functional.linear(tx, t1)), t2).sum()
    (g,) = torch.autograd.grad(out, tx, create_graph=True)
    expected = ((g.norm(dim=1) - 1) ** 2).mean()
    assert penalty.item() == pytest.approx(expected.item(), rel=1e-5)
    for mine, theirs in zip((w1, w2, x), torch.autograd.grad(expected, (t1, t2, tx)), strict=True):
        np.testing.assert_allclose(found[mine].numpy(), theirs.numpy(), 1e-4, 1e-6)


def test_third_derivatives(device: str) -> None:
    x = ag.param([0.3, -0.8, 1.2])
    with ag.grad_tape():
        first = ag.backward(ag.sum(ag.exp(x * x)), create_graph=True)[x]
        second = ag.backward(ag.sum(first), create_graph=True)[x]
    third = ag.backward(second, np.ones(3))[x]
    v = np.array([0.3, -0.8, 1.2])
    np.testing.assert_allclose(third.numpy(), (8 * v**3 + 12 * v) * np.exp(v * v), 1e-4)
