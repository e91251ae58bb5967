"""The memory timeline: it agrees with the pool's books to the byte, and says what each piece of memory was for."""

from __future__ import annotations

import gc
import json
import sys
import threading
import weakref
from functools import partial

import numpy as np
import pytest
from conftest import DEVICES

import ggmlpy_ag as ag
from ggmlpy_ag import ops
from ggmlpy_ag.backend import devices
from ggmlpy_ag.report.estimate import estimate
from ggmlpy_ag.report.recorder import public_operations

BEFORE = "(before the timeline)"
TABLES = ("by_op", "by_layer", "by_line", "by_phase", "by_part")


@pytest.fixture(autouse=True)
def no_garbage():
    """What other tests left shall not come back within a timeline."""
    ag.zero_grad()
    gc.collect()


class Trained:
    """A small network, and a step of its training."""

    def __init__(self) -> None:
        ag.manual_seed(0)
        self.model = ag.nn.Sequential(ag.nn.Linear(24, 40), ag.nn.ReLU(), ag.nn.Linear(40, 10))
        self.optimizer = ag.optim.AdamW(self.model.parameters(), lr=0.01)
        rng = np.random.default_rng(0)
        self.x = rng.standard_normal((16, 24)).astype(np.float32)
        self.y = rng.integers(0, 10, 16).astype(np.int32)

    def step(self) -> float:
        x, y = ag.tensor(self.x), ag.tensor(self.y)
        with ag.grad_tape(trace=True):
            loss = ag.cross_entropy_loss(self.model(x), y)
        ag.backward(loss)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.item()


@pytest.fixture
def trained(device):
    return Trained()


def block(nbytes):
    return devices.get().pool.rounded(nbytes)


def live():
    return ag.memory_stats().live


def taken(timeline, **wanted):
    """The events that took memory, with these attributes."""
    return [
        event
        for event in timeline.events
        if event.kind != "free" and all(getattr(event, name) == value for name, value in wanted.items())
    ]


def check(timeline, device):
    """The timeline's own figures agree with each other."""
    assert [event.number for event in timeline.events] == list(range(len(timeline.events)))
    seconds = [event.seconds for event in timeline.events]
    assert seconds == sorted(seconds)
    assert all(0 <= s <= timeline.seconds for s in seconds)
    for event in timeline.events:
        moment = timeline.live_at(event)
        assert (moment.tensors, moment.scratch) == (event.live, event.scratch)
    peak = timeline.peak(device)
    assert peak.bytes == max([timeline.before[device], *(e.in_use for e in timeline.events if e.device == device)])
    for name in TABLES:
        assert sum(row.bytes for row in getattr(peak, name)) == peak.bytes
        assert sum(row.blocks for row in getattr(peak, name)) == len(peak.rows)


# ---------------------------------------------------------------- it agrees with the pool


def test_the_peak_is_the_pools(trained, device):
    ag.reset_peak_memory()
    before = live()
    with ag.memory_timeline() as timeline:
        for _ in range(2):
            trained.step()
    assert timeline.peak().bytes == ag.memory_stats().peak
    assert timeline.before[device] == before
    assert timeline.events[-1].live == live()
    assert timeline.events[-1].scratch == 0
    assert {event.kind for event in timeline.events} == {"alloc", "free", "reuse"}
    check(timeline, device)


def test_garbage_that_is_collected_in_the_middle_of_a_plan(device):
    """Blocks in cycles come back whenever the collector runs: within the pool's own work, too."""
    ag.reset_peak_memory()
    threshold = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    try:
        with ag.memory_timeline() as timeline:
            for i in range(30):
                cycle = [ag.tensor(np.ones(100 + 50 * i, np.float32)).exp() * 2.0 + 1.0]
                cycle.append(cycle)
                cycle[0].numpy()
                del cycle
    finally:
        gc.set_threshold(*threshold)
    assert timeline.peak().bytes == ag.memory_stats().peak
    check(timeline, device)
    assert timeline.events[-1].live == live()


