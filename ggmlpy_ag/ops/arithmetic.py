"""Arithmetic, with NumPy broadcasting.

A number as operand becomes a factor or an offset of one fused multiply-add (`scale`), without a tensor of its own.
"""

from __future__ import annotations

import math

from ..backend import primitives as prim
from ..backend.array import Array
from ..tape import record
from ..tensor import Tensor, TensorLike
from . import base
from .base import floats, number, result, scaled, unary, wide
from .functions import abs, log, sign
from .reduce import sum_to


def _affine(op: str, x: TensorLike, factor: float, offset: float) -> Tensor:
    (x,) = floats(op, x)
    out = result(scaled(wide(x), factor, offset), x)
    return record(op, out, (x,), lambda g: (g if factor == 1.0 else _affine("scale", g, factor, 0.0),))


def add(a: TensorLike, b: TensorLike) -> Tensor:
    """a + b.

    Args:
        a: floats of any shape, or a number.
        b: floats of a shape that broadcasts with that of a, or a number.

    Raises:
        ValueError: the shapes do not broadcast, or the tensors are on different devices.
        TypeError: int32, or what is no number.

    >>> ag.add([[1.0, 2.0], [3.0, 4.0]], [10.0, 20.0]).tolist()
    [[11.0, 22.0], [13.0, 24.0]]
    """
    if (c := number(b)) is not None:
        return _affine("add", a, 1.0, c)
    if (c := number(a)) is not None:
        return _affine("add", b, 1.0, c)
    a, b = floats("add", a, b)
    out = result(base.binary("add", prim.ADD, wide(a), wide(b)), a, b)
    shape_a, shape_b = a.shape, b.shape
    return record("add", out, (a, b), lambda g: (sum_to(g, shape_a), sum_to(g, shape_b)))


def sub(a: TensorLike, b: TensorLike) -> Tensor:
    """a - b.

    Args:
        a: floats of any shape, or a number.
        b: floats of a shape that broadcasts with that of a, or a number.

    Raises:
        ValueError: the shapes do not broadcast, or the tensors are on different devices.
        TypeError: int32, or what is no number.

    >>> ag.sub(1.0, [[1.0, 2.0], [3.0, 4.0]]).tolist()
    [[0.0, -1.0], [-2.0, -3.0]]
    """
    if (c := number(b)) is not None:
        return _affine("sub", a, 1.0, -c)
    if (c := number(a)) is not None:
        return _affine("sub", b, -1.0, c)
    a, b = floats("sub", a, b)
    out = result(base.binary("sub", prim.SUB, wide(a), wide(b)), a, b)
    shape_a, shape_b = a.shape, b.shape
    return record("sub", out, (a, b), lambda g: (sum_to(g, shape_a), sum_to(-g, shape_b)))


def mul(a: TensorLike, b: TensorLike) -> Tensor:
    """a * b.

    Args:
        a: floats of any shape, or a number.
        b: floats of a shape that broadcasts with that of a, or a number.

    Raises:
        ValueError: the shapes do not broadcast, or the tensors are on different devices.
        TypeError: int32, or what is no number.

    >>> ag.mul([[1.0], [2.0]], [3.0, 4.0]).tolist()
    [[3.0, 4.0], [6.0, 8.0]]
    """
    if (c := number(b)) is not None:
        return _affine("mul", a, c, 0.0)
    if (c := number(a)) is not None:
        return _affine("mul", b, c, 0.0)
    a, b = floats("mul", a, b)
    out = result(base.binary("mul", prim.MUL, wide(a), wide(b)), a, b)
    shape_a, shape_b = a.shape, b.shape
    saved_a, saved_b = _needed(a, b), _needed(b, a)  # an operand is needed for its partner's gradient

    def grad(g: Tensor) -> tuple[Tensor | None, Tensor | None]:
        return (
            None if saved_b is None else sum_to(g * saved_b, shape_a),
            None if saved_a is None else sum_to(g * saved_a, shape_b),
        )

    return record("mul", out, (a, b), grad)


def _needed(value: Tensor, partner: Tensor) -> Tensor | None:
    return value if partner.requires_grad else None


def div(a: TensorLike, b: TensorLike) -> Tensor:
    """a / b. By a number it is a product with its reciprocal (within one unit in the last place).

    Args:
        a: floats of any shape, or a number.
        b: floats of a shape that broadcasts with that of a, or a number.

    Raises:
        ValueError: the shapes do not broadcast, or the tensors are on different devices.
        TypeError: int32, or what is no number.

    >>> ag.div([1.0, -1.0, 0.0], [4.0, 0.0, 0.0]).tolist()
    [0.25, -inf, nan]
    """
    c = number(b)
    if c is not None and number(a) is None:
        reciprocal = 1.0 / c if c else math.copysign(math.inf, c)
        if c == 0 or 1e-38 < math.fabs(reciprocal) < 3e38:  # abs is the operation here
            return _affine("div", a, reciprocal, 0.0)
    a, b = floats("div", a, b)
    out = result(base.binary("div", prim.DIV, wide(a), wide(b)), a, b)
    shape_a, shape_b = a.shape, b.shape
    divisor = b
    quotient = _needed(out, b)

    def grad(g: Tensor) -> tuple[Tensor | None, Tensor | None]:
        part = g / divisor
        return sum_to(part, shape_a), None if quotient is None else sum_to(-(part * quotient), shape_b)

    return record("div", out, (a, b), grad)


