"""Sorting."""

from __future__ import annotations

from typing import Any

import numpy as np

import ggmlpy_ag as ag

from .calls import Makers
from .order import apart, few
from .table import DENORMALS, SPECIAL, Draw, Error, Op, Sample, axis_errors, normal, unary_errors


def _argsort(x: np.ndarray, axis: int = -1, descending: bool = False) -> np.ndarray:
    if descending:  # and NaN before infinity
        return np.asarray(np.lexsort((-np.where(np.isnan(x), 0.0, x), ~np.isnan(x)), axis=axis))
    return np.asarray(np.argsort(x, axis, kind="stable"))


def _sort(x: np.ndarray, axis: int = -1, descending: bool = False) -> np.ndarray:
    return np.take_along_axis(x, _argsort(x, axis, descending), axis)


def _argtopk(x: np.ndarray, k: int, axis: int = -1, largest: bool = True) -> np.ndarray:
    return np.take(_argsort(x, axis, largest), np.arange(k), axis)


def _topk(x: np.ndarray, k: int, axis: int = -1, largest: bool = True) -> np.ndarray:
    return np.take_along_axis(x, _argtopk(x, k, axis, largest), axis)


def _torch_sort(torch: Any, x: Any, axis: int = -1, descending: bool = False) -> Any:
    return torch.sort(x, dim=axis, descending=descending, stable=True)


SORTED: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((1,), {}),
    ((5,), {}),
    ((5,), {"descending": True}),
    ((3, 7), {}),
    ((3, 7), {"axis": 0, "descending": True}),
    ((2, 3, 5), {"axis": 1}),
    ((2, 1, 3, 4), {"axis": -3}),
    ((2, 1, 3, 4), {"axis": 0, "descending": True}),
    ((31, 33), {"axis": 1}),
    ((31, 33), {"axis": 0}),
    ((257,), {"descending": True}),
]
TOP: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((1,), {"k": 1}),
    ((5,), {"k": 2}),
    ((5,), {"k": 5, "largest": False}),
    ((3, 7), {"k": 3}),
    ((3, 7), {"k": 2, "axis": 0, "largest": False}),
    ((2, 3, 5), {"k": 2, "axis": 1}),
    ((2, 1, 3, 4), {"k": 1, "axis": -3}),
    ((31, 33), {"k": 7, "axis": 1}),
    ((257,), {"k": 64}),
]
TIES = np.array([[1.0, 3.0, 3.0, 1.0], [2.0, 2.0, 2.0, 2.0], [0.0, -0.0, -1.0, 0.0], [5.0, 1.0, 5.0, 1.0]], np.float32)
NEAR = np.array(
    [1.2e-38, 2.1e-38, 2.0e-38, -2.1e-38, -2.2e-38, 1e38, 3e38, 2e38], np.float32
)  # near to a difference of 0


def _sorted(draw: Draw) -> Sample:
    x = draw.floats(draw.one_of((normal, few)), *draw.shape(least=1))
    return Sample((x,), {"axis": draw.axis(x.ndim), "descending": draw.one_of((False, True))})


def _top(draw: Draw) -> Sample:
    x = draw.floats(draw.one_of((normal, few)), *draw.shape(least=1))
    axis = draw.axis(x.ndim)
    return Sample((x,), {"k": draw.integer(1, x.shape[axis]), "axis": axis, "largest": draw.one_of((False, True))})


