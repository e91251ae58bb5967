"""Class indices that are on the device, and samples that are ignored."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import ggmlpy_ag as ag

LOGITS = np.random.default_rng(9).standard_normal((5, 4)).astype(np.float32)


def computed(values: list[int]) -> ag.Tensor:
    """An int32 tensor that nobody on the host has seen."""
    return (ag.tensor(np.array(values, np.float32)) * 1.0).astype("int32")


LOSSES: dict[str, Callable[..., ag.Tensor]] = {
    "cross_entropy_loss": ag.cross_entropy_loss,
    "nll_loss": lambda x, *rest, **options: ag.nll_loss(ag.log_softmax(x), *rest, **options),
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("ignored", [-100, 2, 1000])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_computed_indices_are_not_downloaded(
    loss: str, ignored: int, weighted: bool, reduction: str, device: str
) -> None:
    values = [0, ignored, 3, 2, ignored]
    options = {"ignore_index": ignored, "reduction": reduction}
    if weighted:
        options["weight"] = ag.tensor([1.0, 0.5, 2.0, 3.0])
    results = []
    for target in (values, computed(values), ag.tensor(np.array(values, np.int32))):
        logits = ag.param(LOGITS)
        before = ag.counters().downloads
        with ag.grad_tape():
            out = LOSSES[loss](logits, target, **options)
        if target is not values and 0 <= ignored < 4:
            assert ag.counters().downloads == before
        grads = ag.backward(out, np.ones(out.shape))
        results.append((out.numpy(), grads[logits].numpy()))
    for got, grad in results[1:]:
        np.testing.assert_array_equal(got, results[0][0])
        np.testing.assert_array_equal(grad, results[0][1])


@pytest.mark.parametrize("loss", LOSSES)
def test_computed_indices_are_limited_to_the_classes(loss: str, device: str) -> None:
    before = ag.counters().downloads
    out = LOSSES[loss](LOGITS, computed([-5, 7, 3, 2**30, -(2**31)]), reduction="none")
    assert ag.counters().downloads == before
    np.testing.assert_array_equal(out.numpy(), LOSSES[loss](LOGITS, [0, 3, 3, 3, 0], reduction="none").numpy())


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("target", [[-100] * 5, computed], ids=["host", "device"])
def test_a_mean_over_nothing_is_nan_without_gradient(loss: str, target: object, device: str) -> None:
    logits = ag.param(LOGITS)
    with ag.grad_tape():
        out = LOSSES[loss](logits, target([-100] * 5) if callable(target) else target)
    assert np.isnan(out.item())
    assert not ag.backward(out)[logits].numpy().any()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_an_infinite_loss_that_is_ignored_adds_nothing(smoothing: float, device: str) -> None:
    logits = LOGITS.copy()
    logits[1, 0] = -np.inf
    leaf = ag.param(logits)
    with ag.grad_tape():
        out = ag.cross_entropy_loss(leaf, [1, -100, 2, 3, 0], label_smoothing=smoothing, reduction="sum")
    rest = ag.cross_entropy_loss(logits[[0, 2, 3, 4]], [1, 2, 3, 0], label_smoothing=smoothing, reduction="sum")
    assert out.item() == pytest.approx(rest.item(), rel=1e-6)
    assert not ag.backward(out)[leaf].numpy()[1].any()