def neg(x: TensorLike) -> Tensor:
    """-x.

    Args:
        x: floats of any shape.

    Raises:
        TypeError: int32, or what is no number.

    >>> ag.neg([1.5, -2.0]).tolist()
    [-1.5, 2.0]
    """
    (x,) = floats("neg", x)
    return record("neg", result(unary(prim.NEG, wide(x)), x), (x,), lambda g: (-g,))


def scale(x: TensorLike, factor: float, offset: float = 0.0) -> Tensor:
    """x * factor + offset, for two numbers.

    Args:
        x: floats of any shape.
        factor: a number.
        offset: a number.

    Raises:
        TypeError: the factor or the offset is no number; x is int32, or no number.

    >>> ag.scale([1.0, 2.0], -2.0, offset=0.5).tolist()
    [-1.5, -3.5]
    """
    s, o = number(factor), number(offset)
    if s is None or o is None:
        kinds = f"{type(factor).__name__} and {type(offset).__name__}"
        raise TypeError(f"scale takes numbers, not {kinds}: use mul and add")
    return _affine("scale", x, s, o)


# ---------------------------------------------------------------- powers


def pow(a: TensorLike, b: TensorLike) -> Tensor:
    """a ** b, as NumPy has it: NaN for a negative base and a fractional exponent, 1 for an exponent of 0.

    A number as exponent is computed by repeated multiplication, with sqrt for halves and exp(f * log(a)) for other
    fractions f; a tensor as exponent by exp(b * log|a|) and the sign, whose relative error grows with |b log a|
    (about 5e-6 at the ends of the float32 range).

    The gradient to a is 0 where b is 0, and to b where a is 0, as in PyTorch.

    Args:
        a: floats of any shape, or a number.
        b: floats of a shape that broadcasts with that of a, or a number.

    Raises:
        ValueError: the shapes do not broadcast, or the tensors are on different devices.
        TypeError: int32, or what is no number.

    >>> ag.pow([3.0, -2.0], 2).tolist()
    [9.0, 4.0]
    >>> ag.pow([-4.0, 0.25], -0.5).tolist()
    [nan, 2.0]
    """
    exponent = number(b)
    if exponent is not None and number(a) is None:
        return _pow_number(a, exponent)
    a, b = floats("pow", a, b)
    out = result(_pow_arrays(wide(a), wide(b)), a, b)
    shape_a, shape_b = a.shape, b.shape
    base_, exponent_ = a, b
    power = _needed(out, b)

    def grad(g: Tensor) -> tuple[Tensor | None, Tensor | None]:
        # b * a ** (b - 1), and 0 for b = 0, where a ** -1 would be infinite for a = 0
        to_base = sum_to(g * exponent_ * pow(base_, exponent_ - abs(sign(exponent_))), shape_a)
        if power is None:
            return to_base, None
        # a**b log(a), and 0 where a is 0: log is kept finite there
        return to_base, sum_to(g * power * log(base_ + (1.0 - abs(sign(base_)))), shape_b)

    return record("pow", out, (a, b), grad)


def _pow_number(x: TensorLike, exponent: float) -> Tensor:
    (x,) = floats("pow", x)
    out = result(_pow_array(wide(x), exponent), x)
    if exponent == 0.0:
        return out  # 1 whatever x is
    return record("pow", out, (x,), lambda g: (g * scale(_pow_number(x, exponent - 1.0), exponent),))


def _pow_array(a: Array, exponent: float) -> Array:
    if exponent == 0.0:
        return base.expanded(a.device.constant(1.0), a.shape)
    if exponent < 0.0:
        return base.binary("pow", prim.DIV, a.device.constant(1.0), _pow_array(a, -exponent))
    whole, fraction = divmod(exponent, 1.0)
    if not math.isfinite(exponent) or whole > 64:
        return _pow_arrays(a, a.device.constant(exponent))
    result: Array | None = None
    if fraction == 0.5:
        result = unary(prim.SQRT, a)
    elif fraction:
        result = unary(prim.EXP, scaled(unary(prim.LOG, a), fraction))
    square, n = a, int(whole)
    while n:
        if n & 1:
            result = square if result is None else base.binary("pow", prim.MUL, result, square)
        n >>= 1
        if n:
            square = base.binary("pow", prim.MUL, square, square)
    assert result is not None
    return result


def _pow_arrays(a: Array, b: Array) -> Array:
    def mul(x: Array, y: Array) -> Array:
        return base.binary("pow", prim.MUL, x, y)

    # b and log|a| are kept finite, so that their products with 0 are 0: 0 ** 0 and 1 ** inf are 1
    b = base.clamped(b, -3e38, 3e38)
    shape = base.broadcast("pow", a.shape, b.shape)
    a, b = (v if v.shape == shape else base.expanded(v, shape) for v in (a, b))
    size = base.clamped(unary(prim.LOG, unary(prim.ABS, a)), -3e38, 3e38)
    negative = unary(prim.RELU, unary(prim.NEG, unary(prim.SGN, a)))
    whole = unary(prim.FLOOR, b)
    fractional = unary(prim.SGN, base.binary("pow", prim.SUB, b, whole))
    half = scaled(whole, 0.5)
    odd = scaled(base.binary("pow", prim.SUB, half, unary(prim.FLOOR, half)), 2.0)  # 1 for an odd whole exponent
    sign_ = scaled(mul(negative, odd), -2.0, 1.0)
    # log(1) is 0, and log(-1) the NaN of a negative base with a fractional exponent
    undefined = unary(prim.LOG, scaled(mul(negative, fractional), -2.0, 1.0))
    return mul(sign_, unary(prim.EXP, base.binary("pow", prim.ADD, mul(b, size), undefined)))


__all__ = ["add", "div", "mul", "neg", "pow", "scale", "sub"]
