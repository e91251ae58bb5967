"""Every Python block of the README and the docs runs as written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ggmlpy_ag as ag

ROOT = Path(__file__).resolve().parent.parent
PAGES = [
    path
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    if path.name != "backends.md"  # whose programs are for one device or both: test_backends_doc.py
]
BLOCKS = [
    pytest.param(block, id=f"{path.name}-{i}")
    for path in PAGES
    for i, block in enumerate(re.findall(r"```python\n(.*?)```", path.read_text("utf-8"), re.DOTALL), 1)
]
# Programs with what they print below them.
PRINTING = [
    pytest.param(program, printed, id=f"{path.name}-{i}")
    for path in PAGES
    for i, (program, printed) in enumerate(
        re.findall(r"```python\n((?:(?!```).)*)```\n\n```text\n(.*?)```", path.read_text("utf-8"), re.DOTALL), 1
    )
]


@pytest.mark.parametrize("block", BLOCKS)
def test_block_runs(block: str, device: str) -> None:
    if "import torch" in block:
        pytest.importorskip("torch")
    exec(compile(block, "documentation", "exec"), {})


def test_readme_figures_are_exact(device: str) -> None:
    """The README's promise: activations and fields are what clearing the tape frees, with `loss` and `h` bound."""
    names: dict[str, object] = {}
    exec(re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)[0], names)
    report = names["report"]
    assert isinstance(report, ag.TapeReport)
    assert report.bytes_freeable == 256
    before = ag.memory_stats().live
    ag.zero_grad()
    assert before - ag.memory_stats().live == report.bytes_freeable


def test_readme_shows_the_report_as_it_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    with ag.device("cpu"):
        exec(re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0], {})
    assert capsys.readouterr().out.strip() in text


@pytest.mark.parametrize(("program", "printed"), PRINTING)
def test_block_prints_what_the_page_says(program: str, printed: str, tmp_path: Path) -> None:
    """As a reader runs it: saved as train.py, on the CPU."""
    (tmp_path / "train.py").write_text(program, "utf-8")
    done = subprocess.run(
        [sys.executable, "train.py"],
        cwd=tmp_path,
        env={**os.environ, "GGMLPY_AG_DEVICE": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip() == printed.rstrip()
