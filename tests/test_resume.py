"""Checkpoints: a run goes on from one to the bit, whatever ended it; and a damaged one changes nothing."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from child import output

import ggmlpy_ag as ag

pytest.importorskip("safetensors")

from resuming import Net, Run

from ggmlpy_ag.io import safetensors as format_
from ggmlpy_ag.io.checkpoint import FORMAT

TESTS = Path(__file__).parent


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.ckpt"


# ---------------------------------------------------------------- there and back


def test_a_resumed_run_is_the_same_run(device: str, path: Path, tmp_path: Path) -> None:
    whole = Run()
    whole.train(8, lambda: whole.step == 3 and whole.save(path))
    expected = whole.content(tmp_path / "whole")
    resumed = Run(seed=5)  # other weights, other random numbers
    resumed.load(path)
    assert resumed.step == 3
    resumed.train(8)
    if device == "cpu":
        assert resumed.content(tmp_path / "resumed") == expected
    else:  # its sums need not have one order
        for name, value in resumed.model.state_dict().items():
            np.testing.assert_allclose(value.numpy(), whole.model.state_dict()[name].numpy(), rtol=1e-5, atol=1e-6)


def test_extra_comes_back_as_it_was(path: Path) -> None:
    extra: dict[Any, Any] = {
        "none": None, "flags": [True, False], "text": "a\ud800\"\\\0ü", "numbers": (0, -(2**70), 0.1, 5e-324),
        "special": [np.inf, -np.inf], 3: {(1, "a"): "tuples are keys too", None: 1}, "$array": "no reference",
        "$": [], "empty": [{}, (), ""], "scalar": np.float32(0.1), "count": np.int64(2**40),
        "a.b": np.arange(3), "a": {"b": np.arange(3) + 10}, "none of them": np.zeros((0, 2), np.int8),
        "large": np.array([[2**63]], np.uint64), "bools": np.array([True]), "tensor": ag.tensor([1.5], "bfloat16"),
    }  # fmt: skip
    ag.io.save_checkpoint(path, step=np.int64(12), extra=extra)  # type: ignore[arg-type]
    found = ag.io.load_checkpoint(path)
    assert found.step == 12 and type(found.step) is int
    assert list(found.extra) == list(extra)
    for name, value in extra.items():
        back = found.extra[name]
        if isinstance(value, (np.ndarray, ag.Tensor)):
            expected = value if isinstance(value, np.ndarray) else value.numpy()
            assert back.dtype == expected.dtype and back.flags.writeable
            np.testing.assert_array_equal(back, expected)
        elif name == "a":
            np.testing.assert_array_equal(back["b"], value["b"])
        else:
            assert back == value and type(back) is (
                type(value.item()) if isinstance(value, np.generic) else type(value)
            )
    assert ag.io.load_checkpoint(path).extra["special"] == [np.inf, -np.inf]
    ag.io.save_checkpoint(path, extra=np.nan)
    assert np.isnan(ag.io.load_checkpoint(path).extra)


def test_parts_may_be_left_out(device: str, path: Path, tmp_path: Path) -> None:
    run = Run()
    run.train(2)
    run.save(path)
    other = Run(seed=1)
    state = ag.get_rng_state()
    ag.io.load_checkpoint(path, other.model, random=False)
    assert repr(ag.get_rng_state()) == repr(state)
    assert [a.tolist() for a in other.model.parameters()] == [a.tolist() for a in run.model.parameters()]
    assert other.optimizer.steps == [0, 0, 0] and other.loader.state_dict()["position"] == 0
    ag.io.load_checkpoint(path)
    assert repr(ag.get_rng_state()) != repr(state)
    # a model's values also come to another device type, where they are rounded
    half = Net().to(dtype="float16")
    ag.io.load_checkpoint(path, half)
    np.testing.assert_allclose(half.first.numpy(), run.model.first.numpy(), rtol=1e-3, atol=1e-4)
    # and any program can read the file
    from safetensors.numpy import load_file

    del other
    ag.io.save_checkpoint(tmp_path / "linear", model=half)
    np.testing.assert_array_equal(load_file(tmp_path / "linear")["model.first"], half.first.numpy().astype(np.float16))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_masters_of_16_bit_parameters_go_on(device: str, path: Path, dtype: str) -> None:
    """Steps far below a parameter's rounding: only the float32 copy, of the optimizer's state, sees them."""

    def steps(net: ag.nn.Module, optimizer: ag.optim.Optimizer, count: int) -> None:
        for _ in range(count):
            net.w.grad = ag.tensor([1.0, -1.0], dtype)
            optimizer.step()

    def fresh() -> tuple[ag.nn.Module, ag.optim.Optimizer]:
        net = ag.nn.Module()
        net.w = ag.param([1.0, 2.0], dtype=dtype)
        return net, ag.optim.SGD([net.w], lr=1e-4, momentum=0.5)

    net, optimizer = fresh()
    steps(net, optimizer, 3)
    ag.io.save_checkpoint(path, net, optimizer)
    steps(net, optimizer, 30)
    resumed, resumed_optimizer = fresh()
    ag.io.load_checkpoint(path, resumed, resumed_optimizer)
    steps(resumed, resumed_optimizer, 30)
    assert resumed.w.tolist() == net.w.tolist() != [1.0, 2.0]
    np.testing.assert_array_equal(
        resumed_optimizer.state_dict()["state"][0]["master"], optimizer.state_dict()["state"][0]["master"]
    )


# ---------------------------------------------------------------- all or nothing


class Broken:
    """A part that raises when it first loads, half way."""

    def __init__(self, error: BaseException) -> None:
        self.error: BaseException | None = error
        self.state = {"value": 1}

    def state_dict(self) -> dict[str, Any]:
        return self.state

    def load_state_dict(self, state: Any) -> None:
        self.state["value"] = state.get("value")
        error, self.error = self.error, None
        if error is not None:
            raise error


def wrong_parts(run: Run) -> dict[str, Any]:
    """For each part, one that does not take what the run saved."""
    other = Run(width=5)
    return {
        "model": other.model,
        "optimizer": other.optimizer,
        "schedule": ag.optim.lr.StepLR(run.optimizer, 3),
        "loader": ag.data.DataLoader(np.zeros(5)),
    }


@pytest.mark.parametrize("part", ["model", "optimizer", "schedule", "loader"])
def test_a_part_that_does_not_fit_changes_nothing(device: str, path: Path, tmp_path: Path, part: str) -> None:
    saved = Run()
    saved.train(2)
    saved.save(path)
    run = Run(seed=1)
    wrong = wrong_parts(run)[part]
    run.train(1)
    before = run.content(tmp_path / "before"), str(wrong.state_dict())
    parts: dict[str, Any] = {name: getattr(run, name) for name in ("model", "optimizer", "schedule", "loader")}
    with pytest.raises(ValueError, match=f"run.ckpt: the state of {part} does not fit"):
        ag.io.load_checkpoint(path, **{**parts, part: wrong})
    assert (run.content(tmp_path / "after"), str(wrong.state_dict())) == before


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ag.OutOfMemoryError("no memory")])
@pytest.mark.parametrize("part", ["optimizer", "schedule", "loader"])
def test_an_interrupt_changes_nothing(path: Path, tmp_path: Path, part: str, error: BaseException) -> None:
    saved = Run()
    saved.train(2)
    saved.save(path)
    run = Run(seed=1)
    run.train(1)
    before = run.content(tmp_path / "before")
    parts: dict[str, Any] = {name: getattr(run, name) for name in ("model", "optimizer", "schedule", "loader")}
    broken = Broken(error)
    with pytest.raises(type(error)):
        ag.io.load_checkpoint(path, **{**parts, part: broken})
    assert run.content(tmp_path / "after") == before and broken.state == {"value": 1}


def test_a_missing_part_is_named(path: Path, tmp_path: Path) -> None:
    run = Run()
    ag.io.save_checkpoint(path, run.model)
    before = run.content(tmp_path / "before")
    with pytest.raises(ValueError, match="lacks the state of optimizer, loader: it has model, random"):
        ag.io.load_checkpoint(path, run.model, run.optimizer, loader=run.loader)
    assert run.content(tmp_path / "after") == before


def test_another_file_and_a_newer_version(path: Path) -> None:
    ag.io.save({"w": np.ones(2, np.float32)}, path)
    with pytest.raises(ag.io.FileFormatError, match=r"no checkpoint of this library; ag\.io\.load"):
        ag.io.load_checkpoint(path)
    format_.write(path, {}, {"format": FORMAT, "version": "2", "state": "?"}, sealed=True)
    with pytest.raises(ag.io.FileFormatError, match="version 2.*this library reads version 1.*newer"):
        ag.io.load_checkpoint(path)


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        ({"model": {"w": np.ones(2)}}, TypeError, "model must be a Module, not dict"),
        ({"optimizer": 3}, TypeError, "optimizer must have state_dict and load_state_dict; int has not"),
        ({"step": -1}, ValueError, "step must not be negative, not -1"),
        ({"step": 1.5}, TypeError, "step must be an integer, not 1.5"),
        ({"step": True}, TypeError, "step must be an integer, not True"),
        ({"extra": {"a": [0, {1}]}}, TypeError, "extra.a.1 is a set: a checkpoint holds numbers"),
        ({"extra": b"bytes"}, TypeError, "extra is a bytes"),
        ({"extra": np.array(["a"])}, TypeError, "extra has type <U1"),
        ({"extra": 1j}, TypeError, "extra is a complex"),
        ({"extra": np.longdouble(1)}, TypeError, "extra is a longdouble"),
    ],
)
def test_a_wrong_call_leaves_the_file(path: Path, arguments: Any, error: type[Exception], message: str) -> None:
    path.write_bytes(b"old")
    with pytest.raises(error, match=message):
        ag.io.save_checkpoint(path, **arguments)
    assert path.read_bytes() == b"old" and os.listdir(path.parent) == [path.name]


# ---------------------------------------------------------------- damaged and hostile files


def test_300_damaged_files_change_nothing(path: Path) -> None:
    """In a process of their own, which none of them may end."""
    printed = output(
        """
        import os, sys
        from pathlib import Path

        sys.path.insert(0, sys.argv[1])
        os.fsync = lambda _: None  # only takes time here
        import ggmlpy_ag as ag
        from damage import damaged
        from resuming import Run

        path, other = Path(sys.argv[2]), Path(sys.argv[2] + ".now")
        run = Run()
        run.train(2)
        good = run.content(path)
        run.train(4)
        before = run.content(other)
        messages = set()
        for number, (kind, content) in enumerate(damaged(good, 300)):
            path.write_bytes(content)
            try:
                run.load(path)
            except ag.io.FileFormatError as error:
                messages.add(str(error).replace(str(path), "")[:12])
            else:
                sys.exit(f"file {number} ({kind}) was loaded")
            if run.content(other) != before:
                sys.exit(f"file {number} ({kind}) changed something")
        path.write_bytes(good)
        run.load(path)
        assert run.step == 2 and run.content(other) == good
        print(number + 1, len(messages))
        """,
        str(TESTS),
        str(path),
        GGMLPY_AG_DEVICE="cpu",
    )
    count, kinds = map(int, printed.split())
    assert count == 300 and kinds > 3


def state_of(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Arrays and JSON of a checkpoint."""
    contents = format_.Contents(path)
    arrays = {name: array.copy() for name, array in contents.arrays().items() if name != format_.CHECKSUM}
    return arrays, json.loads(contents.metadata["state"])


