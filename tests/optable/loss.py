"""Losses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import ggmlpy_ag as ag

from .activation import _log_softmax
from .calls import Calls, Makers
from .table import DEVICES, SHAPES, Error, Op, Sample, arrays, labels, normal, uniform, wrong_operands


def _cross_entropy(logits: np.ndarray, target: Any) -> float:
    target = np.asarray(target)
    log_p = _log_softmax(logits)
    if target.shape == logits.shape:
        terms = np.where(target == 0, 0.0, target * log_p)
    else:
        terms = np.take_along_axis(log_p, target.astype(np.int64)[..., None], -1)
    return float(-terms.sum() / (logits.size // logits.shape[-1]))


def _loss_samples() -> Iterator[Sample]:
    for n, classes in [(1, 1), (1, 5), (3, 1), (3, 7), (31, 33), (257, 3), (2, 257)]:
        yield Sample((normal(n, classes), labels(n, classes)))
        yield Sample((normal(n, classes), uniform(n, classes)))
    yield Sample((normal(5), np.asarray(np.int32(3))))
    yield Sample((normal(5), uniform(5)))
    yield Sample((normal(3, 5), [4, 0, 2]))


def _torch_cross_entropy(torch: Any, logits: Any, target: Any) -> Any:
    if not isinstance(target, torch.Tensor):
        target = torch.tensor(target)
    return torch.nn.functional.cross_entropy(logits, target)


OPS: list[Op] = [
    Op(
        name="mse_loss",
        call=ag.mse_loss,
        numpy=lambda a, b: np.mean((a - b) ** 2),
        torch=lambda torch, a, b: torch.nn.functional.mse_loss(a, b),
        samples=[arrays(normal, shape, shape) for shape in SHAPES],
        smooth=True,
        errors=[
            *wrong_operands("mse_loss", ag.mse_loss, lambda m: m(2, 3), lambda m: m(2, 3)),
            Error(lambda m: ag.mse_loss(m(2, 3), m(3)), ValueError, ("mse_loss", "(2, 3)", "(3,)")),
            Error(lambda m: ag.mse_loss(m(3), 1.0), ValueError, ("mse_loss", "(3,)", "()")),
            Error(lambda m: ag.mse_loss(m(2), m.elsewhere(2)), ValueError, ("mse_loss", *DEVICES[:2]), devices=2),
        ],
    ),
    Op(
        name="cross_entropy_loss",
        call=ag.cross_entropy_loss,
        numpy=_cross_entropy,
        torch=_torch_cross_entropy,
        samples=list(_loss_samples()),
        smooth=True,
        errors=[
            *wrong_operands("cross_entropy_loss", lambda x: ag.cross_entropy_loss(x, [0, 1]), lambda m: m(2, 3)),
            Error(lambda m: ag.cross_entropy_loss(m(2, 3), [0, 3]), IndexError, ("index 3 of sample 1", "[0, 3)")),
            Error(lambda m: ag.cross_entropy_loss(m(2, 3), [-1, 0]), IndexError, ("class index -1", "sample 0")),
            Error(lambda m: ag.cross_entropy_loss(m(2, 3), [0, 2**40]), IndexError, (str(2**40), "sample 1")),
            Error(lambda m: ag.cross_entropy_loss(m(3, 2), m.ints(3)), IndexError, ("class index 2", "sample 2")),
            Error(lambda m: ag.cross_entropy_loss(m(3), -1), IndexError, ("class index -1", "sample 0")),
            Error(lambda m: ag.cross_entropy_loss(m(2, 3), [0.0, 1.0]), TypeError, ("indices", "float64")),
            Error(lambda m: ag.cross_entropy_loss(m(2, 3), m(2)), TypeError, ("indices", "float32")),
            Error(lambda m: ag.cross_entropy_loss(m(2, 3), [True, False]), TypeError, ("indices", "bool")),
            Error(lambda m: ag.cross_entropy_loss(m(2, 3), ["a", "b"]), TypeError, ("indices",)),
            Error(lambda m: ag.cross_entropy_loss(m(2, 3), m.ints(2, 3)), TypeError, ("cross_entropy_loss", "int32")),
            Error(lambda m: ag.cross_entropy_loss(m(2, 3), [0, 1, 2]), ValueError, ("(2, 3)", "(2,)", "(3,)")),
            Error(lambda m: ag.cross_entropy_loss(m(2, 3), m(3, 2)), ValueError, ("(2, 3)", "(3, 2)")),
            Error(lambda m: ag.cross_entropy_loss(m(2, 3), [[0], [1, 2]]), ValueError, ("cross_entropy_loss",)),
            Error(lambda m: ag.cross_entropy_loss(m(2, 2, 3), [0, 1]), ValueError, ("classes", "(2, 2, 3)")),
            Error(lambda m: ag.cross_entropy_loss(m(), 0), ValueError, ("classes", "()")),
            Error(lambda m: ag.cross_entropy_loss(m(2, 3), m.elsewhere(2, 3)), ValueError, DEVICES[:2], devices=2),
        ],
    ),
]


def _classes(c: Calls) -> tuple[Any, Any]:
    n, classes = c.one_of(1, 2, 3), c.one_of(1, 2, 5)
    logits = c.operand(c.one_of((n, classes), (n, classes), (n, classes), (classes,), c.shape()))
    wanted = c.normal.integers(0, classes, n)
    if c.random.random() < 0.2:
        wanted[0] = c.one_of(-1, classes, 2**31 - 1, -(2**31), 2**40)
    target = c.one_of(
        wanted, wanted, wanted.tolist(), wanted.astype(np.uint8), int(wanted[0]), wanted.astype(float),
        c.operand((n, classes)), c.operand(),
    )  # fmt: skip
    if target is wanted and np.all(np.abs(wanted) < 2**31) and c.random.random() < 0.7:
        target = ag.tensor(wanted)
    return logits, target


CALLS: Makers = {
    "mse_loss": lambda c: (ag.mse_loss, *c.fitting()),
    "cross_entropy_loss": lambda c: (ag.cross_entropy_loss, *_classes(c)),
}
