"""Random numbers, and dropout: from one seed, NumPy's generator is the reference."""

from __future__ import annotations

from typing import Any

import numpy as np

import ggmlpy_ag as ag

from .calls import Calls, Makers
from .table import DEVICES, Error, Op, Sample, each, normal, one, unary_errors, uniform

SEED = 5


def generator() -> np.random.Generator:
    return np.random.Generator(np.random.Philox(SEED))


def _seeded(function: Any) -> Any:
    def call(*operands: Any, **options: Any) -> ag.Tensor:
        ag.manual_seed(SEED)
        return function(*operands, **options)

    return call


def _mask(shape: tuple[int, ...], p: float) -> np.ndarray:
    return np.asarray(generator().random(shape, np.float32) < 1.0 - p)


def _dropout(x: np.ndarray, p: float = 0.5, training: bool = True) -> np.ndarray:
    if not training or p == 0.0:
        return x
    return x * _mask(x.shape, p) / (1.0 - p) if p < 1.0 else x * 0.0


def _torch_dropout(torch: Any, x: Any, p: float = 0.5, training: bool = True) -> Any:
    if not training or p == 0.0:
        return x * 1.0
    return x * torch.tensor(_mask(tuple(x.shape), p)) / (1.0 - p) if p < 1.0 else x * 0.0


def _bernoulli(p: Any, shape: tuple[int, ...] = ()) -> np.ndarray:
    return np.asarray(generator().random(np.shape(p) or shape, np.float32) < np.asarray(p), np.float64)


def shape_errors(name: str, call: Any) -> list[Error]:
    return [
        Error(lambda m: call((2, 0)), ValueError, (name, "positive", "(2, 0)")),
        Error(lambda m: call((-1,)), ValueError, (name, "positive", "(-1,)")),
        Error(lambda m: call((1, 1, 1, 1, 1)), ValueError, (name, "more than 4")),
        Error(lambda m: call((2.0,)), TypeError, (name, "2.0")),
        Error(lambda m: call((True,)), TypeError, (name, "True")),
    ]


def _drawn_errors(name: str, call: Any) -> list[Error]:
    return [
        *shape_errors(name, call),
        Error(lambda m: call("ab"), TypeError, (name, "ab")),
        Error(lambda m: call(2, dtype="int32"), TypeError, (name, "float", "int32")),
        Error(lambda m: call(2, dtype="float64"), TypeError, ("float32", "float64")),
        Error(lambda m: call(2, device="tpu"), ValueError, ("'tpu'", "cpu")),
    ]


EXTENTS = [(), (1,), (5,), (3, 7), (2, 1, 3, 5), (31, 33)]

OPS: list[Op] = [
    Op(
        name="rand",
        call=_seeded(lambda shape: ag.rand(*shape)),
        numpy=lambda shape: generator().random(shape, np.float32).astype(np.float64),
        torch=None,
        samples=[Sample((), {"shape": shape}) for shape in EXTENTS],
        gradient=False,
        errors=_drawn_errors("rand", ag.rand),
        rtol=0.0,
    ),
    Op(
        name="randn",
        call=_seeded(lambda shape: ag.randn(*shape)),
        numpy=lambda shape: np.asarray(generator().standard_normal(shape, np.float32)).astype(np.float64),
        torch=None,
        samples=[Sample((), {"shape": shape}) for shape in EXTENTS],
        gradient=False,
        errors=_drawn_errors("randn", ag.randn),
        rtol=0.0,
    ),
    Op(
        name="bernoulli",
        call=_seeded(ag.bernoulli),
        numpy=_bernoulli,
        torch=None,
        samples=[
            *each(lambda *shape: uniform(*shape, low=0.0, high=1.0)),
            *[Sample((p,), {"shape": (7, 5)}) for p in (0, 0.25, 1.0)],
        ],
        generate=one(lambda *shape: uniform(*shape, low=-0.5, high=1.5)),
        gradient=False,
        errors=[
            *unary_errors("bernoulli", ag.bernoulli),
            *shape_errors("bernoulli", lambda shape: ag.bernoulli(0.5, shape)),
            Error(lambda m: ag.bernoulli(1.5), ValueError, ("bernoulli", "[0, 1]", "1.5")),
            Error(lambda m: ag.bernoulli(-0.5), ValueError, ("bernoulli", "[0, 1]", "-0.5")),
            Error(lambda m: ag.bernoulli(float("nan")), ValueError, ("bernoulli", "nan")),
            Error(lambda m: ag.bernoulli(m(2), (2,)), ValueError, ("bernoulli", "(2,)", "shape")),
            Error(lambda m: ag.bernoulli(0.5, 3), TypeError, ("bernoulli", "3")),
        ],
    ),
    Op(
        name="dropout",
        call=_seeded(ag.dropout),
        numpy=_dropout,
        torch=_torch_dropout,
        samples=[
            *each(normal),
            *[Sample((normal(3, 5),), {"p": p}) for p in (0, 0.1, 0.9, 1.0)],
            Sample((normal(3, 5),), {"training": False}),
        ],
        smooth=True,
        keeps=(0.5, 0.0),
        generate=one(normal),
        errors=[
            *unary_errors("dropout", ag.dropout),
            Error(lambda m: ag.dropout(m(2), 1.5), ValueError, ("dropout", "[0, 1]", "1.5")),
            Error(lambda m: ag.dropout(m(2), -0.1), ValueError, ("dropout", "[0, 1]", "-0.1")),
            Error(lambda m: ag.dropout(m(2), float("nan")), ValueError, ("dropout", "nan")),
            Error(lambda m: ag.dropout(m(2), "half"), TypeError, ("dropout", "str")),
            Error(lambda m: ag.dropout(m(2), m()), TypeError, ("dropout", "Tensor")),
        ],
    ),
]


def _device(c: Calls) -> Any:
    return c.one_of(None, None, None, *DEVICES, "tpu", 3)


CALLS: Makers = {
    "rand": lambda c: (lambda shape, device: ag.rand(shape, device=device), c.extents(), _device(c)),
    "randn": lambda c: (lambda shape, dtype: ag.randn(shape, dtype=dtype), c.extents(), c.one_of("float16", "int32")),
    "bernoulli": lambda c: (ag.bernoulli, c.one_of(c.operand(), c.number()), c.one_of(None, None, c.extents())),
    "dropout": lambda c: (ag.dropout, c.operand(), c.number(), c.one_of(True, True, False)),
}
