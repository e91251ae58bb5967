"""Matrix products."""

from __future__ import annotations

from math import prod

from ..backend import primitives as prim
from ..backend.array import FLOAT, Array, Shape
from ..tape import record
from ..tensor import Tensor, TensorLike
from . import base
from .base import floats, result, wide
from .moving import cut, joined
from .reduce import sum_to

BLAS_WORK = 32 * 32 * 32  # multiply-adds; below, handing over to BLAS costs more than it saves
MOST_ROWS = 65_535 * 32  # of the result, or columns, in a launch of Vulkan's kernel
MOST_TERMS = 1 << 16  # that Vulkan's kernel adds one after another; of few rows it adds several at a time
MOST_TERMS_OF_FEW = 1 << 22  # a loop in a shader of Mesa's llvmpipe ends, silently, after 65,535 rounds
BLAS_EXTENT = 32  # of the result, where ggml's own kernel needs no copy either


def matmul(a: TensorLike, b: TensorLike) -> Tensor:
    """Matrix product, as `numpy.matmul` has it: (..., m, k) @ (..., k, n) -> (..., m, n), leading dimensions broadcast.

    An operand of one dimension is a row on the left and a column on the right, and that dimension leaves the result.
    Halves are multiplied as float32; `set_matmul_precision` may allow a device less.

    Args:
        a: floats, (..., m, k) or (k,).
        b: floats, (..., k, n) or (k,).

    Raises:
        ValueError: the inner extents differ, an operand is a scalar, the leading dimensions do not broadcast, or the
            operands are on different devices. TypeError: an operand is not of floats.

    >>> ag.matmul([[1.0, 2.0], [3.0, 4.0]], [[1.0], [10.0]]).tolist()
    [[21.0], [43.0]]
    >>> ag.matmul([1.0, 2.0], [3.0, 4.0]).item()
    11.0
    """
    a, b = floats("matmul", a, b)
    if not a.shape or not b.shape:
        raise ValueError(f"matmul: shapes {a.shape} and {b.shape}: a scalar has no matrix product, use *")
    if a.shape[-1] != b.shape[-2 if b.ndim > 1 else 0]:
        raise ValueError(
            f"matmul: shapes {a.shape} and {b.shape} do not fit: {a.shape[-1]} columns on the left, "
            f"{b.shape[-2 if b.ndim > 1 else 0]} rows on the right"
        )
    if b.ndim == 1:
        column = matmul(a, b.reshape(-1, 1))
        return column.reshape(column.shape[:-1])
    if a.ndim == 1:
        row = matmul(a.reshape(1, -1), b)
        return row.reshape(row.shape[:-2] + row.shape[-1:])
    out = result(_matmul(wide(a), wide(b)), a, b)
    shape_a, shape_b = a.shape, b.shape
    left = a if b.requires_grad else None  # each operand is needed for its partner's gradient
    right = b if a.requires_grad else None
    flipped = not b._array.packed  # a weight used as w.T: its gradient is made in the layout of w

    def grad(g: Tensor) -> tuple[Tensor | None, Tensor | None]:
        to_a = None if right is None else sum_to(matmul(g, right.mT), shape_a)
        if left is None:
            return to_a, None
        rows, back = left, g
        if len(shape_b) == 2 < len(shape_a):  # one matrix for the batch: its gradient is one product over all rows
            rows, back = rows.reshape(-1, shape_a[-1]), back.reshape(-1, shape_b[-1])
        to_b = matmul(back.mT, rows).mT if flipped else matmul(rows.mT, back)
        return to_a, sum_to(to_b, shape_b)

    return record("matmul", out, (a, b), grad, multiply_adds=out.size * shape_a[-1])


