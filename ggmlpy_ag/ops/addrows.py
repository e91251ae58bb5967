"""Rows added up by index: the adjoint of picking them. On arrays, below the tape; no operations."""

from __future__ import annotations

from ..backend import primitives as prim
from ..backend.array import FLOAT, INT, Array
from . import base
from .base import binary, cast, counting, expanded, packed, scaled, unary
from .moving import cut, joined, padded
from .rows import EXACT, argsort, concat, pick, pick_along

DIRECT_WORK = 1 << 27  # on Vulkan, of ggml's get_rows_back, which reads all indices again for each element it makes
DIRECT_ROWS = 1 << 15  # ... in one go: a loop in a shader of Mesa's llvmpipe ends, silently, after 65,535 rounds
COLUMNS = 1 << 23  # ... of its largest launch


def add_up(rows: Array, index: Array, n: int) -> Array:
    """The adjoint of `pick`: packed (batch, k, columns) float32 and (batch, k) -> (batch, n, columns).

    Row i of the result is the sum of the rows whose index is i: in their order on the CPU; elsewhere perhaps in
    another order, which is the same each time.
    """
    batch, k, columns = rows.shape
    device = rows.device
    if columns > COLUMNS and not device.is_cpu:
        parts = [cut(rows, 2, start, min(start + COLUMNS, columns)) for start in range(0, columns, COLUMNS)]
        return joined([add_up(packed(part), index, n) for part in parts], 2)
    work = batch * n * batch * k * max(columns, 32)  # a GPU computes 32 columns as fast as one
    if work > DIRECT_WORK and n + k <= EXACT // 2 and not device.is_cpu:
        return _add_up_sorted(rows, index, n)
    if batch > 1 and batch * n > EXACT:  # row numbers over all batches are computed in float32
        half = batch // 2
        halves = [(0, half), (half, batch)]
        return joined([add_up(cut(rows, 0, *ends), cut(index, 0, *ends), n) for ends in halves], 0)
    if batch > 1:
        first = scaled(counting("add_up", device, batch), float(n)).reshaped((batch, 1))
        index = cast(binary("add_up", prim.ADD, cast(index, FLOAT), first), INT)
    sums = _add_up_directly(rows.reshaped((batch * k, columns)), index.reshaped((batch * k,)), batch * n)
    return sums.reshaped((batch, n, columns))


def _add_up_directly(rows: Array, index: Array, n: int) -> Array:
    k, columns = rows.shape
    step = k if rows.device.is_cpu else DIRECT_ROWS
    total: Array | None = None
    for start in range(0, k, step):
        operands = [cut(a, 0, start, min(start + step, k)) for a in (rows, index)]
        part = rows.device.graph.record(prim.GET_ROWS_BACK, operands, (n, columns), FLOAT, n, columns)
        total = part if total is None else binary("add_up", prim.ADD, total, part)
    assert total is not None
    return total


def _add_up_sorted(rows: Array, index: Array, n: int) -> Array:
    """In k log(k) steps: rows of one index are put side by side, and added to one another in log2(k) rounds.

    Nothing is multiplied by 0 on the way, which would make NaN of an infinity that belongs to another row.
    """
    batch, k, _ = rows.shape
    device = rows.device
    order = argsort(cast(index, FLOAT))
    value = cast(pick_along(index, order), FLOAT)
    total = pick(rows, order)  # becomes, for each row, the sum of those before it with its index, and itself
    step = 1
    while step < k:
        same = base.equal_mask(packed(cut(value, 1, step, k)), cut(value, 1, 0, k - step))
        number = scaled(counting("add_up", device, k - step), 1.0, 1.0)
        before = padded(binary("add_up", prim.MUL, same, number), [(0, 0), (step, 0)])  # 0 is a row of zeros
        total = binary("add_up", prim.ADD, total, pick(_after_zeros(total), cast(before, INT)))
        step *= 2
    # The place of 2 * i + 1 among all 2 * index tells how many indices are at most i: where the last of its rows is.
    odd = scaled(counting("add_up", device, n), 2.0, 1.0)
    keys = concat(scaled(cast(index, FLOAT), 2.0), expanded(odd, (batch, n)), 1)
    places = cast(argsort(cast(argsort(keys), FLOAT)), FLOAT)  # the inverse of a permutation is its order
    last = binary("add_up", prim.SUB, packed(cut(places, 1, k, k + n)), counting("add_up", device, n))
    earlier = cut(padded(last, [(0, 0), (1, 0)]), 1, 0, n)
    some = unary(prim.SGN, binary("add_up", prim.SUB, last, earlier))  # 0 where no row has that index
    return pick(_after_zeros(total), cast(binary("add_up", prim.MUL, last, some), INT))


def _after_zeros(a: Array) -> Array:
    return padded(a, [(0, 0), (1, 0), (0, 0)])
