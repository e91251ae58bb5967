"""The demos as a user runs them: real data, every device, and what they print."""

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

SCRIPTS = Path(__file__).resolve().parent.parent / "scripts"


def demo(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPTS / f"demo_{name}.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@lru_cache(maxsize=32)
def trained(name: str, path: Path, *arguments: str) -> tuple[subprocess.CompletedProcess[str], np.ndarray]:
    """A demo run with these arguments, and its losses."""
    file = path / f"{'-'.join([name, *arguments]).replace(':', '-')}.txt"
    done = demo(name, *arguments, "--loss-file", str(file))
    assert done.returncode in (0, 1) and "Traceback" not in done.stderr, done.stdout + done.stderr
    return done, np.loadtxt(file)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


# ---------------------------------------------------------------- networks of each kind

GOALS = {  # and what the last line says
    "autoencoder": r"error ratio (0\.\d+) on cpu \(reached the goal of 0\.8\)",
    "charlm": r"validation (\d\.\d+) bits per character on cpu \(reached the goal of 2\.6\)",
    "cnn": r"test accuracy (0\.\d+) on cpu \(reached the goal of 0\.97\)",
    "gru": r"test accuracy (0\.\d+) on cpu \(reached the goal of 0\.95\)",
}


@pytest.mark.parametrize("name", GOALS)
def test_every_kind_of_network_reaches_its_goal(name: str, path: Path) -> None:
    done, losses = trained(name, path, "--device", "cpu")
    assert done.returncode == 0, done.stdout
    assert re.fullmatch(GOALS[name], done.stdout.strip().splitlines()[-1]), done.stdout
    assert losses[-20:].mean() < 0.7 * losses[:5].mean()


SHORT = {"charlm": ("--steps", "20", "--batch-size", "8", "--sample", "5")}


@pytest.mark.parametrize("name", GOALS)
def test_devices_agree_on_the_first_20_losses(name: str, path: Path) -> None:
    short = SHORT.get(name, ("--epochs", "1"))
    curves = {d.name: trained(name, path, "--device", d.name, *short)[1][:20] for d in ag.devices()}
    reference = curves.pop("cpu")
    assert len(reference) == 20
    for device, curve in curves.items():
        np.testing.assert_allclose(curve, reference, rtol=1e-3, err_msg=device)


def test_the_language_model_shows_a_sample(path: Path) -> None:
    text = trained("charlm", path, "--device", "cpu")[0].stdout
    written = text.split("a sample:\n")[1]
    assert len(written) > 300 and written.count(" ") > 20


# ---------------------------------------------------------------- the demo that run.py starts


def test_reaches_its_goal_and_says_so(device: str, path: Path) -> None:
    done, losses = trained("digits", path, "--device", device)
    last = done.stdout.strip().splitlines()[-1]
    found = re.fullmatch(rf"test accuracy (0\.\d+) on {device} \(reached the goal of 0\.95\)", last)
    assert found and float(found[1]) >= 0.95
    assert losses[-20:].mean() < 0.1 * losses[:5].mean()


def test_prints_the_tape_report_of_one_step(device: str, path: Path) -> None:
    text = trained("digits", path, "--device", device)[0].stdout
    assert re.search(r"^tape memory: 6 operations, ", text, re.MULTILINE)
    for word in ("operands", "activations", "fields", "gradients", "host", "pending", "linear", "cross_entropy_loss"):
        assert re.search(rf"^ +{word} ", text, re.MULTILINE), word


def test_a_step_moves_its_batch_up_and_its_loss_down(device: str, path: Path) -> None:
    batch = 64 * 64 * 4 + 64 * 4  # pixels and labels
    assert (
        f"one step: 2 uploads ({batch} bytes), 1 downloads (4 bytes)"
        in trained("digits", path, "--device", device)[0].stdout
    )
    assert " 0 fallbacks" in trained("digits", path, "--device", device)[0].stdout


def test_devices_agree_on_the_loss_of_every_step(path: Path) -> None:
    curves = {info.name: trained("digits", path, "--device", info.name)[1] for info in ag.devices()}
    reference = curves.pop("cpu")
    for name, curve in curves.items():
        np.testing.assert_allclose(curve, reference, atol=1e-3, rtol=0, err_msg=name)


def test_fails_below_its_goal() -> None:
    done = demo("digits", "--device", "cpu", "--epochs", "1")
    assert done.returncode == 1
    assert done.stdout.strip().endswith("(missed the goal of 0.95)")


@pytest.mark.parametrize("wrong", [("--epochs", "0"), ("--batch-size", "-1"), ("--device", "tpu")])
def test_wrong_arguments_are_explained(wrong: tuple[str, str]) -> None:
    done = demo("digits", *wrong)
    assert done.returncode == 2
    assert "error:" in done.stderr and "Traceback" not in done.stderr
