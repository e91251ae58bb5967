"""Batch normalization."""

from __future__ import annotations

from typing import Any

import numpy as np

import ggmlpy_ag as ag

from .calls import Calls, Makers
from .normalization import ATOL, GRAD_RTOL, affine_errors, eps, eps_errors, parameter, standardized
from .table import DEVICES, Draw, Error, Op, Sample, arrays, normal


def _column(values: Any, x: Any) -> Any:
    return np.asarray(values, np.float64).reshape(-1, *(1,) * (x.ndim - 2))


def _batch_norm(x: Any, weight: Any = 1.0, bias: Any = 0.0, *, running: Any = None, eps: float = 1e-5) -> Any:
    """`running`: a mean and a variance to normalize by; without them it is training."""
    if running is None:
        out = standardized(x, (0, *range(2, x.ndim)), eps)
    else:
        middle, variance = (_column(v, x) for v in running)
        out = (x - middle) / np.sqrt(variance + eps)
    return out * _column(weight, x) + _column(bias, x)


def _torch_batch_norm(torch: Any, x: Any, *parameters: Any, running: Any = None, **options: Any) -> Any:
    if running is None:
        return torch.nn.functional.batch_norm(x, None, None, *parameters, training=True, **options)
    middle, variance = (torch.tensor(v, dtype=x.dtype) for v in running)
    return torch.nn.functional.batch_norm(x, middle, variance, *parameters, **options)


def _call(x: Any, *parameters: Any, running: Any = None, **options: Any) -> ag.Tensor:
    if running is None:
        return ag.batch_norm(x, None, None, *parameters, training=True, **options)
    return ag.batch_norm(x, *running, *parameters, **options)


THREE = ([1.0, -2.0, 0.5], [1.0, 4.0, 0.25])

SAMPLES = [
    *[
        arrays(normal, shape, *[(shape[1],)] * 2)
        for shape in [(5, 3), (7, 1), (2, 3, 5), (1, 2, 7), (2, 3, 4, 5), (31, 33), (257, 3), (6, 5, 31, 7)]
    ],
    arrays(normal, (4, 3)),
    arrays(normal, (4, 3), (3,), eps=0.5),
    arrays(normal, (1, 3), (3,), (3,), running=THREE),
    arrays(normal, (2, 3, 4, 5), (3,), (3,), running=THREE, eps=0.1),
    arrays(normal, (2, 3, 2), running=THREE),
]


def _draw(draw: Draw) -> Sample:
    channels = draw.integer(1, 5)
    given = [draw.floats(normal, channels) for _ in range(draw.integer(0, 2))]
    x = draw.floats(normal, draw.integer(2, 5), channels, *draw.shape(0, 2))
    running = (draw.floats(normal, channels).tolist(), [1.0] * channels)
    return Sample((x, *given), {"running": draw.one_of((None, None, running))})


def _training(x: Any, weight: Any = None, bias: Any = None, **options: Any) -> ag.Tensor:
    return ag.batch_norm(x, None, None, weight, bias, training=True, **options)


def _running_errors() -> list[Error]:
    def train(m: Any, *running: Any, **options: Any) -> Any:
        return ag.batch_norm(m(2, 3), *running, training=True, **options)

    ones = np.ones(3)
    return [
        Error(lambda m: ag.batch_norm(m(2, 3)), ValueError, ("batch_norm", "running_mean", "training")),
        Error(lambda m: ag.batch_norm(m(2, 3), ones), ValueError, ("batch_norm", "both")),
        Error(lambda m: ag.batch_norm(m(2, 3), None, ones), ValueError, ("batch_norm", "both")),
        Error(lambda m: ag.batch_norm(m(2, 3), np.ones(2), ones), ValueError, ("running_mean", "(3,)", "(2,)")),
        Error(lambda m: ag.batch_norm(m(2, 3), ones, 1.0), ValueError, ("running_var", "(3,)", "()")),
        Error(lambda m: ag.batch_norm(m(2, 3), m(3), ones), ValueError, ("running_mean", "gradient", "detach")),
        Error(lambda m: ag.batch_norm(m(2, 3), ones, m(3)), ValueError, ("running_var", "gradient")),
        Error(lambda m: ag.batch_norm(m(2, 3), ones, m.ints(3)), TypeError, ("batch_norm", "int32")),
        Error(lambda m: ag.batch_norm(m(2, 3), ones, "one"), TypeError, ("batch_norm",)),
        Error(
            lambda m: ag.batch_norm(m(2, 3), m.elsewhere(3), ones), ValueError, ("batch_norm", *DEVICES[:2]), devices=2
        ),
        Error(lambda m: train(m, ones, ones), TypeError, ("running_mean", "Tensor", "ndarray")),
        Error(lambda m: train(m, ag.tensor(ones), [1.0] * 3), TypeError, ("running_var", "Tensor", "list")),
        Error(lambda m: train(m, m(3), ag.tensor(ones)), ValueError, ("running_mean", "gradient")),
        Error(lambda m: train(m, ag.tensor(ones), ag.tensor([1.0])), ValueError, ("running_var", "(3,)", "(1,)")),
        Error(lambda m: train(m, momentum="half"), TypeError, ("batch_norm", "momentum", "str")),
        Error(lambda m: train(m, momentum=None), TypeError, ("batch_norm", "momentum")),
        Error(lambda m: train(m, momentum=np.nan), ValueError, ("batch_norm", "momentum", "nan")),
        Error(lambda m: _training(m(1, 3)), ValueError, ("batch_norm", "more than one value", "(1, 3)")),
        Error(lambda m: _training(m(3)), ValueError, ("batch_norm", "(3,)")),
    ]


OPS: list[Op] = [
    Op(
        name="batch_norm",
        call=_call,
        numpy=_batch_norm,
        torch=_torch_batch_norm,
        samples=SAMPLES,
        generate=_draw,
        smooth=True,
        keeps=(1, 0),
        atol=ATOL,
        grad_rtol=GRAD_RTOL,
        errors=[
            *affine_errors("batch_norm", _training),
            *eps_errors("batch_norm", lambda x, eps: _training(x, eps=eps)),
            *_running_errors(),
        ],
    ),
]


def _batch(c: Calls) -> tuple[Any, ...]:
    shape = c.one_of((2, 3), (3, 3, 1), (2, 3, 1, 5), c.shape())
    channels = shape[1:2]

    def running() -> Any:
        good = ag.tensor(np.abs(c.floats(channels)))
        return c.one_of(None, good, good, good, c.floats(channels), c.operand(channels), c.operand())

    return (
        ag.batch_norm, c.operand(shape), running(), running(), parameter(c, channels), parameter(c, channels),
        c.one_of(False, True), c.one_of(0.1, 0.5, c.number()), eps(c),
    )  # fmt: skip


CALLS: Makers = {"batch_norm": _batch}
