"""Attention where it is delicate: what is hidden completely, long rows, memory; and targets on the device."""

from __future__ import annotations

import numpy as np
import pytest

import ggmlpy_ag as ag
from ggmlpy_ag.tape import captured


def normal(*shape: int, seed: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def params(*shapes: tuple[int, ...]) -> list[ag.Tensor]:
    return [ag.param(normal(*shape, seed=i)) for i, shape in enumerate(shapes)]


def hidden(kind: str) -> object:
    """For two places: the first sees the second of three, the other nothing."""
    keep = np.array([[0, 1, 0], [0, 0, 0]])
    added = np.where(keep, 0.0, -np.inf).astype(np.float32)
    return {
        "bools": keep.astype(bool), "integers": keep, "floats": added, "int32 tensor": ag.tensor(keep.astype(np.int32)),
        "float tensor": ag.tensor(added), "parameter": ag.param(added), "half": ag.tensor(added, dtype="float16"),
    }[kind]  # fmt: skip


KINDS = ["bools", "integers", "floats", "int32 tensor", "float tensor", "parameter", "half"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("causal", [False, True])
def test_what_sees_nothing_is_zero_and_so_are_its_gradients(kind: str, causal: bool, device: str) -> None:
    q, k, v = params((4, 2, 3), (2, 3, 3), (2, 3, 5))
    mask = hidden(kind)
    with ag.grad_tape():
        out = ag.scaled_dot_product_attention(q, k, v, mask, causal)
    grads = ag.backward(out, np.ones(out.shape))
    seen = 0.0 if causal else v.numpy()[[0, 0, 1, 1], 1]  # the first place of a causal one is before the second
    np.testing.assert_allclose(out.numpy()[:, 0], np.broadcast_to(seen, (4, 5)), 1e-6)
    np.testing.assert_array_equal(out.numpy()[:, 1], 0.0)
    for leaf, grad in grads.items():
        assert np.isfinite(grad.numpy()).all(), leaf.shape
    np.testing.assert_array_equal(grads[q].numpy()[:, 1], 0.0)
    np.testing.assert_array_equal(grads[v].numpy()[:, [0, 2]], 0.0)


def test_the_least_finite_number_hides_as_in_pytorch(device: str) -> None:
    torch = pytest.importorskip("torch")
    q, k, v = params((1, 3, 4), (1, 3, 4), (1, 3, 4))
    least = np.finfo(np.float32).min
    mask = np.array([[0.0, least, -np.inf], [least, least, least], [-1e9, -1e9, -1e9]], np.float32)
    out = ag.scaled_dot_product_attention(q, k, v, mask).numpy()
    theirs = [torch.tensor(t.numpy()) for t in (q, k, v)]
    np.testing.assert_allclose(
        out, torch.nn.functional.scaled_dot_product_attention(*theirs, torch.tensor(mask)).numpy(), 1e-5, 1e-6
    )


def test_long_rows_of_which_most_is_hidden(device: str) -> None:
    n = 20_000  # Vulkan has another kernel beyond 16,384
    q, k, v = normal(1, 2, 4), normal(1, n, 4), normal(1, n, 3)
    mask = np.zeros((2, n), bool)
    mask[0, -700:] = True
    mask[1, 5] = True
    out = ag.scaled_dot_product_attention(q, k, v, mask).numpy()
    scores = (q[0, 0].astype(np.float64) @ k[0, -700:].T.astype(np.float64)) / 2
    weights = np.exp(scores - scores.max())
    np.testing.assert_allclose(out[0, 0], weights @ v[0, -700:] / weights.sum(), 2e-6, 1e-6)
    np.testing.assert_allclose(out[0, 1], v[0, 5], 1e-6)


@pytest.mark.parametrize("low", [0.0, -200.0, -np.inf])
def test_the_softmax_of_a_long_row_with_one_great_element(low: float, device: str) -> None:
    x = np.full((2, 20_000), low, np.float32)
    x[0, 15_000], x[1, 100] = 200.0, -1.0
    expected = np.exp(x - x.max(1, keepdims=True).astype(np.float64))
    np.testing.assert_allclose(ag.softmax(x).numpy(), expected / expected.sum(1, keepdims=True), 2e-6, 1e-30)


@pytest.mark.parametrize("scale", [1e-3, 30.0])
def test_large_and_small_scores(scale: float, device: str) -> None:
    q, k, v = normal(2, 7, 8), normal(2, 9, 8), normal(2, 9, 3)
    scores = np.einsum("hle,hse->hls", q.astype(np.float64), k) * scale
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = weights @ v / weights.sum(-1, keepdims=True)
    out = ag.scaled_dot_product_attention(q, k, v, scale=scale).numpy()
    np.testing.assert_allclose(out, expected, 1e-5, 1e-5)


@pytest.mark.parametrize("masked", [False, True])
def test_the_tape_keeps_nothing_of_the_square_of_the_sequence(masked: bool) -> None:
    with ag.device("cpu"), ag.grad_tape() as tape:
        q, k, v = params((2, 4, 128, 8), (2, 4, 128, 8), (2, 4, 128, 8))
        mask = ag.param(np.zeros((2, 1, 1, 128))) if masked else None
        ag.scaled_dot_product_attention(q, k, v, mask, causal=True)
        (node,) = tape.nodes
        kept = {t._array.storage for t in captured(node.grad_fn)}
    assert kept == {t._array.storage for t in (q, k, v, mask) if t is not None}


def test_rotating_turns_back_and_keeps_products_of_equal_distance(device: str) -> None:
    x, y = normal(1, 64), normal(1, 64, seed=6)

    def product(i: int, j: int) -> float:
        return ag.sum(ag.rope(x, [i]) * ag.rope(y, [j])).item()

    assert product(3, 10) == pytest.approx(product(100_003, 100_010), abs=2e-5)
    leaf = ag.param(normal(2, 5, 6))
    for interleaved in (False, True):
        with ag.grad_tape():
            out = ag.rope(leaf, interleaved=interleaved)
        back = ag.backward(out, out.detach())[leaf]
        np.testing.assert_allclose(back.numpy(), leaf.numpy(), 1e-6, 3e-7)


# ---------------------------------------------------------------- dropout


def dropped_attention(q: ag.Tensor, k: ag.Tensor, v: ag.Tensor, mask: object) -> ag.Tensor:
    """The formula, with the probabilities at hand; draws what the operation draws."""
    scores = q @ k.mT * q.shape[-1] ** -0.5
    p = ag.softmax(scores if mask is None else scores + mask)
    return ag.dropout(p, 0.5) @ v


@pytest.mark.parametrize("masked", [False, True])
def test_dropout_drops_probabilities(masked: bool, device: str) -> None:
    q, k, v = params((2, 3, 4, 5), (2, 3, 6, 5), (2, 3, 6, 2))
    mask = ag.param(normal(4, 6, seed=9)) if masked else None
    found = {}
    for call in (lambda *x: ag.scaled_dot_product_attention(*x, dropout=0.5), dropped_attention):
        ag.manual_seed(3)
        with ag.grad_tape():
            out = call(q, k, v, mask)
        grads = ag.backward(out, normal(*out.shape))
        found[call] = [out, *(grads[t] for t in (q, k, v, mask) if t is not None)]
    for a, b in zip(*found.values(), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), 1e-5, 1e-6)


def test_gradients_of_gradients_go_through_dropout(device: str) -> None:
    q, k, v = params((1, 2, 3), (1, 3, 3), (1, 3, 2))
    found = {}
    for call in (lambda *x: ag.scaled_dot_product_attention(*x, dropout=0.5), dropped_attention):
        ag.manual_seed(3)
        with ag.grad_tape():
            first = ag.backward((call(q, k, v, None) ** 2.0).sum(), create_graph=True)
            loss = (first[q] ** 2.0).sum() + (first[k] ** 2.0).sum()
        second = ag.backward(loss)
        found[call] = [second[t].numpy() for t in (q, k, v)]
        ag.zero_grad((q, k, v))
    for a, b in zip(*found.values(), strict=True):
        np.testing.assert_allclose(a, b, 1e-4, 1e-5)
