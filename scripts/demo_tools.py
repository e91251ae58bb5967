"""What the demos share: their command line, a progress bar, batches, and the digits."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import ggmlpy_ag as ag


def options(description: str, epochs: int, what: str = "epochs", **more: int) -> argparse.Namespace:
    """The options every demo has, parsed; the device they name is the default one from here on.

    `what` is what `epochs` counts; `more` are further integers with their defaults.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--device", help="cpu, vulkan, vulkan:1 or auto; by default GGMLPY_AG_DEVICE, else auto")
    for name, default in {what: epochs, "batch_size": 64, **more}.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=default)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--loss-file", help="also write the loss of every step to this file, one a line")
    found = parser.parse_args()
    for name in (what, "batch_size", *more):
        if getattr(found, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1")
    try:
        name = ag.device(found.device).name
    except ValueError as error:
        parser.error(str(error))
    found.device = name
    print(f"{description} Device: {next(d for d in ag.devices() if d.name == name)}")
    return found


def finish(figure: str, reached: bool, goal: str, losses: list[float], found: argparse.Namespace) -> int:
    """Print the final figure and write the losses; the exit status."""
    if found.loss_file:
        np.savetxt(found.loss_file, losses)
    print(f"{figure} on {found.device} ({'reached' if reached else 'missed'} the goal of {goal})")
    return 0 if reached else 1


class Progress:
    """A bar with the last loss and the time that is left, on a terminal; nothing where output goes to a file."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.done = 0
        self.start = time.monotonic()
        self.shown = sys.stderr.isatty()

    def step(self, loss: float) -> None:
        self.done += 1
        if self.shown:
            bar = "#" * (30 * self.done // self.total)
            left = (time.monotonic() - self.start) * (self.total - self.done) / self.done
            print(f"\r[{bar:<30}] loss {loss:.4f}, {left:.0f} s left ", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Make room for a line."""
        if self.shown:
            print("\r" + " " * 78 + "\r", end="", file=sys.stderr, flush=True)


def train(optimizer: ag.optim.Optimizer, loss_of: Callable[[], ag.Tensor], max_norm: float | None = None) -> float:
    """One step: the loss on a tape, back through it, and the optimizer."""
    with ag.grad_tape():
        loss = loss_of()
    ag.backward(loss)
    if max_norm is not None:
        ag.optim.clip_grad_norm(optimizer.params, max_norm)
    optimizer.step()
    optimizer.zero_grad()
    return float(loss)


def train_on_digits(
    chosen: argparse.Namespace,
    network: Any,
    images: Callable[[np.ndarray], np.ndarray],
    lr: float,
    goal: float,
    max_norm: float | None = None,
) -> int:
    """Train a network to tell digits apart, report on every epoch, and finish with its test accuracy.

    `network(x, training)` gives logits, `network.parameters()` what is trained; `images` gives rows of 64 pixels the
    shape that it takes. The learning rate falls to a twentieth.
    """
    x, y, test_x, test_y = load_digits()
    x, test_x = images(x), images(test_x)
    rng = np.random.default_rng(chosen.seed)
    optimizer = ag.optim.AdamW(network.parameters(), lr=lr)
    losses: list[float] = []
    steps = -(-len(y) // chosen.batch_size)
    progress = Progress(steps * chosen.epochs)
    score = 0.0
    for epoch in range(1, chosen.epochs + 1):
        optimizer.lr = lr * (1.05 - epoch / chosen.epochs)
        for rows in batches(len(y), chosen.batch_size, rng):
            inputs, labels = ag.tensor(x[rows]), ag.tensor(y[rows])
            loss = train(optimizer, lambda: ag.cross_entropy_loss(network(inputs, True), labels), max_norm)  # noqa: B023 - called at once
            losses.append(loss)
            progress.step(loss)
        with ag.no_grad():
            predicted = ag.argmax(network(ag.tensor(test_x), False), axis=1).numpy()
        score = float((predicted == test_y).mean())
        progress.clear()
        print(f"epoch {epoch:2}: loss {np.mean(losses[-steps:]):.4f}, test accuracy {score:.4f}")
    return finish(f"test accuracy {score:.4f}", score >= goal, str(goal), losses, chosen)


def batches(n: int, size: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Indices of shuffled batches; the last one may be smaller."""
    order = rng.permutation(n)
    for start in range(0, n, size):
        yield order[start : start + size]


def load_digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """1,797 scans of handwritten digits of 8 x 8 pixels (the UCI set of Alpaydin and Kaynak, from scikit-learn).

    Images in [0, 1] as rows of 64 pixels and their labels: four fifths for training, the rest for the test.
    """
    try:
        from sklearn.datasets import load_digits as load
    except ImportError:
        sys.exit("This demo needs scikit-learn for its data: pip install 'ggmlpy_ag[digits]'")
    images, labels = load(return_X_y=True)
    images = (images / 16).astype(np.float32)
    order = np.random.default_rng(0).permutation(len(labels))  # always the same split
    test, training = order[: len(order) // 5], order[len(order) // 5 :]
    return images[training], labels[training], images[test], labels[test]


def uniform(rng: np.random.Generator, *shape: int, fan_in: int | None = None) -> ag.Tensor:
    """A parameter, uniform within 1 / sqrt(fan_in) of 0 as PyTorch's layers begin; fan_in is the last extent."""
    bound = 1.0 / np.sqrt(fan_in or shape[-1])
    return ag.param(rng.uniform(-bound, bound, shape))
