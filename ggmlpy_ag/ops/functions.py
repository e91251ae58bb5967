"""Functions of single elements."""

from __future__ import annotations

import math

from ..backend import primitives as prim
from ..backend.array import Array
from ..tape import record
from ..tensor import Tensor, TensorLike
from .base import binary, floats, result, scaled, unary, wide


def exp(x: TensorLike) -> Tensor:
    """e to the power x.

    Args:
        x: floats of any shape. Vulkan's relative error grows with it: 4e-6 at |x| = 80.

    Raises:
        TypeError: int32, or what is no number.

    >>> ag.exp([0.0, -np.inf]).tolist()
    [1.0, 0.0]
    """
    (x,) = floats("exp", x)
    out = result(unary(prim.EXP, wide(x)), x)
    return record("exp", out, (x,), lambda g: (g * out,))


def expm1(x: TensorLike) -> Tensor:
    """exp(x) - 1, exact near 0, where the difference would cancel.

    Args:
        x: floats of any shape.

    Raises:
        TypeError: int32, or what is no number.

    >>> ag.expm1(-np.inf).item()
    -1.0
    >>> 0.9999e-9 < ag.expm1(1e-9).item() < 1.0001e-9
    True
    """
    (x,) = floats("expm1", x)
    out = result(expm1_array(wide(x)), x)
    return record("expm1", out, (x,), lambda g: (g * (out + 1.0),))


def expm1_array(a: Array) -> Array:
    """exp(a) - 1 by what each backend is exact with near 0: `expm1` on Vulkan, `elu`, below 0, on the CPU."""
    if not a.device.is_cpu:
        return unary(prim.EXPM1, a)
    below = expm1_below(unary(prim.NEG, unary(prim.ABS, a)))
    signed = binary("expm1", prim.MUL, below, unary(prim.SGN, unary(prim.NEG, a)))
    return binary("expm1", prim.MUL, signed, unary(prim.EXP, unary(prim.RELU, a)))  # -expm1(-x) * exp(x) above 0


def expm1_below(a: Array) -> Array:
    """exp(a) - 1 for a that are not above 0; NaN stays NaN."""
    return unary(prim.ELU if a.device.is_cpu else prim.EXPM1, a)


def log(x: TensorLike) -> Tensor:
    """Natural logarithm: -inf at 0, NaN below.

    Args:
        x: floats of any shape.

    Raises:
        TypeError: int32, or what is no number.

    >>> ag.log([1.0, 0.0, np.inf]).tolist()
    [0.0, -inf, inf]
    """
    (x,) = floats("log", x)
    return record("log", result(unary(prim.LOG, wide(x)), x), (x,), lambda g: (g / x,))


def log1p(x: TensorLike) -> Tensor:
    """log(1 + x), exact near 0, where 1 + x would round: -inf at -1, NaN below.

    Args:
        x: floats of any shape.

    Raises:
        TypeError: int32, or what is no number.

    >>> ag.log1p([0.0, -1.0, np.inf]).tolist()
    [0.0, -inf, inf]
    """
    (x,) = floats("log1p", x)
    out = result(_log1p(wide(x)), x)
    return record("log1p", out, (x,), lambda g: (g / (x + 1.0),))


def _log1p(a: Array) -> Array:
    # log(1 + n) + log(1 + (a - n) / (1 + n)) for the nearest n where log1p_near is exact; inside, the second is log(1)
    near = unary(prim.CLAMP, a, -0.5, 1.0)
    beyond = binary("log1p", prim.DIV, binary("log1p", prim.SUB, a, near), scaled(near, 1.0, 1.0))
    return binary("log1p", prim.ADD, unary(prim.LOG, scaled(beyond, 1.0, 1.0)), log1p_near(near))


def log1p_near(a: Array) -> Array:
    """log(1 + a) for a from -0.5 to 1, exact near 0; NaN stays NaN.

    By 2 artanh(s), s = a / (2 + a): Vulkan promises no more than an absolute error for log.
    """
    twice = binary("log1p", prim.DIV, a, scaled(a, 0.5, 1.0))
    return binary("log1p", prim.MUL, twice, polynomial(unary(prim.SQUARE, twice), *_ARTANH))


def polynomial(a: Array, *coefficients: float) -> Array:
    """By Horner's rule, the highest power first."""
    total = scaled(a, *coefficients[:2])
    for c in coefficients[2:]:
        total = scaled(binary("polynomial", prim.MUL, total, a), 1.0, c)
    return total


# artanh(s) / s in 4 s**2 up to 4 / 9, with the least relative error (5e-9) and 1 at 0
_ARTANH = (0.14005993 / 256, 0.14000903 / 64, 0.20010764 / 16, 0.33333208 / 4, 1.0)


def sqrt(x: TensorLike) -> Tensor:
    """Square root: NaN below 0. The gradient at 0 is infinite, as in PyTorch.

    Args:
        x: floats of any shape.

    Raises:
        TypeError: int32, or what is no number.

    >>> ag.sqrt([0.0, 4.0]).tolist()
    [0.0, 2.0]
    """
    (x,) = floats("sqrt", x)
    out = result(unary(prim.SQRT, wide(x)), x)
    return record("sqrt", out, (x,), lambda g: (g / (out * 2.0),))


def rsqrt(x: TensorLike) -> Tensor:
    """1 / sqrt(x): infinite at 0, NaN below.

    Args:
        x: floats of any shape.

    Raises:
        TypeError: int32, or what is no number.

    >>> ag.rsqrt([4.0, 0.0, np.inf]).tolist()
    [0.5, inf, 0.0]
    """
    (x,) = floats("rsqrt", x)
    out = result(_inverse("rsqrt", unary(prim.SQRT, wide(x))), x)
    return record("rsqrt", out, (x,), lambda g: (g * (out * out * out * -0.5),))


