"""Prefixes, labels and registries that cannot be: one typed error, and nothing has changed."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Gauge

from blockpool import ArgumentError, ConfigError
from blockpool.integrations.prometheus import PoolCollector

from .support import LABELS, scrape, small_metrics


@pytest.mark.parametrize(
    ("arguments", "error", "field"),
    [
        ({"prefix": "1up"}, ConfigError, "prefix"),
        ({"prefix": "my-pool:"}, ConfigError, "prefix"),
        ({"prefix": "é"}, ConfigError, "prefix"),
        ({"prefix": "a\n"}, ConfigError, "prefix"),
        ({"prefix": None}, ArgumentError, "prefix"),
        ({"prefix": b"a"}, ArgumentError, "prefix"),
        ({"label_names": "engine"}, ArgumentError, "label_names"),
        ({"label_names": 5}, ArgumentError, "label_names"),
        ({"label_names": [5]}, ArgumentError, "label_names"),
        ({"label_names": ["a-b"]}, ConfigError, "label_names"),
        ({"label_names": ["a\n"]}, ConfigError, "label_names"),
        ({"label_names": [""]}, ConfigError, "label_names"),
        ({"label_names": ["__name__"]}, ConfigError, "label_names"),
        ({"label_names": ["le"]}, ConfigError, "label_names"),
        ({"label_names": ["state"]}, ConfigError, "label_names"),
        ({"label_names": ["a", "b", "a"]}, ConfigError, "label_names"),
        ({"registry": object()}, ArgumentError, "registry"),
    ],
)
def test_bad_settings(
    registry: CollectorRegistry, arguments: dict[str, Any], error: type[ConfigError], field: str
) -> None:
    with pytest.raises(error) as caught:
        PoolCollector(**{"registry": registry, **arguments})
    assert type(caught.value) is error
    assert caught.value.field == field
    PoolCollector(registry=registry)  # nothing was registered


@pytest.mark.parametrize(
    ("labels", "error", "field"),
    [
        ({"model_name": "m"}, ConfigError, "labels"),
        ({}, ConfigError, "labels"),
        ({"model_name": "m", "engine": "0", "pod": "p"}, ConfigError, "labels"),
        ({"model_name": "m", 5: "0"}, ConfigError, "labels"),
        (["m", "0"], ArgumentError, "labels"),
        (None, ArgumentError, "labels"),
        ({"model_name": None, "engine": "0"}, ArgumentError, "labels['model_name']"),
        ({"model_name": b"m", "engine": "0"}, ArgumentError, "labels['model_name']"),
        ({"model_name": "m", "engine": True}, ArgumentError, "labels['engine']"),
        ({"model_name": "m", "engine": 1.5}, ArgumentError, "labels['engine']"),
        ({"model_name": "\ud800", "engine": "0"}, ConfigError, "labels['model_name']"),
    ],
)
def test_bad_labels_change_nothing(
    registry: CollectorRegistry, labels: Any, error: type[ConfigError], field: str
) -> None:
    collector = PoolCollector(registry=registry)
    with pytest.raises(error) as caught:
        collector.add(small_metrics(), labels)
    assert type(caught.value) is error
    assert caught.value.field == field
    assert scrape(registry) == {}


def test_adding_twice_and_removing_what_is_not_there(registry: CollectorRegistry) -> None:
    collector = PoolCollector(registry=registry)
    metrics = small_metrics()
    collector.add(metrics, LABELS)
    before = scrape(registry)
    for again, labels, field in (
        (metrics, {"model_name": "other", "engine": "0"}, "metrics"),
        (small_metrics(), LABELS, "labels"),
        (small_metrics(), {"model_name": "llama", "engine": 0}, "labels"),  # the same once written
    ):
        with pytest.raises(ConfigError) as caught:
            collector.add(again, labels)
        assert caught.value.field == field
    with pytest.raises(ConfigError):
        collector.remove(small_metrics())
    with pytest.raises(ArgumentError):
        collector.add(metrics._pool, LABELS)  # type: ignore[arg-type]
    assert scrape(registry) == before


@pytest.mark.parametrize("name", ["vllm:kv_cache_usage_perc", "vllm:prefix_cache_hits", "vllm:kv_blocks"])
def test_names_that_are_taken_are_refused(registry: CollectorRegistry, name: str) -> None:
    """As in a process where vLLM itself has registered its own."""
    Gauge(name, "somebody else's", registry=registry)
    before = scrape(registry)
    with pytest.raises(ConfigError) as caught:
        PoolCollector("vllm:", registry=registry)
    assert caught.value.field == "prefix"
    assert scrape(registry) == before
    PoolCollector(registry=registry)


def test_a_second_collector_of_the_same_prefix_is_refused() -> None:
    """Also by a registry that was not asked to look."""
    registry = CollectorRegistry(auto_describe=False)
    PoolCollector("vllm:", registry=registry)
    with pytest.raises(ConfigError):
        PoolCollector("vllm:", ("pod",), registry)
