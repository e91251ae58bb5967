"""Selecting, adding up and sorting where sizes matter: many rows and indices, long rows, and every way to do it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ggmlpy_ag as ag
from ggmlpy_ag.backend import counters
from ggmlpy_ag.ops import addrows, order, rows, scan, sorting

pytestmark = pytest.mark.usefixtures("fresh_backend")

LARGE = 70_001  # more than 65,535: workgroups of a Vulkan launch, and rounds of a loop in Mesa's llvmpipe
rng = np.random.default_rng(11)


def normal(*shape: int) -> np.ndarray:
    return np.asarray(rng.standard_normal(shape), np.float32)


def integers(n: int, *shape: int) -> np.ndarray:
    return np.asarray(rng.integers(0, n, shape), np.int32)


def gradient(call: Any, x: np.ndarray, g: np.ndarray) -> np.ndarray:
    leaf = ag.param(x)
    with ag.grad_tape():
        out = call(leaf)
    return ag.backward(out, g)[leaf].numpy()


def added(n: int, index: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows added up by index in float64, and their magnitudes."""
    sums, sizes = (np.zeros((n, *values.shape[1:])) for _ in range(2))
    np.add.at(sums, index, values.astype(np.float64))
    np.add.at(sizes, index, np.abs(values.astype(np.float64)))
    return sums, sizes


def check_table(n: int, columns: int, index: np.ndarray) -> None:
    """Rows of a table, and the gradient of the table."""
    table, g = normal(n, columns), normal(index.size, columns)
    np.testing.assert_array_equal(ag.embedding(index, table).numpy(), table[index])
    sums, sizes = added(n, index, g)
    found = gradient(lambda weight: ag.embedding(index, weight), table, g)
    assert np.all(np.abs(found - sums) <= 1e-6 * sizes)


# ---------------------------------------------------------------- many rows, many indices


@pytest.mark.parametrize(
    "n, columns, k",
    [(LARGE, 2, 9), (5, 2, LARGE), (300, 33, 1000), (1, 1, 300), (40, 5, 1)],
    ids=str,
)
def test_rows_of_large_tables_and_by_many_indices(n: int, columns: int, k: int, device: str) -> None:
    check_table(n, columns, integers(n, k))


@pytest.mark.parametrize("n, columns, k", [(LARGE, 1, 9), (5, 2, LARGE), (64, 3, 500)], ids=str)
def test_all_indices_are_the_same(n: int, columns: int, k: int, device: str) -> None:
    check_table(n, columns, np.full(k, n - 1, np.int32))


