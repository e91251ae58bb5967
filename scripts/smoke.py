"""Try an installed package, a line for each thing that works; ends with an error at the first that does not.

It needs nothing but the package, so that it can run in a fresh environment (the demo is left out without scikit-learn):

    python -m build
    python -m venv fresh
    fresh/bin/python -m pip install dist/ggmlpy_ag-*.whl
    fresh/bin/python scripts/smoke.py
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np

import ggmlpy_ag as ag


def command(*arguments: str, status: tuple[int, ...] = (0,)) -> str:
    """What `python -m ggmlpy_ag` prints with these arguments."""
    done = subprocess.run([sys.executable, "-m", "ggmlpy_ag", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode in status, f"{arguments} ended with {done.returncode}: {done.stderr}"
    return done.stdout


def train() -> tuple[float, float]:
    """The loss before and after 20 steps of a linear model."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((64, 8))
    y = x @ rng.standard_normal((8, 2))
    weight = ag.param(np.zeros((2, 8)), device="cpu")
    optimizer = ag.optim.AdamW([weight], lr=0.1)
    losses = []
    for _ in range(20):
        with ag.grad_tape():
            loss = ag.mse_loss(ag.linear(ag.tensor(x, device="cpu"), weight), y)
        ag.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss))
    return losses[0], losses[-1]


def main() -> None:
    place = Path(ag.__file__).parent
    version = importlib.metadata.version("ggmlpy_ag")
    assert version == ag.__version__, f"the metadata say {version}, the package {ag.__version__}"
    print(f"import: ggmlpy_ag {version} in {place}")

    typed = place / "py.typed"
    assert typed.exists(), f"{typed} is missing: type checkers would ignore the annotations"
    print("types: py.typed is there")

    before, after = train()
    assert after < 0.5 * before, f"the loss was {before} and is {after}"
    print(f"training: the loss fell from {before:.3f} to {after:.3f}")

    infos = json.loads(command("devices", "--json"))
    assert [info["name"] for info in infos] == [info.name for info in ag.devices()], infos
    print(f"devices: {', '.join(info['name'] for info in infos)}")

    names = [line.split()[0] for line in command("demo").splitlines()]
    assert "digits" in names, names
    print(f"demos: {', '.join(names)}")

    if not importlib.util.find_spec("sklearn"):
        print("demo digits: left out, as scikit-learn is not installed")
        return
    # status 1: so short a training misses the goal
    figures = json.loads(command("demo", "digits", "--device", "cpu", "--epochs", "1", "--json", "-", status=(0, 1)))
    losses = figures["losses"]
    assert losses[-1] < losses[0], losses
    print(f"demo digits: the loss fell from {losses[0]:.3f} to {losses[-1]:.3f}")


if __name__ == "__main__":
    main()
