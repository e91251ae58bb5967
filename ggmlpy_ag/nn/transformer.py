"""Transformer layers."""

from __future__ import annotations

from typing import Any

from ..ops.activation import relu
from ..ops.base import floats
from ..ops.swish import gelu
from ..ops.windows import flag
from ..tensor import Tensor, TensorLike
from .attention import MultiheadAttention
from .dropout import Dropout
from .linear import Linear
from .module import Module
from .normalization import LayerNorm

ACTIVATIONS = {"relu": relu, "gelu": gelu}


class TransformerEncoderLayer(Module):
    """Self-attention and a network of two layers, each added to its input (Vaswani et al. 2017):

        x = norm1(x + dropout1(self_attn(x)))
        x = norm2(x + dropout2(linear2(dropout(activation(linear1(x))))))

    or, with `norm_first`, where it trains more easily when many are stacked (Xiong et al. 2020):

        x = x + dropout1(self_attn(norm1(x)))
        x = x + dropout2(linear2(dropout(activation(linear1(norm2(x))))))

    As `torch.nn.TransformerEncoderLayer` with `batch_first=True`, with the same parameters; masks are those of
    `ag.nn.MultiheadAttention`.

    Args:
        d_model: extent of input and output; nhead divides it.
        nhead: heads of the attention.
        dim_feedforward: extent between linear1 and linear2.
        dropout: the probability in [0, 1] of all dropout here, that of the attention weights included.
        activation: "relu" or "gelu".
        layer_norm_eps: what is added to the variance.
        norm_first: see above.
        bias: whether the linear maps and normalizations have one.
        device: where the parameters are; by default the default device.
        dtype: of the parameters; "float32", "float16" or "bfloat16".

    Attributes:
        self_attn: a MultiheadAttention.
        linear1, linear2: Linear.
        norm1, norm2: LayerNorm.
        dropout, dropout1, dropout2: Dropout.

    Raises:
        ValueError: an extent below 1, heads that do not divide, dropout outside [0, 1], another activation, an eps
        that is not positive, or an unknown device. TypeError: extents that are no integers, flags that are no bools,
        another dtype.

    >>> layer = ag.nn.TransformerEncoderLayer(16, nhead=4, dim_feedforward=32, norm_first=True)
    >>> layer(ag.rand(3, 5, 16), causal=True).shape
    (3, 5, 16)
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str = "relu",
        layer_norm_eps: float = 1e-5,
        norm_first: bool = False,
        bias: bool = True,
        *,
        device: str | None = None,
        dtype: Any = "float32",
    ) -> None:
        if not isinstance(activation, str) or activation not in ACTIVATIONS:
            raise ValueError(f'TransformerEncoderLayer: activation must be "relu" or "gelu", not {activation!r}')
        where: dict[str, Any] = {"device": device, "dtype": dtype}
        self.activation = activation
        self.norm_first = flag("TransformerEncoderLayer", "norm_first", norm_first)
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, **where)
        self.linear1 = Linear(d_model, dim_feedforward, bias, **where)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **where)
        self.norm1 = LayerNorm(d_model, layer_norm_eps, bias=bias, **where)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, bias=bias, **where)
        self.dropout1, self.dropout2 = Dropout(dropout), Dropout(dropout)

    def forward(self, src: TensorLike, mask: TensorLike | None = None, causal: bool = False) -> Tensor:
        """The sequence, each place with what it makes of the others.

        Args:
            src: (n, length, d_model).
            mask: anything that broadcasts to (n, nhead, length, length): floats are added to the scores, bools and
                integers keep where they are not 0.
            causal: hide from each place those that come after it.

        Returns:
            (n, length, d_model).

        Raises:
            ValueError: shapes that do not fit, or operands on different devices. TypeError: a wrong type.
        """
        _, x = floats("TransformerEncoderLayer", self.linear1.weight, src)
        if self.norm_first:
            x = x + self._attended(self.norm1(x), mask, causal)
            x = x + self._fed(self.norm2(x))
        else:
            x = self.norm1(x + self._attended(x, mask, causal))
            x = self.norm2(x + self._fed(x))
        return x

    def _attended(self, x: Tensor, mask: TensorLike | None, causal: bool) -> Tensor:
        out: Tensor = self.dropout1(self.self_attn(x, mask=mask, causal=causal))
        return out

    def _fed(self, x: Tensor) -> Tensor:
        hidden = self.dropout(ACTIVATIONS[self.activation](self.linear1(x)))
        out: Tensor = self.dropout2(self.linear2(hidden))
        return out

    def extra_repr(self) -> str:
        """The activation, and where the normalizations are."""
        return f"activation={self.activation!r}, norm_first={self.norm_first}"


__all__ = ["TransformerEncoderLayer"]
