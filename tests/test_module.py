"""Module: what it registers, its state, its moves between devices and types, and the path that nodes remember."""

from __future__ import annotations

import copy
import threading
from typing import Any

import numpy as np
import pytest

import ggmlpy_ag as ag
from ggmlpy_ag import nn
from ggmlpy_ag.tape import running_layer


class Block(nn.Module):
    """A layer, a buffer that is saved and one that is not."""

    def __init__(self, width: int = 3) -> None:
        self.linear = nn.Linear(width, width)
        self.register_buffer("seen", ag.tensor([0.0]))
        self.register_buffer("scratch", ag.tensor([7]), persistent=False)

    def forward(self, x: Any) -> ag.Tensor:
        return ag.tanh(self.linear(x))


class Net(nn.Module):
    """Two blocks, a shared layer, and a parameter of its own."""

    def __init__(self) -> None:
        self.scale = ag.param([1.0, 2.0, 3.0])
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.out = nn.Linear(3, 2)
        self.again = self.out

    def forward(self, x: Any) -> ag.Tensor:
        x = self.scale * x
        for block in self.blocks:
            x = block(x)
        return self.out(x) + self.again(x)


NAMES = ["scale"] + [f"blocks.{i}.linear.{n}" for i in (0, 1) for n in ("weight", "bias")] + ["out.weight", "out.bias"]
X = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)


def values(model: nn.Module) -> dict[str, np.ndarray]:
    return {name: t.numpy() for name, t in model.state_dict().items()}


# ---------------------------------------------------------------- what it registers


def test_parameters_buffers_and_parts_by_name() -> None:
    net = Net()
    assert [name for name, _ in net.named_parameters()] == NAMES  # a shared tensor under its first name only
    assert [name for name, _ in net.named_parameters("net")] == [f"net.{name}" for name in NAMES]
    assert [name for name, _ in net.named_parameters(recurse=False)] == ["scale"]
    assert list(net.parameters()) == [t for _, t in net.named_parameters()]
    assert [name for name, _ in net.named_buffers()] == [f"blocks.{i}.{n}" for i in (0, 1) for n in ("seen", "scratch")]
    assert list(net.buffers(recurse=False)) == []
    assert [name for name, _ in net.named_modules()] == [
        "", "blocks", "blocks.0", "blocks.0.linear", "blocks.1", "blocks.1.linear", "out",
    ]  # fmt: skip
    assert [name for name, _ in net.named_modules("net")][:2] == ["net", "net.blocks"]
    assert [name for name, _ in net.named_children()] == ["blocks", "out"]
    assert list(net.children()) == [net.blocks, net.out]
    assert len(list(net.modules())) == 7


def test_a_tensor_under_two_names_is_one_parameter(device: str) -> None:
    tied = nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 5, bias=False))
    tied[1].weight = tied[0].weight
    assert [name for name, _ in tied.named_parameters()] == ["0.weight"]
    assert list(tied.state_dict()) == ["0.weight", "1.weight"]
    before = tied[0].weight.numpy()
    optimizer = ag.optim.SGD(tied.parameters(), lr=1.0)
    with ag.grad_tape():
        loss = ag.sum(tied([1, 2]))
    grads = ag.backward(loss)
    assert list(grads) == [tied[0].weight]
    optimizer.step()
    np.testing.assert_allclose(tied[1].weight.numpy(), before - grads[tied[0].weight].numpy(), 1e-6, 1e-6)


def test_assignment_decides_what_a_name_is() -> None:
    module = nn.Module()
    module.x = ag.param([1.0])
    assert dict(module.named_parameters()) == {"x": module.x}
    module.x = nn.ReLU()
    assert not list(module.parameters()) and list(module.children()) == [module.x]
    module.register_buffer("x", ag.tensor([2.0]))
    assert not list(module.children()) and list(module.buffers()) == [module.x]
    module.x = ag.tensor([3.0])
    assert list(module.buffers()) == [module.x]
    module.x = None
    assert module.x is None and not module.state_dict()
    module.x = ag.tensor([4.0])  # a plain tensor is none of ours
    assert not module.state_dict()
    module.register_parameter("w", ag.param([5.0]))
    module.register_parameter("b", None)
    module.add_module("0", nn.Linear(1, 1))
    assert list(module.state_dict()) == ["w", "0.weight", "0.bias"] and module.b is None
    del module.w
    assert list(module.state_dict()) == ["0.weight", "0.bias"] and not hasattr(module, "w")
    with pytest.raises(AttributeError):
        del module.w


