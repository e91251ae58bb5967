"""How exact long sums, matrix products and losses are on every device, against NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest
from optable import OPS, Op, Sample
from optable.measure import some

import ggmlpy_ag as ag

PRECISE = 1e-6  # relative


def uniform(*shape: int, low: float = 0.0, high: float = 1.0) -> np.ndarray:
    return np.random.default_rng(7).uniform(low, high, shape).astype(np.float32)


def normal(*shape: int, seed: int = 7) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def relative_error(got: np.ndarray, expected: np.ndarray) -> float:
    """The norm of the error, as a part of the norm of the result."""
    assert got.shape == expected.shape
    return float(np.linalg.norm(got - expected) / np.linalg.norm(expected))


# ---------------------------------------------------------------- sums


@pytest.mark.parametrize("reduce", [ag.sum, ag.mean], ids=["sum", "mean"])
@pytest.mark.parametrize(
    "values",
    [
        pytest.param(uniform, id="uniform"),
        pytest.param(lambda n: np.full(n, 0.1, np.float32), id="constant"),  # rounds the same way every time
        pytest.param(lambda n: uniform(n, low=9999.0, high=10001.0), id="offset"),
    ],
)
@pytest.mark.parametrize("n", [1_000_000, 1_000_003, 2**20])  # round, prime, a power of two
def test_a_million_elements_are_summed_exactly(reduce, values, n: int, device: str) -> None:
    x = values(n)
    expected = getattr(np, reduce.__name__)(x.astype(np.float64))
    assert reduce(ag.tensor(x)).item() == pytest.approx(expected, rel=PRECISE)


@pytest.mark.parametrize("reduce", [ag.sum, ag.mean], ids=["sum", "mean"])
@pytest.mark.parametrize(
    "shape, axis",
    [((1009, 997), 0), ((1009, 997), 1), ((2, 100_003, 5), 1), ((10, 100_000), (0, 1)), ((1_000_003, 1), 0)],
    ids=str,
)
def test_long_axes_are_summed_exactly(reduce, shape: tuple[int, ...], axis, device: str) -> None:
    x = uniform(*shape)
    expected = getattr(np, reduce.__name__)(x.astype(np.float64), axis)
    np.testing.assert_allclose(reduce(ag.tensor(x), axis).numpy(), expected, PRECISE)


def test_the_sum_of_numbers_that_cancel_is_as_exact_as_their_size(device: str) -> None:
    x = normal(1_000_003)
    error = abs(ag.sum(ag.tensor(x)).item() - x.astype(np.float64).sum())
    assert error <= PRECISE * np.abs(x, dtype=np.float64).sum()


def test_the_gradient_of_a_broadcast_operand_is_summed_exactly(device: str) -> None:
    weights, bias = uniform(100_003, 3), ag.param(np.zeros(3))
    with ag.grad_tape():
        out = ag.tensor(weights) + bias
    grad = ag.backward(out, weights)[bias].numpy()
    np.testing.assert_allclose(grad, weights.sum(0, dtype=np.float64), PRECISE)


# ---------------------------------------------------------------- matrix products

LAYOUTS = {
    "packed": ag.tensor,
    "transposed": lambda v: ag.tensor(np.ascontiguousarray(v.swapaxes(-1, -2))).mT,
    "slice": lambda v: ag.tensor(np.pad(v, [(0, 0)] * (v.ndim - 1) + [(1, 1)]))[..., 1:-1],
}


def product_error(a: np.ndarray, b: np.ndarray, left: str = "packed", right: str = "packed") -> float:
    got = ag.matmul(LAYOUTS[left](a), LAYOUTS[right](b)).numpy()
    return relative_error(got, np.matmul(a.astype(np.float64), b.astype(np.float64)))


@pytest.mark.parametrize("left", LAYOUTS)
@pytest.mark.parametrize("right", LAYOUTS)
@pytest.mark.parametrize("n", [1, 10, 256])
def test_products_with_784_terms(left: str, right: str, n: int, device: str) -> None:
    assert product_error(normal(128, 784), normal(784, n, seed=8), left, right) <= PRECISE


@pytest.mark.parametrize("left", LAYOUTS)
@pytest.mark.parametrize("right", LAYOUTS)
@pytest.mark.parametrize("m, k, n", [(37, 101, 13), (131, 67, 257), (2, 1009, 3)])
def test_products_whose_extents_are_distinct_primes(m: int, k: int, n: int, left: str, right: str, device: str) -> None:
    assert product_error(normal(m, k), normal(k, n, seed=8), left, right) <= PRECISE


@pytest.mark.parametrize("left", LAYOUTS)
@pytest.mark.parametrize("right", LAYOUTS)
@pytest.mark.parametrize(
    "batch_a, batch_b",
    [
        ((5,), (5,)),
        ((5,), ()),
        ((), (5,)),
        ((1,), (5,)),
        ((2, 3), (2, 3)),
        ((2, 1), (1, 3)),
        ((2, 1), (3,)),
        ((3,), (2, 1)),
    ],
    ids=str,
)
def test_batches_of_products_broadcast(
    batch_a: tuple[int, ...], batch_b: tuple[int, ...], left: str, right: str, device: str
) -> None:
    assert product_error(normal(*batch_a, 7, 31), normal(*batch_b, 31, 13, seed=8), left, right) <= PRECISE


def test_gradients_of_a_product_with_784_terms(device: str) -> None:
    x, w, g = normal(128, 784), normal(10, 784, seed=8), normal(128, 10, seed=9)
    left, weight = ag.param(x), ag.param(w)
    with ag.grad_tape():
        out = left @ weight.T
    grads = ag.backward(out, g)
    x, w, g = (v.astype(np.float64) for v in (x, w, g))
    assert relative_error(grads[left].numpy(), g @ w) <= PRECISE
    assert relative_error(grads[weight].numpy(), g.T @ x) <= PRECISE


def test_products_keep_what_float16_cannot_hold(device: str) -> None:
    a, b = 1e5 * normal(16, 64), 1e-6 * normal(64, 16, seed=8)
    assert product_error(a, b) <= PRECISE


# ---------------------------------------------------------------- losses of extreme logits


def masked(logits: np.ndarray) -> np.ndarray:
    """Without the first two classes."""
    logits[:, :2] = -np.inf
    return logits


EXTREME = {
    "1e4": 1e4 * normal(6, 5),
    "1e30": 1e30 * normal(6, 5),
    "equal at 1e30": np.full((6, 5), 1e30, np.float32),
    "far apart": np.array([[-1e30, 0.0, 1e30, 5.0, 1e4]] * 6, np.float32),
    "masked": masked(normal(6, 5)),
    "masked at 1e4": masked(1e4 * normal(6, 5)),
    "masked at 1e30": masked(1e30 * normal(6, 5)),
    "offset of 1e4": 1e4 + normal(6, 5),
}
CLASSES = np.array([3, 2, 4, 3, 2, 4], np.int32)
ONE_HOT = np.eye(5, dtype=np.float32)[CLASSES]


def log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits.astype(np.float64) - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


@pytest.mark.parametrize("targets", ["classes", "probabilities"])
@pytest.mark.parametrize("name", EXTREME)
def test_losses_of_extreme_logits_are_finite_where_they_should_be(name: str, targets: str, device: str) -> None:
    logits = ag.param(EXTREME[name])
    expected = -log_softmax(EXTREME[name])[np.arange(6), CLASSES].mean()
    with ag.grad_tape():
        loss = ag.cross_entropy_loss(logits, ag.tensor(CLASSES if targets == "classes" else ONE_HOT))
    assert loss.item() == pytest.approx(expected, rel=PRECISE, abs=1e-6)
    expected_grad = (np.exp(log_softmax(EXTREME[name])) - ONE_HOT) / 6
    np.testing.assert_allclose(ag.backward(loss)[logits].numpy(), expected_grad, 1e-5, 1e-7)


@pytest.mark.parametrize("name", EXTREME)
def test_softmax_of_extreme_logits(name: str, device: str) -> None:
    x = ag.tensor(EXTREME[name])
    expected = log_softmax(EXTREME[name])
    np.testing.assert_allclose(ag.softmax(x).numpy(), np.exp(expected), PRECISE, 1e-7)
    np.testing.assert_allclose(ag.log_softmax(x).numpy(), expected, PRECISE, 1e-6)


def test_the_loss_of_a_masked_class_is_infinite(device: str) -> None:
    logits = np.array([[0.0, -np.inf, 1.0], [0.0, 1.0, 2.0]], np.float32)
    assert ag.cross_entropy_loss(ag.tensor(logits), [1, 0]).item() == np.inf
    assert np.isnan(ag.cross_entropy_loss(ag.tensor(np.full((2, 3), -np.inf)), [1, 0]).item())  # no class is left
    # 0 * log(0) is made 0 by a finite log(0), so a probability for a masked class costs much, not infinitely much
    assert ag.cross_entropy_loss(ag.tensor([0.0, -np.inf, 1.0]), [0.5, 0.5, 0.0]).item() > 1e37


@pytest.mark.parametrize("target", [[1, 1], [[0.0, 1.0, 0.0]] * 2], ids=["classes", "probabilities"])
def test_the_only_class_left_is_certain(target, device: str) -> None:
    logits = ag.param(np.array([[-np.inf, -1e30, -np.inf], [-np.inf, 3.0, -np.inf]], np.float32))
    with ag.grad_tape():
        loss = ag.cross_entropy_loss(logits, target)
    assert loss.item() == 0.0
    assert not ag.backward(loss)[logits].numpy().any()


def test_a_mean_square_of_a_million_differences(device: str) -> None:
    a, b = normal(1_000_003), normal(1_000_003, seed=8)
    expected = np.mean((a.astype(np.float64) - b) ** 2)
    assert ag.mse_loss(ag.tensor(a), ag.tensor(b)).item() == pytest.approx(expected, rel=PRECISE)


# ---------------------------------------------------------------- devices agree


@pytest.mark.parametrize(
    "op, sample",
    [pytest.param(op, s, id=f"{op.name}-{s}") for op in OPS for s in some(op.samples, 4) if op.name != "to"],
)
def test_a_device_agrees_with_the_cpu(op: Op, sample: Sample, device: str) -> None:
    results = []
    for name in (device, "cpu"):
        with ag.device(name):
            operands = [ag.tensor(v) if isinstance(v, np.ndarray) else v for v in sample.operands]
            results.append(op.call(*operands, **sample.options).numpy())
    magnitude = np.max(np.abs(results[1]))
    np.testing.assert_allclose(*results, 2 * op.rtol, 2 * max(op.atol, op.rtol * magnitude))
