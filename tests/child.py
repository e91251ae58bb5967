"""Programs run in a Python of their own: for what is read once per process, and for what may end it."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import ggmlpy_ag as ag

ROOT = Path(ag.__file__).resolve().parent.parent
OURS = ("GGML", "GGMLPY_AG", "GOMP", "OMP")


def run(program: str, *arguments: str, path: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a program text with our own environment variables only; `path` goes before everything else on sys.path."""
    return python("-c", textwrap.dedent(program), *arguments, path=path, **variables)


def python(*arguments: str, path: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run Python with these arguments, likewise."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    env["PYTHONPATH"] = os.pathsep.join([*([str(path)] if path else []), str(ROOT)])
    return subprocess.run(
        [sys.executable, *arguments], env={**env, **variables}, capture_output=True, text=True, check=False
    )


def output(program: str, *arguments: str, **variables: str) -> str:
    """What the program printed; the test fails with its error output if it failed."""
    done = run(program, *arguments, **variables)
    assert done.returncode == 0, f"exit status {done.returncode}: {done.stderr}"
    return done.stdout
