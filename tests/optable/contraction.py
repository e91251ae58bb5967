"""Sums of products in Einstein's notation."""

from __future__ import annotations

import string
from typing import Any

import numpy as np

import ggmlpy_ag as ag

from .calls import Calls, Makers
from .table import DEVICES, Draw, Error, Op, Sample, arrays, normal, uniform, wrong_operands

EQUATIONS: list[tuple[str, list[tuple[int, ...]]]] = [
    ("i->i", [(5,)]),
    ("i->", [(5,)]),
    ("i", [(5,)]),
    ("->", [()]),
    ("ij->ji", [(3, 7)]),
    ("ji", [(3, 7)]),
    ("ij->j", [(3, 7)]),
    ("ii", [(5, 5)]),
    ("ii->i", [(5, 5)]),
    ("iij->j", [(3, 3, 2)]),
    ("iji->ji", [(3, 2, 3)]),
    ("iiii->i", [(3, 3, 3, 3)]),
    ("iijj->ij", [(3, 3, 2, 2)]),
    ("ijij", [(2, 3, 2, 3)]),
    ("abcd->dbca", [(2, 3, 4, 5)]),
    ("...ij->...ji", [(2, 3, 4, 5)]),
    ("i...->...", [(3, 2, 2)]),
    ("...", [(3, 2)]),
    ("i,i->", [(5,), (5,)]),
    ("i,i->i", [(5,), (5,)]),
    ("i,j->ij", [(3,), (4,)]),
    ("i,j->ji", [(3,), (4,)]),
    (",ij->ij", [(), (2, 3)]),
    ("ij,jk->ik", [(3, 5), (5, 7)]),
    ("ij,jk", [(3, 5), (5, 7)]),
    ("ij,jk->ki", [(3, 5), (5, 7)]),
    ("ij,kj->ik", [(3, 5), (7, 5)]),
    ("ji,jk->ik", [(5, 3), (5, 7)]),
    ("ji,kj->ik", [(5, 3), (7, 5)]),
    ("ij,ij->", [(3, 5), (3, 5)]),
    ("ij,ij->ij", [(3, 5), (3, 5)]),
    ("ij,ji->", [(3, 5), (5, 3)]),
    ("ij,j->i", [(3, 5), (5,)]),
    ("ij,i->ij", [(3, 5), (3,)]),
    ("ii,i->i", [(4, 4), (4,)]),
    ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]),
    ("bij,bkj->bki", [(2, 3, 4), (2, 5, 4)]),
    ("bi,bi->b", [(3, 5), (3, 5)]),
    ("bi,bj->bij", [(3, 5), (3, 4)]),
    ("...ij,...jk->...ik", [(2, 1, 3, 4), (3, 4, 5)]),
    ("...i,i...->...", [(2, 3), (3, 1)]),
    ("bhqd,bhkd->bhqk", [(2, 3, 4, 5), (2, 3, 6, 5)]),
    ("bqhd,bkhd->bhqk", [(2, 4, 3, 5), (2, 6, 3, 5)]),
    ("bhqk,bkhd->bqhd", [(2, 3, 4, 6), (2, 6, 3, 5)]),
    ("abcd,cdef->abef", [(2, 3, 2, 3), (2, 3, 3, 2)]),
    ("abcd,abcd->", [(2, 3, 2, 3), (2, 3, 2, 3)]),
    ("ij,jk,kl->il", [(2, 5), (5, 3), (3, 4)]),
    ("i,ij,j->", [(3,), (3, 4), (4,)]),
    ("bi,oij,bj->bo", [(2, 3), (4, 3, 5), (2, 5)]),
    ("i,j,k->kij", [(2,), (3,), (4,)]),
    ("ab,cd,ef,af->d", [(2, 3), (3, 2), (2, 3), (2, 3)]),
    ("abcd,efgh,adeh->bg", [(2, 3, 2, 2), (3, 2, 2, 2), (2, 2, 3, 2)]),  # 8 letters wait between the steps
    ("ij,jk,kl,lm->im", [(2, 3), (3, 4), (4, 5), (5, 2)]),
    ("ij,jk,kl,lm,mn,ni->", [(2, 3), (3, 4), (4, 2), (2, 3), (3, 4), (4, 2)]),
    ("ij,jk->ik", [(3, 1), (5, 7)]),  # an extent of 1 broadcasts
    ("ij,ij->ij", [(1, 5), (3, 1)]),
    (" i j , j k -> i k ", [(31, 33), (33, 5)]),
    ("zA,Ab->zb", [(31, 257), (257, 5)]),
]


