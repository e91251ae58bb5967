"""Train a gated recurrent unit, written here from the operations, to read digits row by row.

Each digit is a sequence of 8 rows of 8 pixels; the class is told from the last state. Ends with status 1 below a test
accuracy of 0.95.

    python scripts/demo_gru.py --device vulkan
"""

from __future__ import annotations

import numpy as np
from demo_tools import options, train_on_digits, uniform

import ggmlpy_ag as ag

HIDDEN = 96
GOAL = 0.95


class GRU:
    """One layer, by the formulas of Cho et al. 2014 in PyTorch's form, and a linear layer on its last state."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.inputs = uniform(rng, 3 * HIDDEN, 8, fan_in=HIDDEN)
        self.states = uniform(rng, 3 * HIDDEN, HIDDEN)
        self.input_bias, self.state_bias = ag.param(np.zeros(3 * HIDDEN)), ag.param(np.zeros(3 * HIDDEN))
        self.weight, self.bias = uniform(rng, 10, HIDDEN), ag.param(np.zeros(10))

    def parameters(self) -> list[ag.Tensor]:
        return [self.inputs, self.states, self.input_bias, self.state_bias, self.weight, self.bias]

    def step(self, x: ag.Tensor, h: ag.Tensor) -> ag.Tensor:
        """One row: x (n, 3 * HIDDEN), the input's part, and the state h (n, HIDDEN)."""
        x_reset, x_update, x_new = ag.chunk(x, 3, axis=1)
        h_reset, h_update, h_new = ag.chunk(ag.linear(h, self.states, self.state_bias), 3, axis=1)
        reset, update = ag.sigmoid(x_reset + h_reset), ag.sigmoid(x_update + h_update)
        new = ag.tanh(x_new + reset * h_new)
        return new + update * (h - new)

    def __call__(self, images: ag.Tensor, training: bool) -> ag.Tensor:
        n = images.shape[0]
        parts = ag.linear(images, self.inputs, self.input_bias)  # of all rows at once: (n, 8, 3 * HIDDEN)
        h = ag.tensor(np.zeros((n, HIDDEN)))
        for row in range(images.shape[1]):
            h = self.step(parts[:, row], h)
        return ag.linear(h, self.weight, self.bias)


def main() -> int:
    what = f"Training a GRU of {HIDDEN} units to read handwritten digits row by row."
    chosen = options(what, epochs=15, batch_size=32)
    network = GRU(np.random.default_rng(chosen.seed))
    return train_on_digits(chosen, network, lambda rows: rows.reshape(-1, 8, 8), lr=5e-3, goal=GOAL, max_norm=1.0)


if __name__ == "__main__":
    raise SystemExit(main())
