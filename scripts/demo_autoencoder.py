"""Train an autoencoder on real handwritten digits: 64 pixels through 8 numbers and back.

The figure to beat is that of the best linear code of 8 numbers (principal components): ends with status 1 when the mean
squared error on unseen digits is not below 0.8 of that.

    python scripts/demo_autoencoder.py --device vulkan
"""

from __future__ import annotations

import numpy as np
from demo_tools import Progress, batches, finish, load_digits, options, train, uniform

import ggmlpy_ag as ag

CODE = 8
WIDTHS = (64, 128, 64, CODE, 64, 128, 64)
GOAL = 0.8


class Autoencoder:
    """Linear layers with GELU between them, but around the code; the pixels come out of a sigmoid."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.layers = [
            (uniform(rng, n_out, n_in), ag.param(np.zeros(n_out)))
            for n_in, n_out in zip(WIDTHS, WIDTHS[1:], strict=False)
        ]

    def parameters(self) -> list[ag.Tensor]:
        return [p for layer in self.layers for p in layer]

    def __call__(self, x: ag.Tensor) -> ag.Tensor:
        for weight, bias in self.layers[:-1]:
            x = ag.linear(x, weight, bias)
            if x.shape[1] != CODE:
                x = ag.gelu(x)
        return ag.sigmoid(ag.linear(x, *self.layers[-1]))


def linear_error(images: np.ndarray, unseen: np.ndarray) -> float:
    """Mean squared error of the best linear code of that size, fitted to `images`."""
    mean = images.mean(0)
    axes = np.linalg.svd(images - mean, full_matrices=False)[2][:CODE]
    back = (unseen - mean) @ axes.T @ axes + mean
    return float(np.mean((unseen - back) ** 2))


def shown(image: np.ndarray) -> list[str]:
    """The 8 x 8 pixels as text."""
    return ["".join(" .:-=+*#%@"[int(9.99 * min(max(v, 0.0), 1.0))] * 2 for v in row) for row in image.reshape(8, 8)]


def main() -> int:
    chosen = options(f"Training an autoencoder ({'-'.join(map(str, WIDTHS))}) on handwritten digits.", epochs=60)
    images, _, unseen, _ = load_digits()
    rng = np.random.default_rng(chosen.seed)
    network = Autoencoder(rng)
    optimizer = ag.optim.AdamW(network.parameters(), lr=2e-3, weight_decay=0.0)
    losses: list[float] = []
    progress = Progress(-(-len(images) // chosen.batch_size) * chosen.epochs)
    for _ in range(chosen.epochs):
        for rows in batches(len(images), chosen.batch_size, rng):
            x = ag.tensor(images[rows])
            losses.append(train(optimizer, lambda: ag.mse_loss(network(x), x)))  # noqa: B023 - called at once
            progress.step(losses[-1])
    with ag.no_grad():
        back = network(ag.tensor(unseen)).numpy()
    progress.clear()
    for left, right in zip(shown(unseen[0]), shown(back[0]), strict=True):
        print(f"  {left}  ->  {right}")
    error, linear = float(np.mean((unseen - back) ** 2)), linear_error(images, unseen)
    print(f"mean squared error {error:.4f}; {linear:.4f} with {CODE} principal components")
    return finish(f"error ratio {error / linear:.3f}", error < GOAL * linear, str(GOAL), losses, chosen)


if __name__ == "__main__":
    raise SystemExit(main())
