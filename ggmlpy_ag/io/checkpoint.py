"""Checkpoints: all that a training run goes on from, in one safetensors file."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..backend.array import BFLOAT, from_bfloat
from ..nn import Module
from ..ops.base import integer
from ..ops.random import get_rng_state, set_rng_state
from ..tensor import Tensor
from .safetensors import Contents, FileFormatError, write
from .state import pack, unpack

FORMAT = "ggmlpy_ag checkpoint"
VERSION = 1  # of the format; raise it when older versions of this file would misread the new ones


class Stateful(Protocol):
    """An optimizer, a schedule, a data loader, or anything else with a state, unchanged when it raises as it loads."""

    def state_dict(self) -> Mapping[str, Any]: ...
    def load_state_dict(self, state: Any, /) -> Any: ...


class _RandomNumbers:
    """Those of `ag.manual_seed`, as a part."""

    def state_dict(self) -> dict[str, Any]:
        return get_rng_state()

    def load_state_dict(self, state: Any) -> None:
        set_rng_state(state)


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint holds besides the parts that were loaded.

    Attributes:
        step: the number that was saved.
        extra: the value that was saved, or None.
    """

    step: int
    extra: Any


def save_checkpoint(
    path: str | os.PathLike[str],
    model: Module | None = None,
    optimizer: Stateful | None = None,
    schedule: Stateful | None = None,
    step: int = 0,
    loader: Stateful | None = None,
    extra: Any = None,
) -> None:
    """Write all that a run goes on from to one file: a safetensors file, with a checksum, without pickle.

    The state of the random numbers (`ag.get_rng_state`) is saved too. The file is written beside `path`, synced to the
    disk and renamed: at any time, whatever ends the process, `path` is a whole checkpoint, the old one or the new one.
    Needs the extra: `pip install 'ggmlpy_ag[files]'`.

    Args:
        path: of the file.
        model: its parameters and persistent buffers are saved.
        optimizer: anything with `state_dict()`.
        schedule: likewise.
        step: how far the run is, a number of yours from 0 on.
        loader: likewise with `state_dict()`.
        extra: what else you want to have back: numbers, text, None, NumPy arrays, and lists, tuples and dicts of these.
            Tensors come back as NumPy arrays.

    Raises:
        TypeError: a part without a state; a state, or `extra`, that holds something else. ValueError: a negative step.
        OSError: the file cannot be written.
    """
    step = integer("save_checkpoint", "step", step)
    if step < 0:
        raise ValueError(f"save_checkpoint: step must not be negative, not {step}")
    parts = _parts("save_checkpoint", model, optimizer, schedule, _RandomNumbers(), loader)
    arrays: dict[str, Tensor | np.ndarray] = {}
    state = {
        "step": step,
        "extra": pack(extra, "extra", arrays),
        "parts": {name: pack(part.state_dict(), name, arrays) for name, part in parts.items()},
    }
    metadata = {"format": FORMAT, "version": str(VERSION), "state": json.dumps(state)}
    write(path, arrays, metadata, sealed=True)


def load_checkpoint(
    path: str | os.PathLike[str],
    model: Module | None = None,
    optimizer: Stateful | None = None,
    schedule: Stateful | None = None,
    loader: Stateful | None = None,
    random: bool = True,
) -> Checkpoint:
    """Put the state that `save_checkpoint` wrote into the parts given here; parts that are not given are left out.

    All or nothing: after an error every part is as it was, to the bit.

    Args:
        path: of the file.
        model: of the same structure as the one saved; values are rounded to its types.
        optimizer: of the same kind, over parameters of the same shapes in the same order.
        schedule: of the same kind.
        loader: over the same data.
        random: whether to go on with the random numbers from where they were (`ag.set_rng_state`).

    Returns:
        The step and the extra value that were saved.

    Raises:
        FileFormatError: it is no checkpoint, is damaged, or comes from a newer version of this library.
        ValueError: it lacks a part, or the state of a part does not fit. TypeError: a part without a state.
        OSError: the file cannot be read.
    """
    parts = _parts("load_checkpoint", model, optimizer, schedule, _RandomNumbers() if random else None, loader)
    contents = _contents(path)
    state = _state(contents)
    saved = state["parts"]
    missing = [name for name in parts if name not in saved]
    if missing:
        raise ValueError(f"{contents.path} lacks the state of {', '.join(missing)}: it has {', '.join(saved)}")
    _load(contents.path, parts, saved)
    return Checkpoint(state["step"], state["extra"])


def _load(path: str, parts: Mapping[str, Stateful], state: Mapping[str, Any]) -> None:
    """Load all parts, or none: after an error, those that were loaded get their own state back, the last one first."""
    with ExitStack() as undo:
        for name, part in parts.items():
            before = _copied(part.state_dict())
            try:
                part.load_state_dict(state[name])
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
                raise ValueError(f"{path}: the state of {name} does not fit: {error}") from error
            except BaseException:  # an interrupt, with which it may be half loaded
                undo.callback(part.load_state_dict, before)
                raise
            undo.callback(part.load_state_dict, before)
        undo.pop_all()


def _parts(function: str, model: Any, *others: Any) -> dict[str, Stateful]:
    """The parts that were given, by the names that they have in a file, in the order of their loading."""
    if model is not None and not isinstance(model, Module):
        raise TypeError(f"{function}: model must be a Module, not {type(model).__name__}")
    names = ("model", "optimizer", "schedule", "random", "loader")
    parts = {name: part for name, part in zip(names, (model, *others), strict=True) if part is not None}
    for name, part in parts.items():
        if not hasattr(part, "state_dict") or not hasattr(part, "load_state_dict"):
            raise TypeError(
                f"{function}: {name} must have state_dict and load_state_dict; {type(part).__name__} has not"
            )
    return parts


def _copied(state: Mapping[str, Any]) -> dict[str, Any]:
    """What a model's state shares with it, and another's may, copied."""
    return {n: value.numpy() if isinstance(value, Tensor) else copy.deepcopy(value) for n, value in state.items()}


def _contents(path: str | os.PathLike[str]) -> Contents:
    """The file, if it is an undamaged checkpoint that this version knows."""
    contents = Contents(path)
    if contents.metadata.get("format") != FORMAT:
        raise FileFormatError(f"{contents.path} is no checkpoint of this library; ag.io.load reads other files")
    version = contents.metadata.get("version")
    if version != str(VERSION):
        raise FileFormatError(
            f"{contents.path} has version {version} of the format, and this library reads version {VERSION}: "
            "it comes from a newer release, or is damaged"
        )
    if not contents.intact():
        raise FileFormatError(f"{contents.path} is damaged: its checksum is not that of its contents")
    return contents


def _state(contents: Contents) -> dict[str, Any]:
    """What was packed. Arrays of the model and the optimizer are those of the file: these two copy them."""
    arrays = {}
    for name, array in contents.arrays().items():
        if array.dtype == BFLOAT:
            arrays[name] = from_bfloat(array)
        else:
            arrays[name] = array if name.startswith(("model.", "optimizer.")) else array.copy()
    try:
        state = unpack(json.loads(contents.metadata["state"]), arrays)
        if (
            set(state) != {"step", "extra", "parts"}
            or type(state["step"]) is not int
            or type(state["parts"]) is not dict
        ):
            raise ValueError("another structure")
    except (LookupError, TypeError, ValueError, RecursionError) as error:
        raise FileFormatError(f"{contents.path} is no sound checkpoint: {error!r}") from None
    return state  # type: ignore[no-any-return]