NOTHING: dict[str, Any] = {"step": 0, "extra": None, "parts": {}}
DEEP = '{"step": 0, "parts": {}, "extra": ' + "[" * 100_000 + "]" * 100_000 + "}"
HOSTILE: dict[str, str] = {
    "no JSON": "{",
    "a list": "[]",
    "a number": "3",
    "a negative extra": json.dumps({"step": 0, "parts": {}}),
    "a part too many": json.dumps({**NOTHING, "more": 1}),
    "parts in a list": json.dumps({**NOTHING, "parts": ["random"]}),
    "a step that is text": json.dumps({**NOTHING, "step": "3"}),
    "a step that is a fraction": json.dumps({**NOTHING, "step": 0.5}),
    "an array that is not there": json.dumps({**NOTHING, "extra": {"$array": "none"}}),
    "an array by a list": json.dumps({**NOTHING, "extra": {"$array": []}}),
    "a tuple of a number": json.dumps({**NOTHING, "extra": {"$tuple": 3}}),
    "items of a number": json.dumps({**NOTHING, "extra": {"$items": 3}}),
    "an item of three": json.dumps({**NOTHING, "extra": {"$items": [[1, 2, 3]]}}),
    "a key that is a list": json.dumps({**NOTHING, "extra": {"$items": [[[], 2]]}}),
    "a number of 100,000 digits": json.dumps(NOTHING).replace("0", "9" * 100_000),
    "a depth bomb": DEEP,
}


