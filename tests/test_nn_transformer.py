"""TransformerEncoderLayer: as PyTorch's with the same weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from twins import assert_twins, normal

import ggmlpy_ag as ag

N, L, D, HEADS = 2, 4, 8, 2


@pytest.mark.parametrize("norm_first", [False, True], ids=["norm last", "norm first"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("seeing", ["all", "mask", "causal"])
def test_it_equals_pytorch(norm_first: bool, activation: str, seeing: str, device: str) -> None:
    torch = pytest.importorskip("torch")
    options = {"dropout": 0.0, "activation": activation, "norm_first": norm_first, "bias": seeing != "mask"}
    theirs = torch.nn.TransformerEncoderLayer(D, HEADS, 12, batch_first=True, **options)
    mine = ag.nn.TransformerEncoderLayer(D, HEADS, 12, **options)
    assert sorted(mine.state_dict()) == sorted(theirs.state_dict())
    kept = np.array([[1, 1, 0, 0], [0, 1, 0, 1], [1, 1, 1, 1], [0, 0, 1, 0]], bool)
    ours: dict[str, Any] = {"all": {}, "mask": {"mask": kept}, "causal": {"causal": True}}[seeing]
    hidden = {"all": None, "mask": ~kept, "causal": ~np.tri(L, dtype=bool)}[seeing]
    assert_twins(
        mine,
        theirs,
        [normal(N, L, D)],
        device,
        lambda layer, x: layer(x, **ours),
        lambda layer, x: layer(x, src_mask=None if hidden is None else torch.tensor(hidden)),
    )


def test_dropout_everywhere_leaves_the_normalized_input(device: str) -> None:
    layer = ag.nn.TransformerEncoderLayer(D, HEADS, 12, dropout=1.0)
    x = normal(N, L, D)
    expected = ag.layer_norm(ag.layer_norm(x, D), D).numpy()
    np.testing.assert_allclose(layer(x).numpy(), expected, 1e-5, 1e-5)
    assert np.abs(layer.eval()(x).numpy() - expected).max() > 1e-2


def test_the_tape_knows_its_parts() -> None:
    layer = ag.nn.TransformerEncoderLayer(D, HEADS, 12)
    with ag.grad_tape() as tape:
        layer(normal(N, L, D))
    layers = {node.layer for node in tape.nodes}
    assert layers == {"", "dropout", "dropout1", "dropout2", "linear1", "linear2", "norm1", "norm2", "self_attn",
                      "self_attn.out_proj"}  # fmt: skip


def test_wrong_calls_say_what_is_wrong() -> None:
    layer = ag.nn.TransformerEncoderLayer(D, HEADS, 12)
    for error, words, call in [
        (ValueError, 'activation must be "relu" or "gelu", not \'tanh\'',
         lambda: ag.nn.TransformerEncoderLayer(D, HEADS, activation="tanh")),
        (ValueError, "num_heads must divide embed_dim 8, not 3", lambda: ag.nn.TransformerEncoderLayer(D, 3)),
        (TypeError, "norm_first must be True or False",
         lambda: ag.nn.TransformerEncoderLayer(D, HEADS, norm_first="yes")),
        (ValueError, r"\(2, 4, 7\)", lambda: layer(normal(N, L, D - 1))),
        (ValueError, r"shapes \(3, 3\) and", lambda: layer(normal(N, L, D), np.ones((3, 3), bool))),
    ]:  # fmt: skip
        with pytest.raises(error, match=words):
            call()