def test_a_frozen_parameter_stays_one() -> None:
    layer = nn.Linear(2, 2)
    assert layer.requires_grad_(False) is layer
    assert [t.requires_grad for t in layer.parameters()] == [False, False]
    layer.weight = ag.tensor(np.zeros((2, 2)))
    assert list(layer.state_dict()) == ["weight", "bias"]
    with ag.grad_tape() as tape:
        layer(X[:, :2])
    assert len(tape) == 0
    layer.requires_grad_()
    assert all(t.requires_grad for t in layer.parameters())


def test_what_cannot_be_registered_is_refused() -> None:
    module = Block()
    with ag.grad_tape():
        made = module.linear(X)
    state = list(module.state_dict())
    for call, error, message in (
        (lambda: module.register_buffer("b", [1.0]), TypeError, "register_buffer: b must be a tensor .* not list"),
        (lambda: module.register_buffer("b", ag.param([1.0])), TypeError, "not one that requires a gradient"),
        (lambda: module.register_buffer("a.b", ag.tensor([1.0])), ValueError, "a text without a dot, not 'a.b'"),
        (lambda: module.register_buffer("eval", ag.tensor([1.0])), ValueError, "eval is an attribute of Block"),
        (lambda: module.register_buffer("training", ag.tensor([1.0])), ValueError, "training is an attribute"),
        (lambda: module.register_parameter("p", ag.tensor([1.0])), TypeError, "p must be a leaf that requires"),
        (lambda: module.register_parameter("", ag.param([1.0])), ValueError, "a text without a dot, not ''"),
        (lambda: module.register_parameter("p", made), TypeError, "p must be a leaf that requires a gradient"),
        (lambda: module.add_module("m", ag.relu), TypeError, "add_module: m must be a Module, not function"),
        (lambda: module.add_module(3, nn.ReLU()), ValueError, "a text without a dot, not 3"),
        (lambda: setattr(module, "seen", ag.param([1.0])), TypeError, "seen is a buffer of Block"),
        (lambda: setattr(module.linear, "weight", made), TypeError, "weight is a parameter of Linear: .* on a tape"),
    ):
        with pytest.raises(error, match=message):
            call()
    module.kept = made  # a plain attribute
    assert list(module.state_dict()) == state and module.training is True
    assert not hasattr(module, "p") and not hasattr(module, "b") and not hasattr(module, "m")


def test_a_module_without_forward_says_so() -> None:
    with pytest.raises(NotImplementedError, match=r"Module has no forward\(\)"):
        nn.Module()(1.0)


def test_modes_and_apply_reach_every_part() -> None:
    net = Net()
    assert net.training and net.eval() is net
    assert not any(module.training for module in net.modules())
    net.blocks.train()
    assert [module.training for module in (net, net.blocks, net.blocks[1].linear, net.out)] == [
        False,
        True,
        True,
        False,
    ]
    with pytest.raises(TypeError, match="train: mode must be True or False, not 1"):
        net.train(1)
    visited: list[nn.Module] = []
    assert net.apply(visited.append) is net
    assert visited[-1] is net and visited.index(net.blocks[0].linear) < visited.index(net.blocks[0])


def test_zero_grad_forgets_gradients_and_the_tape(device: str) -> None:
    net = Net()
    with ag.grad_tape() as tape:
        loss = ag.sum(net(X))
    ag.backward(loss)
    assert all(t.grad is not None for t in net.parameters())
    net.zero_grad()
    assert all(t.grad is None for t in net.parameters()) and len(tape) == 0


# ---------------------------------------------------------------- showing


class Described(nn.Module):
    """With a description and parts."""

    def __init__(self) -> None:
        self.inner = nn.Sequential(nn.Linear(4, 2, bias=False), nn.Dropout(0.1))
        self.act = nn.ReLU()

    def extra_repr(self) -> str:
        return "heads=2"


def test_repr_is_a_tree() -> None:
    assert repr(nn.Linear(4, 2)) == "Linear(in_features=4, out_features=2, bias=True)"
    assert repr(nn.Sequential()) == "Sequential()"
    assert repr(nn.Sequential(Described(), nn.Conv2d(1, 2, 3, padding=1, groups=1))) == (
        "Sequential(\n"
        "  (0): Described(\n"
        "    heads=2\n"
        "    (inner): Sequential(\n"
        "      (0): Linear(in_features=4, out_features=2, bias=False)\n"
        "      (1): Dropout(p=0.1)\n"
        "    )\n"
        "    (act): ReLU()\n"
        "  )\n"
        "  (1): Conv2d(1, 2, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))\n"
        ")"
    )


