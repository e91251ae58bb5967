"""GRU and LSTM: as PyTorch's, in one product for the input, in linear time, and with errors that say what is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from twins import assert_twins, normal

import ggmlpy_ag as ag
from ggmlpy_ag.backend.graph import Graph

KINDS = ["GRU", "LSTM"]
N, LENGTH, IN, HIDDEN = 3, 5, 4, 6


def states(kind: str, places: int) -> list[np.ndarray]:
    return [normal(places, N, HIDDEN, seed=i) for i in range(2 if kind == "LSTM" else 1)]


def called(layer: Any, x: Any, *state: Any) -> Any:
    """With the state as each of the two kinds takes it."""
    return layer(x, state if len(state) == 2 else state[0]) if state else layer(x)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("with_state", [False, True], ids=["from zeros", "from a state"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"num_layers": 2, "bidirectional": True},
        {"num_layers": 2, "bias": False},
        {"bidirectional": True, "batch_first": False},
    ],
    ids=str,
)
def test_they_equal_pytorch(kind: str, with_state: bool, options: dict[str, Any], device: str) -> None:
    torch = pytest.importorskip("torch")
    batch_first = options.get("batch_first", True)
    theirs = getattr(torch.nn, kind)(IN, HIDDEN, **{"batch_first": True, **options})
    mine = getattr(ag.nn, kind)(IN, HIDDEN, **options)
    assert list(mine.state_dict()) == list(theirs.state_dict())
    arrays = [normal(N, LENGTH, IN) if batch_first else normal(LENGTH, N, IN)]
    if with_state:
        arrays += states(kind, options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1))
    assert_twins(mine, theirs, arrays, device, called, called)


@pytest.mark.parametrize("kind", KINDS)
def test_a_sequence_in_two_parts_is_the_whole(kind: str, device: str) -> None:
    layer = getattr(ag.nn, kind)(IN, HIDDEN, num_layers=2)
    x = normal(N, LENGTH, IN)
    whole, last = layer(x)
    first, state = layer(x[:, :2])
    second, state = layer(x[:, 2:], state)
    np.testing.assert_allclose(ag.concat([first, second], 1).numpy(), whole.numpy(), 1e-5, 1e-6)
    for found, expected in zip(ag.stack(list(state)), ag.stack(list(last)), strict=True):
        np.testing.assert_allclose(found.numpy(), expected.numpy(), 1e-5, 1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_the_input_is_multiplied_once(kind: str) -> None:
    layer = getattr(ag.nn, kind)(IN, HIDDEN)
    with ag.grad_tape() as tape:
        layer(normal(N, LENGTH, IN))
    products = [node.multiply_adds for node in tape.nodes if node.multiply_adds]
    gates = 3 if kind == "GRU" else 4
    assert products == [N * LENGTH * IN * gates * HIDDEN, *[N * HIDDEN * gates * HIDDEN] * LENGTH]


def test_work_grows_with_the_length_and_not_with_its_square(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = 0
    record = Graph.record

    def counting(*args: Any) -> Any:
        nonlocal recorded
        out = record(*args)
        recorded += out.size
        return out

    monkeypatch.setattr(Graph, "record", counting)

    def elements(length: int) -> int:
        """Of all results in a forward and a backward pass."""
        nonlocal recorded
        recorded = 0
        with ag.grad_tape():
            loss = layer(ag.param(normal(2, length, 2)))[0].sum()
        ag.backward(loss)
        return recorded

    with ag.device("cpu"):
        layer = ag.nn.GRU(2, 4)
        assert elements(256) < 5 * elements(64)


@pytest.mark.parametrize("kind", KINDS)
def test_dropout_is_between_layers_and_in_training(kind: str, device: str) -> None:
    x = normal(N, LENGTH, IN)
    layer = getattr(ag.nn, kind)(IN, HIDDEN, num_layers=2, dropout=1.0)
    alone = getattr(ag.nn, kind)(HIDDEN, HIDDEN)
    alone.load_state_dict(
        {name.replace("l1", "l0"): value for name, value in layer.state_dict().items() if "l1" in name}
    )
    nothing = alone(np.zeros((N, LENGTH, HIDDEN)))[0].numpy()
    np.testing.assert_allclose(layer(x)[0].numpy(), nothing, 1e-6, 1e-7)
    assert np.abs(layer.eval()(x)[0].numpy() - nothing).max() > 1e-3


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_stay_halves(kind: str, dtype: str, device: str) -> None:
    layer = getattr(ag.nn, kind)(IN, HIDDEN, dtype=dtype)
    x = ag.tensor(normal(N, LENGTH, IN), dtype=dtype)
    output, state = layer(x)
    assert {str(t.dtype) for t in (output, *(state if kind == "LSTM" else (state,)))} == {str(x.dtype)}


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_gradients(kind: str) -> None:
    with ag.device("cpu"):
        layer = getattr(ag.nn, kind)(2, 2)
        x = ag.param(normal(1, 3, 2) * 0.5)

        def slope(v: ag.Tensor) -> ag.Tensor:
            return (layer(v)[0] ** 2.0).sum()

        with ag.grad_tape():
            first = ag.backward(slope(x), create_graph=True)[x]
            loss = (first**2.0).sum()
        second = ag.backward(loss)[x].numpy()
        step, numeric = 1e-2, np.zeros(x.shape)
        for place in np.ndindex(*x.shape):
            ends = []
            for sign in (1.0, -1.0):
                moved = x.numpy()
                moved[place] += sign * step
                leaf = ag.param(moved)
                with ag.grad_tape():
                    out = slope(leaf)
                ends.append((ag.backward(out)[leaf].numpy().astype(np.float64) ** 2).sum())
            numeric[place] = (ends[0] - ends[1]) / (2 * step)
        np.testing.assert_allclose(second, numeric, 2e-2, 2e-3)


def test_wrong_calls_say_what_is_wrong(device: str) -> None:
    gru, lstm = ag.nn.GRU(IN, HIDDEN, num_layers=2), ag.nn.LSTM(IN, HIDDEN, batch_first=False)
    x = normal(N, LENGTH, IN)
    for error, words, call in [
        (ValueError, r"GRU: x must be \(n, length, 4\), not \(3, 5\)", lambda: gru(x[:, :, 0])),
        (ValueError, r"LSTM: x must be \(length, n, 4\), not \(3, 5, 3\)", lambda: lstm(x[:, :, 1:])),
        (ValueError, r"GRU: state must have shape \(2, 3, 6\)", lambda: gru(x, normal(1, N, HIDDEN))),
        (ValueError, r"LSTM: state must have shape \(1, 5, 6\)", lambda: lstm(x, (normal(1, 5, 6), normal(1, 3, 6)))),
        (TypeError, r"LSTM: state must be a pair \(h, c\)", lambda: lstm(x, ag.tensor(normal(1, 5, 6)))),
        (TypeError, "float32", lambda: gru(ag.tensor(np.ones((N, LENGTH, IN), np.int32)))),
        (ValueError, "GRU: hidden_size must be 1 or more", lambda: ag.nn.GRU(3, 0)),
        (TypeError, "LSTM: num_layers must be an integer", lambda: ag.nn.LSTM(3, 4, 1.5)),
        (TypeError, "LSTM: bidirectional must be True or False", lambda: ag.nn.LSTM(3, 4, bidirectional="yes")),
        (ValueError, r"GRU: dropout must be in \[0, 1\]", lambda: ag.nn.GRU(3, 4, dropout=1.5)),
    ]:
        with pytest.raises(error, match=words):
            call()


def test_they_show_what_they_are() -> None:
    assert repr(ag.nn.GRU(3, 4)) == "GRU(3, 4)"
    assert repr(ag.nn.LSTM(3, 4, 2, bidirectional=True)) == "LSTM(3, 4, num_layers=2, bidirectional=True)"
