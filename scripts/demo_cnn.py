"""Train a convolutional network on real handwritten digits. Ends with status 1 below a test accuracy of 0.97.

python scripts/demo_cnn.py --device vulkan
"""

from __future__ import annotations

import numpy as np
from demo_tools import Progress, batches, finish, load_digits, options, train, uniform

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


def accuracy(network: Network, images: np.ndarray, labels: np.ndarray) -> float:
    with ag.no_grad():
        predicted = ag.argmax(network(ag.tensor(images), training=False), axis=1).numpy()
    return float((predicted == labels).mean())


def main() -> int:
    chosen = options("Training a convolutional network on handwritten digits.", epochs=8)
    images, labels, test_images, test_labels = load_digits()
    images, test_images = (v.reshape(-1, 1, 8, 8) for v in (images, test_images))
    rng = np.random.default_rng(chosen.seed)
    ag.manual_seed(chosen.seed)
    network = Network(rng)
    optimizer = ag.optim.AdamW(network.parameters(), lr=3e-3)
    losses: list[float] = []
    steps = -(-len(labels) // chosen.batch_size)
    progress = Progress(steps * chosen.epochs)
    score = 0.0
    for epoch in range(1, chosen.epochs + 1):
        for rows in batches(len(labels), chosen.batch_size, rng):
            x, y = ag.tensor(images[rows]), ag.tensor(labels[rows])
            losses.append(train(optimizer, lambda: ag.cross_entropy_loss(network(x, training=True), y)))  # noqa: B023
            progress.step(losses[-1])
        score = accuracy(network, test_images, test_labels)
        progress.clear()
        print(f"epoch {epoch:2}: loss {np.mean(losses[-steps:]):.4f}, test accuracy {score:.4f}")
    return finish(f"test accuracy {score:.4f}", score >= GOAL, str(GOAL), losses, chosen)


if __name__ == "__main__":
    raise SystemExit(main())
