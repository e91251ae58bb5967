"""Files of tensors: what is saved comes back, to and from PyTorch too; and what is no such file says so."""

from __future__ import annotations

import json
import os
import pickle
import struct
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from child import run

import ggmlpy_ag as ag
from ggmlpy_ag.io.replacing import replacing

safetensors_numpy = pytest.importorskip("safetensors.numpy")


class Net(ag.nn.Module):
    def __init__(self, start: float = 1.0) -> None:
        self.w = ag.param(np.full((3, 4), start))
        self.half = ag.param(np.full(5, start), dtype="bfloat16")
        self.register_buffer("count", ag.tensor([7]))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file.safetensors"


def raw(header: Any, data: bytes = b"", length: int | None = None) -> bytes:
    """A file of that header, as JSON or as it is, and data."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(dtype: str, shape: list[int], start: int, end: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


# ---------------------------------------------------------------- there and back


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32"])
@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5), (2, 3, 1, 5)])
def test_values_come_back(device: str, path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(0).standard_normal(shape) * 100
    x = ag.tensor(np.trunc(values) if dtype == "int32" else values, dtype)
    ag.io.save({"x": x, "other": ag.tensor([1.0])}, path)
    back = ag.io.load(path)
    assert sorted(back) == ["other", "x"]
    assert back["x"].device == device and back["x"].dtype == x.dtype and not back["x"].requires_grad
    np.testing.assert_array_equal(back["x"].numpy(), x.numpy(), strict=True)


def test_special_values_and_views_come_back(device: str, path: Path) -> None:
    special = np.array([[0.0, -0.0, np.inf], [-np.inf, np.nan, 1e-42]], np.float32)
    x = ag.tensor(special)
    ag.io.save({"x": x, "T": x.T, "part": x[:, 1:], "pending": x * 2}, path)
    back = ag.io.load(path)
    assert back["x"].numpy().tobytes() == special.tobytes()
    np.testing.assert_array_equal(back["T"].numpy(), special.T)
    np.testing.assert_array_equal(back["part"].numpy(), special[:, 1:])
    np.testing.assert_array_equal(back["pending"].numpy(), (x * 2).numpy())


def test_arrays_keep_their_type(path: Path) -> None:
    arrays: dict[str, np.ndarray] = {
        "f8": np.array([1 / 3]), "i8": np.array([2**40]), "u8": np.array([2**64 - 1], np.uint64),
        "i2": np.array([[1, -2]], ">i2"), "u1": np.arange(6, dtype=np.uint8).reshape(2, 3).T, "bool": np.array([True]),
        "none": np.zeros((0, 3), np.float32),
    }  # fmt: skip
    ag.io.save(arrays, path)
    back = safetensors_numpy.load_file(path)
    assert set(back) == set(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(back[name], array)
        assert back[name].dtype == array.dtype.newbyteorder("=") and back[name].shape == array.shape


def test_a_module_and_metadata(device: str, path: Path) -> None:
    ag.io.save(Net(2.0), path, {"epoch": "3", "ü": "😀"})
    model = Net()
    model.load_state_dict(ag.io.load(path))
    assert model.w.tolist() == [[2.0] * 4] * 3 and model.half.tolist() == [2.0] * 5 and model.count.tolist() == [7]
    assert ag.io.load_metadata(path) == {"epoch": "3", "ü": "😀"}
    ag.io.save({}, path)
    assert ag.io.load(path) == {} and ag.io.load_metadata(path) == {}
    path.write_bytes(raw({"__metadata__": None}))
    assert ag.io.load(path) == {} and ag.io.load_metadata(path) == {}


def test_floats_are_rounded_on_request(device: str, path: Path) -> None:
    values = np.array([1 / 3, 1e5], np.float32)
    ag.io.save({n: ag.tensor(values, n) for n in ("float32", "float16", "bfloat16")} | {"i": ag.tensor([2**30])}, path)
    for dtype in ("float32", "float16", "bfloat16"):
        back = ag.io.load(path, dtype=dtype)
        assert back.pop("i").tolist() == [2**30]
        for name, tensor in back.items():
            expected = ag.tensor(ag.tensor(values, name).numpy(), dtype)
            assert tensor.dtype == expected.dtype
            np.testing.assert_array_equal(tensor.numpy(), expected.numpy())


def test_a_file_is_read_in_place(path: Path) -> None:
    """No tensor is copied on the host, and each goes to the device once."""
    n = 1 << 18
    x = ag.tensor(np.arange(n), device="cpu")
    ag.io.save({"i": x, "b": x.to("bfloat16"), "f": x.to("float32")}, path)
    ag.io.load(path, "cpu")  # what is imported and opened is
    before = ag.counters().upload_bytes
    tracemalloc.start()
    ag.io.load(path, "cpu")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < n / 4
    assert ag.counters().upload_bytes - before == 10 * n


# ---------------------------------------------------------------- other programs


def test_pytorch_reads_our_files(device: str, path: Path) -> None:
    torch = pytest.importorskip("torch")
    from safetensors.torch import load_file

    values = np.random.default_rng(1).standard_normal((3, 5)).astype(np.float32)
    names = ("float32", "float16", "bfloat16")
    ag.io.save({n: ag.tensor(values, n) for n in names} | {"int32": ag.tensor([1, -2])}, path, {"by": "us"})
    back = load_file(path)
    for name in names:
        assert back[name].dtype == getattr(torch, name)
        assert torch.equal(back[name], torch.tensor(values).to(back[name].dtype))
    assert back["int32"].dtype == torch.int32 and back["int32"].tolist() == [1, -2]


def test_we_read_pytorch_files(device: str, path: Path) -> None:
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    values = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
    names = ("float32", "float16", "bfloat16")
    file = {n: values.to(getattr(torch, n)) for n in names}
    file |= {"long": torch.tensor([3, -4]), "byte": torch.tensor([255], dtype=torch.uint8), "flag": torch.tensor(True)}
    save_file(file, path, {"format": "pt"})
    back = ag.io.load(path)
    for name in names:
        assert back[name].dtype == (ag.bfloat16 if name == "bfloat16" else name)
        np.testing.assert_array_equal(back[name].numpy(), file[name].float().numpy())
    assert back["long"].tolist() == [3, -4] and back["long"].dtype == np.int32
    assert back["byte"].tolist() == [255] and back["flag"].tolist() == 1.0
    assert ag.io.load_metadata(path) == {"format": "pt"}


UNUSABLE: list[tuple[str, Any, int, str]] = [
    ("float64", entry("F64", [1], 0, 8), 8, "x is float64.*dtype="),
    ("int64", entry("I64", [1], 0, 8), 8, "x holds integers .* outside int32"),
    ("a type NumPy has not", entry("F8_E4M3", [4], 0, 4), 4, "x has type F8_E4M3"),
    ("five dimensions", entry("F32", [1, 1, 1, 1, 1], 0, 4), 4, "x has shape .*at most 4"),
    ("no elements", entry("BF16", [0, 3], 0, 0), 0, "x has shape .*at least one element"),
    ("65 dimensions", entry("F32", [1] * 65, 0, 4), 4, "x cannot be described by"),
    ("a vast shape of nothing", entry("F32", [2**62, 0], 0, 0), 0, "x cannot be described by|x has shape"),
    ("a vaster shape of nothing", entry("F32", [2**64 - 1, 0], 0, 0), 0, "x cannot be described by"),
    ("a type in an object", {**entry("F32", [1], 0, 4), "dtype": {"F32": None}}, 4, "x cannot be described by"),
    ("an entry that is a list", ["F32", [1], [0, 4]], 4, "x cannot be described by"),
]


@pytest.mark.parametrize("header, size, message", [case[1:] for case in UNUSABLE], ids=[case[0] for case in UNUSABLE])
def test_what_a_tensor_cannot_hold_is_named(path: Path, header: Any, size: int, message: str) -> None:
    path.write_bytes(raw({"x": header}, b"\xff" * (size - 1) + b"\x7f" * (size > 0)))
    with pytest.raises(ValueError, match=message) as error:
        ag.io.load(path, "cpu")
    assert str(path) in str(error.value)


def test_float64_is_rounded_on_request(path: Path) -> None:
    ag.io.save({"x": np.array([1 / 3])}, path)
    assert ag.io.load(path, dtype="float32")["x"].item() == np.float32(1 / 3)


# ---------------------------------------------------------------- wrong files


GOOD = entry("F32", [2], 0, 8)
DATA = b"\0" * 8
WRONG: dict[str, bytes] = {
    "empty": b"",
    "shorter than a header's length": b"abc",
    "a header of 2**60 bytes": raw({"x": GOOD}, DATA, 2**60),
    "a header of 2**64 - 1 bytes": raw({"x": GOOD}, DATA, 2**64 - 1),
    "a header longer than the file": raw({"x": GOOD}, DATA, 500),
    "a header of no bytes": raw({"x": GOOD}, DATA, 0),
    "tensors beyond the end": raw({"x": entry("F32", [20], 0, 80)}, DATA),
    "too much at the end": raw({"x": GOOD}, DATA + b"more"),
    "a hole": raw({"x": entry("F32", [2], 8, 16)}, DATA * 2),
    "two tensors in one place": raw({"x": GOOD, "y": GOOD}, DATA),
    "an end before its start": raw({"x": entry("F32", [2], 8, 0)}, DATA),
    "a negative offset": raw({"x": entry("F32", [2], -8, 0)}, DATA),
    "a negative extent": raw({"x": entry("F32", [-2], 0, 8)}, DATA),
    "a fractional extent": raw({"x": {**GOOD, "shape": [2.0]}}, DATA),
    "a shape that overflows": raw({"x": entry("F32", [2**62, 2**62], 0, 8)}, DATA),
    "a shape that is too small": raw({"x": entry("F32", [1], 0, 8)}, DATA),
    "no shape": raw({"x": {"dtype": "F32", "data_offsets": [0, 8]}}, DATA),
    "three offsets": raw({"x": {**GOOD, "data_offsets": [0, 4, 8]}}, DATA),
    "an unknown type": raw({"x": entry("Q4_0", [2], 0, 8)}, DATA),
    "a name twice": raw(b'{"x":%s,"x":%s}' % ((json.dumps(GOOD).encode(),) * 2), DATA),
    "metadata twice": raw(b'{"__metadata__":{"a":"1","a":"2"}}'),
    "metadata that are no text": raw({"__metadata__": {"a": 1}}),
    "a list": raw([]),
    "a depth bomb": raw(b'{"x":' * 100_000),
    "a depth bomb of lists": raw(b"[" * 100_000),
    "no JSON": raw(b'{"x":'),
    "no UTF-8": raw(b'{"\xff":1}'),
    "half a surrogate": raw(b'{"__metadata__":{"a":"\\ud800"}}'),
    "a pickle": pickle.dumps({"x": [1.0] * 100}),
    "a NumPy file": b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }" + DATA,
    "zeros": b"\0" * 1000,
}


@pytest.mark.parametrize("content", WRONG.values(), ids=list(WRONG))
def test_a_wrong_file_says_so(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    tracemalloc.start()
    for read in (ag.io.load, ag.io.load_metadata, ag.io.load_checkpoint):
        with pytest.raises(ag.io.FileFormatError, match="file.safetensors"):
            read(path)
    assert tracemalloc.get_traced_memory()[1] < 20 << 20
    tracemalloc.stop()


def test_a_pytorch_file_says_so(path: Path) -> None:
    torch = pytest.importorskip("torch")
    torch.save({"x": torch.ones(2)}, path)
    with pytest.raises(ag.io.FileFormatError, match="no safetensors file"):
        ag.io.load(path)


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    for read in (ag.io.load, ag.io.load_metadata, ag.io.load_checkpoint):
        with pytest.raises(FileNotFoundError):
            read(tmp_path / "none")
        with pytest.raises(OSError):
            read(tmp_path)
        with pytest.raises(TypeError):
            read(3)  # type: ignore[arg-type]


# ---------------------------------------------------------------- writing


@pytest.mark.parametrize(
    "tensors, metadata, error, message",
    [
        ([np.ones(2)], None, TypeError, "tensors must be a mapping.*not list"),
        ({"x": [1.0]}, None, TypeError, "x must be a Tensor or a NumPy array, not list"),
        ({"x": np.array(["a"])}, None, TypeError, "x has type <U1"),
        ({"x": np.array([1j])}, None, TypeError, "x has type complex128"),
        ({"x": np.array([None])}, None, TypeError, "x has type object"),
        ({3: np.ones(2)}, None, TypeError, "name must be a text.*3"),
        ({"__metadata__": np.ones(2)}, None, TypeError, "name must be a text other than __metadata__"),
        ({"\ud800": np.ones(2)}, None, ValueError, "valid Unicode"),
        ({"x": np.ones(2)}, {"a": 1}, TypeError, "metadata must have text.*1"),
        ({"x": np.ones(2)}, {"a": "x" * 100_000_000}, ag.io.FileFormatError, "(?i)too ?large"),
    ],
)
def test_a_failed_save_changes_nothing(
    path: Path, tensors: Any, metadata: Any, error: type[Exception], message: str
) -> None:
    path.write_bytes(b"old")
    with pytest.raises(error, match=message):
        ag.io.save(tensors, path, metadata)
    assert path.read_bytes() == b"old" and os.listdir(path.parent) == [path.name]


def test_a_save_that_is_interrupted_changes_nothing(path: Path) -> None:
    for error in (OSError("disk full"), KeyboardInterrupt()):
        path.write_bytes(b"old")
        with pytest.raises(type(error)), replacing(path) as file:
            file.write(b"new")
            raise error
        assert path.read_bytes() == b"old" and os.listdir(path.parent) == [path.name]


def test_no_place_to_write(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        ag.io.save({}, tmp_path / "none" / "file")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError):
        ag.io.save({}, tmp_path / "folder")
    assert os.listdir(tmp_path) == ["folder"]


def test_until_the_end_there_is_the_old_file(path: Path) -> None:
    path.write_bytes(b"old")
    with replacing(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX file modes, links and locks")
def test_modes_links_and_leftovers(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    link.symlink_to(target)
    leftover, other = tmp_path / ".target.01234567.tmp", tmp_path / ".target.txt.01234567.tmp"
    leftover.touch()
    other.touch()
    with replacing(link) as file:
        assert not leftover.exists()  # of a process that was killed
        ag.io.save({}, target)  # another save of the same file leaves alone what is being written
        assert Path(file.name).exists()
    assert link.is_symlink() and target.read_bytes() == b""
    assert set(os.listdir(tmp_path)) == {"target", "link", other.name}
    umask = os.umask(0)
    os.umask(umask)
    assert target.stat().st_mode & 0o777 == 0o666 & ~umask


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
@pytest.mark.parametrize("where", ["write", "fsync", "replace"])
def test_a_kill_within_a_save_leaves_the_old_file(path: Path, where: str) -> None:
    """Killed in the middle of the bytes, and before and after they are synced."""
    ag.io.save({"x": np.ones(4)}, path)
    before = path.read_bytes()
    done = run(
        """
        import os, signal, sys, zlib
        import numpy as np
        import ggmlpy_ag as ag

        owner, name = {"write": (zlib, "crc32"), "fsync": (os, "fsync"), "replace": (os, "replace")}[sys.argv[2]]
        setattr(owner, name, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        ag.io.save({"x": np.zeros(100_000)}, sys.argv[1])
        """,
        str(path),
        where,
    )
    assert done.returncode == -9, done.stderr
    assert path.read_bytes() == before and len(os.listdir(path.parent)) == 2
    ag.io.save({"x": np.zeros(4)}, path)
    assert ag.io.load(path, dtype="float32")["x"].tolist() == [0.0] * 4
    assert os.listdir(path.parent) == [path.name]


def test_without_the_package(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(ImportError, match=r"ggmlpy_ag\[files\]"):
        ag.io.save({}, path)
    with pytest.raises(ImportError, match=r"ggmlpy_ag\[files\]"):
        ag.io.load(path)
