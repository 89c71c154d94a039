"""Rows beside a chart instead of in it: Altair checks all that is in a chart value by value, which takes seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import altair as alt

Row = Mapping[str, object]


class _Drawable(Protocol):
    def to_dict(self) -> dict[str, Any]: ...


def named(name: str) -> alt.NamedData:
    """Stands for the rows of that name while a chart is made."""
    return alt.NamedData(name=name)


def spec_of(chart: _Drawable, **rows: Sequence[Row]) -> dict[str, Any]:
    """The Vega-Lite specification of a chart, with its rows by name."""
    return {**chart.to_dict(), "datasets": {name: list(each) for name, each in rows.items()}}