def test_memory_that_is_refused(device):
    x = ag.tensor(np.ones(1000, np.float32))
    ag.reset_peak_memory()
    ag.set_memory_limit(device, live() + block(4000))
    try:
        with ag.memory_timeline() as timeline, pytest.raises(ag.OutOfMemoryError):
            kept = [x * 2.0, x * 3.0]
            kept[0].numpy(), kept[1].numpy()
    finally:
        ag.set_memory_limit(device, None)
    assert timeline.peak().bytes == ag.memory_stats().peak
    assert timeline.events[-1].live == live()
    check(timeline, device)


def test_an_empty_block(device):
    kept = ag.tensor([1.0])
    with ag.memory_timeline() as timeline:
        pass
    peak = timeline.peak(device)
    assert timeline.events == ()
    assert (peak.event, peak.bytes, peak.rows) == (None, live(), ())
    assert [tuple(row) for row in peak.by_op] == [(BEFORE, live(), 0)]
    assert "0 events" in str(timeline)
    del kept


# ---------------------------------------------------------------- order


def test_a_block_is_taken_when_the_graph_runs_and_comes_back_when_dropped(device):
    with ag.memory_timeline() as timeline:
        x = ag.tensor(np.ones(1000, np.float32))
        y = x.exp()
        z = ag.tensor(np.ones(10, np.float32))
        y.numpy()
        del y
        w = ag.tensor(np.ones(20, np.float32))
        del x
    told = [(event.kind, event.op, event.bytes) for event in timeline.events]
    big = block(4000)
    assert told == [
        ("alloc", "tensor", big),
        ("alloc", "tensor", block(40)),
        ("alloc", "exp", big),
        ("free", "exp", big),
        ("alloc", "tensor", block(80)),
        ("free", "tensor", big),
    ]
    assert [event.of for event in timeline.events] == [None, None, None, 2, None, 0]
    assert timeline.peak().event == 2
    del z, w


def test_scratch_is_apart_and_passed_on(device):
    x = ag.tensor(np.ones((50, 50), np.float32))
    with ag.memory_timeline() as timeline:
        y = (x @ x).exp() + 1.0
        y.numpy()
    product, exp, add = [taken(timeline, op=op)[-1] for op in ("matmul", "exp", "add")]  # Vulkan may pad its operands
    assert product.part == exp.part == "scratch"
    assert (exp.kind, exp.of, add.kind, add.of) == ("reuse", product.number, "reuse", exp.number)
    assert add.part == "tensor"
    assert (exp.live, exp.scratch) == (live() - block(10000), block(10000))
    assert (add.live, add.scratch) == (live(), 0)
    assert exp.bytes == add.bytes == block(10000)


# ---------------------------------------------------------------- what it was for


def test_operations_layers_lines_and_phases(trained):
    with ag.memory_timeline() as timeline:
        trained.step()
    here = ("test_timeline.py", "in step")

    def about(**wanted):
        found = taken(timeline, **wanted)
        assert found
        assert all(here[0] in event.line and event.line.endswith(here[1]) for event in found)
        assert all(str(event.stack[-1]).endswith(here[1]) for event in found)
        return {(event.phase, event.layer) for event in found}

    assert about(op="relu", phase="forward") == {("forward", "1")}
    assert about(op="relu", phase="backward") == {("backward", "1")}
    assert about(op="linear", phase="backward") == {("backward", "0"), ("backward", "2")}
    assert about(op="cross_entropy_loss", phase="forward") == {("forward", "(no layer)")}
    assert about(op="tensor") == {("other", "(no layer)")}
    assert about(op="optimizer") == {("update", "(no layer)")}
    parameters = trained.optimizer.params
    moments = [e for e in taken(timeline, op="optimizer", part="tensor") if e.shape in {p.shape for p in parameters}]
    assert len(moments) == 2 * len(parameters)
    # on a tape that traces, what the gradient of an operation takes goes by the line that called it
    lines = {event.line for event in taken(timeline, op="relu")}
    assert len(lines) == 1
    assert lines != {event.line for event in taken(timeline, op="tensor")}


def test_a_lazy_value_goes_by_the_line_that_recorded_it(device):
    def recorded():
        return ag.tensor(np.ones(100, np.float32)).exp()

    with ag.memory_timeline() as timeline:
        value = recorded()
        value.numpy()
    (event,) = taken(timeline, op="exp")
    assert event.line.endswith("in recorded")
    assert [frame.function for frame in event.stack[-2:]] == [
        "test_a_lazy_value_goes_by_the_line_that_recorded_it",
        "recorded",
    ]
    assert (event.shape, event.dtype, event.phase) == ((100,), "float32", "other")


