"""Module: parameters, buffers and parts under names, and a path that the tape knows while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from ..backend.undo import undoable
from ..checkpoint import checkpoint
from ..ops.shape import names_type
from ..paths import SeveralResults
from ..tape import recomputed, running_layer, zero_grad
from ..tensor import Tensor, as_numpy, parse_dtype

_M = TypeVar("_M", bound="Module")
_T = TypeVar("_T")


@undoable()
class Module:
    """Base of everything that has parameters: assign tensors and modules to attributes, and write `forward`.

    A leaf that requires a gradient becomes a parameter when it is assigned; `register_buffer` names tensors that are
    saved with the parameters but not trained; a module becomes a part. Other attributes are left alone.

        class Net(ag.nn.Module):
            def __init__(self):
                self.hidden = ag.nn.Linear(784, 128)
                self.out = ag.nn.Linear(128, 10)

            def forward(self, x):
                return self.out(ag.relu(self.hidden(x)))

    `torch.nn.Module` is the model for names and conventions; `super().__init__()` is not needed. While a module runs,
    the nodes that a tape records carry its path ("hidden"), for reports.

    Attributes:
        training: whether layers such as dropout behave as in training; see `train` and `eval`.
    """

    training: bool
    _parameters: dict[str, None]  # names, in the order of their assignment
    _buffers: dict[str, bool]  # and whether state_dict has them
    _modules: dict[str, None]

    def __new__(cls, *_: Any, **__: Any) -> Any:  # mypy takes the signature from __init__ then
        self = super().__new__(cls)
        own = vars(self)
        own["training"] = True
        own["_parameters"], own["_buffers"], own["_modules"] = {}, {}, {}
        return self

    # ------------------------------------------------------------ registering

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Module):
            self._register(name, self._modules, None)
        elif isinstance(value, Tensor) and name in self._buffers:
            if value.requires_grad:
                raise TypeError(f"{name} is a buffer of {type(self).__name__}: it cannot require a gradient")
        elif isinstance(value, Tensor) and name in self._parameters:
            if not value.is_leaf:
                raise TypeError(
                    f"{name} is a parameter of {type(self).__name__}: it cannot be a tensor that was computed on a "
                    "tape; pass detach() of it, or ag.param(values)"
                )
        elif isinstance(value, Tensor) and value.requires_grad and value.is_leaf:
            self._register(name, self._parameters, None)
        elif name in self._parameters or name in self._buffers or name in self._modules:
            self._forget(name)
        vars(self)[name] = value

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        self._forget(name)

    def _register(self, name: str, kind: dict[str, _T], value: _T) -> None:
        """List the name as of that kind, and of no other."""
        if name not in kind:
            self._forget(name)
        kind[name] = value
        _changed()

    def _forget(self, name: str) -> None:
        for kind in (self._parameters, self._buffers, self._modules):
            kind.pop(name, None)
        _changed()

    def register_buffer(self, name: str, tensor: Tensor, persistent: bool = True) -> None:
        """Name a tensor that belongs to the state but is not trained, such as a running mean.

        Args:
            name: of the attribute.
            tensor: without a gradient.
            persistent: whether `state_dict` has it.

        Raises:
            TypeError: no tensor, or one that requires a gradient. ValueError: a name with a dot, or of a method.
        """
        if not isinstance(tensor, Tensor) or tensor.requires_grad:
            what = "one that requires a gradient" if isinstance(tensor, Tensor) else type(tensor).__name__
            raise TypeError(f"register_buffer: {name} must be a tensor without a gradient, not {what}")
        _check_name("register_buffer", self, name)
        self._register(name, self._buffers, persistent)
        vars(self)[name] = tensor

    def register_parameter(self, name: str, tensor: Tensor | None) -> None:
        """Name a parameter, as an assignment does; None for one that this module does without.

        Args:
            name: of the attribute.
            tensor: a leaf that requires a gradient, or None.

        Raises:
            TypeError: anything else. ValueError: a name with a dot, or of a method.
        """
        if tensor is not None and not (isinstance(tensor, Tensor) and tensor.requires_grad and tensor.is_leaf):
            raise TypeError(f"register_parameter: {name} must be a leaf that requires a gradient, or None")
        _check_name("register_parameter", self, name)
        setattr(self, name, tensor)

    def add_module(self, name: str, module: Module) -> None:
        """Name a part, as an assignment does.

        Args:
            name: of the attribute, such as "0".
            module: the part.

        Raises:
            TypeError: no module. ValueError: a name with a dot, or of a method.
        """
        if not isinstance(module, Module):
            raise TypeError(f"add_module: {name} must be a Module, not {type(module).__name__}")
        _check_name("add_module", self, name)
        setattr(self, name, module)

    # ------------------------------------------------------------ running

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; subclasses define it, and callers call the module."""
        raise NotImplementedError(f"{type(self).__name__} has no forward()")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        root = _root.get()
        entered = _root.set(self) if root is None else None
        path = "" if root is None else _path(root, self)
        token = running_layer.set(path)
        try:
            chosen = recomputed.get()
            if chosen is None or not chosen(self, path):
                out = self.forward(*args, **kwargs)
            else:
                out = checkpoint(_again(self, path, args, kwargs))
            if (look := onlooker.get()) is not None:
                look(self, out)
            return out
        finally:
            running_layer.reset(token)
            if entered is not None:
                _root.reset(entered)

    # ------------------------------------------------------------ walking

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """Path and module of this one (path "") and all below, each module once; `prefix` goes before the paths."""
        return _walk(self, prefix, set())

    def modules(self) -> Iterator[Module]:
        """This module and all below, each once."""
        return (module for _, module in self.named_modules())

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Name and module of the direct parts, each once."""
        seen: dict[int, tuple[str, Module]] = {}
        for name in self._modules:
            seen.setdefault(id(vars(self)[name]), (name, vars(self)[name]))
        return iter(seen.values())

    def children(self) -> Iterator[Module]:
        """The direct parts, each once."""
        return (module for _, module in self.named_children())

    def named_parameters(self, prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, Tensor]]:
        """Path and tensor of the parameters, each tensor once, under its first name.

        Args:
            prefix: goes before the paths, with a dot.
            recurse: also those of the parts.
        """
        return self._named(prefix, recurse, lambda module: module._parameters)

    def parameters(self, recurse: bool = True) -> Iterator[Tensor]:
        """The parameters, each once; `recurse` also gives those of the parts."""
        return (tensor for _, tensor in self.named_parameters(recurse=recurse))

    def named_buffers(self, prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, Tensor]]:
        """Path and tensor of the buffers, each once, persistent or not; arguments as `named_parameters`."""
        return self._named(prefix, recurse, lambda module: module._buffers)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """The buffers, each once; `recurse` also gives those of the parts."""
        return (tensor for _, tensor in self.named_buffers(recurse=recurse))

    def _named(
        self, prefix: str, recurse: bool, names: Callable[[Module], Mapping[str, Any]]
    ) -> Iterator[tuple[str, Tensor]]:
        seen = set()
        for path, module in self.named_modules(prefix) if recurse else [(prefix, self)]:
            for name in names(module):
                tensor = vars(module)[name]
                if id(tensor) not in seen:
                    seen.add(id(tensor))
                    yield _joined(path, name), tensor

    def apply(self: _M, fn: Callable[[Module], object]) -> _M:
        """Call `fn` on every part, the innermost first, and on this module; returns this module."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    # ------------------------------------------------------------ modes

    def train(self: _M, mode: bool = True) -> _M:
        """Set `training` here and in all parts; returns this module."""
        if not isinstance(mode, bool):
            raise TypeError(f"train: mode must be True or False, not {mode!r}")
        for module in self.modules():
            module.training = mode
        return self

    def eval(self: _M) -> _M:
        """`train(False)`."""
        return self.train(False)

    def requires_grad_(self: _M, requires_grad: bool = True) -> _M:
        """Set whether the parameters here and below are trained; returns this module."""
        for tensor in self.parameters():
            tensor.requires_grad = bool(requires_grad)
        return self

    def zero_grad(self) -> None:
        """Forget the parameters' gradients, and the finished tape with what only it kept alive."""
        zero_grad(list(self.parameters()))

    def to(self: _M, device: str | None = None, dtype: Any = None) -> _M:
        """Move parameters and buffers to a device, or store the float ones in another type, in place.

        The tensors stay the same objects, so an optimizer goes on with them; their gradients are forgotten.

        Args:
            device: a device name; by default they stay where they are. A type may stand here: `model.to("float16")`.
            dtype: "float32", "float16" or "bfloat16"; int32 buffers keep their type.

        Returns:
            This module.

        Raises:
            ValueError: an unknown device. TypeError: another type. Nothing has changed then.
        """
        if dtype is None and names_type(device):
            device, dtype = None, device
        wanted = None if dtype is None else parse_dtype(dtype)
        if wanted is not None and wanted.kind == "i":
            raise TypeError(f"to: dtype must be a float type, not {wanted.name}")
        tensors = {id(t): t for t in (*self.parameters(), *self.buffers())}.values()
        moved = [t.detach().to(device, wanted if t.dtype.kind != "i" else None) for t in tensors]
        for tensor, new in zip(tensors, moved, strict=True):
            if new._array is not tensor._array:
                tensor._array, tensor.grad = new._array, None
        return self

    # ------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Tensor]:
        """The parameters and persistent buffers by path.

        As in PyTorch, they share their memory with the module: training goes on changing them. Keep
        `{name: t.numpy() for name, t in model.state_dict().items()}` for a copy. A tensor that the module has under
        several names is under each.
        """
        found: dict[str, Tensor] = {}
        for path, module in self._places(""):
            for name in [*module._parameters, *(n for n, persistent in module._buffers.items() if persistent)]:
                found[_joined(path, name)] = vars(module)[name].detach()
        return found

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> None:
        """Copy values into the parameters and persistent buffers, in place.

        Args:
            state: arrays or tensors by path, as `state_dict` gives them; they are rounded to the types here.
            strict: whether every name must be on both sides. Shapes must fit in any case.

        Raises:
            ValueError: lists the names that are missing, unexpected or of another shape. TypeError: no mapping, or a
            value that holds no numbers. Nothing has changed then.
        """
        if not isinstance(state, Mapping):
            raise TypeError(f"load_state_dict: state must be a mapping of names to arrays, not {type(state).__name__}")
        own = self.state_dict()
        values = {
            name: value if isinstance(value, Tensor) else as_numpy(value, None, f"the value of {name}")
            for name, value in state.items()
            if name in own
        }
        problems = [
            f"{name} has shape {values[name].shape}, expected {own[name].shape}"
            for name in values
            if values[name].shape != own[name].shape
        ]
        if strict:
            problems = [
                *_listed("missing", [name for name in own if name not in state]),
                *_listed("unexpected", [name for name in state if name not in own]),
                *problems,
            ]
        if problems:
            raise ValueError(f"the state does not fit {type(self).__name__}:\n  " + "\n  ".join(problems))
        # read and rounded before the first write: what can fail has failed then
        sources = {name: as_numpy(value, own[name].dtype, f"the value of {name}") for name, value in values.items()}
        for name, source in sources.items():
            own[name].copy_(source)

    def _places(self, path: str) -> Iterator[tuple[str, Module]]:
        """Path and module of every place in the tree: a shared module comes once for each of its names."""
        yield path, self
        for name in self._modules:
            yield from vars(self)[name]._places(_joined(path, name))

    # ------------------------------------------------------------ showing

    def extra_repr(self) -> str:
        """What the repr shows of this module beside its parts; subclasses may define it."""
        return ""

    def __repr__(self) -> str:
        kind, extra = type(self).__name__, self.extra_repr()
        if not self._modules:
            return f"{kind}({extra})"
        lines = [extra] * bool(extra) + [f"({name}): {vars(self)[name]!r}" for name in self._modules]
        return "\n".join([f"{kind}(", *("  " + line.replace("\n", "\n  ") for line in lines), ")"])


