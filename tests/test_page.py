"""The report as a page, in a real browser: what it shows, that it sorts, filters and can do without a mouse."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import browser
import numpy as np
import pytest

import ggmlpy_ag as ag
from ggmlpy_ag import nn
from ggmlpy_ag.backend.memory import format_bytes
from ggmlpy_ag.report import StorageRow, TapeReport, Timeline

Open = Callable[..., Any]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    if missing := browser.missing():
        pytest.skip(f"there is no {missing}")
    driver = browser.start()
    yield driver
    driver.quit()


@pytest.fixture
def show(chromium: Any, tmp_path: Path) -> Iterator[Open]:
    """Opens a report's page; at the end of the test nothing has gone wrong there, and nothing was asked for."""
    path = tmp_path / "report.html"

    def opened(report: TapeReport, timeline: Timeline | None = None) -> Any:
        report.to_html(path, timeline)
        browser.said(chromium), browser.requests(chromium)
        chromium.get(path.as_uri())
        return chromium

    yield opened
    assert browser.said(chromium) == []
    assert {url for url in browser.requests(chromium) if not url.startswith("data:")} == {path.as_uri()}


class Net(nn.Module):
    """Two blocks, so that layers have paths."""

    def __init__(self) -> None:
        self.blocks = nn.Sequential(*(nn.Sequential(nn.Linear(32, 32), nn.GELU(), nn.LayerNorm(32)) for _ in range(2)))
        self.head = nn.Linear(32, 10)

    def forward(self, x: ag.Tensor) -> ag.Tensor:
        return self.head(self.blocks(x))


def step() -> tuple[TapeReport, Timeline]:
    """The report of a training step and its timeline."""
    model = Net()
    with ag.memory_timeline() as timeline:
        with ag.grad_tape(trace=True):
            loss = ag.cross_entropy_loss(model(np.ones((256, 32), np.float32)), np.zeros(256, np.int32))
        ag.backward(loss)
    return ag.tape_memory(quiet=True), timeline


@pytest.fixture(scope="module")
def stepped() -> tuple[TapeReport, Timeline]:
    with ag.device("cpu"):
        return step()


ROW = StorageRow(
    "activations", 1024, 1000, "cpu", "float32", (25, 10), "matmul", "linear", 3, "blocks.0", "/a/t.py:1 in f", False
)


def report_of(rows: list[StorageRow]) -> TapeReport:
    empty = ag.tape_memory(quiet=True, tape=ag.Tape())
    return replace(empty, nodes=len(rows), storages=tuple(rows))


def many(n: int) -> list[StorageRow]:
    """Rows of sizes from 64 bytes to 64 KiB, in 300 layers."""
    parts = ("operands", "activations", "activations", "gradients")
    return [
        ROW._replace(
            part=parts[i % 4], bytes=64 * (i * i % 1000 + 1), layer=f"layers.{i % 300}", op=f"op{i % 7}", node=i
        )
        for i in range(n)
    ]


def css(driver: Any, selector: str) -> list[Any]:
    return driver.find_elements("css selector", selector)


def texts(driver: Any, selector: str) -> list[str]:
    """The texts of all these elements, in one round trip."""
    script = "return [...document.querySelectorAll(arguments[0])].map((e) => e.innerText.toWellFormed())"
    return driver.execute_script(script, selector)


def column(driver: Any, table: str, name: str) -> list[str]:
    """The cells below a head, of the first table in `table`."""
    place = 1 + [text.strip() for text in texts(driver, f"{table} .table:first-child thead th")].index(name)
    return texts(driver, f"{table} .table:first-child tbody tr > :nth-child({place})")


def head(driver: Any, table: str, name: str) -> Any:
    """The button that sorts by this column."""
    return next(b for b in css(driver, f"{table} .table:first-child thead button") if b.text.strip() == name)


def keys(driver: Any, *pressed: str) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    ActionChains(driver).send_keys(*pressed).perform()


def hover(driver: Any, target: Any) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    ActionChains(driver).move_to_element(target).perform()


def wait_for(driver: Any, condition: Callable[[], Any]) -> Any:
    from selenium.webdriver.support.wait import WebDriverWait

    return WebDriverWait(driver, 60, poll_frequency=0.05).until(lambda _: condition())


# ---------------------------------------------------------------- what it shows


