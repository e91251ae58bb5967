"""Putting tensors together and taking them apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import ggmlpy_ag as ag

from .calls import Calls, Makers
from .table import Error, Op, Sample, normal, unary_errors


def _torch_pad(torch: Any, x: Any, widths: Sequence[tuple[int, int]]) -> Any:
    return torch.nn.functional.pad(x, [w for pair in reversed(widths) for w in pair])


OPS: list[Op] = [
    Op(
        name="pad",
        call=ag.pad,
        numpy=lambda x, widths: np.pad(x, widths) if widths else x,
        torch=_torch_pad,
        samples=[
            Sample((normal(*shape),), {"widths": widths})
            for shape, widths in [
                ((), []),
                ((1,), [(0, 1)]),
                ((5,), [(0, 0)]),
                ((5,), [(2, 1)]),
                ((3, 7), [(1, 0), (0, 2)]),
                ((3, 7), [(0, 0), (3, 3)]),
                ((2, 3, 5), [(1, 1), (0, 0), (1, 0)]),
                ((2, 1, 3, 5), [(1, 2), (0, 1), (2, 0), (1, 1)]),
                ((31, 33), [(1, 1), (1, 1)]),
            ]
        ],
        errors=[
            *unary_errors("pad", lambda x: ag.pad(x, [(1, 1), (1, 1)])),
            Error(lambda m: ag.pad(m(2, 3), [(1, 1)]), ValueError, ("pad", "(2, 3)", "2 pairs")),
            Error(lambda m: ag.pad(m(3), [(1, -1)]), ValueError, ("pad", "(3,)", "from 0", "-1")),
            Error(lambda m: ag.pad(m(3), [(1, 1, 1)]), ValueError, ("pad", "(3,)")),
            Error(lambda m: ag.pad(m(3), [(1, 2**31)]), ValueError, ("pad", str(2**31))),
            Error(lambda m: ag.pad(m(3), [(1.0, 1)]), TypeError, ("pad", "1.0")),
            Error(lambda m: ag.pad(m(3), 1), TypeError, ("pad", "1")),
            Error(lambda m: ag.pad(m(3), [1]), TypeError, ("pad", "1")),
        ],
    ),
]


def _widths(c: Calls, operand: Any) -> Any:
    def width() -> Any:
        return c.one_of(0, 0, 1, 2, 3, c.integer(), 1.5)

    n = c.one_of(np.ndim(operand), np.ndim(operand), 1) if isinstance(operand, ag.Tensor) else 2
    usual = [(c.one_of(0, 1, 2), c.one_of(0, 1)) for _ in range(n)]
    return c.one_of(usual, usual, [(width(), width()) for _ in range(n)], 1, [1], [(1,)], None, "ab")


CALLS: Makers = {"pad": lambda c: (ag.pad, x := c.operand(), _widths(c, x))}
