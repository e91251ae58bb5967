"""Train a causal transformer on the English of Python's own help, character by character, and let it write.

The last tenth of the text is kept for validation. Ends with status 1 when that needs 2.6 bits a character or more.

    python -m ggmlpy_ag demo charlm --device vulkan
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pydoc_data.topics import topics  # every Python ships it

import numpy as np
from demo_tools import Run

import ggmlpy_ag as ag
from ggmlpy_ag import nn

WIDTH, HEADS, LAYERS = 64, 4, 2
ALPHABET = "\n" + "".join(map(chr, range(32, 127))) + "?"  # the last stands for everything else


def load_text() -> tuple[np.ndarray, np.ndarray]:
    """The characters as numbers, for training and for validation."""
    number = {c: i for i, c in enumerate(ALPHABET[:-1])}
    text = "\n".join(topics[name] for name in sorted(topics))
    values = np.array([number.get(c, len(ALPHABET) - 1) for c in text], np.int32)
    return values[: len(values) * 9 // 10], values[len(values) * 9 // 10 :]


def stretches(values: np.ndarray, size: int, length: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Random stretches of the text (size, length), and the character after each of theirs, without end."""
    rng = np.random.default_rng(seed)
    while True:
        starts = rng.integers(0, len(values) - length, size)
        rows = values[starts[:, None] + np.arange(length + 1)]
        yield rows[:, :-1], rows[:, 1:]


class Block(nn.Module):
    """Causal self-attention with rotary positions, and a gated network (SwiGLU), each behind an RMS norm."""

    def __init__(self) -> None:
        self.attention_norm, self.network_norm = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.gate, self.down = nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.Linear(2 * WIDTH, WIDTH, bias=False)

    def forward(self, x: ag.Tensor) -> ag.Tensor:
        n, length, _ = x.shape
        parts = ag.chunk(self.qkv(self.attention_norm(x)), 3, axis=-1)
        q, k, v = (part.reshape(n, length, HEADS, WIDTH // HEADS).transpose(1, 2) for part in parts)
        heads = ag.scaled_dot_product_attention(ag.rope(q), ag.rope(k), v, causal=True)
        x = x + self.out(heads.transpose(1, 2).reshape(n, length, WIDTH))
        return x + self.down(ag.swiglu(self.gate(self.network_norm(x))))


class Model(nn.Module):
    """Embedding, blocks, and the embedding again as the output: (n, length) -> logits (n * length, characters)."""

    def __init__(self) -> None:
        self.embedding = nn.Embedding(len(ALPHABET), WIDTH)
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm = nn.RMSNorm(WIDTH)

    def forward(self, characters: ag.Tensor) -> ag.Tensor:
        x = self.norm(self.blocks(self.embedding(characters)))
        return ag.linear(x.reshape(-1, WIDTH), self.embedding.weight)


@ag.no_grad()
def write(model: Model, length: int, context: int, seed: int) -> str:
    """Text that the model writes, character by character, after a line break; it sees the last `context` of them."""
    rng = np.random.default_rng(seed)
    written = [0]
    while len(written) <= length:
        p = ag.softmax(model(ag.tensor([written[-context:]]))[-1]).numpy().astype(np.float64)
        written.append(int(rng.choice(len(p), p=p / p.sum())))
    return "".join(ALPHABET[i] for i in written[1:])


def main() -> int:
    defaults = {"epochs": 5, "batch_size": 16, "context": 64, "sample": 300}
    run = Run("charlm", __doc__, "validation bits a character", 2.6, lower=True, **defaults)
    size, context, seed = run.options.batch_size, run.options.context, run.options.seed
    training, validation = load_text()
    loader = ag.data.DataLoader(stretches(training, size, context, seed), batch_size=None, steps_per_epoch=50)
    unseen = list(islice(stretches(validation, size, context, 0), 16))
    model = Model()
    optimizer = ag.optim.AdamW(model.parameters())
    schedule = ag.optim.lr.OneCycleLR(optimizer, max_lr=8e-3, total_steps=len(loader) * run.options.epochs)
    for _ in run.epochs():
        for x, y in run.batches(loader):
            with ag.grad_tape():
                loss = ag.cross_entropy_loss(model(x), y.reshape(-1))
            ag.backward(loss)
            ag.optim.clip_grad_norm(optimizer.params, 1.0)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            run.loss(loss)
        with ag.no_grad():
            bits = [float(ag.cross_entropy_loss(model(x), y.reshape(-1))) / np.log(2.0) for x, y in unseen]
        run.score(np.mean(bits))
    run.print(f"a sample:\n{write(model, run.options.sample, context, seed)}\n")
    return run.finish()


if __name__ == "__main__":
    raise SystemExit(main())
