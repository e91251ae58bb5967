"""Gradient clipping."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..ops import clamp, sqrt, sum
from ..tape import no_grad
from ..tensor import Tensor
from .optimizer import check_range


@no_grad()
def clip_grad_norm(params: Iterable[Tensor] | Mapping[str, Tensor], max_norm: float) -> Tensor:
    """Scale all gradients together so that their L2 norm is at most `max_norm`; returns the norm before (a scalar).

    As `torch.nn.utils.clip_grad_norm_`: the factor is min(1, max_norm / (norm + 1e-6)). It stays on the device.

    Raises:
        ValueError: no parameter has a gradient, or max_norm is negative.
    """
    check_range("max_norm", max_norm, 0.0)
    tensors = list(params.values() if isinstance(params, Mapping) else params)
    grads = [(t, t.grad) for t in {id(t): t for t in tensors}.values() if t.grad is not None]
    if not grads:
        raise ValueError("clip_grad_norm: no parameter has a gradient; call backward first")
    wide = [grad.astype("float32") for _, grad in grads]  # squares overflow float16 at 256
    first, *rest = (sum(g * g) for g in wide)
    for part in rest:
        first = first + part
    norm = sqrt(first)
    factor = clamp(max_norm / (norm + 1e-6), high=1.0)
    for tensor, grad in grads:
        tensor.grad = (grad * factor).astype(grad.dtype)
    return norm
