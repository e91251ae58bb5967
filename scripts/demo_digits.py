"""Train a small network on real handwritten digits, and see what its tape holds.

One step's tape report is printed between backward() and zero_grad(), and what that step moved between host and
device. Ends with status 1 when the test accuracy stays below 0.95.

    python scripts/run.py demo                      # sets everything up first
    python scripts/demo_digits.py --device vulkan --epochs 20
"""

from __future__ import annotations

import numpy as np
from demo_tools import Progress, batches, finish, load_digits, options

import ggmlpy_ag as ag

WIDTHS = (64, 128, 64, 10)
GOAL = 0.95


class Network:
    """Linear layers with ReLU between them; weights are (out, in), as in PyTorch."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.layers: list[tuple[ag.Tensor, ag.Tensor]] = []
        for n_in, n_out in zip(WIDTHS, WIDTHS[1:], strict=False):
            weight = rng.standard_normal((n_out, n_in)) * np.sqrt(2 / n_in)  # He et al. 2015
            self.layers.append((ag.param(weight), ag.param(np.zeros(n_out))))

    def parameters(self) -> list[ag.Tensor]:
        return [p for layer in self.layers for p in layer]

    def __call__(self, x: ag.Tensor) -> ag.Tensor:
        for weight, bias in self.layers[:-1]:
            x = ag.relu(ag.linear(x, weight, bias))
        return ag.linear(x, *self.layers[-1])


def accuracy(network: Network, images: np.ndarray, labels: np.ndarray) -> float:
    predicted = ag.argmax(network(ag.tensor(images)), axis=1).numpy()
    return float((predicted == labels).mean())


def main() -> int:
    chosen = options(f"Training {'-'.join(map(str, WIDTHS))} on handwritten digits.", epochs=15)
    images, labels, test_images, test_labels = load_digits()
    rng = np.random.default_rng(chosen.seed)
    network = Network(rng)
    optimizer = ag.optim.AdamW(network.parameters(), lr=2e-3)
    losses: list[float] = []
    steps = -(-len(labels) // chosen.batch_size)
    progress = Progress(steps * chosen.epochs)
    score = 0.0
    for epoch in range(1, chosen.epochs + 1):
        for rows in batches(len(labels), chosen.batch_size, rng):
            show = len(losses) == 1  # the first step also makes the optimizer's state
            before = ag.counters()
            x, y = ag.tensor(images[rows]), ag.tensor(labels[rows])
            with ag.grad_tape():
                loss = ag.cross_entropy_loss(network(x), y)
            ag.backward(loss)
            if show:
                progress.clear()
                ag.tape_memory()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(float(loss))
            if show:
                print(f"one step: {ag.counters() - before}")
            progress.step(losses[-1])
        score = accuracy(network, test_images, test_labels)
        progress.clear()
        print(f"epoch {epoch:2}: loss {np.mean(losses[-steps:]):.4f}, test accuracy {score:.4f}")
    print(ag.memory_stats())
    return finish(f"test accuracy {score:.4f}", score >= GOAL, str(GOAL), losses, chosen)


if __name__ == "__main__":
    raise SystemExit(main())
