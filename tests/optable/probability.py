"""Losses of probabilities."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import ggmlpy_ag as ag

from .calls import Calls, Makers
from .loss import REDUCTIONS, SIGN_OF_ZERO, draw_pair, each_reduction, fitting, pair_errors, reduced, reduction
from .table import DENORMALS, DEVICES, Error, Op, Sample, normal, uniform


def _part(*shape: int) -> np.ndarray:
    """Strictly between 0 and 1."""
    return uniform(*shape, low=0.05, high=0.95)


def _logs(*shape: int) -> np.ndarray:
    return uniform(*shape, low=-3.0, high=-0.05)


def _bce(p: Any, t: Any, weight: Any = 1.0, reduction: str = "mean") -> Any:
    t = np.asarray(t)
    true, false = np.maximum(np.log(p), -100.0), np.maximum(np.log1p(-p), -100.0)
    return reduced(-(t * true + (1 - t) * false) * np.asarray(weight, np.float64), reduction)


def _bce_with_logits(x: Any, t: Any, weight: Any = 1.0, pos_weight: Any = 1.0, reduction: str = "mean") -> Any:
    true, false = np.logaddexp(0.0, -x), np.logaddexp(0.0, x)  # of the negated logarithms
    factors = np.asarray(pos_weight, np.float64) * t
    return reduced((factors * true + (1 - t) * false) * np.asarray(weight, np.float64), reduction)


def _kl_div(x: Any, t: Any, reduction: str = "mean", log_target: bool = False) -> Any:
    t = np.asarray(t)
    logs = t if log_target else np.log(np.where(t == 0, 1.0, t))
    q = np.exp(t) if log_target else t
    terms = np.where(q == 0, 0.0, q * logs) - q * x
    if reduction == "batchmean":
        return np.sum(terms) / (x.shape[0] if x.ndim else 1)
    return reduced(terms, reduction)


def _torch(name: str) -> Callable[..., Any]:
    def call(torch: Any, x: Any, target: Any, **options: Any) -> Any:
        for factor in ("weight", "pos_weight"):
            if factor in options:
                options[factor] = torch.tensor(options[factor], dtype=x.dtype)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of kl_div: what "mean" is
            return getattr(torch.nn.functional, name)(x, torch.as_tensor(target, dtype=x.dtype), **options)

    return call


def weight_errors(name: str, call: Callable[..., Any], argument: str) -> list[Error]:
    """`call(a, b, **{argument: factor})` for operands of (2, 3)."""
    return [
        Error(lambda m: call(m(2, 3), m(2, 3), **{argument: m(3)}), ValueError, (name, argument, "gradient", "detach")),
        Error(lambda m: call(m(2, 3), m(2, 3), **{argument: np.ones(2)}), ValueError, (name, "(2,)", "(2, 3)")),
        Error(
            lambda m: call(m(3), m(3), **{argument: np.ones((2, 3))}), ValueError, (name, argument, "(2, 3)", "(3,)")
        ),
        Error(lambda m: call(m(3), m(3), **{argument: "one"}), TypeError, (name,)),
        Error(lambda m: call(m(3), m(3), **{argument: m.ints(3)}), TypeError, (name, "int32")),
        Error(lambda m: call(m(3), m(3), **{argument: m.elsewhere(3)}), ValueError, DEVICES[:2], devices=2),
    ]


ENDS = (np.array([0.0, 1.0, 0.0, 1.0, 1e-30, 0.5], np.float32), [0.0, 1.0, 1.0, 0.0, 1.0, 0.25])
NEAR = np.array([0.0, 1e-30, 1e-9, 3e-8, 1e-4, 0.3, 0.9999999, 1.0], np.float32)
FAR = np.array([0.0, -0.0, 1e-9, -1e-4, 3.0, -20.0, 88.0, -89.0, 1e4, -1e30, 3e38], np.float32)

OPS: list[Op] = [
    Op(
        name="bce_loss",
        call=ag.bce_loss,
        numpy=_bce,
        torch=_torch("binary_cross_entropy"),
        samples=[
            *each_reduction(_part),
            *[Sample((_part(2, 3), _part(2, 3)), {"weight": [0.5, 2.0, 0.0], "reduction": r}) for r in REDUCTIONS],
            Sample((_part(3), _part(3)), {"weight": 0.25}),
        ],
        generate=draw_pair(_part),
        smooth=True,
        keeps=(1, 0),
        atol=5e-7,  # Vulkan promises log between 0.5 and 2 to 2**-21 only
        edges=[Sample(ENDS), Sample(ENDS, {"reduction": "none"})],
        special=[Sample((NEAR, np.full(NEAR.size, t, np.float32)), {"reduction": "none"}) for t in (0.0, 1.0, 0.3)],
        deviations=[DENORMALS, SIGN_OF_ZERO],
        errors=[*pair_errors("bce_loss", ag.bce_loss), *weight_errors("bce_loss", ag.bce_loss, "weight")],
    ),
    Op(
        name="bce_with_logits_loss",
        call=ag.bce_with_logits_loss,
        numpy=_bce_with_logits,
        torch=_torch("binary_cross_entropy_with_logits"),
        samples=[
            *each_reduction(normal, _part),
            *[
                Sample((normal(2, 3), _part(2, 3)), {**factors, "reduction": r})
                for factors in ({"weight": [0.5, 2.0, 0.0]}, {"pos_weight": [[2.0], [0.5]]})
                for r in REDUCTIONS
            ],
            Sample((normal(3), _part(3)), {"weight": [1.0, 2.0, 3.0], "pos_weight": 3.0}),
        ],
        generate=draw_pair(normal, _part),
        smooth=True,
        keeps=(1, 0),
        special=[Sample((FAR, np.full(FAR.size, t, np.float32)), {"reduction": "none"}) for t in (0.0, 1.0)],
        deviations=[DENORMALS],
        errors=[
            *pair_errors("bce_with_logits_loss", ag.bce_with_logits_loss),
            *weight_errors("bce_with_logits_loss", ag.bce_with_logits_loss, "weight"),
            *weight_errors("bce_with_logits_loss", ag.bce_with_logits_loss, "pos_weight"),
        ],
    ),
    Op(
        name="kl_div_loss",
        call=ag.kl_div_loss,
        numpy=_kl_div,
        torch=_torch("kl_div"),
        samples=[
            *each_reduction(_logs, _part),
            *[Sample((_logs(3, 7), _logs(3, 7)), {"log_target": True, "reduction": r}) for r in REDUCTIONS],
            *[Sample((_logs(*s), _part(*s)), {"reduction": "batchmean"}) for s in [(), (3,), (2, 3, 5)]],
            Sample((_logs(2, 2), _logs(2, 2)), {"reduction": "batchmean", "log_target": True}),
            Sample((_logs(2, 3), [[0.0, 1.0, 0.5], [0.25, 0.0, 0.0]]), {"reduction": "none"}),
        ],
        generate=draw_pair(_logs, _part, (*REDUCTIONS, "batchmean")),
        smooth=True,
        keeps=(1, 0),
        atol=3e-7,  # of differences of logarithms around 1
        edges=[Sample((_logs(3), [0.0, 1.0, 0.5]))],
        errors=pair_errors("kl_div_loss", ag.kl_div_loss),
    ),
]


def _factor(c: Calls, pair: tuple[Any, Any]) -> Any:
    fits = ag.tensor(np.abs(c.floats(pair[0].shape))) if isinstance(pair[0], ag.Tensor) else 1.0
    return c.one_of(None, None, 2.0, fits, [1.0, 2.0, 3.0], c.operand())


def _bce_calls(c: Calls) -> tuple[Any, ...]:
    pair = fitting(c)
    return ag.bce_loss, *pair, _factor(c, pair), reduction(c)


def _logit_calls(c: Calls) -> tuple[Any, ...]:
    pair = fitting(c)
    return ag.bce_with_logits_loss, *pair, _factor(c, pair), _factor(c, pair), reduction(c)


CALLS: Makers = {
    "bce_loss": _bce_calls,
    "bce_with_logits_loss": _logit_calls,
    "kl_div_loss": lambda c: (ag.kl_div_loss, *fitting(c), reduction(c), c.one_of(False, True)),
}
