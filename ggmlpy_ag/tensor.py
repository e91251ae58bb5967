"""Tensor: values on a device, with a gradient where one is wanted.

A Tensor is a window (shape, strides) on a Storage, which several tensors may share. It knows the tape node that made
it by a weak link only: what a backward pass needs lives in the tape and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .backend import devices, exchange
from .backend.array import BFLOAT, FLOAT, INT, MAX_DIMS, Array, Shape, dtype_name, from_bfloat, own_dtype, to_bfloat
from .backend.undo import undoable

if TYPE_CHECKING:
    from .tape import Node

TensorLike: TypeAlias = "Tensor | npt.ArrayLike"
Axes: TypeAlias = int | Sequence[int] | None
Index: TypeAlias = Any  # int, slice, None, Ellipsis, or a tuple of them


@undoable()
class Tensor:
    """An array on a device, of at most four dimensions and at least one element.

    Its values are float32; or float16 or bfloat16, which are stored so and computed with in float32; or int32, for
    indices.

    Made by `ag.tensor`, `ag.param` and the operations, not by calling the class. Arithmetic follows NumPy's
    broadcasting, with numbers and NumPy arrays on either side. Values are computed when they are read.

    Attributes:
        requires_grad: whether a tape records operations on it.
        grad: the gradient that `backward` left here (a Tensor of the same shape), or None.
    """

    __slots__ = ("__weakref__", "_array", "_node", "grad", "requires_grad")
    __array_ufunc__ = None  # so that `numpy_array * tensor` asks the tensor
    __hash__ = object.__hash__  # by identity, although == compares elements

    def __init__(self, array: Array, requires_grad: bool = False) -> None:
        self._array = array
        self._node: Callable[[], Node | None] | None = None
        self.requires_grad = requires_grad
        self.grad: Tensor | None = None

    # ------------------------------------------------------------ what it is

    @property
    def shape(self) -> Shape:
        """Extent of each dimension, the last one fastest in memory."""
        return self._array.shape

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self._array.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._array.size

    @property
    def dtype(self) -> np.dtype:
        """`numpy.dtype`: float32, float16, int32 or `ag.bfloat16`, a type of ours, since NumPy has none."""
        return self._array.dtype

    @property
    def device(self) -> str:
        """Name of the device it lives on, such as "cpu" or "vulkan:0"."""
        return self._array.storage.device.name

    @property
    def nbytes(self) -> int:
        """Bytes of its elements; its storage may be larger (`ag.tape_memory` reports storages)."""
        return self._array.size * self._array.dtype.itemsize

    @property
    def is_leaf(self) -> bool:
        """Whether no tape recorded how it was made."""
        return self._node is None

    # ------------------------------------------------------------ reading it

    def numpy(self) -> np.ndarray:
        """The values as a new NumPy array, bfloat16 ones as float32; computes what is pending."""
        return self._array.device.download(self._array)

    def item(self) -> float | int:
        """The value of a tensor of one element, as a Python number.

        Raises:
            ValueError: it has several elements.
        """
        if self.size != 1:
            raise ValueError(f"item() needs a tensor of one element, this one has shape {self.shape}")
        value: float | int = self.numpy().item()
        return value

    def tolist(self) -> Any:
        """The values as nested Python lists (a number for a scalar)."""
        return self.numpy().tolist()

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        """For NumPy: a copy, as on every device, since optimizers write in place; with `copy=False` a view.

        Raises:
            ValueError: `copy` is False, but it requires a gradient, or NumPy cannot share the memory in that type.
        """
        if copy is not False:
            values = self.numpy()
            return values if dtype is None else values.astype(dtype, copy=False)
        wanted = self.dtype if dtype is None else np.dtype(dtype)
        why = exchange.why_not_lent(self._array)
        if self.requires_grad:
            why = "it requires a gradient; share its detach()"
        elif self.dtype == BFLOAT or wanted != self.dtype:
            why = f"{dtype_name(self.dtype)} has to be converted"
        if why:
            raise ValueError(f"NumPy cannot share the memory of this tensor of shape {self.shape}: {why}")
        return exchange.lent(self._array)

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's type and number of its device: 1 for the CPU, 7 for Vulkan."""
        return exchange.dlpack_device(self._array.device)

    def __dlpack__(
        self,
        *,
        stream: None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule for `from_dlpack` of another library; computes everything that is pending.

        On the CPU device it shares the memory, which stays in use as long as the other library keeps it: each sees what
        the other writes. int32 values, which may have been checked as indices, are copied.

        Args:
            stream: None: neither device has streams.
            max_version: the newest version of DLPack that is understood; before 1.0 without it.
            dl_device: the CPU, `(1, 0)`, also for a tensor of another device.
            copy: True: into host memory, always; False: never; None: where it is needed, from another device only with
                `dl_device`.

        Raises:
            BufferError: it requires a gradient, or cannot be exported that way. ValueError: a stream.
        """
        if stream is not None:
            raise ValueError(f"__dlpack__: stream must be None, not {stream!r}: a tensor here has none")
        if self.requires_grad:
            raise BufferError("a tensor that requires a gradient cannot be exported: export its detach()")
        return exchange.exported(self._array, max_version, dl_device, copy)

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ValueError(f"the truth of a tensor of shape {self.shape} is ambiguous")
        return bool(self.item())

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a tensor without dimensions has no len()")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if not self.shape:
            raise TypeError("a tensor without dimensions cannot be iterated over")
        return (self[i] for i in range(self.shape[0]))

    def __repr__(self) -> str:
        values = np.array2string(self.numpy(), separator=", ", prefix="tensor(")
        extras = [f"device={self.device!r}"]
        if self.dtype != FLOAT:
            extras.append(f"dtype={dtype_name(self.dtype)}")
        if self.requires_grad:
            extras.append("requires_grad=True")
        return f"tensor({values}, {', '.join(extras)})"

    # ------------------------------------------------------------ its place in a tape

    def detach(self) -> Tensor:
        """The same storage, without a gradient and outside every tape."""
        return Tensor(self._array)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        """A leaf with memory of its own; without the gradient. Raises TypeError for one that a tape recorded."""
        if self._node is not None:
            raise TypeError("only leaves can be copied: this tensor was computed on a tape; copy its detach()")
        copied = Tensor(self._array.device.graph.copy(self._array), self.requires_grad)
        memo[id(self)] = copied
        return copied

    def zero_grad(self) -> None:
        """Forget the gradient."""
        self.grad = None

    def copy_(self, values: TensorLike) -> Tensor:
        """Overwrite the values in place, after everything recorded so far has been computed.

        A backward rule that saved the old values raises instead of using the new ones.

        Args:
            values: of the same shape, or what NumPy broadcasts to it.
        """
        source = as_numpy(values, self.dtype, "values")
        try:
            source = np.broadcast_to(source, self.shape)
        except ValueError:
            raise ValueError(f"copy_: values of shape {source.shape} do not fit into {self.shape}") from None
        self._array.device.assign(self._array, source)
        storage = self._array.storage
        if storage.bounds is not None:  # those of what is left of the old values, and of the new ones
            storage.bounds = (min(storage.bounds[0], int(source.min())), max(storage.bounds[1], int(source.max())))
        return self

    if TYPE_CHECKING:  # bound in tape.py and ops/methods.py, on the floors above

        def backward(self, gradient: TensorLike | None = None, create_graph: bool = False) -> dict[Tensor, Tensor]: ...
        def abs(self) -> Tensor: ...
        def argmax(self, axis: int | None = None, keepdims: bool = False) -> Tensor: ...
        def argmin(self, axis: int | None = None, keepdims: bool = False) -> Tensor: ...
        def argsort(self, axis: int = -1, descending: bool = False) -> Tensor: ...
        def astype(self, dtype: Any) -> Tensor: ...
        def broadcast_to(self, shape: Shape) -> Tensor: ...
        def ceil(self) -> Tensor: ...
        def chunk(self, chunks: int, axis: int = 0) -> tuple[Tensor, ...]: ...
        def clamp(self, low: float | None = None, high: float | None = None) -> Tensor: ...
        def cos(self) -> Tensor: ...
        def cumsum(self, axis: int) -> Tensor: ...
        def diag(self, k: int = 0) -> Tensor: ...
        def exp(self) -> Tensor: ...
        def expand(self, *shape: Any) -> Tensor: ...
        def expm1(self) -> Tensor: ...
        def flatten(self, start: int = 0, end: int = -1) -> Tensor: ...
        def flip(self, axis: Axes = None) -> Tensor: ...
        def floor(self) -> Tensor: ...
        def gather(self, axis: int, index: Any) -> Tensor: ...
        def log(self) -> Tensor: ...
        def log1p(self) -> Tensor: ...
        def log_softmax(self, axis: int = -1) -> Tensor: ...
        def logsumexp(self, axis: Axes = None, keepdims: bool = False) -> Tensor: ...
        def masked_fill(self, mask: TensorLike, value: float) -> Tensor: ...
        def max(self, axis: Axes = None, keepdims: bool = False) -> Tensor: ...
        def mean(self, axis: Axes = None, keepdims: bool = False) -> Tensor: ...
        def min(self, axis: Axes = None, keepdims: bool = False) -> Tensor: ...
        def norm(self, ord: float = 2, axis: Axes = None, keepdims: bool = False) -> Tensor: ...
        def permute(self, *axes: Any) -> Tensor: ...
        def pow(self, b: TensorLike) -> Tensor: ...
        def prod(self, axis: Axes = None, keepdims: bool = False) -> Tensor: ...
        def reciprocal(self) -> Tensor: ...
        def relu(self) -> Tensor: ...
        def repeat(self, *repeats: Any) -> Tensor: ...
        def reshape(self, *shape: Any) -> Tensor: ...
        def roll(self, shift: int | Sequence[int], axis: Axes = None) -> Tensor: ...
        def round(self) -> Tensor: ...
        def rsqrt(self) -> Tensor: ...
        def scatter_add(self, axis: int, index: Any, src: TensorLike) -> Tensor: ...
        def sigmoid(self) -> Tensor: ...
        def sign(self) -> Tensor: ...
        def sin(self) -> Tensor: ...
        def softmax(self, axis: int = -1) -> Tensor: ...
        def sort(self, axis: int = -1, descending: bool = False) -> tuple[Tensor, Tensor]: ...
        def split(self, sizes: int | Sequence[int], axis: int = 0) -> tuple[Tensor, ...]: ...
        def sqrt(self) -> Tensor: ...
        def square(self) -> Tensor: ...
        def squeeze(self, axis: Axes = None) -> Tensor: ...
        def std(self, axis: Axes = None, keepdims: bool = False, correction: float = 1) -> Tensor: ...
        def sum(self, axis: Axes = None, keepdims: bool = False) -> Tensor: ...
        def take(self, indices: Any, axis: int = 0) -> Tensor: ...
        def tanh(self) -> Tensor: ...
        def to(self, device: str | Any = None, dtype: Any = None) -> Tensor: ...
        def topk(self, k: int, axis: int = -1, largest: bool = True) -> tuple[Tensor, Tensor]: ...
        def transpose(self, *axes: Any) -> Tensor: ...
        def tril(self, k: int = 0) -> Tensor: ...
        def triu(self, k: int = 0) -> Tensor: ...
        def trunc(self) -> Tensor: ...
        def unsqueeze(self, axis: int) -> Tensor: ...
        def var(self, axis: Axes = None, keepdims: bool = False, correction: float = 1) -> Tensor: ...
        @property
        def T(self) -> Tensor: ...
        @property
        def mT(self) -> Tensor: ...
        def __getitem__(self, index: Index) -> Tensor: ...
        def __setitem__(self, index: Index, value: TensorLike) -> None: ...
        def __lt__(self, other: TensorLike) -> Tensor: ...
        def __le__(self, other: TensorLike) -> Tensor: ...
        def __gt__(self, other: TensorLike) -> Tensor: ...
        def __ge__(self, other: TensorLike) -> Tensor: ...
        def __eq__(self, other: TensorLike) -> Tensor: ...  # type: ignore[override]
        def __ne__(self, other: TensorLike) -> Tensor: ...  # type: ignore[override]
        def __neg__(self) -> Tensor: ...
        def __pos__(self) -> Tensor: ...
        def __abs__(self) -> Tensor: ...
        def __add__(self, other: TensorLike) -> Tensor: ...
        def __radd__(self, other: TensorLike) -> Tensor: ...
        def __sub__(self, other: TensorLike) -> Tensor: ...
        def __rsub__(self, other: TensorLike) -> Tensor: ...
        def __mul__(self, other: TensorLike) -> Tensor: ...
        def __rmul__(self, other: TensorLike) -> Tensor: ...
        def __truediv__(self, other: TensorLike) -> Tensor: ...
        def __rtruediv__(self, other: TensorLike) -> Tensor: ...
        def __pow__(self, other: TensorLike) -> Tensor: ...
        def __rpow__(self, other: TensorLike) -> Tensor: ...
        def __matmul__(self, other: TensorLike) -> Tensor: ...
        def __rmatmul__(self, other: TensorLike) -> Tensor: ...


# ---------------------------------------------------------------- making tensors


def parse_dtype(dtype: npt.DTypeLike) -> np.dtype:
    """One of our types from any spelling NumPy knows, or "bfloat16".

    Raises:
        TypeError: any other type.
    """
    try:
        found = BFLOAT if isinstance(dtype, str) and dtype == "bfloat16" else np.dtype(dtype)
        return own_dtype(found)
    except (TypeError, KeyError):
        raise TypeError(f"dtype must be float32, float16, bfloat16 or int32, not {dtype!r}") from None


def check_shape(shape: Shape, name: str) -> None:
    """Raise ValueError unless a tensor can have this shape."""
    if len(shape) > MAX_DIMS:
        raise ValueError(f"{name} has shape {shape}: at most {MAX_DIMS} dimensions are possible")
    if 0 in shape:
        raise ValueError(f"{name} has shape {shape}: a tensor needs at least one element")


def as_numpy(data: TensorLike, dtype: np.dtype | None, name: str) -> np.ndarray:
    """`data` as a NumPy array that a device can hold.

    Without a dtype, integers become int32 and everything else float32.

    Raises:
        TypeError: complex numbers, objects, text. ValueError: an empty array, more than four dimensions, a ragged
        list, an integer outside int32.
    """
    try:
        array = np.asarray(data)
    except ValueError as error:
        raise ValueError(f"{name} must be a regular array: {error}") from None
    if array.dtype == BFLOAT:
        check_shape(array.shape, name)
        if dtype == BFLOAT:
            return array
        array = from_bfloat(array)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name} must hold real numbers, not {array.dtype}")
    check_shape(array.shape, name)
    wanted = dtype if dtype is not None else INT if array.dtype.kind in "iu" else FLOAT
    if wanted == INT and array.dtype != INT:
        if array.dtype.kind == "f" and not np.array_equal(array, np.trunc(array)):
            raise TypeError(f"{name} must hold whole numbers for int32, not fractions")
        low, high = array.min(), array.max()
        limits = np.iinfo(np.int32)
        if low < limits.min or high > limits.max:
            raise ValueError(f"{name} holds integers from {low} to {high}: outside int32")
    with np.errstate(over="ignore"):  # a float64 beyond float32 becomes infinite, as in NumPy
        return to_bfloat(array.astype(FLOAT)) if wanted == BFLOAT else array.astype(wanted, copy=False)


def tensor(
    data: TensorLike,
    dtype: npt.DTypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Copy numbers, lists, or a NumPy array to a device.

    Args:
        data: at most four dimensions, at least one element.
        dtype: "float32", "float16", "bfloat16" or "int32"; by default integers become int32 (indices) and everything
            else float32.
        device: a device name; by default the default device.
        requires_grad: whether tapes record what is done with it.

    Raises:
        TypeError: complex numbers, objects or text; a gradient for int32.
        ValueError: an empty array, more than four dimensions, an integer outside int32, an unknown device.
    """
    array = as_numpy(data, None if dtype is None else parse_dtype(dtype), "data")
    if requires_grad and array.dtype == INT:
        raise TypeError('int32 tensors have no gradient; pass dtype="float32"')
    return Tensor(devices.get(device).upload(array), requires_grad)


def param(data: TensorLike, device: str | None = None, dtype: npt.DTypeLike = FLOAT) -> Tensor:
    """A tensor to be trained: `tensor(data, dtype, device, requires_grad=True)`.

    Args:
        data: at most four dimensions, at least one element.
        device: a device name; by default the default device.
        dtype: "float32", "float16" or "bfloat16".

    Raises:
        TypeError: int32, or data that are no real numbers. ValueError: as `tensor`.
    """
    return tensor(data, dtype, device, requires_grad=True)
