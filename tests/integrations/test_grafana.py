"""The dashboard: every query against what is exposed, by name, type and label; and its form against Grafana's types."""

from __future__ import annotations

import importlib
import json
import re
from typing import Any

import promql_parser
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from blockpool.integrations.metric_families import FAMILIES, VLLM_FAMILIES

from .dashboard import BUILT_IN, DASHBOARD, Query, filled_in, load, panels, queries, variables
from .support import Engine, shown

if not DASHBOARD.is_file():
    pytest.skip("no docs here: the tests run without the checkout", allow_module_level=True)

BOARD = load()
QUERIES = list(queries(BOARD))
LABELS = {"model_name": ".*", "engine": ".*"}
CHOSEN = "{model_name=~'a',engine=~'b'}"
OF_COUNTERS = {"rate", "increase"}


class Exposed:
    """What a full engine exposes: of each sample's name the type and the labels."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.types: dict[str, str] = {}
        self.labels: dict[str, set[str]] = {}
        for family in text_string_to_metric_families(generate_latest(registry).decode()):
            for sample in family.samples:
                self.types[sample.name] = family.type
                self.labels[sample.name] = set(sample.labels)


@pytest.fixture
def exposed(engine: Engine, registry: CollectorRegistry) -> Exposed:
    shown(engine, registry)
    return Exposed(registry)


class Checker:
    """Walks an expression; fails where it does not fit what is exposed."""

    def __init__(self, exposed: Exposed) -> None:
        self.exposed = exposed
        self.names: set[str] = set()

    def labels(self, node: Any, inside: str = "") -> set[str]:
        """Labels of the result; `inside` is the function whose argument the node is."""
        kind = type(node).__name__
        if kind == "MatrixSelector":
            return self.labels(node.vector_selector, inside)
        if kind == "VectorSelector":
            return self._selector(node, inside)
        if kind == "Call":
            return self._call(node)
        if kind == "AggregateExpr":
            found = self.labels(node.expr)
            wanted = set(node.modifier.labels) if node.modifier else set()
            assert node.modifier is None or node.modifier.type == promql_parser.AggModifierType.By
            assert wanted <= found, f"grouped by {wanted - found}, which is no label there"
            return wanted
        if kind == "BinaryExpr":
            left, right = self.labels(node.lhs), self.labels(node.rhs)
            assert left == right, f"{left} never matches {right}"
            return left
        raise AssertionError(f"the checker does not know {kind}")

    def _selector(self, node: Any, inside: str) -> set[str]:
        assert node.name in self.exposed.types, f"{node.name} is not exposed"
        self.names.add(node.name)
        labels = self.exposed.labels[node.name]
        matched = {matcher.name for matcher in node.matchers.matchers}
        assert matched <= labels, f"{node.name} has no {matched - labels}"
        assert set(LABELS) <= matched, f"{node.name} is not narrowed down to what was chosen"
        is_gauge = self.exposed.types[node.name] == "gauge"
        assert is_gauge != (inside in OF_COUNTERS), f"{inside or 'no rate'} of {node.name}"
        return labels

    def _call(self, node: Any) -> set[str]:
        name = node.func.name
        if name == "histogram_quantile":
            quantile, buckets = node.args
            assert 0 < quantile.val < 1
            labels = self.labels(buckets)
            assert "le" in labels, "the buckets are gone"
            return labels - {"le"}
        assert name in OF_COUNTERS, f"the checker does not know {name}"
        (argument,) = node.args
        assert type(argument).__name__ == "MatrixSelector"
        return self.labels(argument, name)


def parsed(query: Query, prefix: str = "blockpool:") -> Any:
    return promql_parser.parse(filled_in(query.expression, {**BUILT_IN, **LABELS, "prefix": prefix}))


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: f"{query.panel}: {query.legend}")
def test_a_query_fits_what_is_exposed(exposed: Exposed, query: Query) -> None:
    labels = Checker(exposed).labels(parsed(query))
    in_legend = set(re.findall(r"\{\{\s*(\w+)\s*\}\}", query.legend))
    assert in_legend <= labels
    assert labels <= in_legend, "lines that cannot be told apart"


def test_everything_that_is_exposed_is_shown(exposed: Exposed) -> None:
    checker = Checker(exposed)
    for query in QUERIES:
        checker.labels(parsed(query))
    seen = {re.sub(r"_(total|bucket|sum|count)$", "", name) for name in checker.names}
    assert seen == {"blockpool:" + family.name for family in FAMILIES}


@pytest.mark.parametrize(
    "expression",
    [
        f"sum(rate(blockpool:kv_blocks{CHOSEN}[1m]))",  # of a gauge
        f"sum(blockpool:kv_block_evictions_total{CHOSEN})",  # a counter bare
        f"sum(rate(blockpool:kv_block_evictions{CHOSEN}[1m]))",  # without _total
        "sum(blockpool:kv_blocks{model_name=~'a',engine=~'b',pod='c'})",
        f"sum by (pod) (blockpool:kv_blocks{CHOSEN})",
        f"histogram_quantile(0.5, sum(rate(blockpool:kv_block_lifetime_seconds_bucket{CHOSEN}[1m])))",  # le is gone
        "sum(blockpool:kv_blocks)",
    ],
)
def test_the_checker_finds_faults(exposed: Exposed, expression: str) -> None:
    with pytest.raises(AssertionError):
        Checker(exposed).labels(promql_parser.parse(expression))


def test_with_the_prefix_of_vllm_the_names_are_those_of_vllm() -> None:
    """At least the first numbers, the hit rate and the residency, are there for a vLLM server, too."""
    text = " ".join(query.expression for query in QUERIES)
    assert all("${prefix}" + family.name in text for family in VLLM_FAMILIES)
    (prefix,) = [variable for variable in BOARD["templating"]["list"] if variable["name"] == "prefix"]
    offered = prefix["query"].split(",")
    assert offered == [option["value"] for option in prefix["options"]]
    assert prefix["current"]["value"] == offered[0] == "blockpool:"
    assert "vllm:" in offered


def test_every_variable_exists_and_is_used() -> None:
    known = set(variables(BOARD))
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(BOARD))) - set(BUILT_IN) - {"__all"}
    assert used == known == {"datasource", "prefix", "model_name", "engine"}


@pytest.mark.parametrize("name", sorted(LABELS))
def test_the_choice_of_engines_comes_from_a_label_that_is_exposed(exposed: Exposed, name: str) -> None:
    query = variables(BOARD)[name]["query"]["query"]
    match = re.fullmatch(r"label_values\((.+), (\w+)\)", query)
    assert match
    selector = promql_parser.parse(filled_in(match[1], {**LABELS, "prefix": "blockpool:"}))
    assert match[2] == name
    assert name in exposed.labels[selector.name]
    assert {matcher.name for matcher in selector.matchers.matchers} <= exposed.labels[selector.name]


def test_panels_have_their_own_place_and_say_what_they_show() -> None:
    everything = BOARD["panels"]
    assert len({panel["id"] for panel in everything}) == len(everything)
    cells: set[tuple[int, int]] = set()
    for panel in everything:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        covered = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not covered & cells, panel["title"]
        cells |= covered
    for panel in panels(BOARD):
        assert panel["description"].endswith(".")
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert all(target["datasource"] == panel["datasource"] for target in panel["targets"])
        references = [target["refId"] for target in panel["targets"]]
        assert len(set(references)) == len(references)


def lost(before: Any, after: Any, path: str = "") -> list[str]:
    """Where something of `before` is missing or different in `after`."""
    if isinstance(before, dict) and isinstance(after, dict):
        kept = [lost(value, after[key], f"{path}/{key}") for key, value in before.items() if key in after]
        gone = [f"{path}/{key}" for key, value in before.items() if key not in after and value is not None]
        return [*gone, *(line for lines in kept for line in lines)]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return [
            line
            for i, pair in enumerate(zip(before, after, strict=True))
            for line in lost(*pair, f"{path}[{i}]")
        ]
    return [] if before == after else [path]


def test_grafanas_own_types_know_every_field() -> None:
    """Read into the classes that Grafana publishes of its dashboards, and written again, nothing is lost."""
    reason = "grafana-foundation-sdk needs Python 3.11"
    models = pytest.importorskip("grafana_foundation_sdk.models.dashboard", reason=reason)
    plugins = importlib.import_module("grafana_foundation_sdk.cog.plugins")
    encoder = importlib.import_module("grafana_foundation_sdk.cog.encoder")
    plugins.register_default_plugins()

    def there_and_back(dashboard: dict[str, Any]) -> Any:
        return json.loads(encoder.JSONEncoder().encode(models.Dashboard.from_json(dashboard)))

    assert lost(BOARD, there_and_back(BOARD)) == []
    wrong = load()
    wrong["panels"][1]["options"]["colourMode"] = "value"
    wrong["refesh"] = "5s"
    assert lost(wrong, there_and_back(wrong)) == ["/refesh", "/panels[1]/options/colourMode"]