def _again(module: Module, path: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[], Tensor]:
    """Runs the module's forward where it runs now: at the same path, with the same parts recomputed."""
    variables: tuple[ContextVar[Any], ...] = (_root, running_layer, recomputed)
    values = [variable.get() for variable in variables]

    def run() -> Tensor:
        tokens = [variable.set(value) for variable, value in zip(variables, values, strict=True)]
        try:
            out = module.forward(*args, **kwargs)
        finally:
            for variable, token in zip(variables, tokens, strict=True):
                variable.reset(token)
        if not isinstance(out, Tensor):
            raise SeveralResults(
                path,
                f"{type(module).__name__} ({path}) returns a {type(out).__name__}: only a module that returns one "
                "tensor can be checkpointed; choose its parts, or the module around it",
            )
        return out

    return run


_root: ContextVar[Module | None] = ContextVar("ggmlpy_ag_root", default=None)  # the outermost module that runs
# Called with each module that has run and what it returned, while running_layer is still its path.
onlooker: ContextVar[Callable[[Module, Any], None] | None] = ContextVar("ggmlpy_ag_onlooker", default=None)
_structure = 0  # how often any module got or lost a part, a parameter or a buffer
_known: WeakKeyDictionary[Module, tuple[int, dict[int, str]]] = WeakKeyDictionary()


