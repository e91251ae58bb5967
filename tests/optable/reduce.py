"""Sums and what is made of them, and broadcasting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import ggmlpy_ag as ag

from .calls import Makers
from .table import Draw, Error, Op, Sample, axes_errors, normal, unary_errors, wrong_operands


def _torch_sum(name: str) -> Callable[..., Any]:
    def reduced(torch: Any, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        if axis == ():  # PyTorch takes it for all axes, NumPy for none
            return x
        return getattr(torch, name)(x, dim=axis, keepdim=keepdims)

    return reduced


AXES: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((), {}),
    ((), {"axis": ()}),
    ((5,), {}),
    ((5,), {"axis": 0, "keepdims": True}),
    ((3, 7), {}),
    ((3, 7), {"axis": 0}),
    ((3, 7), {"axis": -1}),
    ((3, 7), {"axis": ()}),
    ((2, 3, 5), {"axis": 1}),
    ((2, 3, 5), {"axis": (0, 2)}),
    ((2, 3, 5), {"axis": [2, 1], "keepdims": True}),
    ((2, 3, 1, 5), {"axis": (-1, 1)}),
    ((2, 3, 1, 5), {"axis": (0, 1, 2, 3), "keepdims": True}),
    ((2, 3, 1, 5), {"axis": 2}),
    ((31, 33), {"axis": 0}),
    ((31, 33), {"axis": 1}),
    ((257,), {}),
    ((509, 3), {"axis": 0}),  # a prime length: no divisor to sum in parts of
    ((3, 512, 2), {"axis": 1}),
]


SOME = [*AXES[::2], AXES[7], AXES[9]]  # for what is made of sums


def reduced(make: Callable[..., np.ndarray]) -> Callable[[Draw], Sample]:
    """A random sample of a reduction."""

    def generate(draw: Draw) -> Sample:
        x = draw.floats(make, *draw.shape())
        return Sample((x,), {"axis": draw.axes(x.ndim), "keepdims": draw.one_of((False, True))})

    return generate


def as_tuple(axis: Any) -> Any:
    """What NumPy takes for several axes."""
    return tuple(axis) if isinstance(axis, list) else axis


def _broadcast(draw: Draw) -> Sample:
    shape, part = draw.broadcast()
    part = part[-len(shape) :] if shape else ()
    before = tuple(1 if draw.one_of((False, True)) else n for n in shape[len(shape) - len(part) :])
    return Sample((draw.floats(normal, *before),), {"shape": shape})


OPS: list[Op] = [
    Op(
        name="sum",
        call=ag.sum,
        numpy=lambda x, axis=None, keepdims=False: np.sum(x, as_tuple(axis), keepdims=keepdims),
        torch=_torch_sum("sum"),
        samples=[Sample((normal(*shape),), options) for shape, options in AXES],
        generate=reduced(normal),
        errors=[*unary_errors("sum", ag.sum), *axes_errors("sum", ag.sum)],
        sums=True,
    ),
    Op(
        name="mean",
        call=ag.mean,
        numpy=lambda x, axis=None, keepdims=False: np.mean(x, as_tuple(axis), keepdims=keepdims),
        torch=_torch_sum("mean"),
        samples=[Sample((normal(*shape),), options) for shape, options in AXES],
        generate=reduced(normal),
        errors=[*unary_errors("mean", ag.mean), *axes_errors("mean", ag.mean)],
        sums=True,
    ),
    Op(
        name="broadcast_to",
        call=ag.broadcast_to,
        numpy=np.broadcast_to,
        torch=lambda torch, x, shape: torch.broadcast_to(x, tuple(shape)),
        samples=[
            Sample((normal(*before),), {"shape": after})
            for before, after in [
                ((), ()),
                ((), (3,)),
                ((1,), (5,)),
                ((3,), (2, 3)),
                ((3, 1), [3, 7]),
                ((1, 3), (2, 5, 3)),
                ((2, 1, 3, 1), (2, 4, 3, 5)),
                ((), (1, 1, 1, 1)),
                ((1, 33), (31, 33)),
                ((257, 1), (257, 3)),
            ]
        ],
        generate=_broadcast,
        errors=[
            *wrong_operands("broadcast_to", lambda x: ag.broadcast_to(x, (2, 3)), lambda m: m(2, 3), ints=False),
            Error(lambda m: ag.broadcast_to(m(3), (4,)), ValueError, ("broadcast_to", "(3,)", "(4,)")),
            Error(lambda m: ag.broadcast_to(m(2, 3), (3,)), ValueError, ("broadcast_to", "(2, 3)", "(3,)")),
            Error(lambda m: ag.broadcast_to(m(1), (0,)), ValueError, ("broadcast_to", "(0,)")),
            Error(lambda m: ag.broadcast_to(m(1), (-1,)), ValueError, ("broadcast_to", "(-1,)")),
            Error(lambda m: ag.broadcast_to(m(1), (1, 1, 1, 1, 1)), ValueError, ("broadcast_to", "more than 4")),
            Error(lambda m: ag.broadcast_to(m(1), (2.0,)), TypeError, ("broadcast_to", "2.0")),
            Error(lambda m: ag.broadcast_to(m(1), 2), TypeError, ("broadcast_to", "2")),
        ],
    ),
]

CALLS: Makers = {
    "sum": lambda c: (ag.sum, c.operand(), c.one_of(None, -1, c.axis()), c.one_of(False, True)),
    "mean": lambda c: (ag.mean, c.operand(), c.one_of(None, -1, c.axis()), c.one_of(False, True)),
    "broadcast_to": lambda c: (ag.broadcast_to, c.operand(), c.extents()),
}
