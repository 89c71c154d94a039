"""Names, types and buckets against the specification, without a vLLM; and that the document lists each name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from blockpool.integrations.bucket_counts import RESIDENCY_BUCKETS
from blockpool.integrations.metric_families import FAMILIES, VLLM_FAMILIES

DOCUMENT = Path(__file__).parents[2] / "docs" / "metrics.md"
KINDS = {
    "kv_cache_usage_perc": "gauge",
    "prefix_cache_queries": "counter",
    "prefix_cache_hits": "counter",
    "kv_block_lifetime_seconds": "histogram",
    "kv_block_idle_before_evict_seconds": "histogram",
    "kv_block_reuse_gap_seconds": "histogram",
}
BUCKETS = "0.001 0.002 0.005 0.01 0.02 0.05 0.1 0.2 0.5 1 2 5 10 20 30 60 120 300 600 1200 1800"


def test_vllms_names_kinds_and_buckets() -> None:
    assert {family.name: family.kind for family in VLLM_FAMILIES} == KINDS
    assert list(RESIDENCY_BUCKETS) == [float(bound) for bound in BUCKETS.split()]


@pytest.mark.skipif(not DOCUMENT.is_file(), reason="no docs here: the tests run without the checkout")
def test_the_document_lists_every_name_with_its_kind_and_no_other() -> None:
    listed: dict[str, str] = {}
    for names, kind in re.findall(
        r"^\| ((?:`\w+`(?:, )?)+) \| (gauge|counter|histogram) \|", DOCUMENT.read_text(), re.M
    ):
        listed |= dict.fromkeys(re.findall(r"\w+", names), kind)
    assert listed == {family.name: family.kind for family in FAMILIES}
