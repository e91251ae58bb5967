"""Layers that are a matrix or a table."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ops.base import integer
from ..ops.choose import masked_fill
from ..ops.linalg import linear
from ..ops.select import embedding, one_hot
from ..ops.shape import flatten
from ..ops.windows import flag
from ..tape import no_grad, record
from ..tensor import Tensor, TensorLike, param, tensor
from . import init
from .arguments import count, weight_and_bias
from .module import Module


class Linear(Module):
    """x @ weight.T + bias, a fully connected layer: (..., in_features) -> (..., out_features).

    Args:
        in_features: extent of the last dimension of the input.
        out_features: that of the output.
        bias: whether there is one.
        device: where the parameters are; by default the default device.
        dtype: of the parameters; "float32", "float16" or "bfloat16".

    Attributes:
        weight: (out_features, in_features), at first uniform in +-1 / sqrt(in_features), as in PyTorch.
        bias: (out_features,), likewise; or None.

    Raises:
        ValueError: an extent below 1, or an unknown device. TypeError: extents that are no integers, a `bias` that is
        no bool, another dtype.

    >>> ag.nn.Linear(20, 30)(ag.rand(128, 20)).shape
    (128, 30)
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        device: str | None = None,
        dtype: Any = "float32",
    ) -> None:
        self.in_features = count("Linear", "in_features", in_features)
        self.out_features = count("Linear", "out_features", out_features)
        biased = flag("Linear", "bias", bias)
        shape = (self.out_features, self.in_features)
        self.weight, self.bias = weight_and_bias(shape, self.out_features, biased, device, dtype)

    def forward(self, x: TensorLike) -> Tensor:
        """(..., in_features) -> (..., out_features)."""
        return linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        """The extents."""
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Embedding(Module):
    """Rows of a table by index: (...) -> (..., embedding_dim).

    Args:
        num_embeddings: rows of the table.
        embedding_dim: their extent.
        padding_idx: a row that starts at 0 and gets no gradient; negative ones count from the last. None for no such
            row.
        device: where the table is; by default the default device.
        dtype: of the table; "float32", "float16" or "bfloat16".

    Attributes:
        weight: (num_embeddings, embedding_dim), at first normal numbers of mean 0 and variance 1, as in PyTorch.

    Raises:
        ValueError: an extent below 1, `padding_idx` outside the table, or an unknown device. TypeError: what must be an
        integer is none, another dtype.

    >>> ag.nn.Embedding(10, 3, padding_idx=0)([[0, 2], [4, 0]])[0, 0].tolist()
    [0.0, 0.0, 0.0]
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        device: str | None = None,
        dtype: Any = "float32",
    ) -> None:
        self.num_embeddings = n = count("Embedding", "num_embeddings", num_embeddings)
        self.embedding_dim = count("Embedding", "embedding_dim", embedding_dim)
        self.padding_idx = None if padding_idx is None else _row(padding_idx, n)
        self.weight = init.normal_(param(np.zeros((n, self.embedding_dim), np.float32), device, dtype))
        if self.padding_idx is not None:
            with no_grad():  # a tape may record while a model is made
                self.weight[self.padding_idx] = 0.0

    def forward(self, indices: Any) -> Tensor:
        """Indices, (...) of at most three dimensions -> (..., embedding_dim)."""
        table = self.weight if self.padding_idx is None else _without_gradient(self.weight, self.padding_idx)
        return embedding(indices, table)

    def extra_repr(self) -> str:
        """The extents, and the padding row if there is one."""
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"


def _row(padding_idx: Any, n: int) -> int:
    row = integer("Embedding", "padding_idx", padding_idx)
    if not -n <= row < n:
        raise ValueError(f"Embedding: padding_idx {row} is outside the {n} rows of the table")
    return row % n


def _without_gradient(table: Tensor, row: int) -> Tensor:
    """The same table, one row of which gets no gradient."""
    n = table.shape[0]

    def grad(g: Tensor) -> tuple[Tensor]:
        mask = one_hot(tensor([row], device=g.device), n).reshape(n, 1)
        return (masked_fill(g, mask, 0.0),)

    return record("embedding", table.detach(), (table,), grad)


class Flatten(Module):
    """Neighbouring dimensions made one, by default all but the first, which counts samples.

    Args:
        start: the first of these dimensions.
        end: the last of them. Negative ones count from the last dimension.

    Raises:
        TypeError: one is no integer.

    >>> ag.nn.Flatten()(ag.rand(32, 1, 5, 5)).shape
    (32, 25)
    """

    def __init__(self, start: int = 1, end: int = -1) -> None:
        self.start, self.end = integer("Flatten", "start", start), integer("Flatten", "end", end)

    def forward(self, x: TensorLike) -> Tensor:
        """Any shape -> one with less dimensions."""
        return flatten(x, self.start, self.end)

    def extra_repr(self) -> str:
        """The dimensions."""
        return f"start={self.start}, end={self.end}"


__all__ = ["Embedding", "Flatten", "Linear"]
