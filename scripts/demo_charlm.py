"""Train a causal transformer, a character at a time, on the English text of Python's own help, and let it write.

The text is that of `pydoc_data.topics`, which every Python ships. The last tenth is kept for validation. Ends with
status 1 when that needs 2.6 bits a character or more.

    python scripts/demo_charlm.py --device vulkan
"""

from __future__ import annotations

import math
from pydoc_data.topics import topics

import numpy as np
from demo_tools import Progress, finish, options, train, uniform

import ggmlpy_ag as ag

WIDTH, HEADS, LAYERS, CONTEXT = 64, 4, 2, 64
GOAL = 2.6  # bits a character
EVERY = 100  # steps between two reports


class Text:
    """Characters as numbers: the printable ones of ASCII, everything else as one more."""

    def __init__(self) -> None:
        text = "\n".join(topics[name] for name in sorted(topics))
        self.alphabet = "\n" + "".join(map(chr, range(32, 127))) + "?"
        number = {c: i for i, c in enumerate(self.alphabet)}
        values = np.array([number.get(c, len(self.alphabet) - 1) for c in text], np.int32)
        cut = len(values) * 9 // 10
        self.training, self.validation = values[:cut], values[cut:]

    def batch(self, values: np.ndarray, size: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Random stretches (size, CONTEXT), and the character after each of theirs."""
        starts = rng.integers(0, len(values) - CONTEXT - 1, size)
        rows = values[starts[:, None] + np.arange(CONTEXT + 1)]
        return rows[:, :-1], rows[:, 1:]


class Block:
    """Causal self-attention with rotary positions, and a gated network (SwiGLU), each behind an RMS norm."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.attention_norm, self.network_norm = ag.param(np.ones(WIDTH)), ag.param(np.ones(WIDTH))
        self.qkv, self.out = uniform(rng, 3 * WIDTH, WIDTH), uniform(rng, WIDTH, WIDTH)
        self.gate, self.down = uniform(rng, 4 * WIDTH, WIDTH), uniform(rng, WIDTH, 2 * WIDTH)

    def parameters(self) -> list[ag.Tensor]:
        return [self.attention_norm, self.network_norm, self.qkv, self.out, self.gate, self.down]

    def __call__(self, x: ag.Tensor) -> ag.Tensor:
        n, length, _ = x.shape
        parts = ag.linear(ag.rms_norm(x, (WIDTH,), self.attention_norm), self.qkv)
        q, k, v = (p.reshape(n, length, HEADS, WIDTH // HEADS).transpose(1, 2) for p in ag.chunk(parts, 3, axis=-1))
        a = ag.scaled_dot_product_attention(ag.rope(q), ag.rope(k), v, causal=True)
        x = x + ag.linear(a.transpose(1, 2).reshape(n, length, WIDTH), self.out)
        return x + ag.linear(ag.swiglu(ag.linear(ag.rms_norm(x, (WIDTH,), self.network_norm), self.gate)), self.down)


class Model:
    """Embedding, blocks, and the embedding again as the output layer."""

    def __init__(self, characters: int, rng: np.random.Generator) -> None:
        self.embedding = ag.param(rng.standard_normal((characters, WIDTH)) * 0.05)
        self.blocks = [Block(rng) for _ in range(LAYERS)]
        self.norm = ag.param(np.ones(WIDTH))

    def parameters(self) -> list[ag.Tensor]:
        return [self.embedding, self.norm, *(p for block in self.blocks for p in block.parameters())]

    def __call__(self, characters: np.ndarray) -> ag.Tensor:
        """(n, length) -> logits (n * length, characters)."""
        x = ag.embedding(characters, self.embedding)
        for block in self.blocks:
            x = block(x)
        x = ag.rms_norm(x, (WIDTH,), self.norm)
        return ag.linear(x.reshape(-1, WIDTH), self.embedding)


def bits(model: Model, text: Text, size: int) -> float:
    """Bits a character on validation text, the same stretches each time."""
    rng = np.random.default_rng(1)
    total = 0.0
    with ag.no_grad():
        for _ in range(8):
            x, y = text.batch(text.validation, size, rng)
            total += float(ag.cross_entropy_loss(model(x), y.reshape(-1)))
    return total / 8 / math.log(2.0)


def sample(model: Model, text: Text, length: int, rng: np.random.Generator) -> str:
    """Text that the model writes, character by character, after a line break."""
    written = [0]
    with ag.no_grad():
        while len(written) <= length:
            window = np.array([written[-CONTEXT:]], np.int32)
            p = ag.softmax(model(window)[-1]).numpy().astype(np.float64)
            written.append(int(rng.choice(len(p), p=p / p.sum())))
    return "".join(text.alphabet[i] for i in written[1:])


def main() -> int:
    what = "Training a causal transformer on the text of Python's help."
    chosen = options(what, epochs=200, what="steps", batch_size=32, sample=300)
    text = Text()
    rng = np.random.default_rng(chosen.seed)
    model = Model(len(text.alphabet), rng)
    size = sum(p.size for p in model.parameters())
    print(f"{len(text.training):,} characters, {size:,} parameters")
    optimizer = ag.optim.AdamW(model.parameters(), lr=3e-3)
    losses: list[float] = []
    progress = Progress(chosen.steps)
    for step in range(1, chosen.steps + 1):
        x, y = text.batch(text.training, chosen.batch_size, rng)
        optimizer.lr = 3e-3 * min(1.0, step / 50, 2.0 * (1.02 - step / chosen.steps))  # warm up, and down at the end
        losses.append(train(optimizer, lambda: ag.cross_entropy_loss(model(x), y.reshape(-1)), 1.0))  # noqa: B023 - called at once
        progress.step(losses[-1])
        if step % EVERY == 0:
            progress.clear()
            mean = np.mean(losses[-EVERY:]) / math.log(2.0)
            print(f"step {step}: training {mean:.3f} bits, validation {bits(model, text, chosen.batch_size):.3f} bits")
    score = bits(model, text, chosen.batch_size)
    progress.clear()
    print(f"a sample:\n{sample(model, text, chosen.sample, rng)}\n")
    return finish(f"validation {score:.3f} bits per character", score < GOAL, str(GOAL), losses, chosen)


if __name__ == "__main__":
    raise SystemExit(main())
