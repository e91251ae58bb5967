"""Sums of products in Einstein's notation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from math import prod
from string import ascii_letters
from typing import NamedTuple

import numpy as np

from ..backend.array import FLOAT, MAX_DIMS, Shape
from ..tensor import Tensor, TensorLike
from . import reduce
from .arithmetic import mul
from .base import floats
from .linalg import matmul
from .rearrange import diagonal
from .shape import astype, matrix_transpose, permute, reshape, squeeze

FEW = 4  # operands, for which the best order is looked for among all; of more, step by step


def einsum(equation: str, *operands: TensorLike) -> Tensor:
    """Products of elements summed over indices, as `numpy.einsum` has it: einsum("ij,jk->ik", a, b) is a @ b.

    Each letter names a dimension; those that the result does not name are summed over. Of more than two operands, two
    at a time are multiplied, in the order that `numpy.einsum_path` gives. The tape shows the steps that it is made of:
    matmul, mul, sum, permute, reshape.

    Args:
        equation: letters for each operand's dimensions, separated by commas, and after "->" those of the result.
            Without "->" the result has those that appear once, in alphabetical order. "..." stands for any further
            dimensions, which broadcast. A letter twice in an operand takes its diagonal. Spaces do not count.
        operands: floats; as many as the equation has terms. A dimension of one element goes with any extent.

    Raises:
        ValueError: the equation is no such equation, does not fit the operands, or asks for more than four dimensions;
            the operands are on different devices. TypeError: the equation is no text; operands are not floats.

    >>> ag.einsum("ij,jk->ik", [[1.0, 2.0]], [[3.0], [4.0]]).tolist()
    [[11.0]]
    >>> ag.einsum("ii", [[1.0, 2.0], [3.0, 4.0]]).item()
    5.0
    >>> ag.einsum("bhqd,bhkd->bhqk", ag.rand(2, 3, 4, 5), ag.rand(2, 3, 6, 5)).shape
    (2, 3, 4, 6)
    """
    if not isinstance(equation, str):
        raise TypeError(f"einsum: the equation must be a text, not {type(equation).__name__}")
    xs = floats("einsum", *operands)
    plan = _plan(equation, tuple([x.shape for x in xs]))
    dtypes = {x.dtype for x in xs}
    half = len(dtypes) == 1 and xs[0].dtype != FLOAT
    if plan.several and dtypes != {FLOAT}:  # halves are rounded once, at the end
        xs = tuple([astype(x, FLOAT) for x in xs])
    waiting = [_prepared(x, letters, plan) for x, letters in zip(xs, plan.terms, strict=True)]
    for i, j in plan.path:
        second, first = waiting.pop(j), waiting.pop(i)
        kept = {c for factor in waiting for c in factor.letters} | set(plan.result)
        waiting.append(_product(first, second, kept, plan.extents))
    out = _arranged(_summed(waiting[0], set(plan.result), plan.extents), plan.result, plan.extents).tensor
    return astype(out, next(iter(dtypes))) if half else out


# ---------------------------------------------------------------- what is to be done


class Plan(NamedTuple):
    """Letters of each operand and of the result, what extent each stands for, which operands are multiplied in turn
    (each product goes to the end), and whether more is done than one product or one sum."""

    terms: tuple[str, ...]
    result: str
    extents: dict[str, int]
    path: tuple[tuple[int, int], ...]
    several: bool


@lru_cache(maxsize=1024)
def _plan(equation: str, shapes: tuple[Shape, ...]) -> Plan:
    terms, result = _parsed(equation, shapes)
    extents: dict[str, int] = {}
    for letters, shape in zip(terms, shapes, strict=True):
        within: dict[str, int] = {}
        for c, n in zip(letters, shape, strict=True):
            if within.setdefault(c, n) != n:
                raise ValueError(f"einsum: {equation!r} takes a diagonal over extents {within[c]} and {n} of {shape}")
            if extents.get(c, 1) not in (n, 1) and n != 1:
                raise ValueError(f"einsum: in {equation!r}, {c} stands for {extents[c]} and for {n} in shapes {shapes}")
            extents[c] = max(n, extents.get(c, 1))
    # what _prepared leaves of each operand
    left = [
        "".join(c for c in dict.fromkeys(t) if s[t.index(c)] == extents[c]) for t, s in zip(terms, shapes, strict=True)
    ]
    single = any(Counter("".join(left))[c] == 1 and c not in result for c in set("".join(left)))
    return Plan(
        tuple(terms), result, extents, _path(left, result, extents), len(terms) > 2 or (len(terms) == 2 and single)
    )


def _path(terms: Sequence[str], result: str, extents: dict[str, int]) -> tuple[tuple[int, int], ...]:
    """Which two factors to multiply next, again and again."""
    if len(terms) <= 2:
        return ((0, 1),) * (len(terms) - 1)
    dummies = [np.broadcast_to(np.float32(0.0), [extents[c] for c in t]) for t in terms]
    how = ("optimal" if len(terms) <= FEW else "greedy", 1 << 62)  # the latter limits the intermediates' sizes
    pairs, count = [], len(terms)
    for step in np.einsum_path(f"{','.join(terms)}->{result}", *dummies, optimize=how)[0][1:]:
        places = sorted(step)
        while len(places) > 1:  # NumPy may name more than two at once
            pairs.append((places[-2], places[-1]))
            count -= 1
            places[-2:] = [count - 1]
    return tuple(pairs)


def _parsed(equation: str, shapes: Sequence[Shape]) -> tuple[list[str], str]:
    """The letters of each operand and of the result, those that "..." stands for among them."""
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    for term in (*terms, right):
        if set(term.replace("...", "", 1)) - set(ascii_letters):
            raise ValueError(f"einsum: {equation!r} must be letters, at most one ... for each operand, commas and ->")
    if len(terms) != len(shapes):
        raise ValueError(f"einsum: {equation!r} is about {len(terms)} operands, not {len(shapes)}")
    further = 0
    for term, shape in zip(terms, shapes, strict=True):
        named = len(term.replace("...", ""))
        if named > len(shape) or (named < len(shape) and "..." not in term):
            raise ValueError(f"einsum: {term!r} in {equation!r} does not fit shape {shape}")
        if "..." in term:
            further = max(further, len(shape) - named)
    free = [c for c in ascii_letters if c not in text]
    if further > len(free):
        raise ValueError(f"einsum: {equation!r} leaves no letters for ...")
    dots = "".join(free[:further])
    whole = []
    for term, shape in zip(terms, shapes, strict=True):
        count = len(shape) - len(term.replace("...", ""))
        whole.append(term.replace("...", dots[len(dots) - count :]))
    if not arrow:
        counts = Counter("".join(terms).replace(".", ""))
        result = dots + "".join(sorted(c for c, n in counts.items() if n == 1))
    else:
        if further and "..." not in right:
            raise ValueError(f"einsum: the result of {equation!r} needs ..., for the dimensions that it stands for")
        result = right.replace("...", dots)
    unknown = [c for c in result if c not in "".join(whole)]
    if unknown or len(set(result)) != len(result):
        raise ValueError(f"einsum: the result of {equation!r} must name letters of the operands, each once")
    if len(result) > MAX_DIMS:
        raise ValueError(f"einsum: the result of {equation!r} has {len(result)} dimensions, more than {MAX_DIMS}")
    return whole, result


# ---------------------------------------------------------------- doing it


class Factor(NamedTuple):
    """A tensor whose dimensions have letters; one of more than four dimensions is flat."""

    tensor: Tensor
    letters: str


def _prepared(x: Tensor, letters: str, plan: Plan) -> Factor:
    """An operand with each of its letters once: diagonals taken, and without what it only broadcasts along."""
    for c in dict.fromkeys(letters):
        while letters.count(c) > 1:
            i = letters.index(c)
            x = diagonal(x, i, letters.index(c, i + 1))
            letters = letters.replace(c, "", 2) + c
    lone = [i for i, c in enumerate(letters) if x.shape[i] != plan.extents[c]]
    return Factor(squeeze(x, lone) if lone else x, "".join(c for i, c in enumerate(letters) if i not in lone))


def _product(a: Factor, b: Factor, kept: set[str], extents: dict[str, int]) -> Factor:
    """Of two factors, summed over the letters that are not kept."""
    a = _summed(a, kept | set(b.letters), extents)
    b = _summed(b, kept | set(a.letters), extents)
    both = [c for c in a.letters if c in b.letters]
    batch = "".join(c for c in both if c in kept)
    inner = "".join(c for c in both if c not in kept)
    rows = "".join(c for c in a.letters if c not in both)
    columns = "".join(c for c in b.letters if c not in both)
    if inner:
        left, right = (_matrices(f, batch, outer, inner, extents) for f, outer in ((a, rows), (b, columns)))
        out = matmul(left, matrix_transpose(right))
    else:
        left = _groups(a, (batch, rows, ""), extents)
        out = mul(left, _groups(b, (batch, "", columns), extents))
    return _factor(out, batch + rows + columns, extents)


def _matrices(f: Factor, batch: str, outer: str, inner: str, extents: dict[str, int]) -> Tensor:
    """(batch, outer, inner), or (outer, inner) without a batch; a transposed view where it is stored like that."""
    before = (batch,) if batch else ()
    if f.letters == batch + inner + outer:
        return matrix_transpose(_groups(f, (*before, inner, outer), extents))
    return _groups(f, (*before, outer, inner), extents)


def _groups(f: Factor, groups: Sequence[str], extents: dict[str, int]) -> Tensor:
    """With one dimension for each group of letters."""
    f = _arranged(f, "".join(groups), extents)
    return reshape(f.tensor, [prod(extents[c] for c in group) for group in groups])


def _summed(f: Factor, kept: set[str], extents: dict[str, int]) -> Factor:
    """Summed over the letters that are not kept."""
    staying = "".join(c for c in f.letters if c in kept)
    if staying == f.letters:
        return f
    if len(f.letters) <= MAX_DIMS:
        return Factor(reduce.sum(f.tensor, [i for i, c in enumerate(f.letters) if c not in kept]), staying)
    leaving = "".join(c for c in f.letters if c not in kept)
    return _factor(reduce.sum(_groups(f, (staying, leaving), extents), 1), staying, extents)


def _factor(x: Tensor, letters: str, extents: dict[str, int]) -> Factor:
    """Elements in the order of these letters, in whatever shape."""
    shape = [extents[c] for c in letters]
    return Factor(reshape(x, shape if len(shape) <= MAX_DIMS else (-1,)), letters)


def _arranged(f: Factor, order: str, extents: dict[str, int]) -> Factor:
    """With the letters in another order."""
    x, letters = f
    if letters == order:
        return f
    if len(letters) <= MAX_DIMS:
        return Factor(permute(x, [letters.index(c) for c in order]), order)
    while letters != order:  # one run of letters after another is moved to where it belongs
        start = next(i for i, c in enumerate(order) if letters[i] != c)
        at = letters.index(order[start])
        stop = at + 1
        while stop < len(letters) and letters[at : stop + 1] == order[start : start + stop + 1 - at]:
            stop += 1
        parts = (letters[:start], letters[start:at], letters[at:stop], letters[stop:])
        x = permute(reshape(x, [prod(extents[c] for c in part) for part in parts]), 0, 2, 1, 3)
        letters = parts[0] + parts[2] + parts[1] + parts[3]
    return _factor(x, order, extents)


__all__ = ["einsum"]
