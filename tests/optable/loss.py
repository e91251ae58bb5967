"""Losses of numbers and of vectors, and what the entries of all losses share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import ggmlpy_ag as ag

from .calls import Calls, Makers
from .table import (
    DEVICES,
    SHAPES,
    SPECIAL_PAIRS,
    Deviation,
    Draw,
    Error,
    Op,
    Sample,
    arrays,
    axis_errors,
    normal,
    uniform,
    wrong_operands,
)

REDUCTIONS = ("mean", "sum", "none")
SIGN_OF_ZERO = Deviation(
    "a loss of 0 may be -0",
    where=lambda expected, a, b: expected == 0,
    values=lambda reference, a, b: [0.0],
)


def reduced(terms: Any, reduction: str = "mean") -> Any:
    return terms if reduction == "none" else np.sum(terms) if reduction == "sum" else np.mean(terms)


def each_reduction(
    make: Callable[..., np.ndarray], second: Callable[..., np.ndarray] | None = None, **options: Any
) -> list[Sample]:
    """Two operands of one shape, for each shape, and for one of them with each reduction."""
    shapes = [(shape, {}) for shape in SHAPES] + [((2, 3), {"reduction": r}) for r in REDUCTIONS]
    return [
        Sample((make(*shape), (second or make)(*shape)), {**options, **reduction})
        for shape, reduction in shapes
    ]  # fmt: skip


def draw_pair(
    make: Callable[..., np.ndarray],
    second: Callable[..., np.ndarray] | None = None,
    reductions: Sequence[str] = REDUCTIONS,
    **options: Any,
) -> Callable[[Draw], Sample]:
    def generate(draw: Draw) -> Sample:
        shape = draw.shape()
        pair = draw.floats(make, *shape), draw.floats(second or make, *shape)
        return Sample(pair, {**options, "reduction": draw.one_of(reductions)})

    return generate


def reduction_errors(name: str, call: Callable[..., Any]) -> list[Error]:
    """`call(reduction)`."""
    return [
        Error(lambda m, r=r: call(r), ValueError, (name, "reduction", "mean", "none", repr(r)))
        for r in ("average", "", None, 1, ["mean"])
    ]


def pair_errors(name: str, call: Callable[..., Any], *reductions: str) -> list[Error]:
    return [
        *wrong_operands(name, call, lambda m: m(2, 3), lambda m: m(2, 3)),
        Error(lambda m: call(m(2, 3), m(3)), ValueError, (name, "(2, 3)", "(3,)")),
        Error(lambda m: call(m(3), 1.0), ValueError, (name, "(3,)", "()")),
        Error(lambda m: call(m(2), m.elsewhere(2)), ValueError, (name, *DEVICES[:2]), devices=2),
        *reduction_errors(name, lambda r: call([1.0], [1.0], reduction=r)),
    ]


def _huber(a: Any, b: Any, delta: float = 1.0, reduction: str = "mean") -> Any:
    size = np.abs(a - b)
    return reduced(np.where(size <= delta, 0.5 * size**2, delta * (size - 0.5 * delta)), reduction)


def _cosine(a: Any, b: Any, axis: int = 1, eps: float = 1e-8) -> Any:
    a, b = np.broadcast_arrays(a, b)
    lengths = [np.maximum(np.sqrt(np.sum(x**2, axis)), eps) for x in (a, b)]
    return np.sum(a * b, axis) / (lengths[0] * lengths[1])


def _torch(name: str) -> Callable[..., Any]:
    return lambda torch, *operands, **options: getattr(torch.nn.functional, name)(*operands, **options)


KINKS = (np.array([1.0, -1.0, 0.5, -0.5, 2.0, 0.0], np.float32), np.zeros(6, np.float32))
APART = np.array([0.1, -0.4, 0.7, 1.6, -2.5, 3.0], np.float32)  # differences that are not at a kink of huber_loss


def _draw_cosine(draw: Draw) -> Sample:
    a, b = draw.broadcast()
    shape = np.broadcast_shapes(a, b)
    if not shape:
        a = shape = (3,)
    return Sample((draw.floats(normal, *a), draw.floats(normal, *b)), {"axis": draw.axis(len(shape))})


OPS: list[Op] = [
    Op(
        name="mse_loss",
        call=ag.mse_loss,
        numpy=lambda a, b, reduction="mean": reduced((a - b) ** 2, reduction),
        torch=_torch("mse_loss"),
        samples=each_reduction(normal),
        generate=draw_pair(normal),
        smooth=True,
        keeps=(1, 0),
        special=[Sample(SPECIAL_PAIRS, {"reduction": "none"})],
        errors=pair_errors("mse_loss", ag.mse_loss),
    ),
    Op(
        name="l1_loss",
        call=ag.l1_loss,
        numpy=lambda a, b, reduction="mean": reduced(np.abs(a - b), reduction),
        torch=_torch("l1_loss"),
        samples=each_reduction(normal, lambda *shape: uniform(*shape, low=4.0, high=9.0)),  # apart from one another
        generate=draw_pair(normal),
        keeps=(1, 0),
        edges=[Sample(KINKS), Sample(KINKS, {"reduction": "none"})],
        special=[Sample(SPECIAL_PAIRS, {"reduction": "none"})],
        errors=pair_errors("l1_loss", ag.l1_loss),
    ),
    Op(
        name="huber_loss",
        call=ag.huber_loss,
        numpy=_huber,
        torch=_torch("huber_loss"),
        samples=[
            *[arrays(normal, shape, shape, delta=20.0) for shape in SHAPES],
            *[arrays(normal, shape, shape, delta=1e-3) for shape in [(3, 7), (31, 33)]],
            *[
                Sample((APART, np.zeros(6, np.float32)), {"delta": d, "reduction": r})
                for r in REDUCTIONS
                for d in (0.5, 2)
            ],
        ],
        generate=draw_pair(normal, delta=0.8),
        keeps=(1, 0),
        edges=[Sample(KINKS), Sample(KINKS, {"delta": 0.5, "reduction": "none"})],
        special=[Sample(SPECIAL_PAIRS, {"reduction": "none"})],
        deviations=[SIGN_OF_ZERO],
        errors=[
            *pair_errors("huber_loss", ag.huber_loss),
            *[
                Error(lambda m, d=d: ag.huber_loss(m(2), m(2), d), ValueError, ("huber_loss", "delta", str(d)))
                for d in (0.0, -1, np.inf, np.nan)
            ],
            Error(lambda m: ag.huber_loss(m(2), m(2), "one"), TypeError, ("huber_loss", "delta", "str")),
        ],
    ),
    Op(
        name="cosine_similarity",
        call=ag.cosine_similarity,
        numpy=_cosine,
        torch=lambda torch, a, b, axis=1, eps=1e-8: torch.nn.functional.cosine_similarity(a, b, axis, eps),
        samples=[
            arrays(normal, a, b, **options)
            for a, b, options in [
                ((5,), (5,), {"axis": 0}),
                ((2, 3), (2, 3), {}),
                ((3, 7), (3, 7), {"axis": 0}),
                ((3, 7), (7,), {"axis": -1}),
                ((2, 3, 5), (2, 1, 5), {"axis": 2}),
                ((4, 2), (1, 2), {"eps": 0.0}),
                ((2, 3, 4, 5), (3, 1, 5), {"axis": 1}),
                ((1, 33), (31, 33), {}),
                ((257, 3), (257, 3), {}),
            ]
        ],
        generate=_draw_cosine,
        keeps=(1, 0),
        atol=3e-7,  # of a sum of products whose magnitudes sum to at most 1
        edges=[
            arrays(normal, (2, 3), (2, 3), eps=10.0),
            Sample((np.zeros((2, 3), np.float32), np.ones((2, 3), np.float32))),
            Sample((np.full((1, 3), 1e-10, np.float32), np.array([[1.0, 2.0, -1.0]], np.float32))),
        ],
        errors=[
            *wrong_operands("cosine_similarity", ag.cosine_similarity, lambda m: m(2, 3), lambda m: m(2, 3)),
            *axis_errors("cosine_similarity", lambda x, axis: ag.cosine_similarity(x, x, axis)),
            Error(lambda m: ag.cosine_similarity(m(2, 3), m(4)), ValueError, ("cosine_similarity", "(2, 3)", "(4,)")),
            Error(lambda m: ag.cosine_similarity(m(2), m.elsewhere(2)), ValueError, DEVICES[:2], devices=2),
            *[
                Error(lambda m, e=e: ag.cosine_similarity(m(2, 3), m(2, 3), eps=e), ValueError, ("eps", str(e)))
                for e in (-1e-8, np.inf, np.nan)
            ],
            Error(lambda m: ag.cosine_similarity(m(2, 3), m(2, 3), eps="x"), TypeError, ("eps", "str")),
        ],
    ),
]


def reduction(c: Calls) -> Any:
    return c.one_of("mean", "sum", "none", "none", "batchmean", "mean", None, 1)


def fitting(c: Calls) -> tuple[Any, Any]:
    """Two operands of one shape, as often as not."""
    shape = c.shape()
    return c.one_of((c.window(shape), c.window(shape)), (c.operand(shape), c.operand(shape)), c.fitting())


CALLS: Makers = {
    "mse_loss": lambda c: (ag.mse_loss, *fitting(c), reduction(c)),
    "l1_loss": lambda c: (ag.l1_loss, *fitting(c), reduction(c)),
    "huber_loss": lambda c: (ag.huber_loss, *fitting(c), c.one_of(1.0, 0.5, c.number()), reduction(c)),
    "cosine_similarity": lambda c: (ag.cosine_similarity, *c.fitting(), c.axis(), c.one_of(1e-8, 0.0, c.number())),
}
