"""Each ggml primitive that the engine uses, recorded directly: against NumPy, and every device against the CPU."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from primtable import (
    ENTRIES,
    MANY,
    TYPES,
    Difference,
    Entry,
    Sample,
    allowed,
    floats,
    forbidden,
    normal,
    patterns,
    place,
    same,
)

import ggmlpy_ag as ag
from ggmlpy_ag.backend import devices
from ggmlpy_ag.backend import primitives as prim
from ggmlpy_ag.backend.array import BFLOAT, FLOAT, HALF, INT, Array
from ggmlpy_ag.backend.counters import COUNTS
from ggmlpy_ag.backend.devices import Device
from ggmlpy_ag.backend.primitives import Primitive

NAMES = {id(value): name for name, value in vars(prim).items() if isinstance(value, Primitive)}
WRITERS = (prim.ASSIGN, prim.ADAMW_STEP, prim.SGD_STEP)
DEVICES = ag.devices()


def on_devices(*rows: tuple[Any, ...]) -> pytest.MarkDecorator:
    """Run for rows of (entry, sample ..) on each device that has the entry's engine."""
    engines = {info.name: ("main", "blas") if info.name == "cpu" and devices.blas_name() else ("main",) for info in DEVICES}
    cases = [
        pytest.param(name, *row, id="-".join([name, NAMES[id(row[0].primitive)], *map(str, row[1:])]))
        for name, engine in engines.items()
        for row in rows
        if row[0].primitive.engine in engine
    ]
    return pytest.mark.parametrize(("device", "entry", "sample")[: 1 + len(rows[0])], cases, indirect=["device"])


def record(entry: Entry, arrays: Sequence[Array], values: Sequence[np.ndarray], parameters: Sequence[Any]) -> Array:
    """The primitive's result, not computed yet, on the operands' device or on the default one."""
    device = arrays[0].device if arrays else devices.get()
    wanted = entry.expected(values, parameters)
    dtype = {np.dtype(np.float16): HALF, BFLOAT: BFLOAT, np.dtype(np.int32): INT}.get(wanted.dtype, FLOAT)
    return device.graph.record(entry.primitive, arrays, wanted.shape, dtype, *parameters)


def compute(device: Device, entry: Entry, sample: Sample) -> np.ndarray:
    values = sample.arrays()
    with ag.device(device.name):
        return device.download(record(entry, [device.upload(v) for v in values], values, sample.parameters))


def check(device: str, entry: Entry, sample: Sample, edge: bool = False) -> None:
    """Compare with NumPy, on each device alike: so each agrees with the CPU, to the bit or within twice the tolerance."""
    got = compute(devices.get(device), entry, sample)
    entry.check(got, sample.arrays(), sample.parameters, edge)


# ---------------------------------------------------------------- the table


def test_every_primitive_is_tested() -> None:
    tested = [id(entry.primitive) for entry in ENTRIES] + [id(primitive) for primitive in WRITERS]
    assert len(tested) == len(set(tested))
    assert set(tested) == set(NAMES), [NAMES.get(i) for i in set(tested) ^ set(NAMES)]
    assert {id(p) for p in WRITERS} == {id(p) for p in vars(prim).values() if isinstance(p, Primitive) and p.writes}


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: NAMES[id(e.primitive)])
def test_an_entry_covers_what_there_is(entry: Entry) -> None:
    assert len(entry.samples) >= 5
    assert entry.large
    assert bool(entry.laid) == bool(entry.primitive.layouts)
    calls = (*entry.samples, *entry.large, *entry.edges, *entry.laid)
    assert all(len(sample.operands) == len(entry.primitive.layouts) for sample in calls)


# ---------------------------------------------------------------- values


@on_devices(*((entry, sample) for entry in ENTRIES for sample in entry.samples))
def test_values(device: str, entry: Entry, sample: Sample) -> None:
    check(device, entry, sample)


@on_devices(*((entry, sample) for entry in ENTRIES for sample in entry.large))
def test_many_of_something(device: str, entry: Entry, sample: Sample) -> None:
    check(device, entry, sample)


@on_devices(*((entry, sample) for entry in ENTRIES for sample in entry.edges))
def test_special_values(device: str, entry: Entry, sample: Sample) -> None:
    check(device, entry, sample, edge=True)


@on_devices(*((entry, difference) for entry in ENTRIES for difference in entry.differences))
def test_differences_are_as_stated(device: str, entry: Entry, sample: Difference) -> None:
    got = compute(devices.get(device), entry, sample.sample)
    info = next(info for info in DEVICES if info.name == device)
    driver = None if device == "cpu" else info.adapter.driver if info.adapter else ""
    assert sample.holds(got, driver), got
