"""Every operation on every device: values, gradients, layouts, special values, types. The calls are in optable/."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from optable import BY_NAME, OPS, Deviation, Op, Sample
from optable.measure import (
    SMALL,
    assert_close,
    assert_gradients_close,
    assert_pytorch_agrees,
    gradients,
    has_gradient,
    kept_bytes,
    largest,
    output_weights,
    reference,
    some,
    tensors,
    wide,
)

import ggmlpy_ag as ag
from ggmlpy_ag import ops


def cases(choose: Callable[[Op], Any]) -> pytest.MarkDecorator:
    """A test for each operation and what is chosen of its entry."""
    return pytest.mark.parametrize(
        "op, sample", [pytest.param(op, s, id=f"{op.name}-{s}") for op in OPS for s in choose(op)]
    )


# ---------------------------------------------------------------- values and gradients


@cases(lambda op: op.samples)
def test_values_are_numpys(op: Op, sample: Sample, device: str) -> None:
    out = op.call(*tensors(sample), **sample.options)
    expected = reference(op, sample)
    got = out.numpy()
    assert (out.shape, got.shape) == (expected.shape, expected.shape)
    assert out.dtype == got.dtype == (np.int32 if expected.dtype.kind == "i" else np.float32)
    assert_close(got, expected, op, sample)


@cases(lambda op: some([s for s in op.samples if has_gradient(op, s) and s.size <= SMALL], 10))
def test_gradient_is_the_slope(op: Op, sample: Sample, device: str) -> None:
    operands = tensors(sample)
    checked = [operands[i] for i in sample.floats]

    def call(*floats: ag.Tensor) -> ag.Tensor:
        arguments = list(operands)
        for i, tensor in zip(sample.floats, floats, strict=True):
            arguments[i] = tensor
        return op.call(*arguments, **sample.options)

    assert ag.gradcheck(call, checked)


@cases(lambda op: [s for s in op.samples if op.torch])
def test_values_and_gradients_are_pytorchs(op: Op, sample: Sample, device: str) -> None:
    check_against_pytorch(op, sample)


@cases(lambda op: op.edges)
def test_gradients_at_edges_are_pytorchs(op: Op, sample: Sample, device: str) -> None:
    check_against_pytorch(op, sample)


def check_against_pytorch(op: Op, sample: Sample) -> None:
    assert_pytorch_agrees(pytest.importorskip("torch"), op, sample)


def test_the_gradient_of_gelu_at_infinity_is_its_limit(device: str) -> None:
    x = ag.param([np.inf, -np.inf, np.nan])  # PyTorch's is NaN everywhere here
    with ag.grad_tape():
        out = ag.gelu(x)
    np.testing.assert_array_equal(ag.backward(out, np.ones(3))[x].numpy(), [1.0, 0.0, np.nan])


def test_gradcheck_finds_a_wrong_gradient(device: str) -> None:
    def wrong(x: ag.Tensor) -> ag.Tensor:
        out = x.detach() * 2.0
        return ag.record("double", out, (x,), lambda g: (g * 2.1,))

    with pytest.raises(ag.GradcheckError, match=r"input 0, element \(\d,\): gradient .*, finite differences"):
        ag.gradcheck(wrong, [ag.param([1.0, 2.0])])
    with pytest.raises(ValueError, match="requires a gradient"):
        ag.gradcheck(ag.exp, [ag.tensor([1.0])])


# ---------------------------------------------------------------- operands that are windows on something larger

Window = Callable[[Any], Any]  # takes the larger array, as a NumPy array or a tensor, and gives the operand


def transposed(values: np.ndarray) -> tuple[np.ndarray, Window]:
    """Columns side by side in memory."""
    return np.ascontiguousarray(values.T), lambda whole: whole.T


def swapped(values: np.ndarray) -> tuple[np.ndarray, Window]:
    """Rows side by side, in another order."""

    def window(whole: Any) -> Any:
        return whole.swapaxes(0, 1) if isinstance(whole, np.ndarray) else whole.transpose(0, 1)

    return np.ascontiguousarray(values.swapaxes(0, 1)), window


def columns(values: np.ndarray) -> tuple[np.ndarray, Window]:
    """A slice of columns, at an offset no driver has as alignment."""
    if values.ndim == 0:
        return embedded(values, (3,), (1, ...))
    return embedded(values, (*values.shape[:-1], values.shape[-1] + 2), (..., slice(1, -1)))


def strided(values: np.ndarray) -> tuple[np.ndarray, Window]:
    """Every second element of every dimension."""
    return embedded(values, tuple(2 * n + 1 for n in values.shape), (slice(1, None, 2),) * values.ndim)


def embedded(values: np.ndarray, shape: tuple[int, ...], index: Any) -> tuple[np.ndarray, Window]:
    whole = np.full(shape, np.nan, values.dtype)  # who reads beside the window gets NaN
    whole[index] = values
    return whole, lambda whole: whole[index]


LEAST_DIMENSIONS = {transposed: 2, swapped: 3, columns: 0, strided: 1}


@pytest.mark.parametrize("layout", LEAST_DIMENSIONS, ids=lambda layout: layout.__name__)
@cases(lambda op: some([s for s in op.samples if s.floats], 6))
def test_windows_give_what_packed_operands_give(
    op: Op, sample: Sample, layout: Callable[[np.ndarray], tuple[np.ndarray, Window]], device: str
) -> None:
    places = [i for i in sample.floats if sample.operands[i].ndim >= LEAST_DIMENSIONS[layout]]
    packed = tensors(sample)
    expected = op.call(*packed, **sample.options).numpy()
    expected_grads = (
        gradients(op, sample, packed, [packed[i] for i in sample.floats]) if has_gradient(op, sample) else []
    )
    choices = [[i] for i in places] + ([places] if len(places) > 1 else [])
    for chosen in choices:
        operands, leaves, windows = tensors(sample), {}, {}
        with ag.grad_tape():
            for i in chosen:
                whole, windows[i] = layout(sample.operands[i])
                leaves[i] = ag.param(whole)
                operands[i] = windows[i](leaves[i])
            out = op.call(*operands, **sample.options)
        assert_close(out.numpy(), expected, op, sample)
        if not has_gradient(op, sample):
            continue
        grads = ag.backward(out, output_weights(out.shape))
        for i in chosen:
            grad = grads[leaves[i]].numpy()
            wanted = np.zeros(grad.shape, np.float32)
            windows[i](wanted)[...] = expected_grads[sample.floats.index(i)]
            assert_gradients_close(grad, wanted, op)


# ---------------------------------------------------------------- infinities, NaN, zeros, denormals


@cases(lambda op: op.special)
def test_special_values_are_numpys_or_a_stated_deviation(op: Op, sample: Sample, device: str) -> None:
    got = op.call(*tensors(sample), **sample.options).numpy()
    operands = [wide(v) for v in sample.operands]
    expected = reference(op, sample)
    with np.errstate(all="ignore"):
        expected = expected.astype(got.dtype)
        good = same(got, expected, op)
        for deviation in op.deviations:
            if device.startswith(deviation.device):
                good |= deviates(deviation, op, sample, got, expected, operands)
    wrong = [
        f"{[np.asarray(v).reshape(-1)[i % np.size(v)] for v in operands]}: {got.flat[i]} instead of {expected.flat[i]}"
        for i in np.flatnonzero(~good)
    ]
    assert not wrong, f"{op.name} {dict(sample.options)}\n" + "\n".join(wrong)


def same(got: np.ndarray, expected: np.ndarray, op: Op) -> np.ndarray:
    """Where two results agree, the sign of zero included."""
    near = np.isclose(got, expected, op.rtol, op.atol, equal_nan=True)
    return near & ((expected != 0) | (np.signbit(got) == np.signbit(expected)))


def deviates(
    deviation: Deviation, op: Op, sample: Sample, got: np.ndarray, expected: np.ndarray, operands: list[Any]
) -> np.ndarray:
    """Where a result is what a deviation says."""

    def call(*values: Any) -> np.ndarray:
        return np.asarray(op.numpy(*values, **sample.options))

    operands = [np.broadcast_to(v, expected.shape) for v in operands]
    results = [np.broadcast_to(v, expected.shape) for v in deviation.values(call, *operands)]
    lowest, highest = np.fmin.reduce(results), np.fmax.reduce(results)
    slack = op.rtol * np.abs(got)
    between = (got >= lowest - slack) & (got <= highest + slack)
    between |= (got == lowest) | (got == highest)  # infinities
    undefined = np.isnan(got) & np.logical_or.reduce([np.isnan(r) for r in results])
    return deviation.where(expected, *operands) & (between | undefined)


# ---------------------------------------------------------------- gradients of gradients


@cases(lambda op: [s for s in op.samples if op.smooth and s.floats and 1 < s.size <= 24][:6])
def test_gradient_of_gradient_is_its_slope(op: Op, sample: Sample, device: str) -> None:
    operands = tensors(sample)
    for wanted in range(len(sample.floats)):

        def slope(*floats: ag.Tensor, wanted: int = wanted) -> ag.Tensor:
            arguments = list(operands)
            for i, tensor in zip(sample.floats, floats, strict=True):
                arguments[i] = tensor
            out = op.call(*arguments, **sample.options)
            grads = ag.backward(ag.sum(out * out), create_graph=True)
            return grads[floats[wanted]]

        assert ag.gradcheck(slope, [operands[i] for i in sample.floats], tol=5e-3)


# ---------------------------------------------------------------- what the tape keeps


@pytest.mark.parametrize("op", [op for op in OPS if op.gradient], ids=lambda op: op.name)
def test_a_rule_keeps_what_the_table_says(op: Op) -> None:
    sample = largest(op)
    with ag.device("cpu"), ag.grad_tape() as tape:
        out = op.call(*tensors(sample), **sample.options)
        kept = kept_bytes(tape)
    stated = op.keeps[0] * sample.size * 4 + op.keeps[1] * out.nbytes
    assert abs(kept - stated) <= 32 + 0.03 * stated, (
        f"keeps {kept} bytes, the table says {stated:.0f}; the operands have {sample.size * 4}, the result {out.nbytes}"
    )


# ---------------------------------------------------------------- float16 and bfloat16

HALVES = {"float16": 2.0**-11, "bfloat16": 2.0**-8}  # and the largest relative rounding error


@pytest.mark.parametrize("dtype", HALVES)
@cases(lambda op: some([s for s in op.samples if s.floats and op.name not in ("astype", "to")], 3))
def test_halves_are_computed_in_float32_and_rounded_once(op: Op, sample: Sample, dtype: str, device: str) -> None:
    halves, same = [], []
    for i, value in enumerate(sample.operands):
        if isinstance(value, np.ndarray) and i in sample.floats:
            halves.append(ag.param(value, dtype=dtype))
            same.append(halves[-1].detach().astype("float32"))
            same[-1].requires_grad = True
        else:
            halves.append(ag.tensor(value) if isinstance(value, np.ndarray) else value)
            same.append(halves[-1])
    with ag.grad_tape():
        out = op.call(*halves, **sample.options)
    with ag.no_grad():
        exact = op.call(*same, **sample.options).numpy()
    if exact.dtype == np.int32 or not op.gradient:  # indices, and masks of 0 and 1
        np.testing.assert_array_equal(out.numpy(), exact)
        return
    assert out.dtype == np.dtype(dtype if dtype == "float16" else ag.bfloat16)
    np.testing.assert_allclose(out.numpy().astype(np.float32), exact, HALVES[dtype], 6e-8)
    if not out.requires_grad:
        return
    grads = ag.backward(out, output_weights(out.shape))
    for i in sample.floats:
        if halves[i] in grads:
            assert (grads[halves[i]].shape, grads[halves[i]].dtype) == (halves[i].shape, halves[i].dtype)
            assert np.isfinite(grads[halves[i]].numpy().astype(np.float32)).all()


# ---------------------------------------------------------------- the table itself


NO_OPERATIONS = {"get_rng_state", "manual_seed", "set_rng_state"}  # test_random.py


@pytest.mark.parametrize("name", sorted(set(ops.__all__) - NO_OPERATIONS))
def test_every_public_operation_has_an_entry_and_a_docstring(name: str) -> None:
    assert name in BY_NAME
    assert BY_NAME[name].errors
    assert inspect.getdoc(getattr(ops, name))
    assert getattr(ag, name) is getattr(ops, name)


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_an_entry_covers_its_operation(op: Op) -> None:
    """Gradients, PyTorch and several shapes are among the samples where they should be."""
    assert len(op.samples) >= 5
    assert op.torch or op.name in ("astype", "to", "rand", "randn", "bernoulli", "dropout")
    assert op.generate or not op.samples[0].floats or op.name in ("astype", "to")
    if op.gradient:
        assert any(0 < s.size <= SMALL for s in op.samples)


# ---------------------------------------------------------------- operators and methods are the functions

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "pow": lambda a, b: a**b,
    "matmul": lambda a, b: a @ b,
}


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("left, right", [("tensor", "tensor"), ("tensor", "array"), ("array", "tensor")])
def test_operators_take_tensors_and_arrays_on_either_side(name: str, left: str, right: str, device: str) -> None:
    a, b = BY_NAME["pow"].samples[3].operands  # positive, and fit every operator
    kinds = {"tensor": ag.tensor, "array": lambda v: v}
    out = OPERATORS[name](kinds[left](a), kinds[right](b))
    assert isinstance(out, ag.Tensor)
    np.testing.assert_allclose(out.numpy(), OPERATORS[name](wide(a), wide(b)), 5e-6)


@pytest.mark.parametrize("name", [n for n in OPERATORS if n != "matmul"])
@pytest.mark.parametrize("number", [2, 0.5, np.float32(1.5), np.float64(3.0), np.int64(2), True], ids=repr)
def test_operators_take_numbers_on_either_side(name: str, number: Any, device: str) -> None:
    (x,) = BY_NAME["sqrt"].samples[3].operands
    operator = OPERATORS[name]
    np.testing.assert_allclose(operator(ag.tensor(x), number).numpy(), operator(wide(x), float(number)), 5e-6)
    np.testing.assert_allclose(operator(number, ag.tensor(x)).numpy(), operator(float(number), wide(x)), 5e-6)


@pytest.mark.parametrize(
    "name",
    "abs argmax clamp exp log log_softmax mean permute relu reshape sigmoid softmax sqrt sum tanh to transpose".split(),
)
def test_methods_are_the_functions(name: str) -> None:
    assert getattr(ag.Tensor, name) is getattr(ag, name)


def test_unary_operators(device: str) -> None:
    x = ag.tensor([1.0, -2.0])
    assert (-x).tolist() == [-1.0, 2.0]
    assert abs(x).tolist() == [1.0, 2.0]
    assert (+x).tolist() == [1.0, -2.0]
