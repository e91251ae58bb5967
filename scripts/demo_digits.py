"""Train a small network on real handwritten digits, and see what its tape holds.

The second step prints the tape's memory report, between backward() and zero_grad(), and what the whole step moved
between host and device. Ends with status 1 when the test accuracy stays below 0.95.

    python scripts/run.py demo                      # sets everything up first
    python -m ggmlpy_ag demo digits --device vulkan --epochs 20
"""

from __future__ import annotations

from demo_tools import Run, accuracy, load_digits

import ggmlpy_ag as ag
from ggmlpy_ag import nn


def network() -> nn.Sequential:
    """Images (n, 64) -> logits (n, 10)."""
    return nn.Sequential(
        nn.Linear(64, 128),
        nn.ReLU(),
        nn.Linear(128, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


def main() -> int:
    run = Run("digits", __doc__, "test accuracy", goal=0.95, epochs=15)
    training, test = load_digits(64)
    loader = ag.data.DataLoader(training, run.options.batch_size, shuffle=True)
    model = network()
    optimizer = ag.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in run.epochs():
        before = ag.counters()
        for x, y in run.batches(loader):
            second = len(run.losses) == 1  # the first step also makes the optimizer's state
            with ag.grad_tape():
                loss = ag.cross_entropy_loss(model(x), y)
            ag.backward(loss)
            if second:
                run.print(ag.tape_memory(quiet=True))
            optimizer.step()
            optimizer.zero_grad()
            run.loss(loss)
            if second:
                run.print(f"one step: {ag.counters() - before}")
            before = ag.counters()
        run.score(accuracy(model, *test))
    run.print(ag.memory_stats())
    return run.finish()


if __name__ == "__main__":
    raise SystemExit(main())
