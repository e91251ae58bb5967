"""What optimizers share: groups of parameters, the step as a whole, and the face of saving and loading."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from ..backend.array import FLOAT, Array
from ..backend.devices import Device
from ..backend.primitives import Primitive
from ..backend.undo import undoable
from ..tape import no_grad, phase, zero_grad
from ..tensor import Tensor
from . import saving
from .checks import check_range
from .groups import Params, as_groups, trainable
from .state import MASTER, ParameterState

Group: TypeAlias = dict[str, Any]
Write: TypeAlias = tuple[Primitive, tuple[Array, ...]]


class Move:
    """One parameter's part of a step: its weight and gradient in float32, and what its state becomes by the step.

    `changed` are the arrays that the state has after the step, and not before: one that failed has not been made.
    """

    __slots__ = ("changed", "grad", "state", "weight")

    def __init__(self, state: ParameterState) -> None:
        self.state = state
        self.grad = _gradient(state.param)
        self.changed: dict[str, Array] = {}
        state.settle()
        param = state.param
        self.weight = param.detach() if param.dtype == FLOAT else Tensor(state.master())
        if param.dtype != FLOAT:
            self.changed[MASTER] = self.weight._array

    def array(self, name: str, start: float = 0.0) -> Array:
        """One of the state's arrays, filled with one number at first."""
        found = self.state.arrays.get(name)
        if found is None:
            array = self.state.param._array
            found = self.changed[name] = array.device.full(array.shape, start)
        return found

    def done(self) -> None:
        """Note that the step has been made."""
        self.state.steps += 1
        self.state.arrays.update(self.changed)


