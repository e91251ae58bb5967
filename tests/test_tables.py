"""The tables for people who come from PyTorch or ggmlR name what there is."""

from __future__ import annotations

import importlib
import re
from functools import reduce
from pathlib import Path

import pytest

import ggmlpy_ag as ag

DOCS = Path(ag.__file__).resolve().parent.parent / "docs"


def rows(page: str) -> list[tuple[str, list[str]]]:
    """The name there and the names here of each row."""
    lines = (DOCS / page).read_text("utf-8").splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| `")]
    return [(there.strip("`"), re.findall(r"`([^`]+)`", here)) for there, here, *_ in cells]


def look_up(name: str) -> object:
    """What a dotted name stands for; the first part is a module."""
    module, *path = name.split(".")
    roots = {"ag": ag}
    root = roots[module] if module in roots else importlib.import_module(module)
    return reduce(getattr, path, root)


@pytest.mark.parametrize("page", ["from-pytorch.md", "from-ggmlr.md"])
def test_every_name_here_exists(page: str) -> None:
    table = rows(page)
    assert len(table) > 40
    for there, here in table:
        assert here, f"{there} has no name here"
        for name in here:
            assert name.startswith("ag."), name
            assert look_up(name) is not None, name


def test_every_name_of_pytorch_exists() -> None:
    pytest.importorskip("torch")
    importlib.import_module("torch.utils.checkpoint")
    for there, _ in rows("from-pytorch.md"):
        assert look_up(there) is not None, there


def test_no_name_is_listed_twice() -> None:
    for page in ("from-pytorch.md", "from-ggmlr.md"):
        names = [there for there, _ in rows(page)]
        assert len(names) == len(set(names)), page
