"""The state of optimizers: saved and loaded, moved between devices, and the float32 copies of 16-bit parameters."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from bowls import CASES, gradient, start, train

import ggmlpy_ag as ag
from ggmlpy_ag.backend import devices
from ggmlpy_ag.optim import SGD, Adam, AdamW, Lion, Optimizer, RMSprop

every_case = pytest.mark.parametrize("kind, options", CASES)
GPUS = [info.name for info in ag.devices() if info.name != "cpu"]


def through_a_file(saved: dict[str, Any]) -> dict[str, Any]:
    """As a file would keep it: arrays by number and name, and all else in JSON."""
    arrays = {f"{i}.{name}": a.copy() for i, state in saved["state"].items() for name, a in state.items()}
    read = json.loads(json.dumps({**saved, "state": {}}))
    for key, array in arrays.items():
        i, name = key.split(".")
        read["state"].setdefault(i, {})[name] = array
    return dict(read)


@every_case
def test_a_saved_state_goes_on_exactly_the_same(device: str, kind: type[Optimizer], options: dict[str, Any]) -> None:
    """To the bit; with groups, and a parameter that has made fewer steps."""

    def make(values: list[np.ndarray], **more: Any) -> tuple[list[ag.Tensor], Optimizer]:
        params = [ag.param(a) for a in values]
        groups = [{"params": params[:1], "lr": 0.01, **more}, {"params": params[1:], "weight_decay": 0.03, **more}]
        return params, kind(groups, **options)

    params, optimizer = make(start())
    train(optimizer, params, 2)
    params[1].grad = None
    optimizer.step()
    copies, other = make([p.numpy() for p in params], lr=9.0, weight_decay=0.9)
    group = other.param_groups[0]
    other.load_state_dict(through_a_file(optimizer.state_dict()))
    assert other.steps == optimizer.steps == [3, 2, 3, 3]
    assert group is other.param_groups[0] and group["lr"] == 0.01
    for own, loaded in zip(optimizer.param_groups, other.param_groups, strict=True):
        assert {**own, "params": 0} == {**loaded, "params": 0}
    train(optimizer, params, 3)
    train(other, copies, 3)
    for p, q in zip(params, copies, strict=True):
        np.testing.assert_array_equal(p.numpy(), q.numpy())


def test_the_shape_of_a_state() -> None:
    with ag.device("cpu"):
        params = [ag.param([[1.0, 2.0]]), ag.param([3.0]), ag.param([4.0])]
        optimizer = AdamW([{"params": params[:2]}, {"params": params[2], "lr": np.float32(0.5)}], lr=0.1)
        for p in params[:2]:
            p.grad = ag.tensor(np.zeros(p.shape))
        optimizer.step()
    saved = optimizer.state_dict()
    hyper = {"betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.01}
    assert {name: value for name, value in saved.items() if name != "state"} == {
        "kind": "AdamW",
        "param_groups": [{"lr": 0.1, **hyper, "params": [0, 1]}, {"lr": 0.5, **hyper, "params": [2]}],
        "steps": [1, 1, 0],
    }
    assert {i: {name: a.shape for name, a in state.items()} for i, state in saved["state"].items()} == {
        0: {"first_moment": (1, 2), "second_moment": (1, 2)},
        1: {"first_moment": (1,), "second_moment": (1,)},
    }


def test_a_state_is_a_copy(device: str) -> None:
    p = ag.param([1.0, 2.0])
    optimizer = SGD([p], lr=0.5, momentum=0.5)
    p.grad = ag.tensor([1.0, 1.0])
    optimizer.step()
    saved = optimizer.state_dict()
    optimizer.step()
    assert saved["steps"] == [1] and saved["state"][0]["momentum"].tolist() == [1.0, 1.0]
    saved["param_groups"][0]["lr"] = 9.0
    assert optimizer.lr == 0.5


def adamw() -> tuple[ag.Tensor, Optimizer, dict[str, Any]]:
    """An optimizer after a step, and its state."""
    p = ag.param([1.0, 2.0])
    optimizer = AdamW([p], lr=0.1)
    p.grad = ag.tensor([0.5, -0.5])
    optimizer.step()
    return p, optimizer, optimizer.state_dict()


def group_of(saved: dict[str, Any]) -> dict[str, Any]:
    group: dict[str, Any] = saved["param_groups"][0]
    return group


@pytest.mark.parametrize(
    "spoil, error, word",
    [
        (lambda s: s.update(kind="SGD"), ValueError, "SGD"),
        (lambda s: group_of(s).update(lr=-1.0), ValueError, r"param_groups\[0\]: lr"),
        (lambda s: group_of(s).update(lr="fast"), TypeError, "lr"),
        (lambda s: group_of(s).update(betas=[0.9, 1.5]), ValueError, r"betas\[1\]"),
        (lambda s: group_of(s).pop("eps"), ValueError, "eps"),
        (lambda s: group_of(s).update(momentum=0.9), ValueError, "momentum"),
        (lambda s: group_of(s).pop("params"), ValueError, "params"),
        (lambda s: group_of(s).update(params=[0, 1]), ValueError, "2 entries, expected 1"),
        (lambda s: group_of(s).update(params=0), TypeError, "list"),
        (lambda s: s["param_groups"].append(group_of(s)), ValueError, "2 entries, expected 1"),
        (lambda s: s.update(param_groups=[0.1]), TypeError, "mapping"),
        (lambda s: s.update(param_groups={}), TypeError, "list"),
        (lambda s: s.update(steps=[1, 2]), ValueError, "steps"),
        (lambda s: s.update(steps=[-1]), ValueError, "steps"),
        (lambda s: s.update(steps=[1.5]), TypeError, "steps"),
        (lambda s: s.update(steps=3), TypeError, "steps"),
        (lambda s: s.update(state={}), ValueError, "parameter 0 has .*expected.*first_moment"),
        (lambda s: s.update(state=[]), TypeError, "state"),
        (lambda s: s["state"].update({1: s["state"][0]}), ValueError, "parameter 1"),
        (lambda s: s["state"].update({"x": s["state"][0]}), ValueError, "'x'"),
        (lambda s: s["state"].update({0: 5}), TypeError, "mapping"),
        (lambda s: s["state"][0].pop("first_moment"), ValueError, "expected"),
        (lambda s: s["state"][0].update(momentum=np.zeros(2)), ValueError, "momentum"),
        (lambda s: s["state"][0].update(first_moment=np.zeros((1, 2))), ValueError, r"first_moment .*\(1, 2\)"),
        (lambda s: s["state"][0].update(second_moment=["a", "b"]), TypeError, "second_moment"),
        (lambda s: s["state"][0].update(second_moment=None), ValueError, "second_moment"),
        *[(lambda s, n=n: s.pop(n), ValueError, f"lacks {n}") for n in ("kind", "param_groups", "steps", "state")],
    ],
)
def test_a_bad_state_changes_nothing(spoil: Callable[[Any], object], error: type[Exception], word: str) -> None:
    with ag.device("cpu"):
        p, optimizer, good = adamw()
        bad = optimizer.state_dict()
        spoil(bad)
        optimizer.lr = 0.7
        with pytest.raises(error, match=word):
            optimizer.load_state_dict(bad)
        now = optimizer.state_dict()
        assert group_of(now) == {**group_of(good), "lr": 0.7} and now["steps"] == good["steps"]
        for name, array in good["state"][0].items():
            np.testing.assert_array_equal(now["state"][0][name], array)


def test_what_is_no_state_is_refused() -> None:
    with ag.device("cpu"):
        _, optimizer, _ = adamw()
        with pytest.raises(TypeError, match="mapping"):
            optimizer.load_state_dict([])  # type: ignore[arg-type]


def test_momentum_may_be_switched_on_and_off_between_steps(device: str) -> None:
    """What a parameter has in its state depends on its past; all of it is saved."""
    p = ag.param([0.0])
    optimizer: Optimizer = SGD([p], lr=1.0)
    for momentum, expected in ((0.0, -1.0), (0.5, -2.0), (0.0, -3.0), (0.5, -4.5)):
        optimizer.param_groups[0]["momentum"] = momentum
        p.grad = ag.tensor([1.0])
        optimizer.step()
        assert p.item() == expected
        saved = optimizer.state_dict()
        optimizer = SGD([p], lr=0.1)
        optimizer.load_state_dict(saved)


# ---------------------------------------------------------------- other devices


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("kind, options", [(SGD, {"momentum": 0.9}), (AdamW, {}), (RMSprop, {}), (Lion, {})])
def test_the_state_follows_its_parameter(kind: type[Optimizer], options: dict[str, Any], dtype: str, gpu: str) -> None:
    """Trained here, there and here again, as if it had stayed."""
    model, still = ag.nn.Module(), ag.param(start()[0], device="cpu", dtype=dtype)
    model.w = ag.param(start()[0], device="cpu", dtype=dtype)
    optimizer, other = kind(model.parameters(), **options), kind([still], **options)
    for where in ("cpu", gpu, "cpu"):
        model.to(where)
        train(optimizer, [model.w], 4)
        train(other, [still], 4)
        assert all(a.device is devices.get(where) for a in optimizer.state[model.w].arrays.values())
    precision = 1e-5 if dtype == "float32" else 0.02
    np.testing.assert_allclose(model.w.numpy(), still.numpy(), rtol=precision, atol=precision)
    saved, expected = (o.state_dict()["state"][0] for o in (optimizer, other))
    assert set(saved) == set(expected)
    for name in saved:  # "master" among them, which is as exact as float32
        np.testing.assert_allclose(saved[name], expected[name], rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("gpu", GPUS)
def test_a_state_loads_where_the_parameter_is(gpu: str) -> None:
    p, q = (ag.param([1.0, 2.0], device=name) for name in ("cpu", gpu))
    first, second = AdamW([p]), AdamW([q])
    train(first, [p], 2)
    second.load_state_dict(first.state_dict())
    assert all(a.device is devices.get(gpu) for a in second.state[q].arrays.values())


@pytest.mark.parametrize("gpu", GPUS)
def test_a_gradient_elsewhere_changes_nothing(gpu: str) -> None:
    p = ag.param([1.0], device=gpu)
    p.grad = ag.tensor([1.0], device="cpu")
    with pytest.raises(ValueError, match=f"on {gpu} has a gradient of .*cpu"):
        SGD([p], lr=1.0).step()
    assert p.item() == 1.0


# ---------------------------------------------------------------- parameters in 16 bits


def steps_of(p: ag.Tensor, optimizer: Optimizer, count: int) -> Iterator[int]:
    for step in range(count):
        yield step
        with ag.grad_tape():
            loss = ag.sum(p * p)
        ag.backward(loss)
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize("loaded_first", ["model", "optimizer"])
@pytest.mark.parametrize("kind", [SGD, Adam, RMSprop, Lion])
def test_the_float32_copy_is_saved_and_goes_on(device: str, kind: type[Optimizer], loaded_first: str) -> None:
    """Whether the parameter's own values are put back before or after it."""
    results = []
    for stop in (None, 3):
        p = ag.param([1.0, 2.0], dtype="bfloat16")
        optimizer = kind([p], lr=1e-3)
        for step in steps_of(p, optimizer, 6):
            if step == stop:
                values, saved = p.numpy(), optimizer.state_dict()
                p = ag.param([7.0, 2.0], dtype="bfloat16")
                optimizer = kind([p], lr=1e-3)
                for part in (loaded_first, "optimizer" if loaded_first == "model" else "model"):
                    p.copy_(values) if part == "model" else optimizer.load_state_dict(saved)
                break
        else:
            stop = 6
        for _ in steps_of(p, optimizer, 6 - stop):
            pass
        results.append(optimizer.state_dict()["state"][0]["master"].tolist())
    assert results[0] == results[1]
    with pytest.raises(ValueError, match="has .*master"):
        kind([ag.param([1.0, 2.0])]).load_state_dict(optimizer.state_dict())


