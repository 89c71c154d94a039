"""The report of `blockpool replay`."""

from __future__ import annotations

from collections.abc import Sequence

from blockpool.replay.html.block_map_section import block_map_section
from blockpool.replay.html.hit_chart import HitLine, hit_chart
from blockpool.replay.html.miss_section import miss_section, misses_by_size
from blockpool.replay.html.numbers import percent, whole
from blockpool.replay.html.occupancy_section import occupancy_section
from blockpool.replay.html.page import Chart, DataTable, Fact, Page, Section, sections_of
from blockpool.replay.html.residency_section import residency_section
from blockpool.replay.result import ReplayResult, WindowCounts
from blockpool.replay.settings import ReplaySettings
from blockpool.replay.timed.timed_result import TimedResult


def replay_page(
    trace: str,
    settings: ReplaySettings,
    results: Sequence[ReplayResult],
) -> Page:
    """A report over all sizes, with details of the first.

    Args:
        trace: As it was named.
        settings: What all results were made with.
        results: One per size, at least one; block map and histograms need `ReplayResult.pictures` of the first, miss
            reasons need `ReplayResult.misses`.
    """
    first = results[0]
    counts = first.counts
    facts = (
        Fact("tokens found", whole(counts.hit_tokens), f"of {whole(counts.prompt_tokens)} prompt tokens"),
        Fact(
            "blocks found",
            percent(counts.block_hit_rate),
            f"{whole(counts.hit_blocks)} of {whole(counts.prompt_blocks)}",
        ),
        Fact("evictions", whole(counts.evictions), "blocks lost their content to make room"),
        Fact(
            "requests",
            whole(counts.requests),
            f"{whole(counts.refused)} refused" if counts.refused else "none refused",
        ),
    )
    sections = sections_of(
        _sizes_section(results),
        occupancy_section(first),
        None if first.pictures is None else block_map_section(first.pictures.block_map),
        miss_section(first.misses),
        residency_section(first.residency, None if first.pictures is None else first.pictures.histograms),
    )
    return Page(
        trace,
        answer_of(first.blocks, counts),
        meaning_of(counts),
        facts,
        sections,
        replay_settings(settings, first),
    )


def answer_of(blocks: int, counts: WindowCounts) -> str:
    """The first sentence."""
    if not counts.prompt_tokens:
        return f"A pool of {whole(blocks)} blocks could not play a single request."
    return f"A pool of {whole(blocks)} blocks found {percent(counts.token_hit_rate)} of the prompt tokens."


def replay_settings(
    settings: ReplaySettings, result: ReplayResult | TimedResult, *, checked_per: str = "requests"
) -> tuple[Fact, ...]:
    """How a replay was made."""
    speed = f"{result.requests_per_second:,.0f} requests/s, {result.blocks_per_second:,.0f} blocks/s"
    return (
        *playing_settings(settings, result.trace_format, result.bad_lines),
        *(
            (Fact("invariants", f"checked every {whole(settings.check_every)} {checked_per}"),)
            if settings.check_every
            else ()
        ),
        Fact("speed of the replay", speed),
    )


def playing_settings(settings: ReplaySettings, trace_format: str | None, bad_lines: int) -> tuple[Fact, ...]:
    """How a trace was played, whatever for."""
    facts = [
        Fact("trace format", trace_format or "requests from Python"),
        Fact("rules", settings.rules),
        Fact("measured", "all requests" if settings.window == "all" else "the last half, after a warm-up"),
    ]
    if not settings.is_full_attention:
        facts.insert(2, Fact("attention", settings.attention))
    if settings.reuse_uncached_first:
        facts.append(Fact("recycled first", "blocks that can never hit"))
    if bad_lines:
        facts.append(Fact("bad lines", f"{whole(bad_lines)} skipped"))
    return tuple(facts)


def meaning_of(counts: WindowCounts) -> tuple[str, ...]:
    """What follows from it."""
    words = []
    if counts.prompt_tokens:
        missed = counts.prompt_tokens - counts.hit_tokens
        words.append(
            f"{whole(counts.hit_tokens)} prompt tokens did not have to be computed again, {whole(missed)} had to."
        )
        if counts.evictions:
            words.append("Blocks were evicted to make room: a larger pool may find more.")
        elif not counts.refused:
            words.append("Nothing was evicted: a larger pool would find no more.")
    if counts.refused:
        words.append(
            f"{whole(counts.refused)} requests were refused, for the pool is too small for them: the largest needs "
            f"{whole(counts.largest_refused_blocks)} blocks. Rates are over the others."
        )
    return tuple(words)


def _sizes_section(results: Sequence[ReplayResult]) -> Section | None:
    if len(results) < 2:
        return None
    rows = tuple(
        (
            whole(result.blocks),
            whole(result.counts.hit_tokens),
            percent(result.counts.token_hit_rate),
            whole(result.counts.hit_blocks),
            percent(result.counts.block_hit_rate),
            whole(result.counts.evictions),
            whole(result.counts.refused),
        )
        for result in results
    )
    headings = (
        "blocks",
        "hit tokens",
        "token hit rate",
        "hit blocks",
        "block hit rate",
        "evictions",
        "refused",
    )
    charts = sizes_chart("replayed", [(result.blocks, result.counts.token_hit_rate) for result in results])
    tables = (
        DataTable("Hits by size", headings, rows, False),
        *misses_by_size([result.blocks for result in results], [result.misses for result in results]),
    )
    return Section("sizes", "All sizes", sizes_words(results), charts, tables)


def sizes_chart(name: str, rates: Sequence[tuple[int, float]]) -> tuple[Chart, ...]:
    """A line through the hit rates of at least two sizes, else nothing."""
    points = dict(rates)
    if len(points) < 2:
        return ()
    line = HitLine(name, tuple(sorted(points.items())), is_steps=False, color="lru")
    best = max(points, key=lambda blocks: (points[blocks], -blocks))
    chart = hit_chart(
        "Share of the prompt tokens that were found, by size of the pool",
        f"Line through {len(points)} sizes from {whole(min(points))} to {whole(max(points))} blocks; the most, "
        f"{percent(points[best])}, at {whole(best)} blocks.",
        [line],
    )
    return (chart,)


def sizes_words(results: Sequence[ReplayResult] | Sequence[TimedResult]) -> tuple[str, ...]:
    """How to read what is said of several sizes."""
    refused = any(result.counts.refused for result in results)
    return (
        "Each size is a cold pool of its own. The points were replayed; the line between them is only for the eye."
        + (" Rates are over the requests that were played, without the refused ones." if refused else ""),
        f"Everything below is about the first size, {whole(results[0].blocks)} blocks.",
    )
