"""Why blocks missed where requests run side by side: sums against the counts, and against the plain replay."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockpool.replay import REASONS, MissReport, ReplaySettings, TimedSettings, replay, replay_timed
from blockpool.trace import TraceReader, TraceRequest, generate

from ...shares import share
from ..misses.test_miss_model import KINDS
from .test_scheduler import ENGINES, FORMS, RATES, Drawn, Engine, Told, drawn_requests, play

DEMO = {
    "never seen": (16_389, 262_224),
    "differs": (4_434, 70_944),
    "evicted": (34_213, 547_408),
    "partial block": (941, 7_492),
}


def report_of(result: Any) -> MissReport:
    assert isinstance(result.misses, MissReport)
    return result.misses


def check_sums(report: MissReport, counts: Any) -> None:
    no_room = report.reasons[REASONS.index("no room")]
    assert report.missed_blocks - no_room.blocks == counts.prompt_blocks - counts.hit_blocks
    assert report.missed_tokens - no_room.tokens == counts.prompt_tokens - counts.hit_tokens
    assert report.evicted.requests_ago.samples == report.reasons[REASONS.index("evicted")].blocks
    assert report.evicted.blocks_too_few.samples == 0
    assert report.evicted.seconds_ago is not None
    if report.tag is not None:
        rows = [*report.tags, *([report.other_tags] if report.other_tags else [])]
        assert sum(row.requests for row in rows) == counts.requests


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rules", ["engine", "trace"])
@given(
    drawn=drawn_requests(),
    engine=ENGINES,
    block_size=st.integers(1, 4),
    reuse=st.booleans(),
    first=st.integers(0, 14),
)
def test_sums_are_the_misses_of_first_admissions(
    rules: str, form: str, drawn: list[Drawn], engine: Engine, block_size: int, reuse: bool, first: int
) -> None:
    trace = Told(drawn, form, block_size).trace
    settings = ReplaySettings(rules=rules, reuse_uncached_first=reuse, explain=True)
    first = min(first, len(trace) - 1)
    statistics = play(trace, engine, settings, first_measured=first).statistics
    assert statistics.misses is not None
    report = statistics.misses.report()
    check_sums(report, statistics.counts)
    # A block is never kept longer than the one before it, side by side or not.
    assert report.reasons[REASONS.index("behind a miss")].blocks == 0
    plain = play(trace, engine, replace(settings, explain=False), first_measured=first).statistics
    assert statistics.counts == plain.counts


@pytest.mark.parametrize("kind", ["tokens", "images"])
@share(2)
@given(data=st.data())
def test_sums_with_extra_keys(kind: str, data: st.DataObject) -> None:
    """Outputs are indexed block by block, under LoRA, salts and images."""
    requests = data.draw(KINDS[kind])
    for request in requests:
        request.timestamp_ms = 0.0
    engine = data.draw(ENGINES)
    timed = replace(engine.settings(), **RATES)
    settings = ReplaySettings(rules="engine", explain=True)
    result = replay_timed(requests, engine.blocks, timed, settings)
    check_sums(report_of(result), result.counts)


@pytest.mark.parametrize("rules", ["engine", "trace"])
@pytest.mark.parametrize("kind", KINDS)
@share(4)
@given(data=st.data())
def test_one_at_a_time_has_the_reasons_of_replay(rules: str, kind: str, data: st.DataObject) -> None:
    """Of requests that are far apart; a timed replay holds outputs and so equals it for prompts alone."""
    requests: list[TraceRequest] = data.draw(KINDS[kind])
    for number, request in enumerate(requests):
        request.timestamp_ms = number * 1e6
        request.output_token_ids = None
    blocks = data.draw(st.integers(1, 12))
    settings = ReplaySettings(rules=rules, explain=True)
    chunk = data.draw(st.integers(1, 9))
    timed = report_of(
        replay_timed(requests, blocks, TimedSettings(max_running=1, max_batched_tokens=chunk), settings)
    )
    alone = report_of(replay(requests, blocks, settings))
    assert timed.reasons == alone.reasons
    assert timed.other_keys == alone.other_keys
    assert timed.differs_at == alone.differs_at
    assert timed.evicted.requests_ago == alone.evicted.requests_ago


@pytest.mark.both_builds
def test_demo_trace() -> None:
    result = replay_timed("demo", 2_000, settings=ReplaySettings(rules="engine", explain=True))
    report = report_of(result)
    assert {row.reason: row[1:] for row in report.reasons if row.blocks} == DEMO
    check_sums(report, result.counts)
    assert (report.tag, report.num_tags) == ("session_id", 261)
    costliest = report.cases[0]
    reader = TraceReader("demo")
    lines = [reader.line for _ in reader]
    assert costliest.line == lines[costliest.request]
    assert costliest.blocks_too_few is None


def test_a_request_that_was_preempted_is_explained_once() -> None:
    """Two requests of 3 blocks at their end, in a pool of 5: the younger goes, and comes back."""

    def request(token: int) -> TraceRequest:
        return TraceRequest(0, 8, 4, token_ids=[token] * 8, output_token_ids=[token] * 9)

    settings = ReplaySettings(rules="engine", explain=True)
    result = replay_timed([request(1), request(2)], 5, settings=settings)
    assert result.preemption.resumed == 1
    assert result.preemption.recomputed_tokens > 0
    report = report_of(result)
    assert (report.missed_blocks, report.missed_tokens) == (4, 16)
    assert {case.request for case in report.cases} == {0, 1}


def test_what_is_evicted_while_others_decode_is_dated_by_the_engine() -> None:
    """The first leaves one block, which the output of the second takes; then the first comes again."""
    first = TraceRequest(0, 4, 4, token_ids=[1] * 4)
    second = TraceRequest(1_000, 4, 4, token_ids=[2] * 4, output_tokens=5)
    again = TraceRequest(9_000, 5, 4, token_ids=[1] * 5)
    settings = ReplaySettings(rules="engine", explain=True)
    report = report_of(
        replay_timed([first, second, again], 3, TimedSettings(prefill_rate=4, decode_rate=1), settings)
    )
    evicted = report.evicted
    assert evicted.requests_ago.samples == 0  # three blocks are room enough
    report = report_of(
        replay_timed([first, second, again], 2, TimedSettings(prefill_rate=4, decode_rate=1), settings)
    )
    evicted = report.evicted
    assert (evicted.requests_ago.samples, evicted.requests_ago.p99) == (1, pytest.approx(1, rel=0.01))
    # Its prompt takes the second one second, from second 1 on; the output needs a block in the step from 2 on.
    assert evicted.seconds_ago is not None
    assert evicted.seconds_ago.median == pytest.approx(7, rel=0.01)


def test_a_refused_request_has_no_room() -> None:
    requests = [TraceRequest(0, 64, 16, block_ids=[1, 2, 3, 4], output_tokens=20)]
    report = report_of(replay_timed(requests, 4, settings=ReplaySettings(rules="engine", explain=True)))
    assert [row for row in report.reasons if row.blocks] == [("no room", 4, 64)]
    assert report.cases[0].blocks_too_few == 2  # 64 + 20 - 1 tokens


def test_the_comparison_is_not_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    requests = list(generate("chat", 40, seed=1))
    settings = ReplaySettings(rules="engine", explain=True, tag="session_id")
    explained = replay_timed(requests, 900, settings=settings)
    plain = replay_timed(requests, 900)
    assert explained.sequential == plain.sequential
    assert plain.misses is None
