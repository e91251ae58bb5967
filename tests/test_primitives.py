"""Each ggml primitive that the engine uses, recorded directly: against NumPy, and every device against the CPU."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import child
import numpy as np
import pytest
from primtable import ENTRIES
from primtable.layouts import WAYS, allowed, forbidden, lay, place, stored
from primtable.table import LARGE, TYPES, Difference, Entry, Sample, floats, normal, patterns, same

import ggmlpy_ag as ag
from ggmlpy_ag.backend import devices
from ggmlpy_ag.backend import primitives as prim
from ggmlpy_ag.backend.array import BFLOAT, FLOAT, HALF, INT, Array
from ggmlpy_ag.backend.counters import COUNTS
from ggmlpy_ag.backend.devices import Device
from ggmlpy_ag.backend.primitives import Primitive

NAMES = {id(value): name for name, value in vars(prim).items() if isinstance(value, Primitive)}
pytestmark = pytest.mark.usefixtures("fresh_backend")
WRITERS = (prim.ASSIGN, prim.ADAMW_STEP, prim.SGD_STEP)
DEVICES = ag.devices()


def on_devices(*rows: tuple[Any, ...]) -> pytest.MarkDecorator:
    """Run for rows of (entry, sample ..) on each device that has the entry's engine."""
    engines = {
        info.name: ("main", "blas") if info.name == "cpu" and devices.blas_name() else ("main",) for info in DEVICES
    }
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
    """Compare with NumPy. So all devices agree with the CPU, where not to the bit then within twice the tolerance."""
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
    found, end = verdicts(device)
    name = f"{NAMES[id(entry.primitive)]} {sample}"
    assert name in found, f"the process has ended: {end}"
    assert found[name] == ""


@lru_cache
def verdicts(device: str) -> tuple[dict[str, str], str]:
    """What is wrong with each large sample, "" for nothing, and how their process ended: too large a launch ends it."""
    done = child.python(__file__, device, "large", path=Path(__file__).parent, GGMLPY_AG_SOFTWARE_VULKAN="1")
    lines = done.stdout.splitlines()
    found = dict(json.loads(line) for line in lines if line.startswith("["))
    return found, f"status {done.returncode} after {lines[-1:]}\n{done.stderr[-2000:]}"


def try_large(device: str) -> None:
    for entry in ENTRIES:
        if entry.primitive.engine == "main" or devices.get(device).blas:
            for sample in entry.large:
                name = f"{NAMES[id(entry.primitive)]} {sample}"
                print(name, flush=True)
                wrong = ""
                try:
                    check(device, entry, sample)
                except AssertionError as error:
                    wrong = str(error) or "wrong"
                print(json.dumps([name, wrong]), flush=True)


@on_devices(*((entry, sample) for entry in ENTRIES for sample in entry.edges))
def test_special_values(device: str, entry: Entry, sample: Sample) -> None:
    check(device, entry, sample, edge=True)


@on_devices(*((entry, difference) for entry in ENTRIES for difference in entry.differences))
def test_differences_are_as_stated(device: str, entry: Entry, sample: Difference) -> None:
    got = compute(devices.get(device), entry, sample.sample)
    info = next(info for info in DEVICES if info.name == device)
    driver = None if device == "cpu" else info.adapter.driver if info.adapter else ""
    assert sample.holds(got, driver), got


# ---------------------------------------------------------------- layouts


@lru_cache
def last_words(device: str) -> str:
    """What a process said last that ended while it tried every layout; "" if it survived."""
    done = child.python(__file__, device, path=Path(__file__).parent, GGMLPY_AG_SOFTWARE_VULKAN="1")
    return "" if done.returncode == 0 else "\n".join([*done.stdout.splitlines()[-1:], done.stderr])


def try_layouts(device: Device) -> None:
    for entry in ENTRIES:
        for sample in entry.laid if entry.primitive.engine == "main" or device.blas else ():
            for ways in allowed(entry, sample.arrays()):
                print(NAMES[id(entry.primitive)], sample, ways, flush=True)
                placed = [place(device, x, way) for x, way in zip(sample.arrays(), ways, strict=True)]
                device.download(record(entry, [a for a, _ in placed], [v for _, v in placed], sample.parameters))


