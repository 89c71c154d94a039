"""Reports in a real browser: drawn, without a request or a complaint, by mouse and keyboard, light and dark.

Debian's Chromium, driven by Playwright. BLOCKPOOL_BROWSER names another; when it is set, a browser that is missing is a
failure and no skip.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("altair", reason="the extra report is not installed")
pytest.importorskip("vl_convert", reason="the extra report is not installed")
pytest.importorskip("playwright", reason="Playwright, of the extra dev, is not installed")
pytest.importorskip("axe_playwright_python", reason="axe, of the extra dev, is not installed")

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, Page, sync_playwright

from blockpool.replay.html.render import render

from .replay.html.html_support import (
    ORIGIN,
    curve_report,
    hostile_report,
    plan_report,
    replay_report,
    timed_report,
)

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
KNOWN_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
REPORTS: dict[str, Callable[[Path], Any]] = {
    "replay": replay_report,
    "curve": curve_report,
    "plan": lambda trace: plan_report(trace, replicas=3),
    "timed": timed_report,
    "hostile": hostile_report,
}
WIDE, NARROW = {"width": 1100, "height": 800}, {"width": 360, "height": 740}


def find_browser() -> str | None:
    named = os.environ.get("BLOCKPOOL_BROWSER")
    if named:
        return named
    return next((path for name in KNOWN_BROWSERS if (path := shutil.which(name))), None)


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserContext]:
    browser = find_browser()
    if browser is None:
        pytest.skip("no Chromium: apt-get install chromium, or name one in BLOCKPOOL_BROWSER")
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            tmp_path_factory.mktemp("profile"),
            executable_path=browser,
            headless=True,
            args=FLAGS,
            offline=True,
        )
        yield context
        context.close()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, small_demo: Path) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("reports")
    found = {}
    for name, make in REPORTS.items():
        found[name] = folder / f"{name}.html"
        found[name].write_bytes(render(make(small_demo), ORIGIN))
    return found


class Watched:
    """A page, and what it complained about or asked for."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))

    def open(self, path: Path, *, scheme: Any = "light", viewport: Any = WIDE) -> Page:
        self.page.set_viewport_size(viewport)
        self.page.emulate_media(color_scheme=scheme)
        self.page.goto(path.as_uri())
        self.wait_until_drawn(scheme)
        return self.page

    def wait_until_drawn(self, scheme: str) -> None:
        self.page.wait_for_function(
            "scheme => document.documentElement.dataset.drawn === scheme", arg=scheme, timeout=120_000
        )


@pytest.fixture
def watched(context: BrowserContext) -> Iterator[Watched]:
    page = context.new_page()
    watched = Watched(page)
    yield watched
    page.close()
    assert watched.complaints == []
    assert all(url.startswith(("file://", "data:")) for url in watched.requests)
    assert len([url for url in watched.requests if url.startswith("file://")]) == 1


def background(page: Page) -> str:
    color: str = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return color


# Of every chart: how many different colours a canvas has, or how many shapes with a size an SVG.
COUNT_DRAWN = """
() => [...document.querySelectorAll(".chart")].map((chart) => {
  const canvas = chart.querySelector("canvas");
  if (canvas) {
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    return new Set(new Uint32Array(data.buffer)).size;
  }
  return [...chart.querySelectorAll("svg .mark-line path, svg .mark-area path, svg .mark-rect path")]
    .filter((shape) => shape.getBBox().width > 0).length;
})
"""


@pytest.mark.both_builds
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", REPORTS)
def test_all_charts_are_drawn(watched: Watched, files: dict[str, Path], name: str, scheme: str) -> None:
    page = watched.open(files[name], scheme=scheme)
    drawn = page.evaluate(COUNT_DRAWN)
    assert len(drawn) == page.locator("figure").count() > 0
    assert all(count > 0 for count in drawn), drawn
    canvases = page.locator(".chart canvas").count()
    assert sorted(drawn)[-canvases:] == [count for count in sorted(drawn) if count > 50] if canvases else True
    red, green, blue = (int(part) for part in re.findall(r"\d+", background(page)))
    assert (red + green + blue < 150) == (scheme == "dark")


