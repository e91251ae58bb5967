"""States (nested dicts and lists of numbers, text and arrays) as JSON and a flat mapping of arrays, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..tensor import Tensor

# What JSON does not have is an object of one of these names: an array by its name, a tuple, and a dict by its items
# if it has keys that are no text, or that look like these.
ARRAY, TUPLE, ITEMS = "$array", "$tuple", "$items"


def pack(value: Any, path: str, arrays: dict[str, Tensor | np.ndarray]) -> Any:
    """What JSON can hold of a value; arrays and tensors go to `arrays`, under their path.

    Raises:
        TypeError: names the path of what is none of these, which only a pickle could hold.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (Tensor, np.ndarray)):
        while path in arrays:  # {"a.b": x, "a": {"b": y}}
            path += "_"
        arrays[path] = value
        return {ARRAY: path}
    if isinstance(value, (list, tuple)):
        items = [pack(item, f"{path}.{i}", arrays) for i, item in enumerate(value)]
        return {TUPLE: items} if isinstance(value, tuple) else items
    if isinstance(value, Mapping):
        packed = [(key, pack(item, f"{path}.{key}", arrays)) for key, item in value.items()]
        if all(isinstance(key, str) and not key.startswith("$") for key, _ in packed):
            return dict(packed)
        return {ITEMS: [[pack(key, f"{path} (a key)", arrays), item] for key, item in packed]}
    raise TypeError(
        f"{path} is a {type(value).__name__}: a checkpoint holds numbers, text, None, arrays, and lists, tuples and "
        "dicts of these"
    )


def unpack(packed: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """The value; raises LookupError, TypeError or ValueError for what `pack` does not make."""
    if isinstance(packed, list):
        return [unpack(item, arrays) for item in packed]
    if not isinstance(packed, dict):
        return packed
    if ARRAY in packed:
        return arrays[packed[ARRAY]]
    if TUPLE in packed:
        return tuple(unpack(packed[TUPLE], arrays))
    if ITEMS in packed:
        return {unpack(key, arrays): unpack(item, arrays) for key, item in packed[ITEMS]}
    return {key: unpack(item, arrays) for key, item in packed.items()}