@on_devices(*((entry, sample) for entry in ENTRIES for sample in entry.laid))
def test_operands_of_each_layout_are_taken_as_they_lie(device: str, entry: Entry, sample: Sample) -> None:
    assert not last_words(device)
    here = devices.get(device)
    for ways in allowed(entry, sample.arrays()):
        placed = [place(here, x, way) for x, way in zip(sample.arrays(), ways, strict=True)]
        values = [v for _, v in placed]
        result = record(entry, [a for a, _ in placed], values, sample.parameters)
        nodes = COUNTS.nodes
        here.graph.run()
        assert COUNTS.nodes == nodes + 1, f"{ways}: something was copied first"
        try:
            entry.check(here.download(result), values, sample.parameters, False)
        except AssertionError as error:
            raise AssertionError(f"operands {ways}: {error}") from None


@on_devices(*((entry, entry.laid[0]) for entry in ENTRIES if entry.laid))
def test_operands_of_other_layouts_are_copied_first(device: str, entry: Entry, sample: Sample) -> None:
    here = devices.get(device)
    arrays = sample.arrays()
    for position, x in enumerate(arrays):
        for way in forbidden(entry.primitive, position, x):
            array, values = place(here, x, way)
            aligned = array.offset * x.itemsize % here.offset_alignment == 0
            if values.tobytes() != x.tobytes() or (array.packed and aligned):
                continue  # other values, or no trouble on this device
            operands = [array if i == position else here.upload(v) for i, v in enumerate(arrays)]
            result = record(entry, operands, arrays, sample.parameters)
            nodes = COUNTS.nodes
            here.graph.run()
            assert COUNTS.nodes == nodes + 2, way
            entry.check(here.download(result), arrays, sample.parameters, False)


@on_devices(*((entry, entry.laid[0]) for entry in ENTRIES if entry.primitive.elementwise))
def test_an_elementwise_result_is_written_over_its_operand(device: str, entry: Entry, sample: Sample) -> None:
    here = devices.get(device)
    values = sample.arrays()
    for position in range(len(values)):
        operands = [here.upload(v) for v in values]
        made = here.graph.record(prim.SCALE, (operands[position],), values[position].shape, FLOAT, 1.0, 0.0)
        operands[position] = made
        result = record(entry, operands, values, sample.parameters)
        size = made.storage.block_bytes
        del operands, made
        here.pool.reset_peaks()
        before = here.pool.stats().live
        here.graph.run()
        assert here.pool.stats().peak == before + size
        entry.check(here.download(result), values, sample.parameters, False)


# ---------------------------------------------------------------- writing in place


@pytest.mark.parametrize("dtype", TYPES, ids=["float32", "float16", "bfloat16", "int32"])
def test_assign_writes_its_target_and_nothing_else(device: str, dtype: np.dtype) -> None:
    here = devices.get(device)
    source = patterns(dtype, 2, 3, 5, 7)
    for way in WAYS:
        if way.startswith("same") or way in ("overlapping", "skewed"):
            continue  # several of the target's elements in one place
        for other in WAYS:
            memory, view = lay(patterns(dtype, 2, 3, 5, 7)[::-1].copy(), way)
            target = stored(here, memory, view)
            whole = target.view((memory.size,), (1,), 0)
            values, wanted = place(here, source, other)
            here.graph.update([(prim.ASSIGN, (values, target))])
            view[...] = wanted
            same(here.download(whole), memory.reshape(-1))


@pytest.mark.parametrize("shape", LARGE[:2], ids=str)
def test_assign_many(device: str, shape: tuple[int, ...]) -> None:
    here = devices.get(device)
    source, target = here.upload(normal(*shape)), here.full(shape[::-1], 0.0)
    here.graph.update([(prim.ASSIGN, (source.permuted(tuple(range(len(shape)))[::-1]), target))])
    same(here.download(target), normal(*shape).T.copy())


ADAMW = floats(1e-2, 0.9, 0.99, 1e-8, 0.1, 1 / (1 - 0.9**3), 1 / (1 - 0.99**3))
SGD = floats(1e-2, 0.1)


def adamw(w: np.ndarray, g: np.ndarray, m: np.ndarray, v: np.ndarray) -> list[np.ndarray]:
    rate, beta1, beta2, eps, decay, by1, by2 = ADAMW.astype(np.float64)
    m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * np.square(g, dtype=np.float64)
    return [w * (1 - rate * decay) - rate * m * by1 / (np.sqrt(v * by2) + eps), m, v]


def sgd(w: np.ndarray, g: np.ndarray) -> list[np.ndarray]:
    rate, decay = SGD.astype(np.float64)
    return [w * (1 - rate * decay) - rate * g]


STEPS = {"adamw": (prim.ADAMW_STEP, adamw, 4, ADAMW), "sgd": (prim.SGD_STEP, sgd, 2, SGD)}


