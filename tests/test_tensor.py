"""Tensors: making them, reading them, and their face towards Python and NumPy."""

from __future__ import annotations

import ast
import inspect
import sys
from typing import Any

import numpy as np
import pytest

import ggmlpy_ag as ag
from ggmlpy_ag.ops.methods import METHODS

tensor_module = sys.modules["ggmlpy_ag.tensor"]


@pytest.mark.parametrize(
    "data, dtype",
    [
        ([1.5, 2.5], "float32"),
        ([[1, 2], [3, 4]], "int32"),
        (3, "int32"),
        (3.0, "float32"),
        ([True, False], "float32"),
        (np.arange(3, dtype=np.uint8), "int32"),
        (np.arange(3, dtype=np.int64), "int32"),
        (np.ones(3, np.float16), "float32"),
        (np.ones((2, 3))[:, ::2], "float32"),
        (np.float64(2.5), "float32"),
    ],
)
def test_types_are_converted(device: str, data: Any, dtype: str) -> None:
    t = ag.tensor(data)
    assert t.dtype == np.dtype(dtype)
    assert t.shape == np.shape(data)
    assert t.device == device
    np.testing.assert_array_equal(t.numpy(), np.asarray(data).astype(dtype))


def test_dtype_can_be_asked_for(device: str) -> None:
    assert ag.tensor([1, 2], dtype="float32").dtype == np.float32
    assert ag.tensor([1.0, 2.0], dtype=np.int32).tolist() == [1, 2]
    assert ag.param([1, 2]).dtype == np.float32
    assert np.isinf(ag.tensor(1e300).item())


@pytest.mark.parametrize(
    "data, options, error, word",
    [
        ([1j], {}, TypeError, "complex"),
        ([None], {}, TypeError, "object"),
        (["a"], {}, TypeError, "real numbers"),
        ([], {}, ValueError, r"\(0,\)"),
        (np.zeros((2, 0, 3)), {}, ValueError, r"\(2, 0, 3\)"),
        (np.zeros((1, 1, 1, 1, 1)), {}, ValueError, "4 dimensions"),
        ([[1], [2, 3]], {}, ValueError, "regular"),
        ([2**31], {}, ValueError, "int32"),
        ([-(2**31) - 1], {}, ValueError, "int32"),
        ([1.5], {"dtype": "int32"}, TypeError, "whole"),
        ([np.nan], {"dtype": "int32"}, TypeError, "whole"),
        ([1.0], {"dtype": "float64"}, TypeError, "float64"),
        ([1.0], {"dtype": "nonsense"}, TypeError, "nonsense"),
        ([1], {"requires_grad": True}, TypeError, "gradient"),
        ([1.0], {"device": "tpu"}, ValueError, "tpu"),
    ],
)
def test_bad_data_is_refused(data: Any, options: dict[str, Any], error: type[Exception], word: str) -> None:
    with pytest.raises(error, match=word):
        ag.tensor(data, **options)


def test_later_changes_of_the_array_do_not_matter(device: str) -> None:
    source = np.ones(3, np.float32)
    t = ag.tensor(source)
    source[:] = 5
    assert t.tolist() == [1.0, 1.0, 1.0]
    values = t.numpy()
    values[:] = 7
    assert t.tolist() == [1.0, 1.0, 1.0]


def test_repr_shows_values_like_numpy(device: str) -> None:
    assert repr(ag.tensor([[1.0, 2.5]])) == f"tensor([[1. , 2.5]], device={device!r})"
    assert repr(ag.tensor([1, 2])) == f"tensor([1, 2], device={device!r}, dtype=int32)"
    assert repr(ag.param(2.0)) == f"tensor(2., device={device!r}, requires_grad=True)"


def test_python_numbers(device: str) -> None:
    t = ag.tensor([[3.5]])
    assert (t.item(), float(t), int(t), bool(t)) == (3.5, 3.5, 3, True)
    assert not ag.tensor(0.0)
    assert isinstance(ag.tensor([7]).item(), int)
    for convert in (ag.Tensor.item, bool, float):
        with pytest.raises(ValueError, match=r"\(2,\)"):
            convert(ag.tensor([1.0, 2.0]))


