"""Tensor's operators and methods: each is the operation of the same name."""

from __future__ import annotations

from ..tensor import Tensor
from . import activation, arithmetic, compare, functions, index, linalg, order, reduce, shape

Tensor.__add__ = arithmetic.add  # type: ignore[method-assign]
Tensor.__sub__ = arithmetic.sub  # type: ignore[method-assign]
Tensor.__mul__ = arithmetic.mul  # type: ignore[method-assign]
Tensor.__truediv__ = arithmetic.div  # type: ignore[method-assign]
Tensor.__pow__ = arithmetic.pow  # type: ignore[method-assign]
Tensor.__matmul__ = linalg.matmul  # type: ignore[method-assign]
Tensor.__radd__ = lambda self, other: arithmetic.add(other, self)  # type: ignore[method-assign]
Tensor.__rsub__ = lambda self, other: arithmetic.sub(other, self)  # type: ignore[method-assign]
Tensor.__rmul__ = lambda self, other: arithmetic.mul(other, self)  # type: ignore[method-assign]
Tensor.__rtruediv__ = lambda self, other: arithmetic.div(other, self)  # type: ignore[method-assign]
Tensor.__rpow__ = lambda self, other: arithmetic.pow(other, self)  # type: ignore[method-assign]
Tensor.__rmatmul__ = lambda self, other: linalg.matmul(other, self)  # type: ignore[method-assign]
Tensor.__neg__ = arithmetic.neg  # type: ignore[method-assign]
Tensor.__pos__ = lambda self: self  # type: ignore[method-assign]
Tensor.__abs__ = functions.abs  # type: ignore[method-assign]
Tensor.__getitem__ = index.getitem  # type: ignore[method-assign]
Tensor.mT = property(shape.matrix_transpose)  # type: ignore[method-assign, assignment]
Tensor.T = property(  # type: ignore[method-assign, assignment]
    lambda self: shape.matrix_transpose(self) if len(self.shape) == 2 else shape.transpose(self),
    doc="All dimensions reversed: a view.",
)

for module, names in (
    (activation, "log_softmax relu sigmoid softmax tanh"),
    (functions, "abs exp log sqrt"),
    (compare, "clamp"),
    (reduce, "mean sum"),
    (order, "argmax"),
    (shape, "astype permute reshape to transpose"),
):
    for name in names.split():
        setattr(Tensor, name, getattr(module, name))