# ---------------------------------------------------------------- state


def test_state_dict_has_parameters_and_persistent_buffers(device: str) -> None:
    net = Net()
    state = net.state_dict()
    assert list(state) == [
        "scale", "blocks.0.seen", "blocks.0.linear.weight", "blocks.0.linear.bias", "blocks.1.seen",
        "blocks.1.linear.weight", "blocks.1.linear.bias", "out.weight", "out.bias", "again.weight", "again.bias",
    ]  # fmt: skip
    assert not any(t.requires_grad for t in state.values())
    net.scale.copy_(5.0)
    assert state["scale"].tolist() == [5.0, 5.0, 5.0]  # shared


@pytest.mark.parametrize("as_arrays", [True, False])
def test_a_state_is_loaded_in_place(as_arrays: bool, device: str) -> None:
    net, other = Net(), Net()
    parameters = list(other.parameters())
    other.load_state_dict(values(net) if as_arrays else net.state_dict())
    assert list(other.parameters()) == parameters
    np.testing.assert_array_equal(other(X).numpy(), net(X).numpy())
    net.scale.copy_(0.0)
    assert other.scale.tolist() == [1.0, 2.0, 3.0]  # not shared


def test_a_state_moves_between_devices_and_types() -> None:
    for info in ag.devices():
        wide, narrow = nn.Linear(3, 2), nn.Linear(3, 2, device=info.name, dtype="bfloat16")
        narrow.load_state_dict(wide.state_dict())
        np.testing.assert_allclose(narrow.weight.numpy(), wide.weight.numpy(), 2**-8)
        wide.load_state_dict(narrow.state_dict())
        np.testing.assert_array_equal(narrow.weight.numpy(), wide.weight.numpy())


def test_a_state_of_pytorch_is_loaded(device: str) -> None:
    torch = pytest.importorskip("torch")
    theirs = torch.nn.Sequential(
        torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.Flatten(), torch.nn.Linear(8, 3)
    )
    theirs.train()(torch.randn(5, 1, 4, 4))  # moves the running values
    ours = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(8, 3))
    state = {name: value.numpy() for name, value in theirs.state_dict().items()}
    with pytest.raises(ValueError, match="unexpected: 1.num_batches_tracked$"):
        ours.load_state_dict(state)
    ours.load_state_dict(state, strict=False)
    x = np.random.default_rng(1).standard_normal((2, 1, 4, 4)).astype(np.float32)
    with torch.no_grad():
        expected = theirs.eval()(torch.tensor(x)).numpy()
    np.testing.assert_allclose(ours.eval()(x).numpy(), expected, 1e-5, 1e-6)
    ours.load_state_dict(theirs.state_dict(), strict=False)  # its tensors do as well
    np.testing.assert_allclose(ours(x).numpy(), expected, 1e-5, 1e-6)


def test_a_state_that_does_not_fit_is_told_in_full_and_changes_nothing(device: str) -> None:
    net = Net()
    before = values(net)
    state = {name: np.zeros(a.shape) for name, a in before.items()}
    del state["scale"], state["out.bias"]
    state |= {"more": np.zeros(1), "out.weight": np.zeros((3, 2)), "blocks.0.seen": np.zeros(())}
    with pytest.raises(ValueError) as caught:
        net.load_state_dict(state)
    assert str(caught.value).splitlines() == [
        "the state does not fit Net:",
        "  missing: scale, out.bias",
        "  unexpected: more",
        "  blocks.0.seen has shape (), expected (1,)",
        "  out.weight has shape (3, 2), expected (2, 3)",
    ]
    with pytest.raises(ValueError, match="out.weight has shape") as caught:
        net.load_state_dict(state, strict=False)
    assert "missing" not in str(caught.value)
    for wrong in ("text", [[1.0], [2.0, 3.0]], np.zeros(3, complex)):
        with pytest.raises((ValueError, TypeError), match="the value of scale must"):
            net.load_state_dict({**values(net), "scale": wrong})
    with pytest.raises(TypeError, match="state must be a mapping of names to arrays, not list"):
        net.load_state_dict([("scale", np.zeros(3))])
    for name, array in values(net).items():
        np.testing.assert_array_equal(array, before[name])


