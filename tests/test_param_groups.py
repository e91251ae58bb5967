"""Groups of parameters: hyperparameters of their own, changed between steps, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from bowls import CASES, gradient, start, train

import ggmlpy_ag as ag
from ggmlpy_ag.optim import SGD, AdamW, Lion, Optimizer, decay_groups

ONE_EACH = list({kind: (kind, options) for kind, options in CASES}.values())


def in_groups(params: list[Any]) -> list[dict[str, Any]]:
    return [{"params": params[:2], "lr": 0.03}, {"params": iter(params[2:]), "weight_decay": 0.2}]


@pytest.mark.parametrize("kind, options", [c for c in ONE_EACH if c[0] is not Lion])
def test_groups_are_as_in_pytorch(device: str, kind: type[Optimizer], options: dict[str, Any]) -> None:
    """Also when a group's hyperparameters change on the way."""
    torch = pytest.importorskip("torch")
    params = [ag.param(a) for a in start()]
    theirs = [torch.nn.Parameter(torch.tensor(a)) for a in start()]
    optimizer = kind(in_groups(params), **options)
    peer = getattr(torch.optim, kind.__name__)(in_groups(theirs), **options)
    for t in range(20):
        for group, other in zip(optimizer.param_groups, peer.param_groups, strict=True):
            if t == 8:
                group["lr"] = other["lr"] = group["lr"] / 2
                group["weight_decay"] = other["weight_decay"] = 0.3
        for i, (p, q) in enumerate(zip(params, theirs, strict=True)):
            p.grad = ag.tensor(gradient(p.numpy(), i))
            q.grad = torch.tensor(gradient(q.detach().numpy(), i))
        optimizer.step()
        peer.step()
    for p, q in zip(params, theirs, strict=True):
        np.testing.assert_allclose(p.numpy(), q.detach().numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind, options", ONE_EACH)
def test_each_group_is_trained_as_alone(device: str, kind: type[Optimizer], options: dict[str, Any]) -> None:
    together, alone = ([ag.param(a) for a in start()] for _ in range(2))
    train(kind(in_groups(together), **options), together, 5)
    kinds = [kind(alone[:2], **{**options, "lr": 0.03}), kind(alone[2:], **{**options, "weight_decay": 0.2})]
    for _ in range(5):
        for i, p in enumerate(alone):
            p.grad = ag.tensor(np.asarray(gradient(p.numpy().astype(np.float64), i), np.float32))
        for optimizer in kinds:
            optimizer.step()
    for p, q in zip(together, alone, strict=True):
        np.testing.assert_array_equal(p.numpy(), q.numpy())


def test_groups_have_the_defaults_and_their_own() -> None:
    with ag.device("cpu"):
        p, q, r = (ag.param([float(i)]) for i in range(3))
        optimizer = AdamW([{"params": p, "lr": 0.1}, {"params": {"q": q}, "betas": (0.5, 0.6)}], weight_decay=0.3)
    assert [(g["lr"], g["betas"], g["eps"], g["weight_decay"]) for g in optimizer.param_groups] == [
        (0.1, (0.9, 0.999), 1e-8, 0.3),
        (1e-3, (0.5, 0.6), 1e-8, 0.3),
    ]
    optimizer.add_param_group({"params": [r, r], "eps": 0.1})
    assert optimizer.params == [p, q, r] and optimizer.param_groups[2]["eps"] == 0.1
    assert optimizer.param_groups[2]["params"] == [r]


def test_one_learning_rate_for_all() -> None:
    with ag.device("cpu"):
        p, q = ag.param([0.0]), ag.param([0.0])
    optimizer = SGD([{"params": [p], "lr": 0.1}, {"params": [q]}], lr=0.2)
    with pytest.raises(ValueError, match=r"\[0.1, 0.2\]"):
        _ = optimizer.lr
    optimizer.lr = 0.5
    assert optimizer.lr == 0.5 and [g["lr"] for g in optimizer.param_groups] == [0.5, 0.5]
    with pytest.raises(ValueError, match="lr must be"):
        optimizer.lr = -1.0
    assert optimizer.lr == 0.5


def test_a_group_may_join_later(device: str) -> None:
    """Such as a part of the model that was frozen: it begins with its own first step."""
    p, q = ag.param([1.0]), ag.param([1.0])
    optimizer = AdamW([p], lr=0.1, weight_decay=0.0)
    for _ in range(3):
        p.grad = ag.tensor([1.0])
        optimizer.step()
    optimizer.add_param_group({"params": [q], "lr": 0.5})
    p.grad, q.grad = None, ag.tensor([1.0])
    optimizer.step()
    assert q.item() == pytest.approx(0.5) and optimizer.steps == [3, 1]


@pytest.mark.parametrize(
    "spoil, error, word",
    [
        (lambda g: g.update(lr=-0.1), ValueError, r"param_groups\[1\]: lr"),
        (lambda g: g.update(lr="0.1"), TypeError, r"param_groups\[1\]: lr"),
        (lambda g: g.update(betas=(1.0, 0.9)), ValueError, r"param_groups\[1\]: betas\[0\]"),
        (lambda g: g.update(weight_decay=float("nan")), ValueError, "weight_decay"),
        (lambda g: g.update(eps=None), TypeError, "eps"),
        (lambda g: g.update(lrr=0.1), ValueError, "lrr unknown or missing"),
        (lambda g: g.pop("eps"), ValueError, "eps unknown or missing"),
        (lambda g: g["params"].append(ag.param([[1.0], [2.0]], device="cpu")[:1]), TypeError, "leaf"),
    ],
)
def test_nonsense_in_a_group_is_named_by_the_step(
    spoil: Callable[[dict[str, Any]], object], error: type[Exception], word: str
) -> None:
    with ag.device("cpu"):
        p, q = ag.param([1.0]), ag.param([1.0])
        optimizer = AdamW([{"params": [p]}, {"params": [q]}])
        spoil(optimizer.param_groups[1])
        for param in optimizer.params:
            param.grad = ag.tensor(np.ones(param.shape))
        with pytest.raises(error, match=word):
            optimizer.step()
        assert p.item() == q.item() == 1.0 and optimizer.state_dict()["steps"] == [0] * len(optimizer.params)


@pytest.mark.parametrize(
    "groups, error, word",
    [
        (lambda p, q: [{"params": [p]}, {"params": [q, p]}], ValueError, r"parameter 1 of param_groups\[1\].*\[0\]"),
        (lambda p, q: [{"params": [p]}, q], TypeError, "entry 1"),
        (lambda p, q: [p, {"params": [q]}], TypeError, "entry 0"),
        (lambda p, q: [{"params": []}], ValueError, "at least one"),
        (lambda p, q: [{"parameters": [p]}], TypeError, '"params"'),
        (lambda p, q: [{"params": [p], "rate": 0.1}], ValueError, "rate unknown"),
        (lambda p, q: [{"params": [p]}, {"params": [q], "lr": -1}], ValueError, r"param_groups\[1\]: lr"),
        (lambda p, q: [{"params": {p, q}}], TypeError, "set"),
        (lambda p, q: [{"params": "pq"}], TypeError, "parameter 0 must be a tensor"),
    ],
)
def test_groups_that_are_refused(groups: Callable[..., Any], error: type[Exception], word: str) -> None:
    with ag.device("cpu"):
        p, q = ag.param([1.0]), ag.param([[1.0, 2.0]])
        with pytest.raises(error, match=word):
            SGD(groups(p, q), lr=0.1)
        optimizer = SGD([p], lr=0.1)
        with pytest.raises((TypeError, ValueError)):
            optimizer.add_param_group({"params": [q, p]})
        assert optimizer.params == [p]


class Net(ag.nn.Module):
    def __init__(self) -> None:
        self.embedding = ag.param(np.ones((4, 3)))
        self.w, self.b = ag.param(np.ones((2, 3))), ag.param(np.ones(2))
        self.scale = ag.param(1.0)
        self.frozen = ag.param(np.ones((2, 2)))
        self.frozen.requires_grad = False


def test_what_has_fewer_than_two_dimensions_does_not_decay(device: str) -> None:
    net = Net()
    groups = decay_groups(net, 0.1)
    assert groups == [
        {"params": [net.embedding, net.w], "weight_decay": 0.1},
        {"params": [net.b, net.scale], "weight_decay": 0.0},
    ]
    optimizer = AdamW(groups, lr=0.5)
    for p in optimizer.params:
        p.grad = ag.tensor(np.zeros(p.shape))
    optimizer.step()
    assert net.b.tolist() == [1.0, 1.0] and net.scale.item() == 1.0
    np.testing.assert_allclose(net.w.numpy(), 0.95, rtol=1e-6)


def test_exclusions_by_name() -> None:
    with ag.device("cpu"):
        net = Net()
    named = dict(net.named_parameters())
    decaying, rest = decay_groups(named, 0.1, exclude=lambda name, p: p.ndim < 2 or "embedding" in name)
    assert decaying["params"] == [net.w] and rest["params"] == [net.embedding, net.b, net.scale]
    assert decay_groups(named, 0.1, exclude=lambda name, p: False) == [
        {"params": [net.embedding, net.w, net.b, net.scale], "weight_decay": 0.1}
    ]
    with pytest.raises(ValueError, match="weight_decay"):
        decay_groups(net, -0.1)
    with pytest.raises(TypeError, match="module or a mapping"):
        decay_groups(net.parameters(), 0.1)


def test_a_module_and_its_iterator_give_the_parameters(device: str) -> None:
    net = Net()
    trained = [net.embedding, net.w, net.b, net.scale]
    with pytest.raises(TypeError, match="frozen.*requires_grad"):
        SGD(net.parameters())
    net.requires_grad_(True)
    for given in (net.parameters(), net, dict(net.named_parameters())):
        assert SGD(given).params == [*trained, net.frozen]
