"""Losses of classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import ggmlpy_ag as ag

from .calls import Calls, Makers
from .loss import REDUCTIONS, reduced, reduction, reduction_errors
from .table import DEVICES, Draw, Error, Op, Sample, labels, normal, uniform, wrong_operands


def _log_softmax(x: np.ndarray, axis: int) -> np.ndarray:
    shifted = x - x.max(axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))


def _axis(x: Any) -> int:
    return min(1, x.ndim - 1)


def _expected(
    log_p: np.ndarray,
    target: Any,
    weight: Any = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> Any:
    """From the definition: what every logarithm counts, written out for all classes."""
    axis = _axis(log_p)
    classes = log_p.shape[axis]
    target = np.asarray(target)
    factors = np.ones(classes) if weight is None else np.asarray(weight, np.float64)
    factors = factors.reshape(-1, *(1,) * (log_p.ndim - 1 - axis))
    if target.shape == log_p.shape:
        counts, divisor = target, log_p.size / classes
        kept: Any = True
    else:
        kept = target != ignore_index
        index = np.expand_dims(np.where(kept, target, 0), axis)
        counts = np.zeros(log_p.shape)
        np.put_along_axis(counts, index, 1.0, axis)
        divisor = np.sum(np.where(kept, np.sum(counts * factors, axis), 0.0))
    counts = (counts * (1.0 - label_smoothing) + label_smoothing / classes) * factors
    terms = np.where(kept, -np.sum(np.where(counts == 0, 0.0, counts * log_p), axis), 0.0)
    return np.sum(terms) / divisor if reduction == "mean" else reduced(terms, reduction)


def _cross_entropy(logits: np.ndarray, target: Any, **options: Any) -> Any:
    return _expected(_log_softmax(logits, _axis(logits)), target, **options)


def _torch(name: str) -> Callable[..., Any]:
    def call(torch: Any, x: Any, target: Any, **options: Any) -> Any:
        if not isinstance(target, torch.Tensor):
            target = torch.tensor(target)
        if "weight" in options:
            options["weight"] = torch.tensor(options["weight"], dtype=x.dtype)
        return getattr(torch.nn.functional, name)(x, target, **options)

    return call


def _some_ignored(n: int, classes: int, ignored: int) -> np.ndarray:
    found = labels(n, classes)
    found[::3] = ignored
    return found


def _index_samples() -> Iterator[Sample]:
    for n, classes in [(1, 1), (3, 7), (31, 33), (257, 3), (2, 257)]:
        yield Sample((normal(n, classes), labels(n, classes)))
    yield Sample((normal(5), np.asarray(np.int32(3))))
    yield Sample((normal(3, 5), [4, 0, 2]))
    yield Sample((normal(2, 3, 2, 5), labels(20, 3).reshape(2, 2, 5)), {"weight": [0.5, 2.0, 0.25]})
    yield Sample((normal(2, 3, 5), _some_ignored(10, 3, -100).reshape(2, 5)), {"reduction": "none"})
    yield Sample((normal(5, 4), _some_ignored(5, 4, 2)), {"ignore_index": 2, "reduction": "sum"})
    yield Sample((normal(5, 4), _some_ignored(5, 4, -100)))
    for r in REDUCTIONS:
        yield Sample((normal(3, 4), [1, -1, 3]), {"reduction": r, "ignore_index": -1, "weight": [1.0, 2.0, 3.0, 4.0]})


def _cross_entropy_samples() -> Iterator[Sample]:
    yield from _index_samples()
    for n, classes in [(1, 5), (3, 1), (3, 7), (31, 33), (2, 257)]:
        yield Sample((normal(n, classes), uniform(n, classes)))
    yield Sample((normal(5), uniform(5)))
    weighted = {"label_smoothing": 0.2, "weight": [0.5, 2.0, 0.25]}
    for r in REDUCTIONS:
        yield Sample((normal(5, 3), _some_ignored(5, 3, -100)), {"reduction": r, **weighted})
        yield Sample((normal(2, 3, 2), uniform(2, 3, 2)), {"reduction": r, **weighted})
    yield Sample((normal(3, 4), uniform(3, 4)), {"weight": [0.0, 1.0, 2.0, 3.0]})
    yield Sample((normal(3, 4), labels(3, 4)), {"label_smoothing": 1.0})


def _draw(smoothing: bool) -> Callable[[Draw], Sample]:
    def generate(draw: Draw) -> Sample:
        classes = draw.integer(1, 5)
        shape = draw.one_of(((classes,), (draw.integer(1, 6), classes, *draw.shape(0, 2))))
        samples = shape[:-1] if len(shape) < 3 else (shape[0], *shape[2:])
        options: dict[str, Any] = {"reduction": draw.one_of(REDUCTIONS)}
        if draw.one_of((False, True)):
            options["weight"] = [draw.one_of((0.5, 1.0, 3.0)) for _ in range(classes)]
        if smoothing and draw.one_of((False, True)):
            options["label_smoothing"] = draw.one_of((0.1, 1.0))
        target = draw.indices(classes, *samples)
        if smoothing and draw.one_of((False, False, True)):
            return Sample((draw.floats(normal, *shape), draw.floats(uniform, *shape)), options)
        if target.size > 1 and draw.one_of((False, True)):
            options["ignore_index"] = draw.one_of((-100, -1))
            target.flat[0] = options["ignore_index"]
        return Sample((draw.floats(normal, *shape), target), options)

    return generate


def _class_errors(name: str, call: Callable[..., Any]) -> list[Error]:
    return [
        *wrong_operands(name, lambda x: call(x, [0, 1]), lambda m: m(2, 3)),
        Error(lambda m: call(m(2, 3), [0, 3]), IndexError, (name, "index 3 of sample 1", "[0, 3)")),
        Error(lambda m: call(m(2, 3), [-1, 0]), IndexError, (name, "class index -1", "sample 0")),
        Error(lambda m: call(m(2, 3), [-100, -1]), IndexError, (name, "class index -1", "sample 1")),
        Error(lambda m: call(m(2, 3), [-100, 0], ignore_index=-1), IndexError, (name, "class index -100", "sample 0")),
        Error(lambda m: call(m(2, 3), [0, 2**40]), IndexError, (name, str(2**40), "sample 1")),
        Error(lambda m: call(m(3, 2), m.ints(3)), IndexError, (name, "class index 2", "sample 2")),
        Error(lambda m: call(m(2, 2, 2), [[0, 1], [1, 7]]), IndexError, (name, "class index 7", "sample (1, 1)")),
        Error(lambda m: call(m(3), -1), IndexError, (name, "class index -1", "sample 0")),
        Error(lambda m: call(m(2, 3), [0.0, 1.0]), TypeError, (name, "indices", "float64")),
        Error(lambda m: call(m(2, 3), m(2)), TypeError, (name, "indices", "float32")),
        Error(lambda m: call(m(2, 3), [True, False]), TypeError, (name, "indices", "bool")),
        Error(lambda m: call(m(2, 3), ["a", "b"]), TypeError, (name, "indices")),
        Error(lambda m: call(m(2, 3), [0, 1, 2]), ValueError, (name, "(2, 3)", "(2,)", "(3,)")),
        Error(lambda m: call(m(2, 3), m(3, 2)), ValueError, (name, "(2, 3)", "(3, 2)")),
        Error(lambda m: call(m(2, 3), [[0], [1, 2]]), ValueError, (name, "target", "regular")),
        Error(lambda m: call(m(2, 2, 3), [0, 1]), ValueError, (name, "classes", "(2, 2, 3)", "(2, 3)")),
        Error(lambda m: call(m(), 0), ValueError, (name, "classes", "()")),
        Error(lambda m: call(m(2, 3), m.elsewhere(2).astype("int32")), ValueError, (name, *DEVICES[:2]), devices=2),
        Error(lambda m: call(m(2, 3), [0, 1], weight=m(3)), ValueError, (name, "weight", "gradient", "detach")),
        Error(lambda m: call(m(2, 3), [0, 1], weight=np.ones(2)), ValueError, (name, "weight", "(3,)", "(2,)")),
        Error(lambda m: call(m(2, 3), [0, 1], weight=1.0), ValueError, (name, "weight", "(3,)", "()")),
        Error(lambda m: call(m(2, 3), [0, 1], weight="heavy"), TypeError, (name,)),
        Error(lambda m: call(m(2, 3), [0, 1], weight=m.elsewhere(3)), ValueError, (name, *DEVICES[:2]), devices=2),
        Error(lambda m: call(m(2, 3), [0, 1], ignore_index=1.0), TypeError, (name, "ignore_index", "1.0")),
        Error(lambda m: call(m(2, 3), [0, 1], ignore_index=None), TypeError, (name, "ignore_index")),
        Error(lambda m: call(m(2, 3), [0, 1], ignore_index=True), TypeError, (name, "ignore_index", "True")),
        *reduction_errors(name, lambda r: call([[0.0, 1.0]], [1], reduction=r)),
    ]


OPS: list[Op] = [
    Op(
        name="cross_entropy_loss",
        call=ag.cross_entropy_loss,
        numpy=_cross_entropy,
        torch=_torch("cross_entropy"),
        samples=list(_cross_entropy_samples()),
        generate=_draw(smoothing=True),
        smooth=True,
        keeps=(1, 0),
        atol=5e-7,  # of a logarithm of probability, which may be near 0
        errors=[
            *_class_errors("cross_entropy_loss", ag.cross_entropy_loss),
            Error(lambda m: ag.cross_entropy_loss(m(2, 3), m.ints(2, 3)), TypeError, ("cross_entropy_loss", "int32")),
            Error(lambda m: ag.cross_entropy_loss(m(2, 3), m.elsewhere(2, 3)), ValueError, DEVICES[:2], devices=2),
            Error(
                lambda m: ag.cross_entropy_loss(m(2, 3), m(2, 3), ignore_index=1),
                ValueError,
                ("cross_entropy_loss", "ignore_index", "probabilities"),
            ),
            *[
                Error(
                    lambda m, s=s: ag.cross_entropy_loss(m(2, 3), [0, 1], label_smoothing=s),
                    ValueError,
                    ("cross_entropy_loss", "label_smoothing", str(s)),
                )
                for s in (-0.1, 1.5, np.nan)
            ],
            Error(
                lambda m: ag.cross_entropy_loss(m(2, 3), [0, 1], label_smoothing="x"), TypeError, ("smoothing", "str")
            ),
        ],
    ),
    Op(
        name="nll_loss",
        call=ag.nll_loss,
        numpy=_expected,
        torch=_torch("nll_loss"),
        samples=list(_index_samples()),
        generate=_draw(smoothing=False),
        keeps=(1 / 33, 0),  # class indices; the largest sample has 33 classes
        atol=3e-7,  # of a mean of numbers of both signs around 1
        errors=[
            *_class_errors("nll_loss", ag.nll_loss),
            Error(lambda m: ag.nll_loss(m(2, 3), m(2, 3)), ValueError, ("nll_loss", "indices", "(2,)", "(2, 3)")),
        ],
    ),
]


def _classes(c: Calls) -> tuple[Any, ...]:
    """An operand, a target, a weight and an index to ignore."""
    n, classes = c.one_of(1, 2, 3), c.one_of(1, 2, 5)
    shape, samples = c.one_of(((n, classes), (n,)), ((n, classes), (n,)), ((classes,), ()), ((n, classes, 2), (n, 2)))
    x = c.operand(c.one_of(shape, shape, shape, shape, c.shape()))
    wanted = c.normal.integers(0, classes, samples)
    if c.random.random() < 0.3 and wanted.size:
        wanted.flat[0] = c.one_of(-1, classes, 2**31 - 1, -(2**31), 2**40, -100)
    target = c.one_of(
        wanted, wanted, wanted.tolist(), wanted.astype(np.uint8), int(wanted.flat[0]), wanted.astype(float),
        c.operand(shape), c.operand(),
    )  # fmt: skip
    if target is wanted and np.all(np.abs(wanted) < 2**31):
        on_device = ag.tensor(wanted.astype(np.float32)).astype("int32")  # computed: nobody looks at it
        target = c.one_of(wanted, ag.tensor(wanted), on_device)
    weight = c.one_of(None, None, np.ones(classes), ag.tensor(np.ones(classes)), c.operand())
    return x, target, weight, c.one_of(-100, -100, -1, 0, c.integer())


CALLS: Makers = {
    "cross_entropy_loss": lambda c: (ag.cross_entropy_loss, *_classes(c), c.one_of(0.0, 0.1, c.number()), reduction(c)),
    "nll_loss": lambda c: (ag.nll_loss, *_classes(c), reduction(c)),
}
