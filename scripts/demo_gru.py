"""Train a gated recurrent unit, written here from the operations, to read digits row by row.

Each digit is a sequence of 8 rows of 8 pixels; the class is told from the last state. Ends with status 1 below a test
accuracy of 0.95.

    python scripts/demo_gru.py --device vulkan
"""

from __future__ import annotations

import numpy as np
from demo_tools import Progress, batches, finish, load_digits, options, train, uniform

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

    def __call__(self, images: ag.Tensor) -> ag.Tensor:
        n = images.shape[0]
        parts = ag.linear(images, self.inputs, self.input_bias)  # of all rows at once: (n, 8, 3 * HIDDEN)
        h = ag.tensor(np.zeros((n, HIDDEN)))
        for row in range(images.shape[1]):
            h = self.step(parts[:, row], h)
        return ag.linear(h, self.weight, self.bias)


def accuracy(network: GRU, images: np.ndarray, labels: np.ndarray) -> float:
    with ag.no_grad():
        predicted = ag.argmax(network(ag.tensor(images)), axis=1).numpy()
    return float((predicted == labels).mean())


def main() -> int:
    chosen = options(
        f"Training a GRU of {HIDDEN} units to read handwritten digits row by row.", epochs=15, batch_size=32
    )
    images, labels, test_images, test_labels = load_digits()
    images, test_images = (v.reshape(-1, 8, 8) for v in (images, test_images))
    rng = np.random.default_rng(chosen.seed)
    network = GRU(rng)
    optimizer = ag.optim.AdamW(network.parameters(), lr=5e-3)
    losses: list[float] = []
    steps = -(-len(labels) // chosen.batch_size)
    progress = Progress(steps * chosen.epochs)
    score = 0.0
    for epoch in range(1, chosen.epochs + 1):
        optimizer.lr = 5e-3 * (1.05 - epoch / chosen.epochs)
        for rows in batches(len(labels), chosen.batch_size, rng):
            x, y = ag.tensor(images[rows]), ag.tensor(labels[rows])
            losses.append(train(optimizer, lambda: ag.cross_entropy_loss(network(x), y), max_norm=1.0))  # noqa: B023
            progress.step(losses[-1])
        score = accuracy(network, test_images, test_labels)
        progress.clear()
        print(f"epoch {epoch:2}: loss {np.mean(losses[-steps:]):.4f}, test accuracy {score:.4f}")
    return finish(f"test accuracy {score:.4f}", score >= GOAL, str(GOAL), losses, chosen)


if __name__ == "__main__":
    raise SystemExit(main())
