"""The file: whole, loading nothing, small, readable without seeing, and safe whatever a trace is called."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("altair", reason="the extra report is not installed")
pytest.importorskip("vl_convert", reason="the extra report is not installed")

from blockpool.replay import ReplaySettings, study
from blockpool.replay import replay as play
from blockpool.replay.html.curve_page import curve_page
from blockpool.replay.html.page import MAX_ROWS, DataTable, Fact, Page, Section
from blockpool.replay.html.palette import THEMES, chart_theme, css_colors
from blockpool.replay.html.render import Origin, render
from blockpool.replay.html.replay_page import replay_page

from .html_support import (
    HOSTILE,
    ORIGIN,
    Document,
    curve_report,
    document_of,
    hostile_report,
    parsed,
    plan_report,
    replay_report,
    timed_report,
)

PAGES = {"replay": replay_report, "timed": timed_report, "curve": curve_report, "plan": plan_report}
MAX_BYTES = 2_000_000


@pytest.fixture(scope="module", params=PAGES)
def content(request: pytest.FixtureRequest, small_demo: Path) -> bytes:
    return render(PAGES[request.param](small_demo), ORIGIN)


@pytest.fixture(scope="module")
def document(content: bytes) -> Document:
    return parsed(content)


@pytest.mark.both_builds
def test_is_small(content: bytes) -> None:
    assert len(content) < MAX_BYTES


def many_sizes(report: Page) -> Page:
    """The same with thousands of rows and points wherever there is one per size."""
    sections = []
    for section in report.sections:
        tables = tuple(
            replace(table, rows=tuple(table.rows[place % len(table.rows)] for place in range(5_000)))
            for table in section.tables
        )
        sections.append(replace(section, tables=tables))
    return replace(report, sections=tuple(sections))


@pytest.mark.parametrize("name", ["replay", "curve"])
def test_stays_small_whatever_was_asked_for(small_demo: Path, name: str) -> None:
    command = "blockpool replay demo --blocks " + ",".join(map(str, range(1, 20_000)))
    content = render(many_sizes(PAGES[name](small_demo)), replace(ORIGIN, command=command))
    assert len(content) < MAX_BYTES
    document = parsed(content)
    assert all(len(rows) == 1 + MAX_ROWS for rows in document.tables().values())
    words = f"Shown are {MAX_ROWS} of 5,000 rows, evenly spread; --json has the numbers of all."
    assert sum(element.text == words for element in document.all("p")) == len(document.tables())


def test_a_line_of_thousands_of_sizes(small_demo: Path) -> None:
    first, second = (play(small_demo, blocks, ReplaySettings()) for blocks in (800, 900))
    results = [first, *(replace(second, blocks=801 + number) for number in range(5_000))]
    document = parsed(render(replay_page("demo", ReplaySettings(), results), ORIGIN))
    points = document.drawing()["charts"][0]["spec"]["datasets"]["points"]
    assert (len(points), points[0]["size"], points[-1]["size"]) == (MAX_ROWS, 800, 5_800)


def test_sizes_that_mean_something_stay(small_demo: Path) -> None:
    page = curve_page(study(small_demo, blocks=list(range(1_500, 3_500))))
    shown = document_of(page).tables()["Hits at chosen sizes"]
    assert len(shown) == 1 + MAX_ROWS
    why = " ".join(row[-1] for row in shown)
    assert all(word in why for word in ("smallest", "90% of max", "knee", "max"))


def test_nothing_is_loaded(document: Document) -> None:
    assert not document.all("link", "img", "iframe", "object", "embed", "base", "form")
    for element in document.elements:
        assert "src" not in element.attributes
        assert element.attributes.get("href", "#").startswith("#")
        assert not any(name.startswith("on") for name in element.attributes)
    (style,) = document.all("style")
    assert "url(" not in style.text
    assert "@import" not in style.text
    specs = document.drawing()["charts"]
    assert specs
    # The schema is named and never fetched; a chart that loads its data would say "url".
    assert all(set(re.findall(r'"url"', repr(chart))) == set() for chart in specs)


def test_the_policy_allows_these_scripts_and_no_request(document: Document) -> None:
    (policy,) = (
        element.attributes["content"]
        for element in document.all("meta")
        if element.attributes.get("http-equiv") == "Content-Security-Policy"
    )
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert set(rules) == {"default-src", "script-src", "style-src", "img-src"}
    scripts = [script for script in document.all("script") if "type" not in script.attributes]
    hashes = {
        f"'sha256-{base64.b64encode(hashlib.sha256(script.text.encode()).digest()).decode()}'"
        for script in scripts
    }
    assert len(hashes) == 3
    assert set(rules["script-src"].split()) == {*hashes, "'unsafe-eval'"}


def test_headings_and_landmarks(document: Document) -> None:
    assert len(document.all("main")) == len(document.all("header")) == len(document.all("footer")) == 1
    assert document.all("html")[0].attributes["lang"] == "en"
    levels = [element.tag for element in document.all("h1", "h2", "h3")]
    assert levels[0] == "h1"
    assert set(levels[1:]) == {"h2"}


def test_names_are_unique_and_what_is_named_exists(document: Document) -> None:
    names = [element.attributes["id"] for element in document.elements if "id" in element.attributes]
    assert len(names) == len(set(names))
    for element in document.elements:
        for name in element.attributes.get("aria-labelledby", "").split():
            assert name in names
        if element.tag == "a":
            assert element.attributes["href"].removeprefix("#") in names


def test_every_table_says_what_it_is(document: Document) -> None:
    tables = document.all("table")
    assert len(document.all("caption")) == len(tables) > 0
    for element in document.all("th"):
        assert element.attributes["scope"] == ("col" if "thead" in element.parents else "row")
    for rows in document.tables().values():
        assert len({len(row) for row in rows}) == 1
        assert len(rows) > 1


def test_every_chart_has_words_and_numbers(document: Document) -> None:
    charts = [element for element in document.elements if element.attributes.get("class") == "chart"]
    assert len(charts) == len(document.drawing()["charts"]) == len(document.all("figcaption"))
    for number, element in enumerate(charts):
        assert document.by_id(f"chart-{number}").attributes["aria-hidden"] == "true"
        assert element.attributes["role"] == "img"
        assert re.search(r"\d", element.attributes["aria-label"])
    for chart in document.drawing()["charts"]:
        assert all(chart["spec"]["datasets"].values()) or chart["spec"]["datasets"].keys() >= {"marks"}


def test_says_what_made_it(document: Document) -> None:
    text = document.all("footer")[0].text
    assert ORIGIN.command in text
    for words in ("blockpool 1.2.3 (interpreted)", "Python 3.", "Vega-Altair ", "Vega-Lite ", "Vega "):
        assert words in text


def test_both_themes_name_the_same_colors() -> None:
    light, dark = (dict(css_colors(theme)) for theme in THEMES)
    assert light.keys() == dark.keys()
    for theme in THEMES:
        params = {each["name"] for each in chart_theme(theme)["params"]}
        assert params == light.keys()


# --- what a trace, a path or an option is called


def shown(text: str) -> str:
    """How a parser sees it: what is no text is written as its code points, and NUL is not in HTML."""
    return text.replace("\udcff", "\\udcff")


def test_hostile_names_stay_text() -> None:
    rows = ((HOSTILE, "1"),)
    page = Page(
        HOSTILE,
        HOSTILE,
        (HOSTILE,),
        (Fact(HOSTILE, HOSTILE, HOSTILE),),
        (Section("numbers", HOSTILE, (HOSTILE,), (), (DataTable(HOSTILE, (HOSTILE, HOSTILE), rows),)),),
        (Fact(HOSTILE, HOSTILE),),
    )
    document = parsed(render(page, Origin(HOSTILE, HOSTILE, True)))
    assert not document.all("img")
    assert len(document.all("script")) == 1, "the theme's, for there is no chart"
    assert document.all("h1")[0].text == shown(HOSTILE)
    assert document.all("caption")[0].text == shown(HOSTILE)
    assert document.all("code")[0].text == shown(HOSTILE)
    assert [element.text for element in document.all("td")] == ["1"]


def test_hostile_values_in_charts_stay_data() -> None:
    page = hostile_report()
    content = render(page, ORIGIN)
    document = parsed(content)
    assert not document.all("img")
    assert len(document.all("script")) == 4
    tables = document.tables()
    by_tag = next(rows for caption, rows in tables.items() if caption.startswith("Misses by session_id"))
    assert by_tag[1][0] == shown(HOSTILE[:59] + "\u2026")
    assert b"<script>window" not in content


def test_equal_input_gives_equal_files(small_demo: Path) -> None:
    page = plan_report(small_demo)
    assert render(page, ORIGIN) == render(plan_report(small_demo), ORIGIN)
    assert document_of(page).all("h1")[0].text == page.answer
