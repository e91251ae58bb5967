"""Images made larger or smaller."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import ggmlpy_ag as ag

from .calls import Calls, Makers
from .conv import spoilt, two
from .pool import image, size
from .table import SPECIAL, Draw, Error, Op, Sample, normal, unary_errors


def _upsample(
    x: np.ndarray, scale_factor: Any = None, size: Any = None, mode: str = "nearest", align_corners: bool = False
) -> np.ndarray:
    """Place by place."""
    before = x.shape[2:]
    after = two(size) if size is not None else tuple(n * f for n, f in zip(before, two(scale_factor), strict=True))
    out = np.zeros((*x.shape[:2], *after))
    for i in range(after[0]):
        for j in range(after[1]):
            places = []
            for place, n, m in zip((i, j), before, after, strict=True):
                if mode == "nearest":
                    places.append([(place * n // m, 1.0)])
                    continue
                if align_corners:
                    at = place * (n - 1) / (m - 1) if m > 1 else 0.0
                else:
                    at = max(0.0, (place + 0.5) * n / m - 0.5)
                low = min(math.floor(at), n - 1)
                places.append([(low, 1.0 - (at - low)), (min(low + 1, n - 1), at - low)])
            parts = [x[:, :, a, b] * (u * v) for a, u in places[0] for b, v in places[1]]
            out[:, :, i, j] = np.sum(parts, axis=0) if len(parts) > 1 else parts[0]
    return out


def _torch_upsample(torch: Any, x: Any, mode: str = "nearest", align_corners: bool = False, **options: Any) -> Any:
    corners = align_corners if mode == "bilinear" else None
    return torch.nn.functional.interpolate(x, mode=mode, align_corners=corners, **options)


SIZES: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((1, 1, 2, 3), {"scale_factor": 2}),
    ((1, 2, 3, 1), {"size": (2, 4)}),
    ((1, 1, 2, 2), {"size": 3}),
    ((2, 3, 4, 5), {"scale_factor": (1, 3)}),
    ((2, 3, 4, 5), {"size": (2, 11)}),
    ((2, 1, 5, 7), {"size": 3}),
    ((2, 1, 5, 7), {"size": [5, 7]}),
    ((2, 1, 5, 7), {"size": (10, 14)}),
    ((1, 3, 4, 4), {"size": 1}),
    ((1, 2, 31, 33), {"size": (33, 65)}),
]
MODES: list[dict[str, Any]] = [{"mode": "bilinear"}, {}, {"mode": "bilinear", "align_corners": True}]


def _draw(draw: Draw) -> Sample:
    x = draw.floats(normal, *(draw.integer(1, n) for n in (2, 3, 6, 6)))
    options = dict(draw.one_of(MODES))
    if draw.one_of((False, True)):
        options["size"] = (draw.integer(1, 9), draw.integer(1, 9))
    else:
        options["scale_factor"] = draw.one_of((1, 2, 3, (2, 1), [1, 3]))
    return Sample((x,), options)


OPS: list[Op] = [
    Op(
        name="upsample",
        call=ag.upsample,
        numpy=_upsample,
        torch=_torch_upsample,
        samples=[Sample((normal(*shape),), {**options, **mode}) for shape, options in SIZES for mode in MODES],
        generate=_draw,
        smooth=True,
        special=[
            Sample((SPECIAL.reshape(1, 1, 1, -1),), {"scale_factor": 2}),
            Sample((SPECIAL.reshape(1, 1, -1, 1),), {"size": (13, 2)}),
        ],
        errors=[
            *unary_errors("upsample", lambda x: ag.upsample(x, 2)),
            Error(lambda m: ag.upsample(m(1, 1, 3, 3), 2, align_corners=[]), TypeError, ("upsample", "align_corners")),
            Error(lambda m: ag.upsample(m(1, 1, 3, 3), 2, mode=np.ones(2)), ValueError, ("upsample", "mode")),
            Error(lambda m: ag.upsample(m(2, 3, 3), 2), ValueError, ("upsample", "(2, 3, 3)", "(n, channels, h, w)")),
            Error(lambda m: ag.upsample(m(1, 1, 3, 3)), ValueError, ("upsample", "scale_factor or size")),
            Error(lambda m: ag.upsample(m(1, 1, 3, 3), 2, 6), ValueError, ("upsample", "one of them")),
            Error(lambda m: ag.upsample(m(1, 1, 3, 3), 0), ValueError, ("upsample", "scale_factor", "0")),
            Error(lambda m: ag.upsample(m(1, 1, 3, 3), -2), ValueError, ("upsample", "scale_factor", "-2")),
            Error(lambda m: ag.upsample(m(1, 1, 3, 3), 1.5), TypeError, ("upsample", "scale_factor", "1.5")),
            Error(lambda m: ag.upsample(m(1, 1, 3, 3), 10**30), ValueError, ("upsample", "scale_factor")),
            Error(lambda m: ag.upsample(m(1, 1, 3, 3), "2"), TypeError, ("upsample", "'2'")),
            Error(lambda m: ag.upsample(m(1, 1, 3, 3), (1, 2, 3)), ValueError, ("upsample", "(1, 2, 3)")),
            Error(lambda m: ag.upsample(m(1, 1, 3, 3), True), TypeError, ("upsample", "True")),
            Error(lambda m: ag.upsample(m(1, 1, 3, 3), size=0), ValueError, ("upsample", "size", "0")),
            Error(lambda m: ag.upsample(m(1, 1, 3, 3), size=2.0), TypeError, ("upsample", "size", "2.0")),
            Error(lambda m: ag.upsample(m(1, 1, 3, 3), size=1 << 20), ValueError, ("upsample", "1048576 x 1048576")),
            Error(lambda m: ag.upsample(m(1, 1, 3, 3), 2, mode="cubic"), ValueError, ("upsample", "cubic")),
            Error(
                lambda m: ag.upsample(m(1, 1, 3, 3), 2, align_corners=True), ValueError, ("upsample", "align_corners")
            ),
            Error(
                lambda m: ag.upsample(m(1, 1, 1, 5000), (1, 2), mode="bilinear"),
                ValueError,
                ("upsample", "5000 places"),
            ),
        ],
        sums=True,
    ),
]


def _call(c: Calls) -> tuple[Any, ...]:
    factor = c.one_of(1, 2, 3, (2, 1), [1, 4])
    by_factor = c.one_of(True, False)
    mode = c.one_of("nearest", "bilinear", "bilinear")
    corners = mode == "bilinear" and c.one_of(True, False)
    sizes = (factor, None) if by_factor else (None, size(c))
    return spoilt(c, ag.upsample, image(c), *sizes, mode, corners)


CALLS: Makers = {"upsample": _call}
