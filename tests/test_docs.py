"""Every Python block of the README and the docs runs as written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import ggmlpy_ag as ag

ROOT = Path(__file__).resolve().parent.parent
BLOCKS = [
    pytest.param(block, id=f"{path.name}-{i}")
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    if path.name != "backends.md"  # whose programs are for one device or both: test_backends_doc.py
    for i, block in enumerate(re.findall(r"```python\n(.*?)```", path.read_text("utf-8"), re.DOTALL), 1)
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
