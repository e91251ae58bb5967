"""scripts/compare_memory.py: what PyTorch and this library save, as docs/memory-pytorch.md tells it."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def script() -> Any:
    pytest.importorskip("torch")
    spec = importlib.util.spec_from_file_location("compare_memory", ROOT / "scripts" / "compare_memory.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_perceptron(script: Any, device: str) -> None:
    network = script.perceptron()
    (mine, freed), theirs = script.ours(network, device), script.theirs(network)
    np.testing.assert_allclose(mine.loss, theirs.loss, rtol=1e-5)  # it is the same network
    assert (theirs.naive, theirs.once, theirs.only_tape) == (1_209_348, 942_084, 267_268)
    assert freed == mine.only_tape == theirs.only_tape - 4  # the sum of the targets' weights
    assert mine.once == theirs.once - 4 - 128 * 4  # int32 targets
    assert mine.naive == theirs.naive - 4 - 128 * 4 - 128 * 10 * 4  # log-softmax is saved there twice
    assert mine.unsaved == theirs.unsaved == (784 * 256 + 256 + 256 + 10) * 4


def test_transformer_block(script: Any, device: str) -> None:
    network = script.transformer_block()
    (mine, freed), theirs = script.ours(network, device), script.theirs(network)
    np.testing.assert_allclose(mine.loss, theirs.loss, rtol=1e-4, atol=0.05)
    tokens, width, heads = 16 * 64, 64, 4
    statistics = (4 * tokens + tokens * heads) * 4  # mean and deviation of two norms, log-sum-exp of attention
    assert freed == mine.only_tape == theirs.only_tape - statistics
    assert mine.once == theirs.once - statistics - 3 * width * 4  # biases of norms, the weight of the first
    assert mine.naive == theirs.naive - (theirs.once - mine.once) - tokens * width * 4  # the attention's result


@pytest.mark.parametrize("name", ["mlp", "block"])
def test_the_docs_have_what_it_prints(script: Any, name: str) -> None:
    network = script.NETWORKS[name]()
    mine, freed = script.ours(network, "cpu")
    page = (ROOT / "docs" / "memory-pytorch.md").read_text("utf-8")
    assert script.table(network.title, mine, script.theirs(network), freed) in page


def test_other_tools_are_optional(script: Any) -> None:
    network = script.perceptron()
    assert script.ask("no-such-package", script.theirs, network) == "skipped: pip install no-such-package"

    def broken(network: Any) -> dict[str, int]:
        raise AttributeError("moved")

    assert script.ask("torch", broken, network) == "failed: AttributeError: moved"
    found = script.ask("torch", script.mem_tracker, network)
    assert found["activation"] == script.theirs(network).only_tape + 4  # and the loss


def test_json(script: Any, capsys: pytest.CaptureFixture[str]) -> None:
    script.main(["--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["networks"]["mlp"]["pytorch"]["naive"] == 1_209_348
    assert {"dtype": "int64", "bytes": 1024, "count": 1} in found["networks"]["mlp"]["pytorch"]["storages"]
    assert set(found["networks"]["block"]["tools"]) == {"mem_tracker", "torchlens", "pytorch_memlab"}
