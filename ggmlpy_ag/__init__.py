"""ggmlpy_ag: train neural networks on whatever GPU there is, through ggml, and see what the tape keeps in memory."""

from . import data, io, nn, ops, optim
from .backend.array import BFLOAT as bfloat16
from .backend.counters import Counters, counters
from .backend.devices import (
    device,
    devices,
    empty_cache,
    memory_limit,
    memory_stats,
    reset_peak_memory,
    set_memory_limit,
)
from .backend.errors import FallbackError, GgmlError, OutOfMemoryError
from .backend.graph import set_fallback
from .backend.library import matmul_precision, set_matmul_precision
from .backend.memory import MemoryStats
from .checkpoint import checkpoint
from .exchange import from_dlpack
from .gradcheck import GradcheckError, gradcheck
from .ops import *
from .report import (
    Estimate,
    Holder,
    LeakReport,
    TapeReport,
    Timeline,
    estimate,
    holders,
    largest_batch,
    memory_leaks,
    memory_timeline,
    tape_memory,
)
from .tape import Tape, backward, grad_tape, no_grad, record, zero_grad
from .tensor import Tensor, param, tensor

__version__ = "0.1.0"
__all__ = [
    "Counters", "Estimate", "FallbackError", "GgmlError", "GradcheckError", "Holder", "LeakReport", "MemoryStats",
    "OutOfMemoryError", "Tape", "TapeReport", "Tensor", "Timeline", "backward", "bfloat16", "checkpoint", "counters",
    "data", "device", "devices", "empty_cache", "estimate", "from_dlpack", "grad_tape", "gradcheck", "holders", "io",
    "largest_batch", "matmul_precision", "memory_leaks", "memory_limit", "memory_stats", "memory_timeline", "nn",
    "no_grad", "optim", "param", "record", "reset_peak_memory", "set_fallback", "set_matmul_precision",
    "set_memory_limit", "tape_memory", "tensor", "zero_grad",
]  # fmt: skip
__all__ += ops.__all__
