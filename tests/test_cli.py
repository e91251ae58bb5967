"""The command line: `python -m ggmlpy_ag devices`, `doctor` and `demo`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from child import python

import ggmlpy_ag as ag
from ggmlpy_ag import cli, doctor

INFOS = ag.devices()
GPUS = [info.name for info in INFOS if info.name != "cpu"]
SOFTWARE = [info.name for info in INFOS if info.kind == "software"]
HARDWARE = [info.name for info in INFOS if info.kind not in ("software", "cpu")]
DEMOS = ["autoencoder", "charlm", "cnn", "digits", "gru"]


# ---------------------------------------------------------------- help and mistakes


@pytest.mark.parametrize(
    ("arguments", "explains"),
    [
        ([], ["devices", "doctor", "demo"]),
        (["devices"], ["--json", "GGMLPY_AG_DEVICE", "default"]),
        (["doctor"], ["exit status is 1", "devices"]),
        (["demo"], ["exit status is 1", "goal", *DEMOS]),
    ],
)
def test_help_explains(arguments: list[str], explains: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main([*arguments, "--help"])
    assert end.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    assert text.startswith(f"usage: {' '.join(['python -m ggmlpy_ag', *arguments])} ")
    for word in explains:
        assert word in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "required: COMMAND"),
        (["surgeon"], "invalid choice: 'surgeon' (choose from"),
        (["devices", "--yaml"], "unrecognized arguments: --yaml"),
        (["doctor", "now"], "unrecognized arguments: now"),
        (["demo", "dogs"], "invalid choice: 'dogs' (choose from"),
    ],
)
def test_mistakes_are_explained(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(arguments)
    assert end.value.code == 2
    assert message in capsys.readouterr().err


# ---------------------------------------------------------------- devices


def test_devices_are_listed_and_the_default_is_marked(device: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["devices"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [f"{info}  [default]" if info.name == device else str(info) for info in INFOS]


def test_devices_as_json(device: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["devices", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(r["name"], r["kind"], r["description"]) for r in rows] == [(i.name, i.kind, i.description) for i in INFOS]
    assert [r["name"] for r in rows if r["default"]] == [device]
    for row, info in zip(rows, INFOS, strict=True):
        assert row["memory"]["total"] == info.memory()[1] > 0
        assert row["memory"]["free"] >= 0


def test_devices_with_a_wrong_default() -> None:
    done = python("-m", "ggmlpy_ag", "devices", GGMLPY_AG_DEVICE="tpu")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: GGMLPY_AG_DEVICE: no device 'tpu'; there are ")


# ---------------------------------------------------------------- the doctor


def test_the_doctor_finds_no_problem() -> None:
    switch = os.environ["GGMLPY_AG_SOFTWARE_VULKAN"]
    done = python("-m", "ggmlpy_ag", "doctor", GGMLPY_AG_SOFTWARE_VULKAN=switch)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert "ggml-python 0.0.45, ggml 0.15.3" in lines
    assert [line for line in lines if line.startswith("  ") and line[2] != " "] == [f"  {info}" for info in INFOS]
    assert sum("check: relative error" in line for line in lines) == len(INFOS)
    assert f"environment: GGMLPY_AG_SOFTWARE_VULKAN={switch}" in lines
    assert lines[-1] == "no problems found"


@pytest.mark.skipif(not SOFTWARE or bool(HARDWARE), reason="needs software Vulkan and nothing else")
def test_the_doctor_points_at_hidden_software_vulkan() -> None:
    done = python("-m", "ggmlpy_ag", "doctor")
    assert done.returncode == 0
    assert "GGMLPY_AG_SOFTWARE_VULKAN=1 shows it" in done.stdout


def test_the_doctor_reports_a_device_that_computes_wrongly(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "_product_error", lambda name: 0.5 if name == "cpu" else 1e-7)
    assert cli.main(["doctor"]) == 1
    text = capsys.readouterr().out
    assert "problem: cpu computes matrix products wrongly (relative error 5.0e-01)" in text
    assert "no problems found" not in text


def test_the_doctor_reports_nan_and_a_device_that_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(name: str) -> float:
        if name == "cpu":
            return float("nan")
        raise ag.GgmlError("it is broken")

    monkeypatch.setattr(doctor, "_product_error", fail)
    assert cli.main(["doctor"]) == 1
    text = capsys.readouterr().out
    assert "problem: cpu computes matrix products wrongly (relative error nan)" in text
    for name in GPUS:
        assert f"problem: {name}: it is broken" in text


def test_the_doctor_reports_wrong_variables() -> None:
    done = python("-m", "ggmlpy_ag", "doctor", GGMLPY_AG_DEVICE="tpu", GGMLPY_AG_NUM_THREADS="many")
    assert (done.returncode, done.stderr) == (1, "")
    assert "problem: GGMLPY_AG_DEVICE: no device 'tpu'" in done.stdout
    assert "problem: cpu: GGMLPY_AG_NUM_THREADS must be a positive integer, not 'many'" in done.stdout


# ---------------------------------------------------------------- demos


def test_demos_are_listed_with_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["demo"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == DEMOS
    assert all(len(line.split()) > 5 and len(line) <= 120 for line in lines)


@pytest.fixture
def a_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place for a demo of our own, which the command line then runs in this process."""
    path = tmp_path / "demo_own.py"
    monkeypatch.setattr(cli, "demos", lambda: {"own": path})
    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return path


def test_a_demo_gets_its_options_and_gives_its_status(a_demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a_demo.with_name("beside_it.py").write_text("STATUS = 5")
    a_demo.write_text("import sys\nfrom beside_it import STATUS\nprint(sys.argv[1:])\nraise SystemExit(STATUS)")
    with pytest.raises(SystemExit) as end:
        cli.main(["demo", "own", "--epochs", "3", "--help", "x"])
    assert end.value.code == 5
    assert capsys.readouterr().out == "['--epochs', '3', '--help', 'x']\n"


def test_ctrl_c_ends_a_demo_without_a_traceback(a_demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a_demo.write_text("raise KeyboardInterrupt")
    assert cli.main(["demo", "own"]) == 130
    assert capsys.readouterr().err == "interrupted\n"
