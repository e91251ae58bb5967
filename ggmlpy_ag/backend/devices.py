"""Which devices exist, one open Device each, and which one is the default.

Environment: `GGMLPY_AG_DEVICE` names the default device, `GGMLPY_AG_NUM_THREADS` the CPU's threads,
`GGMLPY_AG_MEMORY_LIMIT` limits each device's memory (limits.py), and `GGMLPY_AG_SOFTWARE_VULKAN=1` shows Vulkan devices
that are programs (Mesa's llvmpipe), for tests.
"""

from __future__ import annotations

import contextlib
import contextvars
import ctypes
import gc
import math
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from types import TracebackType
from typing import Any

import numpy as np

from . import library as lib
from . import primitives as prim
from . import vulkan
from .array import BFLOAT, FLOAT, INT, Array, Shape, extents, from_bfloat, own_dtype, packed_strides
from .counters import COUNTS
from .errors import FallbackError, GgmlError, OutOfMemoryError, Refusal
from .graph import Graph, Node
from .limits import limit_bytes, limit_from_environment
from .memory import Block, MemoryStats, Pool, Slab, Storage
from .watch import Made, Watch

SMALL_GRAPH = 1_000_000  # elements computed in a graph; below, one thread is faster than waking several


@dataclass(frozen=True)
class DeviceInfo:
    """A device that exists: `kind` is "cpu", "discrete", "integrated", "virtual", "software" or "other"."""

    name: str
    kind: str
    description: str
    handle: int
    adapter: vulkan.Adapter | None = None

    def memory(self) -> tuple[int, int]:
        """(free, total) bytes as the driver says; not every driver keeps an account of what is free."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        lib.device_memory(self.handle, ctypes.addressof(free), ctypes.addressof(total))
        return free.value, total.value

    def __str__(self) -> str:
        return f"{self.name} ({self.kind}): {self.description}"


_opening = threading.RLock()  # ggml aborts when two threads open a device at once
_devices: tuple[tuple[DeviceInfo, ...], int] | None = None


def _found() -> tuple[tuple[DeviceInfo, ...], int]:
    """All devices, the CPU last, and ggml's BLAS device (0 without one)."""
    global _devices  # noqa: PLW0603 - looked for once
    with _opening:
        if _devices is None:
            _devices = _look()
        return _devices


def _look() -> tuple[tuple[DeviceInfo, ...], int]:
    lib.prepare_devices()
    _choose_vulkan_devices()
    adapters = {a.name: a for a in vulkan.adapters()} if lib.HAS_VULKAN else {}
    gpus: list[DeviceInfo] = []
    cpus: list[DeviceInfo] = []
    blas = 0
    for i in range(lib.device_count()):
        handle = lib.device_get(i)
        name = lib.device_name(handle).decode()
        about = lib.device_description(handle).decode()
        kind = lib.device_type(handle)
        if name == "BLAS":
            blas = handle
        elif kind == lib.DEVICE_CPU:
            cpus.append(DeviceInfo("cpu", "cpu", about, handle))
        elif name.startswith("Vulkan"):
            adapter = adapters.get(about)
            fallback = "integrated" if kind == lib.DEVICE_IGPU else "discrete"
            number = name.removeprefix("Vulkan")
            gpus.append(DeviceInfo(f"vulkan:{number}", adapter.kind if adapter else fallback, about, handle, adapter))
    return (*gpus, *cpus), blas


def _choose_vulkan_devices() -> None:
    """With GGMLPY_AG_SOFTWARE_VULKAN, name every Vulkan device to ggml, which otherwise hides the software ones."""
    wanted = os.environ.get("GGMLPY_AG_SOFTWARE_VULKAN", "0") not in ("", "0")
    if wanted and lib.HAS_VULKAN and "GGML_VK_VISIBLE_DEVICES" not in os.environ:
        numbers = [str(i) for i in range(len(vulkan.adapters()))]
        if numbers:  # a wrong number would silently leave no device at all
            os.environ["GGML_VK_VISIBLE_DEVICES"] = ",".join(numbers)


def devices() -> list[DeviceInfo]:
    """All devices of this machine that this build of ggml can use, GPUs first."""
    return list(_found()[0])


def blas_name() -> str:
    """Name of the BLAS library that computes large products on the CPU device, or "" without one."""
    handle = _found()[1]
    return lib.device_description(handle).decode() if handle else ""


