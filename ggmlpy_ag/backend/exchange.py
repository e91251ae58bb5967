"""Memory shared with other libraries, without copying, on the CPU device: DLPack and NumPy views, both ways.

Lent: a NumPy view of a storage's block, whose base keeps the storage, so that the block stays in use as long as the
view does. Borrowed: a storage over memory of others, which keeps its owner. NumPy reads and makes DLPack capsules.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

import numpy as np

from . import library as lib
from .array import BFLOAT, GGML_TYPE, INT, Array, own_dtype, to_bfloat
from .devices import Device
from .memory import Block, Slab, Storage

# DLPack's numbers
CPU, CUDA_HOST, ROCM_HOST, VULKAN = 1, 3, 11, 7  # types of device
UINT_CODE, BFLOAT_CODE = 1, 4  # types of element
READ_ONLY = 1  # a flag

INT_REASON = "its int32 values may be indices, which are checked once"  # others could change them to ones that end ggml
_VERSIONED = np.lib.NumpyVersion(np.__version__) >= "2.1.0"  # NumPy's __dlpack__ takes max_version


# ---------------------------------------------------------------- lending ours


class Loan:
    """The base of a NumPy view of a storage, which it keeps."""

    def __init__(self, storage: Storage, interface: dict[str, Any]) -> None:
        self.storage = storage
        self.__array_interface__ = interface


def why_not_lent(array: Array) -> str:
    """Why the memory of an array cannot be lent; "" where it can."""
    if not array.device.is_cpu:
        return f'it is in the memory of {array.device.name}; copy it with .to("cpu")'
    return INT_REASON if array.dtype is INT else ""


def lent(array: Array) -> np.ndarray:
    """A writable NumPy view of an array that can be lent, bfloat16 as uint16.

    Everything recorded so far is computed first: it shall not see what is written to the view.
    """
    array.device.graph.run()
    if array.device.pool.simulated:
        return np.zeros(array.shape, np.uint16 if array.dtype is BFLOAT else array.dtype)
    storage = array.storage
    block = storage.memory
    storage.constant = None  # no longer known
    item = array.dtype.itemsize
    interface = {
        "version": 3,
        "typestr": "<u2" if array.dtype is BFLOAT else array.dtype.str,
        "data": (block.address + array.offset * item, False),
        "shape": array.shape,
        "strides": tuple([s * item for s in array.strides]),
    }
    return np.asarray(Loan(storage, interface))


def dlpack_device(device: Device) -> tuple[int, int]:
    """DLPack's type and number of a device."""
    return (CPU, 0) if device.is_cpu else (VULKAN, int(device.name.partition(":")[2]))


def exported(array: Array, max_version: tuple[int, int] | None, dl_device: Any, copy: bool | None) -> Any:
    """A DLPack capsule of an array, in host memory; the arguments are those of `__dlpack__`.

    Raises:
        BufferError: it would have to be copied without having been asked for, or to another device.
    """
    if dl_device is not None and tuple(dl_device) != (CPU, 0):
        raise BufferError(f"a tensor can be exported to the CPU only, DLPack's device {(CPU, 0)}, not {dl_device}")
    why = why_not_lent(array)
    if not why and not copy:
        host = lent(array)
    elif copy is False or (copy is None and dl_device is None and not array.device.is_cpu):
        raise BufferError(f"this tensor of shape {array.shape} cannot be exported without a copy: {why}")
    else:
        host = array.device.download(array)
        host = to_bfloat(host).view(np.uint16) if array.dtype is BFLOAT else host
    capsule = host.__dlpack__(max_version=max_version) if _VERSIONED and max_version else host.__dlpack__()
    if array.dtype is BFLOAT:
        _described(capsule)[0].code = BFLOAT_CODE
    return capsule


# ---------------------------------------------------------------- borrowing theirs


class Borrowed(Block):
    """Host memory of another library, which `owner` keeps."""

    __slots__ = ("owner",)

    def __init__(self, address: int, size: int, owner: Any) -> None:
        slab = _host_memory()
        super().__init__(None, slab, address - slab.base, size)
        self.owner = owner


@lru_cache(maxsize=1)
def _host_memory() -> Slab:
    """All memory of this process as one slab: for ggml's CPU backend, a buffer is nothing but where it begins and ends.

    A buffer for each address would have to begin at a multiple of 32, and to be freed.
    """
    lowest, size = 64, 1 << 62
    return Slab(lib.buffer_from_ptr(lowest, size), size, -1)


