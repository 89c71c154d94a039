"""Reads a report as a browser's parser would, and makes small ones."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from blockpool.replay import (
    PlanSettings,
    ReplaySettings,
    TimedSettings,
    load_model_shape,
    plan_capacity,
    replay,
    replay_timed,
    study,
)
from blockpool.replay.html.curve_page import curve_page
from blockpool.replay.html.page import Page
from blockpool.replay.html.plan_page import plan_page
from blockpool.replay.html.render import Origin, render
from blockpool.replay.html.replay_page import replay_page
from blockpool.replay.html.timed_page import timed_page
from blockpool.trace import TraceRequest

VOID = {"meta", "br", "hr", "img", "input", "link"}
ORIGIN = Origin("blockpool replay demo --blocks 500", "1.2.3", False)
# Nobody would call a trace so, but somebody can.
HOSTILE = "</script><script>window.pwned=1</script><img src=x onerror=pwned=2>\"'&\n{{7*7}}${pwned=3}\u2028\x00\udcff"


@dataclass
class Element:
    """One element, with the text that is directly or further down in it."""

    tag: str
    attributes: dict[str, str]
    text: str = ""
    parents: tuple[str, ...] = ()


@dataclass
class Document(HTMLParser):
    """All elements of a page, in order."""

    elements: list[Element] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._open: list[Element] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        parents = tuple(element.tag for element in self._open)
        element = Element(tag, {name: value or "" for name, value in attrs}, parents=parents)
        self.elements.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> without its beginning"
        assert self._open.pop().tag == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.text += data

    def all(self, *tags: str) -> list[Element]:
        return [element for element in self.elements if element.tag in tags]

    def by_id(self, name: str) -> Element:
        (found,) = (element for element in self.elements if element.attributes.get("id") == name)
        return found

    def drawing(self) -> Any:
        return json.loads(self.by_id("drawing").text)

    def tables(self) -> dict[str, list[list[str]]]:
        """Cells of all tables by caption, the headings first."""
        found: dict[str, list[list[str]]] = {}
        for element in self.elements:
            if element.tag == "caption":
                rows = found[element.text] = []
            elif element.tag == "tr":
                rows.append([])
            elif element.tag in ("th", "td"):
                rows[-1].append(element.text)
        return found


def parsed(content: bytes) -> Document:
    document = Document()
    document.feed(content.decode("utf-8"))
    document.close()
    assert not document._open
    return document


def replay_report(trace: Path, blocks: tuple[int, ...] = (800, 2_000)) -> Page:
    settings = ReplaySettings(explain=True)
    results = [replay(trace, size, settings, pictures=not number) for number, size in enumerate(blocks)]
    return replay_page("demo", settings, results)


def hostile_report(_: Path | None = None) -> Page:
    """Everything that can be named is named so."""
    requests = [
        TraceRequest(None, 32, 16, block_ids=[number % 7, 10 + number], session_id=HOSTILE * (1 + number % 2))
        for number in range(40)
    ]
    settings = ReplaySettings(explain=True, tag="session_id")
    return replay_page(HOSTILE, settings, [replay(requests, 5, settings, pictures=True)])


def timed_report(trace: Path, blocks: tuple[int, ...] = (800, 3_000)) -> Page:
    timed, settings = TimedSettings(speed=2), ReplaySettings(rules="engine", explain=True)
    results = [
        replay_timed(trace, size, timed, settings, pictures=not number) for number, size in enumerate(blocks)
    ]
    return timed_page("demo", timed, settings, results)


def curve_report(trace: Path) -> Page:
    return curve_page(study(trace, policies=("lru", "fifo", "optimal")))


def plan_report(
    trace: Path, replicas: int = 1, policies: tuple[str, ...] = ("lru", "fifo", "optimal")
) -> Page:
    settings = PlanSettings(
        gpu_memory=20 * 2**30, reserve=16 * 2**30, prefill_rate=9_000.0, replicas=replicas
    )
    plan = plan_capacity(trace, load_model_shape("llama-3-8b"), settings, policies=policies)
    return plan_page("demo", plan)


def document_of(page: Page) -> Document:
    return parsed(render(page, ORIGIN))
