"""Tensor's operators and methods: each is the operation of the same name."""

from __future__ import annotations

from ..tensor import Tensor
from . import activation, elementwise, linalg, reduce, shape

Tensor.__add__ = elementwise.add  # type: ignore[method-assign]
Tensor.__sub__ = elementwise.sub  # type: ignore[method-assign]
Tensor.__mul__ = elementwise.mul  # type: ignore[method-assign]
Tensor.__truediv__ = elementwise.div  # type: ignore[method-assign]
Tensor.__pow__ = elementwise.pow  # type: ignore[method-assign]
Tensor.__matmul__ = linalg.matmul  # type: ignore[method-assign]
Tensor.__radd__ = lambda self, other: elementwise.add(other, self)  # type: ignore[method-assign]
Tensor.__rsub__ = lambda self, other: elementwise.sub(other, self)  # type: ignore[method-assign]
Tensor.__rmul__ = lambda self, other: elementwise.mul(other, self)  # type: ignore[method-assign]
Tensor.__rtruediv__ = lambda self, other: elementwise.div(other, self)  # type: ignore[method-assign]
Tensor.__rpow__ = lambda self, other: elementwise.pow(other, self)  # type: ignore[method-assign]
Tensor.__rmatmul__ = lambda self, other: linalg.matmul(other, self)  # type: ignore[method-assign]
Tensor.__neg__ = elementwise.neg  # type: ignore[method-assign]
Tensor.__pos__ = lambda self: self  # type: ignore[method-assign]
Tensor.__abs__ = elementwise.abs  # type: ignore[method-assign]
Tensor.__getitem__ = shape.getitem  # type: ignore[method-assign]
Tensor.mT = property(shape.matrix_transpose)  # type: ignore[method-assign, assignment]
Tensor.T = property(  # type: ignore[method-assign, assignment]
    lambda self: shape.matrix_transpose(self) if len(self.shape) == 2 else shape.transpose(self),
    doc="All dimensions reversed: a view.",
)

for module, names in (
    (activation, "log_softmax relu sigmoid softmax tanh"),
    (elementwise, "abs clamp exp log sqrt"),
    (reduce, "argmax mean sum"),
    (shape, "astype permute reshape to transpose"),
):
    for name in names.split():
        setattr(Tensor, name, getattr(module, name))
