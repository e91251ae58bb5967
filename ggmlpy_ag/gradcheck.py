"""Check gradients against central differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .tape import backward, grad_tape
from .tensor import Tensor, tensor


class GradcheckError(AssertionError):
    """A gradient disagrees with finite differences."""


def gradcheck(
    fn: Callable[..., Tensor], inputs: Sequence[Tensor], eps: float = 5e-3, tol: float = 2e-3, seed: int = 0
) -> bool:
    """Compare the gradients of `fn(*inputs)` with central differences, element by element.

    The result is reduced to a number by random weights, in float64 on the host. Differences are extrapolated from the
    steps `eps` and `eps / 2` (Richardson), so that the float32 results, not the formula, limit the accuracy.

    Args:
        fn: takes tensors like `inputs`, returns a float32 tensor of any shape. It runs inside a `grad_tape`, so that
            it may return a gradient, from `backward(..., create_graph=True)`.
        inputs: those that require a gradient are checked; all values should be about 1.
        eps: step. tol: accepted |difference| / (1 + |gradient|). seed: of the random weights.

    Returns:
        True.

    Raises:
        GradcheckError: naming input, element and both values of the worst disagreement.
        ValueError: no input requires a gradient.

    >>> ag.gradcheck(lambda x: ag.tanh(x) * 2.0, [ag.param([0.5, -1.0])])
    True
    """
    if not any(t.requires_grad for t in inputs):
        raise ValueError("gradcheck: no input requires a gradient")
    values = [t.numpy() for t in inputs]
    fresh = [_like(t, v) for t, v in zip(inputs, values, strict=True)]
    with grad_tape() as tape:
        out = fn(*fresh)
    weights = np.random.default_rng(seed).uniform(0.5, 1.5, out.shape).astype(np.float32)
    grads = backward(out, weights)
    tape.clear()

    def total(i: int, changed: np.ndarray) -> float:
        tensors = [_like(t, changed if k == i else v) for k, (t, v) in enumerate(zip(inputs, values, strict=True))]
        with grad_tape() as tape:  # `fn` may return a gradient, computed on this tape
            result = fn(*tensors).numpy().astype(np.float64)
        tape.clear()
        return float(np.sum(result * weights))

    worst: tuple[float, str] = (0.0, "")
    for i, original in enumerate(inputs):
        if not original.requires_grad:
            continue
        found = grads[fresh[i]].numpy() if fresh[i] in grads else np.zeros(original.shape, np.float32)
        for at in np.ndindex(original.shape):
            coarse, fine = (_slope(total, i, values[i], at, step) for step in (eps, eps / 2))
            expected = (4.0 * fine - coarse) / 3.0
            error = abs(float(found[at]) - expected) / (1.0 + abs(expected))
            if not error <= worst[0]:  # NaN counts as worst
                worst = (error, f"input {i}, element {at}: gradient {found[at]:.6g}, finite differences {expected:.6g}")
    if not worst[0] <= tol:
        raise GradcheckError(f"gradcheck: {worst[1]} (error {worst[0]:.2g}, tolerance {tol:g})")
    return True


def _like(original: Tensor, values: np.ndarray) -> Tensor:
    return tensor(values, device=original.device, requires_grad=original.requires_grad)


def _slope(
    total: Callable[[int, np.ndarray], float], i: int, values: np.ndarray, at: tuple[int, ...], step: float
) -> float:
    upper, lower = values.copy(), values.copy()
    upper[at] += np.float32(step)
    lower[at] -= np.float32(step)
    return (total(i, upper) - total(i, lower)) / float(upper[at] - lower[at])