def check_steps(device: str, name: str, operands: Sequence[Sequence[np.ndarray]]) -> None:
    """Run a step on each set of operands, all in one update."""
    primitive, numpy, _, numbers = STEPS[name]
    here = devices.get(device)
    arrays = [[here.upload(v) for v in values] for values in operands]
    parameters = here.upload(numbers)
    here.graph.update([(primitive, (*some, parameters)) for some in arrays])
    for some, values in zip(arrays, operands, strict=True):
        with np.errstate(all="ignore"):
            wanted = numpy(*values)
        for i, result in zip(primitive.writes, wanted, strict=True):
            np.testing.assert_allclose(here.download(some[i]), result.astype(np.float32), 1e-5, 1e-7)


def step_operands(name: str, *shape: int, seed: int = 0) -> list[np.ndarray]:
    values = [normal(*shape, seed=seed + i) for i in range(STEPS[name][2])]
    return [*values[:3], *(np.abs(v) for v in values[3:])]


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("shape", [(1,), (3,), (31,), (33, 257), (2, 3, 5, 7), *LARGE], ids=str)
def test_a_step(device: str, name: str, shape: tuple[int, ...]) -> None:
    check_steps(device, name, [step_operands(name, *shape)])


@pytest.mark.parametrize("name", STEPS)
def test_a_step_of_special_values(device: str, name: str) -> None:
    special = floats(0, -0.0, 1e-30, 1e-15, 1e10, np.inf, -np.inf, np.nan)
    weight, grad = (np.ascontiguousarray(v.reshape(-1)) for v in np.meshgrid(special, special))
    rest = [np.zeros_like(weight) for _ in range(STEPS[name][2] - 2)]
    check_steps(device, name, [[weight, grad, *rest]])


@pytest.mark.parametrize("name", STEPS)
def test_a_hundred_steps_at_once(device: str, name: str) -> None:
    check_steps(device, name, [step_operands(name, 1 + i % 7, seed=i) for i in range(100)])


def test_a_hundred_assignments_at_once(device: str) -> None:
    here = devices.get(device)
    whole = here.full((100, 3), 0.0)
    here.graph.update(
        [(prim.ASSIGN, (here.upload(floats(i, i, i)), whole.view((3,), (1,), 3 * i))) for i in range(100)]
    )
    np.testing.assert_array_equal(here.download(whole), np.repeat(np.arange(100), 3).reshape(100, 3))


# ---------------------------------------------------------------- what a device cannot run


def test_ggml_repeats_over_the_fourth_dimension_on_the_cpu_only(device: str) -> None:
    here = devices.get(device)
    columns, rows = normal(1, 3, 5, 7), normal(2, 3, 4, 7)
    product = here.graph.record(prim.MATMUL, (here.upload(columns), here.upload(rows)), (2, 3, 4, 5), FLOAT)
    if device == "cpu":
        np.testing.assert_allclose(here.download(product), rows @ columns.swapaxes(-1, -2), 1e-5, 1e-6)
    else:
        with pytest.raises(ag.FallbackError, match="mul_mat"):
            here.download(product)


@pytest.mark.parametrize("mode", ["error", "warn"])
def test_an_operand_above_the_largest_binding(device: str, mode: str) -> None:
    """134 MB, for which Mesa's llvmpipe has no binding: an error or a fallback, and never a wrong result."""
    ag.set_fallback(mode)
    here = devices.get(device)
    n = (128 << 20) // 4 + 1
    x = here.upload(np.resize(floats(*range(257)), n))
    end = here.graph.record(prim.NEG, (x.view((300,), (1,), n - 301),), (300,), FLOAT)
    wanted = -np.resize(np.arange(257), n)[-301:-1]
    assert np.array_equal(here.download(end), wanted)  # a part of it is no trouble
    most = here.info.adapter.max_storage_buffer if here.info.adapter else 1 << 40
    before = COUNTS.fallbacks
    halved = here.graph.record(prim.SCALE, (x,), (n,), FLOAT, -1.0, 0.0)
    if most < 4 * n and mode == "error":
        with pytest.raises(ag.FallbackError, match="scale"):
            here.download(halved)
    else:
        assert np.array_equal(here.download(halved)[-301:-1], wanted)
        assert COUNTS.fallbacks - before == (most < 4 * n)
    del x, end, halved
    ag.empty_cache()
    devices.get("cpu").trim()


if __name__ == "__main__":
    ag.set_fallback("error")
    try_large(sys.argv[1]) if sys.argv[2:] == ["large"] else try_layouts(devices.get(sys.argv[1]))
