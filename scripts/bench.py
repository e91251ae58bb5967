"""Benchmarks as ratios against a peer measured in the same run.

    python scripts/bench.py mlp        # a training step of 784-256-256-10 at batch 128 with AdamW, against PyTorch
    python scripts/bench.py report     # the memory report of a tape of 10,000 nodes, against recording that tape

Both sides take turns in rounds of steps, so that a busy machine slows both; what counts is the ratio of the medians
of a round, and the median of those ratios. PyTorch is optional: without it only our own times are printed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable

import numpy as np

# PyTorch first: imported second it would share ggml's OpenMP library, whose short spins (see backend/library.py) cost
# PyTorch nearly half its speed, and the comparison would flatter us.
try:
    import torch
except ImportError:
    torch = None

import ggmlpy_ag as ag

WIDTHS = (784, 256, 256, 10)
BATCH = 128


def make_data() -> tuple[np.ndarray, np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
    """Inputs, labels, and (weight, bias) of each layer, drawn as PyTorch's Linear draws them."""
    rng = np.random.default_rng(0)
    layers = []
    for n_in, n_out in zip(WIDTHS, WIDTHS[1:], strict=False):
        bound = 1 / np.sqrt(n_in)
        weight, bias = rng.uniform(-bound, bound, (n_out, n_in)), rng.uniform(-bound, bound, n_out)
        layers.append((weight.astype(np.float32), bias.astype(np.float32)))
    return rng.random((BATCH, WIDTHS[0]), np.float32), rng.integers(0, WIDTHS[-1], BATCH), layers


def our_step() -> Callable[[], float]:
    images, labels, layers = make_data()
    x, y = ag.tensor(images), ag.tensor(labels)
    params = [(ag.param(w), ag.param(b)) for w, b in layers]
    optimizer = ag.optim.AdamW([p for layer in params for p in layer], lr=1e-3)

    def step() -> float:
        with ag.grad_tape():
            h = x
            for w, b in params[:-1]:
                h = ag.relu(ag.linear(h, w, b))
            loss = ag.cross_entropy_loss(ag.linear(h, *params[-1]), y)
        ag.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        return float(loss)

    return step


def torch_step() -> Callable[[], float] | None:
    if torch is None:
        return None
    images, labels, layers = make_data()
    x, y = torch.tensor(images), torch.tensor(labels)
    params = [tuple(torch.nn.Parameter(torch.tensor(v)) for v in layer) for layer in layers]
    optimizer = torch.optim.AdamW([p for layer in params for p in layer], lr=1e-3)

    def step() -> float:
        optimizer.zero_grad()
        h = x
        for w, b in params[:-1]:
            h = torch.relu(torch.nn.functional.linear(h, w, b))
        loss = torch.nn.functional.cross_entropy(torch.nn.functional.linear(h, *params[-1]), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def times(step: Callable[[], float], steps: int) -> list[float]:
    """Milliseconds of each step."""
    found = []
    for _ in range(steps):
        start = time.perf_counter()
        step()
        found.append(1e3 * (time.perf_counter() - start))
    return found


def load() -> str:
    return f"{os.getloadavg()[0]:.2f}" if hasattr(os, "getloadavg") else "unknown"


def mlp(rounds: int, steps: int) -> None:
    """Time the training step; print the ratio to PyTorch eager."""
    ours, theirs = our_step(), torch_step()
    print(f"MLP {'-'.join(map(str, WIDTHS))}, batch {BATCH}, AdamW, on {ag.device().name}; load {load()}")
    first = [ours() for _ in range(10)]
    if theirs is None:
        print("PyTorch is not installed: no ratio. `pip install torch` for one.")
    else:
        peer = [theirs() for _ in range(10)]
        gap = max(abs(a - b) for a, b in zip(first, peer, strict=True))
        print(f"losses of the first 10 steps differ by at most {gap:.1e}")
    ratios = []
    for i in range(rounds):
        a = times(ours, steps)
        text = f"round {i + 1}: ours {statistics.median(a):.2f} ms"
        if theirs is not None:
            b = times(theirs, steps)
            ratios.append(statistics.median(a) / statistics.median(b))
            text += f", PyTorch {statistics.median(b):.2f} ms, ratio {ratios[-1]:.2f}"
        print(text)
    if ratios:
        spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
        ratio = statistics.median(ratios)
        print(f"ratio to PyTorch eager: {ratio:.2f} (rounds {spread}; below 1 is faster); load {load()}")


def report(rounds: int, nodes: int) -> None:
    """Time the memory report of a deep network of small layers; print the ratio to recording its tape."""
    layers = [(ag.param(np.eye(8)), ag.param(np.zeros(8))) for _ in range(4)]
    x = ag.tensor(np.ones((4, 8)))

    def record() -> ag.Tape:
        h = x
        with ag.grad_tape() as tape:
            while len(tape) < nodes:
                for weight, bias in layers:
                    h = ag.relu(ag.linear(h, weight, bias))
        float(h.sum())
        return tape

    print(f"the report of a tape of {nodes} nodes, on {ag.device().name}; load {load()}")
    ratios = []
    for i in range(rounds):
        start = time.thread_time()
        tape = record()
        recorded = time.thread_time()
        found = ag.tape_memory(quiet=True, tape=tape)
        reported = time.thread_time()
        ratios.append((reported - recorded) / (recorded - start))
        print(
            f"round {i + 1}: recorded {len(tape)} nodes in {1e3 * (recorded - start):.0f} ms, reported "
            f"{len(found.storages)} storages in {1e3 * (reported - recorded):.0f} ms, ratio {ratios[-1]:.3f}"
        )
    spread = f"{min(ratios):.3f} to {max(ratios):.3f}"
    print(f"ratio to recording: {statistics.median(ratios):.3f} (rounds {spread}); load {load()}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Benchmarks against peers measured in the same run.")
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("mlp", help="a training step of a small network, against PyTorch eager")
    command.add_argument("--device", default=None, help="device of our side (PyTorch runs on its CPU)")
    command.add_argument("--rounds", type=int, default=9)
    command.add_argument("--steps", type=int, default=100, help="steps a round")
    command = commands.add_parser("report", help="the memory report of a tape, against recording it")
    command.add_argument("--device", default=None)
    command.add_argument("--rounds", type=int, default=9)
    command.add_argument("--nodes", type=int, default=10_000)
    options = parser.parse_args()
    ag.device(options.device)
    if options.command == "mlp":
        mlp(options.rounds, options.steps)
    else:
        report(options.rounds, options.nodes)


if __name__ == "__main__":
    main()