def thread_count() -> int:
    """Threads of the CPU device: GGMLPY_AG_NUM_THREADS, else the cores this process may run on."""
    text = os.environ.get("GGMLPY_AG_NUM_THREADS")
    if text:
        if not text.isdigit() or int(text) < 1:
            raise ValueError(f"GGMLPY_AG_NUM_THREADS must be a positive integer, not {text!r}")
        return int(text)
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


class Device:
    """An open device: its memory, its pending graph, and the copies to and from it."""

    def __init__(self, info: DeviceInfo, blas: int = 0) -> None:
        self.info = info
        self.name = info.name
        self.is_cpu = info.kind == "cpu"
        self.backend = lib.device_init(info.handle, None)
        if not self.backend:
            raise GgmlError(f"ggml cannot open {info}")
        buffer_type = lib.device_buffer_type(info.handle)
        self.offset_alignment = lib.buffer_alignment(buffer_type) if not self.is_cpu else 1
        self.pool: Pool = Pool(info.name, buffer_type)
        self.pool.limit = limit_from_environment(info.memory()[1])
        self.graph = Graph(self)
        self.blas = 0
        self._threads = 0
        if self.is_cpu:
            self.threads = thread_count()
            self._set_threads = _set_threads_of(info.handle)
            if blas:
                self.blas = lib.device_init(blas, None)
                _set_threads_of(blas)(self.blas, self.threads)

    def __repr__(self) -> str:
        return f"<{self.info}>"

    def engine(self, engine: str, nodes: Sequence[Node]) -> int:
        """The ggml backend that computes these nodes."""
        if engine == "blas":
            return self.blas
        if self.is_cpu:
            threads = self.threads if _is_large(nodes) else 1
            if threads != self._threads:
                self._set_threads(self.backend, threads)
                self._threads = threads
        return int(self.backend)

    def host(self) -> Device:
        """The CPU device."""
        return get("cpu")

    def alloc(self, nbytes: int, made: Made | None = None) -> Block:
        """A block of the pool, after making room for it if need be.

        Raises:
            OutOfMemoryError: naming the largest holders.
        """
        make_room: tuple[Callable[[], Any], ...] = (
            gc.collect,
            self.trim,
            self._run_what_can,  # what is pending may hold what it would free
            self.trim,
        )
        for attempt in make_room:
            with contextlib.suppress(Refusal):
                return self.pool.alloc(nbytes, made)
            attempt()
        try:
            return self.pool.alloc(nbytes, made)
        except Refusal as error:
            refusal = error.with_traceback(None)  # which leads to this frame, and so in a circle
        raise self.pool.explain(refusal)

    def _run_what_can(self) -> None:
        with contextlib.suppress(OutOfMemoryError, FallbackError):  # which is for those to know who read the value
            self.graph.run()

    def trim(self) -> int:
        """Give empty buffers back to the driver; returns the bytes. Not while a graph is being planned or run."""
        with self.graph.lock:
            if self.info.kind != "software" or self.pool.simulated:
                return self.pool.trim()
            # ggml reuses descriptor sets that still name an old buffer. Mesa's llvmpipe (22.3) touches what they name,
            # used or not, and corrupts the heap once that buffer is freed; a new backend has new sets.
            lib.free_backend(self.backend)
            try:
                return self.pool.trim()
            finally:
                self.backend = lib.device_init(self.info.handle, None)

    def upload(self, data: np.ndarray, label: str = "tensor") -> Array:
        """Copy a NumPy array of one of the four types to the device."""
        data = np.asarray(data, order="C")
        storage = Storage(self, data.nbytes, label)
        watch = self.pool.watch
        made = None if watch is None else Made(watch.origin(), label, data.shape, data.dtype)
        with self.graph.lock:
            block = self.alloc(data.nbytes, made)
            self.write(block.slab, block.offset, data)
        storage.block = block
        if data.dtype == INT:
            storage.bounds = (int(data.min()), int(data.max()))
        return Array(storage, own_dtype(data.dtype), data.shape, packed_strides(data.shape))

    def assign(self, target: Array, data: np.ndarray) -> None:
        """Write a NumPy array of the target's shape and dtype over the target's elements."""
        if target.packed:
            with self.graph.lock:
                self.graph.run()
                block = target.storage.memory
                start = block.offset + target.offset * target.dtype.itemsize
                self.write(block.slab, start, np.asarray(data, order="C"))
                target.storage.overwritten()
        else:
            self.graph.update([(prim.ASSIGN, [self.upload(data), target])])

    def download(self, array: Array) -> np.ndarray:
        """Compute what is pending and copy an array to host memory: C-contiguous, bfloat16 as float32."""
        with self.graph.lock:
            span = 1 + sum((n - 1) * s for n, s in zip(array.shape, array.strides, strict=True))
            if span > 2 * array.size:  # a sparse window: pick its elements on the device
                array = self.graph.packed(array)
                span = array.size
            if array.storage.node is not None:
                self.graph.run(array.storage)
            block = array.storage.memory
            item = array.dtype.itemsize
            raw = self.read(block.slab, block.offset + array.offset * item, span * item).view(array.dtype)
        if array.dtype is BFLOAT:
            raw = from_bfloat(raw)
        if array.packed:
            return raw.reshape(array.shape)
        strides = [s * raw.itemsize for s in array.strides]
        return np.array(np.lib.stride_tricks.as_strided(raw, array.shape, strides), order="C")

    def write(self, slab: Slab, offset: int, data: np.ndarray) -> None:
        """Copy a C-contiguous array into a slab, counted as an upload."""
        if self.pool.simulated:
            return
        if self.is_cpu:  # where both may be the same memory (exchange.py): ggml would use memcpy
            ctypes.memmove(slab.base + offset, data.ctypes.data, data.nbytes)
        else:
            lib.tensor_set(slab.tensor, data.ctypes.data, offset, data.nbytes)
        COUNTS.uploads += 1
        COUNTS.upload_bytes += data.nbytes

    def read(self, slab: Slab, offset: int, nbytes: int) -> np.ndarray:
        """Copy bytes out of a slab, counted as a download."""
        if self.pool.simulated:
            return np.zeros(nbytes, np.uint8)
        raw = np.empty(nbytes, np.uint8)
        lib.tensor_get(slab.tensor, raw.ctypes.data, offset, nbytes)
        COUNTS.downloads += 1
        COUNTS.download_bytes += nbytes
        return raw

    def constant(self, value: float) -> Array:
        """A float32 scalar, made on the device if its memory is wanted at all."""
        first = self.graph.record(prim.ARANGE, (), (1,), FLOAT, 1)
        nothing = math.copysign(0.0, value)  # of the sign that keeps a value of -0
        scalar = self.graph.record(prim.SCALE, [first], (1,), FLOAT, nothing, value)
        scalar.storage.constant = float(value)
        return scalar.reshaped(())

    def full(self, shape: Shape, value: float) -> Array:
        """A float32 array filled with one value, made on the device."""
        return self.graph.record(prim.REPEAT, [self.constant(value)], shape, FLOAT, *extents(shape))


