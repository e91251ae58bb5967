"""Greatest and least, and order."""

from __future__ import annotations

from typing import Any

import numpy as np

import ggmlpy_ag as ag

from .calls import Makers
from .table import Op, Sample, axis_errors, each, normal, special, unary_errors


def _row_ties() -> np.ndarray:
    return np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0], [0.0, -0.0, -1.0], [5.0, 1.0, 5.0]], np.float32)


def _rows_with_nan() -> np.ndarray:
    nan, inf = np.nan, np.inf
    rows = [[1.0, nan, 5.0, nan], [nan] * 4, [-inf, nan, inf, 0.0], [-inf] * 4, [0.0, inf, nan, inf], [-1e30, -inf] * 2]
    return np.array(rows, np.float32)


def _torch_argmax(torch: Any, x: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    if axis is None and keepdims:
        return torch.argmax(x).reshape((1,) * x.ndim)
    return torch.argmax(x, dim=axis, keepdim=keepdims)


OPS: list[Op] = [
    Op(
        name="argmax",
        call=ag.argmax,
        numpy=lambda x, axis=None, keepdims=False: np.argmax(x, axis, keepdims=keepdims),
        torch=_torch_argmax,
        samples=[
            *each(normal),
            *[
                Sample((normal(*shape),), {"axis": axis, "keepdims": keep})
                for shape, axis in [((5,), 0), ((3, 7), 0), ((3, 7), -1), ((2, 3, 5), 1), ((2, 1, 3, 5), 0)]
                for keep in (False, True)
            ],
            Sample((normal(2, 3),), {"keepdims": True}),
            Sample((normal(33, 31),), {"axis": 1}),
            Sample((_row_ties(),), {"axis": 1}),
            Sample((_row_ties(),), {"axis": 0}),
            Sample((_row_ties(),)),
        ],
        gradient=False,
        special=[special(), *[Sample((_rows_with_nan(),), {"axis": axis}) for axis in (0, 1)]],
        errors=[*unary_errors("argmax", ag.argmax), *axis_errors("argmax", ag.argmax)],
    ),
]

CALLS: Makers = {"argmax": lambda c: (ag.argmax, c.operand(), c.axis(), c.one_of(False, True))}
