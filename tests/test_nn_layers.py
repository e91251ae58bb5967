"""Layers: with the same weights and input, output and gradients are PyTorch's; wrong arguments are told at once."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ggmlpy_ag as ag
from ggmlpy_ag import nn

Case = tuple[Callable[[], nn.Module], Callable[[Any], Any], tuple[int, ...]]  # our layer, torch.nn's, the input's shape

CASES: dict[str, Case] = {
    "Linear": (lambda: nn.Linear(7, 5), lambda t: t.Linear(7, 5), (3, 7)),
    "Linear of 4 dimensions": (lambda: nn.Linear(7, 5), lambda t: t.Linear(7, 5), (2, 3, 4, 7)),
    "Linear of one": (lambda: nn.Linear(7, 5), lambda t: t.Linear(7, 5), (7,)),
    "Linear without bias": (lambda: nn.Linear(7, 5, bias=False), lambda t: t.Linear(7, 5, bias=False), (3, 7)),
    "Flatten": (nn.Flatten, lambda t: t.Flatten(), (2, 3, 4, 5)),
    "Flatten(0, 1)": (lambda: nn.Flatten(0, 1), lambda t: t.Flatten(0, 1), (2, 3, 4, 5)),
    "Conv1d": (lambda: nn.Conv1d(3, 5, 4), lambda t: t.Conv1d(3, 5, 4), (2, 3, 11)),
    "Conv1d strided": (
        lambda: nn.Conv1d(4, 6, 3, 2, 1, 2, 2),
        lambda t: t.Conv1d(4, 6, 3, 2, 1, 2, 2),
        (2, 4, 11),
    ),
    "Conv1d same": (
        lambda: nn.Conv1d(3, 5, 4, padding="same", bias=False),
        lambda t: t.Conv1d(3, 5, 4, padding="same", bias=False),
        (2, 3, 11),
    ),
    "Conv2d": (lambda: nn.Conv2d(3, 5, 3), lambda t: t.Conv2d(3, 5, 3), (2, 3, 8, 7)),
    "Conv2d strided": (
        lambda: nn.Conv2d(4, 6, (3, 2), (2, 1), (1, 0), (1, 2), 2),
        lambda t: t.Conv2d(4, 6, (3, 2), (2, 1), (1, 0), (1, 2), 2),
        (2, 4, 8, 7),
    ),
    "Conv2d depthwise": (
        lambda: nn.Conv2d(4, 8, 3, padding="same", groups=4, bias=False),
        lambda t: t.Conv2d(4, 8, 3, padding="same", groups=4, bias=False),
        (2, 4, 6, 5),
    ),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(3, 5, 3), lambda t: t.ConvTranspose2d(3, 5, 3), (2, 3, 4, 5)),
    "ConvTranspose2d strided": (
        lambda: nn.ConvTranspose2d(4, 6, 3, (2, 3), 1, (1, 2), 2, False, 2),
        lambda t: t.ConvTranspose2d(4, 6, 3, (2, 3), 1, (1, 2), 2, False, 2),
        (2, 4, 4, 5),
    ),
    "MaxPool2d": (lambda: nn.MaxPool2d(2), lambda t: t.MaxPool2d(2), (2, 3, 7, 8)),
    "MaxPool2d padded": (
        lambda: nn.MaxPool2d((3, 2), (2, 1), (1, 0), (1, 2)),
        lambda t: t.MaxPool2d((3, 2), (2, 1), (1, 0), (1, 2)),
        (2, 3, 7, 8),
    ),
    "AvgPool2d": (lambda: nn.AvgPool2d(2), lambda t: t.AvgPool2d(2), (2, 3, 7, 8)),
    "AvgPool2d padded": (
        lambda: nn.AvgPool2d(3, 2, 1, count_include_pad=False),
        lambda t: t.AvgPool2d(3, 2, 1, count_include_pad=False),
        (2, 3, 7, 8),
    ),
    "AdaptiveAvgPool2d": (lambda: nn.AdaptiveAvgPool2d((3, 5)), lambda t: t.AdaptiveAvgPool2d((3, 5)), (2, 3, 7, 8)),
    "AdaptiveAvgPool2d(1)": (lambda: nn.AdaptiveAvgPool2d(1), lambda t: t.AdaptiveAvgPool2d(1), (2, 3, 7, 8)),
    "Upsample": (lambda: nn.Upsample(scale_factor=2), lambda t: t.Upsample(scale_factor=2), (2, 3, 4, 5)),
    "Upsample bilinear": (
        lambda: nn.Upsample((7, 9), mode="bilinear", align_corners=True),
        lambda t: t.Upsample((7, 9), mode="bilinear", align_corners=True),
        (2, 3, 4, 5),
    ),
    "LayerNorm": (lambda: nn.LayerNorm(7), lambda t: t.LayerNorm(7), (4, 3, 7)),
    "LayerNorm of two": (
        lambda: nn.LayerNorm((3, 7), eps=0.1, bias=False),
        lambda t: t.LayerNorm((3, 7), eps=0.1, bias=False),
        (4, 3, 7),
    ),
    "LayerNorm bare": (
        lambda: nn.LayerNorm(7, elementwise_affine=False),
        lambda t: t.LayerNorm(7, elementwise_affine=False),
        (4, 7),
    ),
    "RMSNorm": (lambda: nn.RMSNorm(7, eps=1e-6), lambda t: t.RMSNorm(7, eps=1e-6), (4, 3, 7)),
    "RMSNorm bare": (
        lambda: nn.RMSNorm([3, 7], 0.1, False),
        lambda t: t.RMSNorm([3, 7], 0.1, False),
        (4, 3, 7),
    ),
    "GroupNorm": (lambda: nn.GroupNorm(2, 6), lambda t: t.GroupNorm(2, 6), (3, 6, 4, 5)),
    "GroupNorm bare": (
        lambda: nn.GroupNorm(3, 6, eps=0.1, affine=False),
        lambda t: t.GroupNorm(3, 6, eps=0.1, affine=False),
        (3, 6, 5),
    ),
    "Identity": (lambda: nn.Identity(3, any=4), lambda t: t.Identity(3, any=4), (2, 3)),
    "ReLU": (nn.ReLU, lambda t: t.ReLU(), (4, 5)),
    "LeakyReLU": (lambda: nn.LeakyReLU(0.2), lambda t: t.LeakyReLU(0.2), (4, 5)),
    "ELU": (lambda: nn.ELU(0.7), lambda t: t.ELU(0.7), (4, 5)),
    "GELU": (nn.GELU, lambda t: t.GELU(), (4, 5)),
    "GELU by tanh": (lambda: nn.GELU("tanh"), lambda t: t.GELU("tanh"), (4, 5)),
    "SiLU": (nn.SiLU, lambda t: t.SiLU(), (4, 5)),
    "Mish": (nn.Mish, lambda t: t.Mish(), (4, 5)),
    "Softplus": (lambda: nn.Softplus(2.0, 1.0), lambda t: t.Softplus(2.0, 1.0), (4, 5)),
    "Hardswish": (nn.Hardswish, lambda t: t.Hardswish(), (4, 5)),
    "Hardsigmoid": (nn.Hardsigmoid, lambda t: t.Hardsigmoid(), (4, 5)),
    "Sigmoid": (nn.Sigmoid, lambda t: t.Sigmoid(), (4, 5)),
    "Tanh": (nn.Tanh, lambda t: t.Tanh(), (4, 5)),
    "Softmax": (nn.Softmax, lambda t: t.Softmax(-1), (4, 5)),
    "Softmax(0)": (lambda: nn.Softmax(0), lambda t: t.Softmax(0), (4, 5)),
    "LogSoftmax": (lambda: nn.LogSoftmax(1), lambda t: t.LogSoftmax(1), (4, 5)),
    "GLU": (lambda: nn.GLU(1), lambda t: t.GLU(1), (4, 6, 3)),
    "Sequential": (
        lambda: nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 3)),
        lambda t: t.Sequential(t.Conv2d(1, 4, 3), t.ReLU(), t.MaxPool2d(2), t.Flatten(), t.Linear(36, 3)),
        (2, 1, 8, 8),
    ),
}


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def assert_close(got: Any, expected: Any, device: str) -> None:
    got, expected = np.asarray(got), expected.detach().numpy()
    assert got.shape == expected.shape
    tolerance = 1e-5 if device == "cpu" else 1e-4  # of the largest magnitude
    assert np.abs(got - expected).max() <= tolerance * np.abs(expected).max() + 1e-7


def as_theirs(ours: nn.Module, theirs: Any) -> Any:
    """The layer of PyTorch in float64, whose random values ours takes."""
    for i, values in enumerate((*theirs.parameters(), *theirs.buffers())):
        if values.dtype.is_floating_point:
            drawn = normal(*values.shape, seed=i + 10)
            values.data.copy_(values.new_tensor(np.abs(drawn) + 0.5 if i else drawn))  # a variance is positive
    ours.load_state_dict({name: value.numpy() for name, value in theirs.state_dict().items()}, strict=False)
    return theirs.double()


def compare(torch: Any, ours: nn.Module, theirs: Any, inputs: np.ndarray, device: str) -> None:
    """Output, and gradients of the input and all parameters."""
    x = ag.param(inputs)
    with ag.grad_tape():
        out = ours(x)
    weights = normal(*out.shape, seed=1)
    ag.backward(out, weights)
    x_theirs = torch.tensor(inputs, dtype=torch.float64, requires_grad=True)
    expected = theirs(x_theirs)
    expected.backward(torch.tensor(weights, dtype=torch.float64))
    assert_close(out, expected, device)
    assert_close(x.grad, x_theirs.grad, device)
    wanted = dict(theirs.named_parameters())
    found = dict(ours.named_parameters())
    assert list(found) == list(wanted)
    for name, parameter in found.items():
        assert_close(parameter.grad, wanted[name].grad, device)


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize("name", CASES)
def test_follows_pytorch(name: str, device: str) -> None:
    torch = pytest.importorskip("torch")
    make, make_theirs, shape = CASES[name]
    ours, theirs = make(), make_theirs(torch.nn)
    assert {n: t.shape for n, t in ours.named_parameters()} == {n: t.shape for n, t in theirs.named_parameters()}
    compare(torch, ours, as_theirs(ours, theirs), normal(*shape), device)


def test_gated_layers_without_a_peer_are_their_operations(device: str) -> None:
    x = normal(3, 6)
    np.testing.assert_array_equal(nn.GEGLU()(x).numpy(), ag.geglu(x).numpy())
    np.testing.assert_array_equal(nn.SwiGLU(0)(x[:2]).numpy(), ag.swiglu(x[:2], 0).numpy())


def test_every_layer_is_compared() -> None:
    elsewhere = {"BatchNorm1d", "BatchNorm2d", "Dropout", "Embedding", "GEGLU", "Module", "ModuleList", "SwiGLU"}
    here = {name.split()[0].split("(")[0] for name in (*CASES, *LOSSES)}
    ours = {
        name
        for name, kind in vars(nn).items()
        if inspect.isclass(kind) and kind.__module__ in OWN_FILES and not name.startswith("_")
    }
    assert ours - here == elsewhere & ours and not here - ours


OWN_FILES = {
    f"ggmlpy_ag.nn.{file}"
    for file in "activation batchnorm containers conv dropout linear loss normalization pool".split()
}


# ---------------------------------------------------------------- losses

LOGITS, CLASSES = normal(5, 4), np.array([0, 3, 1, -100, 2])
LOG_P = LOGITS - np.log(np.exp(LOGITS).sum(1, keepdims=True))
TARGET = np.random.default_rng(2).random((5, 4)).astype(np.float32)
FACTORS = [0.5, 1.0, 2.0, 0.25]


def given(torch: Any, values: Any) -> Any:
    return torch.tensor(values, dtype=torch.float64)


LOSSES: dict[str, Callable[[Any], tuple[nn.Module, Any, np.ndarray, np.ndarray]]] = {
    "MSELoss": lambda t: (nn.MSELoss(), t.nn.MSELoss(), LOGITS, TARGET),
    "MSELoss summed": lambda t: (nn.MSELoss("sum"), t.nn.MSELoss(reduction="sum"), LOGITS, TARGET),
    "L1Loss": lambda t: (nn.L1Loss(), t.nn.L1Loss(), LOGITS, TARGET),
    "HuberLoss": lambda t: (nn.HuberLoss("none", 0.3), t.nn.HuberLoss("none", 0.3), LOGITS, TARGET),
    "CrossEntropyLoss": lambda t: (nn.CrossEntropyLoss(), t.nn.CrossEntropyLoss(), LOGITS, CLASSES),
    "CrossEntropyLoss weighted": lambda t: (
        nn.CrossEntropyLoss(FACTORS, ignore_index=1, label_smoothing=0.1),
        t.nn.CrossEntropyLoss(given(t, FACTORS), ignore_index=1, label_smoothing=0.1),
        LOGITS,
        np.maximum(CLASSES, 0),
    ),
    "CrossEntropyLoss of probabilities": lambda t: (
        nn.CrossEntropyLoss(reduction="none"), t.nn.CrossEntropyLoss(reduction="none"), LOGITS, TARGET,
    ),
    "NLLLoss": lambda t: (
        nn.NLLLoss(ag.tensor(FACTORS), reduction="sum"),
        t.nn.NLLLoss(given(t, FACTORS), reduction="sum"),
        LOG_P,
        CLASSES,
    ),
    "BCELoss": lambda t: (nn.BCELoss(FACTORS), t.nn.BCELoss(given(t, FACTORS)), TARGET[:, ::-1].copy(), TARGET),
    "BCEWithLogitsLoss": lambda t: (
        nn.BCEWithLogitsLoss(FACTORS, pos_weight=FACTORS[::-1]),
        t.nn.BCEWithLogitsLoss(given(t, FACTORS), pos_weight=given(t, FACTORS[::-1])),
        LOGITS,
        TARGET,
    ),
    "KLDivLoss": lambda t: (nn.KLDivLoss("batchmean"), t.nn.KLDivLoss(reduction="batchmean"), LOG_P, TARGET),
    "KLDivLoss of logarithms": lambda t: (
        nn.KLDivLoss(log_target=True), t.nn.KLDivLoss(log_target=True), LOG_P, LOG_P[::-1].copy(),
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*batchmean.*")
@pytest.mark.parametrize("name", LOSSES)
def test_losses_follow_pytorch(name: str, device: str) -> None:
    torch = pytest.importorskip("torch")
    ours, theirs, prediction, target = LOSSES[name](torch)
    x, x_theirs = ag.param(prediction), given(torch, prediction).requires_grad_()
    with ag.grad_tape():
        loss = ours(x, target)
    expected = theirs(x_theirs, torch.tensor(target) if target.dtype.kind == "i" else given(torch, target))
    ag.backward(loss, np.ones(loss.shape))
    expected.sum().backward()
    assert_close(loss, expected, device)
    assert_close(x.grad, x_theirs.grad, device)


def test_factors_of_a_loss_are_buffers_that_move_with_it() -> None:
    for info in ag.devices():
        loss = nn.BCEWithLogitsLoss(FACTORS, pos_weight=ag.param(FACTORS)).to(info.name)
        assert {name: t.device for name, t in loss.named_buffers()} == {"weight": info.name, "pos_weight": info.name}
        assert list(loss.parameters()) == []
        assert loss(ag.tensor(LOGITS, device=info.name), TARGET).device == info.name


# ---------------------------------------------------------------- batch normalization


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize(
    "name, shape", [("BatchNorm1d", (6, 3)), ("BatchNorm1d", (4, 3, 5)), ("BatchNorm2d", (4, 3, 2, 5))]
)
def test_batch_norm_follows_pytorch_in_training_and_out_of_it(
    name: str, shape: tuple[int, ...], affine: bool, device: str
) -> None:
    torch = pytest.importorskip("torch")
    ours = getattr(nn, name)(3, eps=1e-3, momentum=0.3, affine=affine)
    theirs = as_theirs(ours, getattr(torch.nn, name)(3, eps=1e-3, momentum=0.3, affine=affine))
    for seed in range(2):
        compare(torch, ours, theirs, normal(*shape, seed=20 + seed) + 2.0, device)
        ours.zero_grad()
        theirs.zero_grad()
    buffers = dict(theirs.named_buffers())
    for kind, tensor in ours.named_buffers():
        assert_close(tensor, buffers[kind], device)
    compare(torch, ours.eval(), theirs.eval(), normal(*shape, seed=22), device)
    assert_close(ours.running_mean, theirs.running_mean, device)


def test_batch_norm_without_running_values_always_uses_the_batch(device: str) -> None:
    layer = nn.BatchNorm1d(3, track_running_stats=False)
    x = normal(8, 3)
    assert list(layer.state_dict()) == ["weight", "bias"]
    np.testing.assert_array_equal(layer(x).numpy(), layer.eval()(x).numpy())


def test_a_batch_norm_of_another_shape_moves_nothing(device: str) -> None:
    layer = nn.BatchNorm2d(3, affine=False)
    for shape in ((4, 3), (4, 2, 5, 5), (3,)):
        with pytest.raises(ValueError, match=r"BatchNorm2d: x must be \(n, features, h, w\) with 3 features, not"):
            layer(normal(*shape))
    assert layer.running_mean.tolist() == [0.0, 0.0, 0.0]


# ---------------------------------------------------------------- dropout


def test_dropout_out_of_training_is_the_input_itself(device: str) -> None:
    x = ag.tensor(normal(3, 4))
    assert nn.Dropout(0.7).eval()(x) is x
    assert nn.Dropout(0.0)(x) is x


def test_dropout_in_training_has_its_rate_and_keeps_the_mean(device: str) -> None:
    ag.manual_seed(1)
    n, p = 40_000, 0.3
    out = nn.Dropout(p)(np.ones(n)).numpy()
    assert set(np.unique(out)) == {0.0, np.float32(1.0 / (1.0 - p))}
    assert abs((out == 0.0).mean() - p) < 5 * np.sqrt(p * (1 - p) / n)
    assert not nn.Dropout(1.0)(np.ones(5)).numpy().any()


def test_dropout_drops_the_same_on_every_device() -> None:
    found = []
    for info in ag.devices():
        ag.manual_seed(7)
        x = ag.tensor(np.ones((9, 11)), device=info.name)
        found.append([nn.Dropout(0.4)(x).numpy() for _ in range(2)])
    for first, second in found[1:]:
        np.testing.assert_array_equal(first, found[0][0])
        np.testing.assert_array_equal(second, found[0][1])
    assert (found[0][0] != found[0][1]).any()


# ---------------------------------------------------------------- embedding


@pytest.mark.parametrize("padding", [None, 0, -2])
def test_embedding_follows_pytorch(padding: int | None, device: str) -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = nn.Embedding(7, 3, padding), torch.nn.Embedding(7, 3, padding)
    if padding is not None:
        assert not ours.weight[padding].numpy().any()
        assert np.count_nonzero(ours.weight.numpy()) == 18
    theirs = as_theirs(ours, theirs)  # in which the padding row is not 0
    indices = np.array([[0, 5, 2], [5, 0, 6]])
    for given_indices in (indices, ag.tensor(indices)):
        with ag.grad_tape():
            out = ours(given_indices)
        theirs.zero_grad()
        expected = theirs(torch.tensor(indices))
        expected.backward(torch.tensor(normal(2, 3, 3), dtype=torch.float64))
        grads = ag.backward(out, normal(2, 3, 3))
        assert_close(out, expected, device)
        assert_close(grads[ours.weight], theirs.weight.grad, device)


def test_an_embedding_can_be_made_while_a_tape_records(device: str) -> None:
    with ag.grad_tape() as tape:
        layer = nn.Embedding(4, 2, padding_idx=3)
    assert len(tape) == 0 and layer.weight.is_leaf


def test_an_index_outside_the_table_is_an_error(device: str) -> None:
    with pytest.raises(IndexError, match=r"embedding: index 7 at \(1,\) is outside \[0, 7\)"):
        nn.Embedding(7, 3, padding_idx=0)([0, 7])


# ---------------------------------------------------------------- types and devices


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_parameters_in_another_type(dtype: str, device: str) -> None:
    wide = [nn.Linear(4, 3), nn.Conv2d(2, 3, 3), nn.LayerNorm(4), nn.BatchNorm1d(4), nn.Embedding(5, 4)]
    narrow = [
        nn.Linear(4, 3, dtype=dtype),
        nn.Conv2d(2, 3, 3, dtype=dtype),
        nn.LayerNorm(4, dtype=dtype),
        nn.BatchNorm1d(4, dtype=dtype),
        nn.Embedding(5, 4, dtype=dtype),
    ]
    inputs: list[Any] = [normal(2, 4), normal(1, 2, 5, 5), normal(2, 4), normal(6, 4), [0, 4]]
    for layer, other, x in zip(wide, narrow, inputs, strict=True):
        other.load_state_dict(layer.state_dict())
        assert {ag.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)} == {
            t.dtype for t in other.state_dict().values()
        }
        np.testing.assert_allclose(other(x).numpy(), layer(x).numpy(), atol=0.04)


def test_parameters_are_made_where_they_are_wanted() -> None:
    for info in ag.devices():
        for layer in (
            nn.Linear(2, 3, device=info.name),
            nn.ConvTranspose2d(2, 3, 3, device=info.name),
            nn.GroupNorm(1, 2, device=info.name),
            nn.BatchNorm2d(2, device=info.name),
            nn.Embedding(2, 3, 1, device=info.name),
        ):
            assert {t.device for t in layer.state_dict().values()} == {info.name}


def test_checking_arguments_computes_nothing_and_records_nothing(device: str) -> None:
    before = ag.counters()
    with ag.grad_tape() as tape:
        made = [
            nn.MaxPool2d((3, 2), padding=1), nn.AvgPool2d(100), nn.AdaptiveAvgPool2d(7), nn.Upsample((1000, 1000)),
            nn.LeakyReLU(), nn.ELU(), nn.GELU(), nn.Softplus(), nn.HuberLoss(), nn.KLDivLoss(), nn.BCEWithLogitsLoss(),
        ]  # fmt: skip
    assert ag.counters() == before and len(tape) == 0
    assert not any(layer.state_dict() for layer in made)


# ---------------------------------------------------------------- containers


def test_sequential_is_a_sequence_of_modules(device: str) -> None:
    first, second, third = nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2)
    model = nn.Sequential(first, second)
    assert model.append(third) is model
    assert len(model) == 3 and list(model) == [first, second, third]
    assert model[0] is first and model[-1] is third and model[np.int64(1)] is second
    tail = model[1:]
    assert isinstance(tail, nn.Sequential) and list(tail.state_dict()) == ["2.weight", "2.bias"]
    x = ag.tensor(normal(3, 4))
    np.testing.assert_array_equal(tail(model[:1](x)).numpy(), model(x).numpy())
    assert len(nn.Sequential()) == 0 and nn.Sequential()(x) is x
    tail.append(nn.ReLU())
    assert list(tail._modules) == ["1", "2", "3"]  # no name is taken twice
    model[1] = nn.ReLU()
    assert isinstance(model[1], nn.ReLU) and len(model) == 3


def test_sequential_takes_names() -> None:
    model = nn.Sequential({"hidden": nn.Linear(4, 5), "out": nn.Linear(5, 2)})
    assert list(model.state_dict()) == ["hidden.weight", "hidden.bias", "out.weight", "out.bias"]
    assert model[1] is model.out
    assert list(model[1:].state_dict()) == ["out.weight", "out.bias"]


def test_module_list_is_a_list_of_modules() -> None:
    a, b, c, d = (nn.Linear(1, i) for i in range(1, 5))
    layers = nn.ModuleList([a])
    assert layers.append(b) is layers and layers.extend([d]) is layers
    layers.insert(2, c)
    layers.insert(-10, nn.ReLU())
    assert list(layers)[1:] == [a, b, c, d] and isinstance(layers[0], nn.ReLU)
    assert list(layers._modules) == ["0", "1", "2", "3", "4"]
    assert list(layers[1::2]) == [a, c] and list(layers[3:]._modules) == ["0", "1"]
    assert layers[-1] is d and len(layers) == 5
    layers[0] = a
    assert layers[0] is a
    assert [name for name, _ in layers.named_parameters()][:2] == ["0.weight", "0.bias"]
    with pytest.raises(NotImplementedError, match="ModuleList has no forward"):
        layers(1.0)


def test_containers_refuse_what_is_no_module_and_stay_as_they_are() -> None:
    layers, row = nn.ModuleList([nn.ReLU()]), nn.Sequential(nn.ReLU())
    for call, message in (
        (lambda: layers.extend([nn.Tanh(), 3]), "ModuleList: module 1 must be a Module, not int"),
        (lambda: layers.append(ag.relu), "ModuleList: module 0 must be a Module, not function"),
        (lambda: layers.insert(0, None), "ModuleList: module 0 must be a Module, not NoneType"),
        (lambda: layers.insert("0", nn.Tanh()), "ModuleList: index must be an integer, not '0'"),
        (lambda: nn.Sequential([nn.ReLU()]), "Sequential: module 0 must be a Module, not list"),
        (lambda: nn.Sequential({"a": 1}), "Sequential: module 0 must be a Module, not int"),
        (lambda: nn.ModuleList(3), "ModuleList: a sequence is needed, not 3"),
        (lambda: row.__setitem__(0, 5), "Sequential: module 0 must be a Module, not int"),
        (lambda: row["0"], "Sequential: index must be an integer, not '0'"),
    ):
        with pytest.raises(TypeError, match=message):
            call()
    with pytest.raises(IndexError, match="Sequential: index 1 is out of range for 1 modules"):
        row[1]
    for name in ("a.b", "append", "forward"):
        with pytest.raises(ValueError, match="add_module"):
            nn.Sequential({name: nn.ReLU()})
    assert len(layers) == len(row) == 1 and isinstance(row[0], nn.ReLU)


# ---------------------------------------------------------------- wrong arguments

WRONG: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: nn.Linear(0, 3), ValueError, "Linear: in_features must be 1 or more, not 0"),
    (lambda: nn.Linear(3, 2.0), TypeError, "Linear: out_features must be an integer, not 2.0"),
    (lambda: nn.Linear(3, True), TypeError, "Linear: out_features must be an integer, not True"),
    (lambda: nn.Linear(3, 2, bias="yes"), TypeError, "Linear: bias must be True or False"),
    (lambda: nn.Linear(3, 2, device="tpu"), ValueError, "no device 'tpu'"),
    (lambda: nn.Linear(3, 2, dtype="int32"), TypeError, "int32"),
    (lambda: nn.Linear(3, 2, dtype="float8"), TypeError, "dtype must be float32"),
    (lambda: nn.Embedding(3, -1), ValueError, "Embedding: embedding_dim must be 1 or more, not -1"),
    (lambda: nn.Embedding(3, 2, 3), ValueError, "Embedding: padding_idx 3 is outside the 3 rows"),
    (lambda: nn.Embedding(3, 2, 0.0), TypeError, "Embedding: padding_idx must be an integer, not 0.0"),
    (lambda: nn.Flatten("all"), TypeError, "Flatten: start must be an integer, not 'all'"),
    (lambda: nn.Conv1d(3, 4, (3, 3)), ValueError, "Conv1d: kernel_size must be an integer"),
    (lambda: nn.Conv2d(3, 4, 0), ValueError, "Conv2d: kernel_size must be an integer from 1"),
    (lambda: nn.Conv2d(3, 4, 3, stride=0), ValueError, "Conv2d: stride"),
    (lambda: nn.Conv2d(3, 4, 3, padding=-1), ValueError, "Conv2d: padding"),
    (lambda: nn.Conv2d(3, 4, 3, padding="full"), ValueError, "Conv2d: padding must be integers, \"same\" or"),
    (lambda: nn.Conv2d(3, 4, 3, 2, "same"), ValueError, 'Conv2d: padding="same" needs stride 1'),
    (lambda: nn.Conv2d(3, 4, 3, dilation=1.5), TypeError, "Conv2d: dilation must be an integer"),
    (lambda: nn.Conv2d(3, 4, 3, groups=2), ValueError, "Conv2d: groups must divide in_channels 3 and out_channels 4"),
    (lambda: nn.Conv2d(3, 4, 3, groups=0), ValueError, "Conv2d: groups must be 1 or more"),
    (lambda: nn.Conv2d(0, 4, 3), ValueError, "Conv2d: in_channels"),
    (lambda: nn.ConvTranspose2d(3, 4, 3, padding="same"), TypeError, "ConvTranspose2d: padding must be an integer"),
    (lambda: nn.ConvTranspose2d(3, 4, 3, 2, output_padding=2), ValueError, "output_padding 2 must be less than"),
    (lambda: nn.MaxPool2d(0), ValueError, "MaxPool2d: kernel_size"),
    (lambda: nn.MaxPool2d(3, padding=2), ValueError, "max_pool2d: padding .* more than half"),
    (lambda: nn.MaxPool2d(3, stride=0), ValueError, "max_pool2d: stride"),
    (lambda: nn.MaxPool2d(3, dilation=None), TypeError, "MaxPool2d: dilation"),
    (lambda: nn.AvgPool2d((2, 2, 2)), ValueError, "AvgPool2d: kernel_size"),
    (lambda: nn.AvgPool2d(2, padding=3), ValueError, "avg_pool2d: padding"),
    (lambda: nn.AvgPool2d(2, count_include_pad=1), TypeError, "avg_pool2d: count_include_pad"),
    (lambda: nn.AdaptiveAvgPool2d(0), ValueError, "AdaptiveAvgPool2d: output_size"),
    (nn.Upsample, ValueError, "upsample: give scale_factor or size"),
    (lambda: nn.Upsample(4, 2), ValueError, "upsample: give scale_factor or size"),
    (lambda: nn.Upsample(4, mode="cubic"), ValueError, "upsample: mode"),
    (lambda: nn.Upsample(scale_factor=1.5), TypeError, "upsample: scale_factor"),
    (lambda: nn.LayerNorm(0), ValueError, "LayerNorm: normalized_shape"),
    (lambda: nn.LayerNorm(()), ValueError, "LayerNorm: normalized_shape"),
    (lambda: nn.LayerNorm((1, 2, 3, 4, 5)), ValueError, "LayerNorm: shape .* more than 4 dimensions"),
    (lambda: nn.LayerNorm(3.0), TypeError, "LayerNorm: a sequence is needed"),
    (lambda: nn.LayerNorm(3, eps=-1), ValueError, "LayerNorm: eps"),
    (lambda: nn.RMSNorm(3, eps="small"), TypeError, "RMSNorm: eps"),
    (lambda: nn.RMSNorm(3, elementwise_affine=1), TypeError, "RMSNorm: elementwise_affine"),
    (lambda: nn.GroupNorm(4, 6), ValueError, "GroupNorm: num_groups must divide num_channels 6, not 4"),
    (lambda: nn.GroupNorm(0, 6), ValueError, "GroupNorm: num_groups"),
    (lambda: nn.BatchNorm1d(0), ValueError, "BatchNorm1d: num_features"),
    (lambda: nn.BatchNorm2d(3, momentum=None), TypeError, "BatchNorm2d: momentum must be a number, not None"),
    (lambda: nn.BatchNorm2d(3, momentum=np.inf), ValueError, "BatchNorm2d: momentum must be finite"),
    (lambda: nn.BatchNorm2d(3, affine=False, dtype="int32"), TypeError, "int32"),
    (lambda: nn.Dropout(1.5), ValueError, r"Dropout: p must be in \[0, 1\], not 1.5"),
    (lambda: nn.Dropout("half"), TypeError, "Dropout: p must be a number"),
    (lambda: nn.LeakyReLU(np.nan), ValueError, "leaky_relu: negative_slope must be finite"),
    (lambda: nn.ELU(-1), ValueError, "elu: alpha"),
    (lambda: nn.GELU("erf"), ValueError, "gelu: approximate"),
    (lambda: nn.Softplus(0), ValueError, "softplus: beta"),
    (lambda: nn.Softmax(axis=None), TypeError, "Softmax: axis must be an integer, not None"),
    (lambda: nn.MSELoss("average"), ValueError, "mse_loss: reduction"),
    (lambda: nn.L1Loss(None), ValueError, "l1_loss: reduction"),
    (lambda: nn.HuberLoss(delta=0), ValueError, "huber_loss: delta"),
    (lambda: nn.CrossEntropyLoss(label_smoothing=2), ValueError, "cross_entropy_loss: label_smoothing"),
    (lambda: nn.CrossEntropyLoss("mean"), TypeError, "data must hold real numbers"),
    (lambda: nn.CrossEntropyLoss(ignore_index=0.5), TypeError, "cross_entropy_loss: ignore_index"),
    (lambda: nn.NLLLoss(reduction="batchmean"), ValueError, "nll_loss: reduction"),
    (lambda: nn.BCELoss(reduction=1), ValueError, "bce_loss: reduction"),
    (lambda: nn.BCEWithLogitsLoss(reduction=""), ValueError, "bce_with_logits_loss: reduction"),
    (lambda: nn.KLDivLoss(log_target=None), TypeError, "KLDivLoss: log_target must be True or False"),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(WRONG)))
def test_wrong_arguments_are_told_when_a_layer_is_made(case: int) -> None:
    make, error, message = WRONG[case]
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize(
    "make, shape, message",
    [
        (lambda: nn.Linear(3, 2), (4, 5), r"linear: x of shape \(4, 5\)"),
        (lambda: nn.Conv2d(3, 4, 3), (2, 2, 8, 8), "conv2d: x"),
        (lambda: nn.Conv1d(3, 4, 3), (3, 8), "conv1d: x"),
        (lambda: nn.ConvTranspose2d(3, 4, 3), (2, 4, 8, 8), "conv_transpose2d: x"),
        (lambda: nn.MaxPool2d(9), (1, 1, 8, 8), "max_pool2d: kernel_size"),
        (lambda: nn.LayerNorm(3), (2, 4), "layer_norm: x"),
        (lambda: nn.GroupNorm(3, 6), (2, 4, 3), "group_norm"),
        (lambda: nn.BatchNorm1d(3), (2, 4), "BatchNorm1d: x"),
        (nn.GLU, (2, 3), "glu: axis -1"),
    ],
)
def test_inputs_that_do_not_fit(
    make: Callable[[], nn.Module], shape: tuple[int, ...], message: str, device: str
) -> None:
    with pytest.raises(ValueError, match=message):
        make()(normal(*shape))
