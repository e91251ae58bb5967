"""Every public operation explains itself, and the examples in its docstring run as written, on every device."""

from __future__ import annotations

import doctest
import inspect

import numpy as np
import pytest

import ggmlpy_ag as ag
from ggmlpy_ag import ops

NAMES = sorted({*ops.__all__, "checkpoint", "gradcheck"})


@pytest.mark.parametrize("name", NAMES)
def test_examples_run(name: str, device: str) -> None:
    function = getattr(ag, name)
    finder = doctest.DocTestFinder(recurse=False)
    tests = finder.find(function, name, globs={"ag": ag, "np": np})
    examples = [t for t in tests if t.examples]
    assert examples, f"{name} has no example"
    for test in examples:
        text: list[str] = []
        failed, _ = doctest.DocTestRunner(verbose=False).run(test, out=text.append)
        assert not failed, "".join(text)


@pytest.mark.parametrize("name", NAMES)
def test_docstrings_name_arguments_and_errors(name: str) -> None:
    function = getattr(ag, name)
    text = inspect.getdoc(function) or ""
    if not inspect.signature(function).parameters:
        return
    assert "Raises:" in text, f"{name} does not say what it raises"
    assert "Args:" in text, f"{name} does not say what it takes"
    for argument in inspect.signature(function).parameters:
        assert argument in text, f"{name} does not explain {argument}"
