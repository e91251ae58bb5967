"""Assignment to slices: x[index] = value, in place on the device. Which windows it takes is in the op table."""

from __future__ import annotations

import numpy as np
import pytest

import ggmlpy_ag as ag

TYPES = ["float32", "float16", "bfloat16", "int32"]
WINDOWS = {  # of a tensor of the shape (6, 8): a view, and the same of NumPy's array
    "whole": lambda x: x,
    "transposed": lambda x: x.T,
    "rows": lambda x: x[1:5],
    "columns": lambda x: x[:, 1:7],
    "strided": lambda x: x[1::2, ::3],
}


def numbers(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)


def values(x: ag.Tensor) -> np.ndarray:
    return x.numpy().astype(np.float32)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("source", WINDOWS)
@pytest.mark.parametrize("target", WINDOWS)
def test_any_window_is_written_from_any_window(target: str, source: str, dtype: str, device: str) -> None:
    whole, other = numbers(6, 8), 100 + numbers(6, 8)
    x, y = ag.tensor(whole, dtype=dtype), ag.tensor(other, dtype=dtype)
    rows, columns = (min(a, b) for a, b in zip(WINDOWS[target](whole).shape, WINDOWS[source](other).shape, strict=True))
    WINDOWS[target](x)[:rows, :columns] = WINDOWS[source](y)[:rows, :columns]
    WINDOWS[target](whole)[:rows, :columns] = WINDOWS[source](other)[:rows, :columns]
    np.testing.assert_array_equal(values(x), whole)
    np.testing.assert_array_equal(values(y), other)


@pytest.mark.parametrize("to", TYPES)
@pytest.mark.parametrize("of", TYPES)
def test_values_are_cast_to_the_type_of_what_they_are_written_to(to: str, of: str, device: str) -> None:
    x = ag.tensor([1.0, 2.0, 3.0], dtype=to)
    x[1:] = ag.tensor([7.0, -8.0], dtype=of)
    assert values(x).tolist() == [1.0, 7.0, -8.0]
    assert x.dtype == ag.tensor([1.0], dtype=to).dtype
    x[0] = np.float64(5.0)
    x[1:2] = [4]
    assert values(x).tolist() == [5.0, 4.0, -8.0]


def test_fractions_are_cut_off_for_integers_as_by_astype(device: str) -> None:
    x = ag.tensor([0, 0])
    x[:] = ag.tensor([1.75, -1.75])
    assert x.tolist() == [1, -1]


@pytest.mark.parametrize(
    "index, value",
    [
        (slice(1, None), slice(None, -1)),
        (slice(None, -1), slice(1, None)),
        (slice(None), slice(None, None, -1)),
        (slice(None, None, -1), slice(None)),
        (slice(None), (3, None)),
        ((slice(None), slice(2, None)), (slice(None), slice(None, -2))),
    ],
    ids=str,
)
def test_what_overlaps_is_read_before_it_is_written(index, value, device: str) -> None:
    whole = numbers(6, 8)
    x = ag.tensor(whole)
    x[index] = x[value]
    whole[index] = whole[value].copy()
    np.testing.assert_array_equal(x.numpy(), whole)


def test_a_transposed_part_of_itself(device: str) -> None:
    whole = numbers(5, 5)
    x = ag.tensor(whole)
    x[:] = x.T
    np.testing.assert_array_equal(x.numpy(), whole.T)


def test_what_was_recorded_before_sees_the_old_values_and_what_comes_after_the_new_ones(device: str) -> None:
    x = ag.tensor([1.0, 2.0, 3.0])
    before = x * 10.0
    x[1:] = before[:2] + x[1:]  # pending, and reads what is overwritten
    after = x * 10.0
    x[0] = -1.0
    assert before.tolist() == [10.0, 20.0, 30.0]
    assert after.tolist() == [10.0, 120.0, 230.0]
    assert x.tolist() == [-1.0, 12.0, 23.0]


def test_a_pending_tensor_is_written(device: str) -> None:
    x = ag.tensor([1.0, 2.0, 3.0]) * 2.0
    x[1] = ag.tensor([1.0, 2.0]).sum()
    assert x.tolist() == [2.0, 3.0, 6.0]


def test_a_tensor_made_of_a_constant_forgets_it(device: str) -> None:
    x = ag.sum(ag.tensor(2.0))
    x[()] = 5.0
    assert (ag.tensor([1.0, 2.0]) * x).tolist() == [5.0, 10.0]


