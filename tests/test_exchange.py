"""Memory shared with NumPy and PyTorch: what is shared, what is copied instead, and who keeps what alive."""

from __future__ import annotations

import gc
import pickle
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from child import output

import ggmlpy_ag as ag
from ggmlpy_ag.backend import devices

NUMPY_2_1 = np.lib.NumpyVersion(np.__version__) >= "2.1.0"
CPU = (1, 0)  # DLPack's
BOOL = pytest.param("bool", marks=pytest.mark.skipif(not NUMPY_2_1, reason="older ones do not import bool"))
WINDOWS: dict[str, Callable[[Any], Any]] = {
    "whole": lambda x: x,
    "scalar": lambda x: x[1, 2],
    "from an odd element": lambda x: x[0, 1:],
    "transposed": lambda x: x.T,
    "stepped": lambda x: x[::2, 1::3],
    "of one row": lambda x: x[2:3],
    "with new dimensions": lambda x: x[:, None, :, None],
}


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


def live() -> int:
    gc.collect()
    return ag.memory_stats("cpu").live


def table(dtype: str = "float32") -> np.ndarray:
    return np.arange(35).reshape(5, 7).astype(dtype)


# ---------------------------------------------------------------- NumPy


def test_numpy_gets_a_copy_on_every_device(device: str) -> None:
    t = ag.tensor(table())
    copies = [t.numpy(), np.asarray(t), np.array(t), np.asarray(t, dtype=np.float64), t.__array__(copy=True)]
    for copy in copies:
        np.testing.assert_array_equal(copy, table())
        copy[:] = -1
    np.testing.assert_array_equal(t.numpy(), table())


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_a_view_for_numpy_shares_the_memory(window: Callable[[Any], Any], dtype: str) -> None:
    whole = ag.tensor(table(), dtype, "cpu")
    t = window(whole)
    view = t.__array__(copy=False)
    assert view.dtype == dtype
    np.testing.assert_array_equal(view, window(table()))
    view[...] = -1  # theirs to ours
    assert (t.numpy() == -1).all()
    assert (whole.numpy() == -1).sum() == t.size
    whole.copy_(table())  # ours to theirs
    np.testing.assert_array_equal(view, window(table()))


@pytest.mark.skipif(not NUMPY_2_1, reason="before NumPy 2, copy=False may copy, and DLPack is read-only")
def test_numpy_asks_for_a_view() -> None:
    t = ag.tensor([1.0, 2.0], device="cpu")
    np.array(t, copy=False)[0] = 5.0
    np.from_dlpack(t)[1] = 6.0
    assert t.tolist() == [5.0, 6.0]
    with pytest.raises(ValueError, match="converted"):
        np.asarray(t, dtype=np.float64, copy=False)


