"""Batch normalization layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ops.base import finite
from ..ops.batchnorm import batch_norm
from ..ops.normalization import checked_eps
from ..ops.windows import flag
from ..tensor import Tensor, TensorLike, param
from .arguments import count, scale_and_shift
from .module import Module


class _BatchNorm(Module):
    _inputs: dict[int, str]  # shapes in words, by their number of dimensions

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        *,
        device: str | None = None,
        dtype: Any = "float32",
    ) -> None:
        kind = type(self).__name__
        self.num_features = count(kind, "num_features", num_features)
        self.eps, self.momentum = checked_eps(kind, eps), finite(kind, "momentum", momentum)
        self.affine = flag(kind, "affine", affine)
        self.track_running_stats = flag(kind, "track_running_stats", track_running_stats)
        self.weight, self.bias = scale_and_shift((num_features,), self.affine, self.affine, device, dtype)
        self.running_mean = self.running_var = None
        if track_running_stats:
            for name, value in (("running_mean", 0.0), ("running_var", 1.0)):
                self.register_buffer(name, param(np.full(num_features, value), device, dtype).detach())

    def forward(self, x: TensorLike) -> Tensor:
        """(n, num_features, ...) -> the same."""
        shape = np.shape(x)
        if len(shape) not in self._inputs or shape[1] != self.num_features:
            known = " or ".join(self._inputs.values())
            raise ValueError(
                f"{type(self).__name__}: x must be {known} with {self.num_features} features, not of shape {shape}"
            )
        by_batch = self.training or not self.track_running_stats
        return batch_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias, by_batch, self.momentum, self.eps
        )

    def extra_repr(self) -> str:
        """The arguments."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"track_running_stats={self.track_running_stats}"
        )


class BatchNorm1d(_BatchNorm):
    """(x - mean) / sqrt(variance + eps) * weight + bias for each feature: (n, num_features[, length]) -> the same.

    In training, mean and variance are those of the batch, and the running ones move towards them: `running += momentum
    * (batch - running)`. Out of training, the running ones normalize. As in PyTorch, but for `num_batches_tracked`,
    which only a momentum of None would need: load a state from there with `load_state_dict(state, strict=False)`.

    Args:
        num_features: the extent of the second dimension.
        eps: added to the variance; from 0 on.
        momentum: the share of a batch in the running values.
        affine: whether there are weight and bias.
        track_running_stats: whether there are running values; without them, each batch is normalized by its own.
        device: where parameters and running values are; by default the default device.
        dtype: theirs; "float32", "float16" or "bfloat16".

    Attributes:
        weight: (num_features,), 1 at first; or None.
        bias: (num_features,), 0 at first; or None.
        running_mean: (num_features,), a buffer, 0 at first; or None.
        running_var: (num_features,), a buffer, 1 at first; or None.

    Raises:
        ValueError: a number below 1, a negative eps, a momentum that is not finite, or an unknown device. TypeError:
        what must be a number is none, no bools, another dtype.

    >>> layer = ag.nn.BatchNorm1d(1, momentum=0.5)
    >>> layer([[1.0], [3.0]]).shape, layer.running_mean.tolist()
    ((2, 1), [1.0])
    """

    _inputs = {2: "(n, features)", 3: "(n, features, length)"}


class BatchNorm2d(_BatchNorm):
    """(x - mean) / sqrt(variance + eps) * weight + bias for each feature: (n, num_features, h, w) -> the same.

    Everything else is as in `BatchNorm1d`.

    Args:
        num_features: the extent of the second dimension, the channels.
        eps, momentum, affine, track_running_stats, device, dtype: as for `BatchNorm1d`.

    Raises:
        ValueError, TypeError: as `BatchNorm1d`.

    >>> ag.nn.BatchNorm2d(16)(ag.rand(4, 16, 5, 5)).shape
    (4, 16, 5, 5)
    """

    _inputs = {4: "(n, features, h, w)"}


__all__ = ["BatchNorm1d", "BatchNorm2d"]
