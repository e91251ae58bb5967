"""Attention."""

from __future__ import annotations

import math
from dataclasses import dataclass
from math import prod

import numpy as np

from ..backend import primitives as prim
from ..backend.array import FLOAT, INT, Array, Shape
from ..tape import record
from ..tensor import Tensor, TensorLike
from . import base
from .activation import softmax_rows
from .base import binary, cast, clamped, counting, expanded, floats, number, reshaped, result, scaled, unary, wide
from .linalg import _matmul, matmul
from .order import LARGEST
from .random import check_rate, dropping
from .reduce import _sum, sum, sum_to
from .shape import astype

NAME = "scaled_dot_product_attention"


def scaled_dot_product_attention(
    q: TensorLike,
    k: TensorLike,
    v: TensorLike,
    mask: TensorLike | None = None,
    causal: bool = False,
    scale: float | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """softmax(q @ k.mT * scale + mask) @ v for each head (Vaswani et al. 2017), as PyTorch has it.

    The tape keeps q, k, v and the mask, which grow with the sequence and not with its square. The probabilities, l * s
    of them for each head, exist only while they are used; the backward pass computes them again, which makes its four
    products five. With dropout the tape keeps one float16 for each of them.

    With fewer heads in k and v than in q, each serves as many neighbouring heads of q (Ainslie et al. 2023).

    Args:
        q: (heads, l, e) or (n, heads, l, e); float32, float16 or bfloat16.
        k: (..., kv_heads, s, e); kv_heads divides heads.
        v: (..., kv_heads, s, ev).
        mask: anything that broadcasts to (..., heads, l, s). Floats are added to the scores: 0 keeps and -inf hides;
            they may have a gradient. Integers (an int32 tensor, or from the host) and bools keep where they are not 0;
            so the result of a comparison needs astype("int32").
        causal: hide from place i of l the places beyond i of s. Both are counted from the first, as in PyTorch, also
            where l and s differ. With a mask, what either hides is hidden.
        scale: None for 1 / sqrt(e).
        dropout: the probability in [0, 1] with which `ag.dropout` drops each of the probabilities.

    Returns:
        (..., heads, l, ev). Where a mask hides everything it is 0 and gradients are 0, as in PyTorch.

    Raises:
        ValueError: shapes do not fit, operands are on different devices, scale is not finite, dropout outside [0, 1].
        TypeError: a wrong type.

    >>> q, k, v = np.ones((1, 2, 4)), np.ones((1, 3, 4)), [[[1.0], [3.0], [5.0]]]
    >>> ag.scaled_dot_product_attention(q, k, v, causal=True).tolist()
    [[[1.0], [2.0]]]
    >>> ag.scaled_dot_product_attention(q, k, v, mask=[[False, False, True], [False, False, False]]).tolist()
    [[[5.0], [0.0]]]
    """
    q, k, v = floats(NAME, q, k, v)
    plan = _plan(q, k, v, causal, scale)
    rate = check_rate(NAME, "dropout", dropout)
    added = None if mask is None else _additive(mask, q, plan)
    weights = Tensor(_weights_array(q, k, added, plan))
    drop = dropping(rate, weights) if rate else None
    used = weights if drop is None else drop(weights)
    array = _matmul(reshaped(used._array, plan.grouped(used.shape[-1])), wide(v))
    array = reshaped(array, (*q.shape[:-1], v.shape[-1]))
    if added is not None:
        array = binary(NAME, prim.MUL, array, _seeing(added, plan))
    to_weights = q.requires_grad or k.requires_grad or (added is not None and added.requires_grad)
    values = v if to_weights else None
    to_values = v.requires_grad
    operands = (q, k, v) if added is None else (q, k, v, added)
    count = len(operands)

    def grad(g: Tensor) -> tuple[Tensor | None, ...]:
        p = _weights(q, k, added, plan)
        g = astype(g, FLOAT)
        if added is not None:
            g = g * Tensor(_seeing(added, plan))
        g = g.reshape(plan.grouped(g.shape[-1]))
        used = p if drop is None else drop(p)
        to_v = matmul(used.reshape(plan.grouped(p.shape[-1])).mT, g) if to_values else None
        if values is None:
            return (None, None, to_v, None)[:count]
        to_p = matmul(g, astype(values, FLOAT).mT).reshape(p.shape)
        slope = _softmax_slope(p, to_p if drop is None else drop(to_p))
        to_q, to_k, *to_mask = _to_factors(slope, q, k, added, plan)
        return to_q, to_k, to_v, *to_mask

    work = weights.size * (q.shape[-1] + v.shape[-1])
    return record(NAME, result(array, q, k, v), operands, grad, multiply_adds=work)


def _weights(q: Tensor, k: Tensor, added: Tensor | None, plan: _Plan) -> Tensor:
    """The probabilities of all places for each place, (..., heads, l, s): what a rule recomputes, itself recorded."""
    out = Tensor(_weights_array(q, k, added, plan))
    operands = (q, k) if added is None else (q, k, added)

    def grad(g: Tensor) -> tuple[Tensor | None, ...]:
        return _to_factors(_softmax_slope(out, g), q, k, added, plan)

    return record(NAME, out, operands, grad, multiply_adds=out.size * q.shape[-1])


def _softmax_slope(p: Tensor, g: Tensor) -> Tensor:
    """The gradient of the scores, from that of their softmax p."""
    return p * (g - sum(g * p, -1, keepdims=True))


def _to_factors(slope: Tensor, q: Tensor, k: Tensor, added: Tensor | None, plan: _Plan) -> tuple[Tensor | None, ...]:
    """The gradients of q, k and the mask, from that of the scores."""
    grouped = slope.reshape(plan.grouped(slope.shape[-1]))
    to_q = to_k = None
    if q.requires_grad:
        to_q = matmul(grouped, astype(k, FLOAT) * plan.scale).reshape(q.shape)
    if k.requires_grad:
        to_k = matmul(grouped.mT, astype(q, FLOAT).reshape(plan.grouped(q.shape[-1])) * plan.scale)
    if added is None:
        return to_q, to_k
    return to_q, to_k, sum_to(slope, added.shape) if added.requires_grad else None


# ---------------------------------------------------------------- on arrays


def _weights_array(q: Tensor, k: Tensor, added: Tensor | None, plan: _Plan) -> Array:
    rows = reshaped(scaled(wide(q), plan.scale), plan.grouped(q.shape[-1]))
    scores = _matmul(rows, wide(k).swapped())
    scores = scores.reshaped((prod(plan.lead), plan.heads, *plan.extents))
    mask = _beyond(scores, plan) if plan.causal else None
    if added is not None:
        # A finite number hides as well as -inf, and makes no NaN of a row where all is hidden.
        mask = clamped(_mask(added, plan), -LARGEST, math.inf)
    return softmax_rows(scores, mask).reshaped((*plan.lead, plan.heads, *plan.extents))


def _mask(added: Tensor, plan: _Plan) -> Array:
    """What is added to the scores, -inf where a place is hidden: (n or 1, heads or 1, l, s)."""
    array = wide(added)
    shape = (*(1,) * (4 - added.ndim), *added.shape)
    array = reshaped(array, shape)
    full = (*shape[:2], *plan.extents)
    if shape != full:
        array = expanded(array, full)
    return binary(NAME, prim.ADD, array, scaled(_beyond(array, plan), 2.0)) if plan.causal else array


def _beyond(like: Array, plan: _Plan) -> Array:
    """The least finite number where a place is beyond that of its row, else 0: (1, 1, l, s)."""
    n, m = plan.extents
    rows = counting(NAME, like.device, n).reshaped((n, 1))
    columns = expanded(counting(NAME, like.device, m), (n, m))
    ahead = unary(prim.RELU, unary(prim.SGN, binary(NAME, prim.SUB, columns, rows)))
    return scaled(ahead, -LARGEST).reshaped((1, 1, n, m))


def _seeing(added: Tensor, plan: _Plan) -> Array:
    """1 for each place from which not all is hidden, else 0: something that broadcasts to (..., heads, l, 1)."""
    mask = _mask(added, plan)
    open_ = unary(prim.SGN, unary(prim.RELU, scaled(mask, 0.5, LARGEST)))  # above 0 for the least finite number too
    seeing = unary(prim.SGN, _sum(open_, (3,)))
    return seeing.reshaped(seeing.shape[1 - len(plan.lead) :])


# ---------------------------------------------------------------- checking operands


@dataclass(frozen=True)
class _Plan:
    """`lead`: (n,) or (); `extents`: l and s."""

    lead: Shape
    heads: int
    kv_heads: int
    extents: tuple[int, int]
    scale: float
    causal: bool

    def grouped(self, columns: int) -> Shape:
        """The heads that share one of k and v, one below another."""
        return (*self.lead, self.kv_heads, self.heads // self.kv_heads * self.extents[0], columns)


def _plan(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float | None) -> _Plan:
    shapes = (q.shape, k.shape, v.shape)
    fits = (
        q.ndim in (3, 4)
        and q.ndim == k.ndim == v.ndim
        and q.shape[:-3] == k.shape[:-3]
        and q.shape[-1] == k.shape[-1]
        and k.shape[:-1] == v.shape[:-1]
        and q.shape[-3] % k.shape[-3] == 0
    )
    if not fits:
        raise ValueError(
            f"{NAME}: q, k and v of shapes {', '.join(map(str, shapes))} do not fit: they must be (..., heads, l, e), "
            "(..., kv_heads, s, e) and (..., kv_heads, s, ev) of three or four dimensions, heads a multiple of kv_heads"
        )
    factor = 1.0 / math.sqrt(q.shape[-1]) if scale is None else number(scale)
    if factor is None:
        raise TypeError(f"{NAME}: scale must be a number, not {type(scale).__name__}")
    if not math.isfinite(factor):
        raise ValueError(f"{NAME}: scale must be finite, not {scale}")
    return _Plan(q.shape[:-3], q.shape[-3], k.shape[-3], (q.shape[-2], k.shape[-2]), factor, bool(causal))


def _additive(mask: TensorLike, q: Tensor, plan: _Plan) -> Tensor:
    """A mask as floats to be added, on the device of q."""
    if isinstance(mask, Tensor):
        added = _opened(mask, q) if mask._array.dtype is INT else floats(NAME, q, mask)[1]
    else:
        try:
            values = np.asarray(mask)
        except ValueError as error:
            raise ValueError(f"{NAME}: mask must be a regular array: {error}") from None
        if values.dtype.kind in "biu":
            mask = np.where(values != 0, np.float32(0.0), np.float32(-np.inf))
        added = floats(NAME, q, mask)[1]
    full = (*plan.lead, plan.heads, *plan.extents)
    if base.broadcast(NAME, added.shape, full) != full:
        raise ValueError(f"{NAME}: mask of shape {added.shape} does not broadcast to the scores' {full}")
    return added


def _opened(mask: Tensor, q: Tensor) -> Tensor:
    """0 where an int32 mask is not 0, else -inf."""
    array = mask._array
    if array.device is not q._array.device:
        raise ValueError(f"{NAME}: operands are on {q.device} and {mask.device}; move one with .to(device)")
    kept = unary(prim.SGN, unary(prim.ABS, cast(array, FLOAT)))
    return Tensor(scaled(scaled(kept, LARGEST, -LARGEST), 2.0))  # 0 times an infinity would be NaN


__all__ = ["scaled_dot_product_attention"]
