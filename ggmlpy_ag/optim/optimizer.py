"""What optimizers share: checked parameters, state by parameter, saving and loading it.

Steps are made in float32. A parameter stored in float16 or bfloat16, in which most small steps would be lost, has a
float32 copy in the optimizer's state ("master"; Micikevicius et al. 2018): that is stepped, and then rounded into the
parameter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..backend import primitives as prim
from ..backend.array import FLOAT, Array, Shape
from ..backend.devices import Device
from ..ops.base import binary, cast, scaled
from ..tape import zero_grad
from ..tensor import Tensor

FUSED_ELEMENTS = 1 << 24  # in one fused step; Vulkan devices allow 512 times the 65,535 workgroups they promise
ROWS = 64  # ggml shares a step among threads by rows


class Optimizer:
    """Base of the optimizers. A subclass names its state and makes one step.

    Args:
        params: leaves that require a gradient, or a mapping of names to them; one named twice is stepped once.
        lr: learning rate, a positive number or 0; may be changed between steps (`optimizer.lr = ...`).

    Raises:
        ValueError: no parameters, or a hyperparameter out of range. TypeError: a parameter is no trainable tensor.
    """

    state_names: tuple[str, ...] = ()

    def __init__(self, params: Iterable[Tensor] | Mapping[str, Tensor], lr: float, **hyper: Any) -> None:
        named = params.values() if isinstance(params, Mapping) else params
        if isinstance(named, Tensor):
            raise TypeError("params must be a list or a mapping of tensors, not one tensor")
        self.params: list[Tensor] = list({id(p): _trainable(p) for p in named}.values())
        if not self.params:
            raise ValueError("an optimizer needs at least one parameter")
        check_range("lr", lr, 0.0)
        self.lr = lr
        self.hyper = hyper
        self.steps = [0] * len(self.params)  # of each parameter: one without a gradient is left alone
        self.state: dict[int, dict[str, Array]] = {}  # by position in params
        self._rounded: dict[int, int] = {}  # version of each 16-bit parameter when its master was rounded into it

    def step(self) -> None:
        """Update every parameter that has a gradient, in place; later reads see the new values."""
        active = [i for i, p in enumerate(self.params) if p.grad is not None]
        for i in active:
            self.steps[i] += 1
        try:
            if active:
                self._step(active)
                self._round_masters(active)
        except BaseException:  # such as no memory left: the step has not been made
            for i in active:
                self.steps[i] -= 1
            raise

    def zero_grad(self) -> None:
        """Forget the parameters' gradients, and the finished tape with what only it kept alive."""
        zero_grad(self.params)

    def state_dict(self) -> dict[str, Any]:
        """A copy of everything a later `load_state_dict` needs; arrays are NumPy arrays."""
        arrays = {
            i: {name: a.storage.device.download(a) for name, a in state.items()} for i, state in self.state.items()
        }
        kind = type(self).__name__
        return {"kind": kind, "lr": self.lr, "hyper": dict(self.hyper), "steps": list(self.steps), "state": arrays}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Take over a state that `state_dict` made for parameters of the same shapes in the same order.

        Raises:
            ValueError: another optimizer's state, another shape, a number out of range, or something missing.
            TypeError: something that is no number. Nothing has changed then.
        """
        missing = {"kind", "lr", "hyper", "steps", "state"} - set(saved)
        if missing:
            raise ValueError(f"this is no state of an optimizer: it lacks {', '.join(sorted(missing))}")
        if saved["kind"] != type(self).__name__:
            raise ValueError(f"this is a state of {saved['kind']}, not of {type(self).__name__}")
        if set(saved["hyper"]) != set(self.hyper):
            raise ValueError(f"hyperparameters are {sorted(saved['hyper'])}, expected {sorted(self.hyper)}")
        checked = type(self)(self.params, saved["lr"], **saved["hyper"])
        steps = [int(n) for n in saved["steps"]]
        if len(steps) != len(self.params) or min(steps) < 0:
            raise ValueError(f"steps must be {len(self.params)} numbers that are not negative, not {saved['steps']}")
        for i, state in saved["state"].items():
            if not 0 <= int(i) < len(self.params):
                raise ValueError(f"the state names parameter {i}, but there are {len(self.params)}")
            if set(state) != self._names(int(i)):
                raise ValueError(
                    f"the state of parameter {i} has {sorted(state)}, expected {sorted(self._names(int(i)))}"
                )
            shape = self.params[int(i)].shape
            for name, values in state.items():
                if np.shape(values) != shape:
                    raise ValueError(f"{name} of parameter {i} has shape {np.shape(values)}, the parameter {shape}")
        loaded = {
            int(i): {
                name: self.params[int(i)]._array.device.upload(np.asarray(values, FLOAT))
                for name, values in state.items()
            }
            for i, state in saved["state"].items()
        }
        self.state, self.hyper, self.lr, self.steps = loaded, checked.hyper, checked.lr, steps
        self._rounded = {i: self.params[i]._array.storage.version for i in loaded}

    def _step(self, active: list[int]) -> None:
        raise NotImplementedError

    def _by_device(self, active: list[int]) -> dict[Device, list[tuple[int, Tensor, Tensor]]]:
        """Position, weight and gradient of the active ones, in float32, for each device."""
        found: dict[Device, list[tuple[int, Tensor, Tensor]]] = {}
        for i in active:
            param = self.params[i]
            if param.grad is not None:
                weight = param.detach() if param.dtype == FLOAT else Tensor(self._master(i))
                found.setdefault(param._array.device, []).append((i, weight, param.grad.astype(FLOAT)))
        return found

    def _master(self, i: int) -> Array:
        """The float32 copy of a parameter, made anew where somebody has written to the parameter since."""
        array = self.params[i]._array
        state = self.state.setdefault(i, {})
        if self._rounded.get(i) != array.storage.version or "master" not in state:
            state["master"] = cast(array, FLOAT)
        return state["master"]

    def _round_masters(self, active: list[int]) -> None:
        for i in active:
            array = self.params[i]._array
            if array.dtype is not FLOAT:
                array.device.graph.update([(prim.ASSIGN, (cast(self.state[i]["master"], array.dtype), array))])
                self._rounded[i] = array.storage.version

    def _names(self, i: int) -> set[str]:
        """Of the state that a parameter has."""
        return {*self.state_names, *(() if self.params[i].dtype == FLOAT else ("master",))}

    def _state(self, i: int, name: str) -> Array:
        """A state array of a parameter, zeros at first."""
        state = self.state.setdefault(i, {})
        if name not in state:
            array = self.params[i]._array
            state[name] = array.device.full(array.shape, 0.0)
        return state[name]


class StepParameters:
    """The few numbers a fused ggml step reads from a tensor.

    Uploading them would be one more copy to the device in every step. Instead a one-hot vector for each number is
    uploaded once, and the device adds up number times vector, from the first number on that has changed since the step
    before: in the order given, which begins with the steady ones.
    """

    def __init__(self, *order: int) -> None:
        self._order = order
        self._hot: dict[Device, list[Array]] = {}
        self._sums: dict[Device, list[tuple[float, Array]]] = {}  # of the numbers up to each, with that number

    def __call__(self, device: Device, *values: float) -> Array:
        hot = self._hot.get(device)
        if hot is None:
            hot = self._hot[device] = [device.upload(row, "optimizer") for row in np.eye(len(values), dtype=FLOAT)]
        sums = self._sums.setdefault(device, [])
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


def check_range(name: str, value: float, low: float, high: float = float("inf")) -> None:
    """Raise ValueError unless low <= value < high."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.floating, np.integer)):
        raise TypeError(f"{name} must be a number, not {value!r}")
    if not low <= value < high:
        raise ValueError(f"{name} must be in [{low}, {high}), not {value}")


def _trainable(param: Tensor) -> Tensor:
    if not isinstance(param, Tensor):
        raise TypeError(f"a parameter must be a tensor, not {type(param).__name__}")
    if not param.requires_grad or param._node is not None:
        raise TypeError(f"a parameter must be a leaf that requires a gradient; this one has shape {param.shape}")
    if not param._array.packed:
        raise TypeError(f"a parameter must be contiguous; this one of shape {param.shape} is a view")
    return param
