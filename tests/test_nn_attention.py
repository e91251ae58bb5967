"""MultiheadAttention: as PyTorch's with the same weights; masks, grouped heads, dropout, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from twins import assert_twins, normal

import ggmlpy_ag as ag

N, L, S, E, HEADS = 2, 4, 5, 6, 3


def theirs_called(**options: Any) -> Any:
    """PyTorch's layer, whose key and value have no default, and which also returns the weights."""

    def call(layer: Any, *xs: Any) -> Any:
        q, k, v = (*xs, *[xs[-1]] * (3 - len(xs)))
        return layer(q, k, v, need_weights=False, **options)[0]

    return call


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize(
    "shapes",
    [[(N, L, E)], [(N, L, E), (N, S, E)], [(N, L, E), (N, S, E), (N, S, E)]],
    ids=["self", "cross", "three"],
)
def test_it_equals_pytorch(shapes: list[tuple[int, ...]], bias: bool, device: str) -> None:
    torch = pytest.importorskip("torch")
    theirs = torch.nn.MultiheadAttention(E, HEADS, bias=bias, batch_first=True)
    mine = ag.nn.MultiheadAttention(E, HEADS, bias=bias)
    assert list(mine.state_dict()) == list(theirs.state_dict())
    arrays = [normal(*shape, seed=i) for i, shape in enumerate(shapes)]
    assert_twins(mine, theirs, arrays, device, their_call=theirs_called())


def test_other_extents_of_key_and_value_equal_pytorch(device: str) -> None:
    torch = pytest.importorskip("torch")
    theirs = torch.nn.MultiheadAttention(E, HEADS, kdim=7, vdim=8, batch_first=True)
    mine = ag.nn.MultiheadAttention(E, HEADS, kdim=7, vdim=8)
    assert sorted(mine.state_dict()) == sorted(theirs.state_dict())
    assert_twins(mine, theirs, [normal(N, L, E), normal(N, S, 7), normal(N, S, 8)], device, their_call=theirs_called())


def test_the_query_may_also_be_the_value(device: str) -> None:
    torch = pytest.importorskip("torch")
    theirs = torch.nn.MultiheadAttention(E, HEADS, batch_first=True)
    assert_twins(
        ag.nn.MultiheadAttention(E, HEADS),
        theirs,
        [normal(N, L, E), normal(N, L, E, seed=1)],
        device,
        lambda layer, x, y: layer(x, y, x),
        lambda layer, x, y: layer(x, y, x, need_weights=False)[0],
    )


def test_masks_equal_pytorch_turned_round(device: str) -> None:
    torch = pytest.importorskip("torch")
    theirs = torch.nn.MultiheadAttention(E, HEADS, batch_first=True)
    mine = ag.nn.MultiheadAttention(E, HEADS)
    hidden = ~np.tri(L, dtype=bool)  # PyTorch hides what is True
    short = np.array([[False, False, False, True], [False] * L])
    added = normal(L, L, seed=9)
    for options, their_options in [
        ({"causal": True}, {"attn_mask": torch.tensor(hidden)}),
        ({"mask": ~hidden}, {"attn_mask": torch.tensor(hidden)}),
        ({"mask": added}, {"attn_mask": torch.tensor(added)}),
        ({"mask": ~short[:, None, None]}, {"key_padding_mask": torch.tensor(short)}),
        (
            {"mask": ~short[:, None, None], "causal": True},
            {"attn_mask": torch.tensor(hidden), "key_padding_mask": torch.tensor(short)},
        ),
    ]:
        assert_twins(
            mine,
            theirs,
            [normal(N, L, E)],
            device,
            lambda layer, x, options=options: layer(x, **options),
            theirs_called(**their_options),
        )


def test_grouped_heads_are_repeated_ones(device: str) -> None:
    grouped = ag.nn.MultiheadAttention(8, 4, num_kv_heads=2)
    full = ag.nn.MultiheadAttention(8, 4)
    assert grouped.in_proj_weight.shape == (16, 8)
    state = {name: value.numpy() for name, value in grouped.state_dict().items()}
    for name in ("in_proj_weight", "in_proj_bias"):
        state[name] = normal(*state[name].shape)
        q, k, v = np.split(state[name], [8, 12])
        k, v = (np.repeat(part.reshape(2, 2, -1), 2, axis=0).reshape(8, *part.shape[1:]) for part in (k, v))
        grouped.load_state_dict({name: state[name]}, strict=False)
        full.load_state_dict({name: np.concatenate([q, k, v])}, strict=False)
    full.out_proj.load_state_dict(grouped.out_proj.state_dict())
    x, memory = normal(N, L, 8), normal(N, S, 8, seed=1)
    np.testing.assert_allclose(grouped(x, causal=True).numpy(), full(x, causal=True).numpy(), 1e-5, 1e-6)
    np.testing.assert_allclose(grouped(x, memory).numpy(), full(x, memory).numpy(), 1e-5, 1e-6)


