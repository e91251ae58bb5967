"""Train a small network on real handwritten digits, and see what its tape holds.

The digits are 1,797 scans of 8 x 8 pixels that ship with scikit-learn (the UCI set of Alpaydin and Kaynak). Four
fifths train, the rest test. One step's tape report is printed between backward() and zero_grad(), and what that step
moved between host and device. Ends with status 1 when the test accuracy stays below 0.95.

    python scripts/run.py demo                      # sets everything up first
    python scripts/demo_digits.py --device vulkan --epochs 20
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

import numpy as np

import ggmlpy_ag as ag

WIDTHS = (64, 128, 64, 10)
GOAL = 0.95


def load_digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Images in [0, 1] as rows of 64 pixels and their labels: for training, and for the test."""
    try:
        from sklearn.datasets import load_digits as load
    except ImportError:
        sys.exit("This demo needs scikit-learn for its data: pip install 'ggmlpy_ag[digits]'")
    images, labels = load(return_X_y=True)
    images = (images / 16).astype(np.float32)
    order = np.random.default_rng(0).permutation(len(labels))  # always the same split
    test, train = order[: len(order) // 5], order[len(order) // 5 :]
    return images[train], labels[train], images[test], labels[test]


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


def batches(n: int, size: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Indices of shuffled batches; the last one may be smaller."""
    order = rng.permutation(n)
    for start in range(0, n, size):
        yield order[start : start + size]


def accuracy(network: Network, images: np.ndarray, labels: np.ndarray) -> float:
    predicted = ag.argmax(network(ag.tensor(images)), axis=1).numpy()
    return float((predicted == labels).mean())


def progress(epoch: int, epochs: int, done: int, total: int) -> None:
    """A bar on a terminal; nothing where output goes to a file."""
    if sys.stderr.isatty():
        bar = "#" * (30 * done // total)
        print(f"\repoch {epoch}/{epochs} [{bar:<30}] {done}/{total}", end="", file=sys.stderr, flush=True)
        if done == total:
            print("\r" + " " * 70 + "\r", end="", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Train on handwritten digits and report what the tape holds.")
    parser.add_argument("--device", help="cpu, vulkan, vulkan:1 or auto; by default GGMLPY_AG_DEVICE, else auto")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--loss-file", default=None, help="also write the loss of every step to this file, one a line")
    options = parser.parse_args()
    if options.epochs < 1 or options.batch_size < 1:
        parser.error("--epochs and --batch-size must be at least 1")
    try:
        name = ag.device(options.device).name
    except ValueError as error:
        parser.error(str(error))
    info = next(d for d in ag.devices() if d.name == name)
    print(f"training {'-'.join(map(str, WIDTHS))} on {info}")

    images, labels, test_images, test_labels = load_digits()
    rng = np.random.default_rng(options.seed)
    network = Network(rng)
    optimizer = ag.optim.AdamW(network.parameters(), lr=2e-3)
    losses: list[float] = []
    total = -(-len(labels) // options.batch_size)
    score = 0.0
    for epoch in range(1, options.epochs + 1):
        first = len(losses)
        for done, rows in enumerate(batches(len(labels), options.batch_size, rng), 1):
            show = epoch == 1 and done == 2  # the first step also makes the optimizer's state
            before = ag.counters()
            x, y = ag.tensor(images[rows]), ag.tensor(labels[rows])
            with ag.grad_tape():
                loss = ag.cross_entropy_loss(network(x), y)
            ag.backward(loss)
            if show:
                progress(epoch, options.epochs, total, total)
                ag.tape_memory()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(float(loss))
            if show:
                print(f"one step: {ag.counters() - before}")
            progress(epoch, options.epochs, done, total)
        score = accuracy(network, test_images, test_labels)
        print(f"epoch {epoch:2}: loss {np.mean(losses[first:]):.4f}, test accuracy {score:.4f}")
    if options.loss_file:
        np.savetxt(options.loss_file, losses)
    print(ag.memory_stats())
    print(f"test accuracy {score:.4f} on {name} ({'reached' if score >= GOAL else 'below'} the goal of {GOAL})")
    return 0 if score >= GOAL else 1


if __name__ == "__main__":
    raise SystemExit(main())
