"""Wrong calls of what makes tensors."""

from __future__ import annotations

import math

import numpy as np

import ggmlpy_ag as ag

from .table import Error, wrong_operands

MAKING_ERRORS = [
    *wrong_operands("", ag.tensor, lambda m: [1.0], ints=False, named=False),
    Error(lambda m: ag.tensor(10**400), TypeError, ("data", "object")),
    Error(lambda m: ag.tensor([2**31]), ValueError, ("data", str(2**31), "int32")),
    Error(lambda m: ag.tensor(np.array([0, -(2**40)])), ValueError, ("data", str(-(2**40)), "int32")),
    Error(lambda m: ag.tensor(np.array([2**64 - 1], np.uint64)), ValueError, ("data", "int32")),
    Error(lambda m: ag.tensor([1.5], dtype="int32"), TypeError, ("data", "whole", "int32")),
    Error(lambda m: ag.tensor([math.nan], dtype="int32"), TypeError, ("data", "whole", "int32")),
    Error(lambda m: ag.tensor([math.inf], dtype="int32"), ValueError, ("data", "inf", "int32")),
    Error(lambda m: ag.tensor([1.0], dtype="float64"), TypeError, ("float32, float16, bfloat16 or int32", "float64")),
    Error(lambda m: ag.tensor([1], requires_grad=True), TypeError, ("int32", "gradient")),
    Error(lambda m: ag.tensor([1.0], device="tpu"), ValueError, ("'tpu'", "cpu")),
    Error(lambda m: ag.param([1j]), TypeError, ("data", "complex128")),
]
