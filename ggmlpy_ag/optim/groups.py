"""Parameter groups: which parameters share their hyperparameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from typing import Any, TypeAlias

from ..tensor import Tensor
from .checks import Named, NamedTensors, check_range, named_tensors

# Tensors, by name or not, or groups: mappings of "params" and the hyperparameters in which they differ
Params: TypeAlias = NamedTensors | Iterable[Mapping[str, Any]]


def as_groups(params: Params) -> list[Mapping[str, Any]]:
    """What an optimizer was given, as groups.

    Raises:
        TypeError: one tensor, or tensors and groups mixed.
    """
    if isinstance(params, Tensor):
        raise TypeError("params must be a list or a mapping of tensors, not one tensor")
    if hasattr(params, "named_parameters") or isinstance(params, (Mapping, Set)) or not isinstance(params, Iterable):
        return [{"params": params}]
    entries: list[Any] = list(params)
    if not any(isinstance(entry, Mapping) for entry in entries):
        return [{"params": entries}]
    for i, entry in enumerate(entries):
        if not isinstance(entry, Mapping):
            raise TypeError(f"entry {i} of params is no group but a {type(entry).__name__}: give groups alone")
    return entries


def trainable(params: Any) -> list[Tensor]:
    """The parameters of a group, each once.

    Raises:
        ValueError: there is none. TypeError: something that cannot be trained, or a set, which has no order.
    """
    if isinstance(params, Set):
        raise TypeError("params must be a list or a mapping of tensors, not a set: a saved state goes by their order")
    found = []
    for name, param in named_tensors(params):
        if not param.requires_grad or param._node is not None:
            raise TypeError(
                f"a parameter must be a leaf that requires a gradient, and parameter {name} of shape {param.shape} is "
                "none; leave frozen ones out: [p for p in model.parameters() if p.requires_grad]"
            )
        if not param._array.packed:
            raise TypeError(f"a parameter must be contiguous; parameter {name} of shape {param.shape} is a view")
        found.append(param)
    if not found:
        raise ValueError("an optimizer, or a group of its parameters, needs at least one parameter")
    return found


def decay_groups(
    params: Named | Mapping[str, Tensor],
    weight_decay: float,
    exclude: Callable[[str, Tensor], bool] = lambda name, param: param.ndim < 2,
) -> list[dict[str, Any]]:
    """Two parameter groups: one whose weights decay, and one of what is excluded, such as biases and norms.

        optimizer = ag.optim.AdamW(ag.optim.decay_groups(model, 0.1), lr=3e-4)

    Args:
        params: a module, or a mapping of names to tensors; those that require no gradient are left out.
        weight_decay: of the first group, not negative; that of the second is 0.
        exclude: takes the name and the tensor, and says whether it shall not decay; by default those of fewer than
            two dimensions.

    Returns:
        The groups that have parameters, the decaying one first.

    Raises:
        ValueError: a negative weight_decay. TypeError: params have no names, or hold something that is no tensor.
    """
    check_range("weight_decay", weight_decay, 0.0)
    if not isinstance(params, Mapping) and not hasattr(params, "named_parameters"):
        raise TypeError(f"params must be a module or a mapping of names to tensors, not {type(params).__name__}")
    parts: dict[bool, list[Tensor]] = {False: [], True: []}
    for name, param in named_tensors(params):
        if param.requires_grad:
            parts[bool(exclude(name, param))].append(param)
    groups = [
        {"params": parts[False], "weight_decay": weight_decay},
        {"params": parts[True], "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]
