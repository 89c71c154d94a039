"""Pages as HTML: one file with all scripts, styles and data inside, which loads nothing.

A content security policy in the file forbids every request, and every script but those that are here, by
their hashes.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import platform
from dataclasses import dataclass
from typing import Any

import altair as alt
import jinja2
import vl_convert

from blockpool.replay.html.page import Page
from blockpool.replay.html.palette import THEMES, chart_theme, css_colors

_TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader("blockpool.replay.html"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


_MAX_COMMAND = 10_000  # characters


@dataclass(frozen=True, slots=True)
class Origin:
    """What made a report.

    Attributes:
        command: The command line, as a shell takes it.
        version: Of blockpool.
        compiled: Whether the core was the compiled one.
    """

    command: str
    version: str
    compiled: bool


def render(page: Page, origin: Origin) -> bytes:
    """The file, in UTF-8. What cannot be encoded (a file name that is no text) is written as its code points.

    Takes some seconds, most of which put the plotting library together.
    """
    charts = [chart for section in page.sections for chart in section.charts]
    scripts = [_source("theme.js")]
    if charts:
        scripts += [_plotting_library(), _source("report.js")]
    text = _TEMPLATES.get_template("report.html.jinja").render(
        page=page,
        command=_shortened(origin.command),
        versions=_versions(origin),
        style=_source("report.css"),
        colors={theme: css_colors(theme) for theme in THEMES},
        scripts=scripts,
        policy=_content_policy(scripts),
        drawing=_drawing(charts) if charts else None,
    )
    return text.encode("utf-8", errors="backslashreplace")


def _shortened(command: str) -> str:
    """Thousands of sizes make a long command."""
    return command if len(command) <= _MAX_COMMAND else f"{command[:_MAX_COMMAND]} \u2026"


def _drawing(charts: list[Any]) -> dict[str, Any]:
    return {
        "charts": [{"spec": chart.spec, "renderer": chart.renderer} for chart in charts],
        "themes": {theme: chart_theme(theme) for theme in THEMES},
    }


def _versions(origin: Origin) -> str:
    build = "compiled" if origin.compiled else "interpreted"
    return (
        f"blockpool {origin.version} ({build}), Python {platform.python_version()}, Vega-Altair {alt.__version__}, "
        f"Vega-Lite {_vega_lite_version()}, Vega {vl_convert.get_vega_version()}"
    )


def _vega_lite_version() -> str:
    """The one that Altair writes for, as vl-convert names it; its newest when it does not have that one."""
    wanted = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
    available = vl_convert.get_vegalite_versions()
    return wanted if wanted in available else available[-1]


@functools.cache  # takes seconds
def _plotting_library() -> str:
    return vl_convert.javascript_bundle(
        snippet="window.vegaEmbed = vegaEmbed;", vl_version=_vega_lite_version()
    )


def _source(name: str) -> str:
    """A script or a style sheet, as it is: no template."""
    assert _TEMPLATES.loader is not None
    return _TEMPLATES.loader.get_source(_TEMPLATES, name)[0]


def _content_policy(scripts: list[str]) -> str:
    hashes = (hashlib.sha256(script.encode()).digest() for script in scripts)
    allowed = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in hashes)
    # Vega compiles the expressions of a chart to functions: 'unsafe-eval'. They are ours; data is never one.
    return f"default-src 'none'; script-src {allowed} 'unsafe-eval'; style-src 'unsafe-inline'; img-src data:"
