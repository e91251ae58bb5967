"""Tensor's operators and methods: each is the operation of the same name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..tensor import Tensor
from . import (
    activation,
    arithmetic,
    choose,
    compare,
    functions,
    index,
    linalg,
    order,
    rearrange,
    reduce,
    rounding,
    scan,
    select,
    shape,
    sorting,
    statistics,
)
from .join import chunk, split


def _swapped(operation: Callable[[Any, Any], Tensor]) -> Callable[[Tensor, Any], Tensor]:
    """For `other + tensor`: the tensor is the right operand."""
    return lambda self, other: operation(other, self)


def _compared(operation: Callable[[Any, Any], Tensor]) -> Callable[[Tensor, Any], Any]:
    """== and != with None and text, which hold no numbers, are Python's own: False and True."""
    return lambda self, other: NotImplemented if other is None or isinstance(other, str) else operation(self, other)


OPERATORS: dict[str, Any] = {
    "__add__": arithmetic.add,
    "__sub__": arithmetic.sub,
    "__mul__": arithmetic.mul,
    "__truediv__": arithmetic.div,
    "__pow__": arithmetic.pow,
    "__matmul__": linalg.matmul,
    "__radd__": _swapped(arithmetic.add),
    "__rsub__": _swapped(arithmetic.sub),
    "__rmul__": _swapped(arithmetic.mul),
    "__rtruediv__": _swapped(arithmetic.div),
    "__rpow__": _swapped(arithmetic.pow),
    "__rmatmul__": _swapped(linalg.matmul),
    "__neg__": arithmetic.neg,
    "__pos__": lambda self: self,
    "__abs__": functions.abs,
    "__lt__": compare.lt,
    "__le__": compare.le,
    "__gt__": compare.gt,
    "__ge__": compare.ge,
    "__eq__": _compared(compare.eq),
    "__ne__": _compared(compare.ne),
    "__getitem__": index.getitem,
    "__setitem__": index.setitem,
    "mT": property(shape.matrix_transpose),
    "T": property(
        lambda self: shape.matrix_transpose(self) if len(self.shape) == 2 else shape.transpose(self),
        doc="All dimensions reversed: a view.",
    ),
    "chunk": chunk,
    "split": split,
}
METHODS = {
    activation: "log_softmax relu sigmoid softmax tanh",
    arithmetic: "pow",
    choose: "masked_fill",
    compare: "clamp",
    functions: "abs cos exp expm1 log log1p reciprocal rsqrt sign sin sqrt square",
    order: "argmax argmin max min",
    rearrange: "diag flip repeat roll tril triu",
    reduce: "broadcast_to mean sum",
    rounding: "ceil floor round trunc",
    scan: "cumsum",
    select: "gather scatter_add take",
    shape: "astype expand flatten permute reshape squeeze to transpose unsqueeze",
    sorting: "argsort sort topk",
    statistics: "logsumexp norm prod std var",
}
for name, operation in OPERATORS.items():
    setattr(Tensor, name, operation)
for module, names in METHODS.items():
    for name in names.split():
        setattr(Tensor, name, getattr(module, name))