def test_length_and_iteration(device: str) -> None:
    t = ag.tensor(np.arange(6.0).reshape(3, 2))
    assert len(t) == 3
    assert [row.tolist() for row in t] == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]
    for use in (len, iter):
        with pytest.raises(TypeError):
            use(ag.tensor(1.0))


def test_numpy_reads_tensors(device: str) -> None:
    t = ag.tensor([1.0, 2.0])
    np.testing.assert_array_equal(np.asarray(t), [1.0, 2.0])
    assert np.asarray(t, dtype=np.float64).dtype == np.float64


def test_numpy_and_numbers_on_either_side(device: str) -> None:
    x = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
    t = ag.tensor(x)
    cases = {
        "array + tensor": (x + t, x + x),
        "array - tensor": (2 * x - t, x),
        "array * tensor": (x * t, x * x),
        "array / tensor": (x / t, x / x),
        "array @ tensor": (x @ t, x @ x),
        "array ** tensor": (x**t, x**x),
        "tensor - array": (t - x, x - x),
        "tensor ** array": (t**x, x**x),
        "2 - tensor": (2 - t, 2 - x),
        "2 / tensor": (2 / t, 2 / x),
        "2 ** tensor": (2**t, 2**x),
        "tensor ** 3": (t**3, x**3),
        "numpy scalar": (np.float64(2) * t, 2 * x),
        "integers": (t + np.array([1, 2]), x + [1, 2]),
        "list": (t + [1.0, 2.0], x + [1, 2]),
        "unary": (-t, -x),
        "abs": (abs(-t), x),
    }
    for name, (found, expected) in cases.items():
        assert isinstance(found, ag.Tensor), name
        np.testing.assert_allclose(found.numpy(), expected, rtol=2e-6, err_msg=name)


def test_tensors_can_be_keys(device: str) -> None:
    a, b = ag.tensor(1.0), ag.tensor(1.0)
    assert {a: 1, b: 2}[a] == 1


def test_detach_shares_storage_and_leaves_the_tape(device: str) -> None:
    p = ag.param([1.0, 2.0])
    live = ag.memory_stats().live
    d = p.detach()
    assert not d.requires_grad and ag.memory_stats().live == live
    p.copy_([3.0, 4.0])
    assert d.tolist() == [3.0, 4.0]


def test_copy_overwrites_in_place_after_what_was_recorded(device: str) -> None:
    t = ag.tensor(np.arange(4.0).reshape(2, 2))
    before = t * 2.0
    t.copy_(5.0)
    assert before.tolist() == [[0.0, 2.0], [4.0, 6.0]]
    assert t.tolist() == [[5.0, 5.0], [5.0, 5.0]]
    t.T.copy_(np.array([[1.0, 2.0], [3.0, 4.0]]))
    assert t.tolist() == [[1.0, 3.0], [2.0, 4.0]]
    t[:, 1].copy_([8.0, 9.0])
    assert t.tolist() == [[1.0, 8.0], [2.0, 9.0]]
    with pytest.raises(ValueError, match=r"\(3,\).*\(2, 2\)"):
        t.copy_([1.0, 2.0, 3.0])
    assert t.tolist() == [[1.0, 8.0], [2.0, 9.0]]


def test_copy_widens_the_known_range_of_indices(device: str) -> None:
    labels = ag.tensor([0, 1])
    labels.copy_([0, 9])
    with pytest.raises(IndexError, match="class index 9 of sample 1"):
        ag.cross_entropy_loss(ag.tensor(np.zeros((2, 3))), labels)


def test_attributes(device: str) -> None:
    t = ag.tensor(np.zeros((2, 3, 4)))
    assert (t.ndim, t.size, t.nbytes, t.is_leaf) == (3, 24, 96, True)
    p = ag.param([1.0])
    with ag.grad_tape():
        q = p * 2.0
    assert q.requires_grad and not q.is_leaf and p.is_leaf
    p.grad = q
    p.zero_grad()
    assert p.grad is None


@pytest.mark.parametrize("shape", [(), (1,), (7,), (2, 3), (2, 3, 4), (2, 3, 4, 5), (1, 1, 1, 1)])
def test_zero_to_four_dimensions(device: str, shape: tuple[int, ...]) -> None:
    values = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
    t = ag.tensor(values)
    assert (t.shape, t.ndim, t.size, t.nbytes) == (shape, len(shape), values.size, values.nbytes)
    np.testing.assert_array_equal(t.numpy(), values)


