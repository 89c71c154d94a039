"""Colours: two themes for the charts, and the same colours for the page, as CSS custom properties.

A chart names a colour, not its value: `color("idle")` is a parameter that each theme sets. Against the page, all that
carry meaning have a contrast of at least 3 : 1, except "blank", which shall recede; lines differ in their dashes, too.
"""

from __future__ import annotations

from typing import Any

import altair as alt

from blockpool.replay.curves.policy_table import POLICY_TABLE

_COLORS: dict[str, tuple[str, str]] = {
    # name: (light, dark)
    "inUse": ("#c2410c", "#fb923c"),
    "idle": ("#2563eb", "#60a5fa"),
    "blank": ("#dbe1e8", "#333c49"),
    **{name: policy.colors for name, policy in POLICY_TABLE.items()},
    "mark": ("#7e22ce", "#c084fc"),
    "text": ("#1b2430", "#e6eaf0"),
    "quiet": ("#4d5968", "#a9b4c2"),
    "line": ("#d3dae2", "#3a4554"),
    "page": ("#ffffff", "#12171e"),
    "panel": ("#f4f6f9", "#1b222c"),
    "link": ("#1d4ed8", "#8ab8ff"),
}
_RAMPS = (
    ["#faf6f1", "#fdba74", "#c2410c", "#5f1a04"],
    ["#241f1c", "#8a3d0c", "#fb923c", "#ffedd5"],
)
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif"
THEMES = ("light", "dark")


def color(name: str) -> alt.ExprRef:
    """The colour of that name, in a chart."""
    assert name in _COLORS
    return alt.ExprRef(expr=name)


def css_colors(theme: str) -> list[tuple[str, str]]:
    """Name and value of each colour, for style sheets."""
    column = THEMES.index(theme)
    return [(name, values[column]) for name, values in _COLORS.items()]


def chart_theme(theme: str) -> dict[str, Any]:
    """The Vega-Lite config of a theme."""
    colors = dict(css_colors(theme))
    words = {
        "labelColor": colors["quiet"],
        "titleColor": colors["text"],
        "labelFontSize": 12,
        "titleFontSize": 13,
    }
    return {
        # Charts are described as a whole, and their numbers stand in tables: no roles for thousands of marks.
        "aria": False,
        "background": None,
        "font": _FONT,
        "params": [{"name": name, "value": value} for name, value in colors.items()],
        "range": {"ramp": _RAMPS[THEMES.index(theme)]},
        "view": {"stroke": None},
        "axis": {
            **words,
            "domainColor": colors["quiet"],
            "gridColor": colors["line"],
            "tickColor": colors["quiet"],
            "titleFontWeight": "normal",
            "titlePadding": 8,
        },
        "legend": {**words, "orient": "top", "symbolStrokeWidth": 2.5, "titleFontWeight": "normal"},
        "text": {"color": colors["text"], "fontSize": 12},
        "rule": {"color": colors["quiet"]},
    }
