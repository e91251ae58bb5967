"""Attention."""

from __future__ import annotations

from typing import Any

import numpy as np

import ggmlpy_ag as ag

from .calls import Calls, Makers
from .table import DEVICES, Draw, Error, Op, Sample, arrays, normal, wrong_operands

NAME = "scaled_dot_product_attention"
INF = np.inf


def _full_mask(mask: Any, causal: bool, shape: tuple[int, ...]) -> np.ndarray:
    """What is added to the scores."""
    total = np.zeros(shape)
    if mask is not None:
        given = np.asarray(mask)
        total = total + (np.where(given != 0, 0.0, -INF) if given.dtype.kind in "biu" else given)
    if causal:
        total = total + np.where(np.tril(np.ones(shape[-2:], bool)), 0.0, -INF)
    return total


def _attention(q: Any, k: Any, v: Any, added: Any = None, *, mask: Any = None, causal: bool = False,
               scale: float | None = None) -> np.ndarray:  # fmt: skip
    k, v = (np.repeat(t, q.shape[-3] // t.shape[-3], -3) for t in (k, v))
    scores = np.einsum("...le,...se->...ls", q, k) * (q.shape[-1] ** -0.5 if scale is None else scale)
    scores = scores + _full_mask(mask if added is None else added, causal, scores.shape)
    top = np.maximum(scores.max(-1, keepdims=True), -1e300)
    weights = np.exp(scores - top)
    return np.einsum("...ls,...sv->...lv", weights / np.maximum(weights.sum(-1, keepdims=True), 1e-300), v)


def _torch_attention(torch: Any, q: Any, k: Any, v: Any, added: Any = None, *, mask: Any = None, causal: bool = False,
                     scale: float | None = None) -> Any:  # fmt: skip
    shape = (*q.shape[:-1], k.shape[-2])
    if added is not None:
        whole = added + torch.tensor(_full_mask(None, causal, shape)).to(q.dtype)
    elif mask is not None:
        whole = torch.tensor(_full_mask(mask, causal, shape)).to(q.dtype)
    else:
        whole = None
    return torch.nn.functional.scaled_dot_product_attention(
        q, k, v, whole, is_causal=causal and whole is None, scale=scale, enable_gqa=q.shape[-3] != k.shape[-3]
    )


def _call(q: Any, k: Any, v: Any, added: Any = None, *, mask: Any = None, **options: Any) -> ag.Tensor:
    return ag.scaled_dot_product_attention(q, k, v, mask if added is None else added, **options)


def _operands(*shapes: tuple[int, ...], **options: Any) -> Sample:
    return arrays(normal, *shapes, **options)


HIDING = [[0.0, -INF, 1.0], [-INF, -INF, -INF]]  # the second place sees nothing

SAMPLES = [
    _operands((1, 2, 2), (1, 3, 2), (1, 3, 1)),
    _operands((1, 2, 2), (1, 3, 2), (1, 3, 2), causal=True),
    _operands((1, 1, 1), (1, 3, 1), (1, 3, 2), (1, 3)),
    _operands((2, 2, 2), (1, 3, 2), (1, 3, 1), mask=HIDING),
    _operands((1, 2, 2), (1, 3, 2), (1, 3, 1), mask=[[True, False, True], [False, True, False]], causal=True),
    _operands((1, 2, 1, 3), (1, 1, 2, 3), (1, 1, 2, 2), scale=0.3),
    _operands((2, 2, 3, 2), (2, 2, 3, 2), (2, 2, 3, 2), (2, 1, 3), mask=None, causal=True),
    _operands((2, 4, 5, 8), (2, 2, 7, 8), (2, 2, 7, 3), causal=True),
    _operands((2, 6, 3, 5), (2, 2, 3, 5), (2, 2, 3, 5), (2, 1, 3, 3)),
    _operands((2, 6, 3, 5), (2, 1, 3, 5), (2, 1, 3, 5), mask=[[[[1, 0, 1]]], [[[0, 0, 0]]]]),
    _operands((2, 3, 31, 8), (2, 3, 33, 8), (2, 3, 33, 9), causal=True),
    _operands((3, 257, 5), (3, 31, 5), (3, 31, 5)),
]


def _draw(draw: Draw) -> Sample:
    lead = draw.one_of(((), (1,), (3,)))
    kv_heads = draw.integer(1, 3)
    heads = kv_heads * draw.integer(1, 3)
    length, places, e, ev = (draw.integer(1, 6) for _ in range(4))
    parts = [(*lead, heads, length, e), (*lead, kv_heads, places, e), (*lead, kv_heads, places, ev)]
    full = (*lead, heads, length, places)
    shape = tuple(draw.one_of((n, 1)) for n in full[draw.integer(0, len(full)) :])
    options: dict[str, Any] = {"causal": draw.one_of((False, True))}
    kind = draw.one_of(("none", "float", "keep", "hide"))
    if kind == "float":
        parts.append(shape)
    elif kind == "keep":
        options["mask"] = draw.indices(2, *shape).astype(bool)
    elif kind == "hide":
        options["mask"] = np.where(draw.indices(3, *shape) == 0, -INF, 0.0)
    return Sample(tuple(draw.floats(normal, *part) for part in parts), options)


def _shape_errors() -> list[Error]:
    def wrong(*shapes: tuple[int, ...]) -> Error:
        return Error(
            lambda m: ag.scaled_dot_product_attention(*(m(*s) for s in shapes)), ValueError, (NAME, *map(str, shapes))
        )

    def masked(mask: Any) -> Any:
        return lambda m: ag.scaled_dot_product_attention(m(1, 2, 3), m(1, 4, 3), m(1, 4, 3), mask(m))

    def scaled(scale: Any) -> Any:
        return lambda m: ag.scaled_dot_product_attention(m(1, 2, 3), m(1, 4, 3), m(1, 4, 3), scale=scale)

    def dropping(dropout: Any) -> Any:
        return lambda m: ag.scaled_dot_product_attention(m(1, 2, 3), m(1, 4, 3), m(1, 4, 3), dropout=dropout)

    return [
        wrong((2, 3), (4, 3), (4, 3)),
        wrong((1, 2, 3), (4, 3), (4, 3)),
        wrong((1, 2, 3), (1, 4, 2), (1, 4, 3)),
        wrong((1, 2, 3), (1, 4, 3), (1, 5, 3)),
        wrong((1, 2, 3), (2, 4, 3), (2, 4, 3)),
        wrong((3, 2, 3), (2, 4, 3), (2, 4, 3)),
        wrong((2, 2, 3), (2, 4, 3), (1, 4, 3)),
        wrong((2, 1, 2, 3), (1, 1, 4, 3), (1, 1, 4, 3)),
        wrong((2, 1, 2, 3), (1, 4, 3), (1, 4, 3)),
        Error(masked(lambda m: m(3)), ValueError, (NAME, "(3,)", "(1, 2, 4)", "broadcast")),
        Error(masked(lambda m: m(2, 2, 4)), ValueError, (NAME, "mask", "(2, 2, 4)")),
        Error(masked(lambda m: m(1, 1, 2, 4)), ValueError, (NAME, "mask", "(1, 1, 2, 4)")),
        Error(masked(lambda m: [[True], [True, False]]), ValueError, (NAME, "mask", "regular")),
        Error(masked(lambda m: "all"), TypeError, (NAME,)),
        Error(masked(lambda m: np.ones((2, 4), complex)), TypeError, (NAME, "complex128")),
        Error(masked(lambda m: np.ones((0, 4))), ValueError, (NAME, "(0, 4)")),
        Error(masked(lambda m: np.ones((1, 1, 1, 2, 4), bool)), ValueError, (NAME, "(1, 1, 1, 2, 4)")),
        Error(masked(lambda m: m.elsewhere(2, 4)), ValueError, (NAME, *DEVICES[:2], ".to("), devices=2),
        Error(masked(lambda m: m.elsewhere(2, 4).astype("int32")), ValueError, (NAME, *DEVICES[:2]), devices=2),
        Error(dropping("most"), TypeError, (NAME, "dropout", "str")),
        Error(dropping(1.5), ValueError, (NAME, "dropout", "1.5")),
        Error(scaled("big"), TypeError, (NAME, "scale", "str")),
        Error(scaled(INF), ValueError, (NAME, "scale", "inf")),
        Error(scaled(np.nan), ValueError, (NAME, "scale", "nan")),
    ]


OPS: list[Op] = [
    Op(
        name=NAME,
        call=_call,
        numpy=_attention,
        torch=_torch_attention,
        samples=SAMPLES,
        generate=_draw,
        smooth=True,
        keeps=(1, 0),
        atol=1e-6,  # of a mean of values around 1, which may be near 0 itself
        errors=[
            *wrong_operands(
                NAME, ag.scaled_dot_product_attention, lambda m: m(1, 2, 3), lambda m: m(1, 4, 3), lambda m: m(1, 4, 3)
            ),
            *_shape_errors(),
        ],
    ),
]


def _arguments(c: Calls) -> tuple[Any, ...]:
    lead = c.one_of((), (1,), (2,))
    kv_heads = c.one_of(1, 2)
    heads = kv_heads * c.one_of(1, 1, 2, 3)
    length, places, e, ev = (c.one_of(1, 2, 3) for _ in range(4))
    shapes = [(*lead, heads, length, e), (*lead, kv_heads, places, e), (*lead, kv_heads, places, ev)]
    if c.random.random() < 0.2:
        shapes[c.random.randrange(3)] = c.shape()
    full = (*lead, heads, length, places)
    part = tuple(c.one_of(n, n, 1) for n in full)[c.random.randint(0, len(full)) :]
    kept = c.normal.integers(0, 2, part)
    mask = c.one_of(
        None, None, c.window(part), c.floats(part), kept, kept.astype(bool), kept.tolist(),
        ag.tensor(kept.astype(np.int32)), c.operand(part), c.operand(),
    )  # fmt: skip
    return (
        ag.scaled_dot_product_attention, *(c.operand(s) if c.random.random() < 0.5 else c.window(s) for s in shapes),
        mask, c.one_of(False, True), c.one_of(None, None, 0.5, c.number()), c.one_of(0.0, 0.0, 0.5, 1.0, c.number()),
    )  # fmt: skip


CALLS: Makers = {NAME: _arguments}