def test_without_a_tape_a_module_runs_forward(device):
    model = ag.nn.Linear(4, 3)
    with ag.memory_timeline() as timeline, ag.no_grad():
        model(ag.tensor(np.ones((2, 4), np.float32))).numpy()
    assert {(event.phase, event.layer) for event in taken(timeline, op="linear")} == {("forward", "(model)")}


def test_recorded_before_and_run_inside(device):
    value = ag.tensor(np.ones(100, np.float32)).exp()
    with ag.memory_timeline() as timeline:
        value.numpy()
    (event,) = taken(timeline)
    assert (event.op, event.layer, event.line, event.phase) == ("exp", "(not traced)", "(not traced)", "other")
    assert event.bytes == block(400)


def test_memory_from_before(device):
    kept, dropped = ag.tensor(np.ones(1000, np.float32)), ag.tensor(np.ones(3000, np.float32))
    before = live()
    with ag.memory_timeline() as timeline:
        more = ag.tensor(np.ones(10, np.float32))
        del dropped
        gc.collect()
        last = ag.tensor(np.ones(20, np.float32))
    assert timeline.before[device] == before
    assert timeline.peak().before == before
    assert timeline.peak().by_op[0] == (BEFORE, before, 0)
    (free,) = [event for event in timeline.events if event.kind == "free"]
    assert (free.op, free.of, free.bytes) == (BEFORE, None, block(12000))
    assert timeline.live_at(free.number).before == before - block(12000)
    check(timeline, device)
    del kept, more, last


def test_a_checkpoint_lowers_the_peak(device):
    w = ag.param(np.eye(32, dtype=np.float32) / 8)
    x = ag.tensor(np.ones((64, 32), np.float32))

    def block_of(h):
        for _ in range(4):
            h = (h @ w).tanh().exp()
        return h

    def step(wrapped):
        with ag.grad_tape():
            h = x
            for _ in range(4):
                h = wrapped(h)
            loss = h.sum()
        ag.backward(loss)
        ag.zero_grad([w])

    peaks = []
    for wrapped in (block_of, partial(ag.checkpoint, block_of)):
        ag.reset_peak_memory()
        with ag.memory_timeline() as timeline:
            step(wrapped)
        assert timeline.peak().bytes == ag.memory_stats().peak
        peaks.append(timeline.peak())
    assert peaks[1].bytes < 0.8 * peaks[0].bytes
    assert "checkpoint" in {row.name for row in peaks[1].by_op}


def test_every_public_operation_has_a_code_of_its_own():
    names = public_operations()
    assert sorted(names.values()) == sorted([*ops.__all__, "param", "tensor"])


# ---------------------------------------------------------------- blocks inside blocks, threads, devices


def test_timelines_nest(device):
    with ag.memory_timeline() as outer:
        first = ag.tensor(np.ones(100, np.float32))
        with ag.memory_timeline() as inner:
            second = ag.tensor(np.ones(200, np.float32))
            del first
        third = ag.tensor(np.ones(300, np.float32))
    assert [(e.kind, e.shape) for e in outer.events] == [
        ("alloc", (100,)),
        ("alloc", (200,)),
        ("free", (100,)),
        ("alloc", (300,)),
    ]
    assert [(e.kind, e.op, e.number) for e in inner.events] == [("alloc", "tensor", 0), ("free", BEFORE, 1)]
    assert inner.before[device] == outer.before[device] + block(400)
    check(outer, device)
    check(inner, device)
    assert devices.get().pool.watch is None
    del second, third


def test_an_exception_ends_it(device):
    with pytest.raises(KeyError), ag.memory_timeline() as timeline:
        kept = ag.tensor(np.ones(100, np.float32))
        raise KeyError
    assert len(timeline.events) == 1
    assert devices.get().pool.watch is None
    later = ag.tensor([1.0]).exp()
    assert later._array.storage.node.origin is None
    del kept


