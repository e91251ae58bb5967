"""Public names explain themselves, and the examples in their docstrings run as written, on every device."""

from __future__ import annotations

import doctest
import inspect
from typing import Any

import numpy as np
import pytest

import ggmlpy_ag as ag
from ggmlpy_ag import nn, ops

BESIDE = ("checkpoint", "from_dlpack", "gradcheck", "holders", "memory_leaks")
OPERATIONS = {name: getattr(ag, name) for name in (*ops.__all__, *BESIDE)}
FUNCTIONS = (
    OPERATIONS | {"nn.summary": nn.summary} | {f"nn.init.{name}": getattr(nn.init, name) for name in nn.init.__all__}
)
LAYERS = {
    f"nn.{name}": kind for name, kind in vars(nn).items() if inspect.isclass(kind) and issubclass(kind, nn.Module)
}
PUBLIC: dict[str, Any] = FUNCTIONS | LAYERS


def examples(name: str) -> list[doctest.DocTest]:
    found = doctest.DocTestFinder().find(PUBLIC[name], name, globs={"ag": ag, "np": np})
    return [test for test in found if test.examples]


@pytest.mark.parametrize("name", sorted(name for name in PUBLIC if name in FUNCTIONS or examples(name)))
def test_examples_run(name: str, device: str) -> None:
    tests = examples(name)
    assert tests, f"{name} has no example"
    for test in tests:
        text: list[str] = []
        failed, _ = doctest.DocTestRunner(verbose=False).run(test, out=text.append)
        assert not failed, "".join(text)


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_docstrings_name_arguments_and_errors(name: str) -> None:
    text = inspect.getdoc(PUBLIC[name]) or ""
    parameters = inspect.signature(PUBLIC[name]).parameters.values()
    named = [p.name for p in parameters if not p.name.startswith("_")]
    if not named:
        return
    assert "Raises:" in text, f"{name} does not say what it raises"
    assert "Args:" in text, f"{name} does not say what it takes"
    for argument in named:
        assert argument in text, f"{name} does not explain {argument}"
