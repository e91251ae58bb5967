"""Reductions other than sums and extremes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import ggmlpy_ag as ag

from .calls import Makers
from .order import apart
from .reduce import SOME, as_tuple, reduced
from .table import Draw, Error, Op, Sample, axes_errors, nonzero, normal, unary_errors, uniform

SEVERAL = [
    (shape, options) for shape, options in SOME if shape and options.get("axis") != () and options.get("axis") != 2
]


def _var(x: np.ndarray, axis: Any = None, keepdims: bool = False, correction: float = 1) -> Any:
    axis = as_tuple(axis)
    squares = (x - x.mean(axis, keepdims=True)) ** 2
    total = squares.sum(axis, keepdims=keepdims)
    return total / max(x.size // np.size(total) - correction, 0)


def _std(x: np.ndarray, axis: Any = None, keepdims: bool = False, correction: float = 1) -> Any:
    return np.sqrt(_var(x, axis, keepdims, correction))


def _torch_spread(name: str) -> Callable[..., Any]:
    def spread(torch: Any, x: Any, axis: Any = None, keepdims: bool = False, correction: float = 1) -> Any:
        return getattr(torch, name)(x, dim=axis, keepdim=keepdims, correction=correction)

    return spread


def _norm(x: np.ndarray, ord: float = 2, axis: Any = None, keepdims: bool = False) -> Any:
    axis = as_tuple(axis)
    size = np.abs(x)
    if ord == math.inf:
        return size.max(axis, keepdims=keepdims)
    return (size**ord).sum(axis, keepdims=keepdims) ** (1.0 / ord)


def _torch_norm(torch: Any, x: Any, ord: float = 2, axis: Any = None, keepdims: bool = False) -> Any:
    if axis == ():
        return abs(x)
    return torch.linalg.vector_norm(x, ord, axis, keepdims)


def _logsumexp(x: np.ndarray, axis: Any = None, keepdims: bool = False) -> Any:
    axis = as_tuple(axis)
    top = x.max(axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    total = np.log(np.exp(x - top).sum(axis, keepdims=True)) + top
    return total if keepdims else total.reshape(x.sum(axis).shape)


def _torch_axes(x: Any, axis: Any) -> Any:
    return tuple(range(x.ndim)) if axis is None else axis


def _torch_logsumexp(torch: Any, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    if axis == ():
        return x * 1.0
    return torch.logsumexp(x, _torch_axes(x, axis), keepdims)


def _torch_prod(torch: Any, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    axes = _torch_axes(x, axis)
    for i in sorted((a % x.ndim for a in (axes if isinstance(axes, (tuple, list)) else (axes,))), reverse=True):
        x = torch.prod(x, i, keepdim=keepdims)
    return x


def _corrected(draw: Draw) -> Sample:
    sample = reduced(normal)(draw)
    return Sample(sample.operands, {**sample.options, "correction": draw.one_of((0, 1, 1, 2, 0.5))})


def _of_order(draw: Draw) -> Sample:
    sample = reduced(normal)(draw)
    return Sample(sample.operands, {**sample.options, "ord": draw.one_of((1, 2, 2, 3, 0.5, 1.5, math.inf))})


def _of_sizes_apart(*shape: int) -> np.ndarray:
    """Of either sign, with magnitudes that differ by 0.5 at least."""
    return np.asarray((apart(*shape) + 4.0) * np.sign(nonzero(*shape)), np.float32)


def _rows(*rows: list[float]) -> Sample:
    return Sample((np.array(rows, np.float32),), {"axis": 1})


nan, inf = math.nan, math.inf
UNDEFINED = _rows([1.0, nan, 2.0], [inf, 1.0, 2.0], [inf, -inf, 1.0])
SPREAD_ERRORS = {
    name: [
        *unary_errors(name, call),
        *axes_errors(name, call),
        Error(lambda m, call=call: call(m(3), correction="one"), TypeError, (name, "correction", "str")),
        Error(lambda m, call=call: call(m(3), correction=m()), TypeError, (name, "correction", "Tensor")),
        Error(lambda m, call=call: call(m(3), correction=nan), ValueError, (name, "correction", "finite", "nan")),
    ]
    for name, call in (("var", ag.var), ("std", ag.std))
}

OPS: list[Op] = [
    Op(
        name="var",
        call=ag.var,
        numpy=_var,
        torch=_torch_spread("var"),
        samples=[
            *(Sample((normal(*shape),), options) for shape, options in SEVERAL),
            *(Sample((normal(3, 7),), {"axis": 1, "correction": c}) for c in (0, 2, 0.5)),
        ],
        generate=_corrected,
        smooth=True,
        keeps=(1, 0),
        edges=[_rows([2.0, 2.0, 2.0], [0.0, 0.0, 0.0])],
        special=[
            UNDEFINED,
            _rows([1e7, 1e7 + 1, 1e7 + 2], [1e-15, 2e-15, 0.0], [1e15, -1e15, 1.0]),
            _rows([3.0], [4.0]),
        ],
        errors=SPREAD_ERRORS["var"],
    ),
    Op(
        name="std",
        call=ag.std,
        numpy=_std,
        torch=_torch_spread("std"),
        samples=[
            *(Sample((normal(*shape),), options) for shape, options in SEVERAL),
            *(Sample((normal(3, 7),), {"axis": 1, "correction": c}) for c in (0, 2, 0.5)),
        ],
        generate=_corrected,
        smooth=True,
        keeps=(1, 1),
        edges=[_rows([2.0, 2.0, 2.0], [0.0, 0.0, 0.0], [1.0, 2.0, 3.0])],
        special=[UNDEFINED, _rows([1e7, 1e7 + 1, 1e7 + 2]), _rows([3.0], [4.0])],
        errors=SPREAD_ERRORS["std"],
    ),
    Op(
        name="norm",
        call=ag.norm,
        numpy=_norm,
        torch=_torch_norm,
        samples=[
            *(Sample((nonzero(*shape),), options) for shape, options in SOME),
            *(Sample((nonzero(3, 7),), {"ord": p, "axis": 1}) for p in (1, 3, 0.5)),
            *(Sample((nonzero(2, 3, 5),), {"ord": p, "axis": (0, 2), "keepdims": True}) for p in (1, 1.5)),
            *(Sample((_of_sizes_apart(*shape),), {"ord": inf, **options}) for shape, options in SOME[2:7]),
        ],
        generate=_of_order,
        smooth=True,
        keeps=(1, 1),
        edges=[
            *(Sample((np.zeros(3, np.float32),), {"ord": p}) for p in (1, 2, inf, 3, 1.5)),
            *(Sample((np.array([0.0, 3.0, -3.0, 1.0], np.float32),), {"ord": p}) for p in (1, 2, inf, 3, 1.5, 0.5)),
        ],
        special=[
            Sample((np.array(row, np.float32),), {"ord": p})
            for row in ([1e30, 1e30], [1e-30, 2e-30], [3e38, 1.0], [inf, 1.0], [-inf, inf], [nan, 1.0], [nan, inf], [0])
            for p in (1, 2, inf, 3, 0.5)
            if not (p == 0.5 and row[0] == 3e38)
        ],
        errors=[
            *unary_errors("norm", ag.norm),
            *axes_errors("norm", lambda x, axis: ag.norm(x, axis=axis)),
            Error(lambda m: ag.norm(m(3), 0), ValueError, ("norm", "ord", "above 0", "0")),
            Error(lambda m: ag.norm(m(3), -inf), ValueError, ("norm", "-inf")),
            Error(lambda m: ag.norm(m(3), nan), ValueError, ("norm", "nan")),
            Error(lambda m: ag.norm(m(3), "fro"), TypeError, ("norm", "ord", "str")),
        ],
        rtol=2e-6,  # exp(p * log(x)) for p other than 1, 2 and inf
    ),
    Op(
        name="logsumexp",
        call=ag.logsumexp,
        numpy=_logsumexp,
        torch=_torch_logsumexp,
        samples=[Sample((normal(*shape),), options) for shape, options in SOME],
        generate=reduced(normal),
        smooth=True,
        keeps=(1, 1),
        edges=[_rows([-inf, -inf], [-inf, 1.0], [1e4, -1e4], [2.0, 2.0], [inf, 1.0])],
        special=[
            _rows([-inf, -inf], [inf, 1.0], [inf, -inf], [nan, 1.0], [nan, inf]),
            _rows([1e30, -1e30], [3e38, 3e38], [-3e38, -inf]),
        ],
        errors=[*unary_errors("logsumexp", ag.logsumexp), *axes_errors("logsumexp", ag.logsumexp)],
        atol=5e-7,  # the maximum and the logarithm of the sum may cancel
    ),
    Op(
        name="prod",
        call=ag.prod,
        numpy=lambda x, axis=None, keepdims=False: np.prod(x, as_tuple(axis), keepdims=keepdims),
        torch=_torch_prod,
        samples=[
            *(Sample((uniform(*shape, low=0.7, high=1.4),), options) for shape, options in SOME),
            *(Sample((nonzero(*shape),), options) for shape, options in SOME[2:6]),
        ],
        generate=reduced(nonzero),
        smooth=True,
        keeps=(1, 0),
        edges=[
            _rows([0.0, 2.0, 3.0], [0.0, 0.0, 3.0], [0.0, 0.0, 0.0], [1.0, 2.0, 0.0]),
            _rows([0.0, 2.0, 3.0, 4.0], [1.0, 0.0, 3.0, 0.0], [5.0, -0.0, 1.0, 2.0]),
        ],
        special=[_rows([0.0, inf, 1.0], [nan, 0.0, 1.0], [inf, -2.0, 3.0], [-0.0, 1.0, 5.0], [1e30, 1e30, 1.0])],
        errors=[*unary_errors("prod", ag.prod), *axes_errors("prod", ag.prod)],
        rtol=5e-6,  # the roundings of 1,500 products
        grad_rtol=5e-5,
    ),
]  # fmt: skip

CALLS: Makers = {
    **{
        name: lambda c, name=name: (
            getattr(ag, name),
            c.operand(),
            c.one_of(None, -1, c.axis()),
            c.one_of(False, True),
            c.one_of(0, 1, c.number()),
        )
        for name in ("var", "std")
    },
    **{
        name: lambda c, name=name: (getattr(ag, name), c.operand(), c.one_of(None, -1, c.axis()), c.one_of(False, True))
        for name in ("logsumexp", "prod")
    },
    "norm": lambda c: (
        ag.norm,
        c.operand(),
        c.one_of(1, 2, c.number()),
        c.one_of(None, -1, c.axis()),
        c.one_of(False, True),
    ),
}
