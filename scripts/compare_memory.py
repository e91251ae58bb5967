"""What the backward pass keeps in memory: ggmlpy_ag and PyTorch side by side, byte for byte, on the same two networks.

    python scripts/compare_memory.py           # tables; docs/memory-pytorch.md explains each difference
    python scripts/compare_memory.py --json    # the same as JSON

Needs PyTorch. What is installed of torchlens and pytorch_memlab is asked as well, and PyTorch's private MemTracker.
All figures are bytes of elements ("logical" bytes), without what an allocator adds.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout
from typing import Any, NamedTuple

import numpy as np

try:
    import torch
except ImportError:
    raise SystemExit("this compares with PyTorch, which is not installed: pip install torch") from None

import ggmlpy_ag as ag
from ggmlpy_ag import nn
from ggmlpy_ag.tape import captured


class Network(NamedTuple):
    """One network in both libraries. The functions take (model, x, y) and give the loss."""

    title: str
    mine: nn.Module
    theirs: torch.nn.Module
    loss: Callable[..., ag.Tensor]
    their_loss: Callable[..., torch.Tensor]
    x: np.ndarray
    y: np.ndarray | None = None  # PyTorch's class indices are int64, ours int32


def perceptron() -> Network:
    rng = np.random.default_rng(0)

    def layers(library: Any) -> list[Any]:
        linear, relu = library.Linear, library.ReLU
        return [linear(784, 256), relu(), linear(256, 256), relu(), linear(256, 10)]

    return Network(
        "MLP 784-256-256-10 with ReLU and cross-entropy, batch 128",
        nn.Sequential(*layers(nn)),
        torch.nn.Sequential(*layers(torch.nn)),
        lambda model, x, y: ag.cross_entropy_loss(model(x), y),
        lambda model, x, y: torch.nn.functional.cross_entropy(model(x), y),
        rng.random((128, 784), np.float32),
        rng.integers(0, 10, 128),
    )


def transformer_block() -> Network:
    sizes: dict[str, Any] = {"d_model": 64, "nhead": 4, "dim_feedforward": 256, "dropout": 0.0, "norm_first": True}
    return Network(
        "transformer block (width 64, 4 heads, GELU 256, norms first), batch 16, length 64",
        nn.TransformerEncoderLayer(**sizes, activation="gelu"),
        torch.nn.TransformerEncoderLayer(**sizes, activation="gelu", batch_first=True),
        lambda model, x, y: model(x).sum(),
        lambda model, x, y: model(x).sum(),
        np.random.default_rng(0).standard_normal((16, 64, 64)).astype(np.float32),
    )


NETWORKS = {"mlp": perceptron, "block": transformer_block}


class Kept(NamedTuple):
    """What a library keeps for the backward pass, in bytes.

    `naive` counts a saved tensor each time that it is saved, `once` each storage once. Of that, `only_tape` has no
    owner but the tape (PyTorch: the graph). `unsaved` are leaves that the tape refers to for the sake of their
    gradients only. `storages` counts those in `once` by type and bytes.
    """

    naive: int
    once: int
    only_tape: int
    unsaved: int
    storages: Counter[tuple[str, int]]
    loss: float


def ours(network: Network, device: str) -> tuple[Kept, int]:
    """And what clearing the tape then frees of the pool."""
    with ag.device(device):
        model = network.mine
        x, y = ag.tensor(network.x), None if network.y is None else ag.tensor(network.y)
        with ag.grad_tape() as tape:
            loss = network.loss(model, x, y)
        ag.backward(loss)
        saved = [tensor for node in tape.nodes for tensor in captured(node.grad_fn)]  # as the rules hold them
        storages = {id(tensor._array.storage): (str(tensor.dtype), tensor._array.storage.nbytes) for tensor in saved}
        naive = sum(tensor.nbytes for tensor in saved)
        del saved
        report = ag.tape_memory(quiet=True)
        rows = [row for row in report.storages if row.part != "gradients"]
        once = sum(size for _, size in storages.values())
        only_tape = sum(row.nbytes for row in rows if row.part != "operands")
        unsaved = sum(row.nbytes for row in rows) - once
        kept = Kept(naive, once, only_tape, unsaved, Counter(storages.values()), loss.item())
        before = ag.memory_stats().live
        tape.clear()
        return kept, before - ag.memory_stats().live


def theirs(network: Network) -> Kept:
    """By `saved_tensors_hooks`, which hand over each tensor as it is saved, and by a walk over the graph's leaves."""
    model, x, y = _on_their_side(network)
    saved: list[torch.Tensor] = []  # keeps them, so that no address is used twice

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        saved.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = network.their_loss(model, x, y)
    storages = {_address(tensor): (_dtype(tensor), tensor.untyped_storage().nbytes()) for tensor in saved}
    owned = {_address(tensor) for tensor in (x, y, *model.parameters()) if tensor is not None}
    return Kept(
        sum(tensor.nbytes for tensor in saved),
        sum(size for _, size in storages.values()),
        sum(size for address, (_, size) in storages.items() if address not in owned),
        sum(leaf.nbytes for leaf in _leaves(loss.grad_fn) if _address(leaf) not in storages),
        Counter(storages.values()),
        loss.item(),
    )


def _on_their_side(network: Network) -> tuple[torch.nn.Module, torch.Tensor, torch.Tensor | None]:
    """The network with our weights, and its inputs."""
    state = {name: torch.tensor(value.numpy()) for name, value in network.mine.state_dict().items()}
    network.theirs.load_state_dict(state)
    network.theirs.zero_grad()
    return network.theirs, torch.tensor(network.x), None if network.y is None else torch.tensor(network.y)


