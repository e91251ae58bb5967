"""Convolutions."""

from __future__ import annotations

from typing import Any

import numpy as np

import ggmlpy_ag as ag

from .calls import Calls, Makers
from .table import DEVICES, Draw, Error, Op, Sample, normal, uniform, wrong_operands


def two(value: Any) -> tuple[int, int]:
    """A number for each axis."""
    return (int(value[0]), int(value[-1])) if isinstance(value, (tuple, list)) else (int(value), int(value))


def _conv2d(
    x: np.ndarray,
    weight: np.ndarray,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> np.ndarray:
    """One product for each element of the kernel and each group."""
    (s, t), (d, e) = two(stride), two(dilation)
    out, inner, kh, kw = weight.shape
    if padding == "same":
        high, wide = d * (kh - 1), e * (kw - 1)
        edges = ((high // 2, high - high // 2), (wide // 2, wide - wide // 2))
    else:
        p, q = two(0 if padding == "valid" else padding)
        edges = ((p, p), (q, q))
    x = np.pad(x, ((0, 0), (0, 0), *edges))
    n, _, height, width = x.shape
    h, w = (height - d * (kh - 1) - 1) // s + 1, (width - e * (kw - 1) - 1) // t + 1
    result = np.zeros((n, out, h, w))
    share = out // groups
    for g in range(groups):
        image = x[:, g * inner : (g + 1) * inner]
        for i in range(kh):
            for j in range(kw):
                seen = image[:, :, i * d : i * d + (h - 1) * s + 1 : s, j * e : j * e + (w - 1) * t + 1 : t]
                part = weight[g * share : (g + 1) * share, :, i, j]
                result[:, g * share : (g + 1) * share] += np.einsum("nchw,oc->nohw", seen, part)
    return result if bias is None else result + bias.reshape(-1, 1, 1)


def _conv1d(
    x: np.ndarray, weight: np.ndarray, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> np.ndarray:  # fmt: skip
    pads = padding if isinstance(padding, str) else (0, two(padding)[1])
    steps, spread = (1, two(stride)[1]), (1, two(dilation)[1])
    return _conv2d(x[:, :, None], weight[:, :, None], bias, steps, pads, spread, groups)[:, :, 0]


def _conv_transpose2d(
    x: np.ndarray,
    weight: np.ndarray,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> np.ndarray:
    """Puts the kernel down once for each element of the image."""
    (s, t), (p, q), (a, b), (d, e) = two(stride), two(padding), two(output_padding), two(dilation)
    n, channels, h, w = x.shape
    _, outer, kh, kw = weight.shape
    inner = channels // groups
    whole = np.zeros((n, outer * groups, (h - 1) * s + d * (kh - 1) + a + 1, (w - 1) * t + e * (kw - 1) + b + 1))
    for c in range(channels):
        first = c // inner * outer
        for y in range(h):
            for z in range(w):
                ink = x[:, c, y, z].reshape(n, 1, 1, 1) * weight[c]
                whole[
                    :, first : first + outer, y * s : y * s + d * (kh - 1) + 1 : d, z * t : z * t + e * (kw - 1) + 1 : e
                ] += ink
    result = whole[:, :, p : whole.shape[2] - p, q : whole.shape[3] - q]
    return result if bias is None else result + bias.reshape(-1, 1, 1)


# Few different numbers of output channels: Vulkan has a kernel to compile for each up to 8.
CONV2D: list[tuple[tuple[tuple[int, ...], ...], dict[str, Any]]] = [
    (((1, 1, 3, 3), (1, 1, 2, 2)), {}),
    (((1, 2, 2, 3), (2, 1, 1, 2)), {"groups": 2, "padding": 1}),
    (((1, 1, 3, 4), (2, 1, 2, 1), (2,)), {"stride": 2}),
    (((2, 1, 2, 2), (1, 1, 2, 2)), {"padding": (1, 2), "stride": (3, 2), "dilation": (2, 1)}),
    (((1, 2, 1, 1), (2, 2, 1, 1), (2,)), {}),
    (((2, 3, 5, 6), (2, 3, 3, 3), (2,)), {}),
    (((1, 2, 7, 5), (3, 2, 3, 2)), {"stride": (2, 1), "padding": (1, 0)}),
    (((2, 2, 6, 6), (2, 1, 3, 3), (2,)), {"groups": 2, "padding": 1}),
    (((1, 2, 5, 5), (6, 1, 2, 2)), {"groups": 2, "stride": 2}),
    (((2, 4, 6, 5), (6, 2, 3, 3)), {"groups": 2, "stride": 2, "padding": 1}),
    (((1, 1, 9, 9), (2, 1, 3, 3)), {"dilation": (2, 3)}),
    (((2, 2, 7, 8), (2, 1, 2, 3)), {"groups": 2, "stride": (3, 2), "dilation": 2, "padding": 2}),
    (((1, 3, 4, 4), (2, 3, 1, 1)), {}),
    (((2, 3, 5, 4), (3, 3, 1, 1)), {"stride": 2}),
    (((2, 4, 3, 4), (6, 2, 1, 1)), {"groups": 2}),
    (((2, 2, 4, 5), (3, 2, 4, 5), (3,)), {}),
    (((1, 1, 4, 5), (1, 1, 2, 4)), {"padding": "same"}),
    (((1, 2, 4, 5), (2, 2, 3, 2)), {"padding": "same", "dilation": (1, 3)}),
    (((1, 1, 4, 5), (1, 1, 2, 4)), {"padding": "valid"}),
    (((1, 2, 3, 3), (2, 2, 2, 2)), {"stride": 7}),
    (((3, 9, 17, 19), (10, 9, 3, 3)), {"padding": 1}),
]
CONV1D: list[tuple[tuple[tuple[int, ...], ...], dict[str, Any]]] = [
    (((1, 1, 5), (1, 1, 2)), {}),
    (((2, 2, 3), (2, 1, 2), (2,)), {"groups": 2, "padding": 1}),
    (((1, 3, 9), (2, 3, 3)), {"stride": 2, "padding": 2}),
    (((2, 2, 11), (3, 2, 3), (3,)), {"dilation": 3}),
    (((1, 2, 6), (2, 2, 4)), {"padding": "same"}),
    (((2, 3, 7), (2, 3, 1)), {}),
    (((2, 5, 65), (9, 5, 7)), {"stride": [3], "padding": (3,)}),
]
TRANSPOSED: list[tuple[tuple[tuple[int, ...], ...], dict[str, Any]]] = [
    (((1, 1, 2, 3), (1, 1, 2, 2)), {}),
    (((1, 2, 2, 2), (2, 1, 1, 2)), {"groups": 2, "stride": 2}),
    (((1, 1, 3, 2), (1, 2, 2, 2), (2,)), {"padding": 1, "stride": 2, "output_padding": 1}),
    (((2, 1, 2, 2), (1, 1, 2, 1)), {"dilation": 3, "output_padding": (2, 1), "padding": (2, 0)}),
    (((2, 3, 4, 3), (3, 2, 3, 3), (2,)), {"stride": 2, "padding": 1, "output_padding": 1}),
    (((1, 2, 3, 4), (2, 3, 2, 3)), {"stride": (2, 3), "padding": (0, 2), "dilation": (2, 1)}),
    (((2, 4, 3, 3), (4, 3, 2, 2), (6,)), {"groups": 2, "stride": 3}),
    (((2, 2, 3, 3), (2, 1, 3, 3)), {"groups": 2, "padding": 1}),
    (((2, 2, 3, 3), (2, 1, 1, 1)), {"stride": 2}),
    (((2, 9, 7, 9), (9, 10, 3, 3)), {"stride": 2, "padding": 1, "output_padding": 1}),
]


def _samples(cases: list[tuple[tuple[tuple[int, ...], ...], dict[str, Any]]]) -> list[Sample]:
    return [Sample(tuple(normal(*shape) for shape in shapes), options) for shapes, options in cases]


def _with_specials() -> Sample:
    """An infinity and a NaN reach the windows that they lie in, and no other."""
    x = uniform(2, 2, 6, 7)
    x[0, 0, 2, 3], x[1, 1, 5, 0], x[1, 0, 0, 6] = np.inf, np.nan, -np.inf
    return Sample((x, uniform(2, 2, 3, 3)), {"padding": 1})


def _draw(draw: Draw) -> Sample:
    groups = draw.integer(1, 3)
    inner, outer = draw.integer(1, 3), draw.integer(1, 2)
    kernel = (draw.integer(1, 3), draw.integer(1, 4))
    stride, dilation = [(draw.integer(1, 3), draw.integer(1, 3)) for _ in range(2)]
    padding = (draw.integer(0, 2), draw.integer(0, 2))
    size = [
        max(1, d * (k - 1) + 1 - 2 * p) + draw.integer(0, 5)
        for k, d, p in zip(kernel, dilation, padding, strict=True)
    ]  # fmt: skip
    operands = [
        draw.floats(normal, draw.integer(1, 3), groups * inner, *size),
        draw.floats(normal, groups * outer, inner, *kernel),
    ]
    if draw.one_of((False, True)):
        operands.append(draw.floats(normal, groups * outer))
    return Sample(tuple(operands), {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups})


def _draw_1d(draw: Draw) -> Sample:
    sample = _draw(draw)
    x, weight, *bias = sample.operands
    options = {name: v[1] if isinstance(v, tuple) else v for name, v in sample.options.items()}
    return Sample((x[:, :, 0], weight[:, :, 0], *bias), options)


def _draw_transposed(draw: Draw) -> Sample:
    groups = draw.integer(1, 3)
    inner, outer = draw.integer(1, 2), draw.integer(1, 3)
    size, kernel = (draw.integer(1, 4), draw.integer(1, 4)), (draw.integer(1, 3), draw.integer(1, 4))
    stride, dilation = [(draw.integer(1, 3), draw.integer(1, 3)) for _ in range(2)]
    more = tuple(draw.integer(0, max(s, d) - 1) for s, d in zip(stride, dilation, strict=True))
    padding = tuple(
        min(draw.integer(0, 2), ((n - 1) * s + d * (k - 1) + m) // 2)
        for n, s, d, k, m in zip(size, stride, dilation, kernel, more, strict=True)
    )
    operands = [
        draw.floats(normal, draw.integer(1, 2), groups * inner, *size),
        draw.floats(normal, groups * inner, outer, *kernel),
    ]
    if draw.one_of((False, True)):
        operands.append(draw.floats(normal, groups * outer))
    options = {"stride": stride, "padding": padding, "output_padding": more, "dilation": dilation, "groups": groups}
    return Sample(tuple(operands), options)


def _step_errors(name: str, call: Any) -> list[Error]:
    """`call(maker, **options)` with a wrong stride, padding and so on."""
    return [
        Error(lambda m: call(m, stride=0), ValueError, (name, "stride", "0")),
        Error(lambda m: call(m, stride=-1), ValueError, (name, "stride", "-1")),
        Error(lambda m: call(m, stride=1.0), TypeError, (name, "stride", "1.0")),
        Error(lambda m: call(m, stride=True), TypeError, (name, "stride", "True")),
        Error(lambda m: call(m, stride=(1, 2, 3)), ValueError, (name, "stride", "(1, 2, 3)")),
        Error(lambda m: call(m, stride=10**30), ValueError, (name, "stride", "2**31 - 1")),
        Error(lambda m: call(m, padding=-1), ValueError, (name, "padding", "-1")),
        Error(lambda m: call(m, padding=1 << 31), ValueError, (name, "padding")),
        Error(lambda m: call(m, padding=(1 << 31) - 1, dilation=(1 << 31) - 1), ValueError, (name,)),
        Error(lambda m: call(m, padding="full"), TypeError, (name, "padding", "full")),
        Error(lambda m: call(m, dilation=0), ValueError, (name, "dilation", "0")),
        Error(lambda m: call(m, dilation=None), TypeError, (name, "None")),
        Error(lambda m: call(m, groups=0), ValueError, (name, "groups", "0")),
        Error(lambda m: call(m, groups=2.0), TypeError, (name, "groups", "2.0")),
    ]


OPS: list[Op] = [
    Op(
        name="conv2d",
        call=ag.conv2d,
        numpy=_conv2d,
        torch=lambda torch, *operands, **options: torch.nn.functional.conv2d(*operands, **options),
        samples=_samples(CONV2D),
        keeps=(1, 0),
        generate=_draw,
        smooth=True,
        special=[_with_specials()],
        errors=[
            *wrong_operands("conv2d", ag.conv2d, lambda m: m(1, 2, 3, 3), lambda m: m(2, 2, 2, 2)),
            *_step_errors("conv2d", lambda m, **options: ag.conv2d(m(1, 2, 3, 3), m(2, 2, 2, 2), **options)),
            Error(lambda m: ag.conv2d(m(2, 3, 3), m(2, 2, 2, 2)), ValueError, ("conv2d", "(2, 3, 3)", "(n, channels")),
            Error(
                lambda m: ag.conv2d(m(1, 2, 3, 3), m(2, 2, 2)), ValueError, ("conv2d", "(2, 2, 2)", "(out, channels")
            ),
            Error(lambda m: ag.conv2d(m(1, 2, 3, 3), m(2, 3, 2, 2)), ValueError, ("conv2d", "(2, 3, 2, 2)")),
            Error(lambda m: ag.conv2d(m(1, 4, 3, 3), m(3, 2, 2, 2), groups=2), ValueError, ("conv2d", "groups=2")),
            Error(lambda m: ag.conv2d(m(1, 2, 3, 3), m(2, 2, 2, 2), groups=2), ValueError, ("conv2d", "groups=2")),
            Error(lambda m: ag.conv2d(m(1, 2, 3, 3), m(2, 2, 2, 2), m(3)), ValueError, ("conv2d", "bias (3,)")),
            Error(lambda m: ag.conv2d(m(1, 2, 3, 3), m(2, 2, 2, 2), m(1, 2)), ValueError, ("conv2d", "bias (1, 2)")),
            Error(lambda m: ag.conv2d(m(1, 1, 3, 3), m(1, 1, 4, 1)), ValueError, ("conv2d", "(1, 1, 4, 1)", "larger")),
            Error(
                lambda m: ag.conv2d(m(1, 1, 3, 3), m(1, 1, 2, 2), dilation=(1, 3)),
                ValueError,
                ("conv2d", "dilation (1, 3)", "larger"),
            ),
            Error(
                lambda m: ag.conv2d(m(1, 1, 3, 3), m(1, 1, 2, 2), stride=2, padding="same"),
                ValueError,
                ("conv2d", "same", "stride"),
            ),
            Error(
                lambda m: ag.conv2d(m(1, 1, 1, 1), m(1, 1, 1, 1), padding=3000), ValueError, ("conv2d", "6001", "large")
            ),
            Error(
                lambda m: ag.conv2d(m(1, 2, 3, 3), m.elsewhere(2, 2, 2, 2)),
                ValueError,
                ("conv2d", *DEVICES[:2]),
                devices=2,
            ),
        ],
        sums=True,
    ),
    Op(
        name="conv1d",
        call=ag.conv1d,
        numpy=_conv1d,
        torch=lambda torch, *operands, **options: torch.nn.functional.conv1d(*operands, **options),
        samples=_samples(CONV1D),
        keeps=(1, 0),
        generate=_draw_1d,
        smooth=True,
        errors=[
            *wrong_operands("conv1d", ag.conv1d, lambda m: m(1, 2, 3), lambda m: m(2, 2, 2)),
            Error(lambda m: ag.conv1d(m(1, 2, 3, 3), m(2, 2, 2)), ValueError, ("conv1d", "(1, 2, 3, 3)", "length")),
            Error(lambda m: ag.conv1d(m(1, 2, 3), m(2, 2, 2), m(3)), ValueError, ("conv1d", "bias (3,)")),
            Error(lambda m: ag.conv1d(m(1, 2, 3), m(2, 2, 4)), ValueError, ("conv1d", "(2, 2, 4)", "larger")),
            Error(lambda m: ag.conv1d(m(1, 2, 3), m(2, 2, 2), stride=0), ValueError, ("conv1d", "stride")),
            Error(lambda m: ag.conv1d(m(1, 2, 3), m(2, 2, 2), stride=(1, 1)), ValueError, ("conv1d", "stride")),
            Error(lambda m: ag.conv1d(m(1, 2, 3), m(2, 2, 2), padding=-1), ValueError, ("conv1d", "padding")),
            Error(lambda m: ag.conv1d(m(1, 2, 3), m(2, 2, 2), dilation="x"), TypeError, ("conv1d", "dilation", "x")),
            Error(lambda m: ag.conv1d(m(1, 2, 3), m(2, 2, 2), groups=3), ValueError, ("conv1d", "groups=3")),
        ],
        sums=True,
    ),
    Op(
        name="conv_transpose2d",
        call=ag.conv_transpose2d,
        numpy=_conv_transpose2d,
        torch=lambda torch, *operands, **options: torch.nn.functional.conv_transpose2d(*operands, **options),
        samples=_samples(TRANSPOSED),
        keeps=(1, 0),
        generate=_draw_transposed,
        smooth=True,
        errors=[
            *wrong_operands("conv_transpose2d", ag.conv_transpose2d, lambda m: m(1, 2, 3, 3), lambda m: m(2, 2, 2, 2)),
            *_step_errors(
                "conv_transpose2d", lambda m, **options: ag.conv_transpose2d(m(1, 2, 3, 3), m(2, 2, 2, 2), **options)
            ),
            Error(
                lambda m: ag.conv_transpose2d(m(1, 2, 3, 3), m(3, 2, 2, 2)),
                ValueError,
                ("conv_transpose2d", "(3, 2, 2, 2)", "(channels, out / groups"),
            ),
            Error(
                lambda m: ag.conv_transpose2d(m(1, 2, 3, 3), m(2, 2, 2, 2), m(4), groups=3),
                ValueError,
                ("conv_transpose2d", "groups=3"),
            ),
            Error(
                lambda m: ag.conv_transpose2d(m(1, 2, 3, 3), m(2, 2, 2, 2), m(2), groups=2),
                ValueError,
                ("conv_transpose2d", "bias (2,)"),
            ),
            Error(
                lambda m: ag.conv_transpose2d(m(1, 1, 2, 2), m(1, 1, 2, 2), output_padding=1),
                ValueError,
                ("conv_transpose2d", "output_padding", "less than"),
            ),
            Error(
                lambda m: ag.conv_transpose2d(m(1, 1, 2, 2), m(1, 1, 2, 2), padding=(0, 2)),
                ValueError,
                ("conv_transpose2d", "padding (0, 2)", "3 x -1"),
            ),
            Error(
                lambda m: ag.conv_transpose2d(m(1, 1, 2, 2), m(1, 1, 2, 2), stride=1 << 30),
                ValueError,
                ("conv_transpose2d", "large"),
            ),
        ],
        sums=True,
    ),
]


def spoilt(c: Calls, *arguments: Any) -> tuple[Any, ...]:
    """The arguments of a right call; or, as often, one of them something else."""
    changed = list(arguments)
    if c.one_of(False, True):
        place = c.one_of(*range(1, len(changed)))
        wrong = (c.integer(), (c.integer(), 1), (1, c.integer()), [2, 2], (1, 1, 1), (), 1.5, None, "x", "same", True)
        changed[place] = c.one_of(c.operand(), *wrong)
    return tuple(changed)


def _right(c: Calls, axes: int) -> tuple[Any, ...]:
    """x, weight, bias, stride, padding, dilation and groups that fit."""
    groups, inner, outer = c.one_of(1, 1, 2, 3), c.one_of(1, 2), c.one_of(1, 2)
    kernel, stride, dilation = [tuple(c.one_of(1, 1, 2, 3) for _ in range(axes)) for _ in range(3)]
    padding = tuple(c.one_of(0, 0, 1, 2) for _ in range(axes))
    size = tuple(
        max(1, d * (k - 1) + 1 - 2 * p) + c.one_of(0, 1, 2, 5)
        for k, d, p in zip(kernel, dilation, padding, strict=True)
    )
    x, weight = c.window((c.one_of(1, 2), groups * inner, *size)), c.window((groups * outer, inner, *kernel))
    return x, weight, c.one_of(None, c.window((groups * outer,))), stride, padding, dilation, groups


def _conv_call(c: Calls, axes: int) -> tuple[Any, ...]:
    x, weight, bias, stride, padding, dilation, groups = _right(c, axes)
    edges = c.one_of(padding, padding, padding, "same", "valid")
    return spoilt(c, ag.conv2d if axes == 2 else ag.conv1d, x, weight, bias, stride, edges, dilation, groups)


def _transposed_call(c: Calls) -> tuple[Any, ...]:
    groups, inner, outer = c.one_of(1, 1, 2, 3), c.one_of(1, 2), c.one_of(1, 2)
    kernel, stride, dilation = [tuple(c.one_of(1, 1, 2, 3) for _ in range(2)) for _ in range(3)]
    x = c.window((c.one_of(1, 2), groups * inner, c.one_of(1, 2, 3), c.one_of(1, 2, 5)))
    weight = c.window((groups * inner, outer, *kernel))
    bias = c.one_of(None, c.window((groups * outer,)))
    return spoilt(c, ag.conv_transpose2d, x, weight, bias, stride, c.one_of(0, 0, 1), 0, groups, dilation)


CALLS: Makers = {
    "conv2d": lambda c: _conv_call(c, 2),
    "conv1d": lambda c: _conv_call(c, 1),
    "conv_transpose2d": _transposed_call,
}
