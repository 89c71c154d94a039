"""Histograms with bars from 1 to 2, 2 to 5, 5 to 10 and so on, made of the buckets of a `QuantileSketch`."""

from __future__ import annotations

import math
from typing import NamedTuple

from blockpool.replay.quantiles import QuantileSketch


class HistogramBar(NamedTuple):
    """Numbers above `low` up to `high`; both are 0 for those that are 0."""

    low: float
    high: float
    numbers: int


Histogram = tuple[HistogramBar, ...]


class ResidencyHistograms(NamedTuple):
    """How what `Residency` tells quantiles of is spread; units are the same."""

    lifetime: Histogram
    idle: Histogram
    reuse_gap: Histogram


def histogram(sketch: QuantileSketch) -> Histogram:
    """Bars from the smallest number to the largest, those between that hold nothing included.

    A number counts below an edge that is up to 2 % smaller than it, the width of a bucket. One that is equal to an
    edge always counts below it, so whole numbers up to 49 are where they belong.
    """
    counts: dict[int, int] = {}
    for low, count in sketch.buckets():
        step = _step_of(low)
        counts[step] = counts.get(step, 0) + count
    bars = [HistogramBar(0, 0, sketch.zeros)] if sketch.zeros else []
    if counts:
        bars += [
            HistogramBar(_edge(step), _edge(step + 1), counts.get(step, 0))
            for step in range(min(counts), max(counts) + 1)
        ]
    return tuple(bars)


def _edge(step: int) -> float:
    """Step 0 begins at 1, step 1 at 2, step 2 at 5, step 3 at 10; step -1 at 0.5."""
    exponent, place = divmod(step, 3)
    return float(f"{(1, 2, 5)[place]}e{exponent}")


def _step_of(low: float) -> int:
    """The last step whose edge is at or below a number above 0."""
    step = 3 * math.floor(math.log10(low)) - 1
    while _edge(step + 1) <= low:
        step += 1
    return step