def test_one_sequence_is_one_product() -> None:
    layer = ag.nn.MultiheadAttention(E, HEADS)
    x, memory = ag.tensor(normal(N, L, E)), ag.tensor(normal(N, S, E))
    ops = {}
    for name, inputs in {"self": (x,), "cross": (x, memory), "same": (x, x, x)}.items():
        with ag.grad_tape() as tape:
            layer(*inputs)
        ops[name] = [node.op for node in tape.nodes].count("linear") - 1  # but for out_proj
    assert ops == {"self": 1, "cross": 2, "same": 1}


def test_the_tape_keeps_no_weights() -> None:
    with ag.device("cpu"):
        layer = ag.nn.MultiheadAttention(8, 2)
        kept = {n: ag.nn.summary(layer, (1, n, 8)).activation_bytes for n in (64, 128)}
    assert kept[128] == 2 * kept[64]


def test_dropout_is_for_training(device: str) -> None:
    layer = ag.nn.MultiheadAttention(E, HEADS, dropout=1.0)
    layer.load_state_dict({"out_proj.bias": normal(E)}, strict=False)
    x = ag.tensor(normal(N, L, E))
    np.testing.assert_allclose(layer(x).numpy(), np.broadcast_to(normal(E), (N, L, E)), 1e-6)
    layer.eval()
    layer_without = ag.nn.MultiheadAttention(E, HEADS)
    layer_without.load_state_dict(layer.state_dict())
    np.testing.assert_array_equal(layer(x).numpy(), layer_without(x).numpy())


def test_it_begins_as_in_pytorch() -> None:
    layer = ag.nn.MultiheadAttention(32, 4)
    bound = np.sqrt(6.0 / (32 + 96))
    weight = layer.in_proj_weight.numpy()
    assert 0.95 * bound < np.abs(weight).max() <= bound
    assert not layer.in_proj_bias.numpy().any()
    assert not layer.out_proj.bias.numpy().any()
    assert layer.extra_repr() == "embed_dim=32, num_heads=4"
    grouped = ag.nn.MultiheadAttention(32, 4, bias=False, num_kv_heads=2)
    assert grouped.extra_repr() == "embed_dim=32, num_heads=4, num_kv_heads=2, bias=False"


def test_wrong_calls_say_what_is_wrong(device: str) -> None:
    layer = ag.nn.MultiheadAttention(E, HEADS)
    x = normal(N, L, E)
    for error, words, call in [
        (ValueError, r"query \(2, 4\).*must be \(n, l, 6\)", lambda: layer(x[:, :, 0])),
        (ValueError, r"key \(2, 4, 5\)", lambda: layer(x, x[:, :, 1:])),
        (ValueError, r"key \(1, 4, 6\)", lambda: layer(x, x[:1])),
        (ValueError, r"key \(2, 4, 6\) and value \(2, 3, 6\)", lambda: layer(x, x, x[:, 1:])),
        (ValueError, "a value needs its key", lambda: layer(x, value=x)),
        (ValueError, r"shapes \(3, 3\) and", lambda: layer(x, mask=np.ones((3, 3), bool))),
        (TypeError, "float32", lambda: layer(ag.tensor(np.ones((N, L, E), np.int32)))),
        (ValueError, "num_heads must divide embed_dim 6, not 4", lambda: ag.nn.MultiheadAttention(6, 4)),
        (
            ValueError,
            "num_kv_heads must divide num_heads 3, not 2",
            lambda: ag.nn.MultiheadAttention(6, 3, num_kv_heads=2),
        ),
        (ValueError, "embed_dim must be 1 or more", lambda: ag.nn.MultiheadAttention(0, 3)),
        (ValueError, r"dropout must be in \[0, 1\]", lambda: ag.nn.MultiheadAttention(6, 3, dropout=-0.1)),
        (TypeError, "bias must be True or False", lambda: ag.nn.MultiheadAttention(6, 3, bias=1.0)),
    ]:
        with pytest.raises(error, match=words):
            call()
