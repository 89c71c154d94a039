"""What a report consists of. Plain data: nothing here knows HTML, nor how a chart is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")

SVG = "svg"
CANVAS = "canvas"  # for charts of many thousands of marks


MAX_ROWS = 300
"""A table draws, and a line of chosen sizes joins, so many at most: a report stays small whatever was asked for."""


def spread_over(values: Sequence[T], most: int = MAX_ROWS) -> list[T]:
    """At most so many of them, evenly spread, the first and the last among them."""
    if len(values) <= most:
        return list(values)
    return [values[place * (len(values) - 1) // (most - 1)] for place in range(most)]


@dataclass(frozen=True, slots=True)
class Fact:
    """A figure of the answer.

    Attributes:
        label: What it is.
        value: With its unit.
        note: What else is to be said, or empty.
    """

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture.

    Attributes:
        caption: What it shows, in one line.
        description: The same for those who cannot see it, with what it says.
        spec: A Vega-Lite specification.
        renderer: `SVG` or `CANVAS`.
    """

    caption: str
    description: str
    spec: dict[str, Any]
    renderer: str = SVG


@dataclass(frozen=True, slots=True)
class DataTable:
    """Numbers.

    Attributes:
        caption: What they are.
        headings: Of the columns; the first column names the row.
        rows: As many cells each as there are headings.
        is_folded: Shown only when somebody asks for it.
        ends_in_words: The last column has words, not numbers.
        kept: Numbers of rows that are shown in any case; few.
    """

    caption: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    is_folded: bool = True
    ends_in_words: bool = False
    kept: tuple[int, ...] = ()

    @property
    def shown_rows(self) -> list[tuple[str, ...]]:
        """All rows, or those that are kept and others evenly spread."""
        if len(self.rows) <= MAX_ROWS:
            return list(self.rows)
        kept = set(self.kept)
        others = [place for place in range(len(self.rows)) if place not in kept]
        return [self.rows[place] for place in sorted((*kept, *spread_over(others, MAX_ROWS - len(kept))))]

    @property
    def left_out(self) -> int:
        """Rows that are not shown."""
        return len(self.rows) - len(self.shown_rows)


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page.

    Attributes:
        name: For links: lower-case letters and hyphens.
        title: Its heading.
        words: Paragraphs that say how to read it.
        charts: Pictures, in order.
        tables: The numbers of the pictures, and others.
    """

    name: str
    title: str
    words: tuple[str, ...] = ()
    charts: tuple[Chart, ...] = ()
    tables: tuple[DataTable, ...] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """A whole report.

    Attributes:
        trace: As it was named.
        answer: The first sentence, with the number that was asked for.
        meaning: What follows from it, in sentences.
        facts: The figures behind it.
        sections: The rest.
        settings: How it was made, one line each.
    """

    trace: str
    answer: str
    meaning: tuple[str, ...]
    facts: tuple[Fact, ...]
    sections: tuple[Section, ...]
    settings: tuple[Fact, ...]


def sections_of(*sections: Section | None) -> tuple[Section, ...]:
    """Those that there is something to say about."""
    return tuple(section for section in sections if section is not None)
