"""The difference of two reports."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
from reports import FIGURES, MODELS, TABLES
from test_report_formats import VALIDATOR

import ggmlpy_ag as ag
from ggmlpy_ag.report.formats import FIGURES as ALL_FIGURES


def report_of(model, run=True):
    with ag.grad_tape(trace=True):
        loss = MODELS[model]()()
    if run:
        ag.backward(loss)
    return ag.tape_memory(quiet=True)


def assert_consistent(change):
    """Figures are those of the reports, and every table adds up to them."""
    for figure in ALL_FIGURES:
        assert getattr(change, figure) == getattr(change.after, figure) - getattr(change.before, figure)
    for name in TABLES:
        table = getattr(change, name)
        assert sum(row.bytes for row in table) == change.bytes_total, name
        for figure in (*FIGURES, "bytes_pending"):
            assert sum(getattr(row, figure) for row in table) == getattr(change, figure), (name, figure)
        sizes = [abs(row.bytes) for row in table]
        assert sizes == sorted(sizes, reverse=True)
    for name in ("by_op", "by_layer", "by_line"):
        assert sum(row.nodes for row in getattr(change, name)) == change.nodes


@pytest.mark.parametrize(
    ("before", "after"), [("perceptron", "transformer"), ("transformer", "mixed"), ("mixed", "convolutional")]
)
def test_the_changes_add_up_to_the_byte(device, before, after):
    reports = [report_of(before, run=False), report_of(before), report_of(after)]
    for b in reports:
        for a in reports:
            change = b - a
            assert_consistent(change)
            VALIDATOR.validate(json.loads(change.to_json()))
            assert max(map(len, change.text().splitlines())) <= 100
    loaded = [ag.TapeReport.from_json(r.to_json()) for r in reports]
    assert (loaded[2] - loaded[1]).to_dict() == (reports[2] - reports[1]).to_dict()
    assert (loaded[2] - loaded[1]).text() == (reports[2] - reports[1]).text()


def test_nothing_changed(device):
    change = report_of("mixed") - report_of("mixed")
    assert [getattr(change, name) for name in TABLES] == [[]] * 5
    assert set(change.to_dict()["figures"].values()) == {0}
    assert change.text().splitlines() == [str(change)]
    assert str(change).startswith("tape memory: 0 B, from ")


def test_what_grew_and_what_shrank(device):
    net = ag.nn.Sequential(ag.nn.Linear(64, 64), ag.nn.Tanh(), ag.nn.Tanh())

    def measure(n, keep):
        x = ag.tensor(np.ones((n, 64)))
        with ag.grad_tape():
            h = net(x)
            loss = (h * h).sum() if keep else h.exp().sum()
        loss.item()
        del h
        return ag.tape_memory(quiet=True)

    small, large = measure(8, keep=True), measure(32, keep=False)
    change = large - small
    grown = 4 * 64 * (32 - 8)
    assert [(row.name, row.nodes, row.bytes) for row in change.by_layer] == [
        ("(no layer)", 0, 4 * 64 * 32),  # the result of exp, where mul kept none of its own
        ("0", 0, grown),
        ("1", 0, grown),
        ("2", 0, grown),
    ]
    assert {row.name: (row.nodes, row.bytes) for row in change.by_op} == {
        "tanh": (0, 2 * grown),
        "linear": (0, grown),
        "exp": (1, 4 * 64 * 32),
        "mul": (-1, 0),
    }
    back = small - large
    assert [(row.name, row.bytes) for row in back.by_op if row.bytes][0] == ("tanh", -2 * grown)
    assert back.bytes_total == -change.bytes_total
    lines = change.text().splitlines()
    assert lines[0].startswith(f"tape memory: +{change.bytes_total / 1024:.2f} KiB, from ")
    assert any(line.split()[:5] == ["exp", "+1", "+8.00", "KiB", "0"] for line in lines)
    assert any(line.split()[:2] == ["mul", "-1"] for line in lines)
    assert len((large - small).text(top=1).splitlines()) < len(lines)


def test_a_gradient_is_a_change_beside_the_total(device):
    w = ag.param(np.ones((64, 64)))
    with ag.grad_tape():
        loss = (w * w).sum()
    loss.item()
    before = ag.tape_memory(quiet=True)
    ag.backward(loss)
    change = ag.tape_memory(quiet=True) - before
    assert (change.bytes_total, change.bytes_grads, change.by_op) == (0, 4 * 64 * 64, [])
    assert "gradients" in change.text()


def test_reports_by_different_rules(device):
    report_of("perceptron")
    with pytest.raises(ValueError, match="by rule 'role' and 'lifetime' cannot be compared"):
        ag.tape_memory(quiet=True, rule="role") - ag.tape_memory(quiet=True)


def test_what_is_no_report(device):
    found = report_of("perceptron")
    with pytest.raises(TypeError):
        found - 3
    with pytest.raises(TypeError):
        3 - found
    with pytest.raises(AttributeError, match="no 'bytes_other'"):
        _ = (found - found).bytes_other


def test_a_difference_can_be_copied(device):
    change = report_of("transformer") - report_of("mixed")
    assert copy.deepcopy(change).to_dict() == change.to_dict()
