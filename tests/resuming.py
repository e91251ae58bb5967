"""The training run of the tests of checkpoints: all that a checkpoint holds is in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

import ggmlpy_ag as ag
from ggmlpy_ag.data import DataLoader
from ggmlpy_ag.optim.lr import WarmupCosine

STEPS = 60
BATCHES = 6  # in an epoch


class Net(ag.nn.Module):
    """An MLP with dropout, and a buffer that follows the training."""

    def __init__(self, width: int = 16) -> None:
        self.first, self.second = ag.param(ag.randn(width, 8) * 0.3), ag.param(ag.randn(3, width) * 0.3)
        self.bias = ag.param(np.zeros(width), dtype="bfloat16")
        self.register_buffer("mean", ag.tensor(np.zeros(8)))

    def forward(self, x: ag.Tensor) -> ag.Tensor:
        self.mean.copy_(self.mean * 0.9 + x.mean(axis=0) * 0.1)
        return ag.linear(ag.dropout(ag.relu(ag.linear(x, self.first, self.bias)), 0.3, self.training), self.second)


class Run:
    """Everything of a training run, and its steps."""

    def __init__(self, seed: int = 0, width: int = 16) -> None:
        ag.manual_seed(seed)
        rng = np.random.default_rng(7)
        x, y = rng.standard_normal((48, 8)), rng.integers(0, 3, 48)
        self.model = Net(width)
        self.optimizer = ag.optim.AdamW(self.model.parameters(), lr=0.02)
        self.schedule = WarmupCosine(self.optimizer, 5, STEPS)
        self.loader = DataLoader((x, y), batch_size=8, shuffle=True, seed=3)
        self.step = 0

    def save(self, path: Path) -> None:
        ag.io.save_checkpoint(path, self.model, self.optimizer, self.schedule, self.step, self.loader, {"note": [1, 2]})

    def load(self, path: Path) -> None:
        self.step = ag.io.load_checkpoint(path, self.model, self.optimizer, self.schedule, self.loader).step

    def train(self, until: int, after: Callable[[], object] = lambda: None) -> None:
        """Train up to a step; `after` is called after each."""
        while self.step < until:
            for x, y in self.loader:
                with ag.grad_tape():
                    loss = ag.cross_entropy_loss(self.model(x), y)
                ag.backward(loss)
                self.optimizer.step()
                self.schedule.step()
                self.optimizer.zero_grad()
                self.step += 1
                after()
                if self.step == until:
                    break

    def content(self, path: Path) -> bytes:
        """All that the run goes on from, to the bit: a checkpoint."""
        self.save(path)
        return path.read_bytes()
