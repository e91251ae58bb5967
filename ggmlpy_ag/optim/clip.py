"""Gradients that are too large, and gradients that are no numbers."""

from __future__ import annotations

import math
import warnings

from ..ops import abs, clamp, eq, max, ne, sqrt, square, stack, sum
from ..tape import no_grad
from ..tensor import Tensor
from .checks import NamedTensors, check_choice, check_flag, check_range, named_tensors


def _with_gradient(op: str, params: NamedTensors) -> list[tuple[str, Tensor, Tensor]]:
    """Name, parameter and gradient of those that have one."""
    found = [(name, p, p.grad) for name, p in named_tensors(params) if p.grad is not None]
    if not found:
        raise ValueError(f"{op}: no parameter has a gradient; call backward first")
    return found


@no_grad()
def clip_grad_norm(
    params: NamedTensors, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False
) -> Tensor:
    """Scale all gradients together so that their norm is at most `max_norm`.

    As `torch.nn.utils.clip_grad_norm_`: the norm is that of all gradients as one vector, and the factor
    min(1, max_norm / (norm + 1e-6)). Both stay on the device. It is one norm also of parameters on several devices,
    between which only numbers move.

    Args:
        params: a module, or a list or mapping of tensors; those without a gradient do not count.
        max_norm: not negative; `math.inf` scales nothing, and the norm is just measured.
        norm_type: 1, 2 or `math.inf`, the greatest magnitude.
        error_if_nonfinite: raise when the norm is infinite or NaN, instead of scaling by that. This reads the norm.

    Returns:
        The norm before, a scalar on the device of the first gradient.

    Raises:
        ValueError: no parameter has a gradient, max_norm is negative, or there is no such norm.
        RuntimeError: the norm is not finite, and `error_if_nonfinite`; the gradients are as before then.
    """
    if max_norm != math.inf:
        check_range("max_norm", max_norm, 0.0)
    check_choice("norm_type", norm_type, (1.0, 2.0, math.inf))
    check_flag("error_if_nonfinite", error_if_nonfinite)
    found = _with_gradient("clip_grad_norm", params)
    norm = _norm([grad.astype("float32") for _, _, grad in found], norm_type)  # squares overflow float16 at 256
    if error_if_nonfinite and not math.isfinite(norm.item()):
        raise RuntimeError(f"clip_grad_norm: the norm of the gradients is {norm.item()}; see check_grad_anomaly")
    if max_norm == math.inf:
        return norm
    factor = clamp(max_norm / (norm + 1e-6), high=1.0)
    factors = {grad.device: factor.to(grad.device) for _, _, grad in found}
    scaled = [(grad * factors[grad.device]).astype(grad.dtype) for _, _, grad in found]
    for (_, param, _), grad in zip(found, scaled, strict=True):
        param.grad = grad
    return norm


def _norm(grads: list[Tensor], norm_type: float) -> Tensor:
    """Of all gradients as one vector."""
    magnitude, joint = square if norm_type == 2.0 else abs, max if norm_type == math.inf else sum
    by_device: dict[str, list[Tensor]] = {}
    for grad in grads:
        by_device.setdefault(grad.device, []).append(joint(magnitude(grad)))
    parts = [joint(stack(some)).to(grads[0].device) for some in by_device.values()]
    total = joint(stack(parts))
    return sqrt(total) if norm_type == 2.0 else total


@no_grad()
def clip_grad_value(params: NamedTensors, max_value: float) -> None:
    """Limit each element of the gradients to [-max_value, max_value], as `torch.nn.utils.clip_grad_value_` does.

    NaN stays NaN.

    Args:
        params: a module, or a list or mapping of tensors; those without a gradient do not count.
        max_value: not negative.

    Raises:
        ValueError: no parameter has a gradient, or max_value is negative.
    """
    check_range("max_value", max_value, 0.0)
    found = _with_gradient("clip_grad_value", params)
    clipped = [clamp(grad, -max_value, max_value) for _, _, grad in found]
    for (_, param, _), grad in zip(found, clipped, strict=True):
        param.grad = grad


@no_grad()
def check_grad_anomaly(params: NamedTensors, action: str = "warn") -> list[str]:
    """Find the parameters whose gradient has NaN or infinite elements.

    They are counted on the device; one read for all parameters (for each device) brings the counts.

    Args:
        params: a module, a mapping or pairs, whose names are reported; or a list, whose positions are. Those without a
            gradient do not count.
        action: what to do when there are some: "warn" with a RuntimeWarning, "raise" a RuntimeError, or "ignore".

    Returns:
        Their names.

    Raises:
        ValueError: another action. RuntimeError: as the action says, naming them.
    """
    check_choice("action", action, ("warn", "raise", "ignore"))
    grads = [(name, p.grad) for name, p in named_tensors(params) if p.grad is not None]
    counts: dict[str, list[Tensor]] = {}
    for _, grad in grads:
        odd = stack([sum(ne(grad, grad)), sum(eq(abs(grad), math.inf))])  # only NaN differs from itself
        counts.setdefault(grad.device, []).append(odd)
    rows = {device: iter(stack(some).tolist()) for device, some in counts.items()}
    found = {}
    for name, grad in grads:
        lost, infinite = next(rows[grad.device])
        if lost or infinite:
            found[name] = f"{name} ({lost:.0f} NaN, {infinite:.0f} infinite)"
    if found and action != "ignore":
        message = f"gradients that are not finite: {', '.join(found.values())}"
        if action == "raise":
            raise RuntimeError(message)
        warnings.warn(message, RuntimeWarning, stacklevel=3)
    return list(found)
