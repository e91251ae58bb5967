"""Small networks and training steps for the tests of memory reports: an MLP, a CNN and a transformer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import ggmlpy_ag as ag


class Mlp(ag.nn.Module):
    """(n, 16) -> (n, 10)."""

    def __init__(self) -> None:
        self.layers = ag.nn.Sequential(
            ag.nn.Linear(16, 64), ag.nn.Tanh(), ag.nn.Linear(64, 64), ag.nn.GELU(), ag.nn.Linear(64, 10)
        )

    def forward(self, x: Any) -> ag.Tensor:
        return self.layers(x)


class Cnn(ag.nn.Module):
    """(n, 1, 10, 10) -> (n, 10), with running statistics and dropout."""

    def __init__(self) -> None:
        self.conv, self.norm = ag.nn.Conv2d(1, 8, 3), ag.nn.BatchNorm2d(8)
        self.pool, self.drop, self.out = ag.nn.MaxPool2d(2), ag.nn.Dropout(0.3), ag.nn.Linear(8 * 4 * 4, 10)

    def forward(self, x: Any) -> ag.Tensor:
        h = self.pool(ag.relu(self.norm(self.conv(x))))
        return self.out(self.drop(h.flatten(1)))


class Transformer(ag.nn.Module):
    """Integers (n, length) -> (n, 20, length)."""

    def __init__(self, blocks: int = 2) -> None:
        self.embedding = ag.nn.Embedding(20, 32)
        self.blocks = ag.nn.ModuleList([ag.nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1) for _ in range(blocks)])
        self.out = ag.nn.Linear(32, 20)

    def forward(self, x: Any) -> ag.Tensor:
        h = self.embedding(x)
        for block in self.blocks:
            h = block(h)
        return self.out(h).transpose(1, 2)


def inputs(kind: type[ag.nn.Module], n: int) -> tuple[np.ndarray, np.ndarray]:
    """A batch of n for a network."""
    rng = np.random.default_rng(n)
    if kind is Transformer:
        return rng.integers(0, 20, (n, 8), np.int32), rng.integers(0, 20, (n, 8), np.int32)
    shape = (n, 16) if kind is Mlp else (n, 1, 10, 10)
    return rng.standard_normal(shape, np.float32), rng.integers(0, 10, n, np.int32)


@dataclass
class Training:
    """A network, its optimizer, and a batch that is on the device or not."""

    kind: type[ag.nn.Module]
    optimizer_of: Callable[[ag.nn.Module], Any] = lambda model: ag.optim.AdamW(model, lr=0.01)
    batch: int = 8
    passes: int = 1  # backward passes a step, whose gradients add up
    clip: bool = False
    forget: str = "after"  # the step, or before it
    dtype: str = "float32"
    upload: bool = True
    read: bool = False

    def __post_init__(self) -> None:
        ag.manual_seed(3)
        self.model = self.kind()
        if self.dtype != "float32":
            self.model.to(dtype=self.dtype)
        self.optimizer = self.optimizer_of(self.model)
        self.x, self.y = self.data(self.batch)

    def data(self, n: int) -> tuple[Any, Any]:
        x, y = inputs(self.kind, n)
        return (ag.tensor(x), ag.tensor(y)) if self.upload else (x, y)

    def loss(self, x: Any, y: Any) -> ag.Tensor:
        return ag.cross_entropy_loss(self.model(x), y)

    def step(self, x: Any, y: Any) -> None:
        if self.forget == "before":
            self.optimizer.zero_grad()
        for _ in range(self.passes):
            with ag.grad_tape():
                loss = self.loss(x, y)
            ag.backward(loss)
            if self.read:
                float(loss)
        if self.clip:
            ag.optim.clip_grad_norm(self.model, 1.0)
        self.optimizer.step()
        if self.forget == "after":
            self.optimizer.zero_grad()

    def run(self) -> None:
        """One step with the batch."""
        self.step(self.x, self.y)

    def measured(self, step: Callable[[], Any] | None = None) -> int:
        """The peak of a real step."""
        ag.reset_peak_memory()
        (step or self.run)()
        return ag.memory_stats().peak

    def state(self) -> list[bytes]:
        """Every number of the training, to the bit."""
        saved = [*self.model.state_dict().values()]
        for arrays in self.optimizer.state_dict()["state"].values():
            saved += arrays.values()
        return [np.asarray(value).tobytes() for value in saved]
