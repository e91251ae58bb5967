"""Saving tensors by name, and loading them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..backend import devices
from ..nn import Module
from ..tensor import Tensor, as_numpy, parse_dtype
from .safetensors import Contents, write


def save(
    tensors: Mapping[str, Tensor | np.ndarray] | Module,
    path: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write tensors to a safetensors file.

    The file is written beside `path`, synced to the disk and renamed: a save that fails, or is killed, leaves what was
    there. Needs the extra: `pip install 'ggmlpy_ag[files]'`.

    Args:
        tensors: by name; or a module, of which it saves the `state_dict()`. NumPy arrays keep their type: float64 and
            int64 are written as such.
        path: of the file.
        metadata: text under text, for `load_metadata`.

    Raises:
        TypeError: an entry that is neither a tensor nor an array of real numbers; metadata that are no text.
        OSError: the file cannot be written.
    """
    if isinstance(tensors, Module):
        tensors = tensors.state_dict()
    if not isinstance(tensors, Mapping):
        raise TypeError(
            f"save: tensors must be a mapping of names to tensors, or a Module, not {type(tensors).__name__}"
        )
    write(path, tensors, metadata or {})


def load(path: str | os.PathLike[str], device: str | None = None, dtype: Any = None) -> dict[str, Tensor]:
    """Read the tensors of a safetensors file, each straight from a memory map of the file to the device.

    Types are those of the file. Integers of other widths become int32 and booleans float32, as in `ag.tensor`.

    Args:
        path: of the file, from `save` or any other program.
        device: a device name; by default the default device.
        dtype: "float32", "float16" or "bfloat16", to which floats are rounded; int32 stays.

    Returns:
        The tensors by name; none requires a gradient.

    Raises:
        FileFormatError: it is no safetensors file, is damaged, or has types that no array here can hold.
        ValueError: a tensor of more than four dimensions or without elements, integers outside int32; float64 without
            a `dtype` to round to; an unknown device. TypeError: another `dtype`. OSError: the file cannot be read.
    """
    wanted = None if dtype is None else parse_dtype(dtype)
    if wanted is not None and wanted.kind == "i":
        raise TypeError(f"load: dtype must be a float type, not {wanted.name}")
    where = devices.get(device)
    found = {}
    contents = Contents(path)
    for name, array in contents.arrays().items():
        values = _for_device(array, wanted, f"{contents.path}: tensor {name}")
        found[name] = Tensor(where.upload(values, name))
    return found


def load_metadata(path: str | os.PathLike[str]) -> dict[str, str]:
    """The metadata of a safetensors file.

    Args:
        path: of the file.

    Raises:
        FileFormatError: it is no safetensors file. OSError: it cannot be read.
    """
    return Contents(path).metadata


def _for_device(array: np.ndarray, dtype: np.dtype | None, name: str) -> np.ndarray:
    """An array of a file as a device can hold it, without a copy where the type stays."""
    if array.dtype == np.float64 and dtype is None:
        raise ValueError(f'{name} is float64: pass dtype="float32" to round it')
    if array.dtype.kind in "iu":
        dtype = None
    elif dtype is None and array.dtype != bool:
        dtype = array.dtype
    return as_numpy(array, dtype, name)