@pytest.mark.parametrize(
    ("make", "dtype", "reason"),
    [
        (lambda: ag.tensor([1, 2], device="cpu"), None, "indices"),
        (lambda: ag.tensor([1.0], "bfloat16", "cpu"), None, "bfloat16 has to be converted"),
        (lambda: ag.tensor([1.0], device="cpu"), "float16", "float32 has to be converted"),
        (lambda: ag.param([1.0], device="cpu"), None, "detach"),
    ],
)
def test_why_numpy_gets_no_view(make: Callable[[], ag.Tensor], dtype: str | None, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        make().__array__(dtype, copy=False)


def test_a_view_sees_what_was_pending(device: str) -> None:
    t = ag.tensor(table()) * 2.0
    if device == "cpu":
        np.testing.assert_array_equal(t.__array__(copy=False), table() * 2)
    else:
        with pytest.raises(ValueError, match=rf'memory of {device}; copy it with .to\("cpu"\)'):
            t.__array__(copy=False)


def test_a_copy_from_a_view_that_overlaps() -> None:
    t = ag.tensor(np.arange(1000), "float32", "cpu")
    view = t.__array__(copy=False)
    t[1:].copy_(view[:-1])
    np.testing.assert_array_equal(t.numpy(), [0, *range(999)])
    t[:-1].copy_(view[1:])
    np.testing.assert_array_equal(t.numpy(), [*range(999), 998])


def test_what_was_recorded_before_the_view_does_not_see_its_writes() -> None:
    x = ag.tensor([1.0, 2.0], device="cpu")
    before = x * 10.0
    view = x.__array__(copy=False)
    waiting = x * 10.0
    view[:] = [3.0, 4.0]
    after = x + 1.0
    assert (before.tolist(), waiting.tolist(), after.tolist()) == ([10.0, 20.0], [30.0, 40.0], [4.0, 5.0])


def test_a_number_that_was_shared_is_no_constant() -> None:
    with ag.device("cpu"):
        w = ag.param(3.0)
        with ag.grad_tape():
            loss = w + ag.tensor(1.0)
        one = ag.backward(loss)[w]
        assert one._array.storage.constant == 1.0
        one.__array__(copy=False)[()] = 7.0
        assert (ag.tensor([1.0, 2.0]) * one).tolist() == [7.0, 14.0]


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_unpickled_arrays(device: str, dtype: str) -> None:
    """Their types equal NumPy's own, but are other objects."""
    values = pickle.loads(pickle.dumps(np.array([1, 0, 2], dtype)))
    t = ag.tensor(values, dtype)
    assert (t.dtype, t.tolist()) == (dtype, [1, 0, 2])
    if dtype == "int32":
        assert ag.take(ag.tensor([5.0, 6.0, 7.0]), t).tolist() == [6.0, 5.0, 7.0]


# ---------------------------------------------------------------- to PyTorch


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_torch_shares_the_memory(torch: Any, window: Callable[[Any], Any], dtype: str) -> None:
    whole = ag.tensor(table(), dtype, "cpu")
    theirs = torch.from_dlpack(window(whole))
    expected = window(torch.tensor(table()).to(getattr(torch, dtype)))
    assert theirs.dtype is expected.dtype
    assert torch.equal(theirs, expected)
    assert theirs.stride() == expected.stride() or 1 in expected.shape
    theirs.fill_(-1)
    assert (window(whole).numpy() == -1).all()
    whole.copy_(table())
    assert torch.equal(theirs, expected)


def test_torch_sees_an_optimizer_step(torch: Any) -> None:
    with ag.device("cpu"):
        w = ag.param([1.0, 2.0])
        theirs = torch.from_dlpack(w.detach())
        w.grad = ag.tensor([1.0, -1.0])
        ag.optim.SGD([w], lr=0.5).step()
    assert theirs.tolist() == [0.5, 2.5] == w.tolist()


def test_torch_keeps_the_block(torch: Any) -> None:
    """Not before the last holder has gone is the block used again or its buffer given back."""
    with ag.device("cpu"):
        values = np.arange(100_000, dtype=np.float32)
        before = live()
        t = ag.tensor(values)
        theirs = torch.from_dlpack(t[1:])
        part = theirs[::2]
        del t
        assert live() == before + 400_000
        ag.empty_cache()
        others = [ag.tensor(np.full(100_000, -1.0)) for _ in range(3)]
        np.testing.assert_array_equal(theirs.numpy(), values[1:])
        del theirs, others
        assert live() == before + 400_000
        del part
        assert live() == before


def test_a_capsule_that_nobody_took(torch: Any) -> None:
    before = live()
    capsule = ag.tensor(table(), device="cpu").__dlpack__()
    assert live() == before + 192
    theirs = torch.from_dlpack(capsule)  # as before DLPack 1.0
    del capsule
    assert torch.equal(theirs, torch.tensor(table()))
    del theirs
    unused = ag.tensor(table(), device="cpu").__dlpack__(max_version=(1, 0))
    assert live() == before + 192
    del unused
    assert live() == before


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
def test_torch_gets_a_copy(torch: Any, device: str, dtype: str) -> None:
    t = ag.tensor(table(), dtype).T
    theirs = torch.from_dlpack(t, copy=True)
    assert torch.equal(theirs, torch.tensor(table()).to(getattr(torch, dtype)).T)
    theirs.fill_(0)
    np.testing.assert_array_equal(t.numpy(), table().T)


def test_indices_are_never_shared(torch: Any) -> None:
    """They were checked: a value out of range would end the process, or overwrite memory in a backward pass."""
    with ag.device("cpu"):
        x = ag.param([1.0, 2.0, 3.0])
        index = ag.tensor([2, 0])
        with ag.grad_tape():
            loss = ag.take(x, index).sum()
        torch.from_dlpack(index).fill_(1 << 30)
        np.asarray(index).fill(1 << 30)
        ag.backward(loss)
        assert x.grad is not None
        assert x.grad.tolist() == [1.0, 0.0, 1.0]
        with pytest.raises(BufferError, match="indices"):
            torch.from_dlpack(index, copy=False)


def test_a_parameter_is_not_exported(torch: Any, device: str) -> None:
    with pytest.raises(BufferError, match="detach"):
        torch.from_dlpack(ag.param([1.0]), copy=True)


def test_a_tensor_of_another_device_is_exported_on_request(torch: Any, device: str) -> None:
    t = ag.tensor(table())
    if device == "cpu":
        assert t.__dlpack_device__() == CPU
        return
    assert t.__dlpack_device__() == (7, int(device.split(":")[1]))
    for options in ({}, {"copy": False}):
        with pytest.raises(BufferError, match=rf'memory of {device}; copy it with .to\("cpu"\)'):
            torch.from_dlpack(t, **options)
    with pytest.raises(BufferError, match="memory of"):
        t.__dlpack__(dl_device=CPU, copy=False)
    for capsule in (t.__dlpack__(dl_device=CPU), t.__dlpack__(copy=True), t.to("cpu").__dlpack__()):
        assert torch.equal(torch.from_dlpack(capsule), torch.tensor(table()))
    if NUMPY_2_1:
        np.testing.assert_array_equal(np.from_dlpack(t, device="cpu"), table())


def test_an_export_that_makes_no_sense(device: str) -> None:
    t = ag.tensor([1.0])
    with pytest.raises(ValueError, match="stream must be None, not 1"):
        t.__dlpack__(stream=1)  # type: ignore[arg-type]
    for other in ((2, 0), (7, 0)):
        with pytest.raises(BufferError, match="to the CPU only"):
            t.__dlpack__(dl_device=other)


# ---------------------------------------------------------------- from PyTorch and NumPy


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_we_share_what_torch_has(torch: Any, window: Callable[[Any], Any], dtype: str) -> None:
    theirs = torch.tensor(table()).to(getattr(torch, dtype))
    before = ag.memory_stats("cpu")
    t = ag.from_dlpack(window(theirs), copy=False)
    assert ag.memory_stats("cpu") == before  # none of the pool's business
    assert (t.device, ag.ops.base.dtype_name(t.dtype)) == ("cpu", dtype)
    assert (t.requires_grad, t.is_leaf, t.grad) == (False, True, None)
    np.testing.assert_array_equal(t.numpy(), window(table()))
    theirs.neg_()
    np.testing.assert_array_equal(t.numpy(), -window(table()))
    t.copy_(np.full(t.shape, 3.0))
    assert (window(theirs) == 3).all()
    assert (theirs == 3).sum() == t.size


def test_we_share_what_numpy_has() -> None:
    theirs = table()
    t = ag.from_dlpack(theirs[1:, ::2], copy=False)
    t[0] = -5.0
    assert theirs[1].tolist() == [-5.0, 8.0, -5.0, 10.0, -5.0, 12.0, -5.0]
    again = ag.from_dlpack(t, copy=False)  # ours, as any other's
    again[1] = -6.0
    assert theirs[2, 0] == -6.0 == t.numpy()[1, 0]


@pytest.mark.parametrize("offset", [0, 1, 3])
def test_operations_take_any_address(torch: Any, offset: int) -> None:
    """ggml's own buffers begin at multiples of 32 bytes; those of others need not."""
    rng = np.random.default_rng(0)
    for dtype in (torch.float32, torch.float16):
        flat = torch.tensor(rng.uniform(0.1, 1, 2 * 33 * 65 + offset)).to(dtype)[offset:]
        a, b = flat[: 33 * 65].reshape(33, 65), flat[33 * 65 :].reshape(65, 33)
        x, y = ag.from_dlpack(a, copy=False), ag.from_dlpack(b, copy=False)
        tolerance = 1e-5 if dtype is torch.float32 else 2e-3
        a, b = a.double(), b.double()
        for ours, expected in (
            (x @ y, a @ b),
            (x.T @ x, a.T @ a),
            (x.exp() * y.T, a.exp() * b.T),
            (x.softmax(), a.softmax(-1)),
            (x.sum(0), a.sum(0)),
            (ag.layer_norm(x, 65), torch.nn.functional.layer_norm(a, (65,))),
            (ag.concat([x, y.T], 0), torch.cat([a, b.T])),
            (x.sort()[0], a.sort()[0]),
        ):
            np.testing.assert_allclose(ours.numpy(), expected.numpy(), rtol=tolerance, atol=10 * tolerance)


def read_only(values: np.ndarray) -> np.ndarray:
    values.flags.writeable = False
    return values


def misaligned(values: np.ndarray) -> np.ndarray:
    records = np.zeros(values.size, np.dtype([("byte", "u1"), ("value", values.dtype)]))
    records["value"] = values.reshape(-1)
    return records["value"]


COPIED = {
    "float64": (lambda: np.array([0.5, -1.0]), "converted", "float32"),
    "int64": (lambda: np.array([3, -1]), "converted", "int32"),
    "uint8": (lambda: np.array([3, 1], np.uint8), "converted", "int32"),
    "bool": (lambda: np.array([True, False]), "converted", "float32"),
    "other byte order": (lambda: np.array([1.0, 2.0], ">f4"), "converted", "float32"),
    "int32": (lambda: np.array([3, 1], np.int32), "indices", "int32"),
    "read-only": (lambda: read_only(table()), "read-only", "float32"),
    "read-only halves": (lambda: read_only(table("float16")), "read-only", "float16"),
    "read-only bfloat16": (lambda: read_only(np.zeros(3, ag.bfloat16)), "read-only", ag.bfloat16),
    "backwards": (lambda: table()[::-1], "backwards", "float32"),
    "expanded": (lambda: np.lib.stride_tricks.as_strided(table(), (3, 7), (0, 4)), "same elements", "float32"),
    "overlapping": (lambda: np.lib.stride_tricks.as_strided(table(), (9, 4), (4, 4)), "same elements", "float32"),
    "misaligned": (lambda: misaligned(table()), "not aligned", "float32"),
}


@pytest.mark.parametrize(("make", "reason", "dtype"), COPIED.values(), ids=COPIED)
def test_what_cannot_be_shared_is_copied(make: Callable[[], np.ndarray], reason: str, dtype: Any) -> None:
    theirs = make()
    with pytest.raises(BufferError, match=rf"shape \({theirs.shape[0]}.*shared: .*{reason}"):
        ag.from_dlpack(theirs, copy=False)
    t = ag.from_dlpack(theirs)
    assert t.dtype == dtype
    values = theirs["bfloat16"] if dtype == ag.bfloat16 else theirs.copy()
    np.testing.assert_array_equal(t.numpy(), values)
    t.copy_(np.ones(t.shape))
    np.testing.assert_array_equal(theirs["bfloat16"] if dtype == ag.bfloat16 else theirs, values)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64", "int64", "int32", BOOL])
def test_a_copy_on_request_or_to_another_device(torch: Any, device: str, dtype: str) -> None:
    theirs = torch.tensor(table()).to(getattr(torch, dtype)).T
    t = ag.from_dlpack(theirs, device=device, copy=True if device == "cpu" else None)
    assert t.device == device
    np.testing.assert_array_equal(t.numpy(), table().T if dtype != "bool" else table().T != 0)
    t.copy_(np.zeros(t.shape))
    assert theirs[1, 1]
    if device != "cpu":
        with pytest.raises(BufferError, match=f"memory of {device} is its own"):
            ag.from_dlpack(theirs, device=device, copy=False)


def test_checked_indices_stay_what_they_are(torch: Any) -> None:
    with ag.device("cpu"):
        theirs = torch.tensor([2, 0], dtype=torch.int32)
        index = ag.from_dlpack(theirs)
        theirs.fill_(1 << 30)
        assert ag.take(ag.tensor([1.0, 2.0, 3.0]), index).tolist() == [3.0, 1.0]
        with pytest.raises(IndexError, match=r"1073741824 .* \[0, 3\)"):
            ag.take(ag.tensor([1.0, 2.0, 3.0]), ag.from_dlpack(theirs))


class Producer:
    """Exports what another object would, as told."""

    def __init__(self, exporter: Any, device: tuple[int, int] = CPU, old: bool = False) -> None:
        self.exporter, self.device, self.old = exporter, device, old

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, **asked: Any) -> Any:
        if self.old and asked:
            raise TypeError("this is DLPack 0.8")
        return self.exporter.__dlpack__(**asked)


