"""Train a gated recurrent unit, written here from the operations, to read digits row by row.

Each digit is a sequence of 8 rows of 8 pixels; the class is told from the last state. `ag.nn.GRU` is the ready-made
layer. Ends with status 1 when the test accuracy stays below 0.95.

    python -m ggmlpy_ag demo gru --device vulkan
"""

from __future__ import annotations

import numpy as np
from demo_tools import Run, accuracy, load_digits

import ggmlpy_ag as ag
from ggmlpy_ag import nn


class GRU(nn.Module):
    """One layer, by the formulas of Cho et al. 2014 in PyTorch's form: (n, length, inputs) -> last state (n, units)."""

    def __init__(self, inputs: int, units: int) -> None:
        self.units = units
        self.of_input, self.of_state = nn.Linear(inputs, 3 * units), nn.Linear(units, 3 * units)

    def step(self, x: ag.Tensor, h: ag.Tensor) -> ag.Tensor:
        """The next state, of the input's part x (n, 3 * units) and the state h (n, units)."""
        x_reset, x_update, x_new = ag.chunk(x, 3, axis=1)
        h_reset, h_update, h_new = ag.chunk(self.of_state(h), 3, axis=1)
        reset, update = ag.sigmoid(x_reset + h_reset), ag.sigmoid(x_update + h_update)
        new = ag.tanh(x_new + reset * h_new)
        return new + update * (h - new)

    def forward(self, x: ag.Tensor) -> ag.Tensor:
        parts = self.of_input(x)  # of all positions at once: (n, length, 3 * units)
        h = ag.tensor(np.zeros((x.shape[0], self.units)))
        for position in range(x.shape[1]):
            h = self.step(parts[:, position], h)
        return h


def main() -> int:
    run = Run("gru", __doc__, "test accuracy", goal=0.95, epochs=6, batch_size=32)
    training, test = load_digits(8, 8)
    loader = ag.data.DataLoader(training, run.options.batch_size, shuffle=True)
    model = nn.Sequential(GRU(8, 96), nn.Linear(96, 10))
    optimizer = ag.optim.AdamW(model.parameters())
    schedule = ag.optim.lr.OneCycleLR(optimizer, max_lr=1e-2, total_steps=len(loader) * run.options.epochs)
    for _ in run.epochs():
        for x, y in run.batches(loader):
            with ag.grad_tape():
                loss = ag.cross_entropy_loss(model(x), y)
            ag.backward(loss)
            ag.optim.clip_grad_norm(optimizer.params, 1.0)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            run.loss(loss)
        run.score(accuracy(model, *test))
    return run.finish()


if __name__ == "__main__":
    raise SystemExit(main())