def _is_large(nodes: Sequence[Node]) -> bool:
    """Whether several threads pay: below, waking them costs more than they save."""
    work = 0
    for node in nodes:
        if node.primitive is prim.MATMUL:
            work += prod(node.shape) * node.sources[0][2][-1]
        elif node.primitive.writes:
            work += prod(node.sources[0][2])
        else:
            work += prod(node.shape)
        if work > SMALL_GRAPH:
            return True
    return False


def _set_threads_of(handle: int) -> Callable[[int, int], None]:
    address = lib.registry_function(lib.device_registry(handle), b"ggml_backend_set_n_threads")
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int)(address)


# ---------------------------------------------------------------- opening, and the default

_open: dict[str, Device] = {}
_watch: Watch | None = None  # of every open device's pool
_default: contextvars.ContextVar[str] = contextvars.ContextVar("ggmlpy_ag_device")


def resolve(name: str) -> str:
    """The full name of a device: "auto" -> the first discrete or integrated GPU, else "cpu"; "vulkan" -> "vulkan:0".

    Raises ValueError naming the devices that exist.
    """
    if not isinstance(name, str):
        raise TypeError(f"device must be a name such as 'cpu' or 'vulkan:0', not {type(name).__name__}")
    infos = _found()[0]
    if name == "auto":
        return next((d.name for d in infos if d.kind in ("discrete", "integrated")), "cpu")
    wanted = "vulkan:0" if name == "vulkan" else name
    if any(d.name == wanted for d in infos):
        return wanted
    why = ""
    if wanted.startswith("vulkan"):
        why = (
            "; `python -m ggmlpy_ag doctor` says why Vulkan may be missing"
            if lib.HAS_VULKAN
            else ("; this build of ggml-python has no Vulkan: `python3 scripts/run.py doctor` says how to get it")
        )
    raise ValueError(f"no device {name!r}; there are {', '.join(d.name for d in infos)}{why}")


