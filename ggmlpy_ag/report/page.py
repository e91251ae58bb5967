"""A report as one HTML page that needs nothing else: no network, no other file.

`page.html` is the frame; `page.css` and the `page_*.js` go into it as they are. The page's own policy allows no other
script or style than these, known by their hashes, and no request at all. The report goes in as JSON, where each name
is written once and a storage is a number in each of a dozen columns, so that 100,000 storages take a few megabytes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from ..backend.memory import format_bytes
from .timeline import Timeline

if TYPE_CHECKING:
    from .tape_report import TapeReport

SCRIPTS = ("dom", "table", "map", "timeline", "main")  # each uses what those before it define
TABLES = ("layer", "op", "line", "dtype", "device")
TEXTS = ("part", "device", "dtype", "made_by", "op", "layer", "line", "shape", "holders")  # columns of names
EVENT_TEXTS = ("device", "kind", "op", "layer", "line", "phase", "part", "shape")


def html(report: TapeReport, timeline: Timeline | None = None) -> str:
    """The page as text."""
    style = _asset("page.css")
    script = "\n".join(_asset(f"page_{name}.js") for name in SCRIPTS)
    return Template(_asset("page.html")).substitute(
        title=escape(f"Tape memory: {format_bytes(report.bytes_total)}"),
        text=escape(report.text()),
        style=style,
        style_hash=_hash(style),
        script=script,
        script_hash=_hash(script),
        data=_json(page_data(report, timeline)),
    )


def page_data(report: TapeReport, timeline: Timeline | None = None) -> dict[str, Any]:
    """What the page's script gets: `strings`, and all else with places in it instead of names."""
    strings: dict[str, int] = {}

    def place(name: object) -> int:
        return strings.setdefault(str(name), len(strings))

    rows = report.storages
    sums = {
        key: [
            [place(r.name), r.nodes, r.bytes_inputs, r.bytes_snapshots, r.bytes_fields, r.bytes_pending]
            for r in getattr(report, f"by_{key}")
        ]
        for key in TABLES
    }
    columns = {name: [place(getattr(row, name)) for row in rows] for name in TEXTS}
    columns |= {name: [int(getattr(row, name)) for row in rows] for name in ("bytes", "node", "pending")}
    series = [] if timeline is None else sorted(_series(timeline, place), key=lambda one: -max(one["used"]))
    totals = {
        "total": report.bytes_total,
        "operands": report.bytes_inputs,
        "activations": report.bytes_snapshots,
        "fields": report.bytes_fields,
        "gradients": report.bytes_grads,
        "pending": report.bytes_pending,
        "values_pending": report.values_pending,
        "host": report.bytes_host,
        "device": report.bytes_device,
    }
    lines = {*columns["line"], *(row[0] for row in sums["line"]), *(i for one in series for i in one["line"])}
    return {
        "nodes": report.nodes,
        "rule": report.rule,
        "totals": totals,
        "sums": sums,
        "storages": columns,
        "timeline": series,
        **_shortened(list(strings), lines),
    }


def _series(timeline: Timeline, place: Callable[[object], int]) -> Iterator[dict[str, Any]]:
    """For each device with events their columns; `of` and `until` are places in these, -1 for none."""
    for device in timeline.devices:
        found = [event for event in timeline.events if event.device == device]
        at = {event.number: i for i, event in enumerate(found)}
        at_peak = timeline.peak(device).event
        ends = {event.of: i for i, event in enumerate(found) if event.of is not None}
        if found:
            yield {
                "before": timeline.before[device],
                "peak": -1 if at_peak is None else at[at_peak],
                "seconds": [round(event.seconds, 6) for event in found],
                "used": [event.in_use for event in found],
                "live": [event.live for event in found],
                "bytes": [event.bytes for event in found],
                "of": [-1 if event.of is None else at[event.of] for event in found],
                "until": [ends.get(event.number, -1) for event in found],
                **{name: [place(getattr(event, name)) for event in found] for name in EVENT_TEXTS},
            }


def _shortened(strings: list[str], lines: set[int]) -> dict[str, Any]:
    """The strings, and the folder that those at `lines`, such as "/home/me/train.py:12 in step", are relative to."""
    folders = {os.path.dirname(strings[i]) for i in lines if not strings[i].startswith(("(", "<"))}
    try:
        folder = os.path.commonpath(folders) if folders else ""
    except ValueError:  # on several drives
        folder = ""
    start = os.path.join(folder, "")
    for i in lines if folder else ():
        strings[i] = strings[i].removeprefix(start)
    return {"folder": folder, "strings": strings}


def _asset(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


def _hash(text: str) -> str:
    """A source of a Content-Security-Policy: this very text."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _json(data: object) -> str:
    """JSON for a script element, which ends at the first "</script" whatever that is a part of."""
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


def write(report: TapeReport, path: str | os.PathLike[str], timeline: Timeline | None = None) -> None:
    """Write the page, in UTF-8."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"to_html: path must be the path of a file, not {type(path).__name__}")
    if timeline is not None and not isinstance(timeline, Timeline):
        raise TypeError(f"to_html: timeline must be that of ag.memory_timeline(), not {type(timeline).__name__}")
    Path(path).write_text(html(report, timeline), "utf-8", errors="replace", newline="\n")
