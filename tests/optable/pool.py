"""Pooling."""

from __future__ import annotations

from typing import Any

import numpy as np

import ggmlpy_ag as ag

from .calls import Calls, Makers
from .conv import spoilt, two
from .table import Draw, Error, Op, Sample, normal, unary_errors


def _windows(
    x: np.ndarray, kernel: Any, stride: Any, padding: Any, dilation: Any = 1
) -> list[list[tuple[slice, slice]]]:
    """The parts of the image that lie in each window."""
    (kh, kw), (s, t), (p, q), (d, e) = (
        two(kernel),
        two(kernel if stride is None else stride),
        two(padding),
        two(dilation),
    )

    def along(n: int, k: int, step: int, edge: int, spread: int) -> list[slice]:
        count = (n + 2 * edge - spread * (k - 1) - 1) // step + 1
        firsts = [i * step - edge for i in range(count)]
        return [slice(f if f >= 0 else f % spread, max(0, min(n, f + spread * (k - 1) + 1)), spread) for f in firsts]

    return [[(a, b) for b in along(x.shape[3], kw, t, q, e)] for a in along(x.shape[2], kh, s, p, d)]


def _max_pool2d(x: np.ndarray, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1) -> np.ndarray:
    rows = _windows(x, kernel_size, stride, padding, dilation)
    values = [[np.max(x[:, :, a, b], axis=(2, 3), initial=-np.inf) for a, b in row] for row in rows]
    return np.moveaxis(np.array(values), (0, 1), (2, 3))


def _avg_pool2d(
    x: np.ndarray, kernel_size: Any, stride: Any = None, padding: Any = 0, count_include_pad: bool = True
) -> np.ndarray:
    rows = _windows(x, kernel_size, stride, padding)
    area = np.prod(two(kernel_size))
    values = [
        [
            x[:, :, a, b].sum((2, 3)) / area if count_include_pad else x[:, :, a, b].mean((2, 3))
            for a, b in row
        ]
        for row in rows
    ]  # fmt: skip
    return np.moveaxis(np.array(values), (0, 1), (2, 3))


def _adaptive_avg_pool2d(x: np.ndarray, output_size: Any) -> np.ndarray:
    out = np.zeros((*x.shape[:2], *two(output_size)))
    (h, w), (m, n) = x.shape[2:], out.shape[2:]
    for i in range(m):
        for j in range(n):
            part = x[:, :, i * h // m : -(-(i + 1) * h // m), j * w // n : -(-(j + 1) * w // n)]
            out[:, :, i, j] = part.mean((2, 3))
    return out


MAX: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((1, 1, 2, 2), {"kernel_size": 2}),
    ((1, 1, 3, 4), {"kernel_size": 2}),
    ((2, 3, 5, 7), {"kernel_size": 2}),
    ((2, 3, 5, 7), {"kernel_size": (2, 3), "stride": 1}),
    ((2, 1, 7, 6), {"kernel_size": 3, "stride": 2, "padding": 1}),
    ((1, 2, 5, 5), {"kernel_size": 2, "stride": 3}),
    ((1, 2, 5, 5), {"kernel_size": (1, 2), "stride": (2, 1), "padding": (0, 1)}),
    ((2, 2, 7, 8), {"kernel_size": 2, "stride": 2, "padding": 1, "dilation": (2, 3)}),
    ((2, 2, 7, 8), {"kernel_size": (3, 2), "stride": 1, "dilation": 2}),
    ((2, 3, 4, 4), {"kernel_size": 1}),
    ((2, 3, 4, 5), {"kernel_size": (4, 5)}),
    ((1, 1, 3, 3), {"kernel_size": 2, "stride": 9}),
    ((1, 2, 31, 33), {"kernel_size": 3, "stride": 2, "padding": 1}),
]
AVERAGE: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((1, 1, 2, 2), {"kernel_size": 2}),
    ((1, 1, 3, 5), {"kernel_size": 2}),
    ((1, 2, 3, 4), {"kernel_size": (2, 3), "stride": 1}),
    ((1, 1, 4, 3), {"kernel_size": 3, "stride": 2, "padding": 1}),
    ((1, 1, 4, 3), {"kernel_size": 3, "stride": 2, "padding": 1, "count_include_pad": False}),
    ((1, 2, 5, 2), {"kernel_size": (1, 2), "stride": (3, 2), "padding": (0, 1)}),
    ((2, 3, 6, 4), {"kernel_size": (3, 2)}),
    ((2, 3, 4, 5), {"kernel_size": (4, 5)}),
    ((1, 1, 3, 3), {"kernel_size": 2, "stride": 9}),
    ((1, 2, 31, 33), {"kernel_size": 3, "stride": 2, "padding": 1}),
    ((1, 2, 31, 33), {"kernel_size": (17, 19), "stride": 1, "padding": (8, 5)}),  # more than are added in one go
    ((1, 2, 31, 33), {"kernel_size": (17, 19), "padding": (8, 5), "count_include_pad": False}),
]
ADAPTIVE: list[tuple[tuple[int, ...], Any]] = [
    ((1, 1, 2, 2), 1),
    ((1, 1, 4, 4), 2),
    ((1, 1, 3, 5), (2, 3)),
    ((1, 2, 3, 2), (3, 1)),
    ((1, 1, 2, 3), (3, 5)),
    ((2, 3, 6, 4), (3, 2)),
    ((2, 3, 7, 5), (3, 4)),
    ((2, 3, 7, 5), [7, 5]),
    ((1, 2, 31, 33), 1),
    ((1, 2, 31, 33), 7),
]