def get(name: str | None = None) -> Device:
    """The open device of that name, or the default one."""
    full = default_name() if name is None else name if name in _open else resolve(name)
    device = _open.get(full)
    if device is None:
        with _opening:
            device = _open.get(full)
            if device is None:
                infos, blas = _found()
                if any(other.pool.simulated for other in opened()):
                    raise RuntimeError(f"a step that is simulated cannot open {full}: use that device once before")
                device = _open[full] = Device(next(d for d in infos if d.name == full), blas)
                device.pool.watch = _watch
    return device


def opened() -> list[Device]:
    """The devices used so far."""
    return list(_open.values())


def watch(watcher: Watch | None) -> None:
    """Tell `watcher` (None: nobody) what all pools hand out and take back, those of devices opened later too."""
    global _watch  # noqa: PLW0603 - one for the process, as the devices are
    with _opening:
        _watch = watcher
        found = opened()
    for device in found:  # not while opening is locked, which somebody who holds a graph's lock may wait for
        with device.graph.lock:
            device.pool.collect()
            device.pool.watch = watcher


def default_name() -> str:
    """The full name of the default device: what `device(name)` chose, else GGMLPY_AG_DEVICE, else "auto"."""
    name = _default.get(None)
    if name is None:
        try:
            name = resolve(os.environ.get("GGMLPY_AG_DEVICE") or "auto")
        except ValueError as error:
            raise ValueError(f"GGMLPY_AG_DEVICE: {error}") from None
        _default.set(name)
    return name


class device:
    """Set the default device, or get it: `device("vulkan")`, `device().name`.

    Names are "auto" (the first discrete or integrated GPU, else the CPU), "cpu", "vulkan" and "vulkan:1". As a
    context manager it restores the previous default at the end: `with ag.device("cpu"): ...`. The default is local
    to the thread or task (`contextvars`).

    Raises:
        ValueError: there is no such device; the message names those that exist.
    """

    def __init__(self, name: str | None = None) -> None:
        self._before = default_name()
        self.name = self._before if name is None else resolve(name)
        _default.set(self.name)

    def __enter__(self) -> device:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _default.set(self._before)

    def __repr__(self) -> str:
        return f"device({self.name!r})"

    def __eq__(self, other: Any) -> bool:
        return self.name == (other.name if isinstance(other, device) else other)

    def __hash__(self) -> int:
        return hash(self.name)


def memory_stats(device: str | None = None) -> MemoryStats:
    """Bytes in use on a device (default: the default one); see MemoryStats."""
    found = get(device)
    with found.graph.lock:
        return found.pool.stats()


def reset_peak_memory(device: str | None = None) -> None:
    """Let `peak` and `scratch` of `memory_stats` start again from what is in use now."""
    found = get(device)
    with found.graph.lock:
        found.pool.reset_peaks()


def set_memory_limit(device: str | None, limit: float | None) -> None:
    """Limit the memory that may be in use on a device at once, by tensors and by the values of a running graph.

    What would exceed it raises OutOfMemoryError before the driver is asked, after the same attempts to make room as
    when the driver refuses. The limit is exact: what is cached, or how free memory is scattered, makes no difference.
    What is reserved follows it: the limit and 4 MiB at most, unless what is free there is in pieces too small for a
    request. Memory of other libraries (`from_dlpack`) and what the driver takes for itself do not count.

    Args:
        device: a device name; None for the default device.
        limit: bytes (int), a share of the device's memory (float, above 0 and at most 1), or None for no limit. It may
            be below what is in use: nothing more is handed out then until enough has been freed.

    Raises:
        ValueError: a limit out of range, an unknown device. TypeError: a limit that is no number. Nothing has changed
        then.

    >>> ag.set_memory_limit("cpu", 8 << 20)
    >>> ag.memory_limit("cpu")
    8388608
    >>> try:
    ...     ag.tensor(np.zeros((4, 1 << 20)), device="cpu")
    ... except ag.OutOfMemoryError as error:
    ...     print(error.requested, error.limit)
    16777216 8388608
    >>> ag.set_memory_limit("cpu", None)
    """
    found = get(device)
    value = limit_bytes(limit, found.info.memory()[1])
    with found.graph.lock:
        found.pool.limit = value
        if value is not None and found.pool.stats().reserved > value:
            found.trim()


def memory_limit(device: str | None = None) -> int | None:
    """The limit in bytes that `set_memory_limit` has set for a device (default: the default one), or None."""
    return get(device).pool.limit


def empty_cache(device: str | None = None) -> int:
    """Give cached memory back to the device's driver, as far as whole buffers are free; returns the bytes."""
    return get(device).trim()
