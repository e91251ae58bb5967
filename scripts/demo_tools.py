"""What the demos share: their options, the report of a run (progress, a plot, JSON), and the digits."""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

import ggmlpy_ag as ag


class Run:
    """A training run from the command line: its options, what it has reached so far, and its report.

        run = Run("cnn", __doc__, "test accuracy", goal=0.97, epochs=8)
        for _ in run.epochs():
            for x, y in run.batches(loader):
                ...  # a training step
                run.loss(loss)
            run.score(accuracy)
        return run.finish()

    The device that the options name is the default one from then on, and their seed starts the random numbers.

    Args:
        name: of the demo.
        about: the demo's docstring, for its help.
        measure: what is scored after each epoch.
        goal: the score to reach.
        lower: whether less is better.
        defaults: of the options that are numbers from 1 on: `epochs`, and what else the demo has.
    """

    def __init__(
        self, name: str, about: str | None, measure: str, goal: float, lower: bool = False, **defaults: int
    ) -> None:
        self.name, self.measure, self.goal, self.lower = name, measure, goal, lower
        self.options = parse(name, about or "", {"batch_size": 64, **defaults})
        self.losses: list[float] = []
        self.scores: list[float] = []
        self.scored: list[int] = []  # how many steps each score came after
        self._bar: Any = None
        self._start = time.perf_counter()
        ag.manual_seed(self.options.seed)
        self.print(f"device: {next(info for info in ag.devices() if info.name == ag.device().name)}")

    def print(self, what: object) -> None:
        """For people to read: on stderr where the figures alone go to stdout, and not into the progress bar."""
        if self._bar is not None:
            self._bar.clear()
        print(what, file=sys.stderr if self.options.json == "-" else sys.stdout, flush=True)

    def epochs(self) -> Iterator[int]:
        """The numbers of the epochs, from 1 on."""
        for epoch in range(1, self.options.epochs + 1):
            if not self.options.steps or len(self.losses) < self.options.steps:
                yield epoch

    def batches(self, loader: Any) -> Iterator[Any]:
        """The batches of an epoch, as many as `--steps` allows."""
        if self._bar is None:
            total = len(loader) * self.options.epochs
            self._bar = progress_bar(min(total, self.options.steps or total))
        return islice(loader, self.options.steps - len(self.losses) if self.options.steps else None)

    def loss(self, loss: ag.Tensor) -> None:
        """Note the loss of a step."""
        self.losses.append(float(loss))
        if self._bar is not None:
            self._bar.set_postfix(loss=f"{self.losses[-1]:.4f}", refresh=False)
            self._bar.update()

    def score(self, score: float) -> None:
        """Note the score after an epoch, and print a line."""
        mean = np.mean(self.losses[self.scored[-1] if self.scored else 0 :])
        self.scores.append(float(score))
        self.scored.append(len(self.losses))
        self.print(f"epoch {len(self.scores):2}: loss {mean:.4f}, {self.measure} {score:.4f}")

    def finish(self) -> int:
        """Print the last score, write the plot and the figures if asked to; returns the exit status."""
        score = self.scores[-1]
        reached = score < self.goal if self.lower else score >= self.goal
        if self._bar is not None:
            self._bar.close()
        if self.options.plot:
            self._plot(self.options.plot)
        if self.options.json:
            figures = {
                "name": self.name,
                "device": ag.device().name,
                "seed": self.options.seed,
                "measure": self.measure,
                "goal": self.goal,
                "figure": score,
                "reached": reached,
                "seconds": round(time.perf_counter() - self._start, 3),
                "scores": self.scores,
                "losses": self.losses,
            }
            if self.options.json == "-":
                print(json.dumps(figures))
            else:
                Path(self.options.json).write_text(json.dumps(figures) + "\n", "utf-8")
        word = "reached" if reached else "missed"
        self.print(f"{self.measure} {score:.4f} on {ag.device().name} ({word} the goal of {self.goal})")
        return 0 if reached else 1

    def _plot(self, file: str) -> None:
        from matplotlib.figure import Figure  # not pyplot, which may look for a display

        figure = Figure(figsize=(8, 4.5), layout="constrained")
        left = figure.subplots()
        left.set(title=f"{self.name} on {ag.device().name}", xlabel="step", ylabel="loss")
        steps = np.arange(1, len(self.losses) + 1)
        left.plot(steps, self.losses, color="C0", linewidth=0.6, alpha=0.5, label="loss of a step")
        width = min(20, len(self.losses))
        means = np.convolve(self.losses, np.ones(width) / width, "valid")
        middles = steps[(width - 1) // 2 :][: len(means)]
        left.plot(middles, means, color="C0", label=f"mean loss of {width} steps")
        left.set_ylim(bottom=0)
        right = left.twinx()
        right.set_ylabel(self.measure)
        right.plot(self.scored, self.scores, "o-", color="C1", label=self.measure)
        right.axhline(self.goal, color="C1", linestyle=":", label=f"goal: {self.goal}")
        figure.legend(loc="outside lower center", ncols=4)
        figure.savefig(file, dpi=120)


def progress_bar(steps: int) -> Any:
    """A bar on stderr, shown only if that is a terminal; None without tqdm."""
    try:
        from tqdm import tqdm
    except ImportError:
        return None
    return tqdm(total=steps, unit="step", disable=None)


def parse(name: str, about: str, defaults: dict[str, int]) -> argparse.Namespace:
    """The options from the command line; `steps` is 0 where there is no limit."""
    parser = argparse.ArgumentParser(
        prog=f"python -m ggmlpy_ag demo {name}",
        description=about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--device", metavar="NAME", help="cpu, vulkan, vulkan:1 or auto; by default GGMLPY_AG_DEVICE, else auto")
    for option, default in defaults.items():
        add(f"--{option.replace('_', '-')}", type=positive, metavar="N", default=default, help=f"by default {default}")
    add("--steps", type=positive, metavar="N", default=0, help="stop after so many training steps")
    add("--seed", type=int, metavar="N", default=0, help="of the random numbers, by default 0")
    add("--plot", metavar="FILE", help="write the curves as .png, .svg or .pdf; needs matplotlib")
    add("--json", metavar="FILE", help="write the final figures and the losses; - writes them to stdout")
    found = parser.parse_args()
    if found.seed < 0:
        parser.error(f"--seed must not be negative, not {found.seed}")
    for option in ("plot", "json"):  # what would fail after the training fails before it
        file = getattr(found, option)
        if file and not Path(file).absolute().parent.is_dir():
            parser.error(f"--{option}: there is no folder {Path(file).absolute().parent}")
    if found.plot and not importlib.util.find_spec("matplotlib"):
        parser.error("--plot needs matplotlib: pip install 'ggmlpy_ag[plot]'")
    if found.plot and Path(found.plot).suffix not in (".png", ".svg", ".pdf"):
        parser.error(f"--plot writes .png, .svg or .pdf, not {found.plot}")
    try:
        ag.device(found.device)
    except ValueError as error:
        parser.error(str(error))
    return found


def positive(text: str) -> int:
    """An integer from 1 on."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {number}")
    return number


def load_digits(*shape: int) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """1,797 scans of handwritten digits of 8 x 8 pixels (the UCI set of Alpaydin and Kaynak, from scikit-learn).

    Four fifths for training and the rest for the test, always the same: images (n, *shape) in [0, 1], and labels (n,).
    """
    try:
        from sklearn import datasets
    except ImportError:
        sys.exit("This demo needs scikit-learn for its data: pip install 'ggmlpy_ag[digits]'")
    images, labels = datasets.load_digits(return_X_y=True)
    images = (images / 16).astype(np.float32).reshape(-1, *shape)
    order = np.random.default_rng(0).permutation(len(labels))
    test, training = order[: len(order) // 5], order[len(order) // 5 :]
    return (images[training], labels[training]), (images[test], labels[test])


def accuracy(model: ag.nn.Module, images: np.ndarray, labels: np.ndarray) -> float:
    """The share of the images that the model puts into the right class."""
    model.eval()
    with ag.no_grad():
        predicted = ag.argmax(model(ag.tensor(images)), axis=1).numpy()
    model.train()
    return float((predicted == labels).mean())
