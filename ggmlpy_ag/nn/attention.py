"""Attention layers."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import numpy as np

from ..ops.attention import scaled_dot_product_attention
from ..ops.base import floats
from ..ops.join import split
from ..ops.linalg import linear
from ..ops.random import check_rate
from ..ops.shape import permute, reshape
from ..ops.windows import flag
from ..tensor import Tensor, TensorLike, param
from . import init
from .arguments import count
from .linear import Linear
from .module import Module


class MultiheadAttention(Module):
    """Attention of several heads side by side (Vaswani et al. 2017), as `torch.nn.MultiheadAttention` has it:

        concat(head_1, ..., head_num_heads) @ W_out.T + b_out,
        head_i = softmax(Q_i @ K_i.mT / sqrt(head_dim) + mask) @ V_i,   head_dim = embed_dim / num_heads

    where Q, K and V are linear maps of the query, the key and the value.

    It differs from PyTorch's in what goes in and comes out, not in its parameters: sequences are (n, length, embed_dim)
    always, PyTorch's `batch_first=True`; the output comes without the attention weights, which the operation never
    holds as a whole; and masks are those of `ag.scaled_dot_product_attention`, whose bools keep what is True, while
    PyTorch's hide it here.

    Args:
        embed_dim: extent of query and output; num_heads divides it.
        num_heads: how many heads the query has.
        dropout: the probability in [0, 1] with which each attention weight is dropped in training. The tape then keeps
            2 bytes for each of them.
        bias: whether the linear maps have one.
        kdim: extent of the key; by default embed_dim.
        vdim: extent of the value; by default embed_dim.
        num_kv_heads: how many heads key and value have, each of which serves num_heads / num_kv_heads neighbouring
            heads of the query (Ainslie et al. 2023); by default num_heads.
        device: where the parameters are; by default the default device.
        dtype: of the parameters; "float32", "float16" or "bfloat16".

    Attributes:
        in_proj_weight: the three maps one below another, (embed_dim + 2 * kv_dim, embed_dim) with kv_dim =
            num_kv_heads * head_dim, where kdim and vdim are embed_dim; else None.
        q_proj_weight, k_proj_weight, v_proj_weight: (embed_dim, embed_dim), (kv_dim, kdim) and (kv_dim, vdim) in its
            place. The maps are at first Xavier uniform, all three as one matrix where they are one, as in PyTorch.
        in_proj_bias: (embed_dim + 2 * kv_dim,), at first 0; or None.
        out_proj: the Linear that joins the heads; its bias is at first 0.

    Raises:
        ValueError: an extent below 1, heads that do not divide, dropout outside [0, 1], or an unknown device.
        TypeError: extents that are no integers, a `bias` that is no bool, another dtype.

    >>> layer = ag.nn.MultiheadAttention(16, num_heads=4, num_kv_heads=2)
    >>> layer(ag.rand(3, 5, 16), causal=True).shape
    (3, 5, 16)
    >>> layer(ag.rand(3, 5, 16), ag.rand(3, 7, 16), mask=np.arange(7) < 4).shape
    (3, 5, 16)
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        kdim: int | None = None,
        vdim: int | None = None,
        num_kv_heads: int | None = None,
        *,
        device: str | None = None,
        dtype: Any = "float32",
    ) -> None:
        kind = "MultiheadAttention"
        self.embed_dim, self.num_heads = count(kind, "embed_dim", embed_dim), count(kind, "num_heads", num_heads)
        self.kdim = self.embed_dim if kdim is None else count(kind, "kdim", kdim)
        self.vdim = self.embed_dim if vdim is None else count(kind, "vdim", vdim)
        self.num_kv_heads = self.num_heads if num_kv_heads is None else count(kind, "num_kv_heads", num_kv_heads)
        self.dropout = check_rate(kind, "dropout", dropout)
        biased = flag(kind, "bias", bias)
        if self.embed_dim % self.num_heads:
            raise ValueError(f"{kind}: num_heads must divide embed_dim {embed_dim}, not {num_heads}")
        if self.num_heads % self.num_kv_heads:
            raise ValueError(f"{kind}: num_kv_heads must divide num_heads {num_heads}, not {num_kv_heads}")
        kv_dim = self.embed_dim // self.num_heads * self.num_kv_heads
        self._sizes = (self.embed_dim, kv_dim, kv_dim)  # of Q, K and V

        def weight(*shape: int) -> Tensor:
            return init.xavier_uniform_(param(np.zeros(shape, np.float32), device, dtype))

        self.in_proj_weight = self.q_proj_weight = self.k_proj_weight = self.v_proj_weight = None
        if self.kdim == self.vdim == self.embed_dim:
            self.in_proj_weight = weight(sum(self._sizes), self.embed_dim)
        else:
            self.q_proj_weight = weight(self.embed_dim, self.embed_dim)
            self.k_proj_weight = weight(kv_dim, self.kdim)
            self.v_proj_weight = weight(kv_dim, self.vdim)
        self.in_proj_bias = param(np.zeros(sum(self._sizes), np.float32), device, dtype) if biased else None
        self.out_proj = Linear(self.embed_dim, self.embed_dim, biased, device=device, dtype=dtype)
        if self.out_proj.bias is not None:
            init.zeros_(self.out_proj.bias)

    def forward(
        self,
        query: TensorLike,
        key: TensorLike | None = None,
        value: TensorLike | None = None,
        mask: TensorLike | None = None,
        causal: bool = False,
    ) -> Tensor:
        """What each place of the query makes of the values at the places of the key.

        Args:
            query: (n, l, embed_dim).
            key: (n, s, kdim); by default the query, which makes it self-attention.
            value: (n, s, vdim); by default the key.
            mask: anything that broadcasts to (n, num_heads, l, s): floats are added to the scores, bools and integers
                keep where they are not 0. For lengths that differ within a batch it is (n, 1, 1, s).
            causal: hide from each place of the query those places of the key that come after it.

        Returns:
            (n, l, embed_dim). Where everything is hidden, the bias of `out_proj`.

        Raises:
            ValueError: shapes that do not fit, or operands on different devices. TypeError: a wrong type.
        """
        q, k, v = (self._heads(x) for x in self._projected(*self._checked(query, key, value)))
        dropout = self.dropout if self.training else 0.0
        heads = scaled_dot_product_attention(q, k, v, mask, causal, dropout=dropout)
        n, _, length, _ = heads.shape
        out: Tensor = self.out_proj(reshape(permute(heads, 0, 2, 1, 3), (n, length, self.embed_dim)))
        return out

    def _checked(self, query: TensorLike, key: TensorLike | None, value: TensorLike | None) -> tuple[Tensor, ...]:
        """The three as tensors; those that are one are one tensor still."""
        kind = "MultiheadAttention"
        if key is None and value is not None:
            raise ValueError(f"{kind}: a value needs its key")
        _, q = floats(kind, self.out_proj.weight, query)
        k = q if key is None or key is query else floats(kind, q, key)[1]
        v = k if value is None or value is key else floats(kind, q, value)[1]
        dims = (self.embed_dim, self.kdim, self.vdim)
        if any(x.ndim != 3 or x.shape[2] != n for x, n in zip((q, k, v), dims, strict=True)) or not (
            q.shape[0] == k.shape[0] == v.shape[0] and k.shape[1] == v.shape[1]
        ):
            raise ValueError(
                f"{kind}: query {q.shape}, key {k.shape} and value {v.shape} do not fit: they must be "
                f"(n, l, {dims[0]}), (n, s, {dims[1]}) and (n, s, {dims[2]})"
            )
        return q, k, v

    def _projected(self, *inputs: Tensor) -> list[Tensor]:
        """Q, K and V, (n, places, heads * head_dim) each. Neighbours that come from one sequence are one product."""
        if self.in_proj_weight is None:
            runs = [[0], [1], [2]]
        else:
            runs = [list(run) for _, run in groupby(range(3), key=lambda i: id(inputs[i]))]
        parts: list[Tensor] = []
        start = 0
        for run in runs:
            sizes = [self._sizes[i] for i in run]
            rows = slice(start, start + sum(sizes))
            start = rows.stop
            if self.in_proj_weight is None:
                weight = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)[run[0]]
                assert weight is not None
            else:
                weight = self.in_proj_weight[rows]
            bias = None if self.in_proj_bias is None else self.in_proj_bias[rows]
            parts += split(linear(inputs[run[0]], weight, bias), sizes, -1)
        return parts

    def _heads(self, x: Tensor) -> Tensor:
        """(n, places, heads * head_dim) -> (n, heads, places, head_dim)."""
        n, places, columns = x.shape
        head_dim = self.embed_dim // self.num_heads
        return permute(reshape(x, (n, places, columns // head_dim, head_dim)), 0, 2, 1, 3)

    def extra_repr(self) -> str:
        """The extents, and whatever else is not the default."""
        usual = {"kdim": self.embed_dim, "vdim": self.embed_dim, "num_kv_heads": self.num_heads, "dropout": 0.0}
        rest = [f"{name}={getattr(self, name)}" for name, value in usual.items() if getattr(self, name) != value]
        rest += ["bias=False"] * (self.in_proj_bias is None)
        return ", ".join([f"embed_dim={self.embed_dim}, num_heads={self.num_heads}", *rest])


__all__ = ["MultiheadAttention"]
