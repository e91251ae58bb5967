"""Train a convolutional network on real handwritten digits. Ends with status 1 below a test accuracy of 0.97.

python scripts/demo_cnn.py --device vulkan
"""

from __future__ import annotations

import numpy as np
from demo_tools import options, train_on_digits, uniform

import ggmlpy_ag as ag

GOAL = 0.97


class Network:
    """Two convolutions with batch norm, one pooling, dropout, and a linear layer: 8 x 8 -> 4 x 4 -> 10 classes."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.convolutions = [uniform(rng, 16, 1, 3, 3, fan_in=9), uniform(rng, 32, 16, 3, 3, fan_in=144)]
        self.scales = [ag.param(np.ones(n)) for n in (16, 32)]
        self.shifts = [ag.param(np.zeros(n)) for n in (16, 32)]
        self.means = [ag.tensor(np.zeros(n)) for n in (16, 32)]
        self.variances = [ag.tensor(np.ones(n)) for n in (16, 32)]
        self.weight, self.bias = uniform(rng, 10, 32 * 4 * 4), ag.param(np.zeros(10))

    def parameters(self) -> list[ag.Tensor]:
        return [*self.convolutions, *self.scales, *self.shifts, self.weight, self.bias]

    def __call__(self, x: ag.Tensor, training: bool) -> ag.Tensor:
        for i, kernel in enumerate(self.convolutions):
            x = ag.conv2d(x, kernel, padding=1)
            x = ag.batch_norm(x, self.means[i], self.variances[i], self.scales[i], self.shifts[i], training)
            x = ag.relu(x)
        x = ag.max_pool2d(x, 2)
        x = ag.dropout(x.reshape(x.shape[0], -1), 0.3, training)
        return ag.linear(x, self.weight, self.bias)


def main() -> int:
    chosen = options("Training a convolutional network on handwritten digits.", epochs=8)
    ag.manual_seed(chosen.seed)
    network = Network(np.random.default_rng(chosen.seed))
    return train_on_digits(chosen, network, lambda rows: rows.reshape(-1, 1, 8, 8), lr=3e-3, goal=GOAL)


if __name__ == "__main__":
    raise SystemExit(main())