def test_it_is_read_after_its_block(device):
    with ag.memory_timeline() as timeline:
        assert "still recording" in repr(timeline)
        with pytest.raises(RuntimeError, match="after its `with` block"):
            timeline.peak()
    assert "0 events" in repr(timeline)


def test_what_other_threads_do(device):
    kept = []

    def work():
        with ag.device(device):
            kept.append((ag.tensor(np.ones(500, np.float32)) * 2.0).exp())
            kept[0].numpy()

    with ag.memory_timeline() as timeline, ag.grad_tape():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert {(event.op, event.phase) for event in taken(timeline)} == {
        ("tensor", "other"),
        ("mul", "other"),
        ("exp", "other"),
    }
    check(timeline, device)


@pytest.mark.skipif(len(DEVICES) < 2, reason="needs two devices")
def test_several_devices():
    first, second = DEVICES[0], DEVICES[-1]
    for name in (first, second):
        ag.reset_peak_memory(name)
    with ag.memory_timeline() as both, ag.memory_timeline(device=second) as one:
        a = ag.tensor(np.ones(3000, np.float32), device=first)
        b = a.to(second).exp()
        b.numpy()
    for name in (first, second):
        assert both.peak(name).bytes == ag.memory_stats(name).peak
        check(both, name)
    assert {event.device for event in both.events} == {first, second}
    assert both.peak().bytes == max(both.peak(first).bytes, both.peak(second).bytes)
    assert one.devices == (second,)
    assert one.peak().bytes == both.peak(second).bytes
    assert [event[2:] for event in one.events] == [
        (*event[2:-1], None if event.of is None else event.of - 1) for event in both.events if event.device == second
    ]
    with pytest.raises(ValueError, match="has no device"):
        one.peak(first)


# ---------------------------------------------------------------- it costs nothing afterwards


def test_nothing_is_kept(trained):
    trained.step()
    gc.collect()
    before = live()
    with ag.memory_timeline() as timeline:
        trained.step()
        x = ag.tensor(np.ones(1000, np.float32))
        y = x.exp()
        y.numpy()
        links = [weakref.ref(thing) for thing in (x, y, x._array.storage, y._array.storage)]
        del x, y
    assert all(link() is None for link in links)
    assert live() == before
    assert timeline.events[-1].live == before


def test_an_estimate_is_no_part_of_it(trained):
    trained.step()
    with ag.memory_timeline() as timeline:
        estimate(trained.step)
    assert timeline.events == ()


def test_reading_it_computes_and_copies_nothing(trained, tmp_path):
    with ag.memory_timeline() as timeline:
        trained.step()
    before = ag.counters()
    str(timeline), timeline.to_json(), timeline.to_speedscope(tmp_path / "x.json")
    assert ag.counters() == before


# ---------------------------------------------------------------- forms


def test_text(trained, device):
    with ag.memory_timeline() as timeline:
        trained.step()
    text = str(timeline)
    assert max(map(len, text.splitlines())) <= 100
    head, peak, *_ = text.splitlines()
    assert head.startswith("memory timeline: ")
    assert f"{len(timeline.events)} events" in head
    assert peak.startswith(f"peak on {device}: ")
    assert all(word in text for word in ("backward", "optimizer", BEFORE, "test_timeline.py", "... "))


def test_dict_and_json(trained, device):
    with ag.memory_timeline() as timeline:
        trained.step()
    found = json.loads(timeline.to_json())
    assert found == json.loads(json.dumps(timeline.to_dict()))
    assert (found["format"], found["version"]) == ("ggmlpy_ag memory timeline", 1)
    about = {entry["name"]: entry for entry in found["devices"]}
    assert set(about) == set(timeline.devices)
    events = [dict(zip(found["columns"], row, strict=True)) for row in found["events"]]
    in_use = about[device]["before"]
    for event, told in zip(events, timeline.events, strict=True):
        in_use += {"alloc": 1, "reuse": 0, "free": -1}[event["kind"]] * event["bytes"]
        assert in_use == event["live"] + event["scratch"] == told.in_use
        stack = [found["frames"][i] for i in found["stacks"][event["stack"]]]
        assert [tuple(frame) for frame in stack] == list(told.stack)
        assert tuple(event["shape"]) == told.shape
    peak = about[device]["peak"]
    assert peak["bytes"] == timeline.peak().bytes
    assert peak["bytes"] == peak["before"] + sum(events[i]["bytes"] for i in peak["rows"])
    for name in TABLES:
        assert sum(row["bytes"] for row in peak[name]) == peak["bytes"]
    assert peak["event"] in about[device]["series"]