def why_not_borrowed(device: Device, host: np.ndarray, writable: bool) -> str:
    """Why a tensor of a device cannot share the memory of a NumPy array; "" where it can."""
    if not device.is_cpu:
        return f"the memory of {device.name} is its own"
    if host.dtype == INT:
        return INT_REASON
    if host.dtype not in GGML_TYPE:
        return f"its type {host.dtype} has to be converted"
    if not writable:
        return "it is read-only"
    if not host.flags.aligned or any(
        n > 1 and s % host.itemsize for n, s in zip(host.shape, host.strides, strict=True)
    ):
        return "its elements are not aligned"
    reach = 0  # bytes to the last element, over the dimensions of smaller strides
    for s, n in sorted(zip(host.strides, host.shape, strict=True)):
        if n > 1 and s <= reach:
            return f"strides of {host.strides} bytes run backwards or over the same elements"
        reach += (n - 1) * s
    return ""


def borrowed(device: Device, host: np.ndarray) -> Array:
    """An array over the memory of a NumPy array that can be shared."""
    strides = tuple([s // host.itemsize for s in host.strides])
    nbytes = host.itemsize + sum((n - 1) * s for n, s in zip(host.shape, host.strides, strict=True))
    storage = Storage(device, nbytes, "from_dlpack")
    storage.block = Borrowed(host.ctypes.data, nbytes, host)
    return Array(storage, own_dtype(host.dtype), host.shape, strides)


class _Witness:
    """Stands between NumPy and a producer: reads its capsule, and calls bfloat16, which NumPy lacks, uint16."""

    def __init__(self, producer: Any) -> None:
        self._producer = producer
        self.bfloat = self.read_only = False

    def __dlpack_device__(self) -> tuple[int, int]:
        device: tuple[int, int] = self._producer.__dlpack_device__()
        return device

    def __dlpack__(self, **asked: Any) -> Any:
        capsule = self._producer.__dlpack__(**asked)
        tensor, self.read_only = _described(capsule)
        self.bfloat = (tensor.code, tensor.bits, tensor.lanes) == (BFLOAT_CODE, 16, 1)
        if self.bfloat:
            tensor.code = UINT_CODE
        return capsule


def received(producer: Any) -> tuple[np.ndarray, bool]:
    """A NumPy view of what an object with `__dlpack__` exports, in one of NumPy's types or bfloat16; and whether it may
    be written to. A capsule of DLPack before 1.0 cannot say that it may not.

    Raises:
        BufferError: it is not in host memory, or the producer refuses. TypeError: of a type that NumPy lacks.
    """
    if isinstance(producer, np.ndarray):  # NumPy does not export those that are read-only
        return np.asarray(producer), producer.flags.writeable
    kind, number = producer.__dlpack_device__()
    if kind not in (CPU, CUDA_HOST, ROCM_HOST):
        raise BufferError(f"it is in device memory (DLPack's device {(int(kind), number)}): copy it to the CPU first")
    witness = _Witness(producer)
    try:
        host: np.ndarray = np.from_dlpack(witness)
    except RuntimeError as error:
        raise TypeError(f"NumPy cannot read it: {error}") from error
    return (host.view(BFLOAT) if witness.bfloat else host), not witness.read_only


# ---------------------------------------------------------------- capsules


class _DLTensor(ctypes.Structure):
    """The beginning of DLPack's struct."""

    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
    ]  # fmt: skip
    code: int
    bits: int
    lanes: int


class _Versioned(ctypes.Structure):
    """The beginning of a capsule's struct since DLPack 1.0; before, it begins with the tensor."""

    _fields_ = [
        ("version", ctypes.c_uint32 * 2), ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64), ("tensor", _DLTensor),
    ]  # fmt: skip


_get_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
_get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def _described(capsule: Any) -> tuple[_DLTensor, bool]:
    """A capsule's own description of its tensor, and whether it is read-only."""
    name = _get_name(capsule)
    if name not in (b"dltensor", b"dltensor_versioned"):
        raise TypeError(f"a new capsule of DLPack was expected, not one that is named {name!r}")
    pointer = _get_pointer(capsule, name)
    if name == b"dltensor":
        return _DLTensor.from_address(pointer), False
    versioned = _Versioned.from_address(pointer)
    return versioned.tensor, bool(versioned.flags & READ_ONLY)
