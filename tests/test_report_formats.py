"""Reports as data, JSON, Markdown and HTML."""

from __future__ import annotations

import copy
import json
from html.parser import HTMLParser
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from reports import MODELS, assert_adds_up

import ggmlpy_ag as ag

SCHEMA = json.loads((Path(__file__).resolve().parent.parent / "docs" / "report.schema.json").read_text("utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def report_of(model="mixed", trace=True, run=True, **options):
    with ag.grad_tape(trace=trace):
        loss = MODELS[model]()()
    if run:
        ag.backward(loss)
    return ag.tape_memory(quiet=True, **options)


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("model", MODELS)
def test_reports_follow_the_schema_and_come_back_equal(device, model):
    for found in (report_of(model, run=False), report_of(model), report_of(model, trace=False, rule="role")):
        text = found.to_json()
        VALIDATOR.validate(json.loads(text))
        for back in (ag.TapeReport.from_json(text), ag.TapeReport.from_dict(found.to_dict())):
            assert back == found
            assert back.text() == found.text()
            assert back.to_json() == text
            assert_adds_up(back)


def test_the_report_of_an_empty_tape(device):
    ag.zero_grad()
    found = ag.tape_memory(quiet=True)
    VALIDATOR.validate(found.to_dict())
    assert ag.TapeReport.from_json(found.to_json(indent=1)) == found
    assert found.rows() == []
    assert "the tape is empty" in found.to_markdown() and "the tape is empty" in found._repr_html_()


def test_holders_come_back(device):
    x = ag.param(np.ones(64))
    with ag.grad_tape():
        loss = x.exp().sum()
    loss.item()
    found = ag.tape_memory(quiet=True, holders=True)
    assert any(row.holders for row in found.storages)
    VALIDATOR.validate(found.to_dict())
    back = ag.TapeReport.from_json(found.to_json())
    assert back == found and "held by" in back.text()


def test_data_are_plain(device):
    found = report_of()
    data = found.to_dict()
    assert json.loads(json.dumps(data)) == data
    assert data["schema"] == {"name": "ggmlpy_ag.tape_report", "version": 1}
    assert data["figures"]["bytes_total"] == sum(row["bytes"] for row in data["by_op"])
    copied = copy.deepcopy(data)
    ag.TapeReport.from_dict(data)
    assert data == copied
    rows = found.rows()
    assert len(rows) == len(found.storages)
    assert {type(value) for row in rows for value in row.values()} == {str, int, bool, tuple}


def test_rows_are_a_data_frame(device):
    pandas = pytest.importorskip("pandas")
    found = report_of()
    table = pandas.DataFrame(found.rows())
    assert table[table.part != "gradients"].bytes.sum() == found.bytes_total


def test_an_older_file_without_holders(device):
    data = report_of().to_dict()
    for row in data["storages"]:
        del row["holders"]
    VALIDATOR.validate(data)
    assert ag.TapeReport.from_dict(data) == ag.TapeReport.from_dict(report_of().to_dict())


WRONG = {
    "no schema": (lambda d: d.pop("schema"), "its schema must be named"),
    "another schema": (lambda d: d["schema"].update(name="other"), "not {'name': 'other'"),
    "a newer version": (lambda d: d["schema"].update(version=2), "reads version 1 .* not 2"),
    "no rule": (lambda d: d.pop("rule"), "report has no 'rule'"),
    "another rule": (lambda d: d.update(rule="both"), "a 'rule' that is not possible: 'both'"),
    "a rule that is a list": (lambda d: d.update(rule=[]), "a 'rule' that is not possible"),
    "no figures": (lambda d: d.pop("figures"), "figures must be a mapping, not None"),
    "nodes as text": (lambda d: d["figures"].update(nodes="3"), "'nodes' that is not possible: '3'"),
    "nodes as truth": (lambda d: d["figures"].update(nodes=True), "'nodes' that is not possible: True"),
    "no names": (lambda d: d.update(names=[]), "names must be a mapping"),
    "names without lines": (lambda d: d["names"].pop("line"), "names has no 'line'"),
    "names without numbers": (lambda d: d["names"].update(op={"add": "many"}), "'op' that is not possible"),
    "storages as a mapping": (lambda d: d.update(storages={}), "'storages' that is not possible"),
    "a storage as a number": (lambda d: d["storages"].insert(1, 7), r"storages\[1\] must be a mapping, not 7"),
    "a storage without a part": (lambda d: d["storages"][0].pop("part"), r"storages\[0\] has no 'part'"),
    "another part": (lambda d: d["storages"][2].update(part="rest"), r"storages\[2\] has a 'part' that .*'rest'"),
    "negative bytes": (lambda d: d["storages"][0].update(bytes=-1), "'bytes' that is not possible: -1"),
    "bytes as a fraction": (lambda d: d["storages"][0].update(bytes=0.5), "'bytes' that is not possible: 0.5"),
    "a shape as text": (lambda d: d["storages"][0].update(shape="3x4"), "'shape' that is not possible"),
    "a shape of text": (lambda d: d["storages"][0].update(shape=["3"]), "'shape' that is not possible"),
    "a node beyond the tape": (lambda d: d["storages"][0].update(node=999), "'node' that is not possible: 999"),
    "pending as a number": (lambda d: d["storages"][0].update(pending=0), "'pending' that is not possible: 0"),
    "a layer that is none": (lambda d: d["storages"][0].update(layer=None), "'layer' that is not possible: None"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_data(case):
    change, message = WRONG[case]
    data = report_of().to_dict()
    change(data)
    with pytest.raises(ValueError, match=message):
        ag.TapeReport.from_dict(data)
    with pytest.raises(ValueError, match=message):
        ag.TapeReport.from_json(json.dumps(data))


@pytest.mark.parametrize("text", ["", "{", "nonsense", "[" * 100_000, b"\xff\xfe\x00", "9" * 5000])
def test_what_is_no_json(text):
    with pytest.raises(ValueError, match="this is no JSON"):
        ag.TapeReport.from_json(text)


@pytest.mark.parametrize("data", [None, 3, "text", []])
def test_what_is_no_mapping(data):
    with pytest.raises(TypeError, match="a report is a mapping"):
        ag.TapeReport.from_dict(data)
    with pytest.raises(TypeError, match="a report is a mapping"):
        ag.TapeReport.from_json(json.dumps(data))


def test_a_loaded_report_says_why_it_knows_no_what_if(device):
    with pytest.raises(ValueError, match="make one with tape_memory"):
        ag.TapeReport.from_json(report_of().to_json()).what_if("0")


NAMES = ["a|b", "<script>alert(1)</script>", "_x_ *y* `z`", "&amp;"]


def report_with_names():
    x = ag.param([1.0])
    with ag.grad_tape():
        for name in NAMES:
            ag.record(name, x.detach() * 1.0, (x,), lambda g: (g,))
    return ag.tape_memory(quiet=True)


def test_markdown(device):
    text = report_of("transformer").to_markdown(top=3)
    parts = text.strip().split("\n\n")
    assert parts[0].startswith("**Tape memory: ")
    for table in parts[1:]:
        columns = {line.count("|") for line in table.splitlines()}
        assert len(columns) == 1
        assert set(table.splitlines()[1]) <= set("|:- ")
    assert len(parts) == 7  # the parts, operations, layers, lines, types, largest


def test_markdown_means_what_it_says(device):
    lines = report_with_names().to_markdown().splitlines()
    assert any(line.startswith(r"| a\|b | 1 |") for line in lines)
    assert any(line.startswith(r"| \<script\>alert(1)\</script\> | 1 |") for line in lines)
    assert any(line.startswith(r"| \_x\_ \*y\* \`z\` | 1 |") for line in lines)


class Page(HTMLParser):
    """Checks that tags are closed in order; collects tags and cells."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.cells = [], set(), []

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)
        self.tags.add(tag)
        assert {name for name, _ in attributes} <= {"style"}

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.cells.append(data)


def test_the_form_for_notebooks(device):
    page = Page()
    found = report_with_names()
    page.feed(found._repr_html_())
    assert page.open == []
    assert page.tags <= {"div", "p", "b", "table", "thead", "tbody", "tr", "th", "td", "details", "summary"}
    assert set(NAMES) <= set(page.cells)
    assert len(report_of("transformer")._repr_html_()) < 20_000