def test_series_keeps_the_peak(trained, device):
    with ag.memory_timeline() as timeline:
        trained.step()
    assert timeline.series(points=10**6) == [event for event in timeline.events if event.device == device]
    for points in (1, 7, 20):
        series = timeline.series(device, points)
        assert len(series) == points
        assert [event.number for event in series] == sorted({event.number for event in series})
        assert max(event.in_use for event in series) == timeline.peak().bytes


def test_speedscope_file(trained, device, tmp_path):
    """As the file format's own type definitions have it: stacks of frame numbers, and a weight for each."""
    with ag.memory_timeline(device) as timeline:
        trained.step()
    path = tmp_path / "x.speedscope.json"
    timeline.to_speedscope(path)
    file = json.loads(path.read_text("utf-8"))
    assert file["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames = file["shared"]["frames"]
    assert all(isinstance(frame["name"], str) for frame in frames)
    assert all(set(frame) <= {"name", "file", "line"} for frame in frames)
    assert len({json.dumps(frame) for frame in frames}) == len(frames)
    assert 0 <= file["activeProfileIndex"] < len(file["profiles"])
    for profile in file["profiles"]:
        assert (profile["type"], profile["unit"], profile["startValue"]) == ("sampled", "bytes", 0)
        assert len(profile["samples"]) == len(profile["weights"])
        assert profile["endValue"] == sum(profile["weights"])
        assert all(weight > 0 for weight in profile["weights"])
        assert all(0 <= i < len(frames) for stack in profile["samples"] for i in stack)
    everything, at_peak = file["profiles"]
    assert everything["endValue"] == sum(event.bytes for event in timeline.events if event.kind == "alloc")
    assert at_peak["endValue"] == timeline.peak().bytes
    stacks = [[frames[i]["name"] for i in stack] for stack in everything["samples"]]
    assert ["step", "1", "relu (backward)"] in [stack[-3:] for stack in stacks]
    assert [BEFORE] in [[frames[i]["name"] for i in stack] for stack in at_peak["samples"]]


@pytest.mark.parametrize("by", ["phase", "part", "layer", "op"])
def test_png(trained, tmp_path, by):
    pytest.importorskip("matplotlib")
    with ag.memory_timeline() as timeline:
        trained.step()
    path = tmp_path / "x.png"
    timeline.to_png(path, by=by)
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG")
    assert len(data) > 10_000


def test_png_of_nothing(device, tmp_path):
    pytest.importorskip("matplotlib")
    with ag.memory_timeline() as timeline:
        pass
    timeline.to_png(tmp_path / "x.png", device)
    assert (tmp_path / "x.png").stat().st_size > 0


def test_png_says_what_it_needs(device, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with ag.memory_timeline() as timeline:
        pass
    with pytest.raises(ImportError, match=r"pip install 'ggmlpy_ag\[plot\]'"):
        timeline.to_png(tmp_path / "x.png")


def test_bad_arguments(device, tmp_path):
    with pytest.raises(ValueError, match="no device 'tpu'"):
        ag.memory_timeline("tpu")
    with pytest.raises(TypeError, match="device must be a name"):
        ag.memory_timeline(3)
    with ag.memory_timeline() as timeline:
        kept = ag.tensor([1.0])
    with pytest.raises(ValueError, match="no device 'tpu'"):
        timeline.peak("tpu")
    with pytest.raises(IndexError, match=r"event 1 is outside \[0, 1\)"):
        timeline.live_at(1)
    with pytest.raises(TypeError, match="an Event or its number"):
        timeline.live_at("1")
    with pytest.raises(ValueError, match="points must be at least 1"):
        timeline.series(points=0)
    with pytest.raises(TypeError, match="points must be an integer"):
        timeline.series(points=1.5)
    with pytest.raises(ValueError, match='by must be "phase"'):
        timeline.to_png(tmp_path / "x.png", by="colour")
    assert not list(tmp_path.iterdir())
    del kept
