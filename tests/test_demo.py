"""The demo as a user runs it: real digits, every device, and what it prints."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

import ggmlpy_ag as ag

pytest.importorskip("sklearn", reason="the digits are scikit-learn's")

SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "demo_digits.py"


def demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, check=False)


@lru_cache(maxsize=8)
def trained(device: str, path: Path) -> tuple[subprocess.CompletedProcess[str], np.ndarray]:
    """The demo on a device, and its losses."""
    file = path / f"losses-{device.replace(':', '-')}.txt"
    done = demo("--device", device, "--loss-file", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    return done, np.loadtxt(file)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


def test_reaches_its_goal_and_says_so(device: str, path: Path) -> None:
    done, losses = trained(device, path)
    last = done.stdout.strip().splitlines()[-1]
    found = re.fullmatch(rf"test accuracy (0\.\d+) on {device} \(reached the goal of 0\.95\)", last)
    assert found and float(found[1]) >= 0.95
    assert losses[-20:].mean() < 0.1 * losses[:5].mean()


def test_prints_the_tape_report_of_one_step(device: str, path: Path) -> None:
    text = trained(device, path)[0].stdout
    assert re.search(r"^tape memory: 6 operations, ", text, re.MULTILINE)
    for word in ("operands", "activations", "fields", "gradients", "host", "pending", "linear", "cross_entropy_loss"):
        assert re.search(rf"^ +{word} ", text, re.MULTILINE), word


def test_a_step_moves_its_batch_up_and_its_loss_down(device: str, path: Path) -> None:
    batch = 64 * 64 * 4 + 64 * 4  # pixels and labels
    assert f"one step: 2 uploads ({batch} bytes), 1 downloads (4 bytes)" in trained(device, path)[0].stdout
    assert " 0 fallbacks" in trained(device, path)[0].stdout


def test_devices_agree_on_the_loss_of_every_step(path: Path) -> None:
    curves = {info.name: trained(info.name, path)[1] for info in ag.devices()}
    reference = curves.pop("cpu")
    for name, curve in curves.items():
        np.testing.assert_allclose(curve, reference, atol=1e-3, rtol=0, err_msg=name)


def test_fails_below_its_goal() -> None:
    done = demo("--device", "cpu", "--epochs", "1")
    assert done.returncode == 1
    assert done.stdout.strip().endswith("(below the goal of 0.95)")


@pytest.mark.parametrize("wrong", [("--epochs", "0"), ("--batch-size", "-1"), ("--device", "tpu")])
def test_wrong_arguments_are_explained(wrong: tuple[str, str]) -> None:
    done = demo(*wrong)
    assert done.returncode == 2
    assert "error:" in done.stderr and "Traceback" not in done.stderr