@pytest.mark.parametrize("name", REPORTS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(watched: Watched, files: dict[str, Path], name: str, scheme: str) -> None:
    page = watched.open(files[name], scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    assert len(found.response["passes"]) > 15


def test_the_button_changes_the_theme_and_redraws(watched: Watched, files: dict[str, Path]) -> None:
    page = watched.open(files["replay"])
    button = page.get_by_role("button", name="Dark")
    light, ink = background(page), page.locator(".chart svg text").first.get_attribute("fill")
    assert button.get_attribute("aria-pressed") == "false"
    button.click()
    watched.wait_until_drawn("dark")
    assert button.get_attribute("aria-pressed") == "true"
    assert background(page) != light
    assert page.locator(".chart svg text").first.get_attribute("fill") != ink
    assert all(count > 0 for count in page.evaluate(COUNT_DRAWN))
    button.click()
    watched.wait_until_drawn("light")
    assert background(page) == light


def test_follows_the_system_until_the_button_is_pressed(watched: Watched, files: dict[str, Path]) -> None:
    page = watched.open(files["curve"])
    page.emulate_media(color_scheme="dark")
    watched.wait_until_drawn("dark")
    assert page.get_by_role("button", name="Dark").get_attribute("aria-pressed") == "true"
    page.get_by_role("button", name="Dark").click()
    watched.wait_until_drawn("light")
    page.emulate_media(color_scheme="light")
    page.emulate_media(color_scheme="dark")
    assert page.evaluate("currentTheme()") == "light"


def test_the_keyboard_reaches_everything_in_order(watched: Watched, files: dict[str, Path]) -> None:
    page = watched.open(files["replay"])
    reached = []
    for _ in range(40):
        page.keyboard.press("Tab")
        focused = page.evaluate(
            "() => { const at = document.activeElement; const style = getComputedStyle(at);"
            " return at === document.body ? null :"
            " [at.tagName, at.textContent.trim().slice(0, 40), parseFloat(style.outlineWidth)]; }"
        )
        if focused is None:
            break
        assert focused[2] >= 2, f"no focus to be seen on {focused}"
        reached.append((focused[0], focused[1]))
    kinds = [tag for tag, _ in reached]
    assert reached[:2] == [("A", "Skip to the answer"), ("BUTTON", "Dark")]
    assert kinds.count("A") == 1 + page.locator("nav a").count()
    assert kinds.count("SUMMARY") == page.locator("summary").count() > 3
    tables = page.locator(".scroll:visible").count()
    assert kinds.count("DIV") == tables > 0


def test_the_keyboard_opens_a_table_and_skips_to_the_answer(watched: Watched, files: dict[str, Path]) -> None:
    page = watched.open(files["replay"])
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "answer"
    table = page.get_by_role("table", name="Occupancy, in blocks")
    assert not table.is_visible()
    page.locator("summary", has_text="Occupancy").focus()
    page.keyboard.press("Enter")
    assert table.is_visible()
    assert table.get_by_role("columnheader").all_text_contents() == [
        "request", "in use", "cached, idle", "blank"
    ]  # fmt: skip
    page.keyboard.press("Enter")
    assert not table.is_visible()


def test_a_click_opens_a_table(watched: Watched, files: dict[str, Path]) -> None:
    page = watched.open(files["curve"])
    page.locator("summary").click()
    table = page.get_by_role("table", name="The line of LRU, point by point")
    assert table.is_visible()
    assert table.get_by_role("row").count() > 200


def test_charts_are_told_to_those_who_cannot_see_them(watched: Watched, files: dict[str, Path]) -> None:
    page = watched.open(files["replay"])
    charts = page.get_by_role("img")
    assert charts.count() == page.locator("figure").count()
    assert page.get_by_role("img", name=re.compile("^Stacked area of the pool's 800 blocks")).count() == 1
    for landmark in ("banner", "main", "contentinfo", "navigation"):
        assert page.get_by_role(landmark).count() == 1  # type: ignore[arg-type]
    assert page.get_by_role("heading", level=1).text_content() == page.locator("#answer").text_content()


def hover(page: Page, chart: str, across: float, up: float) -> str:
    """The tooltip at a place of a chart, in shares of its width and height."""
    box = page.locator(chart)
    box.scroll_into_view_if_needed()
    edges = box.bounding_box()
    assert edges is not None
    x, y = edges["x"] + edges["width"] * across, edges["y"] + edges["height"] * (1 - up)
    page.mouse.move(x, y)
    page.mouse.move(x + 1, y)
    tooltip = page.locator("#vg-tooltip-element.visible")
    tooltip.wait_for(timeout=30_000)
    return tooltip.inner_text()


def test_tooltips_tell_the_numbers(watched: Watched, files: dict[str, Path]) -> None:
    page = watched.open(files["replay"])
    occupancy = hover(page, "#occupancy ~ figure .chart", 0.5, 0.5)
    assert re.search(r"state\s+cached, idle", occupancy)
    state = hover(page, "#block-map ~ figure .chart >> nth=0", 0.5, 0.5)
    assert re.search(r"positions\s+\d+ to \d+", state)
    shares = [float(share) for share in re.findall(r"([\d.]+)%", state)]
    assert sum(shares) == pytest.approx(100, abs=0.2)
    assert "blocks handed out" in hover(page, "#block-map ~ figure .chart >> nth=1", 0.5, 0.5)


def test_hostile_text_is_shown_and_does_nothing(watched: Watched, files: dict[str, Path]) -> None:
    page = watched.open(files["hostile"])
    table = page.get_by_role("table", name="The requests that missed most tokens")
    assert "<img src=x" in (table.text_content() or "")
    assert "tokens" in hover(page, "#misses ~ figure .chart", 0.3, 0.87)
    assert page.evaluate("typeof window.pwned") == "undefined"
    assert page.locator("img:not(.chart)").count() == 0
    assert "</script>" in (page.locator(".name").text_content() or "")


@pytest.mark.parametrize("name", REPORTS)
def test_fits_a_phone(watched: Watched, files: dict[str, Path], name: str) -> None:
    page = watched.open(files[name], viewport=NARROW)
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
    widths = page.evaluate(
        "[...document.querySelectorAll('.chart :is(svg, canvas)')].map((each) => each.getBoundingClientRect().width)"
    )
    assert widths
    assert all(200 < width <= NARROW["width"] for width in widths)


def test_without_scripts_the_numbers_are_there(
    files: dict[str, Path], context: BrowserContext, tmp_path: Path
) -> None:
    """As a mail program shows it: the same file, its scripts taken out."""
    content = re.sub(r"<script\b.*?</script>", "", files["curve"].read_text("utf-8"), flags=re.DOTALL)
    path = tmp_path / "quiet.html"
    path.write_text(content, "utf-8")
    page = context.new_page()
    page.goto(path.as_uri())
    assert page.get_by_role("table", name="Hits at chosen sizes").is_visible()
    page.close()
