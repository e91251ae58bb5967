"""Normalization over the last dimensions and over groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import ggmlpy_ag as ag

from .calls import Calls, Makers
from .table import DEVICES, Draw, Error, Op, Sample, arrays, normal, wrong_operands

# What a mean loses is absolute: an element near it is not known better than to the rounding of the others.
ATOL = 1e-6
GRAD_RTOL = 5e-5  # of what is left of a gradient without its mean and its part along x


def standardized(x: np.ndarray, axes: Any, eps: float) -> np.ndarray:
    deviation = x - x.mean(axes, keepdims=True)
    return deviation / np.sqrt((deviation**2).mean(axes, keepdims=True) + eps)


def _trailing(shape: Any) -> tuple[int, ...]:
    return tuple(range(-1 if isinstance(shape, int) else -len(shape), 0))


def _layer_norm(x: Any, weight: Any = 1.0, bias: Any = 0.0, *, normalized_shape: Any, eps: float = 1e-5) -> Any:
    return standardized(x, _trailing(normalized_shape), eps) * weight + bias


def _rms_norm(x: Any, weight: Any = 1.0, *, normalized_shape: Any, eps: float | None = None) -> Any:
    squares = (x**2).mean(_trailing(normalized_shape), keepdims=True)
    return x / np.sqrt(squares + (2.0**-23 if eps is None else eps)) * weight


def _group_norm(x: Any, weight: Any = None, bias: Any = None, *, num_groups: int, eps: float = 1e-5) -> Any:
    out = standardized(x.reshape(x.shape[0], num_groups, -1), 2, eps).reshape(x.shape)
    column = (-1, *(1,) * (x.ndim - 2))
    out = out if weight is None else out * weight.reshape(column)
    return out if bias is None else out + bias.reshape(column)


def _torch_norm(name: str) -> Callable[..., Any]:
    def call(torch: Any, x: Any, *parameters: Any, normalized_shape: Any, **options: Any) -> Any:
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        if name == "rms_norm":
            options = {"eps": 2.0**-23, **options}
        return getattr(torch.nn.functional, name)(x, shape, *parameters, **options)

    return call


def _layer_call(x: Any, weight: Any = None, bias: Any = None, *, normalized_shape: Any, **options: Any) -> ag.Tensor:
    return ag.layer_norm(x, normalized_shape, weight, bias, **options)


def _rms_call(x: Any, weight: Any = None, *, normalized_shape: Any, **options: Any) -> ag.Tensor:
    return ag.rms_norm(x, normalized_shape, weight, **options)


def _group_call(x: Any, weight: Any = None, bias: Any = None, *, num_groups: int, **options: Any) -> ag.Tensor:
    return ag.group_norm(x, num_groups, weight, bias, **options)


LAST: list[tuple[tuple[int, ...], Any]] = [
    ((5,), 5),
    ((3, 7), 7),
    ((3, 7), (3, 7)),
    ((2, 3, 5), 5),
    ((2, 1, 3, 5), [3, 5]),
    ((31, 33), (33,)),
    ((40, 513), 513),  # from 512 columns on, Vulkan has a kernel for it
    ((300, 3), 3),
]


def _of_last(parameters: int) -> list[Sample]:
    """With weight and bias, and without them."""
    samples = []
    for shape, last in LAST:
        extents = (last,) if isinstance(last, int) else tuple(last)
        samples.append(arrays(normal, shape, *[extents] * parameters, normalized_shape=last))
    return [
        *samples,
        arrays(normal, (2, 3, 4), normalized_shape=4),
        arrays(normal, (3, 5), normalized_shape=5, eps=0.5),
        arrays(lambda *s: 100.0 + normal(*s) if len(s) > 1 else normal(*s), (4, 9), (9,), normalized_shape=9),
    ]


def _draw_last(parameters: int) -> Callable[[Draw], Sample]:
    def generate(draw: Draw) -> Sample:
        shape = draw.shape(1, 4)
        last = shape[draw.integer(0, len(shape) - 1) :]
        given = [draw.floats(normal, *last) for _ in range(draw.integer(0, parameters))]
        return Sample((draw.floats(normal, *shape), *given), {"normalized_shape": last})

    return generate


def _draw_groups(draw: Draw) -> Sample:
    groups = draw.integer(1, 3)
    channels = groups * draw.integer(1, 3)
    given = [draw.floats(normal, channels) for _ in range(draw.integer(0, 2))]
    return Sample(
        (draw.floats(normal, draw.integer(1, 4), channels, *draw.shape(0, 2)), *given), {"num_groups": groups}
    )


def affine_errors(name: str, call: Callable[..., Any], parameters: int = 2) -> list[Error]:
    """`call(x, weight, bias)` for x of (2, 3), weight and bias of (3,)."""
    rest = [lambda m: m(3)] * parameters
    return [
        *wrong_operands(name, call, lambda m: m(2, 3), *rest),
        Error(lambda m: call(m(2, 3), m(2)), ValueError, (name, "weight", "(3,)", "(2,)")),
        Error(lambda m: call(m(2, 3), 1.0), ValueError, (name, "weight", "()")),
        Error(lambda m: call(m(2, 3), m(1, 3)), ValueError, (name, "weight", "(1, 3)")),
        Error(lambda m: call(m(2, 3), m.elsewhere(3)), ValueError, (name, *DEVICES[:2], ".to("), devices=2),
        *([Error(lambda m: call(m(2, 3), None, m(2)), ValueError, (name, "bias", "(2,)"))] if parameters > 1 else []),
    ]


def eps_errors(name: str, call: Callable[..., Any]) -> list[Error]:
    """`call(x, eps)`."""
    return [
        *[Error(lambda m, e=e: call(m(2, 3), e), ValueError, (name, "eps")) for e in (-1e-9, np.nan, np.inf)],
        *[Error(lambda m, e=e: call(m(2, 3), e), TypeError, (name, "eps")) for e in ("small", 1j)],
        Error(lambda m: call(m(2, 3), 10**400), ValueError, ("too large",)),
    ]


def _last_errors(name: str, call: Callable[..., Any]) -> list[Error]:
    return [
        Error(lambda m: call(m(2, 3), 2), ValueError, (name, "(2, 3)", "(2,)")),
        Error(lambda m: call(m(2, 3), (3, 2)), ValueError, (name, "(3, 2)")),
        Error(lambda m: call(m(2, 3), (1, 2, 3)), ValueError, (name, "(1, 2, 3)")),
        Error(lambda m: call(m(2, 3), ()), ValueError, (name, "()")),
        Error(lambda m: call(m(), 1), ValueError, (name, "()")),
        Error(lambda m: call(m(2, 3), 3.0), TypeError, (name, "3.0")),
        Error(lambda m: call(m(2, 3), "3"), TypeError, (name, "'3'")),
        Error(lambda m: call(m(2, 3), True), TypeError, (name, "True")),
    ]


OPS: list[Op] = [
    Op(
        name="layer_norm",
        call=_layer_call,
        numpy=_layer_norm,
        torch=_torch_norm("layer_norm"),
        samples=_of_last(2),
        generate=_draw_last(2),
        smooth=True,
        keeps=(1, 0),
        atol=ATOL,
        grad_rtol=GRAD_RTOL,
        errors=[
            *affine_errors("layer_norm", lambda x, *p: ag.layer_norm(x, 3, *p)),
            *_last_errors("layer_norm", ag.layer_norm),
            *eps_errors("layer_norm", lambda x, eps: ag.layer_norm(x, 3, eps=eps)),
        ],
    ),
    Op(
        name="rms_norm",
        call=_rms_call,
        numpy=_rms_norm,
        torch=_torch_norm("rms_norm"),
        samples=[*_of_last(1), arrays(normal, (1,), (1,), normalized_shape=1, eps=0.5)],
        generate=_draw_last(1),
        smooth=True,
        keeps=(1, 0),
        errors=[
            *affine_errors("rms_norm", lambda x, *p: ag.rms_norm(x, 3, *p), parameters=1),
            *_last_errors("rms_norm", ag.rms_norm),
            *eps_errors("rms_norm", lambda x, eps: ag.rms_norm(x, 3, eps=eps)),
        ],
    ),
    Op(
        name="group_norm",
        call=_group_call,
        numpy=_group_norm,
        torch=lambda torch, x, *p, num_groups, **o: torch.nn.functional.group_norm(x, num_groups, *p, **o),
        samples=[
            *[
                arrays(normal, shape, *[(shape[1],)] * 2, num_groups=groups)
                for shape, groups in [
                    ((3, 10), 2),
                    ((1, 5), 1),
                    ((2, 3, 5), 1),
                    ((2, 3, 5), 3),
                    ((2, 6, 3, 5), 3),
                    ((1, 4, 31, 33), 4),
                    ((33, 10, 7), 5),
                ]
            ],
            arrays(normal, (2, 4, 3), num_groups=2),
            arrays(normal, (2, 4, 3), (4,), num_groups=2, eps=0.5),
        ],
        generate=_draw_groups,
        smooth=True,
        keeps=(1, 0),
        atol=ATOL,
        grad_rtol=GRAD_RTOL,
        errors=[
            *affine_errors("group_norm", lambda x, *p: ag.group_norm(x, 1, *p)),
            *eps_errors("group_norm", lambda x, eps: ag.group_norm(x, 1, eps=eps)),
            Error(lambda m: ag.group_norm(m(3), 1), ValueError, ("group_norm", "(3,)")),
            Error(lambda m: ag.group_norm(m(2, 4), 3), ValueError, ("group_norm", "num_groups", "4", "3")),
            Error(lambda m: ag.group_norm(m(2, 4), 0), ValueError, ("group_norm", "num_groups", "0")),
            Error(lambda m: ag.group_norm(m(2, 4), -2), ValueError, ("group_norm", "num_groups", "-2")),
            Error(lambda m: ag.group_norm(m(2, 4), 2.0), TypeError, ("group_norm", "num_groups", "2.0")),
            Error(lambda m: ag.group_norm(m(2, 4), True), TypeError, ("group_norm", "num_groups", "True")),
        ],
    ),
]


def parameter(c: Calls, shape: tuple[int, ...]) -> Any:
    """A weight or a bias, which fits as often as not."""
    return c.one_of(None, c.window(shape), c.window(shape), c.floats(shape), c.operand(shape), c.operand())


def eps(c: Calls) -> Any:
    return c.one_of(1e-5, 1e-5, 0.0, 1, c.number())


def _last(c: Calls) -> tuple[Any, Any]:
    shape = c.shape()
    count = c.random.randint(0, len(shape))
    fits: Any = shape[len(shape) - count :]
    return c.operand(shape), c.one_of(fits, fits, fits, list(fits), shape[-1] if shape else 1, c.extents(), c.integer())


def _layer(c: Calls) -> tuple[Any, ...]:
    x, last = _last(c)
    shape = tuple(last) if isinstance(last, (tuple, list)) and all(n in (1, 2, 3, 5) for n in last) else (3,)
    return ag.layer_norm, x, last, parameter(c, shape), parameter(c, shape), eps(c)


def _rms(c: Calls) -> tuple[Any, ...]:
    _, x, last, weight, *_ = _layer(c)
    return ag.rms_norm, x, last, weight, c.one_of(None, None, eps(c))


def _group(c: Calls) -> tuple[Any, ...]:
    shape = c.one_of((2, 6), (1, 6, 3), (2, 6, 3, 5), c.shape())
    channels = shape[1:2]
    groups = c.one_of(1, 2, 3, 6, c.integer())
    return ag.group_norm, c.operand(shape), groups, parameter(c, channels), parameter(c, channels), eps(c)


CALLS: Makers = {"layer_norm": _layer, "rms_norm": _rms, "group_norm": _group}
