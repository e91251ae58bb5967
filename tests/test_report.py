"""The tables of a report, how it is printed, where its lines come from, and what it costs."""

from __future__ import annotations

import functools
import gc
import re
import subprocess
import sys

import numpy as np
import pytest
from reports import MODELS, assert_adds_up

import ggmlpy_ag as ag
from ggmlpy_ag.report import walk
from ggmlpy_ag.report.text import cut


def report(**options):
    return ag.tape_memory(quiet=True, **options)


# ---------------------------------------------------------------- tables


@pytest.mark.parametrize("rule", ["lifetime", "role"])
@pytest.mark.parametrize("model", MODELS)
def test_every_table_adds_up_to_the_byte(device, model, rule):
    make_loss = MODELS[model]()
    for _ in range(2):  # the second time with the gradients of the first
        with ag.grad_tape(trace=True):
            loss = make_loss()
            assert_adds_up(report(rule=rule))  # pending
        loss.item()
        assert_adds_up(report(rule=rule))
        ag.backward(loss)
        found = report(rule=rule)
        assert_adds_up(found)
        assert found.bytes_total > 0 and found.bytes_grads > 0 and found.bytes_pending == 0


@pytest.mark.parametrize("model", MODELS)
def test_what_is_freed_is_what_the_tables_say(device, model):
    make_loss = MODELS[model]()
    with ag.grad_tape(trace=True) as tape:
        loss = make_loss()
    ag.backward(loss)
    found = report()
    before = ag.memory_stats().live
    tape.clear()
    freed = before - ag.memory_stats().live
    for table in (found.by_op, found.by_layer, found.by_line, found.by_dtype, found.by_device):
        assert sum(row.bytes_snapshots + row.bytes_fields for row in table) == freed


def test_a_layer_is_the_path_of_its_module(device):
    net = ag.nn.Sequential(ag.nn.Linear(4, 8), ag.nn.Sequential(ag.nn.Tanh()))
    x = ag.tensor(np.ones((16, 4)))
    with ag.grad_tape():
        loss = net(x).sum() * 2.0
    loss.item()
    found = {row.name: (row.nodes, row.bytes_snapshots) for row in report().by_layer}
    assert found == {"0": (1, 0), "1.0": (1, 4 * 16 * 8), "(no layer)": (2, 0)}


def test_types_and_devices(device):
    a, b = ag.param(np.ones(1024)), ag.param(np.ones(1024), dtype="bfloat16")
    c = ag.param(np.ones(1024), device="cpu")
    with ag.grad_tape():
        loss = (a * b).sum() + c.exp().to(device).sum()
    loss.item()
    found = report()
    assert {row.name for row in found.by_dtype} == {"float32", "bfloat16"}
    assert {row.name for row in found.by_device} == {"cpu", device}
    assert_adds_up(found)


def test_the_largest_are_the_largest(device):
    make_loss = MODELS["transformer"]()
    with ag.grad_tape():
        ag.backward(make_loss())
    found = report()
    sizes = sorted((row.bytes for row in found.storages), reverse=True)
    assert [row.bytes for row in found.largest(5)] == sizes[:5]
    assert len(found.largest(10_000)) == len(found.storages)


# ---------------------------------------------------------------- lines


def here(offset=0):
    """The line of the caller, as the report writes it."""
    frame = sys._getframe(1)
    return f"{frame.f_code.co_filename}:{frame.f_lineno + offset} in {frame.f_code.co_name}"


def lines_of(tape):
    return [node.line for node in tape.nodes]


