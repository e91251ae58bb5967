"""Damaged copies of a safetensors file, for the tests of checkpoints."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Damage = Callable[[bytes, np.random.Generator], bytes]


def parts(good: bytes) -> tuple[dict[str, Any], bytes]:
    """Header and data."""
    end = 8 + int.from_bytes(good[:8], "little")
    return json.loads(good[8:end]), good[end:]


def joined(header: Any, data: bytes) -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def truncated(good: bytes, rng: np.random.Generator) -> bytes:
    return good[: rng.integers(len(good))]


def extended(good: bytes, rng: np.random.Generator) -> bytes:
    return good + rng.bytes(rng.integers(1, 100))


def cut_out(good: bytes, rng: np.random.Generator) -> bytes:
    start = int(rng.integers(len(good)))
    return good[:start] + good[start + int(rng.integers(1, 64)) :]


def _flipped(good: bytes, at: int, rng: np.random.Generator) -> bytes:
    return good[:at] + bytes([good[at] ^ (1 << int(rng.integers(8)))]) + good[at + 1 :]


def header_bit(good: bytes, rng: np.random.Generator) -> bytes:
    return _flipped(good, int(rng.integers(8 + int.from_bytes(good[:8], "little"))), rng)


def data_bit(good: bytes, rng: np.random.Generator) -> bytes:
    return _flipped(good, int(rng.integers(8 + int.from_bytes(good[:8], "little"), len(good))), rng)


def bytes_swapped(good: bytes, rng: np.random.Generator) -> bytes:
    content = bytearray(good)
    i, j = rng.integers(len(good), size=2)
    content[i], content[j] = content[j], content[i]
    return bytes(content)


def overwritten(good: bytes, rng: np.random.Generator) -> bytes:
    """A block of zeros, of garbage, or of another place: what a disk does."""
    size = int(rng.integers(8, 600))
    start, other = rng.integers(len(good) - size, size=2)
    block = (b"\0" * size, rng.bytes(size), good[other : other + size])[rng.integers(3)]
    return good[:start] + block + good[start + size :]


def length_lied(good: bytes, rng: np.random.Generator) -> bytes:
    length = (0, 1, len(good), 2**31, 2**32, 2**60, 2**63, 2**64 - 1, int(rng.integers(len(good))))[rng.integers(9)]
    return length.to_bytes(8, "little") + good[8:]


def offsets_shuffled(good: bytes, rng: np.random.Generator) -> bytes:
    header, data = parts(good)
    entries = [entry for name, entry in header.items() if name != "__metadata__"]
    offsets = [entry["data_offsets"] for entry in entries]
    for entry, i in zip(entries, rng.permutation(len(entries)), strict=True):
        entry["data_offsets"] = offsets[i]
    return joined(header, data)


def entry_changed(good: bytes, rng: np.random.Generator) -> bytes:
    """A lie about one tensor."""
    header, data = parts(good)
    names = [name for name in header if name != "__metadata__"]
    name, other = rng.choice(names, 2, replace=False)
    entry = header[name]
    start, end = entry["data_offsets"]
    lies: list[dict[str, Any]] = [
        {"shape": [*entry["shape"], 1]},
        {"shape": [-1, *entry["shape"]]},
        {"shape": [2**62, 2**62]},
        {"shape": None},
        {"dtype": "I32" if entry["dtype"] == "F32" else "F32"},
        {"dtype": "F8_E4M3"},
        {"dtype": ["F32"]},
        {"data_offsets": [start, end + 4]},
        {"data_offsets": [start - 4, end]},
        {"data_offsets": [start, 2**64 - 1]},
        {"data_offsets": [end, start + 1]},
        header[other],
    ]
    return joined({**header, name: {**entry, **lies[rng.integers(len(lies))]}}, data)


def names_changed(good: bytes, rng: np.random.Generator) -> bytes:
    """A tensor under another name, gone, or there twice."""
    header, data = parts(good)
    names = [name for name in header if name != "__metadata__"]
    name, other = rng.choice(names, 2, replace=False)
    way = rng.integers(3)
    if way == 0:
        header[name], header[other] = header[other], header[name]
    elif way == 1:
        del header[name]
    else:
        text = json.dumps(header)[:-1] + f", {json.dumps(name)}: {json.dumps(header[name])}}}"
        return len(text).to_bytes(8, "little") + text.encode() + data
    return joined(header, data)


def metadata_changed(good: bytes, rng: np.random.Generator) -> bytes:
    """One digit or letter of the state, which stays JSON in most cases."""
    header, data = parts(good)
    state = header["__metadata__"]["state"]
    at = int(rng.integers(len(state)))
    letter = str(rng.integers(10)) if state[at].isdigit() else chr(rng.integers(97, 123))
    header["__metadata__"]["state"] = state[:at] + letter + state[at + 1 :]
    return joined(header, data)


def garbage(good: bytes, rng: np.random.Generator) -> bytes:
    return rng.bytes(rng.integers(1, 2000))


def garbage_behind_a_length(good: bytes, rng: np.random.Generator) -> bytes:
    content = rng.bytes(rng.integers(50, 2000))
    return int(rng.integers(len(content))).to_bytes(8, "little") + content


def nested(good: bytes, rng: np.random.Generator) -> bytes:
    text = (b"[", b'{"a":')[rng.integers(2)] * int(rng.integers(1000, 100_000))
    return len(text).to_bytes(8, "little") + text


KINDS: tuple[Damage, ...] = (
    truncated, extended, cut_out, header_bit, data_bit, bytes_swapped, overwritten, length_lied, offsets_shuffled,
    entry_changed, names_changed, metadata_changed, garbage, garbage_behind_a_length, nested,
)  # fmt: skip


def damaged(good: bytes, count: int) -> Iterator[tuple[str, bytes]]:
    """That many files that differ from the good one, of all kinds, the same in every run."""
    rng = np.random.default_rng(2024)
    for i in range(count):
        damage = KINDS[i % len(KINDS)]
        content = good
        while content == good:
            content = damage(good, rng)
        yield damage.__name__, content
