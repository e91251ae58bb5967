"""Initialisers: their distributions, PyTorch's formulas, the same numbers on every device."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ggmlpy_ag as ag
from ggmlpy_ag.nn import init

SHAPES = ((60, 50), (40, 30), (8, 6, 5), (12, 4, 3, 5))
NORMAL = statistics.NormalDist()


def blank(*shape: int) -> ag.Tensor:
    return ag.param(np.full(shape, np.nan, np.float32))


def assert_uniform(values: np.ndarray, low: float, high: float) -> None:
    assert values.min() >= np.float32(low) and values.max() <= np.float32(high)
    close = 6.0 * (high - low) / math.sqrt(12.0 * values.size)
    assert abs(values.mean() - (low + high) / 2.0) < close
    assert abs(values.std() - (high - low) / math.sqrt(12.0)) < close
    assert values.max() - values.min() > 0.9 * (high - low)


def assert_normal(values: np.ndarray, mean: float, std: float) -> None:
    close = 6.0 * std / math.sqrt(values.size)
    assert abs(values.mean() - mean) < close and abs(values.std() - std) < close
    assert 0.55 < (abs(values - mean) < std).mean() < 0.8  # 0.68


def test_simple_distributions(device: str) -> None:
    ag.manual_seed(0)
    assert_uniform(init.uniform_(blank(40, 50)).numpy(), 0.0, 1.0)
    assert_uniform(init.uniform_(blank(2000), -3.0, -1.0).numpy(), -3.0, -1.0)
    assert_normal(init.normal_(blank(40, 50)).numpy(), 0.0, 1.0)
    assert_normal(init.normal_(blank(2000), 3.0, 0.1).numpy(), 3.0, 0.1)
    for fill, value in ((init.zeros_, 0.0), (init.ones_, 1.0), (lambda t: init.constant_(t, -2.5), -2.5)):
        assert (fill(blank(3, 4)).numpy() == value).all()
    assert init.normal_(blank(), std=0.0).item() == 0.0


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_kaiming_and_xavier(shape: tuple[int, ...], device: str) -> None:
    ag.manual_seed(1)
    field = math.prod(shape[2:])
    fan_in, fan_out = shape[1] * field, shape[0] * field
    bound = math.sqrt(6.0 / fan_in)
    assert_uniform(init.kaiming_uniform_(blank(*shape)).numpy(), -bound, bound)
    bound = math.sqrt(3.0 / fan_out) * 5.0 / 3.0
    out = init.kaiming_uniform_(blank(*shape), mode="fan_out", nonlinearity="tanh")
    assert_uniform(out.numpy(), -bound, bound)
    assert_normal(init.kaiming_normal_(blank(*shape), a=1.0).numpy(), 0.0, math.sqrt(1.0 / fan_in))
    bound = 2.0 * math.sqrt(6.0 / (fan_in + fan_out))
    assert_uniform(init.xavier_uniform_(blank(*shape), gain=2.0).numpy(), -bound, bound)
    assert_normal(init.xavier_normal_(blank(*shape)).numpy(), 0.0, math.sqrt(2.0 / (fan_in + fan_out)))


def test_gains_are_those_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    for name in (*init.GAINS, "leaky_relu"):
        assert init.calculate_gain(name) == pytest.approx(torch.nn.init.calculate_gain(name))
    assert init.calculate_gain("leaky_relu", 0.3) == pytest.approx(torch.nn.init.calculate_gain("leaky_relu", 0.3))


@pytest.mark.parametrize("gain", [1.0, 0.5])
@pytest.mark.parametrize("shape", [(4, 4), (3, 7), (7, 3), (4, 2, 3, 1)], ids=str)
def test_orthogonal(shape: tuple[int, ...], gain: float, device: str) -> None:
    matrix = init.orthogonal_(blank(*shape), gain).numpy().reshape(shape[0], -1)
    product = matrix @ matrix.T if matrix.shape[0] <= matrix.shape[1] else matrix.T @ matrix
    np.testing.assert_allclose(product, gain**2 * np.eye(len(product)), atol=1e-6)


def test_orthogonal_matrices_have_no_preferred_direction() -> None:
    """Without the signs of R, LAPACK's Q has a first element below 0 always."""
    ag.manual_seed(2)
    below = sum(init.orthogonal_(blank(3, 3)).numpy()[0, 0] < 0.0 for _ in range(200))
    assert 60 < below < 140


