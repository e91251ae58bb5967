"""The state of an optimizer as NumPy arrays and plain values, and the checks that it fits another one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backend.array import FLOAT
from ..tensor import Tensor, as_numpy
from .checks import check_count
from .state import MASTER, ParameterState

if TYPE_CHECKING:
    from .optimizer import Optimizer


def saved(optimizer: Optimizer) -> dict[str, Any]:
    """See `Optimizer.state_dict`."""
    params = optimizer.params
    numbers = {id(param): i for i, param in enumerate(params)}
    groups = []
    for group in optimizer.param_groups:
        plain = {name: _plain(value) for name, value in group.items() if name != "params"}
        groups.append({**plain, "params": [numbers[id(param)] for param in group["params"]]})
    arrays = {}
    for i, param in enumerate(params):
        state = optimizer.state.get(param)
        if state is not None and state.arrays:
            state.settle()
            arrays[i] = {name: array.device.download(array) for name, array in state.arrays.items()}
    return {"kind": type(optimizer).__name__, "param_groups": groups, "steps": optimizer.steps, "state": arrays}


def _plain(value: Any) -> Any:
    """A hyperparameter as JSON has it."""
    if isinstance(value, (tuple, list)):
        return [_plain(v) for v in value]
    return value.item() if isinstance(value, np.generic) else value


def read(optimizer: Optimizer, state: Any) -> tuple[list[dict[str, Any]], dict[Tensor, ParameterState]]:
    """The hyperparameters of each group and the state of each parameter, once all of it is sure to fit.

    Raises:
        ValueError, TypeError: see `Optimizer.load_state_dict`.
    """
    _check_mapping("the state of an optimizer", state)
    missing = {"kind", "param_groups", "steps", "state"} - set(state)
    if missing:
        raise ValueError(f"this is no state of an optimizer: it lacks {', '.join(sorted(missing))}")
    if state["kind"] != type(optimizer).__name__:
        raise ValueError(f"this is a state of {state['kind']}, not of {type(optimizer).__name__}")
    return _read_groups(optimizer, state["param_groups"]), _read_parameters(optimizer, state["steps"], state["state"])


def _read_groups(optimizer: Optimizer, groups: Any) -> list[dict[str, Any]]:
    _check_list("param_groups", groups, len(optimizer.param_groups))
    found = []
    for number, (theirs, own) in enumerate(zip(groups, optimizer.param_groups, strict=True)):
        _check_mapping(f"param_groups[{number}]", theirs)
        new = {name: tuple(value) if isinstance(value, list) else value for name, value in theirs.items()}
        optimizer.check_group(number, new)
        _check_list(f'"params" of param_groups[{number}]', new.pop("params"), len(own["params"]))
        found.append(new)
    return found


def _read_parameters(optimizer: Optimizer, steps: Any, state: Any) -> dict[Tensor, ParameterState]:
    params = optimizer.params
    _check_list("steps", steps, len(params))
    _check_mapping("state", state)
    numbers = {key: i for i in range(len(params)) for key in (i, str(i))}
    for key in state:
        if key not in numbers:
            raise ValueError(f"the state names parameter {key!r}, but there are {len(params)}")
    arrays = {numbers[key]: values for key, values in state.items()}
    checked = []
    for i, (param, count) in enumerate(zip(params, steps, strict=True)):
        check_count(f"steps[{i}]", count, 0)
        checked.append(_read_arrays(optimizer, i, param, count, arrays.get(i, {})))
    found = {}
    for param, count, values in zip(params, steps, checked, strict=True):
        if count or values:
            new = found[param] = ParameterState(param)
            new.steps = int(count)
            new.arrays = {name: param._array.device.upload(array) for name, array in values.items()}
    return found


def _read_arrays(optimizer: Optimizer, i: int, param: Tensor, steps: int, arrays: Any) -> dict[str, np.ndarray]:
    _check_mapping(f"the state of parameter {i}", arrays)
    expected = {*optimizer.state_names, *(() if param.dtype == FLOAT else (MASTER,))}
    if (steps and not expected <= set(arrays)) or set(arrays) - expected - set(optimizer.optional_names):
        raise ValueError(f"the state of parameter {i} has {sorted(arrays)}, expected {sorted(expected)}")
    for name, values in arrays.items():
        if np.shape(values) != param.shape:
            raise ValueError(f"{name} of parameter {i} has shape {np.shape(values)}, the parameter {param.shape}")
    return {name: as_numpy(values, FLOAT, f"{name} of parameter {i}") for name, values in arrays.items()}


def _check_mapping(name: str, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} must be a mapping, not {type(value).__name__}")


def _check_list(name: str, value: Any, count: int) -> None:
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"{name} must be a list, not {type(value).__name__}")
    if len(value) != count:
        raise ValueError(f"{name} of the state has {len(value)} entries, expected {count}")
