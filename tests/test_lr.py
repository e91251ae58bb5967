"""Schedules against PyTorch's over their whole course, through saving and loading, and their errors."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ggmlpy_ag as ag
from ggmlpy_ag.optim import SGD, Adagrad, AdamW, Optimizer, RMSprop, lr

BASES = (0.1, 0.03)  # the rates of two groups
CYCLE = {"base_lr": [0.01, 0.02], "max_lr": [0.1, 0.3]}
CASES: list[tuple[str, dict[str, Any], int]] = [  # class, arguments, steps
    ("StepLR", {"step_size": 3}, 12),
    ("StepLR", {"step_size": 1, "gamma": 0.5}, 5),
    ("MultiStepLR", {"milestones": [7, 2, 7, 11], "gamma": 0.3}, 15),
    ("ExponentialLR", {"gamma": 0.9}, 12),
    ("LambdaLR", {"lr_lambda": lambda t: 1.0 / (1 + t)}, 8),
    ("LambdaLR", {"lr_lambda": [lambda t: 0.9**t, lambda t: min(1.0, 0.2 * t)]}, 8),
    ("CosineAnnealingLR", {"T_max": 7}, 21),
    ("CosineAnnealingLR", {"T_max": 10, "eta_min": 0.002}, 10),
    ("CosineAnnealingWarmRestarts", {"T_0": 4}, 13),
    ("CosineAnnealingWarmRestarts", {"T_0": 3, "T_mult": 2, "eta_min": 0.001}, 46),
    ("CosineAnnealingWarmRestarts", {"T_0": 1, "T_mult": 3}, 15),
    ("OneCycleLR", {"max_lr": 0.2, "total_steps": 20}, 19),
    ("OneCycleLR", {"max_lr": [0.2, 0.4], "epochs": 3, "steps_per_epoch": 5, "anneal_strategy": "linear"}, 14),
    ("OneCycleLR", {"max_lr": 0.2, "total_steps": 17, "three_phase": True, "div_factor": 10.0}, 16),
    ("OneCycleLR", {"max_lr": 0.2, "total_steps": 9, "pct_start": 0.0, "final_div_factor": 50.0}, 8),
    ("OneCycleLR", {"max_lr": 0.2, "total_steps": 12, "base_momentum": 0.5, "max_momentum": [0.8, 0.9]}, 11),
    ("CyclicLR", {**CYCLE, "step_size_up": 4}, 20),
    ("CyclicLR", {**CYCLE, "step_size_up": 2, "step_size_down": 5, "mode": "triangular2"}, 20),
    ("CyclicLR", {**CYCLE, "step_size_up": 3, "mode": "exp_range", "gamma": 0.95, "base_momentum": [0.5, 0.6]}, 20),
    ("CyclicLR", {**CYCLE, "step_size_up": 3, "scale_fn": lambda k: 1.0 / k, "cycle_momentum": False}, 20),
    ("CyclicLR", {**CYCLE, "step_size_up": 3, "scale_fn": lambda t: 0.9**t, "scale_mode": "iterations"}, 20),
]
every_case = pytest.mark.parametrize("name, options, steps", CASES, ids=[f"{c[0]}{i}" for i, c in enumerate(CASES)])


def groups(make: Callable[[Any], Any]) -> list[dict[str, Any]]:
    return [{"params": [make([1.0, 2.0])], "lr": base} for base in BASES]


def ours(kind: type[Optimizer] = SGD, **options: Any) -> Optimizer:
    with ag.device("cpu"):
        return kind(groups(ag.param), **options)


def theirs(kind: str = "SGD", **options: Any) -> tuple[Any, Any]:
    torch = pytest.importorskip("torch")
    optimizer = getattr(torch.optim, kind)(groups(lambda a: torch.nn.Parameter(torch.tensor(a))), **options)
    return torch, optimizer


def of_groups(optimizer: Any) -> list[float]:
    """The rate of each group, and what cycles with it."""
    return [v for g in optimizer.param_groups for v in (g["lr"], g.get("momentum", 0.0), *g.get("betas", ())[:1])]


@pytest.mark.parametrize("kind, hyper", [("SGD", {"momentum": 0.7}), ("AdamW", {})])
@every_case
@pytest.mark.filterwarnings("ignore:Detected call")
def test_follows_pytorch(name: str, options: dict[str, Any], steps: int, kind: str, hyper: dict[str, Any]) -> None:
    """Halfway, another schedule and another optimizer take over its state."""
    torch, peer = theirs(kind, **hyper)
    schedule = getattr(torch.optim.lr_scheduler, name)(peer, **options)
    optimizer = ours(getattr(ag.optim, kind), **hyper)
    own = getattr(lr, name)(optimizer, **options)
    for step in range(steps + 1):
        np.testing.assert_allclose(of_groups(optimizer), of_groups(peer), rtol=1e-9, atol=1e-12, err_msg=str(step))
        np.testing.assert_allclose(own.get_last_lr(), schedule.get_last_lr(), rtol=1e-9, atol=1e-12)
        assert own.last_epoch == step and own.last_lr == own.get_last_lr()
        if step == steps // 2:
            optimizer, before = ours(getattr(ag.optim, kind), **hyper), own
            own = getattr(lr, name)(optimizer, **options)
            own.load_state_dict(json.loads(json.dumps(before.state_dict())))
            assert own.state_dict() == before.state_dict()
        if step < steps:
            schedule.step()
            own.step()


PLATEAU = [5.0, 4.0, 3.9999, 4.0, 4.1, 3.0, 3.1, 3.2, 3.3, math.nan, 3.5, 3.6, -1.0, -1.0, -1.001, 0.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "options",
    [
        {"patience": 1},
        {"patience": 2, "factor": 0.5, "threshold": 0.1, "threshold_mode": "abs"},
        {"mode": "max", "patience": 0, "min_lr": [0.01, 0.0]},
        {"mode": "max", "patience": 1, "threshold_mode": "abs", "threshold": 0.0},
        {"patience": 0, "cooldown": 3, "factor": 0.2, "threshold": 0.0},
        {"patience": 0, "eps": 0.02},
    ],
)
def test_a_plateau_is_seen_as_in_pytorch(options: dict[str, Any]) -> None:
    torch, peer = theirs()
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(peer, **options)
    optimizer = ours()
    own = lr.ReduceLROnPlateau(optimizer, **options)
    seen = set()
    for step, figure in enumerate(PLATEAU):
        schedule.step(figure)
        own.step(ag.tensor(figure, device="cpu") if step % 2 else figure)
        assert of_groups(optimizer) == of_groups(peer), step
        seen.add(optimizer.param_groups[0]["lr"])
        if step == 8:
            optimizer, before = ours(), own
            own = lr.ReduceLROnPlateau(optimizer, **options)
            own.load_state_dict(json.loads(json.dumps(before.state_dict())))
    assert len(seen) > 1


def test_a_plateau_that_has_seen_nothing_is_saved_too() -> None:
    own, other = lr.ReduceLROnPlateau(ours(), patience=0), lr.ReduceLROnPlateau(ours(), patience=0)
    own.step(math.nan)
    other.load_state_dict(own.state_dict())
    assert other.best is None and other.last_lr == own.last_lr != list(BASES)
    other.step(math.inf)
    assert other.best is None


@pytest.mark.parametrize(
    "warmup, total, start_factor, eta_min", [(4, 12, 0.25, 0.01), (1, 6, 1.0, 0.0), (5, 6, 0.1, 0.0)]
)
@pytest.mark.filterwarnings("ignore")
def test_warmup_and_cosine_are_pytorchs_in_sequence(
    warmup: int, total: int, start_factor: float, eta_min: float
) -> None:
    torch, peer = theirs()
    torch_lr = torch.optim.lr_scheduler
    schedule = torch_lr.SequentialLR(
        peer,
        [
            torch_lr.LinearLR(peer, start_factor=start_factor, total_iters=warmup),
            torch_lr.CosineAnnealingLR(peer, T_max=total - warmup, eta_min=eta_min),
        ],
        milestones=[warmup],
    )
    optimizer = ours()
    own = lr.WarmupCosine(optimizer, warmup, total, start_factor, eta_min)
    for _ in range(total):
        np.testing.assert_allclose(of_groups(optimizer), of_groups(peer), rtol=1e-9, atol=1e-12)
        schedule.step()
        own.step()
    for _ in range(3):
        own.step()
        assert own.last_lr == [eta_min, eta_min]


def test_warmup_begins_at_nothing_and_may_be_left_out() -> None:
    own = lr.WarmupCosine(ours(), 4, 8)
    rates = []
    for _ in range(9):
        rates.append(own.last_lr[0])
        own.step()
    expected = [0.0, 0.25, 0.5, 0.75, 1.0, 0.5 + 0.5**1.5, 0.5, 0.5 - 0.5**1.5, 0.0]
    np.testing.assert_allclose(rates, 0.1 * np.array(expected), rtol=1e-9, atol=1e-12)
    assert lr.WarmupCosine(ours(), 0, 8).last_lr == list(BASES)


def test_a_schedule_takes_effect_in_the_steps(device: str) -> None:
    p = ag.param([0.0])
    optimizer = SGD([p], lr=1.0)
    schedule = lr.ExponentialLR(optimizer, 0.5)
    for expected in (-1.0, -1.5, -1.75):
        p.grad = ag.tensor([1.0])
        optimizer.step()
        schedule.step()
        assert p.item() == expected


def test_momentum_that_cycles_takes_effect_in_the_steps(device: str) -> None:
    torch = pytest.importorskip("torch")
    p, q = ag.param([1.0, -2.0]), torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    optimizer, peer = AdamW([p]), torch.optim.AdamW([q])
    own = lr.OneCycleLR(optimizer, 0.1, total_steps=15)
    schedule = torch.optim.lr_scheduler.OneCycleLR(peer, 0.1, total_steps=15)
    for t in range(15):
        p.grad, q.grad = ag.tensor([0.5 + t, -1.0]), torch.tensor([0.5 + t, -1.0])
        for thing in (optimizer, peer, own, schedule):
            thing.step()
    np.testing.assert_allclose(p.numpy(), q.detach().numpy(), rtol=1e-5, atol=1e-5)


def test_loading_sets_the_rates_whether_before_or_after_the_optimizers_state() -> None:
    first = ours()
    schedule = lr.CosineAnnealingLR(first, 10)
    for _ in range(4):
        schedule.step()
    saved = first.state_dict(), schedule.state_dict()
    for schedule_first in (True, False):
        optimizer = ours()
        if schedule_first:
            other = lr.CosineAnnealingLR(optimizer, 10)
            other.load_state_dict(saved[1])
            optimizer.load_state_dict(saved[0])
        else:
            optimizer.load_state_dict(saved[0])
            other = lr.CosineAnnealingLR(optimizer, 10)
            other.load_state_dict(saved[1])
        assert of_groups(optimizer) == of_groups(first)
        other.step()
        assert other.base_lrs == list(BASES)


@pytest.mark.parametrize(
    "make, error, word",
    [
        (lambda o: lr.StepLR(o.param_groups, 3), TypeError, "optimizer"),
        (lambda o: lr.ReduceLROnPlateau(None), TypeError, "optimizer"),
        (lambda o: lr.OneCycleLR(None, 0.1, 10), TypeError, "optimizer"),
        (lambda o: lr.StepLR(o, 0), ValueError, "step_size"),
        (lambda o: lr.StepLR(o, 2.5), TypeError, "step_size"),
        (lambda o: lr.StepLR(o, 2, gamma=-1.0), ValueError, "gamma"),
        (lambda o: lr.MultiStepLR(o, [3, 0]), ValueError, r"milestones\[1\]"),
        (lambda o: lr.ExponentialLR(o, "0.9"), TypeError, "gamma"),
        (lambda o: lr.LambdaLR(o, [abs]), ValueError, "1 functions.* 2 parameter groups"),
        (lambda o: lr.LambdaLR(o, lambda t: -1.0), ValueError, "rate of group 0"),
        (lambda o: lr.CosineAnnealingLR(o, 0), ValueError, "T_max"),
        (lambda o: lr.CosineAnnealingLR(o, 5, eta_min=-0.1), ValueError, "eta_min"),
        (lambda o: lr.CosineAnnealingWarmRestarts(o, 5, T_mult=0), ValueError, "T_mult"),
        (lambda o: lr.WarmupCosine(o, 5, 5), ValueError, "total_steps"),
        (lambda o: lr.WarmupCosine(o, 5, 9, start_factor=1.1), ValueError, "start_factor"),
        (lambda o: lr.OneCycleLR(o, 0.1), ValueError, "total_steps"),
        (lambda o: lr.OneCycleLR(o, 0.1, epochs=3), ValueError, "steps_per_epoch"),
        (lambda o: lr.OneCycleLR(o, [0.1], 10), ValueError, "max_lr.*2 parameter groups"),
        (lambda o: lr.OneCycleLR(o, 0.1, 10, pct_start=1.5), ValueError, "pct_start"),
        (lambda o: lr.OneCycleLR(o, 0.1, 10, anneal_strategy="log"), ValueError, "anneal_strategy"),
        (lambda o: lr.OneCycleLR(o, 0.1, 10, div_factor=0.0), ValueError, "div_factor"),
        (lambda o: lr.OneCycleLR(o, 0.1, 10, max_momentum=1.0), ValueError, "max_momentum"),
        (lambda o: lr.CyclicLR(o, 0.1, 0.2, step_size_up=0), ValueError, "step_size_up"),
        (lambda o: lr.CyclicLR(o, 0.1, 0.2, mode="square"), ValueError, "mode"),
        (lambda o: lr.CyclicLR(o, 0.1, 0.2, scale_mode="epoch"), ValueError, "scale_mode"),
        (lambda o: lr.CyclicLR(o, -0.1, 0.2), ValueError, "base_lr"),
        (lambda o: lr.ReduceLROnPlateau(o, "least"), ValueError, "mode"),
        (lambda o: lr.ReduceLROnPlateau(o, factor=1.0), ValueError, "factor"),
        (lambda o: lr.ReduceLROnPlateau(o, patience=-1), ValueError, "patience"),
        (lambda o: lr.ReduceLROnPlateau(o, threshold_mode="x"), ValueError, "threshold_mode"),
        (lambda o: lr.ReduceLROnPlateau(o, min_lr=[0.1]), ValueError, "min_lr"),
    ],
)
def test_bad_arguments_change_nothing(make: Callable[[Optimizer], object], error: type[Exception], word: str) -> None:
    optimizer = ours(momentum=0.25)
    with pytest.raises(error, match=word):
        make(optimizer)
    assert of_groups(optimizer) == [0.1, 0.25, 0.03, 0.25]


def test_momentum_needs_an_optimizer_that_has_it() -> None:
    with pytest.raises(ValueError, match="Adagrad has no momentum"):
        lr.OneCycleLR(ours(Adagrad), 0.1, 10)
    lr.OneCycleLR(ours(Adagrad), 0.1, 10, cycle_momentum=False)
    optimizer = ours(RMSprop)
    lr.OneCycleLR(optimizer, 0.1, 10)
    assert optimizer.param_groups[1]["momentum"] == 0.95


@pytest.mark.parametrize("strategy", ["cos", "linear"])
def test_a_cycle_has_an_end(strategy: str) -> None:
    """As many steps as it has are made in a loop; the last one leaves the rates where they are."""
    optimizer = ours()
    schedule = lr.OneCycleLR(optimizer, 0.1, 3, anneal_strategy=strategy)
    for _ in range(2):
        schedule.step()
    rates = of_groups(optimizer)
    schedule.step()
    assert of_groups(optimizer) == rates
    before = schedule.state_dict()
    with pytest.raises(ValueError, match="3 steps.* step 4"):
        schedule.step()
    assert of_groups(optimizer) == rates and schedule.state_dict() == before


def test_a_rise_without_steps_is_over_at_once() -> None:
    """PyTorch divides by zero here."""
    assert lr.OneCycleLR(ours(), 0.2, 10, pct_start=0.1).last_lr == pytest.approx([0.2, 0.2])


@pytest.mark.parametrize("make", [lambda o: lr.StepLR(o, 3), lr.ReduceLROnPlateau], ids=["StepLR", "ReduceLROnPlateau"])
def test_a_new_group_needs_a_new_schedule(make: Callable[[Optimizer], Any]) -> None:
    optimizer = ours()
    schedule = make(optimizer)
    saved = schedule.state_dict()
    optimizer.add_param_group({"params": ag.param([1.0], device="cpu")})
    with pytest.raises(ValueError, match="2 parameter groups, but the optimizer has 3"):
        schedule.step(*((1.0,) if make is lr.ReduceLROnPlateau else ()))
    with pytest.raises(ValueError, match="2 parameter groups, but the optimizer has 3"):
        schedule.load_state_dict(saved)
    assert schedule.last_epoch == 0 and schedule.state_dict() == saved


@pytest.mark.parametrize(
    "changes, error",
    [
        ({"kind": "StepLR"}, ValueError),
        ({"last_epoch": -1}, ValueError),
        ({"last_epoch": 1.5}, TypeError),
        ({"last_epoch": 9}, ValueError),
        ({"base_lrs": [0.1]}, ValueError),
        ({"base_lrs": [0.1, -0.1]}, ValueError),
        ({"base_lrs": 0.1}, TypeError),
        ({"last_lr": [0.1, "x"]}, TypeError),
        ({"best": "good"}, TypeError),
        ({"num_bad_epochs": -1}, ValueError),
        ({"cooldown_counter": None}, TypeError),
    ],
    ids=str,
)
def test_a_bad_state_changes_nothing(changes: dict[str, Any], error: type[Exception]) -> None:
    optimizer = ours()
    plateau = bool({"last_lr", "best", "num_bad_epochs", "cooldown_counter"} & set(changes))
    schedule = lr.ReduceLROnPlateau(optimizer) if plateau else lr.OneCycleLR(optimizer, 0.1, 8)
    saved, before = schedule.state_dict(), of_groups(optimizer)
    with pytest.raises(error):
        schedule.load_state_dict({**saved, **changes})
    for name in saved:
        with pytest.raises(ValueError, match=f"lacks {name}"):
            schedule.load_state_dict({k: v for k, v in saved.items() if k != name})
    assert schedule.state_dict() == saved and of_groups(optimizer) == before