SORT_ERRORS = {
    name: [*unary_errors(name, getattr(ag, name)), *axis_errors(name, getattr(ag, name))]
    for name in ("sort", "argsort")
}
TOPK_ERRORS = [
    *unary_errors("topk", lambda x: ag.topk(x, 1)),
    *axis_errors("topk", lambda x, axis: ag.topk(x, 1, axis)),
    Error(lambda m: ag.topk(m(2, 3), 0), ValueError, ("topk", "k", "from 1 to 3", "axis 1", "0")),
    Error(lambda m: ag.topk(m(2, 3), 4), ValueError, ("topk", "from 1 to 3", "4")),
    Error(lambda m: ag.topk(m(2, 3), -1), ValueError, ("topk", "-1")),
    Error(lambda m: ag.topk(m(2, 3), 10**30), ValueError, ("topk", "from 1 to 3")),
    Error(lambda m: ag.topk(m(2, 3), 1.0), TypeError, ("topk", "k", "1.0")),
    Error(lambda m: ag.topk(m(2, 3), True), TypeError, ("topk", "True")),
]
SPECIALS = [
    *(Sample((SPECIAL,), {"descending": d}) for d in (False, True)),
    *(Sample((few(7, 40),), {"descending": d, "axis": a}) for d in (False, True) for a in (0, 1)),
    Sample((NEAR,)),
]
SPECIAL_TOP = [Sample(s.operands, {"k": 3, "largest": bool(s.options.get("descending"))}) for s in SPECIALS[2:]]

OPS: list[Op] = [
    Op(
        name="sort",
        call=lambda x, **options: ag.sort(x, **options)[0],
        numpy=_sort,
        torch=lambda torch, x, **options: _torch_sort(torch, x, **options).values,
        samples=[Sample((apart(*shape),), options) for shape, options in SORTED],
        generate=_sorted,
        smooth=True,
        keeps=(0, 1),
        edges=[Sample((TIES,), {"axis": axis, "descending": d}) for axis in (0, 1) for d in (False, True)],
        special=SPECIALS,
        deviations=[DENORMALS],
        errors=SORT_ERRORS["sort"],
    ),
    Op(
        name="sort: indices",
        call=lambda x, **options: ag.sort(x, **options)[1],
        numpy=_argsort,
        torch=lambda torch, x, **options: _torch_sort(torch, x, **options).indices,
        samples=[Sample((normal(*shape),), options) for shape, options in SORTED],
        generate=_sorted,
        gradient=False,
        errors=SORT_ERRORS["sort"][:1],
    ),
    Op(
        name="argsort",
        call=ag.argsort,
        numpy=_argsort,
        torch=lambda torch, x, **options: _torch_sort(torch, x, **options).indices,
        samples=[
            *[Sample((normal(*shape),), options) for shape, options in SORTED],
            *[Sample((TIES,), {"axis": axis, "descending": d}) for axis in (0, 1) for d in (False, True)],
        ],
        generate=_sorted,
        gradient=False,
        special=SPECIALS[2:],
        errors=SORT_ERRORS["argsort"],
    ),
    Op(
        name="topk",
        call=lambda x, k, **options: ag.topk(x, k, **options)[0],
        numpy=_topk,
        torch=lambda torch, x, k, axis=-1, largest=True: torch.topk(x, k, axis, largest).values,
        samples=[Sample((apart(*shape),), options) for shape, options in TOP],
        generate=_top,
        smooth=True,
        keeps=(0, 1),
        special=SPECIAL_TOP,
        errors=TOPK_ERRORS,
    ),
    Op(
        name="topk: indices",
        call=lambda x, k, **options: ag.topk(x, k, **options)[1],
        numpy=_argtopk,
        torch=lambda torch, x, k, axis=-1, largest=True: torch.topk(x, k, axis, largest).indices,
        samples=[Sample((apart(*shape),), options) for shape, options in TOP],
        generate=_top,
        gradient=False,
        special=SPECIAL_TOP,
        errors=TOPK_ERRORS[:1],
    ),
]  # fmt: skip

CALLS: Makers = {
    "sort": lambda c: (lambda *a: ag.sort(*a)[0], c.operand(), c.one_of(-1, -1, c.axis()), c.one_of(False, True)),
    "argsort": lambda c: (ag.argsort, c.operand(), c.one_of(-1, -1, c.axis()), c.one_of(False, True)),
    "topk": lambda c: (
        lambda *a: ag.topk(*a)[0],
        c.operand(), c.one_of(1, 1, c.integer(), 1.5, None), c.one_of(-1, -1, c.axis()), c.one_of(False, True),
    ),
}  # fmt: skip
