"""nn.summary: textbook multiply-adds, activations that add up to the tape's, and nothing computed or changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from twins import normal

import ggmlpy_ag as ag
from ggmlpy_ag import nn
from ggmlpy_ag.backend import devices

N = 2


class Net(nn.Module):
    """Any parts, and what to do with them."""

    def __init__(self, forward: Callable[..., Any], **parts: nn.Module) -> None:
        for name, part in parts.items():
            setattr(self, name, part)
        self.body = forward

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.body(self, *args, **kwargs)


# ---------------------------------------------------------------- multiply-adds

PRODUCTS: dict[str, tuple[Callable[[], nn.Module], list[tuple[int, ...]], int]] = {
    "linear": (lambda: nn.Linear(5, 7), [(N, 3, 5)], N * 3 * 5 * 7),
    "large linear": (lambda: nn.Linear(64, 96), [(80, 64)], 80 * 64 * 96),  # BLAS, where there is one
    "matmul": (lambda: Net(lambda self, a, b: a @ b), [(N, 3, 4, 5), (5, 6)], N * 3 * 4 * 5 * 6),
    "vectors": (lambda: Net(lambda self, a, b: a @ b), [(5,), (5,)], 5),
    "einsum": (lambda: Net(lambda self, a, b: ag.einsum("nij,jk->nik", a, b)), [(N, 3, 4), (4, 5)], N * 3 * 4 * 5),
    "conv1d": (lambda: nn.Conv1d(3, 4, 3), [(N, 3, 9)], N * 4 * 7 * 3 * 3),
    "conv2d": (lambda: nn.Conv2d(3, 4, 3, stride=2, padding=1), [(N, 3, 9, 9)], N * 4 * 5 * 5 * 3 * 3 * 3),
    "1 x 1": (lambda: nn.Conv2d(3, 4, 1), [(N, 3, 5, 6)], N * 4 * 5 * 6 * 3),
    "same": (lambda: nn.Conv2d(3, 4, (2, 3), padding="same"), [(N, 3, 5, 6)], N * 4 * 5 * 6 * 3 * 2 * 3),
    "groups": (lambda: nn.Conv2d(4, 6, 3, groups=2), [(N, 4, 5, 5)], N * 6 * 3 * 3 * 2 * 3 * 3),
    "depthwise": (lambda: nn.Conv2d(4, 8, 3, groups=4), [(N, 4, 5, 5)], N * 8 * 3 * 3 * 3 * 3),
    "transposed": (lambda: nn.ConvTranspose2d(3, 4, 3, stride=2), [(N, 3, 5, 6)], N * 3 * 5 * 6 * 4 * 3 * 3),
    "attention": (
        lambda: Net(lambda self, *x: ag.scaled_dot_product_attention(*x, causal=True)),
        [(N, 4, 5, 3), (N, 2, 6, 3), (N, 2, 6, 7)],
        N * 4 * 5 * 6 * (3 + 7),
    ),
    "self-attention": (
        lambda: nn.MultiheadAttention(6, 3),
        [(N, 5, 6)],
        4 * N * 5 * 6 * 6 + 2 * N * 3 * 5 * 5 * 2,
    ),
    "recurrent": (
        lambda: nn.LSTM(3, 4, num_layers=2, bidirectional=True),
        [(N, 5, 3)],
        2 * N * 5 * 4 * 4 * (3 + 4 + 8 + 4),
    ),
    "nothing": (lambda: nn.Sequential(nn.ReLU(), nn.LayerNorm(3)), [(N, 3)], 0),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_multiply_adds_are_those_of_the_textbook(name: str, device: str) -> None:
    make, shapes, expected = PRODUCTS[name]
    model = make()
    assert nn.summary(model, *shapes).multiply_adds == expected
    assert nn.summary(model.requires_grad_(False), *shapes).multiply_adds == expected  # of what no tape records, too


def test_each_node_of_a_tape_knows_its_own(device: str) -> None:
    w = ag.param(normal(3, 4))
    x = ag.tensor(normal(2, 3))
    with ag.grad_tape() as tape:
        ag.checkpoint(lambda x: (x @ w).tanh() @ w.T, x)
        h = ag.square(x @ w)
        ag.backward(h.sum(), create_graph=True)
    found = [(node.op, node.multiply_adds) for node in tape.nodes]
    assert found[:4] == [("checkpoint", 48), ("matmul", 24), ("square", 0), ("sum", 0)]
    assert ("matmul", 24) in found[4:]  # the gradient of w


def test_what_a_checkpoint_computes_counts_once(device: str) -> None:
    model = Net(lambda self, x: ag.checkpoint(self.part, x), part=nn.Linear(3, 4))
    found = nn.summary(model, (N, 3))
    assert [row.multiply_adds for row in found.rows] == [0, N * 3 * 4]


# ---------------------------------------------------------------- activations


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 3))


def convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 10)
    )


def residual() -> nn.Module:
    return Net(lambda self, x: self.b(ag.silu(self.a(x))) + x, a=nn.Linear(8, 8), b=nn.Linear(8, 8))


def language() -> nn.Module:
    return nn.Sequential(nn.Embedding(11, 8), nn.TransformerEncoderLayer(8, 2, 16), nn.LayerNorm(8))


def recurrent() -> nn.Module:
    return Net(lambda self, x: self.out(self.gru(x)[0][:, -1]), gru=nn.GRU(5, 6), out=nn.Linear(6, 2))


WORDS = np.arange(20, dtype=np.int32).reshape(2, 10) % 11
MODELS: dict[str, tuple[Callable[[], nn.Module], Any]] = {
    "perceptron": (perceptron, (100, 20)),
    "convolutions": (convolutions, (4, 1, 8, 8)),
    "residual": (residual, (100, 8)),
    "language": (language, WORDS),
    "recurrent": (recurrent, (3, 4, 5)),
}


@pytest.mark.parametrize("training", [True, False], ids=["training", "eval"])
@pytest.mark.parametrize("name", MODELS)
def test_activations_add_up_to_those_of_the_tape(name: str, training: bool, device: str) -> None:
    make, given = MODELS[name]
    model = make().train(training)
    x = ag.tensor(normal(*given) if isinstance(given, tuple) else given)
    found = nn.summary(model, given if isinstance(given, tuple) else x)
    with ag.grad_tape():
        model(x)
    report = ag.tape_memory(quiet=True)  # the result has been dropped, and nothing has been computed
    if not (training and name == "convolutions"):
        assert report.values_pending > 0
    devices.get().graph.run()
    report = ag.tape_memory(quiet=True)
    assert report.values_pending == 0
    assert found.activation_bytes == report.bytes_snapshots > 0
    assert found.activation_bytes == sum(row.activation_bytes for row in found.rows)


def test_activations_belong_to_the_layer_whose_node_keeps_them_first(device: str) -> None:
    model = perceptron()
    rows = {row.path: row.activation_bytes for row in nn.summary(model, (128, 20)).rows}
    hidden = 128 * 64 * 4
    # relu saves its result, dropout a mask of halves, the linear layers their input, tanh its result
    assert rows == {"": 0, "0": 0, "1": hidden, "2": hidden // 2, "3": hidden, "4": hidden, "5": 0}


# ---------------------------------------------------------------- nothing computed, nothing changed


@pytest.mark.parametrize("name", MODELS)
def test_nothing_is_computed_or_downloaded(name: str, device: str) -> None:
    make, given = MODELS[name]
    model = make().eval()
    x = given if isinstance(given, tuple) else ag.tensor(given)
    before = ag.counters()
    nn.summary(model, x)
    spent = ag.counters() - before
    assert (spent.graphs, spent.nodes, spent.downloads, spent.uploads) == (0, 0, 0, 0)


def test_a_model_of_more_operations_than_a_graph_holds_is_not_computed(device: str) -> None:
    def forward(self: Any, x: ag.Tensor) -> ag.Tensor:
        for _ in range(3000):
            x = ag.tanh(x)
        return self.out(x)

    model = Net(forward, out=nn.Linear(4, 1))
    x = ag.param(normal(3, 4))
    kept = []
    before = ag.counters()
    found = nn.summary(model, x)
    assert (ag.counters() - before).graphs == 0
    assert found.activation_bytes >= 3000 * 3 * 4 * 4
    for _ in range(3000):
        x = ag.tanh(x)
        kept.append(x)
    assert (ag.counters() - before).graphs == 1  # and afterwards, graphs run by themselves again


def test_what_a_forward_pass_changes_is_as_before(device: str) -> None:
    model = convolutions()
    before = {name: value.numpy() for name, value in model.state_dict().items()}
    tensors = list(model.buffers())
    ag.manual_seed(5)
    drawn = ag.rand(3).tolist()
    ag.manual_seed(5)
    nn.summary(model, (4, 1, 8, 8))
    nn.summary(perceptron(), (4, 20))
    assert all(model.training for model in model.modules())
    ag.manual_seed(5)
    nn.summary(model, (4, 1, 8, 8))
    assert ag.rand(3).tolist() == drawn
    assert all(a is b for a, b in zip(tensors, model.buffers(), strict=True))
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), before[name])
    model(ag.tensor(normal(4, 1, 8, 8)))  # and running statistics move again
    assert np.abs(model.state_dict()["1.running_mean"].numpy() - before["1.running_mean"]).max() > 0


def test_buffers_that_a_model_replaces_are_put_back(device: str) -> None:
    def forward(self: Any, x: ag.Tensor) -> ag.Tensor:
        self.count = ag.tensor(1.0)
        raise RuntimeError("in the middle")

    model = Net(forward)
    model.register_buffer("count", ag.tensor(0.0))
    count = model.count
    state = ag.get_rng_state()
    with pytest.raises(RuntimeError, match="in the middle"):
        nn.summary(model, (2,))
    assert model.count is count
    assert count.item() == 0.0
    assert str(ag.get_rng_state()) == str(state)


def test_tapes_are_left_alone(device: str) -> None:
    model = nn.Linear(3, 4)
    x = ag.tensor(normal(2, 3))
    with ag.grad_tape() as tape:
        loss = model(x).sum()
    nn.summary(model, (5, 3))
    assert ag.backward(loss)  # the finished one is still there
    assert ag.tape_memory(quiet=True).nodes == len(tape) == 2
    with ag.grad_tape() as tape:
        nn.summary(model, (5, 3))
        with ag.no_grad():
            found = nn.summary(model, ag.param(normal(5, 3)))
        model(x)
    assert len(tape) == 1
    assert found.multiply_adds == 60
    with ag.grad_tape() as tape:  # a model with a tape of its own does not end this one
        loss = model(x).sum()
    nn.summary(Net(with_a_tape_of_its_own, part=model), (5, 3))
    assert ag.backward(loss)


def with_a_tape_of_its_own(self: Any, x: ag.Tensor) -> ag.Tensor:
    with ag.grad_tape():
        return self.part(x)


def test_memory_is_free_again(device: str) -> None:
    model = perceptron()
    nn.summary(model, (100, 20))
    live = ag.memory_stats().live
    for _ in range(3):
        nn.summary(model, (100, 20))
    assert ag.memory_stats().live == live


# ---------------------------------------------------------------- rows


def test_rows_have_shapes_and_parameters(device: str) -> None:
    rows = {row.path: row for row in nn.summary(language(), ag.tensor(WORDS)).rows}
    assert list(rows)[:4] == ["", "0", "1", "1.self_attn"]
    assert (rows[""].layer, rows["1.self_attn.out_proj"].layer) == ("Sequential", "Linear")
    assert {path: row.output_shapes for path, row in rows.items() if "." not in path} == dict.fromkeys(
        ["", "0", "1", "2"], ((2, 10, 8),)
    )
    assert rows["1.linear1"].output_shapes == ((2, 10, 16),)
    assert (rows["0"].parameters, rows["1"].parameters, rows["1.linear1"].parameters) == (88, 0, 144)
    assert (rows["1.self_attn"].parameters, rows["1.self_attn.out_proj"].parameters) == (24 * 8 + 24, 72)
    (row,) = nn.summary(nn.LSTM(3, 4), (N, 5, 3)).rows
    assert row.output_shapes == ((N, 5, 4), (1, N, 4), (1, N, 4))


def test_what_is_shared_counts_once_and_what_is_frozen_is_not_trainable(device: str) -> None:
    tied = Net(lambda self, x: self.b(self.a(self.a(x))), a=nn.Linear(3, 3), b=nn.Linear(3, 3, bias=False))
    tied.b.weight = tied.a.weight
    found = nn.summary(tied, (5, 3))
    assert [(row.path, row.parameters) for row in found.rows] == [("", 0), ("a", 12), ("b", 0)]
    assert [row.multiply_adds for row in found.rows] == [0, 2 * 45, 45]
    tied.a.bias.requires_grad = False
    found = nn.summary(tied, (5, 3))
    assert (found.parameters, found.trainable) == (12, 9)


def test_parts_that_do_not_run_or_are_made_on_the_fly_have_rows() -> None:
    model = Net(lambda self, x: nn.Linear(3, 4)(x), spare=nn.Linear(2, 2))
    rows = nn.summary(model, (5, 3)).rows
    assert [(row.path, row.output_shapes, row.multiply_adds) for row in rows] == [
        ("", ((5, 4),), 0),
        ("spare", (), 0),
        ("Linear", ((5, 4),), 60),
    ]


def test_inputs_go_where_the_model_is_and_others_as_they_are(device: str) -> None:
    seen = []

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append((args, kwargs))
        return {"first": [self.part(args[0])], "second": 3}

    model = Net(forward, part=nn.Linear(3, 4))
    with ag.device("cpu"):
        found = nn.summary(model, (2, 3), "text", [1, 2], None, flag=True)
    (((x, *rest), kwargs),) = seen
    assert (x.device, x.shape, str(x.dtype)) == (ag.device().name, (2, 3), "float32")
    assert (rest, kwargs) == (["text", [1, 2], None], {"flag": True})
    assert found.rows[0].output_shapes == ((2, 4),)


def test_the_table_is_narrow_and_says_the_sums() -> None:
    deep = nn.Sequential(nn.Sequential(nn.Sequential(nn.Sequential(nn.Sequential(nn.TransformerEncoderLayer(8, 2))))))
    for model, shape in ((deep, (2, 3, 8)), (recurrent(), (3, 4, 5))):
        assert max(map(len, str(nn.summary(model, shape)).splitlines())) == 100
    model = nn.Sequential(nn.Linear(784, 128).requires_grad_(False), nn.ReLU(), nn.Linear(128, 10))
    lines = str(nn.summary(model, (32, 784))).splitlines()
    assert [line.split() for line in lines] == [
        ["layer", "output", "parameters", "multiply-adds", "activations"],
        ["Sequential", "(32,", "10)", "0", "0", "0", "B"],
        ["0:", "Linear,", "frozen", "(32,", "128)", "100,480", "3,211,264", "0", "B"],
        ["1:", "ReLU", "(32,", "128)", "0", "0", "0", "B"],
        ["2:", "Linear", "(32,", "10)", "1,290", "40,960", "16.00", "KiB"],
        ["total", "1,290", "trainable", "101,770", "3,252,224", "16.00", "KiB"],
    ]


def test_large_figures_have_units() -> None:
    row = nn.LayerRow("", "Net", ((1, 2, 3, 4),) * 5, 175 * 10**9, 0, 999_999_999, 1 << 50)
    line = str(nn.Summary((row,))).splitlines()[1]
    assert line.split()[-5:] == ["175.000", "G", "999,999,999", "1024.00", "TiB"]
    row = nn.LayerRow("", "Net", (), 10**13, 0, 10**16, 0)
    assert str(nn.Summary((row,))).splitlines()[1].split()[-6:-2] == ["10.000", "T", "10.000", "P"]


def test_it_becomes_json() -> None:
    found = nn.summary(nn.Linear(3, 4), (5, 3))
    assert json.loads(json.dumps(found.to_dict())) == {
        "rows": [
            {
                "path": "", "layer": "Linear", "output_shapes": [[5, 4]], "parameters": 16, "trainable": 16,
                "multiply_adds": 60, "activation_bytes": 0,
            }
        ],
        "parameters": 16, "trainable": 16, "multiply_adds": 60, "activation_bytes": 0,
    }  # fmt: skip


def test_wrong_calls_say_what_is_wrong() -> None:
    for error, words, call in [
        (TypeError, "model must be a Module, not function", lambda: nn.summary(perceptron, (1, 20))),
        (ValueError, r"summary: extents must be positive, not \(0, 20\)", lambda: nn.summary(perceptron(), (0, 20))),
        (ValueError, "more than 4 dimensions", lambda: nn.summary(perceptron(), (1, 2, 3, 4, 20))),
        (TypeError, "summary: extents must be integers", lambda: nn.summary(perceptron(), (True, 20))),
        (ValueError, r"linear: x of shape \(1, 19\)", lambda: nn.summary(perceptron(), (1, 19))),
    ]:
        with pytest.raises(error, match=words):
            call()
