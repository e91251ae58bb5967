"""Checkpointing layers by their paths, without a change to the model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from ..paths import listed, matching
from ..tape import recomputed
from .module import Module


@contextmanager
def checkpointed(model: Module, layers: str | Iterable[str]) -> Iterator[list[str]]:
    """In the `with` block, these layers keep their inputs only and run again for their gradients (Chen et al. 2016).

        with ag.nn.checkpointed(model, "layers.*"):
            with ag.grad_tape():
                loss = loss_fn(model(x), y)
        ag.backward(loss)

    What `ag.checkpoint` says of a function holds for each call of a layer: random numbers are the same when it runs
    again, and running statistics of batch normalization move twice. The backward pass may come after the block. Blocks
    nest, and so may chosen layers.

    Args:
        model: whose parts they are.
        layers: paths as in `named_modules`, or patterns: `*` and `?` stand for characters other than dots, `[01]` for
            one of those.

    Gives:
        The paths that were chosen.

    Raises:
        TypeError: model is no Module; in the block, a chosen layer returns something else than one tensor.
        ValueError: a pattern that fits no layer, or a module that does not run, such as a `ModuleList`.

    >>> model = ag.nn.Sequential(ag.nn.Linear(4, 8), ag.nn.Tanh(), ag.nn.Linear(8, 1))
    >>> with ag.nn.checkpointed(model, "[01]") as chosen, ag.grad_tape() as tape:
    ...     loss = model(np.ones((2, 4))).sum()
    >>> chosen, [node.op for node in tape.nodes]
    (['0', '1'], ['checkpoint', 'checkpoint', 'linear', 'sum'])
    """
    if not isinstance(model, Module):
        raise TypeError(f"checkpointed: model must be a Module, not {type(model).__name__}")
    parts = dict(model.named_modules())
    paths = matching("checkpointed", listed(layers), parts)
    for path in paths:
        if type(parts[path]).forward is Module.forward:
            kind = type(parts[path]).__name__
            raise ValueError(f"checkpointed: {path!r} is a {kind}, which does not run itself: name its parts")
    chosen = {id(parts[path]): parts[path] for path in paths}
    outer = recomputed.get()
    token = recomputed.set(lambda module, path: id(module) in chosen or (outer is not None and outer(module, path)))
    try:
        yield paths
    finally:
        recomputed.reset(token)


__all__ = ["checkpointed"]
