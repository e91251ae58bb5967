"""Train an autoencoder on real handwritten digits: 64 pixels through 8 numbers and back.

What it has to beat is the best linear code of 8 numbers (principal components): ends with status 1 when the mean
squared error on unseen digits is not below 0.8 of that.

    python -m ggmlpy_ag demo autoencoder --device vulkan
"""

from __future__ import annotations

import numpy as np
from demo_tools import Run, load_digits

import ggmlpy_ag as ag
from ggmlpy_ag import nn

CODE = 8


class Autoencoder(nn.Module):
    """64 pixels -> `CODE` numbers -> 64 pixels between 0 and 1."""

    def __init__(self) -> None:
        self.encoder = nn.Sequential(
            nn.Linear(64, 128),
            nn.GELU(),
            nn.Linear(128, 64),
            nn.GELU(),
            nn.Linear(64, CODE),
        )
        self.decoder = nn.Sequential(
            nn.Linear(CODE, 64),
            nn.GELU(),
            nn.Linear(64, 128),
            nn.GELU(),
            nn.Linear(128, 64),
            nn.Sigmoid(),
        )

    def forward(self, x: ag.Tensor) -> ag.Tensor:
        return self.decoder(self.encoder(x))


def linear_error(images: np.ndarray, unseen: np.ndarray) -> float:
    """Mean squared error of the best linear code of that size, fitted to `images`."""
    mean = images.mean(0)
    axes = np.linalg.svd(images - mean, full_matrices=False)[2][:CODE]
    back = (unseen - mean) @ axes.T @ axes + mean
    return float(np.mean((unseen - back) ** 2))


def shown(image: np.ndarray) -> list[str]:
    """The 8 x 8 pixels as text."""
    return ["".join(" .:-=+*#%@"[int(9.99 * v)] * 2 for v in row) for row in image.reshape(8, 8)]


def main() -> int:
    run = Run(
        "autoencoder",
        __doc__,
        f"error relative to {CODE} principal components",
        0.8,
        lower=True,
        epochs=20,
        batch_size=32,
    )
    (images, _), (unseen, _) = load_digits(64)
    linear = linear_error(images, unseen)
    loader = ag.data.DataLoader(images, run.options.batch_size, shuffle=True)
    model = Autoencoder()
    optimizer = ag.optim.AdamW(model.parameters(), weight_decay=0.0)
    schedule = ag.optim.lr.OneCycleLR(optimizer, max_lr=8e-3, total_steps=len(loader) * run.options.epochs)
    for _ in run.epochs():
        for x in run.batches(loader):
            with ag.grad_tape():
                loss = ag.mse_loss(model(x), x)
            ag.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            run.loss(loss)
        with ag.no_grad():
            back = model(ag.tensor(unseen)).numpy()
        run.score(float(np.mean((unseen - back) ** 2)) / linear)
    for left, right in zip(shown(unseen[0]), shown(back[0]), strict=True):
        run.print(f"  {left}  ->  {right}")
    return run.finish()


if __name__ == "__main__":
    raise SystemExit(main())