@pytest.mark.parametrize(
    "n, columns, k", [(5, 3, 7), (1, 1, 1), (1, 2, 9), (300, 1, 2), (9, 4, 1), (33, 31, 257), (257, 2, 64)], ids=str
)
@pytest.mark.parametrize("same", [False, True])
def test_rows_are_added_up_in_order_of_their_index(
    n: int, columns: int, k: int, same: bool, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a GPU does it for large tables."""
    monkeypatch.setattr(addrows, "DIRECT_WORK", 0)
    check_table(n, columns, np.full(k, n // 2, np.int32) if same else integers(n, k))


def test_a_large_table_of_which_many_rows_are_used(device: str) -> None:
    check_table(LARGE, 3, integers(LARGE, 2500))


@pytest.mark.parametrize("work", [0, 1 << 60])
@pytest.mark.parametrize("shape, k, axis", [((3, 7), 5, 1), ((5, 4, 3), 9, 0), ((1, 33, 2), 40, 1)], ids=str)
def test_several_batches(
    shape: tuple[int, ...], k: int, axis: int, work: int, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(addrows, "DIRECT_WORK", work)
    index = integers(shape[axis], *(k if i == axis else n for i, n in enumerate(shape)))
    x, src = normal(*shape), normal(*index.shape)
    expected = x.astype(np.float64)
    for place in np.ndindex(*index.shape):
        to = list(place)
        to[axis] = index[place]
        expected[tuple(to)] += src[place]
    np.testing.assert_allclose(ag.scatter_add(x, axis, index, src).numpy(), expected, 1e-6, 1e-6)
    monkeypatch.setattr(addrows, "EXACT", 20)  # elements that are numbered in float32 at once
    np.testing.assert_allclose(ag.scatter_add(x, axis, index, src).numpy(), expected, 1e-6, 1e-6)


@pytest.mark.parametrize("work", [0, 1 << 60])
def test_what_is_not_finite_stays_in_its_row(work: int, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addrows, "DIRECT_WORK", work)
    inf, nan = np.inf, np.nan
    index, src = [1, 1, 2, 3, 3, 4], [1.0, inf, 2.0, inf, -inf, nan]
    sums = ag.scatter_add(np.zeros(6), 0, index, src).numpy()
    np.testing.assert_array_equal(sums, [0.0, inf, 2.0, nan, nan, 0.0])


def test_only_the_part_of_src_that_has_an_index_is_used(device: str) -> None:
    x, src = ag.param(normal(3, 4)), ag.param(normal(4, 5))
    with ag.grad_tape():
        out = ag.scatter_add(x, 1, [[0, 0], [3, 1]], src)
    grads = ag.backward(out, np.arange(12.0).reshape(3, 4))
    np.testing.assert_array_equal(grads[src].numpy()[:2, :2], [[0.0, 0.0], [7.0, 5.0]])
    assert np.count_nonzero(grads[src].numpy()) == 2
    np.testing.assert_array_equal(grads[x].numpy(), np.arange(12.0).reshape(3, 4))


# ---------------------------------------------------------------- types and wide rows


@pytest.mark.parametrize("columns", [1, 511, 512, 513, 1024, 1537])
def test_wide_rows_of_integers(columns: int, device: str) -> None:
    table = np.asarray(rng.integers(-(2**31), 2**31 - 1, (3, 7, columns)), np.int32)
    taken = ag.take(ag.tensor(table), [6, 0, 6], 1)
    assert taken.dtype == np.int32
    np.testing.assert_array_equal(taken.numpy(), table[:, [6, 0, 6]])


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32"])
def test_rows_wider_than_one_launch(dtype: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "COLUMNS", 50)
    monkeypatch.setattr(rows, "INT_COLUMNS", 50)
    monkeypatch.setattr(addrows, "COLUMNS", 50)
    table = ag.tensor(np.trunc(100 * normal(2, 5, 170)), dtype=dtype)
    np.testing.assert_array_equal(ag.take(table, [3, 3, 1], 1).numpy(), table.numpy()[:, [3, 3, 1]])
    check_table(5, 170, integers(5, 9))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_tables_of_halves_stay_what_they_are(dtype: str, device: str) -> None:
    weight = ag.param(normal(5, 3), dtype=dtype)
    with ag.grad_tape():
        out = ag.embedding([1, 1, 4], weight)
    assert out.dtype == weight.dtype
    np.testing.assert_array_equal(out.numpy(), weight.numpy()[[1, 1, 4]])
    grad = ag.backward(out, np.ones((3, 3)))[weight]
    assert grad.dtype == weight.dtype
    np.testing.assert_array_equal(grad.numpy(), np.array([[0.0], [2.0], [0.0], [0.0], [1.0]]) * np.ones(3))


# ---------------------------------------------------------------- indices


def test_indices_computed_on_the_device_are_limited(device: str) -> None:
    x = ag.tensor([[10.0, 11.0], [20.0, 21.0], [30.0, 31.0]])
    wild = ag.tensor([-5.0, 1.0, 2.0, 99.0, 3e9, -np.inf]).astype("int32")
    downloads = counters.COUNTS.downloads
    outs = [
        ag.take(x, wild),
        ag.embedding(wild, x),
        ag.gather(x, 0, wild.reshape(6, 1)),
        ag.one_hot(wild[:4], 3),
        ag.scatter_add(ag.tensor([0.0, 0.0]), 0, wild[:4], [1.0, 2.0, 4.0, 8.0]),
    ]
    assert counters.COUNTS.downloads == downloads
    places = [0, 1, 2, 2]
    for out in outs[:2]:
        np.testing.assert_array_equal(out.numpy()[:4], x.numpy()[places])
    np.testing.assert_array_equal(outs[2].numpy()[:4, 0], x.numpy()[places, 0])
    np.testing.assert_array_equal(outs[3].numpy(), np.eye(3)[places])
    assert outs[4].tolist() == [1.0, 14.0]


def test_results_of_argmax_and_sort_are_indices_at_once(device: str) -> None:
    x = ag.tensor(normal(5, 7))
    downloads = counters.COUNTS.downloads
    best = ag.gather(x, 1, ag.argmax(x, 1, keepdims=True))
    ordered = ag.gather(x, 0, ag.argsort(x, 0))
    assert counters.COUNTS.downloads == downloads
    np.testing.assert_array_equal(best.numpy(), x.numpy().max(1, keepdims=True))
    np.testing.assert_array_equal(ordered.numpy(), np.sort(x.numpy(), 0))


def test_saved_indices_must_not_be_overwritten(device: str) -> None:
    weight, index = ag.param(normal(3, 2)), ag.tensor([0, 1])
    with ag.grad_tape():
        out = ag.embedding(index, weight)
    index.copy_([2, 2])
    with pytest.raises(RuntimeError, match="embedding.*overwritten"):
        ag.backward(out, np.ones((2, 2)))


# ---------------------------------------------------------------- order


def ordered(x: np.ndarray, descending: bool) -> np.ndarray:
    keys = (
        (-np.where(np.isnan(x), 0.0, x), ~np.isnan(x)) if descending else (np.where(np.isnan(x), 0.0, x), np.isnan(x))
    )
    return np.asarray(np.lexsort(keys))


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("n", [1, 2, 50, 333])
@pytest.mark.parametrize("exact, exponents, longest", [(0, 254, 1 << 23), (0, 2, 1 << 10), (0, 8, 1 << 9)], ids=str)
def test_equal_elements_keep_their_order_in_rows_of_any_length(
    n: int, descending: bool, exact: int, exponents: int, longest: int, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By exponents and by digits, as in rows of more than 4,095 and 32,767 elements."""
    monkeypatch.setattr(sorting, "EXACT", exact)
    monkeypatch.setattr(sorting, "EXPONENTS", exponents)
    monkeypatch.setattr(sorting, "LONGEST", longest)
    x = rng.choice(np.array([0.0, -0.0, 1.0, 2.5, -1.0, np.inf, -np.inf, np.nan], np.float32), (3, n))
    np.testing.assert_array_equal(ag.argsort(x, 1, descending).numpy(), ordered(x, descending))


@pytest.mark.parametrize("n", [4095, 4097, 32_768, 40_000, 100_003])
def test_long_rows_are_sorted_stably_on_the_cpu(n: int) -> None:
    with ag.device("cpu"):
        x = np.asarray(rng.integers(0, n // 3, (2, n)), np.float32)
        np.testing.assert_array_equal(ag.argsort(x).numpy(), np.argsort(x, 1, kind="stable"))


def test_a_row_of_more_than_a_workgroup_is_sorted_stably(device: str) -> None:
    x = np.asarray(rng.integers(0, 900, (2, 2000)), np.float32)
    values, index = ag.sort(x)
    np.testing.assert_array_equal(index.numpy(), np.argsort(x, 1, kind="stable"))
    np.testing.assert_array_equal(values.numpy(), np.sort(x, 1))


def test_many_rows_are_sorted(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = normal(LARGE, 2)
    found = ag.argsort(x).numpy() if device == "cpu" else ag.Tensor(rows.argsort(ag.tensor(x)._array)).numpy()
    np.testing.assert_array_equal(found, np.argsort(x, 1))
    monkeypatch.setattr(rows, "SORTED_AT_ONCE", 1 << 10)
    x = normal(70, 33)
    np.testing.assert_array_equal(ag.argsort(x).numpy(), np.argsort(x, 1))


def test_rows_too_long_to_sort_are_refused() -> None:
    with pytest.raises(ValueError, match="argsort: 8388609 values"):
        ag.argsort(ag.broadcast_to(1.0, ((1 << 23) + 1,)))


# ---------------------------------------------------------------- extremes and running sums of long axes


@pytest.mark.parametrize("lines, at", [(1, 0), (1, 65_536), (2, LARGE - 1)])
def test_extremes_of_long_rows(lines: int, at: int, device: str) -> None:
    x = normal(lines, LARGE)
    x[:, at] = 100.0
    assert ag.max(x, 1).tolist() == [100.0] * lines
    assert ag.min(-x, 1).tolist() == [-100.0] * lines
    assert ag.argmax(x, 1).tolist() == [at] * lines
    assert ag.argmin(-x, 1).tolist() == [at] * lines
    assert ag.norm(x, np.inf, 1).tolist() == [100.0] * lines
    np.testing.assert_allclose(ag.logsumexp(x, 1).numpy(), 100.0, 1e-6)
    np.testing.assert_allclose(ag.log_softmax(x, 1).numpy()[:, at], 0.0, atol=1e-6)


def test_extremes_of_many_rows(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = normal(LARGE, 2)
    np.testing.assert_array_equal(ag.max(x, 1).numpy(), x.max(1))
    np.testing.assert_array_equal(ag.min(x, 0).numpy(), x.min(0))
    monkeypatch.setattr(order, "ROWS", 16)
    np.testing.assert_array_equal(ag.max(x[:70], 1).numpy(), x[:70].max(1))


@pytest.mark.parametrize("shape, axis", [((LARGE,), 0), ((LARGE, 2), 0), ((3, 1000, 5), 1), ((LARGE, 3), 1)], ids=str)
@pytest.mark.parametrize("size", [scan.ACC_SIZE, 0])
def test_running_sums_of_long_axes(
    shape: tuple[int, ...], axis: int, size: int, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "ACC_SIZE", size)
    x, g = normal(*shape), normal(*shape)
    bound = 1e-6 * np.cumsum(np.abs(x.astype(np.float64)), axis)
    assert np.all(np.abs(ag.cumsum(x, axis).numpy() - np.cumsum(x.astype(np.float64), axis)) <= bound)
    back = np.flip(np.cumsum(np.flip(g.astype(np.float64), axis), axis), axis)
    found = gradient(lambda leaf: ag.cumsum(leaf, axis), x, g)
    assert np.all(np.abs(found - back) <= 1e-6 * np.abs(g.astype(np.float64)).sum(axis, keepdims=True))


# ---------------------------------------------------------------- rows that are wide, or many


def test_softmax_of_rows_longer_than_vulkans_kernel_takes(device: str) -> None:
    x = np.zeros((2, 3, 20_000), np.float32)
    x[:, :, -5000] = 200.0  # a spread that loses the maximum in ggml's own kernel
    expected = np.zeros(x.shape, np.float32)
    expected[:, :, -5000] = 1.0
    np.testing.assert_allclose(ag.softmax(ag.tensor(x)).numpy(), expected, atol=1e-7)
    np.testing.assert_allclose(ag.softmax(ag.tensor(x[0, 0])).numpy(), expected[0, 0], atol=1e-7)


def test_log_softmax_of_600_000_classes(device: str) -> None:
    x = np.random.default_rng(0).standard_normal((1, 600_000)).astype(np.float32)
    expected = x.astype(np.float64) - np.log(np.sum(np.exp(x.astype(np.float64))))
    np.testing.assert_allclose(ag.log_softmax(ag.tensor(x)).numpy(), expected, 2e-6)
    assert ag.cross_entropy_loss(ag.tensor(x), [7]).item() == pytest.approx(-expected[0, 7], rel=2e-6)


def test_the_maximum_of_more_rows_than_float32_counts() -> None:
    with ag.device("cpu"):
        values = np.zeros(((1 << 24) + 1, 1), np.float32)
        values[-1] = 1.0
        assert ag.max(ag.tensor(values), 1)[-1].item() == 1.0


def test_a_depthwise_kernel_larger_than_a_shaders_loop(device: str) -> None:
    image, kernel = np.ones((1, 2, 260, 260), np.float32), np.ones((2, 1, 260, 260), np.float32)
    assert ag.conv2d(image, kernel, groups=2).numpy().reshape(-1).tolist() == [67_600.0, 67_600.0]