class Consumed:
    """Exports the same capsule again and again."""

    def __init__(self) -> None:
        self.capsule = table().__dlpack__()
        np.from_dlpack(self)

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU

    def __dlpack__(self) -> Any:
        return self.capsule


def test_a_producer_of_before_dlpack_1(torch: Any) -> None:
    theirs = torch.zeros(3)
    ag.from_dlpack(Producer(theirs, old=True), copy=False).copy_([1.0, 2.0, 3.0])
    assert theirs.tolist() == [1.0, 2.0, 3.0]


@pytest.mark.skipif(not NUMPY_2_1, reason="older ones export nothing that is read-only")
def test_a_producer_that_says_read_only() -> None:
    theirs = read_only(table())
    with pytest.raises(BufferError, match="read-only"):
        ag.from_dlpack(Producer(theirs), copy=False)
    np.testing.assert_array_equal(ag.from_dlpack(Producer(theirs)).numpy(), theirs)


def test_what_cannot_be_imported(torch: Any) -> None:
    cases: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
        ([1.0], {}, TypeError, "__dlpack__.*list has not"),
        (Producer([1.0]), {}, AttributeError, "__dlpack__"),
        (Consumed(), {}, TypeError, "used_dltensor"),
        (torch.zeros(3, requires_grad=True), {}, BufferError, "detach"),
        (Producer(torch.zeros(3), (2, 1)), {}, BufferError, r"\(2, 1\).*to the CPU first"),
        (torch.zeros(3, dtype=torch.complex64), {}, TypeError, "real numbers, not complex64"),
        (torch.zeros(3, dtype=torch.float8_e4m3fn), {}, TypeError, "NumPy cannot read it"),
        (np.array(["text"]), {}, TypeError, "real numbers"),
        (torch.zeros(2, 0), {}, ValueError, "at least one element"),
        (torch.zeros(1, 1, 1, 1, 1), {}, ValueError, "at most 4 dimensions"),
        (torch.zeros(1, 1, 1, 1, 1, dtype=torch.bfloat16), {}, ValueError, "at most 4 dimensions"),
        (torch.tensor([1 << 40]), {}, ValueError, "outside int32"),
        (torch.zeros(3), {"device": "abacus"}, ValueError, "no device 'abacus'"),
        (torch.zeros(3), {"copy": "yes"}, TypeError, "copy must be"),
    ]
    for x, options, error, message in cases:
        with pytest.raises(error, match=message):
            ag.from_dlpack(x, **options)