def twice(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(function(*args))

    return wrapper


@twice
def decorated(x):
    return x.tanh()


class Scaled(ag.nn.Module):
    def forward(self, x):
        return x * 2.0


def test_a_line_is_the_users_own(device):
    x = ag.param(np.ones((4, 4)))
    linear, own = ag.nn.Linear(4, 4), Scaled()
    with ag.grad_tape(trace=True) as tape:
        expected = [here(1)]
        y = ag.exp(x)
        expected += [here(1)] * 2
        y = -y + 1.0
        expected += [here(1)]
        y = np.ones((4, 4)) * y
        expected += [here(1)] * 2
        y = (y @ x).sum(0)
        expected += [here(1)]
        y = linear(y)
        expected += [here(1)]
        y = ag.checkpoint(ag.tanh, y)
        y = own(y)
        expected += [f"{__file__}:{Scaled.forward.__code__.co_firstlineno + 1} in forward"]
        y = decorated(y)
        expected += [f"{__file__}:{decorated.__wrapped__.__code__.co_firstlineno + 2} in decorated"] * 2
        expected += [here(1)]
        y = [value * 1.0 for value in [y]][0]
    assert [re.sub(r"<listcomp>", "test_a_line_is_the_users_own", line) for line in lines_of(tape)] == expected


@pytest.mark.parametrize("file", ["<ipython-input-3>", "<string>"])  # the latter is that of `python -c`
def test_lines_of_code_without_a_file(file):
    names = {"ag": ag, "x": ag.param([1.0])}
    with ag.grad_tape(trace=True) as tape:
        exec(compile("\ny = x * 2.0", file, "exec"), names)
    assert lines_of(tape) == [f"{file}:2 in <module>"]
    assert f"{file}:2 in <module>" in report().text()


def test_lines_of_a_program_on_standard_input():
    program = (
        "import ggmlpy_ag as ag\n"
        "x = ag.param([1.0, 2.0])\n"
        "with ag.grad_tape(trace=True):\n"
        "    y = x.exp()\n"
        "print(ag.tape_memory(quiet=True).by_line[0].name)\n"
    )
    run = subprocess.run([sys.executable, "-"], input=program, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "<stdin>:4 in <module>"


def test_without_trace_there_are_no_lines(device):
    with ag.grad_tape() as tape:
        ag.param([1.0]).exp()
    assert lines_of(tape) == [None]
    assert [row.name for row in report().by_line] == ["(not traced)"]


# ---------------------------------------------------------------- printing


def headings(text):
    return [
        line.split()[0] for line in text.splitlines() if re.match(r" +(operation|layer|line|dtype|largest)\b", line)
    ]


def test_a_small_tape_has_a_short_report(device):
    x = ag.param(np.ones(8))
    with ag.grad_tape():
        loss = x.exp().sum()
    loss.item()
    assert headings(report().text()) == ["operation"]


def test_a_report_has_the_tables_that_say_something(device):
    make_loss = MODELS["transformer"]()
    with ag.grad_tape():
        loss = make_loss()
    loss.item()
    assert headings(report().text()) == ["operation", "layer", "dtype", "largest"]  # dropout's mask is float16
    with ag.grad_tape(trace=True):
        loss = MODELS["mixed"]()()
    loss.item()
    assert headings(report().text())[:3] == ["operation", "line", "dtype"]


def test_top_limits_each_table(device):
    make_loss = MODELS["transformer"]()
    with ag.grad_tape(trace=True):
        ag.backward(make_loss())
    found = report()
    tables = found.text(top=2).split("\n\n")
    assert [len(table.splitlines()) for table in tables[1:]] == [4, 2, 3, 3]  # layers, one line, two types, largest
    assert f"... {len(found.by_layer) - 2} more" in tables[1]


def test_at_most_100_columns_with_the_longest_names(device, monkeypatch, tmp_path):
    class Deep(ag.nn.Module):
        def forward(self, x):
            return x.exp()

    net = ag.nn.Sequential()
    net.add_module("a_part_with_a_name_of_many_words_" * 5, Deep())
    names = {"net": net, "x": ag.param(np.ones((2, 3, 4, 5)))}
    file = str(tmp_path / ("folder" * 20) / "script.py")
    with ag.grad_tape(trace=True):
        exec(
            compile(
                "def " + "f" * 150 + "():\n  y = x\n  for _ in range(12): y = net(y) * y\n  return y", file, "exec"
            ),
            names,
        )
        y = names["f" * 150]()
    for text in (report().text(), ag.tape_memory(quiet=True, holders=True).text()):
        assert max(map(len, text.splitlines())) <= 100
        assert "layer" in headings(text) and "line" in headings(text) and "largest" in headings(text)
    assert y.shape == (2, 3, 4, 5)


def test_paths_are_shown_as_seen_from_the_working_directory(device, monkeypatch, tmp_path):
    names = {"x": ag.param([1.0])}
    with ag.grad_tape(trace=True):
        exec(compile("y = x * 2.0", str(tmp_path / "lib" / "net.py"), "exec"), names)
    (tmp_path / "lib").mkdir()
    for folder, shown in ((tmp_path, "lib.net.py"), (tmp_path / "lib", "net.py")):
        monkeypatch.chdir(folder)
        assert re.search(rf"^  {shown}:1 in <module> ", report().text(), re.MULTILINE)
    assert report().by_line[0].name.startswith(str(tmp_path))  # in full in the data


def test_a_report_where_the_working_directory_is_gone_and_nothing_is_printed_to(device, monkeypatch):
    with ag.grad_tape(trace=True):
        ag.param([1.0]).exp()
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr("os.getcwd", lambda: (_ for _ in ()).throw(FileNotFoundError("gone")))
    assert ag.tape_memory().text().startswith("tape memory: 1 operations")


def test_names_are_cut_in_the_middle():
    assert cut("abcdefghij", 10) == "abcdefghij"
    assert cut("abcdefghij", 9) == "abc...hij"
    assert cut("abcdefghij", 4) == "...j"


def test_colours_only_on_a_terminal_that_wants_them(device, monkeypatch, capsys):
    def printed(**environment):
        monkeypatch.delenv("NO_COLOR", raising=False)
        monkeypatch.setenv("TERM", "xterm")
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        found = ag.tape_memory()
        text = capsys.readouterr().out
        assert "\x1b" not in found.text() and "\x1b" not in str(found)
        assert re.sub(r"\x1b\[\d*m", "", text) == found.text() + "\n"
        return "\x1b" in text

    with ag.grad_tape():
        ag.param([1.0]).exp()
    assert not printed()
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert printed()
    assert not printed(NO_COLOR="1")
    assert not printed(TERM="dumb")


def test_no_name_moves_the_cursor(device):
    with ag.grad_tape():
        x = ag.param([1.0])
        ag.record("evil\x1b[2J\n", x.detach() * 1.0, (x,), lambda g: (g,))
    assert "evil?[2J?" in report().text()
    assert "\x1b" not in report().text()


# ---------------------------------------------------------------- exactness of the walk


@pytest.mark.parametrize("held", [False, True])
def test_what_a_decorated_rule_holds(device, held):
    """functools.wraps leaves a second reference to the rule, in the attributes of the function around it."""

    def decorate(rule):
        @functools.wraps(rule)
        def around(*gradients):
            return rule(*gradients)

        return around

    x = ag.param(np.ones((64, 64)))
    with ag.grad_tape() as tape:
        h = ag.tensor(np.ones((64, 64)))
        rule = decorate(lambda g, h=h: (g * h,))
        ag.record("mine", x.detach() * 1.0, (x,), rule)
    del h
    if not held:
        del rule
    found = report()
    before = ag.memory_stats().live
    tape.clear()
    assert found.bytes_freeable == before - ag.memory_stats().live == (0 if held else 4 * 64 * 64)


def test_a_value_in_an_attribute_of_a_rule(device):
    x = ag.param(np.ones((64, 64)))
    with ag.grad_tape() as tape:

        def rule(g):
            return (g,)

        rule.saved = ag.tensor(np.ones((64, 64)))
        ag.record("mine", x.detach() * 1.0, (x,), rule)
    del rule
    found = report()
    before = ag.memory_stats().live
    tape.clear()
    assert found.bytes_freeable == before - ag.memory_stats().live == 4 * 64 * 64


def test_operands_that_someone_holds_through_a_node(device):
    with ag.grad_tape() as tape:
        loss = ag.param(np.ones((64, 64))).exp().sum()
    loss.item()
    edges = tape.nodes[0].edges
    found = report()
    before = ag.memory_stats().live
    tape.clear()
    assert found.bytes_freeable == before - ag.memory_stats().live == 4 * 64 * 64  # what exp saved, not the leaf
    assert len(edges) == 1


# ---------------------------------------------------------------- cost


def chain(nodes):
    w, h = ag.param(np.eye(4)), ag.tensor(np.ones((4, 4)))
    with ag.grad_tape() as tape:
        for _ in range(nodes // 2):
            h = ag.tanh(h @ w)
    float(h.sum())
    return tape


def test_a_node_costs_few_looks_and_hardly_a_call(device, monkeypatch):
    """Times belong in scripts/bench.py; what they follow from is counted here."""
    looks, calls = [0], [0]
    add = walk._Kind.add
    monkeypatch.setattr(walk._Kind, "add", lambda kind, things: (looks.append(len(things)), add(kind, things))[1])

    def cost(nodes):
        tape = chain(nodes)
        looks[:], calls[:] = [0], [0]
        sys.setprofile(lambda frame, event, argument: calls.append(1) if event == "call" else None)
        try:
            report(tape=tape)
        finally:
            sys.setprofile(None)
        return sum(looks), sum(calls)

    (few_looks, few_calls), (many_looks, many_calls) = cost(200), cost(2200)
    assert (many_looks - few_looks) / 2000 <= 12  # references followed, for each node
    assert (many_calls - few_calls) / 2000 <= 4  # calls of Python functions


def test_a_report_leaves_the_collector_as_it_was(device):
    with ag.grad_tape():
        ag.param([1.0]).exp()
    report()
    assert gc.isenabled()
    gc.disable()
    try:
        report()
        assert not gc.isenabled()
    finally:
        gc.enable()