def test_any_layout_of_an_array(device: str) -> None:
    values = np.arange(24.0, dtype=np.float32).reshape(4, 6)
    for array in (
        values.T,
        values[::2],
        values[:, ::-1],
        np.asfortranarray(values),
        np.broadcast_to(values, (2, 4, 6)),
    ):
        np.testing.assert_array_equal(ag.tensor(array).numpy(), array)


def test_special_values_pass_through(device: str) -> None:
    values = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-45, 3.4e38], np.float32)
    found = ag.tensor(values).numpy()
    np.testing.assert_array_equal(found, values)
    assert np.signbit(found[3])


def test_a_long_tensor_has_a_short_repr(device: str) -> None:
    text = repr(ag.tensor(np.zeros((1000, 1000))))
    assert "..." in text
    assert len(text) < 1000


WINDOWS = {
    "row": np.s_[1],
    "rows": np.s_[1:3],
    "column": np.s_[:, 1],
    "columns": np.s_[1:, 2:4],
    "every other": np.s_[1::2, ::2],
    "element": np.s_[2, 3],
    "new axis": np.s_[None, 1:, ..., 2],
    "all": np.s_[...],
}


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("transposed", [False, True])
def test_a_view_reads_as_in_numpy(device: str, window: str, transposed: bool) -> None:
    values = np.arange(25.0, dtype=np.float32).reshape(5, 5)
    base = ag.tensor(values)
    there, here = (base.T, values.T) if transposed else (base, values)
    found = there[WINDOWS[window]].numpy()
    assert found.shape == here[WINDOWS[window]].shape
    assert found.flags.c_contiguous and found.flags.writeable
    np.testing.assert_array_equal(found, here[WINDOWS[window]])


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("transposed", [False, True])
def test_copy_into_a_view_writes_the_base(device: str, window: str, transposed: bool) -> None:
    values = np.arange(25.0, dtype=np.float32).reshape(5, 5)
    base = ag.tensor(values)
    there, here = (base.T, values.T) if transposed else (base, values)
    new = -1.0 - np.arange(25.0, dtype=np.float32).reshape(5, 5)[WINDOWS[window]]
    there[WINDOWS[window]].copy_(new)
    here[WINDOWS[window]] = new
    np.testing.assert_array_equal(base.numpy(), values)


def test_copy_from_a_view_of_itself(device: str) -> None:
    t = ag.tensor([[1.0, 2.0], [3.0, 4.0]])
    t.copy_(t.T)
    assert t.tolist() == [[1.0, 3.0], [2.0, 4.0]]


def test_copy_over_a_pending_value(device: str) -> None:
    t = ag.tensor([1.0, 2.0]) * 3.0
    double = t * 2.0
    t.copy_([0.0, 1.0])
    assert t.tolist() == [0.0, 1.0]
    assert double.tolist() == [6.0, 12.0]


def test_copy_over_a_gradient_that_is_a_constant(device: str) -> None:
    x = ag.param([3.0])
    ag.backward(x)  # a leaf: its gradient is the number 1
    assert x.grad is not None
    x.grad.copy_([4.0])
    assert (x.detach() * x.grad).tolist() == [12.0]


def test_copy_into_a_part_of_indices_of_unknown_range(device: str) -> None:
    labels = ag.tensor([9.0, 9.0]).astype("int32")
    labels[:1].copy_([0])
    logits = np.array([[0.0, 0.0], [5.0, 1.0]])  # what is computed on the device is limited, not checked
    assert ag.cross_entropy_loss(ag.tensor(logits), labels).item() == pytest.approx(
        ag.cross_entropy_loss(ag.tensor(logits), [0, 1]).item()
    )


def test_copy_of_fractions_into_integers(device: str) -> None:
    t = ag.tensor([1, 2])
    with pytest.raises(TypeError, match="whole"):
        t.copy_([0.5, 1.0])
    assert t.tolist() == [1, 2]


# ---------------------------------------------------------------- methods and comparisons


