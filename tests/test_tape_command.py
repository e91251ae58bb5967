"""`python -m ggmlpy_ag tape SCRIPT.py`: the script runs as it is, and its tape is reported at the highest point."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from child import python

import ggmlpy_ag as ag
from ggmlpy_ag import cli
from ggmlpy_ag import tape as tapes
from ggmlpy_ag.backend.memory import format_bytes

DEMO = Path(__file__).resolve().parent.parent / "scripts" / "demo_charlm.py"
# Three steps, of which the second has the largest batch. The script knows nothing of the command.
TRAINING = """
import sys
import numpy as np
import ggmlpy_ag as ag
from ggmlpy_ag import nn

model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = ag.optim.SGD(model.parameters(), lr=0.1)
for size in (16, 64, 32):
    with ag.grad_tape():
        loss = ag.mean(model(np.ones((size, 8), np.float32)) ** 2)
    ag.backward(loss)
    print("held", ag.tape_memory().bytes_total)
    print("----")
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(TRAINING, "utf-8")
    return path


def tape(*arguments: str | Path) -> int:
    return cli.main(["tape", *map(str, arguments)])


def page_data(path: Path) -> dict[str, Any]:
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', path.read_text("utf-8"), re.DOTALL)
    assert found
    return json.loads(found[1])


def test_help_explains(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        tape("--help")
    assert end.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    assert text.startswith("usage: python -m ggmlpy_ag tape [-h] [OPTION ...] SCRIPT.py [ARGUMENT ...] ")
    for word in ("--html", "--json", "--top", "--at-step", "exit status", "backward pass"):
        assert word in text


def test_the_highest_of_all_steps_is_reported(script: Path, device: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert tape(script) == 0
    out = capsys.readouterr().out
    assert held(out)[1] == max(held(out))
    own, figure = out.split("----\n")[1].split("held ")  # what the script itself printed there
    assert out.endswith(f"----\n{script}, after backward 2 of 3\n{own}")
    assert format_bytes(int(figure)) in own


def test_a_step_is_reported(script: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "report.json"
    assert tape("--at-step", "3", "--json", file, script) == 0
    out = capsys.readouterr().out
    assert f"{script}, after backward 3 of 3\n" in out
    assert held(out)[2] in numbers(json.loads(file.read_text("utf-8")))


def held(out: str) -> list[int]:
    """Bytes on the tape after each step, as the script has them."""
    return [int(figure) for figure in re.findall(r"^held (\d+)$", out, re.MULTILINE)]


def numbers(data: Any) -> set[int]:
    """All integers somewhere in JSON."""
    if isinstance(data, dict):
        data = list(data.values())
    if isinstance(data, list):
        return set().union(*map(numbers, data))
    return {data} if isinstance(data, int) else set()


def test_the_page_has_layers_lines_and_the_step_over_time(
    script: Path, device: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "report.html"
    assert tape("--html", file, script) == 0
    data = page_data(file)
    strings, storages = data["strings"], data["storages"]
    assert {"0", "1", "2"} <= {strings[i] for i in storages["layer"]}
    assert "train.py:11 in <module>" in {strings[i] for i in storages["line"]}  # though the script asks for no trace
    assert data["totals"]["values_pending"] == 0
    (timeline,) = [t for t in data["timeline"] if strings[t["device"][0]] == ag.device().name]
    assert {"forward", "backward", "update"} <= {strings[i] for i in timeline["phase"]}
    assert timeline["used"][timeline["peak"]] >= data["totals"]["total"]
    capsys.readouterr()


def test_the_script_runs_as_python_runs_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "beside.py").write_text("NAME = 'beside'", "utf-8")
    path = tmp_path / "show.py"
    path.write_text(
        "import sys, beside\nprint(__name__, __file__, sys.argv, beside.NAME)\n" + TRAINING + "\nsys.exit(7)", "utf-8"
    )
    before = list(sys.path), sys.argv
    assert tape("--top", "2", path, "--top", "--help", "x y") == 7
    assert (list(sys.path), sys.argv) == before
    assert (tapes.trace_by_default, tapes.after_backward) == (False, None)
    out = capsys.readouterr().out
    assert out.startswith(f"__main__ {path} {[str(path), '--top', '--help', 'x y']} beside\n")
    assert f"{path}, after backward 2 of 3\n" in out
    del sys.modules["beside"]


def test_a_script_that_fails_is_reported_where_it_did(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script.write_text(
        TRAINING + "with ag.grad_tape():\n    y = model(np.ones((999, 8), np.float32))\n    1 / 0\n", "utf-8"
    )
    assert tape(script) == 1
    out, err = capsys.readouterr()
    assert f"{script}, where the script failed\n" in out
    assert "not yet computed" in out
    first, second = err.splitlines()[:2]
    assert first == "Traceback (most recent call last):"
    assert second.startswith(f'  File "{script}"')
    assert err.endswith("ZeroDivisionError: division by zero\n")


def test_a_script_that_is_interrupted_is_reported(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script.write_text(TRAINING + "raise KeyboardInterrupt\n", "utf-8")
    assert tape(script) == 130
    assert f"{script}, after backward 2 of 3\n" in capsys.readouterr().out


def test_a_tape_without_backward_is_reported_at_the_end(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script.write_text(TRAINING.partition("    ag.backward")[0], "utf-8")
    assert tape(script) == 0
    assert f"{script}, where the script ended\n" in capsys.readouterr().out
    ag.zero_grad()


def test_a_script_without_a_tape(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script.write_text("import ggmlpy_ag\nraise SystemExit('enough')", "utf-8")
    assert tape(script) == 1
    assert capsys.readouterr().err == f"enough\n{script}: no tape that keeps anything; there were 0 backward passes\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.py"], "there is no script nowhere.py"),
        (["--html", "nowhere/a.html", __file__], "--html: there is no folder "),
        (["--json", "nowhere/a.json", __file__], "--json: there is no folder "),
        (["--top", "-1", __file__], "--top must be at least 0, not -1"),
        (["--at-step", "0", __file__], "--at-step must be at least 1, not 0"),
    ],
)
def test_mistakes_are_found_before_the_script_runs(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tape(*arguments) == 2
    assert capsys.readouterr().err.startswith(f"error: {message}")


def test_a_step_that_never_came(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tape("--at-step", "4", script) == 1
    assert f"{script}: no backward pass 4; there were 3 backward passes\n" in capsys.readouterr().err


def test_the_demo_as_it_is(tmp_path: Path) -> None:
    """At this context the attention's operands count among the largest activations; its probabilities are scratch."""
    file = tmp_path / "out.html"
    done = python(
        "-m", "ggmlpy_ag", "tape", "--html", str(file), str(DEMO), "--steps", "1", "--sample", "1", "--device", "cpu"
    )
    assert done.returncode == 1, done.stderr  # the demo's own: one step misses its goal
    assert f"{DEMO}, after backward 1 of 1\n" in done.stdout
    data = page_data(file)
    strings, storages = data["strings"], data["storages"]
    kept = [strings[i] for i in storages["shape"]]
    assert kept.count("(16, 4, 64, 16)") >= 6  # q, k and v of two layers
    (timeline,) = data["timeline"]
    scratch = {strings[s] for s, p in zip(timeline["shape"], timeline["part"], strict=True) if strings[p] == "scratch"}
    assert "(16, 4, 64, 64)" in scratch