def test_a_state_may_be_partial_where_it_need_not_be_complete(device: str) -> None:
    net = Net()
    out = net.out.weight.numpy()
    net.load_state_dict({"scale": [4.0, 5.0, 6.0], "more": "of no interest"}, strict=False)
    assert net.scale.tolist() == [4.0, 5.0, 6.0]
    np.testing.assert_array_equal(net.out.weight.numpy(), out)


def test_whole_numbers_stay_whole() -> None:
    module = nn.Module()
    module.register_buffer("count", ag.tensor([3]))
    module.load_state_dict({"count": np.array([4.0])})
    assert module.count.dtype == np.int32 and module.count.tolist() == [4]
    with pytest.raises(TypeError, match="the value of count must hold whole numbers"):
        module.load_state_dict({"count": [4.5]})
    assert module.to("float16").count.dtype == np.int32


def test_a_deep_copy_has_memory_of_its_own(device: str) -> None:
    net = Net().eval()
    twin = copy.deepcopy(net)
    np.testing.assert_array_equal(twin(X).numpy(), net(X).numpy())
    assert twin.again is twin.out and twin.out is not net.out  # shared as before, among itself
    assert not twin.training and [n for n, _ in twin.named_parameters()] == NAMES
    assert all(t.requires_grad for t in twin.parameters())
    net.out.weight.copy_(0.0)
    assert twin.out.weight.numpy().all()
    twin.extra = nn.ReLU()
    assert not hasattr(net, "extra") and len(list(net.modules())) == 7
    with ag.grad_tape() as tape:
        twin(X)
    assert "blocks.1.linear" in {node.layer for node in tape.nodes}


# ---------------------------------------------------------------- devices and types


def train(net: nn.Module, optimizer: Any, steps: int) -> None:
    for _ in range(steps):
        with ag.grad_tape():
            loss = ag.mean(net(X) ** 2.0)
        ag.backward(loss)
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize("kind", [ag.optim.SGD, ag.optim.AdamW], ids=lambda k: k.__name__)
def test_an_optimizer_goes_on_after_a_move(kind: Any) -> None:
    options = {"lr": 0.05} | ({"momentum": 0.9} if kind is ag.optim.SGD else {})
    results = []
    for name in ["cpu", *[info.name for info in ag.devices() if info.name != "cpu"]]:
        ag.manual_seed(4)
        with ag.device("cpu"):
            net = Net()
        optimizer = kind(net.parameters(), **options)
        parameters = list(net.parameters())
        train(net, optimizer, 2)
        assert net.to(name) is net
        assert list(net.parameters()) == parameters and net.again is net.out
        assert {t.device for t in (*net.parameters(), *net.buffers())} == {name}
        train(net, optimizer, 2)
        results.append(values(net))
    for other in results[1:]:
        for path, array in other.items():
            np.testing.assert_allclose(array, results[0][path], 1e-4, 1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_to_another_type_and_back(dtype: str, device: str) -> None:
    net = Net()
    before, wide = values(net), net(X).numpy()
    optimizer = ag.optim.AdamW(net.parameters(), lr=0.01)
    parameters = list(net.parameters())
    net.to(dtype)
    assert list(net.parameters()) == parameters
    kinds = {name: t.dtype for name, t in net.named_buffers()}
    assert kinds["blocks.0.seen"] == net.scale.dtype == ag.tensor([0.0], dtype=dtype).dtype
    assert kinds["blocks.0.scratch"] == np.int32
    np.testing.assert_allclose(net(X).numpy(), wide, atol=0.05)
    train(net, optimizer, 1)
    assert all(t.requires_grad and t.dtype == net.scale.dtype for t in net.parameters())
    moved = net.to(dtype="float32").scale.numpy()
    assert (moved != before["scale"]).all()
    np.testing.assert_allclose(moved, before["scale"], atol=0.03)


def test_a_wrong_move_changes_nothing() -> None:
    net = Net()
    arrays = [t._array for t in net.parameters()]
    for arguments, error in ((("tpu",), ValueError), (("int32",), TypeError), ((None, "float8"), TypeError)):
        with pytest.raises(error):
            net.to(*arguments)
    assert [t._array for t in net.parameters()] == arrays
    net.scale.grad = ag.tensor([1.0, 1.0, 1.0])
    net.to(net.scale.device, "float32")  # nothing to do
    assert net.scale.grad is not None and [t._array for t in net.parameters()] == arrays
    net.to("float16")
    assert net.scale.grad is None


# ---------------------------------------------------------------- the path that a tape knows


def layers(tape: ag.Tape) -> list[tuple[str, str | None]]:
    return [(node.op, node.layer) for node in tape.nodes]


def test_nodes_remember_the_path_of_the_module_that_ran() -> None:
    net = Net()
    with ag.grad_tape() as tape:
        loss = ag.sum(net(X))
        net.blocks[1](X)
    assert layers(tape) == [
        ("mul", ""),
        ("linear", "blocks.0.linear"),
        ("tanh", "blocks.0"),
        ("linear", "blocks.1.linear"),
        ("tanh", "blocks.1"),
        ("linear", "out"),
        ("linear", "out"),  # the shared one goes by its first name
        ("add", ""),
        ("sum", None),
        ("linear", "linear"),  # the block is the outermost here
        ("tanh", ""),
    ]
    assert loss.size == 1 and running_layer.get() is None


def test_modules_made_on_the_fly_go_by_their_class() -> None:
    class Fly(nn.Module):
        def __init__(self) -> None:
            self.first = Block()

        def forward(self, x: Any) -> ag.Tensor:
            return nn.Sequential(self.first, nn.Linear(3, 3))(x)

    class Outer(nn.Module):
        def __init__(self) -> None:
            self.fly = Fly()

        def forward(self, x: Any) -> ag.Tensor:
            return self.fly(x)

    with ag.grad_tape() as tape:
        Outer()(X)
    assert layers(tape) == [("linear", "fly.first.linear"), ("tanh", "fly.first"), ("linear", "fly.Sequential.Linear")]


def test_paths_follow_a_change_of_the_tree() -> None:
    net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))

    def paths() -> list[str | None]:
        with ag.grad_tape() as tape:
            net(X)
        return [node.layer for node in tape.nodes]

    assert paths() == ["0", "1"]
    net.append(nn.Linear(3, 3))
    net[0] = nn.Sequential(net[0])
    assert paths() == ["0.0", "1", "2"]


