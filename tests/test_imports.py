"""The house: files import from floors below only, backend/ alone touches ggml, and public names explain themselves."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from types import ModuleType

import pytest

import ggmlpy_ag as ag

PACKAGE = Path(ag.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
# From the ground up; a room of the same height may not be entered either, but for files of one folder.
FLOORS = [
    ["backend"],
    ["tensor"],
    ["exchange", "paths", "tape"],
    ["ops"],
    ["checkpoint", "gradcheck", "report"],
    ["data", "nn", "optim"],
    ["doctor", "io"],
    ["cli"],
    ["__init__", "__main__"],
]


def room(path: Path) -> str:
    """The folder inside the package, or the file's own name."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return parts[0]


def floor(name: str) -> int:
    return next(i for i, names in enumerate(FLOORS) if name in names)


def imports(path: Path) -> set[tuple[str, int]]:
    """(module, dots) of every import statement in a file, but for those that only a type checker follows."""
    found = set()
    tree = ast.parse(path.read_text("utf-8"))
    for node in tree.body:
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {(alias.name, 0) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names = [node.module] if node.module else [alias.name for alias in node.names]
            found |= {(name or "", node.level) for name in names}
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_only_the_backend_touches_ggml(path: Path) -> None:
    used = {name.split(".")[0] for name, level in imports(path) if level == 0}
    assert room(path) == "backend" or not used & {"ggml", "ctypes"}


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_go_downwards(path: Path) -> None:
    here = room(path)
    depth = len(path.relative_to(PACKAGE).parts)  # dots that lead to the package
    for name, level in imports(path):
        if level == depth:
            other = name.split(".")[0]
            assert other == here or floor(other) < floor(here), f"{path.name} imports {name}"


def test_every_file_says_what_it_is() -> None:
    for path in FILES:
        assert ast.get_docstring(ast.parse(path.read_text("utf-8"))), path


@pytest.mark.parametrize("name", sorted(ag.__all__))
def test_public_names_have_a_docstring(name: str) -> None:
    thing = getattr(ag, name)
    assert inspect.getdoc(thing), name


def test_public_names_are_listed_once() -> None:
    assert len(ag.__all__) == len(set(ag.__all__))
    assert all(hasattr(ag, name) for name in ag.__all__)


@pytest.mark.parametrize("module", [ag, ag.data, ag.io, ag.nn, ag.optim, ag.optim.lr], ids=lambda m: m.__name__)
def test_public_methods_have_a_docstring(module: ModuleType) -> None:
    without = [
        f"{owner.__name__}.{name}"
        for owner in vars(module).values()
        if inspect.isclass(owner)
        for name, member in vars(owner).items()
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property))
        if not inspect.getdoc(member)
    ]
    assert without == []
