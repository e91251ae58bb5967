"""Convolutions and pooling beyond what the op table can hold: made in parts, at sizes where launches end, at edges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ggmlpy_ag as ag
from ggmlpy_ag.ops import convolving, linalg, pooling

pytestmark = pytest.mark.usefixtures("fresh_backend")

MANY = 65_537  # more than the workgroups that a launch may have along one axis


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(7).standard_normal(shape).astype(np.float32)


def results(call: Callable[..., ag.Tensor], *operands: np.ndarray) -> list[np.ndarray]:
    """The value, the gradients, and the gradients of the gradients' squares."""
    leaves = [ag.param(v) for v in operands]
    with ag.grad_tape():
        out = call(*leaves)
        grads = ag.backward(ag.sum(out * out), create_graph=True)
        firsts = [grads[leaf] for leaf in leaves]
        total = ag.sum(firsts[0] * firsts[0])
    seconds = ag.backward(total)
    return [out.numpy(), *[g.numpy() for g in firsts], *[seconds[leaf].numpy() for leaf in leaves if leaf in seconds]]


CALLS: dict[str, tuple[Callable[..., ag.Tensor], tuple[tuple[int, ...], ...]]] = {
    "conv2d": (lambda x, w: ag.conv2d(x, w, stride=2, padding=1), ((3, 4, 7, 8), (2, 4, 3, 3))),
    "groups": (lambda x, w: ag.conv2d(x, w, groups=3, padding=1), ((3, 6, 5, 4), (9, 2, 3, 2))),
    "transposed": (lambda x, w: ag.conv_transpose2d(x, w, stride=2), ((3, 4, 5, 4), (4, 2, 3, 3))),
    "max": (lambda x: ag.max_pool2d(x, 3, 2, 1), ((3, 5, 7, 8),)),
    "dilated max": (lambda x: ag.max_pool2d(x, 2, 1, 0, 2), ((3, 5, 7, 8),)),
    "blocks": (lambda x: ag.max_pool2d(x, 2), ((3, 5, 7, 8),)),
    "mean": (lambda x: ag.avg_pool2d(x, 3, 2, 1, False), ((3, 5, 7, 8),)),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_is_made_in_parts_is_what_it_is_as_a_whole(
    name: str, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    call, shapes = CALLS[name]
    operands = [normal(*shape) for shape in shapes]
    whole = results(call, *operands)
    monkeypatch.setattr(convolving, "MOST_COLUMNS", 300)
    monkeypatch.setattr(pooling, "MOST_WINDOWS", 300)
    monkeypatch.setattr(pooling, "LARGEST_POOL", 40)
    for got, expected in zip(results(call, *operands), whole, strict=True):
        np.testing.assert_allclose(got, expected, 1e-5, 1e-5 * np.abs(expected).max())


def test_the_columns_of_a_large_convolution_are_never_there_at_once(device: str) -> None:
    x, weight = ag.tensor(normal(256, 4, 32, 32)), ag.tensor(normal(2, 4, 5, 5))
    ag.empty_cache()
    ag.reset_peak_memory()
    before = ag.memory_stats().live
    ag.conv2d(x, weight, padding=2).numpy()
    columns = 4 * 256 * 32 * 32 * 4 * 25
    assert columns > 1.5 * convolving.MOST_COLUMNS
    assert ag.memory_stats().peak - before < convolving.MOST_COLUMNS + 16 * x.nbytes


# ---------------------------------------------------------------- where a launch of Vulkan's kernels ends


def against_pytorch(call: Callable[[Any, Any], Any], *shapes: tuple[int, ...], rtol: float = 2e-6) -> None:
    """`call(library, operands)`: the value and the gradients, relative to the greatest."""
    torch = pytest.importorskip("torch")
    operands = [normal(*shape) for shape in shapes]
    leaves = [ag.param(v) for v in operands]
    theirs = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in operands]
    expected = call(torch.nn.functional, theirs)
    weights = normal(*expected.shape)
    expected.backward(torch.tensor(weights, dtype=torch.float64))
    with ag.grad_tape():
        out = call(ag, leaves)
    grads = ag.backward(out, weights)
    pairs = [(out, expected.detach()), *[(grads[a], b.grad) for a, b in zip(leaves, theirs, strict=True)]]
    for got, wanted in pairs:
        wanted = wanted.numpy()
        assert np.abs(got.numpy() - wanted).max() <= rtol * np.abs(wanted).max()


@pytest.mark.parametrize(
    "shapes",
    [
        ((MANY, 1, 2, 2), (2, 1, 2, 1)),
        ((1, MANY, 1, 2), (2, MANY, 1, 2)),
        ((1, 1, 2, 2), (MANY, 1, 1, 1)),
        ((1, 2, MANY, 2), (2, 2, 3, 1)),
        ((1, 2, 2, MANY), (2, 2, 1, 3)),
    ],
    ids=str,
)
def test_convolutions_with_many_of_everything(shapes: tuple[Any, Any], device: str) -> None:
    against_pytorch(lambda f, v: f.conv2d(*v), *shapes, rtol=1e-5)


@pytest.mark.parametrize("inner", [1, 2])
def test_convolutions_with_many_groups(inner: int, device: str) -> None:
    x, weight, grad = normal(1, MANY * inner, 3, 2), normal(MANY, inner, 1, 2), normal(1, MANY, 3, 1)
    image, kernel = ag.param(x), ag.param(weight)
    with ag.grad_tape():
        out = ag.conv2d(image, kernel, groups=MANY)
    grads = ag.backward(out, grad)
    x, weight, grad = x.reshape(MANY, inner, 3, 2), weight[:, :, 0], grad[0, :, :, 0]
    np.testing.assert_allclose(out.numpy()[0, :, :, 0], np.einsum("gihw,giw->gh", x, weight), 1e-5, 1e-5)
    to_x = np.einsum("gh,giw->gihw", grad, weight).reshape(image.shape)
    np.testing.assert_allclose(grads[image].numpy(), to_x, 1e-5, 1e-5)
    np.testing.assert_allclose(grads[kernel].numpy()[:, :, 0], np.einsum("gh,gihw->giw", grad, x), 1e-5, 1e-5)


@pytest.mark.parametrize("shape", [(MANY, 1, 2, 3), (1, MANY, 2, 3), (1, 1, MANY, 3), (1, 1, 3, MANY)], ids=str)
@pytest.mark.parametrize("stride", [1, 2])
def test_pooling_with_many_of_everything(shape: tuple[int, ...], stride: int, device: str) -> None:
    against_pytorch(lambda f, v: f.max_pool2d(*v, 2, stride), shape)
    against_pytorch(lambda f, v: f.avg_pool2d(*v, 2, stride), shape)


def test_a_product_in_parts_is_what_it_is_as_a_whole(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = [((101, 5), (5, 3)), ((3, 5), (5, 101)), ((9, 101), (101, 3)), ((3, 101), (101, 9)), ((2, 9, 50), (50, 7)),
              ((2, 1, 3, 90), (5, 90, 101))]  # fmt: skip
    wholes = [normal(*a) @ normal(*b) for a, b in shapes]
    for limit in ("MOST_ROWS", "MOST_TERMS", "MOST_TERMS_OF_FEW"):
        monkeypatch.setattr(linalg, limit, 20)
    for (a, b), whole in zip(shapes, wholes, strict=True):
        np.testing.assert_allclose(ag.matmul(normal(*a), normal(*b)).numpy(), whole, 1e-5, 1e-5)


def test_a_product_with_more_rows_than_a_launch_has(device: str) -> None:
    x = np.arange(linalg.MOST_ROWS + 1, dtype=np.float32).reshape(-1, 1)
    np.testing.assert_array_equal(ag.matmul(x, np.ones((1, 2))).numpy(), np.repeat(x, 2, 1))


def test_a_product_with_more_terms_than_a_shader_has_rounds(device: str) -> None:
    a, b = (np.random.default_rng(seed).uniform(0.0, 1.0, (9, 2_200_000)).astype(np.float32) for seed in (1, 2))
    np.testing.assert_allclose(ag.matmul(a, b[:2].T).numpy(), a @ b[:2].T, 1e-4)


# ---------------------------------------------------------------- edges


def gradient(call: Callable[[ag.Tensor], ag.Tensor], x: np.ndarray) -> np.ndarray:
    leaf = ag.param(x)
    with ag.grad_tape():
        out = call(leaf)
    return ag.backward(out, np.ones(out.shape))[leaf].numpy()


def test_padding_never_takes_the_gradient_of_a_maximum(device: str) -> None:
    x = np.full((1, 1, 2, 2), -np.inf, np.float32)
    assert (ag.max_pool2d(ag.tensor(x), 2, 1, 1).numpy() == -np.inf).all()
    got = gradient(lambda v: ag.max_pool2d(v, 2, 1, 1), x)
    np.testing.assert_array_equal(got, [[[[4.0, 2.0], [2.0, 1.0]]]])  # nine windows: each its first element inside


def test_the_gradient_of_a_maximum_beside_an_infinity_is_finite(device: str) -> None:
    x = np.array([[[[np.inf, 1.0, -np.inf, 2.0]]]], np.float32)
    got = gradient(lambda v: ag.max_pool2d(v, (1, 2), 1), x)
    np.testing.assert_array_equal(got, [[[[1.0, 1.0, 0.0, 1.0]]]])


def test_a_kernel_keeps_nothing_from_elements_between_its_own(device: str) -> None:
    x = normal(1, 1, 5, 5)
    x[0, 0, 1::2] = np.nan
    x[0, 0, :, 1::2] = np.nan
    assert np.isfinite(ag.conv2d(ag.tensor(x), np.ones((1, 1, 3, 3)), dilation=2).numpy()).all()
    assert np.isfinite(ag.conv2d(ag.tensor(x), np.ones((1, 1, 1, 1)), stride=2).numpy()).all()


def test_resizing_one_axis_leaves_what_lies_beside_it(device: str) -> None:
    x = np.array([[[[1.0, 3.0], [np.nan, np.inf]]]], np.float32)
    got = ag.upsample(ag.tensor(x), (1, 2), mode="bilinear").numpy()
    np.testing.assert_array_equal(got[0, 0, 0], [1.0, 1.5, 2.5, 3.0])
    assert np.isnan(got[0, 0, 1]).all()
