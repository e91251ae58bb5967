"""The operations, one family a file; each is defined once, with its gradient rule beside it."""

from . import methods
from .activation import gelu, log_softmax, relu, sigmoid, silu, softmax, tanh
from .elementwise import abs, add, clamp, div, exp, log, mul, neg, pow, scale, sign, sqrt, sub
from .linalg import linear, matmul
from .loss import cross_entropy_loss, mse_loss
from .reduce import argmax, broadcast_to, mean, sum
from .shape import astype, pad, permute, reshape, to, transpose

__all__ = [
    "abs", "add", "argmax", "astype", "broadcast_to", "clamp", "cross_entropy_loss", "div", "exp", "gelu", "linear",
    "log", "log_softmax", "matmul", "mean", "methods", "mse_loss", "mul", "neg", "pad", "permute", "pow", "relu",
    "reshape", "scale", "sigmoid", "sign", "silu", "softmax", "sqrt", "sub", "sum", "tanh", "to", "transpose",
]  # fmt: skip
