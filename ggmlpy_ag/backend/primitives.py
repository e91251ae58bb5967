"""The ggml primitives the engine uses, and the operand layouts each one has been tested with.

ggml's own `supports_op` says yes to layouts that abort or return garbage (a transposed operand of a unary
function, a slice summed on Vulkan), so this table decides: an operand that does not have the layout named here is
copied first. The tests run every operation on every device with packed, transposed, cut and strided operands.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass

from . import library as lib
from .library import BOOL, F32, I32, I64, P, bind

ANY = "any"  # any strides
ROWS = "rows"  # rows side by side; a slice of rows or columns is fine
PACKED = "packed"  # C-contiguous


@dataclass(frozen=True, eq=False, slots=True)
class Primitive:
    """How to append one operation to a ggml graph.

    `build(context, *operands, *parameters)` returns the ggml tensor. `layouts` has one entry an operand. `writes`
    names the operands that are written in place; such a primitive has no result of its own. `engine` is "blas" for
    what ggml's BLAS backend computes on the CPU device's memory. `elementwise`: element i of the result depends only
    on element i of operands of its shape, so it may be written over one of them.
    """

    name: str
    build: Callable[..., int]
    layouts: tuple[str, ...]
    writes: tuple[int, ...] = ()
    engine: str = "main"
    elementwise: bool = False


def _unary(name: str) -> Primitive:
    return Primitive(name, bind(f"ggml_{name}", P, P, P), (ROWS,), elementwise=True)


def _binary(name: str) -> Primitive:
    # The second operand is repeated into the first by ggml itself.
    return Primitive(name, bind(f"ggml_{name}", P, P, P, P), (ROWS, ANY), elementwise=True)


ABS = _unary("abs")
NEG = _unary("neg")
SGN = _unary("sgn")
EXP = _unary("exp")
LOG = _unary("log")
SQRT = _unary("sqrt")
SQUARE = _unary("sqr")
SIN = _unary("sin")
COS = _unary("cos")
FLOOR = _unary("floor")
CEIL = _unary("ceil")
TRUNC = _unary("trunc")
RELU = _unary("relu")
SIGMOID = _unary("sigmoid")
TANH = _unary("tanh")
SILU = _unary("silu")
HARDSWISH = _unary("hardswish")
HARDSIGMOID = _unary("hardsigmoid")  # 0 for NaN
ELU = _unary("elu")  # exact near 0 on the CPU, exp(x) - 1 on Vulkan
EXPM1 = _unary("expm1")  # exact near 0 on Vulkan, exp(x) - 1 on the CPU
GELU_ERF = _unary("gelu_erf")  # exact on both; ggml_gelu goes through a float16 table on the CPU (error 3e-4)

ADD = _binary("add")
SUB = _binary("sub")
MUL = _binary("mul")
DIV = _binary("div")

# On the CPU a choice: b where a is 1, 0 where it is 0, whatever b is. Vulkan multiplies: 0 * inf is NaN there.
REGLU = Primitive("reglu", bind("ggml_reglu_split", P, P, P, P), (PACKED, PACKED), elementwise=True)

SCALE = Primitive("scale", bind("ggml_scale_bias", P, P, P, F32, F32), (PACKED,), elementwise=True)
COPY = Primitive("copy", bind("ggml_cont", P, P, P), (ANY,))
SUM_ROWS = Primitive("sum_rows", bind("ggml_sum_rows", P, P, P), (PACKED,))
RMS_NORM = Primitive("rms_norm", bind("ggml_rms_norm", P, P, P, F32), (PACKED,))  # at most 65,535 rows on Vulkan
SOFTMAX = Primitive("softmax", bind("ggml_soft_max", P, P, P), (PACKED,))
REPEAT = Primitive("repeat", bind("ggml_repeat_4d", P, P, P, I64, I64, I64, I64), (PACKED,))
DIAG = Primitive("diag", bind("ggml_diag", P, P, P), (PACKED,))  # (.., 1, n) -> (.., n, n)
# square matrices, 0 beyond the diagonal: kind 0 keeps the diagonal and what is above, 2 the diagonal and what is below
TRI = Primitive("tri", bind("ggml_tri", P, P, P, I32), (PACKED,))
# (.., n, columns) and (.., k) int32 -> (.., k, columns); an index out of range ends the process
GET_ROWS = Primitive("get_rows", bind("ggml_get_rows", P, P, P, P), (ROWS, PACKED))
# a + b at an offset in bytes, b's rows laid out by three strides in bytes; a smaller than 2**25 on Vulkan
ACC = Primitive("acc", bind("ggml_acc", P, P, P, P, I64, I64, I64, I64), (PACKED, ROWS))
MATMUL = Primitive("mul_mat", bind("ggml_mul_mat", P, P, P, P), (PACKED, PACKED))
MATMUL_BLAS = Primitive("mul_mat", MATMUL.build, (PACKED, PACKED), engine="blas")
# out_prod computes a.T @ b without a transposed copy; only BLAS does it well, and Vulkan not at all.
# Its second operand must be packed or the transpose of a packed one: of others it would take the memory as packed.
OUT_PROD_BLAS = Primitive("out_prod", bind("ggml_out_prod", P, P, P, P), (PACKED, ANY), engine="blas")

_argsort = bind("ggml_argsort", P, P, P, I32)
_concat = bind("ggml_concat", P, P, P, P, I32)
_get_rows_back = bind("ggml_get_rows_back", P, P, P, P, P)
_im2col = bind("ggml_im2col", P, P, P, P, I32, I32, I32, I32, I32, I32, BOOL, I32)
_set_rows = bind("ggml_set_rows", P, P, P, P, P)
_soft_max_ext = bind("ggml_soft_max_ext", P, P, P, P, F32, F32)
_leaky_relu = bind("ggml_leaky_relu", P, P, P, F32, BOOL)
_clamp = bind("ggml_clamp", P, P, P, F32, F32)
_pool_2d = bind("ggml_pool_2d", P, P, P, I32, I32, I32, I32, I32, F32, F32)
_arange = bind("ggml_arange", P, P, F32, F32, F32)
_repeat_back = bind("ggml_repeat_back", P, P, P, P)
_pad = bind("ggml_pad_ext", P, P, P, *(I32,) * 8)
_cast = bind("ggml_cast", P, P, P, I32)
_adamw = bind("ggml_opt_step_adamw", P, P, P, P, P, P, P)
_sgd = bind("ggml_opt_step_sgd", P, P, P, P, P)


def _set_flag(tensor: int, flag: int) -> None:
    ctypes.c_int32.from_address(tensor + lib.FIELD_FLAGS).value |= flag


def _build_clamp(context: int, a: int, low: float, high: float) -> int:
    # ggml_clamp makes a view of its operand and overwrites it. Without the link it is an operation like others.
    tensor: int = _clamp(context, a, low, high)
    ctypes.c_void_p.from_address(tensor + lib.FIELD_VIEW_SRC).value = None
    return tensor


def _build_row_max(context: int, a: int, columns: int) -> int:
    return int(_pool_2d(context, a, lib.POOL_MAX, columns, 1, columns, 1, 0.0, 0.0))


def _build_sum_middle(context: int, a: int, inner: int, outer: int) -> int:
    # the second operand only tells the shape
    return int(_repeat_back(context, a, lib.new_tensor_4d(context, lib.TYPE_F32, inner, 1, outer, 1)))


def _build_adamw(context: int, weight: int, grad: int, first: int, second: int, parameters: int) -> int:
    _set_flag(weight, lib.FLAG_PARAM)  # ggml asserts it
    return int(_adamw(context, weight, grad, first, second, parameters))


def _build_sgd(context: int, weight: int, grad: int, parameters: int) -> int:
    _set_flag(weight, lib.FLAG_PARAM)
    return int(_sgd(context, weight, grad, parameters))


def _build_get_rows_back(context: int, rows: int, indices: int, n: int, columns: int) -> int:
    # the last operand only tells the shape
    return int(_get_rows_back(context, rows, indices, lib.new_tensor_4d(context, lib.TYPE_F32, columns, n, 1, 1)))


def _build_set_rows(context: int, rows: int, indices: int, batches: int, n: int, columns: int) -> int:
    # ggml_set_rows writes into its destination. A new one, which is not named as an operand, is a result like others.
    tensor: int = _set_rows(context, lib.new_tensor_4d(context, lib.TYPE_F32, columns, n, batches, 1), rows, indices)
    for field in (lib.FIELD_VIEW_SRC, lib.FIELD_SOURCES + 2 * ctypes.sizeof(ctypes.c_void_p)):
        ctypes.c_void_p.from_address(tensor + field).value = None
    return tensor


def _build_im2col(context: int, image: int, channels: int, kernel: tuple[int, int], *steps: int) -> int:
    # The kernel only tells its shape. Vulkan looks for its memory all the same, so it is given the image's.
    shape = lib.new_tensor_4d(context, lib.TYPE_F32, kernel[1], kernel[0], channels, 1)
    for field in (lib.FIELD_BUFFER, lib.FIELD_DATA):
        ctypes.c_void_p.from_address(shape + field).value = ctypes.c_void_p.from_address(image + field).value
    return int(_im2col(context, shape, image, *steps, True, lib.TYPE_F32))


CLAMP = Primitive("clamp", _build_clamp, (PACKED,))
# 0 for NaN; wrong on the CPU for any other layout
LEAKY_RELU = Primitive(
    "leaky_relu", lambda ctx, a, slope: _leaky_relu(ctx, a, slope, False), (PACKED,), elementwise=True
)
# softmax(a + mask): a (b, h, l, s), mask (b or 1, h or 1, l, s)
SOFTMAX_MASKED = Primitive(
    "softmax_masked", lambda ctx, a, mask: _soft_max_ext(ctx, a, mask, 1.0, 0.0), (PACKED, PACKED)
)
# (n, columns) -> (n, 1); n is at most 2**24, since ggml computes it in float32. See ops/order.py for NaN and -inf
ROW_MAX = Primitive("row_max", _build_row_max, (PACKED,))
SUM_MIDDLE = Primitive("sum_middle", _build_sum_middle, (PACKED,))  # (outer, n, inner) -> (outer, 1, inner)
PAD = Primitive("pad", _pad, (PACKED,))  # zeros before and after each dimension, the fastest first
ARANGE = Primitive("arange", lambda ctx, n: _arange(ctx, 0.0, float(n), 1.0), ())
ARGSORT = Primitive("argsort", lambda ctx, a: _argsort(ctx, a, 0), (PACKED,))  # ascending; equal ones in any order
CONCAT = Primitive("concat", _concat, (ANY, ANY))  # along ggml's dimension 0 to 3, 0 being the last of ours
# (k, columns) and (k,) int32 -> (n, columns): row i is the sum of the rows whose index is i
GET_ROWS_BACK = Primitive("get_rows_back", _build_get_rows_back, (PACKED, PACKED))
# (batches, n, columns) and (batches, n) int32 -> (batches, n, columns): row i goes to where index i says. Those of a
# batch must be 0 to n - 1 in some order: rows that none names are left as the memory was, and others end the process.
SET_ROWS = Primitive("set_rows", _build_set_rows, (ROWS, ANY))
# (n, channels, h, w) -> (n, out_h, out_w, channels * kernel_h * kernel_w); stride, padding, dilation: the width's first
IM2COL = Primitive("im2col", _build_im2col, (PACKED,))
# (n, channels, h, w); kernel, stride, padding: the width's first. The maximum begins with the least finite number
MAX_POOL = Primitive("max_pool", lambda ctx, a, *steps: _pool_2d(ctx, a, lib.POOL_MAX, *steps), (PACKED,))
AVG_POOL = Primitive("avg_pool", lambda ctx, a, *steps: _pool_2d(ctx, a, lib.POOL_AVG, *steps), (PACKED,))
# (channels, 1, kernel h, kernel w) and (n, channels, h, w): each channel with its own kernel; parameters as above
DEPTHWISE = Primitive("conv_2d_dw", bind("ggml_conv_2d_dw_direct", P, P, P, P, *(I32,) * 6), (PACKED, PACKED))
TO_FLOAT = Primitive("to_float", lambda ctx, a: _cast(ctx, a, lib.TYPE_F32), (PACKED,))
TO_HALF = Primitive("to_half", lambda ctx, a: _cast(ctx, a, lib.TYPE_F16), (PACKED,))  # from float32 only, as below
TO_BFLOAT = Primitive("to_bfloat", lambda ctx, a: _cast(ctx, a, lib.TYPE_BF16), (PACKED,))
TO_INT = Primitive("to_int", lambda ctx, a: _cast(ctx, a, lib.TYPE_I32), (PACKED,))

ASSIGN = Primitive("assign", bind("ggml_cpy", P, P, P, P), (ANY, ANY), writes=(1,))
ADAMW_STEP = Primitive("adamw_step", _build_adamw, (PACKED,) * 5, writes=(0, 2, 3))
SGD_STEP = Primitive("sgd_step", _build_sgd, (PACKED,) * 3, writes=(0,))
