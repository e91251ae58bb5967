"""Running sums."""

from __future__ import annotations

from typing import Any

import numpy as np

import ggmlpy_ag as ag

from .calls import Makers
from .table import Draw, Op, Sample, axis_errors, normal, unary_errors

AXES: list[tuple[tuple[int, ...], int]] = [
    ((1,), 0),
    ((5,), -1),
    ((3, 7), 0),
    ((3, 7), 1),
    ((2, 3, 5), 1),
    ((2, 1, 3, 4), -4),
    ((2, 1, 3, 4), 2),
    ((31, 33), 0),
    ((31, 33), 1),
    ((257,), 0),  # longer than a block, and no multiple of one
    ((2, 192, 3), 1),
    ((2, 65), 1),
]


def _generate(draw: Draw) -> Sample:
    shape = draw.shape(least=1)
    return Sample((draw.floats(normal, *shape),), {"axis": draw.axis(len(shape))})


def _special() -> np.ndarray:
    nan, inf = np.nan, np.inf
    return np.array(
        [[1.0, inf, 2.0, -inf, 3.0], [1.0, nan, 2.0, inf, 1.0], [-0.0, -0.0, 1e30, -1e30, -0.0]], np.float32
    )


def _torch(torch: Any, x: Any, axis: int) -> Any:
    return torch.cumsum(x, axis)


OPS: list[Op] = [
    Op(
        name="cumsum",
        call=ag.cumsum,
        numpy=np.cumsum,
        torch=_torch,
        samples=[Sample((normal(*shape),), {"axis": axis}) for shape, axis in AXES],
        generate=_generate,
        special=[Sample((_special(),), {"axis": axis}) for axis in (0, 1)],
        errors=[*unary_errors("cumsum", lambda x: ag.cumsum(x, 0)), *axis_errors("cumsum", ag.cumsum)],
        sums=True,
    ),
]  # fmt: skip

CALLS: Makers = {"cumsum": lambda c: (ag.cumsum, c.operand(), c.one_of(-1, -1, c.axis()))}