def _address(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _leaves(root: Any) -> list[torch.Tensor]:
    """The tensors that a graph refers to for their gradients (its AccumulateGrad nodes)."""
    found: dict[Any, torch.Tensor | None] = {}
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in found:
            found[node] = getattr(node, "variable", None)
            waiting += [following for following, _ in node.next_functions]
    return [leaf for leaf in found.values() if leaf is not None]


# ------------------------------------------------------------ what other tools say of it


def mem_tracker(network: Network) -> dict[str, int]:
    """PyTorch's private `torch.distributed._tools.MemTracker`, after the forward pass: its categories."""
    from torch.distributed._tools.mem_tracker import MemTracker

    model, x, y = _on_their_side(network)
    tracker = MemTracker()
    tracker.track_external(model, *(tensor for tensor in (x, y) if tensor is not None))
    with tracker:
        loss = network.their_loss(model, x, y)
        (found,) = tracker.get_tracker_snapshot("current").values()
        del loss
    return {str(getattr(name, "value", name)).lower(): size for name, size in found.items() if size}


def torchlens(network: Network) -> dict[str, int]:
    """Its sum of what autograd saves, and that of all activations."""
    import torchlens

    model, x, y = _on_their_side(network)

    class WithLoss(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return network.their_loss(self.model, x, y)

    trace = torchlens.trace(WithLoss(), x)
    return {"saved by autograd": int(trace.total_autograd_memory), "activations": int(trace.total_activation_memory)}


def pytorch_memlab(network: Network) -> dict[str, int]:
    """What `MemReporter` says of the parameters, beside their bytes; what autograd saved is not among its tensors."""
    from pytorch_memlab import MemReporter

    model, x, y = _on_their_side(network)
    loss = network.their_loss(model, x, y)
    reporter = MemReporter(model)
    reporter.collect_tensor()
    reporter.get_stats()
    del loss
    names = dict(model.named_parameters())
    rows = [row for rows in reporter.device_tensor_stat.values() for row in rows if row[0] in names]
    return {"parameters": sum(row[3] for row in rows), "that have": sum(names[row[0]].nbytes for row in rows)}


TOOLS = {"torch": mem_tracker, "torchlens": torchlens, "pytorch_memlab": pytorch_memlab}


def ask(package: str, tool: Callable[[Network], dict[str, int]], network: Network) -> dict[str, int] | str:
    """Figures, or why there are none."""
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return f"skipped: pip install {package}"
    try:
        with redirect_stdout(sys.stderr):  # one prints as it is imported
            return tool(network)
    except Exception as error:  # a private tool, and ones made for other versions
        return f"failed: {type(error).__name__}: {error}"


# ------------------------------------------------------------ printing


ROWS = (
    ("saved, counted each time", "naive"),
    ("saved, each storage once", "once"),
    ("  only the tape holds", "only_tape"),
    ("leaves, for their gradients", "unsaved"),
)


def table(title: str, mine: Kept, other: Kept, freed: int) -> str:
    """The figures side by side, and the storages that one side has and the other has not."""
    lines = [title, f"{'':<30}{'PyTorch':>12}{'ggmlpy_ag':>12}{'difference':>12}"]
    for name, key in ROWS:
        a, b = getattr(other, key), getattr(mine, key)
        change = f"{b - a:+,}" if a != b else "0"
        lines.append(f"  {name:<28}{a:>12,}{b:>12,}{change:>12}")
    lines.append(f"  {'freed by clearing the tape':<28}{'':>12}{freed:>12,}")
    lines += _only("PyTorch", other.storages - mine.storages) + _only("ggmlpy_ag", mine.storages - other.storages)
    return "\n".join(lines)


def _only(name: str, storages: Counter[tuple[str, int]]) -> list[str]:
    found = sorted(storages.items(), key=lambda item: -item[0][1])
    return [f"  only {name} saves {n} x {size:,} {dtype}" for (dtype, size), n in found]


def to_dict(kept: Kept) -> dict[str, Any]:
    """The figures, for JSON."""
    storages = [{"dtype": dtype, "bytes": size, "count": n} for (dtype, size), n in kept.storages.items()]
    return {**kept._asdict(), "storages": storages}


def main(arguments: Iterable[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", help="where ggmlpy_ag runs; PyTorch runs on the CPU")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(None if arguments is None else list(arguments))
    found: dict[str, Any] = {"pytorch": torch.__version__, "ggmlpy_ag": ag.__version__, "networks": {}}
    parts = []
    for key, make in NETWORKS.items():
        with ag.device(options.device):
            network = make()
        mine, freed = ours(network, options.device)
        other = theirs(network)
        tools = {tool.__name__: ask(package, tool, network) for package, tool in TOOLS.items()}
        found["networks"][key] = {
            "title": network.title,
            "pytorch": to_dict(other),
            "ggmlpy_ag": {**to_dict(mine), "freed": freed},
            "tools": tools,
        }
        parts.append("\n".join([table(network.title, mine, other, freed), *map(_tool, tools.items())]))
    print(json.dumps(found, indent=2) if options.json else "\n\n".join(parts))


def _tool(item: tuple[str, dict[str, int] | str]) -> str:
    name, said = item
    text = said if isinstance(said, str) else ", ".join(f"{what} {size:,}" for what, size in said.items())
    return f"  {name}: {text}"


if __name__ == "__main__":
    main()
