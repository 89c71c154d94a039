"""docs/grafana.json as the tests read it: its queries, with variables put in as Grafana does."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

DASHBOARD = Path(__file__).resolve().parents[2] / "docs" / "grafana.json"
# Grafana's own variables, with the values that they could have.
BUILT_IN = {"__rate_interval": "1m", "__range": "1h"}
VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


class Query(NamedTuple):
    """One query of a panel.

    Attributes:
        panel: Title of the panel.
        expression: As it stands in the file.
        legend: What its lines are called.
    """

    panel: str
    expression: str
    legend: str


def load() -> dict[str, Any]:
    dashboard: dict[str, Any] = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    return dashboard


def variables(dashboard: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {variable["name"]: variable for variable in dashboard["templating"]["list"]}


def panels(dashboard: dict[str, Any]) -> list[dict[str, Any]]:
    """All panels but the headings of the rows."""
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def queries(dashboard: dict[str, Any]) -> Iterator[Query]:
    for panel in panels(dashboard):
        for target in panel["targets"]:
            yield Query(panel["title"], target["expr"], target["legendFormat"])


def filled_in(expression: str, values: dict[str, str]) -> str:
    """The expression with every variable replaced; KeyError for one that has no value."""
    return VARIABLE.sub(lambda match: values[match[1] or match[2]], expression)
