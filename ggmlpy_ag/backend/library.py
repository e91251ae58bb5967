"""Load ggml once: environment first, then the library, its version, its log and its last words.

ggml reads its switches from the environment, some when it is loaded and some when it first looks at devices,
and never again. So everything is set here, before `import ggml`, and nothing is imported in another order.
"""

from __future__ import annotations

import ctypes
import logging
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

GGML_PYTHON = "0.0.45"
GGML = "0.15.3"
INSTALL_HINT = "run `python3 scripts/run.py doctor` in a checkout, or `pip install ggml-python==0.0.45`"

log = logging.getLogger("ggmlpy_ag.ggml")

# A failed assertion would fork a debugger for a C backtrace; the abort callback below says more, at once.
os.environ.setdefault("GGML_NO_BACKTRACE", "1")


@contextmanager
def _short_spins() -> Iterator[None]:
    """Let ggml's OpenMP workers spin shortly before they sleep, unless the user has said how they shall wait.

    libgomp's default is to spin for milliseconds: with BLAS threads or a busy neighbour beside it a training step took
    twice to a hundred times as long (measured: 1661 us against 969 us for the products of a small MLP on 2 cores, 937
    us without any hand-over). It reads this when it is loaded; later libraries shall not, so it is taken back.
    """
    if "OMP_WAIT_POLICY" in os.environ or "GOMP_SPINCOUNT" in os.environ:
        yield
        return
    os.environ["GOMP_SPINCOUNT"] = "1000"
    try:
        yield
    finally:
        del os.environ["GOMP_SPINCOUNT"]


def _load() -> Any:
    try:
        with _short_spins():
            import ggml  # only after the environment is set
    except ModuleNotFoundError as error:
        raise ImportError(f"ggmlpy_ag needs ggml-python {GGML_PYTHON}: {INSTALL_HINT}") from error
    except OSError as error:
        hint = "; this build needs the Vulkan loader (Debian: libvulkan1)" if "vulkan" in str(error) else ""
        raise ImportError(f"ggml's libraries cannot be loaded: {error}{hint}") from error
    found = getattr(ggml, "__version__", "unknown")
    if found != GGML_PYTHON:
        raise ImportError(
            f"ggmlpy_ag is made for ggml-python {GGML_PYTHON} (ggml {GGML}), but {found} is installed: {INSTALL_HINT}"
        )
    return ggml


ggml = _load()
_libraries = ggml.ggml.lib._libraries


def bind(name: str, result: Any, *arguments: Any, required: bool = True) -> Callable[..., Any]:
    """A C function as a Python callable that takes and returns plain integers for pointers.

    A prototype of our own, not ggml-python's: half the cost per call (0.55 against 1.2 us), and six functions
    there return truncated pointers. `library[name]` makes a new object, so ggml-python's stay as they are.
    """
    for library in _libraries:
        try:
            function = library[name]
        except AttributeError:
            continue
        function.argtypes = arguments
        function.restype = result
        return function  # type: ignore[no-any-return]
    if required:
        raise ImportError(f"this build of ggml-python {GGML_PYTHON} lacks the function {name}: {INSTALL_HINT}")
    return _missing


def _missing(*_: Any) -> None:
    return None


P, I32, I64, SIZE, F32 = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64, ctypes.c_size_t, ctypes.c_float
TEXT, BOOL = ctypes.c_char_p, ctypes.c_bool

TYPE_F32, TYPE_F16, TYPE_BF16 = ggml.GGML_TYPE_F32, ggml.GGML_TYPE_F16, ggml.GGML_TYPE_BF16
TYPE_I8, TYPE_I32 = ggml.GGML_TYPE_I8, ggml.GGML_TYPE_I32
FLAG_OUTPUT, FLAG_PARAM, FLAG_COMPUTE = 2, 4, 16
POOL_MAX, POOL_AVG = ggml.GGML_OP_POOL_MAX, ggml.GGML_OP_POOL_AVG

# contexts and graphs
init_context = bind("ggml_init", P, ggml.ggml_init_params)
InitParams = ggml.ggml_init_params
free_context = bind("ggml_free", None, P)
reset_context = bind("ggml_reset", None, P)
tensor_overhead = bind("ggml_tensor_overhead", SIZE)
graph_overhead = bind("ggml_graph_overhead_custom", SIZE, SIZE, BOOL)
new_graph = bind("ggml_new_graph_custom", P, P, SIZE, BOOL)
new_tensor_1d = bind("ggml_new_tensor_1d", P, P, I32, I64)
new_tensor_4d = bind("ggml_new_tensor_4d", P, P, I32, I64, I64, I64, I64)

# devices
device_count = bind("ggml_backend_dev_count", SIZE)
device_get = bind("ggml_backend_dev_get", P, SIZE)
device_name = bind("ggml_backend_dev_name", TEXT, P)
device_description = bind("ggml_backend_dev_description", TEXT, P)
device_type = bind("ggml_backend_dev_type", I32, P)
device_memory = bind("ggml_backend_dev_memory", None, P, P, P)
device_init = bind("ggml_backend_dev_init", P, P, TEXT)
free_backend = bind("ggml_backend_free", None, P)
device_buffer_type = bind("ggml_backend_dev_buffer_type", P, P)
device_registry = bind("ggml_backend_dev_backend_reg", P, P)
registry_function = bind("ggml_backend_reg_get_proc_address", P, P, TEXT)
supports_op = bind("ggml_backend_supports_op", BOOL, P, P)
compute = bind("ggml_backend_graph_compute", I32, P, P)