def reciprocal(x: TensorLike) -> Tensor:
    """1 / x: an infinity of its sign at 0.

    Args:
        x: floats of any shape.

    Raises:
        TypeError: int32, or what is no number.

    >>> ag.reciprocal([2.0, 0.0, -np.inf]).tolist()
    [0.5, inf, -0.0]
    """
    (x,) = floats("reciprocal", x)
    out = result(_inverse("reciprocal", wide(x)), x)
    return record("reciprocal", out, (x,), lambda g: (-(g * (out * out)),))


def _inverse(op: str, a: Array) -> Array:
    return binary(op, prim.DIV, a.device.constant(1.0), a)


def square(x: TensorLike) -> Tensor:
    """x * x.

    Args:
        x: floats of any shape.

    Raises:
        TypeError: int32, or what is no number.

    >>> ag.square([-3.0, 0.5]).tolist()
    [9.0, 0.25]
    """
    (x,) = floats("square", x)
    return record("square", result(unary(prim.SQUARE, wide(x)), x), (x,), lambda g: (g * (x * 2.0),))


def abs(x: TensorLike) -> Tensor:
    """Absolute value. The gradient at 0 is 0, as in PyTorch.

    Args:
        x: floats of any shape.

    Raises:
        TypeError: int32, or what is no number.

    >>> ag.abs([-1.5, 2.0]).tolist()
    [1.5, 2.0]
    """
    (x,) = floats("abs", x)
    return record("abs", result(unary(prim.ABS, wide(x)), x), (x,), lambda g: (g * sign(x),))


def sign(x: TensorLike) -> Tensor:
    """-1, 0 or 1 by the sign of x; 0 for NaN, as in PyTorch. Its gradient is 0.

    Args:
        x: floats of any shape.

    Raises:
        TypeError: int32, or what is no number.

    >>> ag.sign([-3.0, 0.0, 2.5]).tolist()
    [-1.0, 0.0, 1.0]
    """
    (x,) = floats("sign", x)
    return result(unary(prim.SGN, wide(x)), x)


# ---------------------------------------------------------------- sine and cosine


def sin(x: TensorLike) -> Tensor:
    """Sine; NaN for infinities.

    Args:
        x: angles in radians: floats of any shape. On Vulkan the absolute error is below 3e-7 up to |x| = 10,000 and
            grows beyond; the results stay between -1 and 1.

    Raises:
        TypeError: int32, or what is no number.

    >>> ag.sin([0.0, np.inf]).tolist()
    [0.0, nan]
    """
    (x,) = floats("sin", x)
    a = wide(x)
    out = unary(prim.SIN, a) if a.device.is_cpu else _sin(a)
    return record("sin", result(out, x), (x,), lambda g: (g * cos(x),))


def cos(x: TensorLike) -> Tensor:
    """Cosine; NaN for infinities.

    Args:
        x: angles in radians: floats of any shape. Errors on Vulkan are as those of `sin`.

    Raises:
        TypeError: int32, or what is no number.

    >>> ag.cos([0.0, np.inf]).tolist()
    [1.0, nan]
    """
    (x,) = floats("cos", x)
    a = wide(x)
    out = unary(prim.COS, a) if a.device.is_cpu else _cos(a)
    return record("cos", result(out, x), (x,), lambda g: (-(g * sin(x)),))


# Vulkan promises an absolute error of 2**-11 only, and that between -pi and pi.


def _sin(a: Array) -> Array:
    rest, sign_ = _reduced(a)
    sine = binary("sin", prim.MUL, rest, polynomial(unary(prim.SQUARE, rest), *_SINE))
    return binary("sin", prim.MUL, sine, sign_)


def _cos(a: Array) -> Array:
    rest, sign_ = _reduced(a)
    return binary("cos", prim.MUL, polynomial(unary(prim.SQUARE, rest), *_COSINE), sign_)


def _reduced(a: Array) -> tuple[Array, Array]:
    """Angles less the nearest multiples of pi; and 1 for even multiples, -1 for odd ones, NaN for what is no angle."""
    turns = unary(prim.FLOOR, scaled(a, 1.0 / math.pi, 0.5))
    for part in _PI:  # Cody and Waite: the products with the first parts are exact, and so are the differences
        a = binary("sin", prim.ADD, a, scaled(turns, -part))
    half = scaled(turns, 0.5)
    odd = binary("sin", prim.SUB, half, unary(prim.FLOOR, half))  # 0 or 0.5
    # beyond the limit only where float32 tells no such angles apart
    return unary(prim.CLAMP, a, -1.5725, 1.5725), scaled(odd, -4.0, 1.0)


_PI = (3.140625, 2029 / 2**21, math.pi - 3.140625 - 2029 / 2**21)
# sin(r) / r and cos(r) in r**2 for |r| up to 1.001 * pi / 2, with the least error (1.4e-8 and 4e-9) and 1 at 0
_SINE = (2.60548150e-06, -1.98094749e-04, 8.33306461e-03, -1.66666595e-01, 1.0)
_COSINE = (-2.60742190e-07, 2.47617299e-05, -1.38884006e-03, 4.16666405e-02, -4.99999995e-01, 1.0)


__all__ = [
    "abs", "cos", "exp", "expm1", "log", "log1p", "reciprocal", "rsqrt", "sign", "sin", "sqrt", "square",
]  # fmt: skip