@undoable()
class Optimizer:
    """Base of the optimizers. A subclass names its state, checks its hyperparameters and says what a step writes.

    Args:
        params: leaves that require a gradient: a list or another iterable, such as `model.parameters()`, a mapping of
            names to them, or a module. Or a list of groups: `[{"params": [w], "lr": 0.1}, {"params": [b]}]`, where each
            may have hyperparameters of its own. A parameter named twice in a group is stepped once.
        defaults: the hyperparameters of groups that do not have their own, the learning rate "lr" among them.

    Attributes:
        param_groups: a list of dicts with "params" and the hyperparameters, which may be changed between steps.
        defaults: the hyperparameters that the optimizer was made with.

    Raises:
        ValueError: no parameters, a parameter in two groups, a hyperparameter out of range, or an unknown one.
        TypeError: a parameter is no trainable tensor.
    """

    state_names: tuple[str, ...] = ()  # the arrays that each parameter has after its first step
    optional_names: tuple[str, ...] = ()  # those that it may have, as its hyperparameters want

    def __init__(self, params: Params, defaults: Group) -> None:
        self._check(defaults)
        self.defaults = defaults
        self.param_groups: list[Group] = []
        self.state: dict[Tensor, ParameterState] = {}
        for group in as_groups(params):
            self.add_param_group(group)

    # ------------------------------------------------------------ groups

    def add_param_group(self, group: Mapping[str, Any]) -> None:
        """Train more parameters, such as a part of the model that was frozen so far.

        Args:
            group: "params", and the hyperparameters that differ from the optimizer's defaults.

        Raises:
            ValueError, TypeError: as for the optimizer. Nothing has changed then.
        """
        number = len(self.param_groups)
        if not isinstance(group, Mapping) or "params" not in group:
            raise TypeError(f'a parameter group must be a mapping with "params", not {group!r}')
        params = group["params"]
        new = {**self.defaults, **group, "params": trainable([params] if isinstance(params, Tensor) else params)}
        self.check_group(number, new)
        taken = {id(param): i for i, other in enumerate(self.param_groups) for param in other["params"]}
        for i, param in enumerate(new["params"]):
            if id(param) in taken:
                raise ValueError(
                    f"parameter {i} of param_groups[{number}], of shape {param.shape}, is in "
                    f"param_groups[{taken[id(param)]}] already"
                )
        self.param_groups.append(new)

    @property
    def params(self) -> list[Tensor]:
        """The parameters of all groups, in their order."""
        return [param for group in self.param_groups for param in group["params"]]

    @property
    def lr(self) -> float:
        """The learning rate of all groups; setting it sets it for all.

        Raises:
            ValueError: the groups have several, which `param_groups` tells; or a rate to set is out of range.
        """
        rates = [group["lr"] for group in self.param_groups]
        if any(rate != rates[0] for rate in rates):
            raise ValueError(f"the groups have learning rates of their own, {rates}: see param_groups")
        rate: float = rates[0]
        return rate

    @lr.setter
    def lr(self, value: float) -> None:
        check_range("lr", value, 0.0)
        for group in self.param_groups:
            group["lr"] = value

    @property
    def steps(self) -> list[int]:
        """How many steps each of `params` has made; one without a gradient is left alone."""
        return [self.state[param].steps if param in self.state else 0 for param in self.params]

    def check_group(self, number: int, group: Mapping[str, Any]) -> None:
        """Raise ValueError or TypeError, naming it, unless the group has every hyperparameter, each in its range."""
        names = {*self.defaults, "params"}
        if set(group) != names:
            wrong = ", ".join(sorted(map(str, names ^ set(group))))
            known = ", ".join(self.defaults)
            raise ValueError(f"param_groups[{number}]: {wrong} unknown or missing; {type(self).__name__} has {known}")
        try:
            self._check(group)
        except (TypeError, ValueError) as error:
            raise type(error)(f"param_groups[{number}]: {error}") from None

    def _check(self, group: Mapping[str, Any]) -> None:
        """Raise ValueError or TypeError, naming it, for a hyperparameter out of range."""
        check_range("lr", group["lr"], 0.0)

    # ------------------------------------------------------------ stepping

    @no_grad()
    def step(self) -> None:
        """Update every parameter that has a gradient, in place; later reads see the new values.

        What several backward passes added to a gradient counts in full: no zero_grad() belongs between them.

        Raises:
            ValueError, TypeError: a hyperparameter was set to nonsense, or a gradient does not fit its parameter.
            OutOfMemoryError: the step does not fit. Nothing has changed then.
        """
        with phase("update"):
            self._step()

    def _step(self) -> None:
        for number, group in enumerate(self.param_groups):
            self.check_group(number, group)
        moves: dict[Device, list[Move]] = {}
        writes: dict[Device, list[Write]] = {}
        for number, group in enumerate(self.param_groups):
            here: dict[Device, list[Move]] = {}
            for param in group["params"]:
                if param.grad is not None:
                    here.setdefault(param._array.device, []).append(Move(self._state(param)))
            for device, some in here.items():
                moves.setdefault(device, []).extend(some)
                writes.setdefault(device, []).extend(self._writes(device, number, group, some))
        if len(moves) > 1:  # what needs memory comes before the first write: then it is all devices or none
            for device in moves:
                device.graph.run()
        for device, made in moves.items():
            device.graph.update(writes[device])
            for move in made:
                move.done()
                self.state[move.state.param] = move.state
            if rounding := [write for move in made for write in move.state.rounding()]:
                device.graph.update(rounding)  # which needs no memory, and all that was pending is computed
            for move in made:
                move.state.was_rounded()

    def _state(self, param: Tensor) -> ParameterState:
        state = self.state.get(param)
        if state is None:
            trainable([param])  # the list in its group may have been changed
            state = ParameterState(param)
        return state

    def _writes(self, device: Device, number: int, group: Group, moves: Sequence[Move]) -> list[Write]:
        """The writes in place of the parameters of a group that are on one device."""
        raise NotImplementedError

    def zero_grad(self) -> None:
        """Forget the parameters' gradients, and the finished tape with what only it kept alive."""
        zero_grad(self.params)

    # ------------------------------------------------------------ saving

    def state_dict(self) -> dict[str, Any]:
        """A copy of everything that a later `load_state_dict` needs.

        All but the arrays are numbers, strings and lists, as JSON has them:

            {"kind": "AdamW",
             "param_groups": [{"lr": 0.001, "betas": [0.9, 0.999], .., "params": [0, 1]}, ..],
             "steps": [10, 10],  # of each parameter
             "state": {0: {"first_moment": array, "second_moment": array}, ..}}

        Parameters are numbered through all groups. The arrays are NumPy's, float32, of their parameter's shape;
        "master" is the float32 copy of a parameter in 16 bits. A parameter without arrays is not in "state".
        """
        return saving.saved(self)

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Take over a state that `state_dict` made for parameters of the same shapes in the same groups.

        Args:
            saved: as `state_dict` gives it; the numbers of parameters in "state" may be strings, as JSON makes them.
                The hyperparameters, learning rates included, become those of the state.

        Raises:
            ValueError: another optimizer's state, other groups, another shape, a number out of range, or something
            missing. TypeError: something that is no number. Nothing has changed then.
        """
        groups, state = saving.read(self, saved)
        for group, new in zip(self.param_groups, groups, strict=True):
            group.update(new)
        self.state = state


def _gradient(param: Tensor) -> Tensor:
    """Its gradient in float32, once it is sure to fit: ggml would end the process, or read beyond it."""
    grad = param.grad
    if not isinstance(grad, Tensor):
        raise TypeError(f"the gradient of a parameter of shape {param.shape} is a {type(grad).__name__}, not a tensor")
    if grad.shape != param.shape or grad.device != param.device:
        found = f"shape {grad.shape} on {grad.device}"
        raise ValueError(f"a parameter of shape {param.shape} on {param.device} has a gradient of {found}")
    return grad.astype(FLOAT)
