"""Our histogram counts as prometheus-client's own does."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from prometheus_client import Histogram as TheirHistogram

from blockpool.integrations.bucket_counts import RESIDENCY_BUCKETS, BucketCounts, Histogram


def test_a_bound_belongs_to_its_bucket() -> None:
    histogram = Histogram((1.0, 2.0))
    assert histogram.counts() == BucketCounts((0, 0, 0), 0.0)
    for value in (0.0, 1.0, 1.5, 2.0, 2.5):
        histogram.observe(value)
    assert histogram.counts() == BucketCounts((2, 4, 5), 7.0)


def test_what_was_handed_out_does_not_change() -> None:
    histogram = Histogram((1.0,))
    before = histogram.counts()
    histogram.observe(0.5)
    assert before == BucketCounts((0, 0), 0.0)


@given(st.lists(st.sampled_from(RESIDENCY_BUCKETS) | st.floats(0, 1e6)))
@example([0.0, 0.001, 1800.0, 1800.1])
def test_as_prometheus_client_counts(values: list[float]) -> None:
    registry = CollectorRegistry()
    theirs = TheirHistogram("h", "", buckets=RESIDENCY_BUCKETS, registry=registry)
    ours = Histogram(RESIDENCY_BUCKETS)
    for value in values:
        theirs.observe(value)
        ours.observe(value)
    (family,) = registry.collect()
    buckets = [sample.value for sample in family.samples if sample.name == "h_bucket"]
    (total,) = [sample.value for sample in family.samples if sample.name == "h_sum"]
    assert ours.counts().cumulative == tuple(buckets)
    assert ours.counts().total == pytest.approx(total)
