"""Where the source writes to a name: the line that makes it hold something."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterable, Iterator
from types import CodeType

from .recorder import Frame

_REMOVING = {"clear", "discard", "pop", "popitem", "popleft", "remove", "reverse", "sort"}  # methods that add nothing


class Sources:
    """The lines of files, parsed once each."""

    def __init__(self) -> None:
        self._trees: dict[str, ast.Module | None] = {}

    def of_variable(
        self, code: CodeType, name: str, grows: bool, near: int | None = None, outer: bool = False
    ) -> int | None:
        """The line of a function, or of one inside it, that sets a variable; the last one up to the line `near`.

        Args:
            code: of the function.
            name: of the variable.
            grows: whether its value is a container: then a line that puts something into it is preferred.
            near: a line, by default the function's last.
            outer: whether the functions around it count as well.
        """
        tree = self._tree(code.co_filename)
        function = None if tree is None else _around(tree, code) if outer else _function(tree, code)
        if function is None:
            return None
        lines = _lines(function, name, grows)
        before = [line for line in lines if near is None or line <= near]
        return before[-1] if before else lines[0] if lines else _parameter(function, name)

    def of_global(self, file: str, name: str, grows: bool, stack: Iterable[Frame]) -> int | None:
        """Likewise the line of a file that sets a global variable: the closest one to where the program is or was."""
        tree = self._tree(file)
        return None if tree is None else _closest(_lines(tree, name, grows), file, stack)

    def of_attribute(self, file: str, kind: str, name: str, grows: bool, stack: Iterable[Frame]) -> int | None:
        """Likewise the line of a file that sets an attribute: one in the class of that name, else any."""
        tree = self._tree(file)
        if tree is None:
            return None
        classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == kind]
        lines = [line for node in classes for line in _lines(node, f".{name}", grows)]
        return _closest(lines or _lines(tree, f".{name}", grows), file, stack)

    def _tree(self, file: str) -> ast.Module | None:
        if file not in self._trees:
            try:
                self._trees[file] = ast.parse("".join(linecache.getlines(file)))
            except (SyntaxError, ValueError):  # changed since, or no Python
                self._trees[file] = None
        return self._trees[file]


def _function(tree: ast.Module, code: CodeType) -> ast.AST | None:
    """The definition that a code object was made from."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == code.co_name:
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            if first == code.co_firstlineno:
                return node
    return None


def _around(tree: ast.Module, code: CodeType) -> ast.AST | None:
    """The outermost definition that has a code object's first line."""
    line = code.co_firstlineno
    return next((node for node in tree.body if node.lineno <= line <= (node.end_lineno or node.lineno)), None)


def _parameter(function: ast.AST, name: str) -> int | None:
    if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        arguments = function.args
        named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        return next((a.lineno for a in named if a is not None and a.arg == name), None)
    return None


def _lines(tree: ast.AST, name: str, grows: bool) -> list[int]:
    """The lines that set a name, or rather, where `grows`, those that put something into its value."""
    sets: list[int] = []
    puts: list[int] = []
    for node in ast.walk(tree):
        for target, changed in _targets(node):
            depth = _depth(target, name)
            if depth is not None:
                (puts if depth + changed else sets).append(target.lineno)
    return sorted(puts if grows and puts else sets)


def _closest(lines: list[int], file: str, stack: Iterable[Frame]) -> int | None:
    """The line with the least distance to a place of the stack; the first of several, or without such a place."""
    places = [frame.line for frame in stack if frame.file == file]
    return min(lines, key=lambda line: min((abs(line - place) for place in places), default=0), default=None)


def _targets(node: ast.AST) -> Iterator[tuple[ast.expr, bool]]:
    """The expressions that a node writes to, and whether it changes their value instead of setting it."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield from ((part, False) for part in _parts(target))
    elif isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.NamedExpr, ast.For, ast.AsyncFor)):
        yield from ((part, False) for part in _parts(node.target))
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        yield from ((part, False) for part in _parts(node.optional_vars))
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        method = node.value.func  # whose result is dropped: losses.append(loss)
        if isinstance(method, ast.Attribute) and method.attr not in _REMOVING:
            yield method.value, True


def _parts(target: ast.expr) -> Iterator[ast.expr]:
    if isinstance(target, (ast.Tuple, ast.List)):
        for part in target.elts:
            yield from _parts(part)
    else:
        yield target.value if isinstance(target, ast.Starred) else target


def _depth(target: ast.expr, name: str) -> int | None:
    """How far inside the value of a name, or of an attribute ".name", the target is: 0 for the name itself."""
    depth = 0
    while True:
        if isinstance(target, ast.Name):
            return depth if target.id == name else None
        if isinstance(target, ast.Attribute):
            if "." + target.attr == name:
                return depth
        elif not isinstance(target, ast.Subscript):
            return None
        target = target.value
        depth += 1