# ---------------------------------------------------------------- whose memory it is


def test_we_keep_the_owner() -> None:
    owner = table()
    link = weakref.ref(owner)
    t = ag.from_dlpack(owner[1:], copy=False)
    waiting = t[0].exp().log()
    del owner, t
    gc.collect()
    ag.empty_cache("cpu")
    assert link() is not None
    np.testing.assert_allclose(waiting.numpy(), table()[1], rtol=1e-5)
    gc.collect()
    assert link() is None  # what was computed is our own


def test_the_memory_of_torch_outlives_its_tensor(torch: Any) -> None:
    theirs = torch.arange(100_000.0)
    address = theirs.data_ptr()
    t = ag.from_dlpack(theirs, copy=False)
    del theirs
    gc.collect()
    ag.empty_cache("cpu")
    others = [torch.full((100_000,), -1.0) for _ in range(3)]
    assert all(other.data_ptr() != address for other in others)
    np.testing.assert_array_equal(t.numpy(), np.arange(100_000))


@pytest.mark.parametrize("optimizer", [ag.optim.SGD, ag.optim.AdamW])
def test_training_writes_to_the_memory_of_torch(torch: Any, optimizer: Callable[..., Any]) -> None:
    """A weight of PyTorch's, trained here, is to the bit what a parameter of our own becomes."""
    rng = np.random.default_rng(0)
    theirs = torch.tensor(rng.standard_normal((3, 5)).astype("f4"))
    with ag.device("cpu"):
        x, own, shared = ag.tensor(rng.standard_normal((4, 5))), ag.param(theirs), ag.from_dlpack(theirs, copy=False)
        shared.requires_grad = True
        for w in (own, shared):
            steps = optimizer([w], lr=0.1)
            for _ in range(5):
                with ag.grad_tape():
                    loss = (x @ w.T).tanh().sum()
                ag.backward(loss)
                steps.step()
                steps.zero_grad()
    np.testing.assert_array_equal(theirs.numpy(), own.numpy())