def _equation(draw: Draw) -> Sample:
    letters = string.ascii_letters[: draw.integer(1, 6)]
    extents = {c: draw.integer(1, 4) for c in letters}
    terms = ["".join(draw.one_of(letters) for _ in range(draw.integer(0, 4))) for _ in range(draw.integer(1, 4))]
    named = sorted(set("".join(terms)))
    result = ""
    for _ in range(draw.integer(0, min(4, len(named)))):
        result += named.pop(draw.integer(0, len(named) - 1))
    dots: list[tuple[int, ...]] = [()] * len(terms)
    if max(map(len, [*terms, result])) < 4 and draw.one_of((False, True)):
        further = draw.integer(1, 4)
        dots = [draw.one_of(((further,), (1,), ())) for _ in terms]
        terms = [
            t if not d else f"{t}..." if draw.one_of((False, True)) else f"...{t}"
            for t, d in zip(terms, dots, strict=True)
        ]
        result = f"...{result}" if any(dots) else result
    operands = []
    for term, extra in zip(terms, dots, strict=True):
        single = draw.one_of((*(c for c in letters if term.count(c) == 1), "", "", ""))  # one that broadcasts
        plain = [1 if c == single else extents[c] for c in term.replace("...", "")]
        operands.append(draw.floats(normal, *((*extra, *plain) if term.startswith("...") else (*plain, *extra))))
    return Sample(tuple(operands), {"equation": f"{','.join(terms)}->{result}"})


def _e(equation: Any, *shapes: tuple[int, ...]) -> Any:
    return lambda m: ag.einsum(equation, *(m(*shape) for shape in shapes))


OPS: list[Op] = [
    Op(
        name="einsum",
        call=lambda *operands, equation: ag.einsum(equation, *operands),
        numpy=lambda *operands, equation: np.einsum(equation, *operands),
        torch=lambda torch, *operands, equation: torch.einsum(equation, *operands),
        samples=[
            *[arrays(normal, *shapes, equation=equation) for equation, shapes in EQUATIONS],
            arrays(uniform, (3, 5), (4,), equation="ij,k->k"),  # a sum times something: terms that cancel would not do
        ],
        smooth=True,
        keeps=(1, 0),
        generate=_equation,
        errors=[
            *wrong_operands("einsum", lambda x: ag.einsum("ij->ji", x), lambda m: m(2, 3)),
            *wrong_operands("einsum", lambda x: ag.einsum("ij,jk->ik", np.ones((3, 2)), x), lambda m: m(2, 3)),
            Error(_e(None, (2, 3)), TypeError, ("einsum", "NoneType")),
            Error(_e([0, 1], (2, 3)), TypeError, ("einsum", "list")),
            Error(_e("i1->i", (2, 3)), ValueError, ("einsum", "'i1->i'", "letters")),
            Error(_e("ij->i->j", (2, 3)), ValueError, ("einsum", "letters")),
            Error(_e("ij-i", (2, 3)), ValueError, ("einsum", "letters")),
            Error(_e("i..j", (2, 3)), ValueError, ("einsum", "letters")),
            Error(_e("...i...", (2, 3)), ValueError, ("einsum", "letters")),
            Error(_e("éj", (2, 3)), ValueError, ("einsum", "letters")),
            Error(_e("ij,jk->ik", (2, 3)), ValueError, ("einsum", "2 operands", "1")),
            Error(_e("ij->i", (2, 3), (3, 2)), ValueError, ("einsum", "1 operands", "2")),
            Error(_e("ij->i"), ValueError, ("einsum", "1 operands", "0")),
            Error(_e("ijk->i", (2, 3)), ValueError, ("einsum", "'ijk'", "(2, 3)")),
            Error(_e("i->i", (2, 3)), ValueError, ("einsum", "'i'", "(2, 3)")),
            Error(_e("ijk...->i", (2, 3)), ValueError, ("einsum", "'ijk...'", "(2, 3)")),
            Error(_e("ij,jk->ik", (2, 3), (4, 2)), ValueError, ("einsum", "j", "3", "4", "(2, 3)", "(4, 2)")),
            Error(_e("ii->i", (2, 3)), ValueError, ("einsum", "diagonal", "2", "3")),
            Error(_e("ii->i", (1, 3)), ValueError, ("einsum", "diagonal", "(1, 3)")),
            Error(_e("ij->k", (2, 3)), ValueError, ("einsum", "result", "letters")),
            Error(_e("ij->ii", (2, 3)), ValueError, ("einsum", "result", "once")),
            Error(_e("...j->j", (2, 3)), ValueError, ("einsum", "result", "...")),
            Error(_e("abc,de->abcde", (1, 2, 1), (2, 1)), ValueError, ("einsum", "5 dimensions", "more than 4")),
            Error(_e("...i,...j,k->...ijk", (2, 2, 2), (2, 2, 2), (2,)), ValueError, ("einsum", "5 dimensions")),
            Error(
                lambda m: ag.einsum("ij,jk->ik", m(2, 3), m.elsewhere(3, 2)),
                ValueError,
                ("einsum", *DEVICES[:2], ".to("),
                devices=2,
            ),
        ],
        sums=True,
    ),
]


def _call(c: Calls) -> tuple[Any, ...]:
    equation, shapes = c.one_of(*EQUATIONS)
    if c.one_of(True, False, False):
        terms = [
            "".join(c.one_of(*"ijk") for _ in range(c.random.randint(0, 4))) for _ in range(c.random.randint(1, 3))
        ]
        equation = ",".join(terms) + c.one_of("", "->", "->i", "->ij", "->...", "->ijk", "-", "...")
        shapes = [tuple(c.one_of(2, 2, 2, 1, 3) for _ in term) for term in terms]
    operands = [c.operand(shape) for shape in shapes]
    return (ag.einsum, c.one_of(equation, equation, equation, equation, None, "ij->", "..."), *operands)


CALLS: Makers = {"einsum": _call}
