"""scripts/conformance.py, and the table that it wrote into docs/: it names every operation and is current."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from optable import BY_NAME, OPS

import ggmlpy_ag as ag

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "scripts" / "conformance.py"
FOUND = json.loads((ROOT / "docs" / "ops.json").read_text("utf-8"))
ROWS = {(row["device"].split(":")[0], row["op"]): row for row in FOUND["rows"]}
AGAIN = "run `python scripts/conformance.py --write` with PyTorch installed"


@pytest.fixture(scope="module")
def conformance() -> ModuleType:
    spec = importlib.util.spec_from_file_location("conformance", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["conformance"] = module
    spec.loader.exec_module(module)
    return module


def test_the_committed_table_has_every_operation_on_both_devices() -> None:
    assert set(ROWS) == {(device, op.name) for device in ("cpu", "vulkan") for op in OPS}, AGAIN
    assert {entry["op"] for entry in FOUND["kept"]} == {op.name for op in OPS if op.gradient}, AGAIN


def test_no_row_of_the_committed_table_fails() -> None:
    for row in ROWS.values():
        assert not row["problems"] and not row["fallback"], row
        assert row["pytorch"] == ("yes" if BY_NAME[row["op"]].torch else ""), row


def test_the_page_shows_what_the_file_says(conformance: ModuleType) -> None:
    rows = [conformance.Row(**row) for row in FOUND["rows"]]
    kept = [conformance.Kept(**entry) for entry in FOUND["kept"]]
    assert (ROOT / "docs" / "ops.md").read_text("utf-8") == conformance.document(rows, kept), AGAIN


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_a_row_is_current(op, conformance: ModuleType) -> None:
    """What does not depend on the machine: types, kernels, and what the tape keeps."""
    row = ROWS["cpu", op.name]
    with ag.device("cpu"):
        assert row["made_of"] == conformance.made_of(op), AGAIN
        assert row["dtypes"] == conformance.dtypes(op), AGAIN
        kept = conformance.kept(op)
    committed = next((entry for entry in FOUND["kept"] if entry["op"] == op.name), None)
    assert (kept is None) == (committed is None)
    if kept is not None and committed is not None:
        for name in ("stated", "operands", "result", "here"):
            assert committed[name] == getattr(kept, name), AGAIN


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, check=False)


def test_it_prints_a_table_for_each_device() -> None:
    done = run("--op", "relu", "--op", "matmul")
    assert done.returncode == 0, done.stdout + done.stderr
    for info in ag.devices():
        assert f"## {info.name}\n" in done.stdout
    assert done.stdout.count("| relu |") == len(ag.devices()) + 1  # and once among what the tape keeps
    assert f"{2 * len(ag.devices())} rows" in done.stderr and "0 failing" in done.stderr


@pytest.mark.parametrize("wrong", [("--op", "relux"), ("--device", "tpu")])
def test_wrong_arguments_are_explained(wrong: tuple[str, str]) -> None:
    done = run(*wrong)
    assert done.returncode == 2
    assert "error:" in done.stderr and wrong[1] in done.stderr and "Traceback" not in done.stderr
