"""The safetensors format: a header in JSON that says where each tensor's bytes are, and those bytes.

https://huggingface.co/docs/safetensors. Its own package checks every header, also of what is written here; the bytes
are written one tensor at a time, and read in place, in a memory map.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from ..backend.array import BFLOAT, to_bfloat
from ..tensor import Tensor
from .replacing import replacing

TYPES: dict[str, np.dtype] = {
    "F64": np.dtype("<f8"), "F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": BFLOAT,
    "I64": np.dtype("<i8"), "I32": np.dtype("<i4"), "I16": np.dtype("<i2"), "I8": np.dtype("i1"),
    "U64": np.dtype("<u8"), "U32": np.dtype("<u4"), "U16": np.dtype("<u2"), "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
}  # fmt: skip
CODES = {dtype: code for code, dtype in TYPES.items()}
METADATA = "__metadata__"
CHECKSUM = "checksum"  # CRC-32 of all bytes before it: the last tensor of a sealed file


class FileFormatError(ValueError):
    """A file is not what it should be, is damaged, or comes from a newer version."""


# ---------------------------------------------------------------- writing


def write(
    path: str | os.PathLike[str],
    tensors: Mapping[str, Tensor | np.ndarray],
    metadata: Mapping[str, str],
    sealed: bool = False,
) -> None:
    """Write a file as a whole or not at all; `sealed` with a checksum.

    Raises:
        TypeError: a name or an entry that the format has no place for. ValueError: text that is no Unicode.
        OSError: it cannot be written.
    """
    package = _package()
    for key, value in metadata.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"metadata must have text under text, not {value!r} under {key!r}")
    codes = {name: _code(name, value) for name, value in tensors.items()}
    sizes = {name: TYPES[code].itemsize for name, code in codes.items()}
    order = sorted(sizes, key=lambda name: -sizes[name])  # each element lies at a multiple of its size then
    header: dict[str, Any] = {METADATA: dict(metadata)} if metadata else {}
    end = 0
    for name in order:
        start, end = end, end + sizes[name] * prod(tensors[name].shape)
        header[name] = _entry(codes[name], tensors[name].shape, start, end)
    if sealed:
        header[CHECKSUM] = _entry("U32", (), end, end + 4)
    try:
        text = json.dumps(header, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"names and metadata must be valid Unicode: {error}") from None
    text += b" " * (-len(text) % 8)
    head = len(text).to_bytes(8, "little") + text
    with replacing(path) as file:
        file.write(head)
        crc = zlib.crc32(head)
        for name in order:
            data = _bytes(tensors[name], TYPES[codes[name]])
            file.write(data)
            crc = zlib.crc32(data, crc)
        if sealed:
            file.write(crc.to_bytes(4, "little"))
        file.flush()
        _check(package, file.name)  # before it takes the place of a good one: a header may be too long, for instance


def _entry(code: str, shape: tuple[int, ...], start: int, end: int) -> dict[str, Any]:
    return {"dtype": code, "shape": list(shape), "data_offsets": [start, end]}


def _code(name: Any, value: Any) -> str:
    if not isinstance(name, str) or name == METADATA:
        raise TypeError(f"a tensor's name must be a text other than {METADATA}, not {name!r}")
    if not isinstance(value, (Tensor, np.ndarray)):
        raise TypeError(f"{name} must be a Tensor or a NumPy array, not {type(value).__name__}")
    code = CODES.get(value.dtype.newbyteorder("<"))
    if code is None:
        raise TypeError(f"{name} has type {value.dtype}: a file holds real numbers of {', '.join(TYPES)}")
    return code


def _bytes(value: Tensor | np.ndarray, dtype: np.dtype) -> memoryview:
    """The elements in C order."""
    array = value.numpy() if isinstance(value, Tensor) else value  # of a bfloat16 tensor in float32
    array = to_bfloat(array) if dtype is BFLOAT and array.dtype != BFLOAT else array.astype(dtype, copy=False)
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


# ---------------------------------------------------------------- reading


class Contents:
    """A file's tensors by name, as read-only arrays in a memory map, and its metadata."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._raw, header = _opened(self.path)
        self.metadata: dict[str, str] = header.pop(METADATA, None) or {}
        self._entries = header
        self._start = 8 + int.from_bytes(self._raw[:8], "little")

    def arrays(self) -> dict[str, np.ndarray]:
        """All tensors; raises FileFormatError for a type that is not in TYPES."""
        found = {}
        for name, entry in self._entries.items():
            try:
                start, end = (self._start + offset for offset in entry["data_offsets"])
                found[name] = self._raw[start:end].view(TYPES[entry["dtype"]]).reshape(entry["shape"])
            except KeyError:
                known = ", ".join(TYPES)
                raise FileFormatError(f"{self.path}: tensor {name} has type {entry['dtype']}, not {known}") from None
            except (
                OverflowError,
                TypeError,
                ValueError,
            ):  # such as 65 dimensions, or a form that the package lets pass
                raise FileFormatError(f"{self.path}: tensor {name} cannot be described by {entry}") from None
        return found

    def intact(self) -> bool:
        """Whether the bytes of a sealed file are those that were written."""
        return zlib.crc32(self._raw[:-4].data) == int.from_bytes(self._raw[-4:], "little")


def _opened(path: str) -> tuple[np.ndarray, dict[str, Any]]:
    """The bytes, in a memory map, and the header."""
    package = _package()
    while True:
        with open(path, "rb") as file:
            _check(package, path)
            if not os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
                continue  # it was replaced between these lines: the new one was checked, the old one opened
            raw = np.asarray(np.memmap(file, np.uint8, "r"))
        size = int.from_bytes(raw[:8], "little")
        try:
            return raw, json.loads(raw[8 : 8 + size].tobytes(), object_pairs_hook=_unique)
        except ValueError as error:
            raise FileFormatError(f"{path}: {error}") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is in the header twice")
    return found


def _check(package: Any, path: str) -> None:
    """Raise FileFormatError unless the header is sound, and its tensors take up all bytes without holes."""
    try:
        with package.safe_open(path, "numpy"):
            pass
    except package.SafetensorError as error:
        raise FileFormatError(f"{path} is no safetensors file: {error}") from None


def _package() -> Any:
    try:
        import safetensors
    except ImportError:
        raise ImportError("files need the package safetensors: pip install 'ggmlpy_ag[files]'") from None
    return safetensors
