"""Tensors over the memory of other libraries. What they see of ours is in `Tensor.__dlpack__` and `__array__`."""

from __future__ import annotations

from typing import Any

from .backend import devices, exchange
from .backend.array import BFLOAT, HALF
from .tensor import Tensor, as_numpy, check_shape


def from_dlpack(x: Any, *, device: str | None = None, copy: bool | None = None) -> Tensor:
    """A tensor that shares the memory of another library's, such as PyTorch's or NumPy's, where that is possible.

    Writes are seen on both sides, whichever makes them. What the other side writes is not counted: no backward rule
    notices that its saved value has changed, and an operation recorded but not yet computed reads the new value.

    float32, float16 and bfloat16 are shared where the memory is the host's, writable, and no element lies in it twice.
    Everything else is copied: float64, bool and integers as by `ag.tensor`, and int32 too, whose values are checked
    once when they serve as indices. The bytes that are shared are in no figure of `memory_stats`.

    Args:
        x: has `__dlpack__` and `__dlpack_device__`; at most four dimensions, at least one element, in host memory.
        device: a device name; by default the CPU, where it is. Anywhere else it is a copy.
        copy: True: always; False: never; None: where it cannot be shared.

    Raises:
        BufferError: a copy would be needed and `copy` is False, or `x` refuses, as PyTorch does for tensors that
            require a gradient, or it is not in host memory.
        TypeError: no such object, or it does not hold real numbers.
        ValueError: an empty array, more than four dimensions, an integer outside int32, an unknown device.

    >>> a = np.array([1.0, 2.0], np.float32)
    >>> t = ag.from_dlpack(a)
    >>> t[0] = 5.0
    >>> a
    array([5., 2.], dtype=float32)
    """
    target = devices.get("cpu" if device is None else device)
    if not hasattr(x, "__dlpack__") or not hasattr(x, "__dlpack_device__"):
        raise TypeError(f"from_dlpack: x must have __dlpack__ and __dlpack_device__, which {type(x).__name__} has not")
    if copy is not None and not isinstance(copy, bool):
        raise TypeError(f"from_dlpack: copy must be True, False or None, not {copy!r}")
    try:
        host, writable = exchange.received(x)
    except BufferError as error:
        raise BufferError(f"from_dlpack: {error}") from error
    except TypeError as error:
        raise TypeError(f"from_dlpack: {error}") from error
    check_shape(host.shape, "x")
    why = exchange.why_not_borrowed(target, host, writable)
    if not why and not copy:
        return Tensor(exchange.borrowed(target, host))
    if copy is False:
        raise BufferError(f"from_dlpack: x of shape {host.shape} cannot be shared: {why}")
    if host.dtype != BFLOAT:
        host = as_numpy(host, HALF if host.dtype == HALF else None, "x")
    return Tensor(target.upload(host, "from_dlpack"))
