"""Rotary positions."""

from __future__ import annotations

from typing import Any

import numpy as np

import ggmlpy_ag as ag

from .calls import Calls, Makers
from .table import Draw, Error, Op, Sample, arrays, normal, unary_errors


def _angles(x: Any, positions: Any, base: float) -> np.ndarray:
    places = np.arange(x.shape[-2]) if positions is None else np.asarray(positions)
    half = x.shape[-1] // 2
    return places[:, None] / base ** (2.0 * np.arange(half) / x.shape[-1])


def _rope(x: Any, positions: Any = None, base: float = 10000.0, interleaved: bool = False) -> np.ndarray:
    """Complex numbers times exp(i * angle)."""
    half = x.shape[-1] // 2
    first, second = (x[..., ::2], x[..., 1::2]) if interleaved else (x[..., :half], x[..., half:])
    turned = (first + 1j * second) * np.exp(1j * _angles(x, positions, base))
    if interleaved:
        return np.stack([turned.real, turned.imag], -1).reshape(x.shape)
    return np.concatenate([turned.real, turned.imag], -1)


def _torch_rope(torch: Any, x: Any, positions: Any = None, base: float = 10000.0, interleaved: bool = False) -> Any:
    angles = torch.tensor(_angles(x, positions, base), dtype=x.dtype)
    if interleaved:
        pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2).contiguous())
        return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)
    cos, sin = (torch.cat([t, t], -1) for t in (angles.cos(), angles.sin()))
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin  # as in Hugging Face's Llama


def _draw(draw: Draw) -> Sample:
    shape = (*draw.shape(0, 2), draw.integer(1, 6), 2 * draw.integer(1, 4))
    places = [draw.integer(-3, 1000) for _ in range(shape[-2])]
    options = {"positions": draw.one_of((None, places)), "interleaved": draw.one_of((False, True))}
    return Sample((draw.floats(normal, *shape),), options)


OPS: list[Op] = [
    Op(
        name="rope",
        call=ag.rope,
        numpy=_rope,
        torch=_torch_rope,
        samples=[
            *[
                arrays(normal, s, interleaved=i)
                for s in [(1, 2), (3, 4), (2, 5, 6), (2, 3, 7, 10)]
                for i in (False, True)
            ],
            arrays(normal, (2, 3, 31, 34)),
            arrays(normal, (257, 2)),
            arrays(normal, (3, 4), positions=[5, -2, 100_000]),
            arrays(normal, (2, 3, 4), positions=[7, 7, 0], base=500.0, interleaved=True),
        ],
        generate=_draw,
        smooth=True,
        keeps=(1 / 6, 0),  # of the largest sample: sines and cosines for one of its six matrices
        atol=3e-7,  # of differences of values around 1
        errors=[
            *unary_errors("rope", ag.rope),
            Error(lambda m: ag.rope(m(4)), ValueError, ("rope", "(4,)")),
            Error(lambda m: ag.rope(m()), ValueError, ("rope", "()")),
            Error(lambda m: ag.rope(m(2, 3)), ValueError, ("rope", "(2, 3)", "even")),
            Error(lambda m: ag.rope(m(2, 4), [0]), ValueError, ("rope", "positions", "(2,)", "(1,)")),
            Error(lambda m: ag.rope(m(2, 4), [[0, 1]]), ValueError, ("rope", "positions", "(1, 2)")),
            Error(lambda m: ag.rope(m(2, 4), [[0], [1, 2]]), ValueError, ("rope", "positions", "regular")),
            Error(lambda m: ag.rope(m(2, 4), [0.0, 1.0]), TypeError, ("rope", "positions", "float64")),
            Error(lambda m: ag.rope(m(2, 4), [0, 10**30]), TypeError, ("rope", "positions", "object")),
            Error(lambda m: ag.rope(m(2, 4), m.ints(2)), TypeError, ("rope", "positions", "Tensor", "numpy")),
            Error(lambda m: ag.rope(m(2, 4), base=0.0), ValueError, ("rope", "base", "0.0")),
            Error(lambda m: ag.rope(m(2, 4), base=-1), ValueError, ("rope", "base", "-1")),
            Error(lambda m: ag.rope(m(2, 4), base=np.inf), ValueError, ("rope", "base", "inf")),
            Error(lambda m: ag.rope(m(2, 4), base="ten"), TypeError, ("rope", "base", "str")),
        ],
    ),
]


def _arguments(c: Calls) -> tuple[Any, ...]:
    shape = (*c.shape(2), c.one_of(1, 2, 3), c.one_of(2, 2, 4, 3))
    places = c.normal.integers(-9, 99, shape[-2])
    positions = c.one_of(None, None, places, places, places.tolist(), ag.tensor(places.astype(np.int32)), c.operand())
    return ag.rope, c.operand(c.one_of(shape, shape, shape, c.shape())), positions, c.one_of(1e4, 2, c.number()), True


CALLS: Makers = {"rope": _arguments}
