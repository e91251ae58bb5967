"""Reports as plain data and JSON, and back; as Markdown, and as HTML for notebooks."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from html import escape
from typing import TYPE_CHECKING, Any

from ..backend.memory import format_bytes
from .storages import StorageRow, SumRow
from .tables import Table, figures, tables
from .text import WHEN_TO_CALL

if TYPE_CHECKING:
    from .tape_report import TapeReport

SCHEMA = {"name": "ggmlpy_ag.tape_report", "version": 1}  # docs/report.schema.json describes it
FIGURES = (
    "nodes", "bytes_total", "bytes_inputs", "bytes_snapshots", "bytes_fields", "bytes_freeable", "bytes_grads",
    "bytes_host", "bytes_device", "bytes_pending", "values_pending",
)  # fmt: skip
TABLES = ("by_op", "by_layer", "by_line", "by_dtype", "by_device")
PARTS = ("operands", "activations", "fields", "gradients")
RULES = ("lifetime", "role")
NAMES = ("op", "layer", "line")

Fields = tuple[int, tuple[StorageRow, ...], str, dict[str, "Counter[str]"]]


def to_dict(report: TapeReport) -> dict[str, Any]:
    """What the schema describes. The figures and tables follow from the storages and names."""
    return {
        "schema": dict(SCHEMA),
        "rule": report.rule,
        "figures": {name: getattr(report, name) for name in FIGURES},
        **{table: sums_to_dict(getattr(report, table)) for table in TABLES},
        "names": {kind: dict(report.names[kind]) for kind in NAMES},
        "storages": [{**row._asdict(), "shape": list(row.shape)} for row in report.storages],
    }


def sums_to_dict(rows: list[SumRow]) -> list[dict[str, Any]]:
    """The rows of a table, with the sum of each."""
    return [{**vars(row), "bytes": row.bytes} for row in rows]


def loaded(text: str | bytes) -> Fields:
    """The fields of the report that `to_json` wrote."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"from_json: this is no JSON: {error}") from None
    return parsed(data)


def parsed(data: Any) -> Fields:
    """The fields of the report that `to_dict` wrote; ValueError says what is wrong with any other data."""
    if not isinstance(data, Mapping):
        raise TypeError(f"from_dict: a report is a mapping, not {type(data).__name__}")
    schema = data.get("schema")
    if not isinstance(schema, Mapping) or schema.get("name") != SCHEMA["name"]:
        raise ValueError(f"from_dict: no tape report: its schema must be named {SCHEMA['name']!r}, not {schema!r:.200}")
    if schema.get("version") != SCHEMA["version"]:
        raise ValueError(
            f"from_dict: this library reads version {SCHEMA['version']} of {SCHEMA['name']}, not "
            f"{schema.get('version')!r:.200}"
        )
    nodes = _checked(data.get("figures"), "figures", {"nodes": _is_count})["nodes"]
    _checked(data, "report", {"rule": RULES.__contains__, "storages": _is_list})
    names = _checked(data.get("names"), "names", dict.fromkeys(NAMES, _is_counts))
    checks: dict[str, Callable[[Any], bool]] = {**_ROW, "node": lambda n: _is_count(n) and n < nodes}
    rows = []
    for i, row in enumerate(data["storages"]):
        found = _checked({"holders": "", **row} if isinstance(row, Mapping) else row, f"storages[{i}]", checks)
        rows.append(StorageRow(**{**found, "shape": tuple(found["shape"])}))
    return nodes, tuple(rows), data["rule"], {kind: Counter(counts) for kind, counts in names.items()}


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_counts(value: Any) -> bool:
    return isinstance(value, Mapping) and all(_is_text(name) and _is_count(n) for name, n in value.items())


_ROW: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(StorageRow._fields, _is_text),
    "part": PARTS.__contains__,
    "bytes": _is_count,
    "nbytes": _is_count,
    "shape": lambda shape: _is_list(shape) and all(map(_is_count, shape)),
    "node": _is_count,
    "pending": lambda pending: isinstance(pending, bool),
}


def _checked(data: Any, where: str, checks: Mapping[str, Callable[[Any], bool]]) -> dict[str, Any]:
    """The values under these keys, each of which passes its check."""
    if not isinstance(data, Mapping):
        raise ValueError(f"from_dict: {where} must be a mapping, not {data!r:.200}")
    for key, check in checks.items():
        if key not in data:
            raise ValueError(f"from_dict: {where} has no {key!r}")
        if not check(data[key]):
            raise ValueError(f"from_dict: {where} has a {key!r} that is not possible: {data[key]!r:.200}")
    return {key: data[key] for key in checks}


def to_markdown(report: TapeReport, top: int) -> str:
    """Tables of GitHub's Markdown."""
    if not report.nodes:
        return WHEN_TO_CALL
    lead = Table(("part", "bytes", "meaning"), (True, False, True), figures(report))
    parts = [f"**Tape memory: {report.nodes} operations, {format_bytes(report.bytes_total)}**"]
    for table in (lead, *tables(report, top)):
        rule = tuple(":--" if words else "--:" for words in table.words)
        cells = [tuple(map(_markdown_cell, row)) for row in table.rows]
        parts.append("\n".join(f"| {' | '.join(row)} |" for row in (table.heading, rule, *cells)))
    return "\n\n".join(parts) + "\n"


def _markdown_cell(text: str) -> str:
    """The text itself: none of its characters means anything."""
    return "".join(f"\\{c}" if c in r"\`*_{}[]<>#|~$&!" else c for c in " ".join(text.split()))


def to_notebook(report: TapeReport, top: int) -> str:
    """A compact piece of HTML, with no script."""
    if not report.nodes:
        return f"<p>{escape(WHEN_TO_CALL)}</p>"
    lead = Table(("part", "bytes", "meaning"), (True, False, True), figures(report))
    title = f"Tape memory: {report.nodes} operations, {format_bytes(report.bytes_total)}"
    parts = [f"<p><b>{escape(title)}</b></p>", _html_table(lead)]
    for table in tables(report, top):
        parts.append(f"<details><summary>{escape(table.heading[0])}</summary>{_html_table(table)}</details>")
    return f"<div>{''.join(parts)}</div>"


def _html_table(table: Table) -> str:
    def line(tag: str, row: tuple[str, ...]) -> str:
        sides = ("left" if words else "right" for words in table.words)
        cells = zip(row, sides, strict=True)
        return "".join(f'<{tag} style="text-align:{side}">{escape(cell)}</{tag}>' for cell, side in cells)

    body = "".join(f"<tr>{line('td', row)}</tr>" for row in table.rows)
    return f"<table><thead><tr>{line('th', table.heading)}</tr></thead><tbody>{body}</tbody></table>"