def test_values_written_to_a_16_bit_parameter_replace_those_of_the_copy(device: str) -> None:
    """Element by element: the copy stays where it rounds to what the parameter has."""
    p = ag.param([1.0, 2.0, 3.0], dtype="float16")
    optimizer = SGD([p], lr=1e-4)
    p.grad = ag.tensor([1.0, 1.0, 1.0], dtype="float16")
    optimizer.step()
    assert p.tolist() == [1.0, 2.0, 3.0]
    p[1:] = ag.tensor([5.0, np.nan])
    p.grad = ag.tensor([1.0, 1.0, 1.0], dtype="float16")
    optimizer.step()
    np.testing.assert_allclose(optimizer.state_dict()["state"][0]["master"], [0.9998, 4.9999, np.nan], rtol=1e-6)


def test_a_parameter_may_change_its_type(device: str) -> None:
    model = ag.nn.Module()
    model.w = ag.param(start()[0])
    optimizer = AdamW(model.parameters(), lr=0.01)
    for dtype in ("float32", "bfloat16", "float16", "float32"):
        model.to(dtype=dtype)
        model.w.grad = ag.tensor(gradient(start()[0], 0), dtype=dtype)
        before = model.w.numpy()
        optimizer.step()
        names = {"first_moment", "second_moment"} | (set() if dtype == "float32" else {"master"})
        assert set(optimizer.state_dict()["state"][0]) == names
        assert model.w.dtype == (ag.bfloat16 if dtype == "bfloat16" else np.dtype(dtype))
        assert np.abs(model.w.numpy() - before).mean() > 0.005
    model.to(dtype="bfloat16")
    model.to(dtype="float32")
    assert optimizer.steps == [4]
    AdamW(model.parameters()).load_state_dict(optimizer.state_dict())