def test_it_shows_the_figures_of_the_report(show: Open, device: str, tmp_path: Path) -> None:
    report, timeline = step()
    before = ag.counters()
    page = show(report, timeline)
    assert ag.counters() == before  # a page needs no value of a tensor
    totals = dict(zip(texts(page, "#totals dt"), texts(page, "#totals dd"), strict=True))
    for name, n in (
        ("On the tape", report.bytes_total),
        ("Activations", report.bytes_snapshots),
        ("Operands", report.bytes_inputs),
        ("Gradients", report.bytes_grads),
        ("On devices", report.bytes_device),
    ):
        assert totals[name].split("\n")[0] == format_bytes(n), name
    assert texts(page, "#sums caption") == ["By layer", "By operation", "By line", "By type", "By device"]
    layers = [row.name for row in report.by_layer]
    assert column(page, "#sums", "Layer") == layers
    assert column(page, "#sums", "Bytes") == [format_bytes(row.bytes) for row in report.by_layer]
    assert texts(page, "#folder") == [f"Lines are of files in {Path(__file__).parent}."]
    browser.screenshot(page, tmp_path / "page.png")
    assert (tmp_path / "page.png").stat().st_size > 10_000


def test_areas_are_bytes(show: Open) -> None:
    rows = [ROW._replace(bytes=64 << i, layer=f"layers.{i % 2}") for i in range(8)]
    page = show(report_of(rows))
    areas = page.execute_script(
        "return [...document.querySelectorAll('#map button')].map((e) => {"
        "const {width, height} = e.getBoundingClientRect(); return [e.ariaLabel, width * height]})"
    )
    assert len(areas) == len(rows)
    whole = page.execute_script("const {width, height} = map.getBoundingClientRect(); return width * height")
    for row in rows[4:]:  # of the small ones, borders and the heads of groups take too much
        (area,) = [area for label, area in areas if f"Bytes: {format_bytes(row.bytes)}," in label]
        assert area / whole == pytest.approx(row.bytes / sum(r.bytes for r in rows), rel=0.15)


def test_who_holds_a_storage(show: Open) -> None:
    page = show(report_of([ROW, ROW._replace(part="operands", bytes=2048, holders="variable h in train")]))
    assert column(page, "#storages", "Held by") == ["variable h in train", ""]
    hover(page, css(page, "#map button")[0])
    assert texts(page, "#tip dd")[-1] == "variable h in train"


def test_an_empty_tape(show: Open) -> None:
    page = show(ag.tape_memory(quiet=True, tape=ag.Tape()))
    assert texts(page, "#map") == ["There is nothing to show."]
    assert texts(page, "#found") == ["0 of 0 storages, 0 B"]


def test_values_not_yet_computed_are_told_apart(show: Open) -> None:
    page = show(report_of([ROW, ROW._replace(bytes=2048, pending=True)]))
    assert len(css(page, "#map button.pending")) == 1
    assert column(page, "#storages", "Part") == ["activations, not yet computed", "activations"]
    css(page, "#parts input")[-1].click()
    assert texts(page, "#found") == ["1 of 2 storages, 1.00 KiB"]


HOSTILE = [
    "</script><script>document.title = 'hacked'</script>",
    "<img src=x onerror=\"document.title = 'hacked'\">",
    "<!--<script>",
    "\u2028 $script ${data} \\u003c \" ' & \ud800",
    "blocks.\u202e0",
]


def test_names_are_shown_as_they_are(show: Open) -> None:
    rows = [ROW._replace(layer=name, op=name, line=name, made_by=name, dtype=name) for name in HOSTILE]
    page = show(report_of(rows))
    assert page.title == "Tape memory: 5.00 KiB"
    shown = column(page, "#storages", "Layer")
    assert sorted(text.strip() for text in shown) == sorted(
        name.replace("\ud800", "\ufffd").strip() for name in HOSTILE
    )
    assert css(page, "main img, main script") == []
    hover(page, css(page, "#map button")[0])
    assert css(page, "#tip img") == []


