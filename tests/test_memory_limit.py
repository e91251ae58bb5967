"""Limits on a device's memory: what is refused, what the error says, and that training goes on undisturbed."""

from __future__ import annotations

import doctest
import gc
import re
from collections.abc import Iterator

import numpy as np
import pytest

import ggmlpy_ag as ag
from ggmlpy_ag import nn, optim
from ggmlpy_ag.backend import devices, errors
from ggmlpy_ag.backend.limits import limit_from_environment
from ggmlpy_ag.backend.memory import MIN_SLAB, Pool, format_bytes

KIB, MIB = 1 << 10, 1 << 20


@pytest.fixture(autouse=True)
def no_limit_afterwards() -> Iterator[None]:
    gc.collect()
    gc.freeze()  # the objects of other tests: each refusal has the collector look at all of them
    yield
    gc.unfreeze()
    for opened in devices.opened():
        opened.pool.limit = None


@pytest.fixture
def pool(device: str) -> Pool:
    """The pool of the device."""
    return devices.get(device).pool


def live() -> int:
    return ag.memory_stats().live


def values(nbytes: int, value: float = 1.0) -> np.ndarray:
    return np.full(nbytes // 4, value, np.float32)


# ---------------------------------------------------------------- setting it


def test_bytes_a_share_or_nothing(device: str, pool: Pool) -> None:
    total = devices.get(device).info.memory()[1]
    for limit, expected in ((2 * MIB, 2 * MIB), (0.25, total // 4), (np.int64(7), 7), (1.0, total), (None, None)):
        ag.set_memory_limit(device, limit)
        assert ag.memory_limit(device) == ag.memory_limit() == ag.memory_stats().limit == expected
    assert "limit" not in str(ag.memory_stats())
    ag.set_memory_limit(None, 3 * MIB)  # of the default device
    assert ag.memory_limit(device) == 3 * MIB
    assert "limit 3.00 MiB" in str(ag.memory_stats())


@pytest.mark.parametrize(
    ("limit", "error", "message"),
    [
        (0, ValueError, "at least 1 byte, not 0"),
        (-5, ValueError, "at least 1 byte, not -5"),
        (0.0, ValueError, "above 0 and at most 1"),
        (1.5, ValueError, "above 0 and at most 1 as a share of the device's memory, not 1.5"),
        (float("nan"), ValueError, "above 0 and at most 1"),
        ("2 GiB", TypeError, "bytes (int), a share of the device's memory (float) or None, not '2 GiB'"),
        (True, TypeError, "not True"),
    ],
)
def test_wrong_limits(pool: Pool, limit: object, error: type[Exception], message: str) -> None:
    ag.set_memory_limit(None, 5 * MIB)
    with pytest.raises(error, match=re.escape(message)):
        ag.set_memory_limit(None, limit)  # type: ignore[arg-type]
    assert ag.memory_limit() == 5 * MIB


def test_an_unknown_device() -> None:
    with pytest.raises(ValueError, match="no device 'cuda'"):
        ag.set_memory_limit("cuda", MIB)


@pytest.mark.parametrize(("text", "expected"), [("", None), ("4096", 4096), ("0.5", 500), ("1", 1), ("1.0", 1000)])
def test_the_environment_sets_it(monkeypatch: pytest.MonkeyPatch, text: str, expected: int | None) -> None:
    monkeypatch.setenv("GGMLPY_AG_MEMORY_LIMIT", text)
    assert limit_from_environment(1000) == expected


@pytest.mark.parametrize("text", ["2GiB", "-1", "0", "nan", "1.5"])
def test_nonsense_in_the_environment(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("GGMLPY_AG_MEMORY_LIMIT", text)
    with pytest.raises(ValueError, match=f"GGMLPY_AG_MEMORY_LIMIT='{text}'"):
        limit_from_environment(1000)


def test_the_example_runs() -> None:
    (example,) = doctest.DocTestFinder().find(ag.set_memory_limit, globs={"ag": ag, "np": np})
    assert example.examples
    assert doctest.DocTestRunner(verbose=False).run(example).failed == 0


# ---------------------------------------------------------------- what it does


def test_it_is_exact_to_the_byte(pool: Pool) -> None:
    kept = ag.tensor(values(64 * KIB))
    pool.limit = live() + 32 * KIB
    fits = ag.tensor(values(32 * KIB))
    for nbytes in (4, 64 * KIB):
        with pytest.raises(ag.OutOfMemoryError):
            ag.tensor(values(nbytes))
    del fits
    assert ag.tensor(values(32 * KIB)).size == 8 * KIB
    with pytest.raises(ag.OutOfMemoryError):
        ag.tensor(values(32 * KIB + 4))
    assert kept.numpy().sum() == 16 * KIB


def test_scratch_counts(pool: Pool) -> None:
    x = ag.tensor(np.ones((128, 128)))

    def total() -> float:
        return (x.exp() @ x).sum().item()

    ag.reset_peak_memory()
    expected = total()
    peak = ag.memory_stats().peak
    pool.limit = peak
    assert total() == expected
    pool.limit = peak - 1
    with pytest.raises(ag.OutOfMemoryError) as caught:
        total()
    assert caught.value.scratch >= 64 * KIB


def test_below_what_is_in_use_nothing_more_is_handed_out(pool: Pool) -> None:
    x = ag.tensor(values(64 * KIB))
    ag.set_memory_limit(None, live() - 1)
    with pytest.raises(ag.OutOfMemoryError):
        x.exp().numpy()
    assert x.numpy()[0] == 1.0
    x.copy_(2.0)  # which needs no memory
    assert x.numpy()[-1] == 2.0


def test_memory_that_garbage_or_pending_values_hold_is_found(pool: Pool) -> None:
    total = ag.tensor(values(256 * KIB)).sum()  # pending, and the only one to hold the first tensor
    cycle: list[object] = [ag.tensor(values(256 * KIB))]
    cycle.append(cycle)
    del cycle
    pool.limit = live() + KIB
    assert ag.tensor(values(512 * KIB)).size == 128 * KIB
    assert total.item() == 64 * KIB


def test_what_is_reserved_follows_the_limit(pool: Pool) -> None:
    ag.empty_cache()
    limit = live() + 9 * MIB
    large = [ag.tensor(values(8 * MIB)) for _ in range(3)]
    del large
    ag.set_memory_limit(None, limit)
    assert ag.memory_stats().reserved <= limit + MIN_SLAB  # cached buffers went back
    kept = []
    with pytest.raises(ag.OutOfMemoryError):
        while True:
            kept.append(ag.tensor(values(256 * KIB)))
    stats = ag.memory_stats()
    assert limit - 256 * KIB < stats.live <= limit
    assert stats.reserved <= limit + MIN_SLAB


def test_an_upload_asks_for_its_own_bytes_whatever_else_is_pending(pool: Pool) -> None:
    x = ag.tensor(values(4 * KIB))
    huge = ag.broadcast_to(x, (1024, KIB)).exp()
    pool.limit = live() + 64 * KIB
    with pytest.raises(ag.OutOfMemoryError) as caught:
        ag.tensor(values(128 * KIB))
    assert caught.value.requested == 128 * KIB
    assert huge.shape == (1024, KIB)


# ---------------------------------------------------------------- what the error says


def test_the_figures_of_the_error(device: str, pool: Pool) -> None:
    x = ag.tensor(values(64 * KIB))
    pool.limit = live() + 80 * KIB
    before = live()
    with pytest.raises(ag.OutOfMemoryError, match="64.00 KiB made by tensor") as caught:
        ag.broadcast_to(x, (3, 16 * KIB)).numpy()
    error = caught.value
    assert (error.device, error.requested, error.limit) == (device, 192 * KIB, before + 80 * KIB)
    assert (error.live, error.scratch) == (before, 0)
    first = str(error).splitlines()[0]
    assert first.startswith(f"out of memory on {device}: 192.00 KiB wanted, ")
    assert first.endswith(f"limit {format_bytes(pool.limit)}")
    assert "tape" not in str(error)  # there is none


class Block(nn.Module):
    def __init__(self, n: int, inner: int) -> None:
        self.inner, self.outer = nn.Linear(n, inner), nn.Linear(inner, n)

    def forward(self, x: ag.Tensor) -> ag.Tensor:
        return x + self.outer(self.inner(x).relu().tanh())


class Blocks(nn.Module):
    """Three blocks, of which some are checkpointed."""

    def __init__(self, *checkpointed: int) -> None:
        self.blocks = nn.ModuleList([Block(32, inner) for inner in (64, 128, 32)])
        self.checkpointed = checkpointed

    def forward(self, x: ag.Tensor) -> ag.Tensor:
        for i, block in enumerate(self.blocks):
            x = ag.checkpoint(block, x) if i in self.checkpointed else block(x)
        return x


def forward(model: nn.Module, n: int = 64) -> ag.Tensor:
    with ag.grad_tape():
        return model(ag.tensor(np.ones((n, 32)))).square().mean()


def freeable(model: nn.Module, n: int = 64) -> int:
    forward(model, n).item()
    return ag.tape_memory(quiet=True).bytes_freeable


def advised(error: ag.OutOfMemoryError, start: str) -> str:
    (line,) = (line for line in str(error).splitlines() if line.startswith(start))
    return line


def test_the_error_names_the_cheapest_layer_to_checkpoint_and_what_that_frees(pool: Pool) -> None:
    ag.manual_seed(0)
    whole = freeable(Blocks())
    saved = [whole - freeable(Blocks(i)) for i in range(3)]
    assert saved[1] > saved[0] > saved[2] > 0
    half = whole - freeable(Blocks(), 32)
    ag.zero_grad()
    model = Blocks()
    step = pool.alignment
    cases = [(step, (2,)), (saved[2], (2,)), (saved[2] + step, (0,)), (saved[1], (1,)), (sum(saved), (0, 1, 2))]
    for missing, best in cases:
        ag.zero_grad()
        loss = forward(model)
        loss.item()
        pool.limit = live() + 1024 * KIB
        with pytest.raises(ag.OutOfMemoryError) as caught:
            ag.tensor(values(1024 * KIB + missing))
        pool.limit = None
        layers = f"layer{'s' * (len(best) > 1)} {', '.join(repr(f'blocks.{i}') for i in best)}"
        expected = f"  checkpointing {layers} keeps {format_bytes(sum(saved[i] for i in best))} less and computes "
        assert advised(caught.value, "  checkpointing").startswith(expected), missing
        expected = f"  a batch of half the size keeps about {format_bytes(half)} less"
        assert advised(caught.value, "  a batch") == expected


def test_a_finished_tape_can_be_cleared_and_one_in_use_cannot(pool: Pool) -> None:
    model = Blocks()
    whole = freeable(model)
    pool.limit = live()
    with pytest.raises(ag.OutOfMemoryError) as caught:
        ag.tensor(values(KIB))
    assert advised(caught.value, "  clearing") == f"  clearing the tape frees {format_bytes(whole)}"
    before = live()
    ag.zero_grad()
    assert before - live() == whole
    pool.limit = None
    ag.reset_peak_memory()
    loss = forward(model)
    loss.item()
    forward_peak = ag.memory_stats().peak
    ag.zero_grad()
    loss = forward(model)
    pool.limit = forward_peak + KIB
    with pytest.raises(ag.OutOfMemoryError) as caught:
        ag.backward(loss)
    text = str(caught.value)
    assert "clearing" not in text
    assert "checkpointing layer" in text
    assert "a batch of half the size keeps about" in text


def test_without_layers_the_error_names_operations(pool: Pool) -> None:
    w = ag.param(values(64 * KIB))
    with ag.grad_tape():
        loss = (w * 2.0).exp().tanh().sum()
    loss.item()
    pool.limit = live()
    with pytest.raises(ag.OutOfMemoryError) as caught:
        ag.tensor(values(KIB))
    lines = str(caught.value).splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("the tape: 4 operations hold"))
    assert lines[at + 1 : at + 4] == ["  64.00 KiB in mul", "  64.00 KiB in exp", "  64.00 KiB in tanh"]
    assert "checkpointing" not in str(caught.value)


def test_an_explainer_that_fails_does_not_hide_the_error(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(error: ag.OutOfMemoryError) -> list[str]:
        raise KeyError(error.requested)

    monkeypatch.setattr(errors, "explainers", [broken])
    monkeypatch.setattr("ggmlpy_ag.backend.memory.explainers", errors.explainers)
    pool.limit = live() + KIB
    with pytest.raises(ag.OutOfMemoryError, match=r"\(broken failed: KeyError\(2048\)\)"):
        ag.tensor(values(2 * KIB))


# ---------------------------------------------------------------- going on


class Faults(int):
    """A limit that is reached at one request, the k-th after `k` others, and stays so for a number of requests."""

    k: int
    refusals: int
    requests = 0
    refused = 0

    @classmethod
    def after(cls, k: int, refusals: int = 1 << 60) -> Faults:
        faults = cls(1 << 60)
        faults.k, faults.refusals = k, refusals
        return faults

    def __lt__(self, wanted: int) -> bool:  # `wanted > limit` asks the subclass of int first
        self.requests += 1
        reached = self.requests > self.k and self.refused < self.refusals
        self.refused += reached
        return reached


class Network(nn.Module):
    """A little of everything that has state or draws numbers."""

    def __init__(self, dtype: str) -> None:
        self.first, self.last = nn.Linear(5, 8, dtype=dtype), nn.Linear(8, 3, dtype=dtype)
        self.norm, self.drop = nn.BatchNorm1d(8), nn.Dropout(0.5)

    def forward(self, x: ag.Tensor) -> ag.Tensor:
        h = self.drop(self.norm(self.first(x)).relu())
        return self.last(ag.checkpoint(lambda h: (h * h).tanh(), h)).astype("float32")


OPTIMIZERS = {
    "AdamW": lambda model: optim.AdamW(model.parameters(), lr=0.1),
    "SGD": lambda model: optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True),
    "RMSprop": lambda model: optim.RMSprop(model.parameters(), momentum=0.5, centered=True),
    "Lion": lambda model: optim.Lion(model.parameters(), lr=0.01),
    "Adagrad": lambda model: optim.Adagrad(model.parameters(), initial_accumulator_value=0.1),
}


CONSTANTS = 10  # the most that an optimizer keeps of a step for its learning rate and the like


class Training:
    """A model that is trained by steps of two batches, whose gradients add up."""

    def __init__(self, kind: str, dtype: str) -> None:
        ag.manual_seed(0)
        self.model = Network(dtype)
        self.optimizer = OPTIMIZERS[kind](self.model)
        rng = np.random.default_rng(0)
        self.batches = [(rng.standard_normal((6, 5)), rng.integers(0, 3, 6)) for _ in range(2)]

    def step(self) -> None:
        for x, labels in self.batches:
            with ag.grad_tape():
                loss = ag.cross_entropy_loss(self.model(ag.tensor(x)), labels)
            ag.backward(loss)
        optim.clip_grad_norm(self.model, 1.0)
        self.optimizer.step()

    def state(self) -> dict[str, object]:
        """All that a step changes."""
        moments = self.optimizer.state_dict()
        arrays = {(i, name): a for i, found in moments["state"].items() for name, a in found.items()}
        return {
            **{name: t.numpy() for name, t in self.model.state_dict().items()},
            **arrays,
            "steps": moments["steps"],
            "gradients": [p.grad is not None for p in self.model.parameters()],
        }

    def buffers(self) -> dict[str, np.ndarray]:
        return {name: b.numpy() for name, b in self.model.named_buffers()}

    def rewind(self, random: dict[str, object], buffers: dict[str, np.ndarray]) -> None:
        """Drop the gradients and the tape, and take back what a forward pass has changed: what the docs tell to do."""
        self.optimizer.zero_grad()
        ag.set_rng_state(random)
        for name, buffer in self.model.named_buffers():
            buffer.copy_(buffers[name])


def assert_equal(found: dict[str, object], expected: dict[str, object]) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=str(name))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("kind", sorted(OPTIMIZERS))
def test_whichever_request_is_refused_the_step_can_be_repeated(device: str, pool: Pool, kind: str, dtype: str) -> None:
    """Each request for memory of a step, or in most cases some of them, is the one from which on all are refused."""
    expected, requests = undisturbed(pool, kind, dtype)
    training = Training(kind, dtype)
    training.step()
    training.optimizer.zero_grad()
    random, buffers = ag.get_rng_state(), training.buffers()
    before, start = training.state(), live()
    stride = 1 if (kind, dtype, device) == ("AdamW", "float16", "cpu") else 19
    first = sorted(OPTIMIZERS).index(kind) % stride
    for k in range(first, requests, stride):
        pool.limit = faults = Faults.after(k)
        try:
            training.step()
        except ag.OutOfMemoryError:
            pool.limit = None
        else:  # some constants are there already, such as the learning rate's, which a step that failed has left
            assert not faults.refused and requests - k <= CONSTANTS
            break
        training.rewind(random, buffers)
        assert_equal(training.state(), before)
        assert live() == start, k
    else:
        training.step()
    assert_equal(training.state(), expected)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("kind", sorted(OPTIMIZERS))
def test_a_first_step_that_is_refused_leaves_no_state(pool: Pool, kind: str, dtype: str) -> None:
    training = Training(kind, dtype)
    for p in training.model.parameters():
        p.grad = ag.tensor(np.ones(p.shape), dtype)
    before = training.state()
    pool.limit = 1
    with pytest.raises(ag.OutOfMemoryError):
        training.optimizer.step()
    pool.limit = None
    assert training.optimizer.state == {}
    assert_equal(training.state(), before)


def test_one_refusal_is_made_good_without_an_error(pool: Pool) -> None:
    """By collecting garbage, giving back what is cached, and computing values one after the other."""
    expected, requests = undisturbed(pool, "AdamW", "float32")
    for k in range(0, requests, 17):
        training = Training("AdamW", "float32")
        training.step()
        training.optimizer.zero_grad()
        pool.limit = faults = Faults.after(k, refusals=1)
        training.step()
        pool.limit = None
        assert faults.refused == 1
        assert_equal(training.state(), expected)


def undisturbed(pool: Pool, kind: str, dtype: str) -> tuple[dict[str, object], int]:
    """The state after two steps, and how often the second one asks for memory."""
    training = Training(kind, dtype)
    training.step()
    training.optimizer.zero_grad()
    pool.limit = faults = Faults.after(1 << 30)
    training.step()
    pool.limit = None
    return training.state(), faults.requests


def test_a_batch_that_does_not_fit_and_then_a_smaller_one(pool: Pool) -> None:
    """At a limit that the smaller one just fits in: the parameters are those of a run that never tried the larger."""
    small, large = (np.random.default_rng(n).standard_normal((n, 32)) for n in (16, 64))

    def step(model: nn.Module, optimizer: optim.Optimizer, x: np.ndarray) -> None:
        with ag.grad_tape():
            loss = model(ag.tensor(x)).square().mean()
        ag.backward(loss)
        ag.zero_grad()
        optimizer.step()
        optimizer.zero_grad()

    def parameters(with_failures: bool) -> list[np.ndarray]:
        ag.manual_seed(0)
        model = Blocks()
        optimizer = optim.AdamW(model.parameters())
        step(model, optimizer, small)
        ag.reset_peak_memory()
        step(model, optimizer, small)
        pool.limit = ag.memory_stats().peak
        for _ in range(3):
            if with_failures:
                with pytest.raises(ag.OutOfMemoryError):
                    step(model, optimizer, large)
                optimizer.zero_grad()
            step(model, optimizer, small)
        pool.limit = None
        return [p.numpy() for p in model.parameters()]

    for found, expected in zip(parameters(True), parameters(False), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_gradients_of_an_earlier_pass_survive_one_that_fails(pool: Pool) -> None:
    w, v = ag.param(np.ones((64, 64))), ag.param(np.ones((64, 64)))
    for limited in (False, True):
        with ag.grad_tape():
            loss = (w * v.exp()).sum()
        loss.item()
        if limited:
            pool.limit = live() + 40 * KIB  # for two gradients of 16 KiB each, but not for their sums as well
            before = w.grad, v.grad
            with pytest.raises(ag.OutOfMemoryError):
                ag.backward(loss)
            pool.limit = None
            assert (w.grad, v.grad) == before
        else:
            ag.backward(loss)
    ag.backward(loss)
    np.testing.assert_allclose(w.grad.numpy(), 2 * np.e, rtol=1e-5)
    np.testing.assert_allclose(v.grad.numpy(), 2 * np.e, rtol=1e-5)


def test_a_step_on_two_devices_is_made_on_both_or_on_none() -> None:
    names = [info.name for info in ag.devices()]
    if len(names) < 2:
        pytest.skip("there is only one device")
    params = [ag.param(np.ones(8), device=name) for name in names[:2]]
    optimizer = optim.AdamW(params, lr=0.5, weight_decay=0.0)
    for limited in names[:2]:
        before = [p.tolist() for p in params]
        for p in params:
            p.grad = ag.tensor(np.ones(8), device=p.device) * 2.0
        ag.set_memory_limit(limited, 1)
        with pytest.raises(ag.OutOfMemoryError) as caught:
            optimizer.step()
        ag.set_memory_limit(limited, None)
        assert caught.value.device == limited
        assert [p.tolist() for p in params] == before
        optimizer.step()
    assert optimizer.steps == [2, 2]
    np.testing.assert_allclose([p.numpy() for p in params], 0.0, atol=1e-5)


def test_the_error_keeps_nothing_but_what_its_frames_do(pool: Pool) -> None:
    x = ag.tensor(values(64 * KIB))
    before = live()
    inner = x.exp()  # wanted, and planned before the request that fails
    outer = ag.broadcast_to(inner, (8, 16 * KIB)).tanh()
    pool.limit = before + 128 * KIB
    with pytest.raises(ag.OutOfMemoryError) as caught:
        outer.numpy()
    assert live() == before  # while the error is there, with its traceback

    def step() -> None:
        h = x * 3.0
        assert h.numpy()[0] == 3.0
        ag.tensor(values(256 * KIB))

    del inner, outer
    with pytest.raises(ag.OutOfMemoryError) as caught:
        step()
    assert live() == before + 64 * KIB  # h, in the frame of `step`
    del caught
    assert live() == before


def test_the_host_may_be_what_runs_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where an operation that a device cannot run is computed on the CPU."""
    name = ag.devices()[0].name
    if name == "cpu":
        pytest.skip("there is no other device")
    x = ag.tensor(values(64 * KIB), device=name)
    monkeypatch.setattr(devices.get(name).graph, "_supports", lambda node: node.primitive.name != "tanh")
    y = (x * 0.0).tanh()
    ag.set_memory_limit("cpu", ag.memory_stats("cpu").live + KIB)
    with pytest.raises(ag.OutOfMemoryError) as caught:
        y.numpy()
    ag.set_memory_limit("cpu", None)
    assert caught.value.device == "cpu"
    assert not y.numpy().any()
