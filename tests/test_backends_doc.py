"""Every program of docs/backends.md prints what the page says, or ends its process as it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from child import output, run

import ggmlpy_ag as ag

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "backends.md").read_text("utf-8")
(_, _, HEAD), *FENCES = re.findall(r"^```(\w+) *(.*?)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
ENDS = "the process ends: "
DRIVER = next((info.adapter.driver for info in ag.devices() if info.name == "vulkan:0" and info.adapter), "")
MARK = "=== next program"

# The page shows what Mesa's llvmpipe gives; a program with a version behind `text` what that version gives.
PAIRS = list(zip(FENCES[::2], FENCES[1::2], strict=True))
SHOWN = [(program, text) for (_, _, program), (_, version, text) in PAIRS if version in DRIVER]
# One that ends its process has its own, and so has one that depends on what was in memory or used before it.
ALONE = [i for i, (program, text) in enumerate(SHOWN) if ENDS in text or "2**24" in program or "set_matmul" in program]
TOGETHER = [i for i in range(len(SHOWN)) if i not in ALONE]

pytestmark = pytest.mark.skipif(not DRIVER.startswith("llvmpipe"), reason="the first GPU is no llvmpipe")


def test_every_program_is_short_and_has_its_output() -> None:
    assert len(PAIRS) >= 25
    assert all((program[0], text[0]) == ("python", "text") for program, text in PAIRS)
    assert all(program[2].count("\n") <= 3 for program, _ in PAIRS)


@pytest.fixture(scope="module")
def printed() -> dict[int, str]:
    """What each program printed, of those that can run one after another."""
    parts = [f"print({MARK!r})\n{SHOWN[i][0]}" for i in TOGETHER]
    text = output(f"{HEAD}\n" + "\n".join(parts), GGMLPY_AG_SOFTWARE_VULKAN="1")
    return dict(zip(TOGETHER, text.split(f"{MARK}\n")[1:], strict=True))


@pytest.mark.parametrize("i", TOGETHER, ids=lambda i: SHOWN[i][0].partition("\n")[0][:60])
def test_a_program_prints_what_the_page_says(i: int, printed: dict[int, str]) -> None:
    assert printed[i] == SHOWN[i][1]


@pytest.mark.parametrize("i", ALONE, ids=lambda i: SHOWN[i][0].partition("\n")[0][:60])
def test_a_program_ends_as_the_page_says(i: int) -> None:
    program, text = SHOWN[i]
    shown, ends, assertion = text.partition(ENDS)
    done = run(f"{HEAD}\n{program}", GGMLPY_AG_SOFTWARE_VULKAN="1")
    assert done.stdout == shown
    assert (done.returncode != 0) == bool(ends), done.stderr
    assert assertion.removesuffix(" ...\n").strip() in done.stderr
