"""The report of `blockpool replay --timed`."""

from __future__ import annotations

from collections.abc import Sequence

from blockpool.replay.html.block_map_section import block_map_section
from blockpool.replay.html.miss_section import miss_section
from blockpool.replay.html.numbers import percent, points, quantile, whole
from blockpool.replay.html.occupancy_section import timed_occupancy_section
from blockpool.replay.html.page import DataTable, Fact, Page, Section, sections_of
from blockpool.replay.html.replay_words import (
    answer_of,
    meaning_of,
    replay_settings,
    requests_fact,
    tokens_fact,
)
from blockpool.replay.html.residency_section import residency_section
from blockpool.replay.html.sizes_section import sizes_section
from blockpool.replay.html.waiting_section import waiting_section
from blockpool.replay.settings import ReplaySettings
from blockpool.replay.timed.timed_result import TimedResult
from blockpool.replay.timed.timed_settings import TimedSettings


def timed_page(
    trace: str, timed: TimedSettings, settings: ReplaySettings, results: Sequence[TimedResult]
) -> Page:
    """A report over all sizes, with details of the first.

    Args:
        trace: As it was named.
        timed: What all results were made with.
        settings: What all results were made with.
        results: One per size, at least one; block map and histograms need `TimedResult.pictures` of the first, miss
            reasons need `TimedResult.misses`.
    """
    first = results[0]
    pictures = first.pictures
    sections = sections_of(
        _sizes_section(results),
        _side_by_side_section(first),
        timed_occupancy_section(first),
        waiting_section(first),
        None if pictures is None else block_map_section(pictures.block_map),
        miss_section(first.misses),
        residency_section(
            first.residency, None if pictures is None else pictures.histograms, engine_time=True
        ),
    )
    how = (*replay_settings(settings, first, checked_per="steps"), *_engine_facts(timed))
    return Page(trace, answer_of(first.blocks, first.counts), _meaning(first), _facts(first), sections, how)


def _facts(result: TimedResult) -> tuple[Fact, ...]:
    counts, preemption = result.counts, result.preemption
    return (
        tokens_fact(counts),
        Fact(
            "one after the other",
            percent(result.sequential.token_hit_rate),
            "would be found if no request held blocks beside another",
        ),
        Fact("preemptions", whole(preemption.preemptions), "requests lost their blocks while they ran"),
        Fact(
            "first token",
            f"{quantile(result.first_token.p90)}\u00a0s",
            "after the arrival at most, for 90\u00a0% of the requests",
        ),
        requests_fact(counts),
    )


def _meaning(result: TimedResult) -> tuple[str, ...]:
    words = list(meaning_of(result.counts))
    if result.counts.prompt_tokens:
        change = result.counts.token_hit_rate - result.sequential.token_hit_rate
        words.insert(
            1,
            "Requests ran side by side and held their blocks meanwhile. Played one after the other they find "
            f"{percent(result.sequential.token_hit_rate)}, so the difference is {points(change)}.",
        )
    if result.preemption.preemptions:
        words.append(
            f"{whole(result.preemption.preemptions)} times a running request lost its blocks to an older one, and "
            f"{whole(result.preemption.recomputed_tokens)} tokens had to be computed again for it."
        )
    return tuple(words)


def _side_by_side_section(result: TimedResult) -> Section | None:
    """What holding blocks costs: the same requests in both ways, and preemptions. None when nothing was played."""
    if not result.counts.prompt_tokens:
        return None
    rows = tuple(
        (
            name,
            whole(counts.hit_tokens),
            percent(counts.token_hit_rate),
            whole(counts.hit_blocks),
            percent(counts.block_hit_rate),
            whole(counts.evictions),
        )
        for name, counts in (("side by side", result.counts), ("one after the other", result.sequential))
    )
    headings = ("played", "hit tokens", "token hit rate", "hit blocks", "block hit rate", "evictions")
    words = (
        "Blocks of running requests are lost to the cache until they are given back. Hits are those of first "
        "admissions; what preempted requests find again is apart.",
    )
    tables = (DataTable("The same requests, in pools of the same size", headings, rows, False),)
    return Section("side-by-side", "Side by side", words, (), (*tables, _engine_table(result)))


def _engine_table(result: TimedResult) -> DataTable:
    preemption = result.preemption
    rows = (
        ("preemptions", whole(preemption.preemptions)),
        ("admitted again after one", whole(preemption.resumed)),
        ("tokens looked up then", whole(preemption.resumed_tokens)),
        ("of these found", whole(preemption.resumed_hit_tokens)),
        ("tokens computed again", whole(preemption.recomputed_tokens)),
        ("running, on average", f"{result.running_mean:,.1f}"),
        ("running, at most", whole(result.running_max)),
        ("steps of the engine", whole(result.steps)),
        ("seconds from first arrival to end", f"{result.makespan:,.1f}"),
    )
    return DataTable("The engine", ("what", "number"), rows, is_folded=False)


def _engine_facts(timed: TimedSettings) -> tuple[Fact, ...]:
    if timed.arrival_rate is not None:
        arrivals = f"{timed.arrival_rate:g} requests/s, drawn with seed {timed.seed}"
    elif timed.speed is not None:
        arrivals = f"as in the trace, {timed.speed:g} times as fast"
    else:
        arrivals = "as in the trace"
    return (
        Fact("arrivals", arrivals),
        Fact("running at a time", f"at most {whole(timed.max_running)}"),
        Fact("tokens per step", f"at most {whole(timed.max_batched_tokens)}"),
        Fact("prefill", f"{timed.prefill_rate:,g} tokens/s"),
        Fact("decode", f"{timed.decode_rate:,g} tokens/s each"),
    )


def _sizes_section(results: Sequence[TimedResult]) -> Section | None:
    rows = tuple(
        (
            whole(result.blocks),
            whole(result.counts.hit_tokens),
            percent(result.counts.token_hit_rate),
            percent(result.sequential.token_hit_rate),
            whole(result.preemption.preemptions),
            quantile(result.queueing.p90),
            quantile(result.first_token.p90),
            whole(result.counts.refused),
        )
        for result in results
    )
    headings = (
        "blocks",
        "hit tokens",
        "token hit rate",
        "one after the other",
        "preemptions",
        "queueing p90, s",
        "first token p90, s",
        "refused",
    )
    return sizes_section(results, "Hits and waiting by size", headings, rows)