def test_a_write_of_ours_is_counted_and_one_of_theirs_is_not() -> None:
    theirs = np.array([1.0, 2.0], np.float32)
    w = ag.from_dlpack(theirs, copy=False)
    w.requires_grad = True
    with ag.grad_tape():
        loss = (w * w).sum()
    loss.item()
    theirs[:] = [5.0, 6.0]
    ag.backward(loss)
    assert w.grad is not None
    assert w.grad.tolist() == [10.0, 12.0]  # of the new values: nothing can tell
    with ag.grad_tape():
        loss = (w * w).sum()
    w.copy_([0.0, 0.0])
    with pytest.raises(RuntimeError, match="overwritten|changed"):
        ag.backward(loss)


def test_the_tape_report_counts_what_is_borrowed() -> None:
    """As an operand: it is not ours to free, whoever else holds it."""
    with ag.device("cpu"):
        w = ag.param(np.ones(1000))
        with ag.grad_tape() as tape:
            loss = (ag.from_dlpack(np.ones(1000, np.float32), copy=False) * w * w).sum()
        loss.item()
        report = ag.tape_memory(quiet=True)
        assert report.bytes_inputs == 4000 + w._array.storage.block_bytes
        assert report.bytes_snapshots == 4032  # the first product
        assert report.bytes_host == report.bytes_total == report.bytes_inputs + 4032
        before = live()
        tape.clear()
        assert before - live() == report.bytes_freeable == 4032


