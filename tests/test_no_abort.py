"""No call ends the process: random calls, right and wrong ones, each raise one of a few Python errors or give a result.

They run in a process of their own for each device, so that an abort in ggml is a failed test that names the call.
"""

from __future__ import annotations

import itertools
import math
import random
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import child
import numpy as np
import pytest

import ggmlpy_ag as ag

CALLS = 1500
SEED = 20240601
ALLOWED = (ValueError, TypeError, IndexError, ag.OutOfMemoryError)
PACKAGE = Path(ag.__file__).parent
LARGEST = 1 << 22  # elements of a result that is computed; larger ones must be refused or never be asked for


def test_random_calls_do_not_end_the_process(device: str) -> None:
    done = child.python(__file__, device, path=Path(__file__).parent, GGMLPY_AG_SOFTWARE_VULKAN="1")
    lines = done.stdout.splitlines()
    assert done.returncode == 0, "\n".join(["the last call was", *lines[-2:], done.stderr])
    right, wrong = map(int, lines[-1].split())
    assert right + wrong == CALLS + len(TOO_LARGE)
    assert min(right, wrong) > CALLS // 5  # neither kind is crowded out


# ---------------------------------------------------------------- a random call


class Calls:
    """Makes random calls as (text, function) from one random generator."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.normal = np.random.default_rng(seed)

    def one_of(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def shape(self, most: int = 4) -> tuple[int, ...]:
        """Extents that often fit one another, of up to `most` dimensions."""
        return tuple(self.one_of(1, 1, 2, 3, 3, 5) for _ in range(self.random.randint(0, most)))

    def floats(self, shape: tuple[int, ...]) -> np.ndarray:
        values = np.asarray(self.normal.standard_normal(shape), np.float32)
        if values.size and self.random.random() < 0.2:
            special = self.one_of(0.0, -0.0, math.inf, -math.inf, math.nan, 1e38)
            values.flat[self.random.randrange(values.size)] = special
        return values

    def operand(self, shape: tuple[int, ...] | None = None) -> Any:
        """Mostly a float tensor, often a window on a larger one; at times something that is no tensor."""
        shape = self.shape() if shape is None else shape
        kind = self.random.random()
        if kind < 0.7:
            return self.window(shape)
        if kind < 0.8:
            return self.floats(shape)
        if kind < 0.86:
            return ag.tensor(self.normal.integers(-3, 9, shape).astype(np.int32))
        return self.one_of(
            1.5, 0, -2, True, -0.0, math.nan, math.inf, -math.inf, 1e300, 10**400, 2**40, np.float64(2.5), None, "text",
            1j, [], [1.0], [[1], [2, 3]], object(), {"a": 1}, float, np.zeros((2, 0)), np.zeros(3, complex),
            np.arange(3), np.zeros((1, 2, 1, 2, 1)), np.array(["a"]), ag.tensor([1, 2, 3]), ag.tensor(0.5),
        )  # fmt: skip

    def window(self, shape: tuple[int, ...]) -> ag.Tensor:
        """A float tensor of this shape: packed, transposed or a slice, on the default device or, rarely, another."""
        how = self.random.random()
        if how < 0.02:
            return ag.tensor(self.floats(shape), device=self.one_of(*(info.name for info in ag.devices())))
        if how < 0.4 or not shape:
            return ag.param(self.floats(shape))
        if how < 0.6:
            return ag.param(self.floats(shape[::-1])).transpose()
        step, first = self.random.randint(1, 3), self.random.randint(0, 2)
        larger = tuple(first + step * (n - 1) + 1 + self.random.randint(0, 1) for n in shape)
        return ag.param(self.floats(larger))[tuple(slice(first, first + step * (n - 1) + 1, step) for n in shape)]

    def integer(self) -> Any:
        return self.one_of(0, 1, 2, 3, -1, -1, -2, -3, 4, 5, -5, 7, 2**31, 2**40, 2**63, -(2**63), 10**30, np.int64(1))

    def axis(self) -> Any:
        simple = self.one_of(0, 1, 2, 3, -1, -1, -2, -3, -4, 4, -5, None, np.int8(-1))
        return self.one_of(
            simple, simple, simple, simple, (0, 1), (-1, 0), [1, 2], (0, 0), (), 1.0, "x", True, 2**40, (None,)
        )

    def axes(self) -> tuple[Any, ...]:
        return tuple(self.axis() for _ in range(self.one_of(0, 1, 2, 2, 3)))

    def extents(self) -> Any:
        """A shape to ask for; the absurdly large ones must be refused before anything is computed."""
        n = self.random.randint(0, 5)
        usual = tuple(self.one_of(1, 1, 2, 3, 5, 6, 15, -1) for _ in range(n))
        odd = tuple(self.one_of(1, 2, 3, -1, 0, -2, 2**40, 2**62, 2**63, 2**70, 1.5, "a", None, True) for _ in range(n))
        return self.one_of(usual, usual, usual, list(usual), odd, odd, 3, "abc", None, 2.0)

    def index(self) -> Any:
        def item() -> Any:
            number = self.one_of(0, 0, 1, -1, 2, -3, 7, np.int8(1), 2**40, -(2**63))
            bounds = [self.one_of(None, None, 0, 1, -1, 2, 3, -2, 9, 2**65) for _ in range(2)]
            step = self.one_of(None, None, 1, 2, 3, -1, 0, 2**40, 2**65, 1.5)
            cut = slice(*bounds, step)
            strange = self.one_of(1.0, "a", [0], np.array([1]), True, (0,), ag.tensor(1))
            return self.one_of(number, number, cut, cut, cut, ..., None, strange)

        return self.one_of(item(), tuple(item() for _ in range(self.random.randint(0, 5))))

    def number(self) -> Any:
        return self.one_of(
            0, 1, 2, 3, -1, -2, 0.5, -0.5, 1.5, 7, 64, 65, 1e-39, 1e30, 1e300, -1e300, math.inf, -math.inf, math.nan,
            10**400, None, "a", 1j, True, np.float32(2), np.bool_(True), ag.tensor(2.0), [1.0],
        )  # fmt: skip

    def fitting(self) -> tuple[Any, Any]:
        """Two operands, which broadcast as often as not."""
        shape = self.shape()
        other = tuple(self.one_of(n, n, n, 1) for n in shape)[self.random.randint(0, 1) :]
        pair = [self.operand(shape), self.operand(self.one_of(other, other, None))]
        self.random.shuffle(pair)
        return pair[0], pair[1]

    def matrices(self) -> tuple[Any, Any]:
        batch = self.shape(2)
        other = tuple(self.one_of(n, 1) for n in batch)
        m, k, n = (self.one_of(1, 2, 3, 5) for _ in range(3))
        left = self.one_of((*batch, m, k), (*batch, m, k), (m, k), (k,), self.shape())
        right = self.one_of((*other, k, n), (*other, k, n), (k, n), (k,), self.shape())
        return self.operand(left), self.operand(right)

    def classes(self) -> tuple[Any, Any]:
        n, classes = self.one_of(1, 2, 3), self.one_of(1, 2, 5)
        logits = self.operand(self.one_of((n, classes), (n, classes), (n, classes), (classes,), self.shape()))
        labels = self.normal.integers(0, classes, n)
        if self.random.random() < 0.2:
            labels[0] = self.one_of(-1, classes, 2**31 - 1, -(2**31), 2**40)
        target = self.one_of(
            labels, labels, labels.tolist(), labels.astype(np.uint8), int(labels[0]), labels.astype(float),
            self.operand((n, classes)), self.operand(),
        )  # fmt: skip
        if target is labels and np.all(np.abs(labels) < 2**31) and self.random.random() < 0.7:
            target = ag.tensor(labels)
        return logits, target

    def widths(self, operand: Any) -> Any:
        def width() -> Any:
            return self.one_of(0, 0, 1, 2, 3, self.integer(), 1.5)

        n = self.one_of(np.ndim(operand), np.ndim(operand), 1) if isinstance(operand, ag.Tensor) else 2
        usual = [(self.one_of(0, 1, 2), self.one_of(0, 1)) for _ in range(n)]
        return self.one_of(usual, usual, [(width(), width()) for _ in range(n)], 1, [1], [(1,)], None, "ab")

    # ------------------------------------------------------------ over all operations

    def __iter__(self) -> Calls:
        return self

    def __next__(self) -> tuple[str, Callable[[], Any]]:
        name = self.random.choice(sorted(self.MAKERS))
        function, *arguments = self.MAKERS[name](self)
        text = f"{name}({', '.join(map(self.describe, arguments))})"
        return text, lambda: function(*arguments)

    @staticmethod
    def describe(argument: Any) -> str:
        if isinstance(argument, ag.Tensor):  # without reading it
            array = argument._array
            return f"tensor({argument.shape}, {argument.dtype}, strides={array.strides}, offset={array.offset})"
        if isinstance(argument, np.ndarray):
            return f"array({argument.shape}, {argument.dtype})"
        text = repr(argument)
        return text if len(text) < 200 else f"{text[:60]}..."

    MAKERS: dict[str, Callable[[Calls], tuple[Any, ...]]] = {
        **{
            name: lambda self, name=name: (getattr(ag, name), *self.fitting())
            for name in "add sub mul div pow mse_loss".split()
        },
        **{
            name: lambda self, name=name: (getattr(ag, name), self.operand())
            for name in "neg sqrt exp log abs sign relu sigmoid tanh gelu silu".split()
        },
        **{
            name: lambda self, name=name: (getattr(ag, name), self.operand(), self.axis())
            for name in "softmax log_softmax".split()
        },
        **{
            name: lambda self, name=name: (getattr(ag, name), self.operand(), self.axis(), self.one_of(False, True))
            for name in "sum mean argmax".split()
        },
        "pow by a number": lambda self: (ag.pow, self.operand(), self.number()),
        "div by a number": lambda self: (ag.div, self.operand(), self.number()),
        "scale": lambda self: (ag.scale, self.operand(), self.number(), self.number()),
        "clamp": lambda self: (ag.clamp, self.operand(), self.number(), self.number()),
        "matmul": lambda self: (ag.matmul, *self.matrices()),
        "broadcast_to": lambda self: (ag.broadcast_to, self.operand(), self.extents()),
        "reshape": lambda self: (ag.reshape, self.operand(), self.extents()),
        "transpose": lambda self: (ag.transpose, self.operand(), *self.axes()),
        "permute": lambda self: (ag.permute, self.operand(), self.one_of((1, 0), (2, 0, 1), (), self.axes())),
        "matrix_transpose": lambda self: (lambda x: x.mT, self.window(self.shape())),
        "pad": lambda self: (ag.pad, x := self.operand(), self.widths(x)),
        "index": lambda self: (lambda x, index: x[index], self.window(self.shape()), self.index()),
        "astype": lambda self: (ag.astype, self.operand(), self.one_of("int32", "float32", "float64", int, None, 3)),
        "to": lambda self: (ag.to, self.operand(), self.one_of("cpu", "vulkan", "vulkan:7", "auto", "", None, 3)),
        "cross_entropy_loss": lambda self: (ag.cross_entropy_loss, *self.classes()),
    }


TOO_LARGE: dict[str, Callable[[], Any]] = {
    "4 TiB": lambda: ag.broadcast_to(1.0, (2**40,)),
    "2**62 elements": lambda: ag.broadcast_to(1.0, (2**62,)),
    "2**62 elements in a matrix": lambda: ag.broadcast_to(1.0, (2**31, 2**31)),
    "2**62 elements of a sum": lambda: ag.broadcast_to(1.0, (2**31, 1)) + ag.broadcast_to(1.0, (1, 2**31)),
    "argmax of more than float32 counts": lambda: ag.argmax(ag.broadcast_to(1.0, (2**24 + 1,))),
    "padding beyond int32": lambda: ag.pad([1.0], [(0, 2**31)]),
}


# ---------------------------------------------------------------- in the child process


def attempt(call: Callable[[], Any]) -> bool:
    """Whether the call had a result; its values and gradients are computed then."""
    try:
        with ag.grad_tape() as tape:
            out = call()
        if out.size > LARGEST:
            with pytest.raises(ag.OutOfMemoryError):
                out.numpy()
            return False
        out.numpy()
        if len(tape):
            ag.backward(out, np.ones(out.shape))
    except ALLOWED as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        ours = str(PACKAGE) in where.filename and str(where.line).startswith("raise")
        if not ours:
            raise RuntimeError(f"an accident, and no error that was raised on purpose: {error!r}") from error
        return False
    return True


def main(device: str) -> None:
    ag.set_fallback("error")
    ag.device(device)
    calls = Calls(SEED)
    sample = ag.param([[1.0, -2.0, 3.0]])
    right = wrong = 0
    for text, call in itertools.chain(TOO_LARGE.items(), itertools.islice(calls, CALLS)):
        print(text, flush=True)  # the last line says what ended the process
        if attempt(call):
            right += 1
        else:
            wrong += 1
        assert (sample * 2.0 + 1.0).tolist() == [[3.0, -3.0, 7.0]]
    print(right, wrong)


if __name__ == "__main__":
    main(*sys.argv[1:])
