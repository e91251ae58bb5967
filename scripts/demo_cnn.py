"""Train a convolutional network on real handwritten digits.

Ends with status 1 when the test accuracy stays below 0.97.

    python -m ggmlpy_ag demo cnn --device vulkan
"""

from __future__ import annotations

from demo_tools import Run, accuracy, load_digits

import ggmlpy_ag as ag
from ggmlpy_ag import nn


def network() -> nn.Sequential:
    """Images (n, 1, 8, 8) -> logits (n, 10)."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1, bias=False),  # the batch norm has a bias
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1, bias=False),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),  # 8 x 8 -> 4 x 4
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(32 * 4 * 4, 10),
    )


def main() -> int:
    run = Run("cnn", __doc__, "test accuracy", goal=0.97, epochs=5)
    training, test = load_digits(1, 8, 8)
    loader = ag.data.DataLoader(training, run.options.batch_size, shuffle=True)
    model = network()
    run.print(nn.summary(model, ag.tensor(test[0][:1])))
    optimizer = ag.optim.AdamW(model.parameters())
    schedule = ag.optim.lr.OneCycleLR(optimizer, max_lr=1e-2, total_steps=len(loader) * run.options.epochs)
    for _ in run.epochs():
        for x, y in run.batches(loader):
            with ag.grad_tape():
                loss = ag.cross_entropy_loss(model(x), y)
            ag.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            run.loss(loss)
        run.score(accuracy(model, *test))
    return run.finish()


if __name__ == "__main__":
    raise SystemExit(main())
