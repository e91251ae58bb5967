"""Greatest and least."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import ggmlpy_ag as ag

from . import table
from .calls import Makers
from .reduce import SOME, as_tuple, reduced
from .table import Draw, Op, Sample, axes_errors, axis_errors, each, normal, special, unary_errors


def apart(*shape: int) -> np.ndarray:
    """Numbers that differ by 0.5 at least: finite differences do not change their order."""
    return np.asarray(table.rng.permutation(int(np.prod(shape, dtype=int))).reshape(shape) * 0.5 - 3.0, np.float32)


def few(*shape: int) -> np.ndarray:
    """Many equal numbers, and some that are none or not finite."""
    values = [0.0, 1.0, 1.0, -2.0, np.inf, -np.inf, np.nan, 3.5]
    return np.asarray(table.rng.choice(values, shape), np.float32)


def _row_ties() -> np.ndarray:
    return np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0], [0.0, -0.0, -1.0], [5.0, 1.0, 5.0]], np.float32)


def _rows_with_nan() -> np.ndarray:
    nan, inf = np.nan, np.inf
    rows = [[1.0, nan, 5.0, nan], [nan] * 4, [-inf, nan, inf, 0.0], [-inf] * 4, [0.0, inf, nan, inf], [-1e30, -inf] * 2]
    return np.array(rows, np.float32)


LEAST = float(np.finfo(np.float32).min)
EXTREMES = [
    Sample((_rows_with_nan(),), {"axis": 0}),
    Sample((_rows_with_nan(),), {"axis": 1}),
    Sample((_rows_with_nan(),)),
    Sample((np.array([[LEAST, -np.inf], [-np.inf] * 2, [LEAST, LEAST], [np.inf, -np.inf]], np.float32),), {"axis": 1}),
    Sample((np.array([[-LEAST, np.inf], [np.inf, np.inf], [-LEAST, -LEAST]], np.float32),), {"axis": 1}),
    Sample((np.array([-0.0, -0.0], np.float32),)),
    Sample((np.array([0.0], np.float32),)),
    Sample((np.array([1e-38, 1.1e-38, 1.0e-38], np.float32) * 2,)),
]  # fmt: skip


def _torch_arg(name: str) -> Callable[..., Any]:
    def found(torch: Any, x: Any, axis: int | None = None, keepdims: bool = False) -> Any:
        if axis is None and keepdims:
            return getattr(torch, name)(x).reshape((1,) * x.ndim)
        return getattr(torch, name)(x, dim=axis, keepdim=keepdims)

    return found


def _torch_extreme(name: str) -> Callable[..., Any]:
    def extreme(torch: Any, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        if axis == ():
            return x * 1.0
        axes = tuple(range(x.ndim)) if axis is None else axis
        return getattr(torch, name)(x, dim=axes, keepdim=keepdims)

    return extreme


def _one_axis(draw: Draw) -> Sample:
    x = draw.floats(draw.one_of((normal, few)), *draw.shape())
    axis = draw.one_of((None, draw.axis(x.ndim))) if x.ndim else None
    return Sample((x,), {"axis": axis, "keepdims": draw.one_of((False, True))})


def _extreme(name: str) -> Op:
    call = getattr(ag, name)
    return Op(
        name=name,
        call=call,
        numpy=lambda x, axis=None, keepdims=False: getattr(np, name)(x, as_tuple(axis), keepdims=keepdims),
        torch=_torch_extreme(f"a{name}"),
        samples=[
            *(Sample((apart(*shape),), options) for shape, options in SOME),
            Sample((normal(2, 1500),), {"axis": 1}),
        ],
        generate=reduced(few),
        smooth=True,
        keeps=(1, 1),
        edges=[
            *(Sample((_row_ties(),), {"axis": axis}) for axis in (0, 1, None)),
            Sample((_rows_with_nan(),), {"axis": 1}),
            Sample((np.array([[np.inf, np.inf], [-np.inf, -np.inf]], np.float32),), {"axis": 1}),
        ],
        special=EXTREMES,
        errors=[*unary_errors(name, call), *axes_errors(name, call)],
    )  # fmt: skip


def _arg(name: str) -> Op:
    call = getattr(ag, name)
    return Op(
        name=name,
        call=call,
        numpy=lambda x, axis=None, keepdims=False: getattr(np, name)(x, axis, keepdims=keepdims),
        torch=_torch_arg(name),
        samples=[
            *each(normal),
            *[
                Sample((normal(*shape),), {"axis": axis, "keepdims": keep})
                for shape, axis in [((5,), 0), ((3, 7), 0), ((3, 7), -1), ((2, 3, 5), 1), ((2, 1, 3, 5), 0)]
                for keep in (False, True)
            ],
            Sample((normal(2, 3),), {"keepdims": True}),
            Sample((normal(33, 31),), {"axis": 1}),
            Sample((normal(2, 1500),), {"axis": 1}),
            *(Sample((_row_ties(),), {"axis": axis}) for axis in (0, 1, None)),
        ],
        generate=_one_axis,
        gradient=False,
        special=[special(), *EXTREMES[:2], EXTREMES[-1]],
        errors=[*unary_errors(name, call), *axis_errors(name, call)],
    )


OPS: list[Op] = [_extreme("max"), _extreme("min"), _arg("argmax"), _arg("argmin")]

CALLS: Makers = {
    name: lambda c, name=name: (getattr(ag, name), c.operand(), c.one_of(None, -1, c.axis()), c.one_of(False, True))
    for name in ("max", "min", "argmax", "argmin")
}
