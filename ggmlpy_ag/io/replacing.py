"""Writing a file as a whole or not at all."""

from __future__ import annotations

import glob
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

WINDOWS = sys.platform == "win32"


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to write, which takes the place of `path` when the `with` block ends.

    It is written beside `path` under a name of its own, synced to the disk and renamed, so that at any time, whatever
    ends the process or the machine, `path` is the old file or the new one. After an error the old one is left and
    nothing else. What a killed process left behind goes when the same file is written the next time.
    """
    target = Path(path).resolve()  # of a link, the file that it leads to
    _sweep(target)
    file, name = _create(target)
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if not WINDOWS:  # while it is locked: nobody sweeps it
                os.replace(name, target)
        if WINDOWS:  # which renames no open file
            os.replace(name, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise
    _sync_folder(target.parent)


def _create(target: Path) -> tuple[BinaryIO, str]:
    """A new locked file beside the target. Not by `tempfile`, whose files nobody else may read."""
    while True:
        name = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
        file = open(name, "xb")  # noqa: SIM115 - the caller closes it
        with suppress(OSError):  # there are file systems without locks: nothing is swept there
            _lock(file)
        if name.exists():  # else it was swept before it was locked
            return file, str(name)
        file.close()


def _sweep(target: Path) -> None:
    """Remove what killed processes left of this file: what is being written is locked. On Windows it stays."""
    if WINDOWS:
        return
    for leftover in glob.iglob(glob.escape(str(target.with_name(f".{target.name}."))) + "????????.tmp"):
        with suppress(OSError), open(leftover, "rb") as file:
            _lock(file, wait=False)
            os.unlink(leftover)


if sys.platform == "win32":

    def _lock(file: BinaryIO, wait: bool = True) -> None:
        """Windows neither renames nor removes open files: that is lock enough."""

    def _sync_folder(folder: Path) -> None:
        """Windows has no such call."""

else:
    import fcntl

    def _lock(file: BinaryIO, wait: bool = True) -> None:
        """Lock a file until it is closed or its process ends; OSError if another has locked it and `wait` is false."""
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))

    def _sync_folder(folder: Path) -> None:
        """Make a renaming last, where the file system can."""
        with suppress(OSError):
            handle = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