def linear(x: TensorLike, weight: TensorLike, bias: TensorLike | None = None) -> Tensor:
    """x @ weight.T + bias, a fully connected layer as `torch.nn.functional.linear` has it.

    Args:
        x: floats, (..., in).
        weight: floats, (out, in).
        bias: floats, (out,); or None.

    Returns:
        (..., out).

    Raises:
        ValueError: the shapes do not fit, or the operands are on different devices.
        TypeError: an operand is not of floats.

    >>> ag.linear([[1.0, 2.0]], [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [0.5, 0.0, 0.0]).tolist()
    [[1.5, 2.0, 3.0]]
    """
    x, weight, *rest = floats("linear", x, weight) if bias is None else floats("linear", x, weight, bias)
    shape_x, shape_w = x.shape, weight.shape
    if not shape_x or len(shape_w) != 2 or shape_x[-1] != shape_w[1] or any(b.shape != shape_w[:1] for b in rest):
        raise ValueError(
            f"linear: x of shape {shape_x}, weight {shape_w}"
            + "".join(f" and bias {b.shape}" for b in rest)
            + " do not fit: they must be (..., in), (out, in) and (out,)"
        )
    rows = x.size // shape_x[-1]
    array = _matmul(base.reshaped(wide(x), (rows, shape_w[1])), wide(weight).swapped())
    for b in rest:
        array = base.binary("linear", prim.ADD, array, wide(b))
    left = x if weight.requires_grad else None
    right = weight if x.requires_grad else None
    count = 2 + len(rest)  # and not the bias itself, whose value no gradient needs

    def grad(g: Tensor) -> tuple[Tensor | None, ...]:
        flat = g if g.ndim == 2 else g.reshape(rows, shape_w[0])
        to_x = None if right is None else matmul(flat, right).reshape(shape_x)
        to_w = None if left is None else matmul(flat.mT, left.reshape(rows, shape_w[1]))
        return (to_x, to_w, sum_to(flat, shape_w[:1]))[:count]

    out = result(array.reshaped((*shape_x[:-1], shape_w[0])), x, weight, *rest)
    return record("linear", out, (x, weight, *rest), grad, multiply_adds=rows * weight.size)


def _matmul(a: Array, b: Array) -> Array:
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    if not a.device.is_cpu and (max(m, n) > MOST_ROWS or k > (MOST_TERMS if m > 8 else MOST_TERMS_OF_FEW)):
        return _matmul_halves(a, b)
    if len(b.shape) == 2:
        if len(a.shape) == 2:
            return _matmul_2d(a, b)
        flat = base.reshaped(a, (prod(a.shape[:-1]), k))  # one matrix for all: a single product of all rows
        return _matmul(flat, b).reshaped((*a.shape[:-1], n))
    batch = base.broadcast("matmul", a.shape[:-2], b.shape[:-2])
    shape: Shape = (*batch, m, n)
    # ggml multiplies rows with rows, and broadcasts its first operand, our right one, alone
    columns = b.swapped()
    if a.shape[:-2] != batch:
        a = base.expanded(a, (*batch, m, k))
    if columns.shape[:-2] != batch and not a.device.is_cpu:  # Vulkan broadcasts two dimensions less
        columns = base.expanded(columns, (*batch, n, k))
    # BLAS takes one product after the other; ggml's own kernel shares each among threads, which many small ones lose by
    blas = bool(a.device.blas) and prod(shape) * k >= BLAS_WORK
    return a.device.graph.record(prim.MATMUL_BLAS if blas else prim.MATMUL, (columns, a), shape, FLOAT)


def _matmul_halves(a: Array, b: Array) -> Array:
    """The product of more rows, columns or terms than one launch has, half by half."""
    rows, terms, columns = len(a.shape) - 2, len(b.shape) - 2, len(b.shape) - 1
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    if m > MOST_ROWS:
        halves = [_matmul(cut(a, rows, start, stop), b) for start, stop in ((0, m // 2), (m // 2, m))]
        return joined(halves, len(halves[0].shape) - 2)
    if n > MOST_ROWS:
        halves = [_matmul(a, cut(b, columns, start, stop)) for start, stop in ((0, n // 2), (n // 2, n))]
        return joined(halves, len(halves[0].shape) - 1)
    halves = [
        _matmul(cut(a, rows + 1, start, stop), cut(b, terms, start, stop)) for start, stop in ((0, k // 2), (k // 2, k))
    ]
    return base.binary("matmul", prim.ADD, *halves)


def _matmul_2d(a: Array, b: Array) -> Array:
    """(m, k) @ (k, n). ggml's mul_mat takes rows times rows: the right operand transposed.

    A layer's x @ w.T is that already, w being stored (out, in). BLAS takes the two products of its gradient without
    a transposed copy too, as an out_prod; elsewhere the copy is made.
    """
    graph = a.device.graph
    m, k, n = a.shape[0], a.shape[1], b.shape[1]
    columns = b.swapped()
    blas = bool(a.device.blas) and m * k * n >= BLAS_WORK
    narrow = min(m, n) < BLAS_EXTENT <= k and k % 8 == 0  # without whole vectors, ggml's own kernel is ten times slower
    if not blas or (columns.packed and narrow):
        return graph.record(prim.MATMUL, (columns, a), (m, n), FLOAT)
    if columns.packed:
        return graph.record(prim.MATMUL_BLAS, (columns, base.packed(a)), (m, n), FLOAT)
    # out_prod's second operand is a.T, packed itself or as the transpose of a packed a
    rows = a.swapped()
    if not rows.packed and not a.packed:
        rows = base.packed(a).swapped()
    return graph.record(prim.OUT_PROD_BLAS, (base.packed(b), rows), (m, n), FLOAT)


__all__ = ["linear", "matmul"]