def test_stubs_of_methods_are_the_functions_signatures() -> None:
    """What type checkers and editors read in tensor.py is what ops/methods.py binds."""
    tree = ast.parse(inspect.getsource(tensor_module))
    stubs = [
        item
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for item in block.body
        if isinstance(item, ast.FunctionDef)
    ]
    found = {s.name: [*map(ast.unparse, s.args.defaults), *(a.arg for a in s.args.args[1:])] for s in stubs}
    names = {name for names in METHODS.values() for name in names.split()} | {"chunk", "split"}
    assert names <= set(found)
    for name in names:
        assert getattr(ag.Tensor, name) is getattr(ag, name)
        parameters = list(inspect.signature(getattr(ag, name)).parameters.values())[1:]
        ordinary = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
        defaults = [repr(p.default).replace("'", '"') for p in ordinary if p.default is not p.empty]
        assert [d.replace("'", '"') for d in found[name]] == defaults + [p.name for p in ordinary], name


def test_comparisons_compare_elements_and_hashes_are_identities(device: str) -> None:
    a, b = ag.tensor([1.0, 2.0, 3.0]), ag.tensor([3.0, 2.0, 1.0])
    assert [(a < b).tolist(), (a <= b).tolist(), (a > 2).tolist()] == [[1, 0, 0], [1, 1, 0], [0, 0, 1]]
    assert [(a >= b).tolist(), (a == b).tolist(), (a != 2).tolist()] == [[0, 1, 1], [0, 1, 0], [1, 0, 1]]
    assert (np.array([1.0, 5.0, 3.0]) == a).tolist() == [1, 0, 1]
    assert {a: "a", b: "b"}[b] == "b" and len({a, b, a.detach()}) == 3
    assert (a == None) is False and (a != "text") is True  # noqa: E711
    with pytest.raises(ValueError, match="ambiguous"):
        assert a in [b]


# ---------------------------------------------------------------- 16 bits


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_types_change_with_gradient(device: str, dtype: str) -> None:
    x = ag.param([1.0, 2.0, 1.0001])
    with ag.grad_tape():
        half = x.to(dtype)
        loss = ag.sum(half.to("float32") * ag.tensor([1.0, 2.0, 3.0]))
    assert half.numpy().astype(np.float32).tolist() == [1.0, 2.0, 1.0]
    grad = ag.backward(loss)[x]
    assert (grad.tolist(), grad.dtype) == ([1.0, 2.0, 3.0], np.float32)
    assert x.to(dtype).nbytes == 6 and x.to(device, dtype).dtype == half.dtype and x.to("float32") is x


def test_bfloat16_is_rounded_to_nearest_even_and_keeps_what_is_special(device: str) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    values = np.concatenate([
        rng.standard_normal(4000).astype(np.float32) * np.float32(10.0) ** rng.integers(-35, 38, 4000),
        np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 3.4e38, 1.00390625, 1.01171875], np.float32),
    ]).astype(np.float32)  # fmt: skip
    expected = torch.tensor(values).to(torch.bfloat16).to(torch.float32).numpy()
    np.testing.assert_array_equal(ag.tensor(values, dtype="bfloat16").numpy(), expected)  # on the host
    np.testing.assert_array_equal(ag.tensor(values).astype("bfloat16").numpy(), expected)  # and on the device


def test_integers_refuse_gradients(device: str) -> None:
    with pytest.raises(TypeError, match="int32"):
        ag.param([1, 2], dtype="int32")
    x = ag.param([1.5, 2.5])
    with ag.grad_tape() as tape:
        assert not x.astype("int32").requires_grad
    assert len(tape) == 0


def test_halves_move_between_devices_and_are_written_to(device: str) -> None:
    for dtype in ("float16", "bfloat16"):
        t = ag.tensor([1.0, 2.0, 3.0], dtype=dtype)
        for info in ag.devices():
            there = t.to(info.name)
            assert (there.dtype, there.device, there.tolist()) == (t.dtype, info.name, [1.0, 2.0, 3.0])
        t.copy_([4.0, 5.0, 6.0])
        t[1:2] = 7.0
        assert t.tolist() == [4.0, 7.0, 6.0] and t[::2].tolist() == [4.0, 6.0]
        assert f"dtype={dtype}" in repr(t)
