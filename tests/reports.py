"""Tapes for the tests of reports, and what must hold of every report."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import ggmlpy_ag as ag

TABLES = ("by_op", "by_layer", "by_line", "by_dtype", "by_device")
FIGURES = ("bytes_inputs", "bytes_snapshots", "bytes_fields")


def perceptron() -> Callable[[], ag.Tensor]:
    net = ag.nn.Sequential(ag.nn.Linear(12, 20), ag.nn.ReLU(), ag.nn.Linear(20, 3))
    x = ag.tensor(np.random.default_rng(0).random((9, 12)))
    return lambda: ag.cross_entropy_loss(net(x), np.arange(9) % 3)


def convolutional() -> Callable[[], ag.Tensor]:
    net = ag.nn.Sequential(
        ag.nn.Conv2d(2, 5, 3, padding=1), ag.nn.BatchNorm2d(5), ag.nn.ReLU(), ag.nn.MaxPool2d(2), ag.nn.Flatten(),
        ag.nn.Linear(5 * 16, 3),
    )  # fmt: skip
    x = ag.tensor(np.random.default_rng(0).random((4, 2, 8, 8)))
    return lambda: net(x).square().mean()


def transformer() -> Callable[[], ag.Tensor]:
    layer = ag.nn.TransformerEncoderLayer(16, 2, 24, dropout=0.1)
    x = ag.tensor(np.random.default_rng(0).random((2, 7, 16)))
    return lambda: layer(x).mean()


def mixed() -> Callable[[], ag.Tensor]:
    """A weight used twice and through a view, two types, an activation that stays, and named extras."""
    rng = np.random.default_rng(0)
    w = ag.param(rng.random((16, 16)))
    half = ag.param(rng.random((16, 16)), dtype="float16")
    kept = []

    def loss() -> ag.Tensor:
        h = (w @ half + w.T).tanh()
        kept[:] = [h.exp()]
        extra = ag.tensor(np.ones(50))
        y = ag.record("mine", h.detach() * 1.0, (h,), lambda g: (g,), fields={"extra": extra})
        return (kept[0] * y @ w).sum()

    return loss


MODELS = {make.__name__: make for make in (perceptron, convolutional, transformer, mixed)}


def assert_adds_up(report: ag.TapeReport) -> None:
    """Every table has the report's totals, to the byte."""
    for name in TABLES:
        table = getattr(report, name)
        assert sum(row.bytes for row in table) == report.bytes_total, name
        for figure in (*FIGURES, "bytes_pending"):
            assert sum(getattr(row, figure) for row in table) == getattr(report, figure), (name, figure)
        assert len({row.name for row in table}) == len(table)
    for name in ("by_op", "by_layer", "by_line"):
        assert sum(row.nodes for row in getattr(report, name)) == report.nodes
    rows = report.rows()
    in_memory = sum(row["bytes"] for row in rows if row["part"] != "gradients" and not row["pending"])
    assert in_memory == report.bytes_total == report.bytes_host + report.bytes_device
    assert sum(row["bytes"] for row in rows if row["part"] == "gradients") == report.bytes_grads
