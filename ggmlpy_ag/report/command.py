"""`python -m ggmlpy_ag tape SCRIPT.py`: run a script as it is, and report on its tape at the highest point.

That is looked for after each `backward()`. A step's values are recorded first and computed at the end of its backward
pass, so only then the activations are memory; and they are until the tape is cleared. Of all tapes the one whose rules
keep most is reported; and at the end of the script, or where it fails, the one that it leaves, if that keeps more.
"""

from __future__ import annotations

import argparse
import runpy
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from .. import tape as tapes
from ..tape import Tape, current_tape
from .tape_memory import tape_memory
from .tape_report import TapeReport
from .text import colours_wanted, report_text
from .timeline import Timeline, memory_timeline


class Highest:
    """The report on the tape that kept most of those seen, or on that of one step.

    Args:
        at_step: which call of `backward`, from 1 on; None for the highest point.
        timelines: whether to record memory over time from each backward pass to the end of the next.

    Attributes:
        report, timeline: so far.
        when: in words.
        steps: how many backward passes there were.
    """

    def __init__(self, at_step: int | None = None, timelines: bool = False) -> None:
        self.report: TapeReport | None = None
        self.timeline: Timeline | None = None
        self.when = ""
        self.steps = 0
        self._at_step = at_step
        self._bytes = 0
        self._timelines = timelines
        self._begin()

    def after_backward(self, tape: Tape) -> None:
        """See the tape that a backward pass has just walked."""
        self.steps += 1
        self._see(tape, f"after backward {self.steps}", self.steps == self._at_step)
        if self._timelines:
            self._begin()

    def at_the_end(self, when: str) -> None:
        """See the tape that the script leaves."""
        self._see(current_tape(), when, False)

    def _begin(self) -> None:
        if self._timelines:
            self._recording = memory_timeline()
            self._recorded = self._recording.__enter__()

    def _see(self, tape: Tape | None, when: str, chosen: bool) -> None:
        """Report on the tape if it is the one to report on so far."""
        if self._timelines:
            self._recording.__exit__(None, None, None)
        found = 0 if tape is None else _kept(tape)
        if chosen or (self._at_step is None and found > self._bytes):
            self.report, self.when, self._bytes = tape_memory(quiet=True, tape=tape), when, found
            if self._timelines:
                self.timeline = self._recorded


def _kept(tape: Tape) -> int:
    """Bytes that the rules keep."""
    storages = {storage for node in tape.nodes for link, _, _ in node.saved if (storage := link()) is not None}
    return sum(storage.block_bytes for storage in storages)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add = parser.add_argument
    add("--html", metavar="FILE", help="write the report as a page, with the memory of that step over time")
    add("--json", metavar="FILE", help="write the report as JSON")
    add("--top", type=int, metavar="N", default=10, help="how many rows of a table to print, by default 10")
    add("--at-step", type=int, metavar="N", help="report after the N-th backward pass, instead of the highest point")
    add("script", metavar="SCRIPT.py")
    add("arguments", nargs=argparse.REMAINDER, metavar="ARGUMENT", help="goes to the script")


def run(options: argparse.Namespace) -> int:
    """Run the script, print and write the report; returns the script's exit status, else 1 if there is no report."""
    if problem := _problem(options):
        print(f"error: {problem}", file=sys.stderr)
        return 2
    highest = Highest(options.at_step, timelines=options.html is not None)
    try:
        status = _run(options.script, options.arguments, highest)
    finally:  # a long training that Ctrl-C ends is worth a report as well
        shown = _show(options, highest)
    return status or int(not shown)


def _problem(options: argparse.Namespace) -> str | None:
    """What would go wrong at once, or after the script has run."""
    if not Path(options.script).is_file():
        return f"there is no script {options.script}"
    for name, least in (("top", 0), ("at_step", 1)):
        number = getattr(options, name)
        if number is not None and number < least:
            return f"--{name.replace('_', '-')} must be at least {least}, not {number}"
    for name in ("html", "json"):
        path = getattr(options, name)
        if path and not Path(path).absolute().parent.is_dir():
            return f"--{name}: there is no folder {Path(path).absolute().parent}"
    return None


def _run(script: str, arguments: Sequence[str], highest: Highest) -> int:
    """Run the script as Python does, watched; returns its exit status."""
    before = sys.argv, list(sys.path), tapes.trace_by_default, tapes.after_backward
    sys.argv = [script, *arguments]
    sys.path.insert(0, str(Path(script).resolve().parent))
    tapes.trace_by_default, tapes.after_backward = True, highest.after_backward
    try:
        variables = runpy.run_path(script, run_name="__main__")
        highest.at_the_end("where the script ended")  # while its variables hold what they hold
        del variables
        return 0
    except SystemExit as end:
        highest.at_the_end("where the script ended")
        return _status(end)
    except KeyboardInterrupt:
        highest.at_the_end("where it was interrupted")
        raise
    except Exception as error:
        highest.at_the_end("where the script failed")
        _print_error(error, script)
        return 1
    finally:
        sys.argv, sys.path[:], tapes.trace_by_default, tapes.after_backward = before


def _status(end: SystemExit) -> int:
    if end.code is None or isinstance(end.code, int):
        return end.code or 0
    print(end.code, file=sys.stderr)
    return 1


def _print_error(error: Exception, script: str) -> None:
    """Print the error as the script by itself would: without what ran it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != script:
        trace = trace.tb_next
    traceback.print_exception(type(error), error, trace)


def _show(options: argparse.Namespace, highest: Highest) -> bool:
    script, report, steps = options.script, highest.report, highest.steps
    if report is None:
        missing = "no tape that keeps anything" if options.at_step is None else f"no backward pass {options.at_step}"
        print(f"{script}: {missing}; there were {steps} backward passes", file=sys.stderr)
        return False
    print(f"{script}, {highest.when} of {steps}" if "backward" in highest.when else f"{script}, {highest.when}")
    print(report_text(report, options.top, colours_wanted()))
    if options.html:
        report.to_html(options.html, highest.timeline)
    if options.json:
        Path(options.json).write_text(report.to_json() + "\n", "utf-8")
    return True
