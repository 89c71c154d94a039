"""Histograms against a count of the numbers themselves."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockpool.replay import replay
from blockpool.replay.histogram import HistogramBar, histogram
from blockpool.replay.quantiles import RELATIVE_ERROR, QuantileSketch

BUCKET_WIDTH = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR) * (1 + 1e-9)


def sketch_of(values: list[float]) -> QuantileSketch:
    sketch = QuantileSketch()
    for value in values:
        sketch.add(value)
    return sketch


def test_whole_numbers_are_where_they_belong() -> None:
    values = [0, 0, 1, 2, 2, 3, 5, 6, 10, 11, 20, 21, 49]
    assert histogram(sketch_of([float(value) for value in values])) == (
        HistogramBar(0, 0, 2),
        HistogramBar(0.5, 1, 1),
        HistogramBar(1, 2, 2),
        HistogramBar(2, 5, 2),
        HistogramBar(5, 10, 2),
        HistogramBar(10, 20, 2),
        HistogramBar(20, 50, 2),
    )


def test_gaps_are_shown_and_nothing_is_empty() -> None:
    assert histogram(QuantileSketch()) == ()
    assert histogram(sketch_of([0.0])) == (HistogramBar(0, 0, 1),)
    bars = histogram(sketch_of([0.015, 3.0]))
    assert [bar.numbers for bar in bars] == [1, 0, 0, 0, 0, 0, 0, 1]
    assert (bars[0].low, bars[0].high) == (0.01, 0.02)


@given(st.lists(st.one_of(st.just(0.0), st.floats(1e-6, 1e9)), min_size=1, max_size=100))
def test_every_number_is_in_a_bar_that_holds_it_to_within_a_bucket(values: list[float]) -> None:
    bars = histogram(sketch_of(values))
    assert sum(bar.numbers for bar in bars) == len(values)
    for low_bar, high_bar in itertools.pairwise(bars):
        assert low_bar.high == high_bar.low or low_bar.high == 0
    for number, bar in enumerate(bars):
        up_to = sum(each.numbers for each in bars[: number + 1])
        least = sum(value <= bar.high for value in values)
        most = sum(value <= bar.high * BUCKET_WIDTH for value in values)
        assert least <= up_to <= most


def test_a_replay_has_the_histograms_of_its_residency() -> None:
    result = replay("demo", 800, pictures=True)
    assert result.pictures is not None
    residency, histograms = result.residency, result.pictures.histograms
    for quantiles, bars in zip(
        (residency.lifetime, residency.idle, residency.reuse_gap), histograms, strict=True
    ):
        assert sum(bar.numbers for bar in bars) == quantiles.samples > 0
        assert quantiles.median is not None
        below = sum(bar.numbers for bar in bars if bar.high <= quantiles.median)
        assert below <= quantiles.samples / 2
        assert bars[0].low <= quantiles.median <= bars[-1].high * BUCKET_WIDTH
    assert pytest.approx(residency.relative_error) == RELATIVE_ERROR