def test_its_policy_refuses_all_else(chromium: Any, stepped: tuple[TapeReport, Timeline], tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    stepped[0].to_html(path)
    path.write_text(
        path.read_text("utf-8").replace("<main>", "<script>document.title = 'hacked'</script><main>"), "utf-8"
    )
    chromium.get(path.as_uri())
    assert chromium.title.startswith("Tape memory")
    ask = "fetch('data:text/plain,x').then(() => arguments[0]('went'), () => arguments[0]('refused'))"
    assert chromium.execute_async_script(ask) == "refused"
    said = browser.said(chromium)
    assert any("Executing inline script violates" in text for text in said)
    assert all("Content Security Policy" in text for text in said)


def test_without_scripts_it_is_the_printed_report(
    chromium: Any, stepped: tuple[TapeReport, Timeline], tmp_path: Path
) -> None:
    stepped[0].to_html(tmp_path / "report.html")
    chromium.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        chromium.get((tmp_path / "report.html").as_uri())
        assert css(chromium, "noscript pre")[0].text == stepped[0].text()
    finally:
        chromium.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_follows_the_colours_of_the_system(show: Open, stepped: tuple[TapeReport, Timeline], scheme: str) -> None:
    page = show(*stepped)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    for selector in ("body", "#map button", "#tip"):
        colours = (
            "const s = getComputedStyle(document.querySelector(arguments[0])); return [s.color, s.backgroundColor]"
        )
        text, ground = (brightness(c) for c in page.execute_script(colours, selector))
        assert (text < ground) == (scheme == "light")
        assert (max(text, ground) + 0.05) / (min(text, ground) + 0.05) > 4.5, selector  # WCAG 2.2, contrast AA
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def brightness(colour: str) -> float:
    """The relative luminance (WCAG 2.2) of "rgb(…)"."""
    parts = np.array([float(text) for text in colour[colour.index("(") + 1 : -1].split(",")[:3]]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def test_it_prints_without_its_controls(show: Open, stepped: tuple[TapeReport, Timeline]) -> None:
    page = show(*stepped)
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert not any(css(page, selector)[0].is_displayed() for selector in ("#filter", "#to-peak", ".hint"))
    assert css(page, "#map button")[0].is_displayed()
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


# ---------------------------------------------------------------- what it does


def test_tables_sort_by_click_and_by_key(show: Open) -> None:
    rows = many(20)
    page = show(report_of(rows))
    by_size = [format_bytes(n) for n in sorted((row.bytes for row in rows), reverse=True)]
    assert column(page, "#storages", "Bytes") == by_size
    head(page, "#storages", "Bytes").click()
    assert column(page, "#storages", "Bytes") == by_size[::-1]
    head(page, "#storages", "Layer").click()
    assert column(page, "#storages", "Layer") == [f"layers.{i}" for i in range(20)]  # numbers in names count as such
    page.execute_script("arguments[0].focus()", head(page, "#storages", "Layer"))
    keys(page, "\ue007")  # Enter
    assert column(page, "#storages", "Layer") == [f"layers.{i}" for i in reversed(range(20))]
    order = "return [...document.querySelectorAll('#storages thead th')].map((e) => e.ariaSort)"
    assert [text for text in page.execute_script(order) if text] == ["descending"]


def test_hovering_shows_what_a_storage_is(show: Open, stepped: tuple[TapeReport, Timeline]) -> None:
    page = show(stepped[0])
    assert not css(page, "#tip")[0].is_displayed()
    row = stepped[0].largest(1)[0]
    size = format_bytes(row.bytes)
    cell = next(
        e
        for e in css(page, "#map button")
        if e.get_attribute("aria-label").startswith(
            f"Operation: {row.op}, Shape: {row.shape} {row.dtype}, Bytes: {size}"
        )
    )
    hover(page, cell)
    shown = dict(zip(texts(page, "#tip dt"), texts(page, "#tip dd"), strict=True))
    assert (shown["Shape"], shown["Bytes"]) == (f"{row.shape} {row.dtype}", size)
    assert (shown["Operation"], shown["Part"], shown["Made by"]) == (row.op, row.part, row.made_by)
    assert shown["Layer"] == row.layer
    assert shown["Line"].startswith("test_page.py:")
    keys(page, "\ue00c")  # Escape
    assert not css(page, "#tip")[0].is_displayed()


def test_the_map_works_without_a_mouse(show: Open, stepped: tuple[TapeReport, Timeline]) -> None:
    page = show(stepped[0])
    focused = "return document.activeElement"
    page.execute_script("document.querySelector('#parts input:last-of-type').focus()")
    page.execute_script("[...document.querySelectorAll('#parts input')].at(-1).focus()")
    keys(page, "\ue004")  # Tab: the map is one stop
    cells = css(page, "#map button")
    assert page.execute_script(focused) == cells[0]
    assert css(page, "#tip")[0].is_displayed()
    keys(page, "\ue014", "\ue014")  # right, right
    assert page.execute_script(focused) == cells[2]
    keys(page, "\ue010")  # End
    assert page.execute_script(focused) == cells[-1]
    keys(page, "\ue011")  # Home
    layer = dict(zip(texts(page, "#tip dt"), texts(page, "#tip dd"), strict=True))["Layer"]
    keys(page, "\ue007")  # Enter: this layer alone
    assert set(column(page, "#storages", "Layer")) == {layer}
    n = sum(row.bytes for row in stepped[0].storages if row.layer == layer)
    assert texts(page, "#found")[0].endswith(format_bytes(n))
    assert page.execute_script(focused) == css(page, "#map button")[0]
    css(page, "#focus")[0].click()
    assert len(css(page, "#map button")) == len(stepped[0].storages)


def test_the_filter_finds_words_and_parts(show: Open) -> None:
    rows = many(100)
    page = show(report_of(rows))
    css(page, "#words")[0].send_keys("OP3")
    found = [row for row in rows if row.op == "op3"]
    size = format_bytes(sum(row.bytes for row in found))
    wait_for(page, lambda: texts(page, "#found") == [f"{len(found)} of 100 storages, {size}"])
    assert set(column(page, "#storages", "Operation")) == {"op3"}
    css(page, "#parts input")[0].click()  # operands
    assert len(column(page, "#storages", "Part")) == len([row for row in found if row.part != "operands"])


def test_a_sum_shows_its_storages(show: Open, stepped: tuple[TapeReport, Timeline]) -> None:
    page = show(stepped[0])
    css(page, "#sums tbody button")[0].click()
    assert set(column(page, "#storages", "Layer")) == {stepped[0].by_layer[0].name}
    assert texts(page, "#focus")[0].startswith(f"layer: {stepped[0].by_layer[0].name}")


# ---------------------------------------------------------------- the timeline


def test_the_timeline_shows_its_highest_point(show: Open, stepped: tuple[TapeReport, Timeline]) -> None:
    report, timeline = stepped
    page = show(report, timeline)
    peak = timeline.peak()
    assert f"The most in use was {format_bytes(peak.bytes)}" in texts(page, "#timeline-summary")[0]
    assert texts(page, "#moment-text")[0].endswith("The highest point.")
    assert_alive(page, timeline, int(css(page, "#moment")[0].get_attribute("value")))
    page.execute_script("document.getElementById('moment').focus()")
    keys(page, "\ue011", "\ue014", "\ue014", "\ue014")  # Home, right, right, right
    assert css(page, "#moment")[0].get_attribute("value") == "3"
    assert_alive(page, timeline, 3)
    hover(page, css(page, "#curve svg")[0])
    place = int(css(page, "#moment")[0].get_attribute("value"))
    assert abs(place - len(timeline.events) / 2) < len(timeline.events) / 10
    assert texts(page, "#tip dd")[0] == format_bytes(timeline.events[place].in_use)
    assert_alive(page, timeline, place)


def assert_alive(page: Any, timeline: Timeline, event: int) -> None:
    moment = timeline.live_at(event)
    rest = [text for text in texts(page, "#alive tfoot td") if text]
    shown = column(page, "#alive", "Bytes")
    assert shown == [format_bytes(row.bytes) for row in moment.largest(10)]
    assert rest == (
        [format_bytes(sum(row.bytes for row in moment.largest(10**6)[10:]))] if len(moment.rows) > 10 else []
    )
    text = texts(page, "#moment-text")[0]
    assert f"{format_bytes(moment.bytes)} in use, {format_bytes(moment.scratch)} of it scratch" in text
    assert f"{format_bytes(moment.before)} from before" in text


# ---------------------------------------------------------------- size


def test_a_hundred_thousand_storages(show: Open, tmp_path: Path) -> None:
    rows = many(100_000)
    page = show(report_of(rows))
    assert (tmp_path / "report.html").stat().st_size < 8 << 20
    size = format_bytes(sum(row.bytes for row in rows))
    assert texts(page, "#found") == [f"100,000 of 100,000 storages, {size}"]
    assert page.execute_script("return document.getElementsByTagName('*').length") < 10_000
    assert page.execute_script("return performance.memory.usedJSHeapSize") < 150 << 20
    assert texts(page, "#storages tfoot th") == ["and 99,975 more"]
    css(page, "#storages .more")[0].click()
    assert len(css(page, "#storages tbody tr")) == 500
    head(page, "#storages", "Node").click()
    assert column(page, "#storages", "Node")[0] == "99,999"
    css(page, "#words")[0].send_keys("layers.17")
    n = sum("layers.17" in row.layer for row in rows)
    wait_for(page, lambda: texts(page, "#found")[0].startswith(f"{n:,} of"))


# ---------------------------------------------------------------- mistakes


def test_mistakes_name_the_argument(stepped: tuple[TapeReport, Timeline], tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="to_html: path must be the path of a file, not int"):
        stepped[0].to_html(3)  # type: ignore[arg-type]
    path = tmp_path / "report.html"
    with pytest.raises(TypeError, match=r"to_html: timeline must be that of ag\.memory_timeline\(\), not dict"):
        stepped[0].to_html(path, {})  # type: ignore[arg-type]
    assert not path.exists()
