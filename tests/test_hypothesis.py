"""Random shapes, layouts and values for every operation, against NumPy; what failed once is in the op table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from optable import OPS, Draw, Op
from optable.measure import assert_close, reference

import ggmlpy_ag as ag


def window(draw: Draw, values: np.ndarray) -> ag.Tensor:
    """A tensor of these values that is a window on a window on something larger; NaN lies beside it."""
    order = list(range(values.ndim))
    for i in range(values.ndim - 1, 0, -1):
        j = draw.integer(0, i)
        order[i], order[j] = order[j], order[i]
    whole = np.transpose(values, order)
    indices = []
    for _ in range(2):  # a view of a view
        cut = [embedded(n, draw) for n in whole.shape]
        larger = np.full([c.stop + draw.integer(0, 1) for c in cut], np.nan, values.dtype)
        larger[tuple(cut)] = whole
        whole = larger
        indices.append(tuple(cut))
    tensor = ag.tensor(whole)
    for index in reversed(indices):
        tensor = tensor[index]
    return tensor.permute(*np.argsort(order).tolist()) if values.ndim else tensor


def embedded(n: int, draw: Draw) -> slice:
    """n places on a longer axis."""
    first, step = draw.integer(0, 2), draw.integer(1, 3)
    return slice(first, first + step * (n - 1) + 1, step)


def operand(draw: Draw, value: Any) -> Any:
    if not isinstance(value, np.ndarray) or value.size == 0:
        return value
    return window(draw, value) if value.dtype == np.float32 and draw.one_of((True, True, False)) else ag.tensor(value)


@pytest.mark.parametrize("op", [op for op in OPS if op.generate], ids=lambda op: op.name)
def test_random_calls_give_what_numpy_gives(op: Op, device: str) -> None:
    @settings(
        max_examples=15,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
    )
    @given(st.data())
    def check(data: st.DataObject) -> None:
        draw = Draw(lambda choices: data.draw(st.sampled_from(choices)))
        assert op.generate is not None
        sample = op.generate(draw)
        out = op.call(*(operand(draw, v) for v in sample.operands), **sample.options)
        expected = reference(op, sample)
        assert out.shape == expected.shape
        assert_close(out.numpy(), expected, op, sample)

    check()
