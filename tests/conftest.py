"""Devices for the tests: each test that takes `device` runs on every device of this machine.

`--require-device vulkan` fails the run when there is no such device, where it would otherwise be left out, and
`--require-browser` when there is no browser for the tests of pages.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest

# Mesa's Vulkan on the CPU is a device to the tests; ggml looks at this once, so it is set before anything else.
os.environ.setdefault("GGMLPY_AG_SOFTWARE_VULKAN", "1")
if workers := int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "0")):  # they share the cores
    os.environ.setdefault("GGMLPY_AG_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // workers)))

import browser

import ggmlpy_ag as ag
from ggmlpy_ag.backend import devices

DEVICES = [info.name for info in ag.devices()]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--require-device",
        action="append",
        default=[],
        metavar="NAME",
        help="fail unless this device is present (cpu, vulkan, vulkan:1); may be repeated",
    )
    parser.addoption("--require-browser", action="store_true", help="fail unless Chromium can be driven")


def pytest_configure(config: pytest.Config) -> None:
    for wanted in config.getoption("--require-device"):
        if not any(name == wanted or name.split(":")[0] == wanted for name in DEVICES):
            raise pytest.UsageError(f"--require-device {wanted}: there are only {', '.join(DEVICES)}")
    if config.getoption("--require-browser") and (missing := browser.missing()):
        raise pytest.UsageError(f"--require-browser: there is no {missing}")


def pytest_report_header() -> list[str]:
    return [f"device: {info}" for info in ag.devices()]


def _reopen() -> None:
    for opened in devices.opened():
        opened.trim()


@pytest.fixture(scope="module", autouse=True)
def fresh_backends() -> None:
    """Begin each file with backends that have no past.

    ggml frees scratch memory when it needs more, and Mesa's llvmpipe (22.3) may then touch what was freed, which ends
    the process some large products later.
    """
    _reopen()


@pytest.fixture
def fresh_backend(fresh_backends: None) -> None:
    """Likewise each test, in files of large operands."""
    _reopen()


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a device, which is the default device during the test; no operation may fall back to the CPU."""
    ag.set_fallback("error")
    with ag.device(request.param):
        yield request.param
    ag.zero_grad()
    ag.set_fallback("warn")


# Files that take longest, the slowest first: workers begin with these, so that none is left with one at the end.
SLOW = ["test_primitives", "test_ops", "test_windows", "test_demo", "test_memory", "test_resume", "test_rows"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    rank = {name: i for i, name in enumerate(SLOW)}
    items.sort(key=lambda item: rank.get(item.path.stem, len(SLOW)))


def pytest_collection_finish() -> None:
    """Keep CPython's collector, and what looks through all of its objects, from the objects of 30,000 tests."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def whole_heap() -> Iterator[None]:
    """For tests whose file's global variables are to be found by a search through all objects."""
    gc.unfreeze()
    yield
    gc.freeze()