# memory
buffer_alignment = bind("ggml_backend_buft_get_alignment", SIZE, P)
buffer_max_size = bind("ggml_backend_buft_get_max_size", SIZE, P)
buffer_alloc = bind("ggml_backend_buft_alloc_buffer", P, P, SIZE)
buffer_from_ptr = bind("ggml_backend_cpu_buffer_from_ptr", P, P, SIZE)
buffer_free = bind("ggml_backend_buffer_free", None, P)
buffer_base = bind("ggml_backend_buffer_get_base", P, P)
buffer_size = bind("ggml_backend_buffer_get_size", SIZE, P)
tensor_alloc = bind("ggml_backend_tensor_alloc", I32, P, P, P)
tensor_set = bind("ggml_backend_tensor_set", None, P, P, SIZE, SIZE)
tensor_get = bind("ggml_backend_tensor_get", None, P, P, SIZE, SIZE)

DEVICE_CPU, DEVICE_IGPU = 0, 2
HAS_VULKAN = bind("ggml_backend_vk_reg", P, required=False) is not _missing

# Byte offsets inside C's `struct ggml_tensor` and `struct ggml_cgraph`, read from the bindings.
TENSOR_SIZE = ctypes.sizeof(ggml.ggml_tensor)
FIELD_TYPE, FIELD_BUFFER, FIELD_NE, FIELD_NB, FIELD_FLAGS, FIELD_SOURCES, FIELD_VIEW_SRC, FIELD_DATA = (
    getattr(ggml.ggml_tensor, name).offset
    for name in ("type", "buffer", "ne", "nb", "flags", "src", "view_src", "data")
)
if (FIELD_TYPE, FIELD_BUFFER, FIELD_NE, FIELD_NB) != (0, 8, 16, 48):
    raise ImportError(f"struct ggml_tensor of ggml-python {GGML_PYTHON} has another layout here: a 32-bit system?")
GRAPH_COUNT, GRAPH_NODES = ggml.ggml_cgraph.n_nodes.offset, ggml.ggml_cgraph.nodes.offset


# ---------------------------------------------------------------- precision of products on Vulkan

_F16_SWITCHES = ("GGML_VK_DISABLE_F16", "GGML_VK_DISABLE_COOPMAT", "GGML_VK_DISABLE_COOPMAT2")
_precision = "highest"
_opened = False


def matmul_precision() -> str:
    """The precision of matrix products on Vulkan: "highest" or "high"."""
    return _precision


def set_matmul_precision(precision: str) -> None:
    """Choose how Vulkan devices multiply float32 matrices; call it before the first use of a device.

    "highest" (the default) computes in float32 (relative error about 3e-7). "high" lets ggml round operands to
    float16 where the device is faster that way: relative error about 3e-4, and inputs above 65504 overflow.
    ggml reads this choice once per process.

    Raises:
        ValueError: another name. RuntimeError: a device has been used already.
    """
    global _precision  # noqa: PLW0603 - one choice per process, as in ggml
    if precision not in ("highest", "high"):
        raise ValueError(f'precision must be "highest" or "high", not {precision!r}')
    if _opened and precision != _precision:
        raise RuntimeError(
            f"set_matmul_precision({precision!r}) comes too late: ggml has opened its devices with {_precision!r}. "
            "Call it right after `import ggmlpy_ag`."
        )
    _precision = precision


def prepare_devices() -> None:
    """Put the switches into the environment that ggml reads when it first looks at devices."""
    global _opened  # noqa: PLW0603
    if not _opened and _precision == "highest":
        for name in _F16_SWITCHES:
            os.environ.setdefault(name, "1")
    _opened = True


# ---------------------------------------------------------------- what ggml says, and its last words

_LEVELS = {1: logging.DEBUG, 2: logging.INFO, 3: logging.WARNING, 4: logging.ERROR}
_last_level = logging.DEBUG


def _log_line(level: int, text: bytes | None, _: Any) -> None:
    global _last_level  # noqa: PLW0603
    _last_level = _LEVELS.get(level, _last_level)  # 5 continues the line before
    line = (text or b"").decode(errors="replace").rstrip()
    if line:
        log.log(_last_level, "%s", line)


class Running:
    """What ggml is doing now: the thread that asked, and the operations; for the abort callback."""

    thread: int | None = None
    nodes: Sequence[Any] = ()


def _last_words(message: bytes | None) -> None:
    """ggml ends the process after this; say where Python was and what was being computed."""
    out = sys.stderr
    print(f"\nggmlpy_ag: ggml gave up: {(message or b'').decode(errors='replace').strip()}", file=out)
    if Running.nodes:
        print("operations in the graph:", file=out)
        for node in Running.nodes:
            print(f"  {node}", file=out)
    frame = sys._current_frames().get(Running.thread or threading.get_ident())
    print("Python stack:", file=out)
    traceback.print_stack(frame, file=out)
    print("This is a bug in ggmlpy_ag: please report it with the text above.", file=out, flush=True)


# module names, so that the callbacks live as long as the process
_on_log = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(_log_line)
_on_abort = ctypes.CFUNCTYPE(None, ctypes.c_char_p)(_last_words)
bind("ggml_log_set", None, type(_on_log), P)(_on_log, None)
bind("ggml_set_abort_callback", P, type(_on_abort))(_on_abort)


def version() -> str:
    """The version of the ggml library that is loaded, as it says itself."""
    return str(bind("ggml_version", TEXT)().decode())


def cpu_features() -> list[str]:
    """Names of the instruction sets and kernels that this build of ggml's CPU backend uses."""
    names = (
        "avx avx2 avx512 avx512_vnni avx512_bf16 fma f16c amx_int8 neon arm_fma dotprod matmul_int8 sve sme "
        "riscv_v vsx wasm_simd llamafile"
    ).split()
    return [name for name in names if bind(f"ggml_cpu_has_{name}", I32, required=False)()]
