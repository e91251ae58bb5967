"""ggmlpy_ag: train neural networks on whatever GPU there is, through ggml, and see what the tape keeps in memory."""

from . import optim
from .backend.counters import Counters, counters
from .backend.devices import device, devices, empty_cache, memory_stats, reset_peak_memory
from .backend.errors import FallbackError, GgmlError, OutOfMemoryError
from .backend.graph import set_fallback
from .backend.library import matmul_precision, set_matmul_precision
from .backend.memory import MemoryStats
from .gradcheck import GradcheckError, gradcheck
from .ops import (
    abs,
    add,
    argmax,
    astype,
    broadcast_to,
    clamp,
    cross_entropy_loss,
    div,
    exp,
    gelu,
    linear,
    log,
    log_softmax,
    matmul,
    mean,
    mse_loss,
    mul,
    neg,
    pad,
    permute,
    pow,
    relu,
    reshape,
    scale,
    sigmoid,
    sign,
    silu,
    softmax,
    sqrt,
    sub,
    sum,
    tanh,
    to,
    transpose,
)
from .report import TapeReport, tape_memory
from .tape import Tape, backward, grad_tape, no_grad, record, zero_grad
from .tensor import Tensor, param, tensor

__version__ = "0.1.0"
__all__ = [
    "Counters", "FallbackError", "GgmlError", "GradcheckError", "MemoryStats", "OutOfMemoryError", "Tape",
    "TapeReport", "Tensor", "abs", "add", "argmax", "astype", "backward", "broadcast_to", "clamp", "counters",
    "cross_entropy_loss", "device", "devices", "div", "empty_cache", "exp", "gelu", "grad_tape", "gradcheck",
    "linear", "log", "log_softmax", "matmul", "matmul_precision", "mean", "memory_stats", "mse_loss", "mul", "neg",
    "no_grad", "optim", "pad", "param", "permute", "pow", "record", "relu", "reset_peak_memory", "reshape", "scale",
    "set_fallback", "set_matmul_precision", "sigmoid", "sign", "silu", "softmax", "sqrt", "sub", "sum", "tanh",
    "tape_memory", "tensor", "to", "transpose", "zero_grad",
]  # fmt: skip