@pytest.mark.parametrize(
    "mean, std, a, b",
    [
        (0.0, 1.0, -2.0, 2.0),
        (1.0, 0.5, 0.0, 1.5),
        (0.0, 0.02, -2.0, 2.0),  # cuts nothing off
        (0.0, 1.0, 0.4, 0.6),  # narrow: hardly any normal number lies there
        (0.0, 1.0, 3.0, 50.0),  # far out
        (5.0, 2.0, -1e6, -3.0),
    ],
)
def test_truncated_normal(mean: float, std: float, a: float, b: float, device: str) -> None:
    ag.manual_seed(3)
    n = 4000
    values = init.trunc_normal_(blank(40, n // 40), mean, std, a, b).numpy().astype(np.float64).reshape(-1)
    assert values.min() >= a and values.max() <= b
    # The distribution function of each value, counted from where its logarithm is known well, is uniform in [0, 1].
    side = 1.0 if a >= mean else -1.0
    z = np.sort(-side * (values - mean) / std)
    low, high = sorted((NORMAL.cdf(-side * (a - mean) / std), NORMAL.cdf(-side * (b - mean) / std)))
    expected = (np.array([NORMAL.cdf(v) for v in z]) - low) / (high - low)
    distance = np.abs(expected - (np.arange(n) + 0.5) / n).max()
    assert distance < 2.0 / math.sqrt(n)  # Kolmogorov-Smirnov: exceeded once in 1,500 seeds


INITIALISERS: dict[str, Callable[[ag.Tensor], ag.Tensor]] = {
    name: getattr(init, name) for name in init.__all__ if name.endswith("_") and name != "constant_"
}


@pytest.mark.parametrize("name", INITIALISERS)
def test_a_seed_gives_the_same_numbers_on_every_device(name: str) -> None:
    found = []
    for info in ag.devices():
        ag.manual_seed(5)
        tensor = ag.param(np.zeros((6, 5)), device=info.name)
        assert INITIALISERS[name](tensor) is tensor
        assert tensor.requires_grad and tensor.is_leaf
        found.append(tensor.numpy())
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_get_rounded_numbers(dtype: str, device: str) -> None:
    ag.manual_seed(5)
    wide = init.normal_(blank(5, 5)).numpy()
    ag.manual_seed(5)
    narrow = init.normal_(ag.param(np.zeros((5, 5)), dtype=dtype)).numpy()
    np.testing.assert_allclose(narrow, wide, 2**-8)


# ---------------------------------------------------------------- layers


def test_layers_begin_as_those_of_pytorch(device: str) -> None:
    """Their bounds, and for the embedding a deviation; a layer has enough weights to fill the interval."""
    torch = pytest.importorskip("torch")
    nn = ag.nn
    for ours, theirs in (
        (nn.Linear(300, 40), torch.nn.Linear(300, 40)),
        (nn.Conv1d(32, 40, 7), torch.nn.Conv1d(32, 40, 7)),
        (nn.Conv2d(32, 40, (2, 3), groups=4), torch.nn.Conv2d(32, 40, (2, 3), groups=4)),
        (nn.ConvTranspose2d(32, 64, 3), torch.nn.ConvTranspose2d(32, 64, 3)),
    ):
        for name, parameter in theirs.named_parameters():
            bound = float(theirs.weight[0].numel()) ** -0.5
            assert parameter.abs().max() <= bound
            assert_uniform(dict(ours.named_parameters())[name].numpy(), -bound, bound)
    assert_normal(nn.Embedding(50, 40).weight.numpy(), 0.0, 1.0)
    for layer in (nn.LayerNorm(3), nn.GroupNorm(1, 3), nn.BatchNorm1d(3), nn.RMSNorm(3)):
        assert layer.weight.tolist() == [1.0, 1.0, 1.0]


def test_a_seed_makes_the_same_model_on_every_device() -> None:
    states = []
    for info in ag.devices():
        ag.manual_seed(8)
        with ag.device(info.name):
            model = ag.nn.Sequential(ag.nn.Embedding(5, 4, 0), ag.nn.Linear(4, 3), ag.nn.Linear(3, 1, bias=False))
        states.append({name: t.tolist() for name, t in model.state_dict().items()})
    assert all(state == states[0] for state in states)


# ---------------------------------------------------------------- errors

WRONG: list[tuple[Callable[[ag.Tensor], object], type[Exception], str]] = [
    (lambda t: init.zeros_(t.numpy()), TypeError, "zeros_: tensor must be a Tensor, not ndarray"),
    (lambda t: init.ones_(ag.tensor([1, 2])), TypeError, "ones_: tensor must hold floats, not int32"),
    (lambda t: init.uniform_(t, 1.0, 0.0), ValueError, "uniform_: a must not be greater than b, not 1.0 and 0.0"),
    (lambda t: init.uniform_(t, b="1"), TypeError, "uniform_: b must be a number, not '1'"),
    (lambda t: init.normal_(t, std=-1.0), ValueError, "normal_: std must not be negative"),
    (lambda t: init.normal_(t, mean=np.nan), ValueError, "normal_: mean must be finite"),
    (lambda t: init.constant_(t, [1.0, 2.0]), TypeError, "constant_: val must be a number"),
    (lambda t: init.trunc_normal_(t, std=0.0), ValueError, "trunc_normal_: std must be above 0"),
    (lambda t: init.trunc_normal_(t, a=1.0, b=1.0), ValueError, "trunc_normal_: a must be less than b"),
    (lambda t: init.trunc_normal_(t, a=-math.inf), ValueError, "trunc_normal_: a must be finite"),
    (lambda t: init.kaiming_uniform_(t[0]), ValueError, "kaiming_uniform_: tensor must have at least 2 dimensions"),
    (lambda t: init.kaiming_normal_(t, mode="fan"), ValueError, "kaiming_normal_: mode"),
    (lambda t: init.kaiming_normal_(t, nonlinearity="gelu"), ValueError, "nonlinearity must be one of conv1d"),
    (lambda t: init.kaiming_normal_(t, a=None), TypeError, "kaiming_normal_: a must be a number"),
    (lambda t: init.xavier_normal_(t[0]), ValueError, "xavier_normal_: tensor must have at least 2"),
    (lambda t: init.xavier_uniform_(t, gain=-1), ValueError, "xavier_uniform_: gain must not be negative"),
    (lambda t: init.orthogonal_(t[0]), ValueError, "orthogonal_: tensor must have at least 2"),
    (lambda t: init.orthogonal_(t, gain="x"), TypeError, "orthogonal_: gain must be a number"),
    (lambda t: init.calculate_gain(["relu"]), ValueError, "calculate_gain: nonlinearity"),
    (lambda t: init.calculate_gain("leaky_relu", "x"), TypeError, "calculate_gain: param must be a number"),
]


@pytest.mark.parametrize("case", range(len(WRONG)))
def test_wrong_arguments_change_nothing(case: int) -> None:
    call, error, message = WRONG[case]
    tensor: Any = ag.param(np.arange(6.0).reshape(2, 3))
    state = ag.get_rng_state()
    with pytest.raises(error, match=message):
        call(tensor)
    assert tensor.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    after = ag.get_rng_state()
    np.testing.assert_equal(after, state)
