"""What is exposed, as text and over HTTP; many pools and prefixes in one registry."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from blockpool import BlockPool
from blockpool.integrations.metric_families import FAMILIES
from blockpool.integrations.prometheus import PoolCollector, PoolMetrics, make_text_app

from .support import INSIDE, LABELS, Engine, Server, name_of, samples_of, scrape, shown, small_metrics

# What Prometheus 2.42 and 3 ask for, and a browser.
ACCEPTED = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=0.0.4;q=0.3",
    "text/html,*/*;q=0.8",
)


# --- what is exposed


def test_every_number(engine: Engine, registry: CollectorRegistry) -> None:
    shown(engine, registry)
    engine.run(0, 20, seconds=3)  # five blocks, all indexed
    engine.run(0, 9, seconds=1)  # finds two of them, one more of its own, not full
    engine.run(100, 12, seconds=1)  # three more: the partial one and blank ones
    engine.run(200, 20, seconds=1)  # evicts
    found = scrape(registry)
    assert found[f"blockpool:kv_cache_usage_perc{{{INSIDE}}}"] == 0
    assert found[f"blockpool:prefix_cache_queries_total{{{INSIDE}}}"] == 61
    assert found[f"blockpool:prefix_cache_hits_total{{{INSIDE}}}"] == 8
    assert found[f"blockpool:prefix_cache_requests_total{{{INSIDE}}}"] == 4
    assert found[f"blockpool:preempted_prefix_cache_queries_total{{{INSIDE}}}"] == 0
    pool = engine.manager.block_pool
    for state, number in pool.occupancy()._asdict().items():
        assert found[f'blockpool:kv_blocks{{{INSIDE},state="{state}"}}'] == number
    assert found[f"blockpool:kv_block_evictions_total{{{INSIDE}}}"] == pool.num_evictions > 0
    assert found[f"blockpool:prefix_index_hashes{{{INSIDE}}}"] == len(pool.cached_block_hash_to_block)
    assert found[f"blockpool:prefix_index_duplicate_blocks{{{INSIDE}}}"] == 0
    for name in ("kv_block_lifetime_seconds", "kv_block_recycled_lifetime_seconds"):
        assert found[f"blockpool:{name}_count{{{INSIDE}}}"] > 0
    assert found[f"blockpool:kv_event_batches_total{{{INSIDE}}}"] == 3  # the second one changed no index
    assert found[f"blockpool:kv_event_queue_batches{{{INSIDE}}}"] == 0
    assert found[f"blockpool:kv_event_dropped_batches_total{{{INSIDE}}}"] == 0
    assert found[f"blockpool:metrics_updates_total{{{INSIDE}}}"] == 5


def test_every_family_is_exposed_with_its_type_and_a_help(
    engine: Engine, registry: CollectorRegistry
) -> None:
    shown(engine, registry, "vllm:")
    families = {
        family.name: family for family in text_string_to_metric_families(generate_latest(registry).decode())
    }
    assert {name: family.type for name, family in families.items()} == {
        "vllm:" + family.name: family.kind for family in FAMILIES
    }
    assert all(family.documentation.endswith(".") for family in families.values())
    assert len(FAMILIES) == len({family.name for family in FAMILIES})


def test_a_histogram_is_cumulative(engine: Engine, registry: CollectorRegistry) -> None:
    shown(engine, registry)
    engine.run(0, 20, seconds=3)  # takes 5 of the 7 blocks
    engine.run(100, 20, seconds=90)  # the other 2, and 3 of those, which are 3 seconds old
    engine.run(200, 20, seconds=0)  # the last 2 of those, 93 seconds old, and 3 that are 90 seconds old
    found = scrape(registry)
    name = "blockpool:kv_block_lifetime_seconds"
    for bound, wanted in (("2.0", 0), ("5.0", 3), ("60.0", 3), ("120.0", 8), ("1800.0", 8), ("+Inf", 8)):
        assert found[name_of(f"{name}_bucket", {**LABELS, "le": bound})] == wanted, bound
    assert found[f"{name}_count{{{INSIDE}}}"] == 8
    assert found[f"{name}_sum{{{INSIDE}}}"] == 3 * 3 + 2 * 93 + 3 * 90


def test_a_bare_pool_shows_what_it_knows_and_no_more(registry: CollectorRegistry) -> None:
    PoolCollector(registry=registry).add(small_metrics(), {"model_name": "m", "engine": 1})
    names = {name.partition("{")[0] for name in scrape(registry)}
    assert names == {
        "blockpool:kv_cache_usage_perc",
        "blockpool:kv_blocks",
        "blockpool:kv_block_evictions_total",
        "blockpool:prefix_index_hashes",
        "blockpool:prefix_index_duplicate_blocks",
        "blockpool:metrics_updates_total",
    }


def test_openmetrics_is_well_formed(engine: Engine, registry: CollectorRegistry) -> None:
    """The parser of OpenMetrics is the strict one: order, suffixes, buckets."""
    shown(engine, registry)
    engine.run(0, 20)
    engine.run(100, 20)
    families = list(parse_openmetrics(generate_openmetrics(registry, escaping="allow-utf-8").decode()))
    assert [family.name for family in families] == ["blockpool:" + family.name for family in FAMILIES]


def test_awkward_label_values_come_back(registry: CollectorRegistry) -> None:
    value = 'a "quoted"\\back\nslash\t{é, 模型}='
    PoolCollector(registry=registry).add(small_metrics(), {"model_name": value, "engine": ""})
    for text, parse in (
        (generate_latest(registry), text_string_to_metric_families),
        (generate_openmetrics(registry, escaping="allow-utf-8"), parse_openmetrics),
    ):
        samples = [sample for family in parse(text.decode()) for sample in family.samples]
        assert samples
        assert all(sample.labels["model_name"] == value for sample in samples)
        assert all(sample.labels["engine"] == "" for sample in samples)


@pytest.mark.parametrize(
    "accept", ["text/plain", "application/openmetrics-text; version=1.0.0; escaping=allow-utf-8"]
)
def test_a_scrape_over_http(engine: Engine, registry: CollectorRegistry, accept: str) -> None:
    shown(engine, registry)
    engine.run(0, 20)
    with Server(registry) as server:
        kind, body = server.get(accept)
        assert kind.startswith(accept.partition(";")[0])
        if "openmetrics" in accept:
            found = {name_of(s.name, s.labels): s.value for f in parse_openmetrics(body) for s in f.samples}
        else:
            found = samples_of(body)
        assert found == scrape(registry)
        engine.run(100, 12)
        assert server.get(accept)[1] != body


@pytest.mark.parametrize("prefix", ["blockpool:", "vllm:"])
@pytest.mark.parametrize("accept", ACCEPTED)
def test_plain_text_whatever_is_asked_for(
    engine: Engine, registry: CollectorRegistry, accept: str, prefix: str
) -> None:
    """prometheus-client 0.23 to 0.26 writes `vllm_…` where OpenMetrics is asked for without UTF-8 names."""
    shown(engine, registry, prefix)
    with Server(make_text_app(registry)) as server:
        kind, body = server.get(accept)
    assert kind.startswith("text/plain; version=0.0.4")
    assert samples_of(body) == scrape(registry)
    assert f"\n{prefix}kv_cache_usage_perc{{{INSIDE}}} 0.0\n" in body


# --- several pools, several prefixes


def test_several_pools_in_one_registry(registry: CollectorRegistry) -> None:
    collector = PoolCollector(registry=registry)
    pools = [BlockPool(11, True, 4) for _ in range(3)]
    metrics = [PoolMetrics(pool) for pool in pools]
    for engine, one in enumerate(metrics):
        collector.add(one, {"model_name": "m", "engine": engine})
        pools[engine].get_new_blocks(engine)
        one.update()
    found = scrape(registry)
    in_use = [found[f'blockpool:kv_blocks{{engine="{i}",model_name="m",state="in_use"}}'] for i in range(3)]
    assert in_use == [0, 1, 2]
    text = generate_latest(registry).decode()
    assert text.count("# TYPE blockpool:kv_blocks gauge") == 1
    collector.remove(metrics[1])
    assert not any('engine="1"' in name for name in scrape(registry))
    collector.add(metrics[1], {"model_name": "m", "engine": 1})
    assert any('engine="1"' in name for name in scrape(registry))


def test_one_pool_under_two_prefixes(engine: Engine, registry: CollectorRegistry) -> None:
    shown(engine, registry, "vllm:")
    shown(engine, registry)
    engine.run(0, 20)
    found = scrape(registry)
    ours = {name: value for name, value in found.items() if name.startswith("blockpool:")}
    assert {
        name.replace("blockpool:", "vllm:", 1): value for name, value in ours.items()
    }.items() <= found.items()
    assert len(found) == 2 * len(ours)


def test_other_labels_or_none(registry: CollectorRegistry) -> None:
    PoolCollector("a_", ("pod", "gpu"), registry).add(small_metrics(), {"gpu": 3, "pod": "p"})
    PoolCollector("", (), registry).add(small_metrics(), {})
    found = scrape(registry)
    assert found['a_kv_blocks{gpu="3",pod="p",state="blank"}'] == 4
    assert found["kv_cache_usage_perc{}"] == 0


def test_no_pool_yet(registry: CollectorRegistry) -> None:
    PoolCollector(registry=registry)
    assert generate_latest(registry) == b""


def test_a_collector_can_leave(registry: CollectorRegistry) -> None:
    collector = PoolCollector(registry=registry)
    collector.add(small_metrics(), LABELS)
    collector.close()
    collector.close()
    assert scrape(registry) == {}
    PoolCollector(registry=registry)


def test_without_a_registry() -> None:
    collector = PoolCollector(registry=None)
    collector.add(small_metrics(), LABELS)
    assert collector.collect()[0].name == "blockpool:kv_cache_usage_perc"
    collector.close()
