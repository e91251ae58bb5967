"""Paths of layers, such as "layers.0.attention", and patterns of them."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase


class SeveralResults(TypeError):
    """A layer that shall be checkpointed, of this path, returns something else than one tensor."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path = path


def fits(path: str, pattern: str) -> bool:
    """Whether a path is the pattern, or fits it part by part; "" is the model itself, which no wildcard means."""
    parts, wanted = path.split("."), pattern.split(".")
    return path == pattern or (path != "" and len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted)))


def is_within(path: str, outer: str) -> bool:
    """Whether a layer is another one or a part of it."""
    return not outer or path == outer or path.startswith(outer + ".")


def matching(who: str, patterns: Iterable[str], paths: Iterable[str]) -> list[str]:
    """The paths that fit one of the patterns, in their order.

    Raises:
        ValueError: a pattern that fits none. TypeError: one that is no text.
    """
    known = list(paths)
    found: set[str] = set()
    for pattern in patterns:
        if not isinstance(pattern, str):
            raise TypeError(f"{who}: a layer is named by its path, not by {pattern!r}")
        fitting = [path for path in known if fits(path, pattern)]
        if not fitting:
            some = named(known[:20]) + ", ..." * (len(known) > 20)
            raise ValueError(f"{who}: no layer is called {pattern!r}; there are {some or 'none'}")
        found.update(fitting)
    return [path for path in known if path in found]


def named(paths: Iterable[str]) -> str:
    """Paths in a message: the model's own is ''."""
    return ", ".join(map(repr, paths))


def listed(patterns: str | Iterable[str]) -> list[str]:
    """One pattern or several, as a list."""
    return [patterns] if isinstance(patterns, str) else list(patterns)
