"""The op table: what is known about each public operation. A file a family, as in `ggmlpy_ag/ops/`.

An entry (table.py: Op) holds calls that are right (samples), what NumPy makes of them in float64, what PyTorch makes
of them, how exact the result is, where it deviates from NumPy and why, what the tape keeps for it, and calls that are
wrong with the error each raises. test_ops.py, test_errors.py, test_hypothesis.py and scripts/conformance.py make their
checks from it; an operation without an entry fails the tests. `CALLS` are random calls, right and wrong ones, for
test_no_abort.py.
"""

from . import (
    activation,
    arithmetic,
    attention,
    batchnorm,
    choose,
    classification,
    compare,
    contraction,
    conv,
    functions,
    gated,
    index,
    join,
    linalg,
    loss,
    making,
    normalization,
    order,
    pool,
    probability,
    random,
    rearrange,
    reduce,
    resize,
    rotary,
    rounding,
    scan,
    select,
    shape,
    sorting,
    statistics,
    swish,
)
from .table import DEVICES, Deviation, Draw, Error, Maker, Op, Sample

FAMILIES = {
    module.__name__.rpartition(".")[2]: module
    for module in (
        arithmetic, functions, rounding, compare, choose, activation, swish, gated, linalg, contraction, reduce,
        statistics, scan, order, sorting, select, shape, join, rearrange, index, normalization, batchnorm, attention,
        conv, pool, resize, rotary, probability, classification, loss, random,
    )
}  # fmt: skip
OPS: list[Op] = [op for module in FAMILIES.values() for op in module.OPS]
BY_NAME = {op.name: op for op in OPS}
CALLS = {name: make for module in FAMILIES.values() for name, make in module.CALLS.items()}
MAKING_ERRORS = making.MAKING_ERRORS

__all__ = ["BY_NAME", "CALLS", "DEVICES", "FAMILIES", "MAKING_ERRORS", "OPS", "Deviation", "Draw", "Error", "Maker",
           "Op", "Sample"]  # fmt: skip
