"""What an optimizer keeps of a parameter, on the parameter's device.

Steps are made in float32. A parameter stored in float16 or bfloat16, in which most small steps would be lost, has a
float32 copy in the optimizer's state ("master"; Micikevicius et al. 2018): that is stepped, and then rounded into the
parameter.
"""

from __future__ import annotations

import weakref

from ..backend import primitives as prim
from ..backend.array import FLOAT, Array
from ..backend.memory import Storage
from ..backend.undo import undoable
from ..ops import eq, where
from ..ops.base import cast
from ..tensor import Tensor

MASTER = "master"


@undoable("optimizer")
class ParameterState:
    """Steps that a parameter has made, and its arrays by name: float32, of its shape."""

    __slots__ = ("_rounded", "arrays", "param", "steps")

    def __init__(self, param: Tensor) -> None:
        self.param = param
        self.steps = 0  # of this parameter: one without a gradient is left alone
        self.arrays: dict[str, Array] = {}
        self._rounded: tuple[weakref.ref[Storage], int] | None = None  # where the master went, and the write it was

    def settle(self) -> None:
        """Follow the parameter to the device and the type that it has now."""
        device = self.param._array.device
        for name, array in self.arrays.items():
            if array.device is not device:
                self.arrays[name] = device.upload(array.device.download(array))
        if self.param.dtype == FLOAT:
            self.arrays.pop(MASTER, None)

    def master(self) -> Array:
        """The float32 values of a 16-bit parameter, once settled."""
        array = self.param._array
        master = self.arrays.get(MASTER)
        if master is None:
            master = cast(array, FLOAT)
        elif not self._is_rounded():
            # Somebody has written to the parameter, or moved it: the master holds where it still rounds to the values
            same = eq(Tensor(cast(master, array.dtype)), self.param.detach())
            master = where(same, Tensor(master), Tensor(cast(array, FLOAT)))._array
        return master

    def _is_rounded(self) -> bool:
        storage = self.param._array.storage
        return self._rounded is not None and self._rounded[0]() is storage and self._rounded[1] == storage.version

    def rounding(self) -> list[tuple[prim.Primitive, tuple[Array, Array]]]:
        """The writes that round the master into the parameter."""
        array = self.param._array
        if array.dtype is FLOAT:
            return []
        return [(prim.ASSIGN, (self.arrays[MASTER], array))]  # which converts, so that it needs no memory

    def was_rounded(self) -> None:
        """Note that those writes have been made."""
        storage = self.param._array.storage
        self._rounded = (weakref.ref(storage), storage.version)
