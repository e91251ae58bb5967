"""A small training, and as a program: 2,000 steps of it in a process of their own, where nothing else moves memory.

    python training.py DEVICE keep|drop

prints how many bytes the process grew after a warm-up, and how many different figures of live and of reserved bytes
there were.
"""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

import numpy as np

import ggmlpy_ag as ag


class Training:
    """A small network and its data; `step` leaves nothing behind but what its caller binds."""

    def __init__(self, batch=16, sizes=(16, 32, 4)):
        rng = np.random.default_rng(0)
        self.layers = [
            (ag.param(rng.uniform(-0.3, 0.3, (m, n))), ag.param(np.zeros(m)))
            for n, m in zip(sizes, sizes[1:], strict=False)
        ]
        self.x = rng.random((batch, sizes[0]), np.float32)
        self.labels = rng.integers(0, sizes[-1], batch)
        self.optimizer = ag.optim.AdamW([p for layer in self.layers for p in layer], lr=0.003)

    def forward(self):
        (w1, b1), (w2, b2) = self.layers
        h = (ag.tensor(self.x) @ w1.T + b1).relu()
        return h, ag.cross_entropy_loss(h @ w2.T + b2, self.labels)

    def step(self):
        with ag.grad_tape():
            h, loss = self.forward()
        grads = ag.backward(loss)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return h, loss, grads


def resident():
    """Bytes of this process in memory, or 0 where the system does not tell."""
    path = Path("/proc/self/statm")
    return int(path.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if path.exists() else 0


def main(device, keep):
    ag.set_fallback("error")
    ag.device(device)
    training = Training()
    kept = None
    levels, reserved = set(), set()
    before = 0
    for step in range(2300):
        result = training.step()
        kept = result if keep == "keep" else None
        del result
        if step == 300:
            gc.collect()
            before = resident()
        if step >= 300:
            stats = ag.memory_stats()
            levels.add(stats.live)
            reserved.add(stats.reserved)
    gc.collect()
    del kept
    print(resident() - before, len(levels), len(reserved))


if __name__ == "__main__":
    main(*sys.argv[1:])