def test_views_see_what_is_written(device: str) -> None:
    x = ag.tensor(numbers(2, 3))
    view = x[1]
    x[1, 1:] = 9.0
    view[0] = 7.0
    assert view.tolist() == [7.0, 9.0, 9.0]
    assert x.tolist() == [[0.0, 1.0, 2.0], [7.0, 9.0, 9.0]]


def test_a_value_on_the_device_is_not_downloaded(device: str) -> None:
    x, value = ag.tensor(numbers(4, 5)), ag.tensor(numbers(5))
    before = ag.counters()
    x[1:3] = value * 2.0
    after = ag.counters()
    assert (after.downloads, after.uploads) == (before.downloads, before.uploads)
    assert x[1].tolist() == x[2].tolist() == [0.0, 2.0, 4.0, 6.0, 8.0]


# ---------------------------------------------------------------- the tape


def test_a_rule_that_saved_the_old_values_raises(device: str) -> None:
    x, w = ag.tensor([1.0, 2.0]), ag.param([3.0, 4.0])
    with ag.grad_tape():
        y = (x * w).sum()
        x[0] = 5.0
    with pytest.raises(RuntimeError, match="overwritten in place"):
        ag.backward(y)


def test_a_rule_that_saved_no_old_value_does_not_mind(device: str) -> None:
    x, w = ag.tensor([1.0, 2.0]), ag.param([3.0, 4.0])
    with ag.grad_tape():
        y = (x + w).sum()
        x[0] = 5.0
    assert ag.backward(y)[w].tolist() == [1.0, 1.0]


def test_tensors_that_require_a_gradient_are_written_only_while_no_tape_records(device: str) -> None:
    w = ag.param([1.0, 2.0, 3.0])
    w[0] = 4.0
    with ag.grad_tape() as tape:
        with pytest.raises(RuntimeError, match="records"):
            w[1] = 5.0
        with pytest.raises(RuntimeError, match="records"):
            (w * 2.0)[1] = 5.0
        with pytest.raises(RuntimeError, match="the value"):
            ag.tensor([1.0, 2.0])[0] = w[0]
        with ag.no_grad():
            w[1:] = w[:2]
        recorded = len(tape)
    assert w.requires_grad
    assert w.is_leaf
    assert w.tolist() == [4.0, 4.0, 2.0]
    assert recorded == 2  # w * 2 and w[0]


def test_a_buffer_is_filled_while_a_tape_records(device: str) -> None:
    w, buffer = ag.param([2.0]), ag.tensor(np.zeros(3))
    with ag.grad_tape():
        for i in range(3):
            buffer[i] = float(i + 1)
        y = (w * buffer).sum()
    assert ag.backward(y)[w].tolist() == [6.0]


# ---------------------------------------------------------------- integers as indices

TABLE = np.array([10.0, 20.0, 30.0], np.float32)


def test_indices_that_were_assigned_are_checked(device: str) -> None:
    index = ag.tensor([0, 1])
    index[1] = 2
    assert ag.take(TABLE, index).tolist() == [10.0, 30.0]
    index[0] = 3
    with pytest.raises(IndexError, match=r"3 at \(0,\) is outside \[0, 3\)"):
        ag.take(TABLE, index)
    index[0] = -1
    with pytest.raises(IndexError, match=r"-1 at \(0,\)"):
        ag.take(TABLE, index)


def test_indices_assigned_from_other_integers_are_checked(device: str) -> None:
    index = ag.tensor([0, 1])
    index[:] = ag.tensor([5, 7])[1]
    with pytest.raises(IndexError, match="7"):
        ag.take(TABLE, index)


def test_indices_assigned_from_what_the_device_computed_are_limited(device: str) -> None:
    index = ag.tensor([0, 1])
    index[0] = (ag.tensor([4.0]) * 2.0).astype("int32")[0]
    assert ag.take(TABLE, index).tolist() == [30.0, 20.0]


@pytest.mark.parametrize(
    "made",
    [
        lambda i: ag.concat([i, ag.tensor([7])]),
        lambda i: ag.concat([ag.tensor([7]), i]),
        lambda i: ag.stack([i, i, ag.tensor([7, 0])], axis=1)[:, 2],
        lambda i: ag.pad(i, [(1, 0)], value=7),
        lambda i: ag.flip(ag.concat([i, ag.tensor([7])])),
        lambda i: ag.roll(ag.concat([i, ag.tensor([7])]), 1),
    ],
    ids=["concat", "concat first", "stack", "pad", "flip", "roll"],
)
def test_indices_that_were_put_together_are_checked(made, device: str) -> None:
    with pytest.raises(IndexError, match="7 at"):
        ag.take(TABLE, made(ag.tensor([0, 1])))
