"""What the R package ggmlR's `ag_*` engine does, row by row, under the names of its functions, on every device.

Samples are in rows here, in columns there. `dp_train`, `ag_capture`, `ag_estimate_training_memory` and the memory
budget come later.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ggmlpy_ag as ag

RNG = np.random.default_rng(7)
X = RNG.standard_normal((6, 4)).astype(np.float32)
LABELS = np.array([0, 2, 1, 1, 0, 2])


def close(found: ag.Tensor, expected: object, tolerance: float = 1e-5) -> None:
    np.testing.assert_allclose(found.numpy(), np.asarray(expected), rtol=tolerance, atol=tolerance)


class Net(ag.nn.Module):
    """One of each layer that the row names."""

    def __init__(self) -> None:
        self.table = ag.nn.Embedding(5, 8)
        self.mix = ag.nn.MultiheadAttention(8, 2)
        self.norm = ag.nn.LayerNorm(8)
        self.head = ag.nn.Sequential(
            ag.nn.Linear(8, 8), ag.nn.BatchNorm1d(8), ag.nn.ReLU(), ag.nn.Dropout(0.5), ag.nn.Linear(8, 3)
        )

    def forward(self, tokens: ag.Tensor) -> ag.Tensor:
        h = self.table(tokens)
        return self.head(self.norm(h + self.mix(h, causal=True)).mean(axis=1))


def small(device: str) -> ag.nn.Sequential:
    ag.manual_seed(0)
    return ag.nn.Sequential(ag.nn.Linear(4, 8, device=device), ag.nn.Tanh(), ag.nn.Linear(8, 3, device=device))


def fit(model: ag.nn.Module, optimizer: ag.optim.Optimizer, steps: int = 30) -> list[float]:
    x, y = ag.tensor(X), ag.tensor(LABELS)
    losses = []
    for _ in range(steps):
        with ag.grad_tape():
            loss = ag.cross_entropy_loss(model(x), y)
        ag.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss))
    return losses


def test_ag_tensor_ag_param(device: str) -> None:
    value, trained = ag.tensor(X), ag.param(X, dtype="bfloat16")
    assert not value.requires_grad and trained.requires_grad
    assert (value.device, value.dtype, trained.dtype) == (device, np.float32, ag.bfloat16)
    assert ag.tensor(X, dtype="float16").dtype == np.float16
    alias = value
    value.copy_(np.zeros_like(X))
    assert not alias.numpy().any()  # a tensor is a reference


def test_with_grad_tape(device: str) -> None:
    w = ag.param(X)
    before = w * 2
    with ag.grad_tape() as tape:
        w * ag.tensor(X)
        ag.tensor(X) * 2  # touches nothing that requires a gradient
    assert [node.op for node in tape.nodes] == ["mul"] and before.is_leaf


def test_backward(device: str) -> None:
    w, b = ag.param(X), ag.param(np.ones(4))
    with ag.grad_tape():
        loss = ((w * b) ** 2).sum()
    grads = ag.backward(loss)
    close(grads[w], 2 * X)
    close(grads[b], 2 * (X * X).sum(0))
    close(w.grad, grads[w].numpy())


def test_ag_grad_as_matrix(device: str) -> None:
    w = ag.param(X)
    with ag.grad_tape():
        loss = (w * 3).sum()
    ag.backward(loss)
    assert isinstance(w.grad, ag.Tensor) and w.grad.device == device
    close(w.grad, np.full_like(X, 3))
    assert np.array_equal(w.numpy(), X)


def test_ag_matmul_add_sub_mul_scale_pow_exp_log_clamp(device: str) -> None:
    x, row, column = ag.tensor(X), np.arange(4, dtype=np.float32), np.arange(6, dtype=np.float32)[:, None]
    close(ag.matmul(x, X.T), X @ X.T)
    for ours, theirs in ((ag.add, np.add), (ag.sub, np.subtract), (ag.mul, np.multiply)):
        close(ours(x, row), theirs(X, row))
        close(ours(column, x), theirs(column, X))
    close(ag.scale(x, -0.5), X * -0.5)
    close(ag.pow(x, 2), X**2)
    close(ag.exp(x), np.exp(X))
    close(ag.log(ag.abs(x)), np.log(np.abs(X)))
    close(ag.clamp(x, -0.3, 0.4), np.clip(X, -0.3, 0.4))


def test_ag_relu_sigmoid_tanh_softmax(device: str) -> None:
    x = ag.tensor(X)
    exponentials = np.exp(X) / np.exp(X).sum(1, keepdims=True)
    close(ag.relu(x), np.maximum(X, 0))
    close(ag.sigmoid(x), 1 / (1 + np.exp(-X)))
    close(ag.tanh(x), np.tanh(X))
    close(ag.softmax(x), exponentials)
    close(ag.log_softmax(x), np.log(exponentials))
    close(ag.gelu(x, "tanh"), 0.5 * X * (1 + np.tanh(np.sqrt(2 / np.pi) * (X + 0.044715 * X**3))))


def test_ag_sum_mean(device: str) -> None:
    x = ag.tensor(X)
    for axis in (None, 0, 1, (0, 1)):
        close(ag.sum(x, axis), X.sum(axis))
        close(ag.mean(x, axis), X.mean(axis))


def test_ag_reshape_transpose_slices_concat_gather_argmax_get_rows(device: str) -> None:
    x, rows = ag.tensor(X), np.array([3, 0, 3])
    close(ag.reshape(x, 3, 8), X.reshape(3, 8))
    close(ag.transpose(x), X.T)
    close(x[1:4], X[1:4])
    close(ag.concat([x, x[:2]]), np.concatenate([X, X[:2]]))
    close(ag.gather(x, 1, LABELS[:, None]), np.take_along_axis(X, LABELS[:, None], 1))
    assert ag.argmax(x, axis=1).tolist() == X.argmax(1).tolist()
    close(ag.take(x, rows), X[rows])


def test_ag_mse_loss_cross_entropy_loss_softmax_cross_entropy_loss(device: str) -> None:
    p = np.exp(X[:, :3]) / np.exp(X[:, :3]).sum(1, keepdims=True)
    entropy = -np.log(p[np.arange(6), LABELS]).mean()
    unit = 1 / (1 + np.exp(-X))
    close(ag.mse_loss(ag.tensor(X), X * 0.5), np.mean((X * 0.5) ** 2))
    close(ag.cross_entropy_loss(ag.tensor(X[:, :3]), LABELS), entropy)
    close(ag.nll_loss(ag.log(ag.tensor(p)), LABELS), entropy)
    close(ag.l1_loss(ag.tensor(X), X * 0.5), np.abs(X * 0.5).mean())
    close(ag.huber_loss(ag.tensor(X), X + 3), 2.5)
    close(ag.bce_loss(ag.tensor(unit), np.ones_like(X)), -np.log(unit).mean())


def test_ag_linear_batch_norm_layer_norm_dropout_embedding_multihead_attention_sequential_train_eval(
    device: str,
) -> None:
    ag.manual_seed(0)
    net = Net()
    tokens, labels = ag.tensor(RNG.integers(0, 5, (12, 7))), ag.tensor(RNG.integers(0, 3, 12))
    optimizer = ag.optim.Adam(net.parameters(), lr=0.02)
    losses = []
    for _ in range(30):
        with ag.grad_tape():
            loss = ag.cross_entropy_loss(net(tokens), labels)
        ag.backward(loss)
        assert all(p.grad is not None for p in net.parameters())
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss))
    assert np.mean(losses[-5:]) < 0.7 * losses[0]
    assert not np.array_equal(net(tokens).numpy(), net(tokens).numpy())  # dropout
    net.eval()
    assert np.array_equal(net(tokens).numpy(), net(tokens).numpy())
    assert net.train() is net and net.head[3].training


def test_ag_flash_attention(device: str) -> None:
    q, k, v = (RNG.standard_normal((2, 3, 5, 4)).astype(np.float32) for _ in range(3))
    scores = q @ k.swapaxes(2, 3) / 2
    scores[..., np.triu_indices(5, 1)[0], np.triu_indices(5, 1)[1]] = -np.inf
    p = np.exp(scores - scores.max(-1, keepdims=True))
    tensors = [ag.param(a) for a in (q, k, v)]
    with ag.grad_tape():
        out = ag.scaled_dot_product_attention(*tensors, causal=True)
        loss = out.sum()
    close(out, p / p.sum(-1, keepdims=True) @ v)
    assert set(ag.backward(loss)) == set(tensors)


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
def test_optimizer_sgd_optimizer_adam(device: str, kind: str) -> None:
    model = small(device)
    optimizer = (
        ag.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
        if kind == "SGD"
        else ag.optim.Adam(model.parameters(), lr=0.05)
    )
    losses = fit(model, optimizer)
    assert losses[-1] < 0.3 * losses[0]
    assert optimizer.state_dict()["state"]


def test_lr_scheduler_step_cosine_onecycle_cyclic_warmup_cosine(device: str) -> None:
    lr = ag.optim.lr

    def rates(make: object, steps: int = 8) -> list[float]:
        optimizer = ag.optim.SGD([ag.param([1.0])], lr=1.0)
        schedule = make(optimizer)  # type: ignore[operator]
        found = []
        for _ in range(steps):
            found.append(optimizer.lr)
            schedule.step()
        return found

    assert rates(lambda o: lr.StepLR(o, 3, 0.5)) == [1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25]
    cosine = [(1 + np.cos(np.pi * t / 4)) / 2 for t in range(4)]
    np.testing.assert_allclose(rates(lambda o: lr.CosineAnnealingWarmRestarts(o, 4)), cosine * 2)
    np.testing.assert_allclose(rates(lambda o: lr.CosineAnnealingLR(o, 4), 4), cosine)
    top = rates(lambda o: lr.OneCycleLR(o, max_lr=2.0, total_steps=10), 10)
    assert np.isclose(top[2], 2.0) and np.isclose(top[0], 2.0 / 25) and top[-1] < 1e-4
    up = rates(lambda o: lr.CyclicLR(o, base_lr=0.1, max_lr=0.5, step_size_up=2, cycle_momentum=False))
    np.testing.assert_allclose(up, [0.1, 0.3, 0.5, 0.3] * 2)
    warm = rates(lambda o: lr.WarmupCosine(o, warmup_steps=4, total_steps=8))
    assert warm[:5] == sorted(warm[:5]) and np.isclose(warm[4], 1.0) and warm[5:] == sorted(warm[5:], reverse=True)


def test_clip_grad_norm_clip_grad_value_check_grad_anomaly(device: str) -> None:
    w, b = ag.param([3.0, 0.0]), ag.param([4.0])
    with ag.grad_tape():
        loss = (w * w).sum() / 2 + (b * b).sum() / 2
    ag.backward(loss)
    assert np.isclose(float(ag.optim.clip_grad_norm([w, b], 1.0)), 5.0)
    close(w.grad, [0.6, 0.0])
    ag.optim.clip_grad_value([w, b], 0.7)
    close(b.grad, [0.7])
    b.grad = ag.tensor([np.nan])
    with pytest.raises(RuntimeError, match="b"):
        ag.optim.check_grad_anomaly({"w": w, "b": b}, action="raise")


def test_ag_gradcheck(device: str) -> None:
    assert ag.gradcheck(lambda x: ag.tanh(x @ x.T), [ag.param(X)])
    with pytest.raises(ag.GradcheckError):
        ag.gradcheck(lambda x: ag.record("wrong", x.detach() * 2, (x,), lambda g: (g,)), [ag.param(X)])


def test_ag_dataloader(device: str) -> None:
    loader = ag.data.DataLoader((X, LABELS), batch_size=4, shuffle=True, seed=1)
    batches = list(loader)
    assert [len(y) for _, y in batches] == [4, 2]
    order = np.concatenate([y.numpy() for _, y in batches])
    assert sorted(order) == sorted(LABELS)
    assert batches[0][0].device == device


def test_ag_save_model_ag_load_model(device: str, tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    net, other = Net(), Net()
    ag.io.save(net, tmp_path / "net.safetensors")
    state = ag.io.load(tmp_path / "net.safetensors")
    assert any("running_mean" in name for name in state)
    other.load_state_dict(state)
    tokens = ag.tensor(RNG.integers(0, 5, (2, 3)))
    assert np.array_equal(net.eval()(tokens).numpy(), other.eval()(tokens).numpy())


def test_ag_device_default_device_dtype_default_dtype_to_device(device: str) -> None:
    assert ag.device().name == device
    assert ag.tensor([1.5]).dtype == np.float32
    with ag.device("cpu"):
        assert ag.tensor([1.5]).device == "cpu"
    moved = ag.tensor(X, device="cpu").to(device)
    assert moved.device == device and np.array_equal(moved.numpy(), X)


def test_ag_matmul_precision(device: str) -> None:
    assert ag.matmul_precision() == "highest"
    a, b = RNG.standard_normal((64, 512)), RNG.standard_normal((512, 48)) * 1e4
    exact = a.astype(np.float32).astype(float) @ b.astype(np.float32).astype(float)
    assert np.abs((ag.tensor(a) @ ag.tensor(b)).numpy() - exact).max() < 1e-5 * np.abs(exact).max()


def test_ag_graph_mode(device: str) -> None:
    x = ag.tensor(X)
    before = ag.counters()
    y = (x * 2 + 1).relu().sum()
    assert (ag.counters() - before).graphs == 0
    float(y)
    assert (ag.counters() - before).graphs == 1


def test_graph_backward_with_resident_gradients(device: str) -> None:
    model = small(device)
    x, y = ag.tensor(X), ag.tensor(LABELS)
    with ag.grad_tape():
        loss = ag.cross_entropy_loss(model(x), y)
    before = ag.counters()
    ag.backward(loss)
    moved = ag.counters() - before
    assert (moved.graphs, moved.uploads, moved.downloads, moved.fallbacks) == (1, 0, 0, 0)
    assert all(p.grad is not None and p.grad.device == device for p in model.parameters())


def test_ag_buffer_ag_get_rows(device: str) -> None:
    buffer = ag.tensor(np.zeros((100, 4)))
    buffer[10:16] = X
    before = ag.counters()
    rows = ag.take(buffer, np.array([12, 10, 99], np.int32))
    close(rows, [X[2], X[0], np.zeros(4)])
    assert (ag.counters() - before).upload_bytes == 12


def test_ag_checkpoint(device: str) -> None:
    model = small(device)
    x = ag.tensor(X)
    with ag.grad_tape():
        plain = model(x).sum()
    expected = {id(p): g.numpy() for p, g in ag.backward(plain).items()}
    with ag.grad_tape() as tape:
        loss = ag.checkpoint(model, x).sum()
    assert [node.op for node in tape.nodes] == ["checkpoint", "sum"]
    assert {id(p): g.tolist() for p, g in ag.backward(loss).items()} == {k: g.tolist() for k, g in expected.items()}


def test_ag_tape_memory(device: str) -> None:
    model = small(device)
    x, y = ag.tensor(X), ag.tensor(LABELS)
    with ag.grad_tape() as tape:
        loss = ag.cross_entropy_loss(model(x), y)
    ag.backward(loss)
    report = ag.tape_memory(quiet=True)
    assert report.bytes_total == report.bytes_inputs + report.bytes_snapshots + report.bytes_fields
    assert sum(row.bytes for row in report.by_op) == report.bytes_total and report.nodes == len(tape)
    before = ag.memory_stats().live
    tape.clear()
    assert before - ag.memory_stats().live == report.bytes_freeable > 0


def test_ag_xfer(device: str) -> None:
    before = ag.counters()
    (ag.tensor(X) * 2).numpy()
    moved = ag.counters() - before
    assert (moved.uploads, moved.upload_bytes, moved.downloads, moved.download_bytes) == (1, 96, 1, 96)