def _ties(*shape: int) -> np.ndarray:
    return np.asarray(np.random.default_rng(3).integers(-1, 2, shape), np.float32)


def _specials() -> np.ndarray:
    nan, inf, least = np.nan, np.inf, np.finfo(np.float32).min
    rows = [
        [1.0, 2.0, nan, 0.0, -inf, -inf, least, -inf],
        [3.0, inf, 1.0, 5.0, -inf, -inf, -inf, least],
        [-0.0, -0.0, -3.0, 0.0, -1.0, nan, nan, inf],
        [-0.0, -0.0, -4.0, 0.0, -2.0, -3.0, -inf, nan],
    ]
    return np.array(rows, np.float32).reshape(1, 1, 4, 8)


def _means_of_specials() -> np.ndarray:
    nan, inf = np.nan, np.inf
    rows = [[1.0, 2.0, nan, 0.0, -inf, 1.0, inf, -inf], [3.0, inf, 1.0, 5.0, -inf, -inf, 1e30, 1.0]]
    return np.array(rows, np.float32).reshape(1, 1, 2, 8)


def _draw_windows(draw: Draw, dilated: bool) -> tuple[np.ndarray, dict[str, Any]]:
    kernel = (draw.integer(1, 4), draw.integer(1, 4))
    dilation = (draw.integer(1, 3), draw.integer(1, 3)) if dilated else (1, 1)
    padding = tuple(draw.integer(0, k // 2) for k in kernel)
    size = [
        max(1, d * (k - 1) + 1 - p) + draw.integer(0, 6) for k, d, p in zip(kernel, dilation, padding, strict=True)
    ]  # at least one element of the image in each window
    options: dict[str, Any] = {"kernel_size": kernel, "padding": padding}
    if draw.one_of((True, True, False)):
        options["stride"] = (draw.integer(1, 4), draw.integer(1, 4))
    if dilated:
        options["dilation"] = dilation
    return draw.floats(normal, draw.integer(1, 3), draw.integer(1, 3), *size), options


def _draw_max(draw: Draw) -> Sample:
    x, options = _draw_windows(draw, dilated=True)
    return Sample((x,), options)


def _draw_average(draw: Draw) -> Sample:
    x, options = _draw_windows(draw, dilated=False)
    return Sample((x,), {**options, "count_include_pad": draw.one_of((False, True))})


def _draw_adaptive(draw: Draw) -> Sample:
    x = draw.floats(normal, *(draw.integer(1, n) for n in (2, 3, 9, 9)))
    return Sample((x,), {"output_size": (draw.integer(1, 9), draw.integer(1, 9))})


def _window_errors(name: str, function: Any) -> list[Error]:
    def call(kernel: Any = 2, **options: Any) -> Any:
        return lambda m: function(m(1, 2, 4, 5), kernel, **options)

    return [
        *unary_errors(name, lambda x: function(x, 2)),
        Error(lambda m: function(m(2, 3, 3), 2), ValueError, (name, "(2, 3, 3)", "(n, channels, h, w)")),
        Error(call(0), ValueError, (name, "kernel_size", "0")),
        Error(call(-2), ValueError, (name, "kernel_size", "-2")),
        Error(call(2.0), TypeError, (name, "kernel_size", "2.0")),
        Error(call(True), TypeError, (name, "kernel_size", "True")),
        Error(call(None), TypeError, (name, "None")),
        Error(call((1, 2, 3)), ValueError, (name, "kernel_size", "(1, 2, 3)")),
        Error(call(5), ValueError, (name, "(5, 5)", "(1, 2, 4, 5)", "larger")),
        Error(call(1 << 40), ValueError, (name, "kernel_size")),
        Error(call(stride=0), ValueError, (name, "stride", "0")),
        Error(call(stride=1 << 31), ValueError, (name, "stride")),
        Error(call(stride="x"), TypeError, (name, "stride", "x")),
        Error(call(padding=-1), ValueError, (name, "padding", "-1")),
        Error(call(padding=2), ValueError, (name, "padding (2, 2)", "half")),
        Error(call(padding=(0, 0.5)), TypeError, (name, "padding")),
    ]


OPS: list[Op] = [
    Op(
        name="max_pool2d",
        call=ag.max_pool2d,
        numpy=_max_pool2d,
        torch=lambda torch, x, **options: torch.nn.functional.max_pool2d(x, **options),
        samples=[Sample((normal(*shape),), options) for shape, options in MAX],
        keeps=(1, 1),
        generate=_draw_max,
        smooth=True,
        edges=[Sample((_ties(*shape),), options) for shape, options in MAX[2:]],
        special=[
            Sample((_specials(),), {"kernel_size": 2}),
            Sample((_specials(),), {"kernel_size": 1}),
            Sample((_specials(),), {"kernel_size": 3, "stride": 1, "padding": 1}),
            Sample((_specials(),), {"kernel_size": (1, 2), "dilation": (1, 2), "stride": 1}),
        ],
        errors=[
            *_window_errors("max_pool2d", ag.max_pool2d),
            Error(lambda m: ag.max_pool2d(m(1, 1, 4, 4), 2, dilation=0), ValueError, ("max_pool2d", "dilation", "0")),
            Error(
                lambda m: ag.max_pool2d(m(1, 1, 4, 4), 2, dilation=4), ValueError, ("max_pool2d", "(4, 4)", "larger")
            ),
            Error(lambda m: ag.max_pool2d(m(1, 1, 257, 128), (257, 128)), ValueError, ("max_pool2d", "2**15")),
        ],
        rtol=0.0,
    ),
    Op(
        name="avg_pool2d",
        call=ag.avg_pool2d,
        numpy=_avg_pool2d,
        torch=lambda torch, x, **options: torch.nn.functional.avg_pool2d(x, **options),
        samples=[Sample((normal(*shape),), options) for shape, options in AVERAGE],
        generate=_draw_average,
        smooth=True,
        special=[
            Sample((_means_of_specials(),), {"kernel_size": 2}),
            Sample((_means_of_specials(),), {"kernel_size": (2, 3), "stride": 1, "padding": 1}),
        ],
        errors=[
            *_window_errors("avg_pool2d", ag.avg_pool2d),
            Error(
                lambda m: ag.avg_pool2d(m(1, 1, 2, 2), 2, count_include_pad=1),
                TypeError,
                ("avg_pool2d", "count_include_pad"),
            ),
            Error(lambda m: ag.avg_pool2d(m(1, 1, 1, 40000), (1, 40000)), ValueError, ("avg_pool2d", "40000", "2**15")),
        ],
        sums=True,
    ),
    Op(
        name="adaptive_avg_pool2d",
        call=ag.adaptive_avg_pool2d,
        numpy=_adaptive_avg_pool2d,
        torch=lambda torch, x, output_size: torch.nn.functional.adaptive_avg_pool2d(x, output_size),
        samples=[Sample((normal(*shape),), {"output_size": size}) for shape, size in ADAPTIVE],
        generate=_draw_adaptive,
        smooth=True,
        errors=[
            *unary_errors("adaptive_avg_pool2d", lambda x: ag.adaptive_avg_pool2d(x, 1)),
            Error(lambda m: ag.adaptive_avg_pool2d(m(2, 3), 1), ValueError, ("adaptive_avg_pool2d", "(2, 3)")),
            Error(
                lambda m: ag.adaptive_avg_pool2d(m(1, 1, 3, 3), 0), ValueError, ("adaptive_avg_pool2d", "output_size")
            ),
            Error(lambda m: ag.adaptive_avg_pool2d(m(1, 1, 3, 3), 1.0), TypeError, ("adaptive_avg_pool2d", "1.0")),
            Error(
                lambda m: ag.adaptive_avg_pool2d(m(1, 1, 3, 3), (1, 2, 3)),
                ValueError,
                ("adaptive_avg_pool2d", "(1, 2, 3)"),
            ),
            Error(
                lambda m: ag.adaptive_avg_pool2d(m(1, 1, 3, 3), 1 << 20), ValueError, ("adaptive_avg_pool2d", "large")
            ),
            Error(
                lambda m: ag.adaptive_avg_pool2d(m(1, 1, 3, 5000), (1, 4000)),
                ValueError,
                ("adaptive_avg_pool2d", "5000"),
            ),
        ],
        sums=True,
    ),
]


def image(c: Calls) -> ag.Tensor:
    return c.window((c.one_of(1, 2), c.one_of(1, 3), c.one_of(1, 2, 3, 5, 8), c.one_of(1, 2, 3, 5, 8)))


def _right(c: Calls, x: ag.Tensor) -> tuple[Any, ...]:
    """Kernel size, stride and padding that fit."""
    kernel = tuple(c.one_of(*range(1, n + 1)) for n in x.shape[2:])
    return kernel, c.one_of(None, None, 1, 2, (3, 1)), tuple(c.one_of(0, k // 2) for k in kernel)


def _max_call(c: Calls) -> tuple[Any, ...]:
    x = image(c)
    return spoilt(c, ag.max_pool2d, x, *_right(c, x), c.one_of(1, 1, 2, (1, 3)))


def _average_call(c: Calls) -> tuple[Any, ...]:
    x = image(c)
    return spoilt(c, ag.avg_pool2d, x, *_right(c, x), c.one_of(True, False))


def size(c: Calls) -> Any:
    return c.one_of(1, 2, 3, 7, (1, 2), [2, 1], (8, 5))


CALLS: Makers = {
    "max_pool2d": _max_call,
    "avg_pool2d": _average_call,
    "adaptive_avg_pool2d": lambda c: spoilt(c, ag.adaptive_avg_pool2d, image(c), size(c)),
}
