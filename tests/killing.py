"""Runs that are killed at random moments and resumed, for the tests of checkpoints. POSIX only.

Every process of a run is forked from this one, which has imported everything and opened no device: ggml would not
survive that.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from resuming import STEPS, Run

from ggmlpy_ag.backend import devices

KILLS = 100
EVERY = 4  # steps between checkpoints


def trained(path: Path, say: int) -> None:
    """One process of a run, which goes on from the checkpoint. Says "s" before each save and "." after each step."""
    run = Run()
    if path.exists():
        run.load(path)

    def after() -> None:
        if run.step % EVERY == 0:
            os.write(say, b"s")
            run.save(path)
        os.write(say, b".")

    run.train(STEPS, after)


def killed(path: Path, rng: random.Random | None) -> bool:
    """Start a process, and kill it at a random moment unless it ends before; without `rng` wait for its end."""
    hear, say = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(hear)
            trained(path, say)
            status = 0
        finally:
            os._exit(status)
    os.close(say)
    with os.fdopen(hear, "rb", buffering=0) as messages:
        if rng is not None:
            # Half of them soon after a save has begun, the others soon after some step
            wanted, left = (b"s", rng.randint(1, 4)) if rng.random() < 0.5 else (b".", rng.randint(0, 3 * EVERY))
            while left and (message := messages.read(1)):
                left -= message == wanted
            time.sleep(rng.random() * 0.004)
            os.kill(child, signal.SIGKILL)
        while messages.read(1000):
            pass
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status not in (0, -signal.SIGKILL):
        sys.exit(f"a process of {path} ended with status {status}")
    return status != 0


def main(folder: str) -> None:
    """Print the number of kills, of those within a save, and of runs; which runs ended differently; what they left."""
    if devices.opened() or devices._devices is not None:
        sys.exit("ggml is in use here: it does not survive a fork")
    undisturbed = Path(folder, "undisturbed")
    killed(undisturbed, None)
    rng = random.Random(5)
    kills, within = 0, 0
    runs: list[Path] = []
    while kills < KILLS:
        runs.append(Path(folder, f"run{len(runs)}"))
        while killed(runs[-1], rng if kills < KILLS else None):
            kills += 1
            within += any(name.endswith(".tmp") for name in os.listdir(folder))
    different = [run.name for run in runs if run.read_bytes() != undisturbed.read_bytes()]
    left = sorted({*os.listdir(folder)} - {path.name for path in (undisturbed, *runs)})
    print(json.dumps({"kills": kills, "within": within, "runs": len(runs), "different": different, "left": left}))
