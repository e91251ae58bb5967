"""A small training for the tests of optimizers: parameters of several shapes, each in a bowl of its own."""

from __future__ import annotations

from typing import Any

import numpy as np

import ggmlpy_ag as ag
from ggmlpy_ag.optim import SGD, Adagrad, Adam, AdamW, Lion, Optimizer, RMSprop

SHAPES = ((3, 5), (7,), (), (2, 3, 4))
STEPS = 20
CASES: list[tuple[type[Optimizer], dict[str, Any]]] = [
    (SGD, {"lr": 0.1}),
    (SGD, {"lr": 0.1, "weight_decay": 0.05}),
    (SGD, {"lr": 0.05, "momentum": 0.9}),
    (SGD, {"lr": 0.05, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.05}),
    (SGD, {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.05, "nesterov": True}),
    (Adam, {"lr": 0.02}),
    (Adam, {"lr": 0.02, "betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": 0.1}),
    (AdamW, {"lr": 0.02}),
    (AdamW, {"lr": 0.02, "betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": 0.1}),
    (RMSprop, {}),
    (RMSprop, {"lr": 0.02, "alpha": 0.9, "eps": 1e-6, "weight_decay": 0.1, "momentum": 0.8}),
    (RMSprop, {"lr": 0.005, "alpha": 0.9, "momentum": 0.5, "centered": True}),
    (Adagrad, {}),
    (Adagrad, {"lr": 0.1, "lr_decay": 0.05, "weight_decay": 0.1, "initial_accumulator_value": 0.5, "eps": 1e-6}),
    (Lion, {"lr": 0.01}),
    (Lion, {"lr": 0.02, "betas": (0.8, 0.95), "weight_decay": 0.1}),
]


def start() -> list[np.ndarray]:
    """Where the parameters begin."""
    rng = np.random.default_rng(0)
    return [np.asarray(rng.standard_normal(shape), np.float32) for shape in SHAPES]


def gradient(values: np.ndarray, i: int) -> np.ndarray:
    """The gradient of a bowl that lies elsewhere for each parameter: sum((w - i)**2 / 2 + sin(w))."""
    return values - i + np.cos(values)


def train(optimizer: Optimizer, params: list[ag.Tensor], steps: int = STEPS) -> None:
    """Step after step down the bowls."""
    for _ in range(steps):
        for i, p in enumerate(params):
            slope = np.asarray(gradient(p.numpy().astype(np.float64), i), np.float32)
            p.grad = ag.tensor(slope, device=p.device)
        optimizer.step()