def _changed() -> None:
    global _structure  # noqa: PLW0603 - one count for the process
    _structure += 1


def _path(root: Module, module: Module) -> str:
    """Where `module` is below `root`. The tree is walked again only when some module has changed since."""
    version, paths = _known.get(root, (-1, {}))
    if version != _structure:
        paths = {id(part): path for path, part in root.named_modules()}
        _known[root] = _structure, paths
    found = paths.get(id(module))
    # One made on the fly is no part of what runs: it goes by its class, below the layer that calls it.
    return _joined(running_layer.get() or "", type(module).__name__) if found is None else found


def _walk(module: Module, path: str, seen: set[int]) -> Iterator[tuple[str, Module]]:
    if id(module) in seen:
        return
    seen.add(id(module))
    yield path, module
    for name in module._modules:
        yield from _walk(vars(module)[name], _joined(path, name), seen)


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _listed(what: str, names: list[str]) -> list[str]:
    return [f"{what}: {', '.join(names)}"] if names else []


def _check_name(method: str, module: Module, name: str) -> None:
    if not isinstance(name, str) or not name or "." in name:
        raise ValueError(f"{method}: a name must be a text without a dot, not {name!r}")
    if hasattr(type(module), name) or name in Module.__annotations__:
        raise ValueError(f"{method}: {name} is an attribute of {type(module).__name__} already")


__all__ = ["Module"]
