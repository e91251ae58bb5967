"""Recompute instead of keeping (Chen et al. 2016)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .ops.random import get_rng_state, set_rng_state
from .tape import Tape, record, recording_on, recording_tape, walk
from .tensor import Tensor


def checkpoint(fn: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Tensor:
    """fn(*args, **kwargs), of which the tape keeps the inputs only: `backward` calls `fn` again.

    Memory for time: what the operations inside save for their gradients is freed at once, and made again when the
    gradient is due, with the same random numbers. Tensors that `fn` uses without getting them as arguments, such as
    parameters, get their gradients like the others.

    Args:
        fn: returns one tensor, and does the same in each call.
        args: anything; the tensors among them may have been made on the tape.
        kwargs: likewise.

    Raises:
        TypeError: `fn` returns no tensor. RuntimeError: in `backward(..., create_graph=True)`, which this does not
        support.

    >>> w = ag.param([[1.0, 2.0], [3.0, 4.0]])
    >>> with ag.grad_tape() as tape:
    ...     y = ag.checkpoint(lambda x: (x @ w).tanh().exp(), ag.tensor([[0.5, 0.5]]))
    ...     loss = y.sum()
    >>> [node.op for node in tape.nodes]
    ['checkpoint', 'sum']
    >>> ag.backward(loss)[w].shape
    (2, 2)
    """
    outer = recording_tape()
    if outer is None:
        return _called(fn, args, kwargs)
    state = get_rng_state()
    tape = Tape()
    with recording_on(tape):
        made = _called(fn, args, kwargs)
    last = made._node() if made._node is not None else None
    if last is None or last.tape is not tape.link:
        return made  # nothing inside has a gradient, or `made` is one of the inputs
    # whatever requires a gradient and was not made inside: arguments, parameters, values of the outer tape
    inputs = tuple(dict.fromkeys(edge for node in tape.nodes for edge in node.edges if isinstance(edge, Tensor)))
    work = sum(node.multiply_adds for node in tape.nodes)
    tape.clear()

    def grad(g: Tensor) -> tuple[Tensor | None, ...]:
        if recording_tape() is not None:
            raise RuntimeError("checkpoint: backward(..., create_graph=True) does not go through a checkpoint")
        now = get_rng_state()
        set_rng_state(state)
        again = Tape()
        try:
            with recording_on(again):
                out = _called(fn, args, kwargs)
            found = walk(out, g)
        finally:
            set_rng_state(now)
            again.clear()
        return tuple(found.get(tensor) for tensor in inputs)

    out = record("checkpoint", made.detach(), inputs, grad)
    outer.nodes[-1].multiply_adds = work  # not by record(), where the operations inside have been counted already
    return out


def _called(fn: Callable[..., Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    out = fn(*args, **kwargs)
    if not isinstance(out, Tensor):
        raise TypeError(f"checkpoint: fn must return a Tensor, not {type(out).__name__}")
    return out
