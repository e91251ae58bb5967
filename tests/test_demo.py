"""The demos as a user runs them: real data, every device, and what they print and write."""

from __future__ import annotations

import contextlib
import json
import os
import re
import struct
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import child
import numpy as np
import pytest

import ggmlpy_ag as ag

pytest.importorskip("sklearn", reason="the digits are scikit-learn's")

SCRIPTS = Path(__file__).resolve().parent.parent / "scripts"
DEVICES = [info.name for info in ag.devices()]
GOALS = {"autoencoder": 0.8, "charlm": 2.6, "cnn": 0.97, "digits": 0.95, "gru": 0.95}
LESS_IS_BETTER = {"autoencoder", "charlm"}


def demo(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPTS / f"demo_{name}.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@lru_cache(maxsize=32)
def trained(name: str, *arguments: str) -> tuple[str, dict[str, Any]]:
    """What a demo with these arguments prints for people, and its figures."""
    done = demo(name, *arguments, "--json", "-")
    assert done.returncode in (0, 1) and "Traceback" not in done.stderr, done.stdout + done.stderr
    figures = json.loads(done.stdout)
    assert figures["reached"] == (done.returncode == 0)
    return done.stderr, figures


# ---------------------------------------------------------------- networks of each kind


@pytest.mark.parametrize("name", GOALS)
def test_every_kind_of_network_reaches_its_goal(name: str) -> None:
    text, figures = trained(name, "--device", "cpu")
    assert (figures["name"], figures["device"], figures["seed"]) == (name, "cpu", 0)
    assert figures["goal"] == GOALS[name]
    score, losses = figures["figure"], figures["losses"]
    assert score < GOALS[name] if name in LESS_IS_BETTER else score >= GOALS[name]
    assert score == figures["scores"][-1]
    assert np.mean(losses[-20:]) < 0.7 * np.mean(losses[:5])
    last = f"{figures['measure']} {score:.4f} on cpu (reached the goal of {GOALS[name]})"
    assert text.strip().splitlines()[-1] == last


# Scoring takes most of the time of so short a run, but for the small batch.
SHORT = {"cnn": ("--batch-size", "4"), "charlm": ("--batch-size", "2", "--sample", "5")}


@pytest.mark.parametrize("name", GOALS)
def test_devices_agree_on_the_first_20_losses(name: str) -> None:
    arguments = ("--steps", "20", *SHORT.get(name, ()))
    curves = {device: trained(name, "--device", device, *arguments)[1]["losses"] for device in DEVICES}
    reference = curves.pop("cpu")
    assert len(reference) == 20
    for device, curve in curves.items():
        np.testing.assert_allclose(curve, reference, rtol=1e-3, err_msg=device)


def test_the_language_model_shows_a_sample() -> None:
    written = trained("charlm", "--device", "cpu")[0].split("a sample:\n")[1]
    assert len(written) > 300 and written.count(" ") > 20


def test_the_autoencoder_shows_a_digit_and_what_comes_back() -> None:
    assert trained("autoencoder", "--device", "cpu")[0].count("  ->  ") == 8


# ---------------------------------------------------------------- what demo_digits shows of the tape


@pytest.mark.parametrize("device", DEVICES)
def test_prints_the_tape_report_of_one_step(device: str) -> None:
    text = trained("digits", "--device", device, "--steps", "20")[0]
    assert re.search(r"^tape memory: 6 operations, ", text, re.MULTILINE)
    for word in ("operands", "activations", "fields", "gradients", "host", "pending", "linear", "cross_entropy_loss"):
        assert re.search(rf"^ +{word} ", text, re.MULTILINE), word


@pytest.mark.parametrize("device", DEVICES)
def test_a_step_moves_its_batch_up_and_its_loss_down(device: str) -> None:
    text = trained("digits", "--device", device, "--steps", "20")[0]
    batch = 64 * 64 * 4 + 64 * 4  # pixels and labels
    assert f"one step: 2 uploads ({batch} bytes), 1 downloads (4 bytes)" in text
    assert " 0 fallbacks" in text


# ---------------------------------------------------------------- options


def test_a_seed_gives_the_same_losses_and_another_one_others() -> None:
    runs = [trained("digits", "--device", "cpu", "--steps", "5", "--seed", seed)[1]["losses"] for seed in ("0", "1")]
    assert runs[0] == trained("digits", "--device", "cpu", "--steps", "20")[1]["losses"][:5]
    assert runs[0] != runs[1]


def test_a_short_training_misses_the_goal_and_writes_its_figures_and_curves(tmp_path: Path) -> None:
    image = pytest.importorskip("matplotlib.image")
    figures, curves = tmp_path / "figures.json", tmp_path / "curves.png"
    done = demo("digits", "--device", "cpu", "--epochs", "1", "--json", str(figures), "--plot", str(curves))
    assert done.returncode == 1 and "Traceback" not in done.stderr
    lines = done.stdout.strip().splitlines()
    assert lines[0].startswith("device: cpu (cpu): ")
    assert re.fullmatch(r"test accuracy 0\.\d{4} on cpu \(missed the goal of 0\.95\)", lines[-1])
    assert re.fullmatch(r"epoch  1: loss \d\.\d{4}, test accuracy 0\.\d{4}", lines[-4])

    written = json.loads(figures.read_text("utf-8"))
    assert written["reached"] is False and len(written["losses"]) == 23 and written["seconds"] > 0

    pixels = image.imread(curves)
    assert pixels.shape[0] > 400 and pixels.shape[1] > 600
    colours = set(map(tuple, (pixels[..., :3] * 255).round().astype(int).reshape(-1, 3).tolist()))
    assert {(31, 119, 180), (255, 127, 14)} <= colours  # of the losses and of the scores: C0 and C1 of matplotlib


def without(package: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """demo_digits where a package cannot be imported."""
    program = f"import sys; sys.modules[{package!r}] = None; from ggmlpy_ag.cli import main; main(sys.argv[1:])"
    return child.run(program, "demo", "digits", "--device", "cpu", "--steps", "3", *arguments)


def test_without_matplotlib_a_plot_is_refused_at_once() -> None:
    done = without("matplotlib", "--plot", "curves.png")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--plot needs matplotlib: pip install 'ggmlpy_ag[plot]'" in done.stderr


def test_without_scikit_learn_it_says_what_is_missing() -> None:
    done = without("sklearn")
    assert done.returncode == 1
    assert done.stderr == "This demo needs scikit-learn for its data: pip install 'ggmlpy_ag[digits]'\n"


def test_without_tqdm_there_is_a_line_for_each_epoch() -> None:
    done = without("tqdm")
    assert done.returncode == 1 and done.stderr == ""
    assert re.search(r"^epoch  1: loss ", done.stdout, re.MULTILINE)


@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
def test_a_terminal_gets_a_progress_bar() -> None:
    pytest.importorskip("tqdm")
    import fcntl
    import termios

    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 25, 80, 0, 0))  # a bar needs columns
    command = [sys.executable, str(SCRIPTS / "demo_digits.py"), "--device", "cpu", "--steps", "3"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # the end of a pseudo-terminal
            while part := os.read(ours, 4096):
                shown += part
    os.close(ours)
    assert process.returncode == 1
    assert b"3/3" in shown and b"loss=" in shown


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (("--epochs", "0"), "argument --epochs: must be at least 1, not 0"),
        (("--batch-size", "-1"), "argument --batch-size: must be at least 1, not -1"),
        (("--steps", "many"), "argument --steps: invalid positive value: 'many'"),
        (("--seed", "-3"), "--seed must not be negative, not -3"),
        (("--device", "tpu"), "no device 'tpu'; there are "),
        (("--plot", "curves.txt"), "--plot writes .png, .svg or .pdf, not curves.txt"),
        (("--plot", "nowhere/curves.png"), "--plot: there is no folder "),
        (("--json", "nowhere/figures.json"), "--json: there is no folder "),
    ],
)
def test_wrong_arguments_are_explained(wrong: tuple[str, str], message: str) -> None:
    done = demo("digits", *wrong)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("usage: python -m ggmlpy_ag demo digits ")
    assert message in done.stderr and "Traceback" not in done.stderr
