"""A layer of ours beside PyTorch's, with the same weights: results and all gradients must agree."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import ggmlpy_ag as ag


def tolerance(device: str) -> float:
    return 1e-5 if device == "cpu" else 1e-4


def normal(*shape: int, seed: int = 7) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def flat(outputs: Any) -> Iterator[Any]:
    """The tensors in nested tuples."""
    if isinstance(outputs, tuple):
        for part in outputs:
            yield from flat(part)
    elif outputs is not None:
        yield outputs


def assert_twins(
    mine: ag.nn.Module,
    theirs: Any,
    arrays: Sequence[np.ndarray],
    device: str,
    call: Callable[..., Any] = lambda layer, *xs: layer(*xs),
    their_call: Callable[..., Any] = lambda layer, *xs: layer(*xs),
) -> None:
    """Give `mine` the weights of `theirs`, call both with these arrays, and compare all that comes out and back."""
    import torch

    mine.load_state_dict({name: value.numpy() for name, value in theirs.state_dict().items()})
    xs, their_xs = [ag.param(a) for a in arrays], [torch.tensor(a, requires_grad=True) for a in arrays]
    theirs.zero_grad()
    their_outputs = list(flat(their_call(theirs, *their_xs)))
    slopes = [normal(*out.shape, seed=i) for i, out in enumerate(their_outputs)]
    with ag.grad_tape():
        outputs = list(flat(call(mine, *xs)))
        loss = sum(((out * slope).sum() for out, slope in zip(outputs, slopes, strict=True)), ag.tensor(0.0))
    sum((out * torch.tensor(slope)).sum() for out, slope in zip(their_outputs, slopes, strict=True)).backward()
    grads = ag.backward(loss)

    pairs = {f"output {i}": (a, b) for i, (a, b) in enumerate(zip(outputs, their_outputs, strict=True))}
    pairs |= {f"input {i}": (grads[a], b.grad) for i, (a, b) in enumerate(zip(xs, their_xs, strict=True))}
    own = dict(mine.named_parameters())
    pairs |= {name: (grads[own[name]], value.grad) for name, value in theirs.named_parameters()}
    assert len(grads) == len(xs) + len(own)
    limit = tolerance(device)
    for name, (found, expected) in pairs.items():
        np.testing.assert_allclose(found.numpy(), expected.detach().numpy(), limit, limit, err_msg=name)
