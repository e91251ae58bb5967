"""Random numbers, and dropout.

They are drawn on the host, by one generator for the process (Philox, Salmon et al. 2011), and copied to the device: so
a seed gives the same numbers on every device.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Mapping
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ..backend import devices
from ..backend import primitives as prim
from ..backend.array import FLOAT, HALF, Shape
from ..backend.devices import Device
from ..tape import record
from ..tensor import Tensor, TensorLike, parse_dtype
from .base import binary, floats, full_shape, integer, number, result, scaled, unary, wide
from .compare import order

_lock = threading.Lock()
_generator = np.random.Generator(np.random.Philox())


def manual_seed(seed: int) -> None:
    """Start the random numbers anew; the same seed gives the same numbers on every device.

    Args:
        seed: an integer from 0 on.

    Raises:
        TypeError: no integer. ValueError: a negative one.

    >>> ag.manual_seed(3)
    >>> a = ag.rand(4)
    >>> ag.manual_seed(3)
    >>> ag.rand(4).tolist() == a.tolist()
    True
    """
    global _generator  # noqa: PLW0603 - one generator for the process
    seed = integer("manual_seed", "seed", seed)
    if seed < 0:
        raise ValueError(f"manual_seed: seed must not be negative, not {seed}")
    with _lock:
        _generator = np.random.Generator(np.random.Philox(seed))


def get_rng_state() -> dict[str, Any]:
    """The state of the random numbers, a dictionary of integers and NumPy arrays for `set_rng_state`.

    >>> state = ag.get_rng_state()
    >>> a = ag.randn(2, 2)
    >>> ag.set_rng_state(state)
    >>> ag.randn(2, 2).tolist() == a.tolist()
    True
    """
    with _lock:
        return copy.deepcopy(dict(_generator.bit_generator.state))


def set_rng_state(state: Mapping[str, Any]) -> None:
    """Go on with random numbers from where `get_rng_state` was called.

    Args:
        state: what that returned.

    Raises:
        ValueError: something else.

    >>> ag.set_rng_state(ag.get_rng_state())
    """
    global _generator  # noqa: PLW0603 - one generator for the process
    fresh = np.random.Philox()
    try:
        if not 0 <= state["buffer_pos"] <= len(state["buffer"]):
            raise ValueError("NumPy would read beyond its buffer")
        fresh.state = copy.deepcopy(dict(state))  # type: ignore[assignment]
    except (ArithmeticError, LookupError, TypeError, ValueError):
        raise ValueError("set_rng_state: state must be what get_rng_state returned") from None
    with _lock:
        _generator = np.random.Generator(fresh)


def rand(*shape: Any, device: str | None = None, dtype: Any = "float32", requires_grad: bool = False) -> Tensor:
    """Uniformly distributed numbers in [0, 1).

    Args:
        shape: extents, as numbers or as one sequence; none give a scalar.
        device: a device name; by default the default device.
        dtype: "float32", "float16" or "bfloat16".
        requires_grad: whether tapes record what is done with it.

    Raises:
        ValueError: an extent below 1, more than four of them, an unknown device. TypeError: extents that are no
        integers, or int32.

    >>> ag.rand(2, 3).shape
    (2, 3)
    """
    return _drawn("rand", shape, device, dtype, requires_grad)


def randn(*shape: Any, device: str | None = None, dtype: Any = "float32", requires_grad: bool = False) -> Tensor:
    """Numbers from the normal distribution of mean 0 and variance 1.

    Args:
        shape: extents, as numbers or as one sequence; none give a scalar.
        device: a device name; by default the default device.
        dtype: "float32", "float16" or "bfloat16".
        requires_grad: whether tapes record what is done with it.

    Raises:
        ValueError: an extent below 1, more than four of them, an unknown device. TypeError: extents that are no
        integers, or int32.

    >>> ag.randn((64, 32), requires_grad=True).requires_grad
    True
    """
    return _drawn("randn", shape, device, dtype, requires_grad)


def _drawn(op: str, arguments: tuple[Any, ...], device: str | None, dtype: Any, requires_grad: bool) -> Tensor:
    shape = full_shape(
        op, arguments[0] if len(arguments) == 1 and isinstance(arguments[0], (tuple, list)) else arguments
    )
    wanted = parse_dtype(dtype)
    if wanted.kind == "i":
        raise TypeError(f"{op}: dtype must be a float type, not {wanted.name}")
    where = devices.get(device)
    _make_room(where, shape)
    values = uniform(shape) if op == "rand" else normal(shape)
    out = Tensor(where.upload(values, op)).astype(wanted)
    out.requires_grad = requires_grad
    return out


def uniform(shape: Shape) -> np.ndarray:
    """float32 numbers in [0, 1) from the generator, on the host."""
    with _lock:
        return np.asarray(_generator.random(shape, np.float32))


def normal(shape: Shape) -> np.ndarray:
    """float32 numbers of mean 0 and variance 1 from the generator, on the host."""
    with _lock:
        return np.asarray(_generator.standard_normal(shape, np.float32))


def draw_seed() -> int:
    """An integer from the generator, to seed another one."""
    with _lock:
        return int(_generator.integers(1 << 63))


def _make_room(device: Device, shape: Shape) -> None:
    """Raise OutOfMemoryError for more than the device can hold, before the host tries to draw it."""
    device.alloc(FLOAT.itemsize * prod(shape))


def bernoulli(p: TensorLike, shape: Any = None) -> Tensor:
    """1 with probability p, else 0; no gradient.

    Args:
        p: a probability, or a tensor of them. A probability below 0 counts as 0 and one above 1 as 1.
        shape: of the result, where `p` is a number; () by default.

    Returns:
        float32, of the shape of `p`, or `shape`.

    Raises:
        ValueError: a number outside [0, 1]; `shape` beside a tensor; an extent below 1. TypeError: `p` holds no real
        numbers.

    >>> ag.bernoulli(1.0, (2, 2)).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    >>> ag.bernoulli(ag.tensor([0.0, 1.0])).tolist()
    [0.0, 1.0]
    """
    single = number(p)
    if single is not None:
        if not 0.0 <= single <= 1.0:
            raise ValueError(f"bernoulli: p must be in [0, 1], not {p!r}")
        extents = full_shape("bernoulli", () if shape is None else shape)
        _make_room(devices.get(), extents)
        return Tensor(devices.get().upload(_chosen(single, extents), "bernoulli"))
    (p,) = floats("bernoulli", p)
    if shape is not None:
        raise ValueError(f"bernoulli: p has shape {p.shape} already; shape goes with a number only")
    drawn = p._array.device.upload(uniform(p.shape), "bernoulli")
    return Tensor(unary(prim.RELU, order("bernoulli", wide(p), drawn)))


def _chosen(p: float, shape: Shape) -> np.ndarray:
    """1.0 with probability p, else 0.0."""
    return np.asarray(uniform(shape) < p, np.float32)


def dropout(x: TensorLike, p: float = 0.5, training: bool = True) -> Tensor:
    """Elements set to 0 with probability p, the others divided by 1 - p (Srivastava et al. 2014).

    What is dropped is drawn anew in every call. The tape keeps a mask in float16: half of what `x` takes in float32.

    Args:
        x: any shape.
        p: probability in [0, 1]; with 1 everything is dropped.
        training: without it, `x` is the result.

    Raises:
        ValueError: p outside [0, 1]. TypeError: p is no number.

    >>> ag.dropout([1.0, 2.0, 3.0], p=0.0).tolist()
    [1.0, 2.0, 3.0]
    >>> sorted(set(ag.dropout(np.ones(1000)).tolist()))
    [0.0, 2.0]
    """
    (x,) = floats("dropout", x)
    rate = check_rate("dropout", "p", p)
    return dropping(rate, x)(x) if training and rate else x


def check_rate(op: str, name: str, p: Any) -> float:
    """A probability of being dropped. Raises ValueError outside [0, 1], TypeError for what is no number."""
    rate = number(p)
    if rate is None:
        raise TypeError(f"{op}: {name} must be a number, not {type(p).__name__}")
    if not 0.0 <= rate <= 1.0:
        raise ValueError(f"{op}: {name} must be in [0, 1], not {p}")
    return rate


def dropping(rate: float, like: Tensor) -> Callable[[Tensor], Tensor]:
    """What drops elements of a tensor of that shape, the same ones in each call."""
    mask = Tensor(like._array.device.upload(_chosen(1.0 - rate, like.shape).astype(HALF), "dropout"))
    return partial(_dropped, mask=mask, factor=1.0 / (1.0 - rate) if rate < 1.0 else 0.0)


def _dropped(x: Tensor, mask: Tensor, factor: float) -> Tensor:
    out = result(scaled(binary("dropout", prim.MUL, wide(x), wide(mask)), factor), x)
    return record("dropout", out, (x,), lambda g: (_dropped(g, mask, factor),))


__all__ = ["bernoulli", "dropout", "get_rng_state", "manual_seed", "rand", "randn", "set_rng_state"]