def test_an_error_inside_leaves_no_path_behind() -> None:
    class Faulty(nn.Module):
        def __init__(self) -> None:
            self.part = nn.Linear(3, 3)
            self.careful = True

        def forward(self, x: Any) -> ag.Tensor:
            try:
                return self.part(x)
            except ValueError:
                if not self.careful:
                    raise
                return ag.exp(ag.param(x))

    net = nn.Sequential(Faulty())
    with ag.grad_tape() as tape:
        net(X[:, :2])
        net[0].careful = False
        with pytest.raises(ValueError, match="linear"):
            net(X[:, :2])
        assert running_layer.get() is None
        Block()(X)
    assert layers(tape) == [("exp", "0"), ("linear", "linear"), ("tanh", "")]


def test_threads_have_paths_of_their_own() -> None:
    inside, outside = threading.Event(), threading.Event()
    found: list[tuple[str, str | None]] = []

    class Waiting(nn.Module):
        def forward(self, x: Any) -> Any:
            inside.set()
            outside.wait(60)
            return x

    waiting = threading.Thread(target=nn.Sequential(nn.Sequential(Waiting())), args=(X,))
    waiting.start()
    inside.wait(60)
    with ag.grad_tape() as tape:
        Block()(X)
    found += layers(tape)
    outside.set()
    waiting.join()
    assert found == [("linear", "linear"), ("tanh", "")]


class Deep(nn.Module):
    """Blocks that are called by `run`."""

    def __init__(self, run: Any) -> None:
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Dropout(0.3), nn.Linear(5, 3)) for _ in range(3)
        )
        self.run = run

    def forward(self, x: Any) -> ag.Tensor:
        for block in self.blocks:
            x = x + self.run(block, x)
        return x


def gradients(run: Any) -> list[np.ndarray]:
    ag.manual_seed(6)
    net, x = Deep(run), ag.param(X)
    with ag.grad_tape() as tape:
        loss = ag.sum(net(x) ** 2.0)
    found = ag.backward(loss)
    if run is ag.checkpoint:
        assert [node.op for node in tape.nodes[:-2]] == ["checkpoint", "add"] * 3
        assert {node.layer for node in tape.nodes[:-2]} == {""}
    return [loss.numpy(), found[x].numpy(), *(found[t].numpy() for t in net.parameters())]


def test_checkpointed_modules_have_the_same_gradients(device: str) -> None:
    expected = gradients(lambda block, x: block(x))
    for got, wanted in zip(gradients(ag.checkpoint), expected, strict=True):
        np.testing.assert_allclose(got, wanted, 1e-5, 1e-6)
    assert running_layer.get() is None
