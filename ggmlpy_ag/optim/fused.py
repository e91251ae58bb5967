"""What ggml's fused steps want: few numbers in a tensor, and parameters in pieces of a certain size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from ..backend import primitives as prim
from ..backend.array import FLOAT, Array, Shape
from ..backend.devices import Device
from ..backend.undo import undoable
from ..ops.base import binary, scaled

FUSED_ELEMENTS = 1 << 24  # in one fused step; Vulkan devices allow 512 times the 65,535 workgroups they promise
ROWS = 64  # ggml shares a step among threads by rows


@undoable("optimizer")
class StepParameters:
    """The few numbers a fused ggml step reads from a tensor.

    Uploading them would be one more copy to the device in every step. Instead a one-hot vector for each number is
    uploaded once, and the device adds up number times vector, from the first number on that has changed since the step
    before: in the order given, which begins with the steady ones. Each parameter group has numbers of its own.
    """

    def __init__(self, *order: int) -> None:
        self._order = order
        self._hot: dict[Device, list[Array]] = {}
        self._sums: dict[tuple[Device, int], list[tuple[float, Array]]] = {}  # up to each number, with that number

    def __call__(self, device: Device, group: int, *values: float) -> Array:
        hot = self._hot.get(device)
        if hot is None:
            hot = self._hot[device] = [device.upload(row, "optimizer") for row in np.eye(len(values), dtype=FLOAT)]
        sums = self._sums.setdefault((device, group), [])
        for i, slot in enumerate(self._order):
            value = float(FLOAT.type(values[slot]))
            if i < len(sums) and sums[i][0] == value:
                continue
            del sums[i:]
            term = scaled(hot[slot], value)
            sums.append((value, binary("step", prim.ADD, sums[-1][1], term) if sums else term))
        return sums[-1][1]


def pieces(*arrays: Array) -> Iterator[tuple[Array, ...]]:
    """The arrays of one parameter (of one shape, packed), cut to the size and rows that fused steps want."""
    for start, shape, strides in _cuts(arrays[0].size):
        yield tuple([Array(a.storage, a.dtype, shape, strides, a.offset + start) for a in arrays])


@lru_cache(maxsize=1024)
def _cuts(n: int) -> Sequence[tuple[int, Shape, Shape]]:
    """Start, shape and strides of each piece of n elements."""
    cuts = []
    for start in range(0, n, FUSED_ELEMENTS):
        count = min(FUSED_ELEMENTS, n - start)
        rows = next((k for k in range(ROWS, 1, -1) if count % k == 0), 1)
        cuts.append((start, (rows, count // rows), (count // rows, 1)))
    return cuts
