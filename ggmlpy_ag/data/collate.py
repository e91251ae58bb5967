"""From samples to a batch: joined and converted on the host, and then brought to the device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backend.devices import Device
from ..ops.join import stack
from ..ops.select import take
from ..tensor import Tensor, as_numpy, tensor


@dataclass(frozen=True)
class Rows:
    """Rows of a table on a device, which stay there: taken by index when the batch is handed out."""

    table: Tensor
    indices: np.ndarray


def mapped(function: Callable[[Any], Any], parts: Any) -> Any:
    """A tuple (named or not), a list or a dict of the function's results."""
    if isinstance(parts, Mapping):
        return {key: function(part) for key, part in parts.items()}
    return _like(parts, [function(part) for part in parts])


def _like(parts: Any, values: list[Any]) -> Any:
    if isinstance(parts, tuple):
        return type(parts)(*values) if hasattr(parts, "_fields") else tuple(values)
    return values


def default_collate(samples: Sequence[Any]) -> Any:
    """Join samples along a new first axis, as in `torch.utils.data.default_collate`.

    Numbers and arrays become a NumPy array, tensors a tensor. Tuples, lists and mappings are joined part by part.
    Everything else, such as text, stays a list of the samples.

    Args:
        samples: at least one; all of the form of the first one.

    Raises:
        ValueError: no sample; arrays of different shapes, tuples of different lengths or mappings of different keys.

    >>> ag.data.default_collate([(np.zeros(2), 1), (np.ones(2), 5)])
    (array([[0., 0.],
           [1., 1.]]), array([1, 5]))
    """
    if not samples:
        raise ValueError("collate: there is no sample")
    first = samples[0]
    if isinstance(first, Tensor):
        return stack(samples)
    if isinstance(first, Mapping):
        _check_alike("keys", [set(s) if isinstance(s, Mapping) else s for s in samples])
        return {key: default_collate([s[key] for s in samples]) for key in first}
    if isinstance(first, (tuple, list)):
        _check_alike("length", [len(s) if isinstance(s, (tuple, list)) else s for s in samples])
        return _like(first, [default_collate(column) for column in zip(*samples, strict=True)])
    if isinstance(first, (int, float)) or hasattr(first, "__array__"):
        arrays = [np.asarray(s) for s in samples]
        _check_alike("shape", [a.shape for a in arrays])
        joined = np.stack(arrays)
        if _is_real(joined):
            return joined
    return list(samples)


def _check_alike(what: str, values: list[Any]) -> None:
    """Raise ValueError naming the first sample that differs from sample 0."""
    for i, value in enumerate(values):
        if value != values[0]:
            raise ValueError(
                f"collate: sample 0 has {what} {values[0]}, but sample {i} of the batch {value}: "
                "pass collate, a function that joins a list of samples (by padding, for instance)"
            )


def _is_real(array: np.ndarray) -> bool:
    return array.dtype.kind in "fiub"


def on_host(batch: Any) -> Any:
    """With arrays of real numbers as int32 or float32; those of anything else as lists."""
    if isinstance(batch, (Tensor, Rows)):
        return batch
    if isinstance(batch, (tuple, list, Mapping)):
        return mapped(on_host, batch)
    if hasattr(batch, "__array__"):
        array = np.asarray(batch)
        return as_numpy(array, None, "a batch") if _is_real(array) else array.tolist()
    return batch


def on_device(batch: Any, device: Device) -> Any:
    """With the arrays that `on_host` made as tensors on a device. Of tables on a device only indices are uploaded."""
    return _placed(batch, device, {})


def _placed(value: Any, device: Device, uploaded: dict[tuple[int, str], Tensor]) -> Any:
    if isinstance(value, Rows):
        key = id(value.indices), value.table.device
        if key not in uploaded:  # the columns of a source share them
            uploaded[key] = tensor(value.indices, device=value.table.device)
        value = take(value.table, uploaded[key])
    if isinstance(value, Tensor):
        return value.to(device.name)
    if isinstance(value, np.ndarray):
        return Tensor(device.upload(value))
    if isinstance(value, (tuple, list, Mapping)):
        return mapped(lambda part: _placed(part, device, uploaded), value)
    return value