def test_the_tape_report_sees_who_was_lent_a_value(torch: Any) -> None:
    with ag.device("cpu"):
        w = ag.param(np.ones(1000))
        with ag.grad_tape() as tape:
            h = w.exp()
            loss = (h * h).sum()
        theirs = torch.from_dlpack(h.detach())
        del h
        loss.item()
        assert ag.tape_memory(quiet=True).bytes_freeable == 0
        before = live()
        tape.clear()
        assert live() == before
        del theirs
        assert before - live() == 4032


def test_running_out_of_memory_is_explained_without_what_is_borrowed() -> None:
    t = ag.from_dlpack(np.ones(1 << 20, np.float32), copy=False)
    with pytest.raises(ag.OutOfMemoryError) as caught:
        devices.get("cpu").alloc(1 << 62)
    assert "from_dlpack" not in str(caught.value)
    assert t.size == 1 << 20


def test_the_process_ends_well_while_both_share(torch: Any) -> None:
    program = """
    import numpy as np, torch, ggmlpy_ag as ag
    theirs = torch.from_dlpack(ag.tensor(np.ones(1000), device="cpu"))
    ours = ag.from_dlpack(torch.ones(1000))
    waiting = ours * 2.0
    torch.kept, np.kept = theirs, ours
    print(theirs.sum().item())
    """
    assert output(program, OMP_NUM_THREADS="1").strip() == "1000.0"