@pytest.mark.parametrize("state", HOSTILE.values(), ids=list(HOSTILE))
def test_a_hostile_structure_says_so(path: Path, state: str) -> None:
    """With a right checksum: whoever writes such a file can compute that."""
    format_.write(path, {}, {"format": FORMAT, "version": "1", "state": state}, sealed=True)
    with pytest.raises(ag.io.FileFormatError, match="no sound checkpoint"):
        ag.io.load_checkpoint(path)


def change(value: Any, where: str, new: Any) -> None:
    """Put a value at a path in packed JSON."""
    *path, last = where.split("/")
    for key in path:
        value = value["$items"][int(key[1:])][1] if key.startswith("#") else value[key]
    value[last] = new


RANDOM = {"$array": "random.buffer"}


@pytest.mark.parametrize(
    "where, new",
    [
        ("model", []),
        ("model", {}),
        ("model/first", None),
        ("model/first", {"$array": "model.second"}),
        ("model/first", "text"),
        ("optimizer", None),
        ("optimizer/kind", "SGD"),
        ("optimizer/steps", None),
        ("optimizer/steps", [-1, 2, 2]),
        ("optimizer/state", {"0": {}}),
        ("optimizer/state", 7),
        ("optimizer/param_groups", [{}]),
        ("schedule", 1.5),
        ("schedule/last_epoch", -1),
        ("schedule/last_epoch", 10**400),
        ("random", None),
        ("random/bit_generator", "PCG64"),
        ("random/buffer_pos", -1000),
        ("random/buffer_pos", 5),
        ("random/buffer_pos", 10**30),
        ("random/uinteger", -1),
        ("random/buffer", {"$array": "random.state.key"}),
        ("random/state", {"counter": RANDOM}),
        ("loader", []),
        ("loader/epoch", -1),
        ("loader/position", 7),
        ("loader/seed", "text"),
    ],
)
def test_a_hostile_state_changes_nothing(path: Path, tmp_path: Path, where: str, new: Any) -> None:
    saved = Run()
    saved.train(2)
    saved.save(path)
    arrays, state = state_of(path)
    change(state["parts"], where, new)
    format_.write(path, arrays, {"format": FORMAT, "version": "1", "state": json.dumps(state)}, sealed=True)
    run = Run(seed=1)
    before = run.content(tmp_path / "before")
    with pytest.raises(ValueError, match=f"run.ckpt: the state of {where.partition('/')[0]} does not fit"):
        run.load(path)
    assert run.content(tmp_path / "after") == before


# ---------------------------------------------------------------- killed runs


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork")
def test_100_killed_runs_end_as_one_that_was_not(tmp_path: Path) -> None:
    """Each process of a run is killed at a random moment, within a save too, until one comes to the end."""
    printed = output(
        "import sys; sys.path.insert(0, sys.argv[1]); import killing; killing.main(sys.argv[2])",
        str(TESTS),
        str(tmp_path),
        GGMLPY_AG_DEVICE="cpu",
        GGMLPY_AG_NUM_THREADS="1",
        OPENBLAS_NUM_THREADS="1",
        GGML_DISABLE_VULKAN="1",  # each process opens the devices anew
    )
    found = json.loads(printed)
    assert found["kills"] == 100 and found["runs"] > 1 and found["different"] == []
    assert found["within"] > 0 and found["left"] == []
