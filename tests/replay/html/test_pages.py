"""What reports say: the answer first, and the same numbers as everywhere else."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("altair", reason="the extra report is not installed")

from blockpool.replay import (
    ReplayResult,
    ReplaySettings,
    TimedResult,
    TimedSettings,
    replay,
    replay_timed,
    study,
)
from blockpool.replay.html.block_map_section import block_map_section
from blockpool.replay.html.curve_page import curve_page
from blockpool.replay.html.hit_chart import curve_points
from blockpool.replay.html.miss_section import miss_section
from blockpool.replay.html.page import Page, Section
from blockpool.replay.html.replay_page import replay_page
from blockpool.replay.html.residency_section import residency_section
from blockpool.replay.html.timed_page import timed_page
from blockpool.trace import TraceReader, TraceRequest

from .html_support import curve_report, plan_report, replay_report


@pytest.fixture(scope="module")
def result() -> ReplayResult:
    return replay("demo", 800, pictures=True)


def section(page: Page, name: str) -> Section:
    (found,) = (section for section in page.sections if section.name == name)
    return found


def names(page: Page) -> list[str]:
    return [section.name for section in page.sections]


def test_replay_answers_first(result: ReplayResult) -> None:
    page = replay_page("demo", ReplaySettings(), [result])
    rate = f"{100 * result.counts.token_hit_rate:.2f}\u00a0%"
    assert page.answer == f"A pool of 800 blocks found {rate} of the prompt tokens."
    assert f"{result.counts.hit_tokens:,} prompt tokens did not have to be computed" in page.meaning[0]
    assert names(page) == ["occupancy", "block-map", "residency"]


def test_replay_of_several_sizes(small_demo: Path) -> None:
    page = replay_report(small_demo, blocks=(2_000, 800))
    assert names(page) == ["sizes", "occupancy", "block-map", "misses", "residency"]
    rows = section(page, "sizes").tables[0].rows
    assert [row[0] for row in rows] == ["2,000", "800"]
    (points,) = (chart.spec["datasets"]["points"] for chart in section(page, "sizes").charts)
    assert [point["size"] for point in points] == [800, 2_000]


def test_one_size_twice_is_no_line(result: ReplayResult) -> None:
    page = replay_page("demo", ReplaySettings(), [result, result])
    assert section(page, "sizes").charts == ()


def test_a_pool_that_played_nothing() -> None:
    request = TraceRequest(None, 32, 16, block_ids=[1, 2])
    page = replay_page("t", ReplaySettings(), [replay([request], 1, pictures=True)])
    assert page.answer == "A pool of 1 blocks could not play a single request."
    assert "the largest needs 2 blocks" in page.meaning[0]
    assert page.sections == ()


def test_without_pictures_their_sections_are_left_out() -> None:
    page = replay_page("demo", ReplaySettings(), [replay("demo", 800)])
    assert names(page) == ["occupancy"]


def test_without_evictions_a_larger_pool_finds_no_more() -> None:
    page = replay_page("demo", ReplaySettings(), [replay("demo", 50_000, pictures=True)])
    assert page.meaning[1] == "Nothing was evicted: a larger pool would find no more."
    assert names(page) == ["occupancy", "block-map"]


def test_occupancy_rows_are_the_points(result: ReplayResult) -> None:
    page = replay_page("demo", ReplaySettings(), [result])
    found = section(page, "occupancy")
    rows = found.charts[0].spec["datasets"]["points"]
    assert len(rows) == len(result.occupancy_points) == len(found.tables[0].rows) - 1
    assert all(row["in use"] + row["cached, idle"] + row["blank"] == 800 for row in rows)


def test_block_map_rows_are_the_columns(result: ReplayResult) -> None:
    assert result.pictures is not None
    block_map = result.pictures.block_map
    found = block_map_section(block_map)
    assert found is not None
    states, hand_outs = (chart.spec["datasets"]["columns"] for chart in found.charts)
    assert [row["used"] for row in states] == [column.in_use for column in block_map.columns]
    assert [row["idle"] for row in states] == [column.cached_idle for column in block_map.columns]
    assert [row["given"] for row in hand_outs] == [column.handed_out for column in block_map.columns]
    assert states[0]["start"] == 1
    assert all(row["end"] - row["start"] == block_map.stride for row in states)
    rows = found.tables[0].rows
    handed_out = sum(int(row[-1].replace(",", "")) for row in rows)
    assert handed_out == sum(sum(column.handed_out) for column in block_map.columns)
    assert rows[-1][1] == "705 to 800"


def test_histograms_have_the_numbers(result: ReplayResult) -> None:
    assert result.pictures is not None
    found = residency_section(result.residency, result.pictures.histograms)
    assert found is not None
    assert [len(chart.spec["datasets"]["bars"]) > 1 for chart in found.charts] == [True] * 3
    for chart in found.charts:
        assert sum(row["share"] for row in chart.spec["datasets"]["bars"]) == pytest.approx(1)
    assert "seconds" in found.words[0]
    assert found.tables[0].rows[0][1] == f"{result.residency.lifetime.samples:,}"


def test_why_blocks_missed() -> None:
    misses = replay("demo", 800, ReplaySettings(explain=True)).misses
    assert misses is not None
    assert miss_section(None) is None
    assert miss_section(replace(misses, missed_blocks=0)) is None
    found = miss_section(misses)
    assert found is not None
    reasons, evicted, tags, cases = found.tables
    expected = sorted((row for row in misses.reasons if row.blocks), key=lambda row: -row.tokens)
    assert [row[:3] for row in reasons.rows] == [
        (row.reason, f"{row.blocks:,}", f"{row.tokens:,}") for row in expected
    ]
    assert [row["reason"] for row in found.charts[0].spec["datasets"]["reasons"]] == [
        row[0] for row in reasons.rows
    ]
    assert expected[0].reason in found.charts[0].description
    assert evicted.rows[1][:2] == ("evicted: requests ago", f"{misses.evicted.requests_ago.samples:,}")
    assert [row[0] for row in tags.rows] == [*(row.tag for row in misses.tags), "241 others"]
    assert [row[0] for row in cases.rows] == [f"line {case.line:,}" for case in misses.cases]
    assert cases.headings == (
        "where", "missed tokens", "of", "session_id", "seconds", "differs at token", "blocks too few", "mostly"
    )  # fmt: skip
    assert cases.rows[0][1] == f"{misses.cases[0].missed_tokens:,}"


def test_what_a_larger_pool_would_change(small_demo: Path) -> None:
    """Known for sure only where requests come one after the other."""
    played = ReplaySettings(rules="engine", explain=True)
    alone = miss_section(replay(small_demo, 400, played).misses)
    together = miss_section(replay_timed(small_demo, 800, settings=played).misses)
    few = [TraceRequest(None, 16, 16, token_ids=[number] * 16) for number in range(3)]
    new = miss_section(replay(few, 9, ReplaySettings(explain=True)).misses)
    assert alone is not None
    assert together is not None
    assert new is not None
    assert alone.words[1] == (
        "A larger pool finds what was evicted, and has room for what found none. The rest no size can change."
    )
    assert together.words[1] == (
        "A larger pool finds some of what was evicted, perhaps all. The rest no size can change."
    )
    assert new.words[1] == "No size of the pool can change that."


def test_columns_that_nobody_can_fill_are_left_out() -> None:
    """No times, no tags, and no distances once an id follows two others."""
    requests = [TraceRequest(None, 32, 16, block_ids=ids) for ids in ([1, 2], [3, 2], [3, 4], [1, 2])]
    found = miss_section(replay(requests, 2, ReplaySettings(explain=True)).misses)
    assert found is not None
    assert [table.caption for table in found.tables] == [
        "Misses by reason", "What was evicted, and where prompts differ", "The requests that missed most tokens"
    ]  # fmt: skip
    assert "seconds" not in found.tables[-1].headings
    assert found.tables[-1].rows[0][0] == "request 1"


def test_other_keys_are_told_apart() -> None:
    requests = [
        TraceRequest(None, 16, 16, token_ids=[1] * 16, lora=lora, salt=salt)
        for lora, salt in ((None, None), ("a", None), ("a", "s"))
    ]
    found = miss_section(replay(requests, 9, ReplaySettings(explain=True)).misses)
    assert found is not None
    names = [row[0] for row in found.tables[0].rows]
    assert names[:3] == ["other key", "other key: lora", "other key: salt"]


def test_misses_of_several_sizes_stand_side_by_side(small_demo: Path) -> None:
    _, misses = section(replay_report(small_demo), "sizes").tables
    assert misses.headings[:2] == ("blocks", "missed tokens")
    assert [row[0] for row in misses.rows] == ["800", "2,000"]


@pytest.fixture(scope="module")
def timed() -> TimedResult:
    requests = list(itertools.islice(TraceReader("demo"), 300))
    settings = ReplaySettings(rules="engine", explain=True)
    return replay_timed(requests, 1_000, TimedSettings(speed=2), settings, pictures=True)


def test_timed_answers_first(timed: TimedResult) -> None:
    page = timed_page("demo", TimedSettings(speed=2), ReplaySettings(rules="engine"), [timed])
    rate = f"{100 * timed.counts.token_hit_rate:.2f}\u00a0%"
    assert page.answer == f"A pool of 1,000 blocks found {rate} of the prompt tokens."
    assert f"{100 * timed.sequential.token_hit_rate:.2f}\u00a0%" in page.meaning[1]
    assert page.meaning[-1].startswith(f"{timed.preemption.preemptions} times")
    assert names(page) == [
        "side-by-side", "occupancy", "waiting", "block-map", "misses", "residency"
    ]  # fmt: skip
    both, engine = section(page, "side-by-side").tables
    assert [row[1] for row in both.rows] == [
        f"{timed.counts.hit_tokens:,}", f"{timed.sequential.hit_tokens:,}"
    ]  # fmt: skip
    assert dict(engine.rows)["tokens computed again"] == f"{timed.preemption.recomputed_tokens:,}"
    assert "as in the trace, 2 times as fast" in [fact.value for fact in page.settings]


def test_timed_pictures_run_over_seconds(timed: TimedResult) -> None:
    page = timed_page("demo", TimedSettings(), ReplaySettings(rules="engine"), [timed])
    points = section(page, "occupancy").charts[0].spec["datasets"]["points"]
    assert [row["place"] for row in points] == [(at.time_ms or 0) / 1000 for at in timed.occupancy_points]
    assert section(page, "occupancy").tables[0].headings[0] == "seconds"
    assert timed.pictures is not None
    columns = section(page, "block-map").charts[0].spec["datasets"]["columns"]
    expected = timed.pictures.block_map.columns
    assert [row["start"] for row in columns] == [(column.time_ms or 0) / 1000 for column in expected]
    assert [row["end"] for row in columns[:-1]] == [row["start"] for row in columns[1:]]
    assert sum(columns[-1]["used"]) == sum(expected[-1].in_use)
    assert section(page, "block-map").tables[0].headings[0] == "second"
    queueing, first_token = section(page, "waiting").charts
    assert sum(row["count"] for row in queueing.spec["datasets"]["bars"]) == timed.queueing.samples
    assert sum(row["count"] for row in first_token.spec["datasets"]["bars"]) == timed.first_token.samples
    assert "engine's clock" in section(page, "residency").words[0]


def test_timed_of_several_sizes_without_pictures(timed: TimedResult) -> None:
    plain = replace(timed, pictures=None, misses=None)
    page = timed_page(
        "demo", TimedSettings(), ReplaySettings(rules="engine"), [plain, replace(plain, blocks=9_000)]
    )
    assert names(page) == ["sizes", "side-by-side", "occupancy", "waiting"]
    (table,) = section(page, "sizes").tables
    assert [row[0] for row in table.rows] == ["1,000", "9,000"]
    assert section(page, "waiting").charts == ()


def test_timed_that_played_nothing() -> None:
    settings = ReplaySettings(rules="engine", explain=True)
    request = TraceRequest(0, 32, 16, block_ids=[1, 2])
    page = timed_page(
        "t", TimedSettings(), settings, [replay_timed([request], 1, None, settings, pictures=True)]
    )
    assert page.answer == "A pool of 1 blocks could not play a single request."
    assert names(page) == ["misses"]


def test_curve_answers_with_the_knee(small_demo: Path) -> None:
    page = curve_report(small_demo)
    found = study(small_demo)
    knee = found.curve.at(found.knee)
    assert page.answer.startswith(f"{knee.capacity:,} blocks find {100 * knee.token_hit_rate:.2f}\u00a0%")
    assert any("best of all policies" in words for words in page.meaning)
    chart = page.sections[0].charts[0]
    assert {row["line"] for row in chart.spec["datasets"]["points"]} == {"FIFO", "optimum"}
    (mark,) = chart.spec["datasets"]["marks"]
    assert (mark["mark"], mark["size"]) == ("knee", knee.capacity)


def test_the_line_of_a_curve_is_the_curve(small_demo: Path) -> None:
    curve = study(small_demo).curve
    points = curve_points(curve)
    assert 200 < len(points) <= 241
    assert points[0][0] == curve.largest_request_blocks
    assert points[-1][0] == curve.last_capacity
    assert all(curve.at(size).token_hit_rate == rate for size, rate in points)


def test_a_curve_of_one_step_is_drawn() -> None:
    request = TraceRequest(None, 16, 16, block_ids=[1])
    from blockpool.replay import curve

    assert curve_points(curve([request])) == [(1, 0.0), (2, 0.0)]


def test_a_sampled_curve_says_so(small_demo: Path) -> None:
    page = curve_page(study(small_demo, one_in=4))
    assert "about" in page.answer
    assert "token hit rate within" in page.sections[0].tables[0].headings
    assert any(fact.value.startswith("estimated from one of 4 blocks") for fact in page.settings)


def test_plan_marks_its_sizes(small_demo: Path) -> None:
    page = plan_report(small_demo)
    assert page.answer.startswith("2,048 blocks fit, and find ")
    (chart,) = page.sections[0].charts
    assert {row["mark"] for row in chart.spec["datasets"]["marks"]} == {"planned", "twice", "knee"}
    assert len(page.sections[0].tables) == 2
    assert len(plan_report(small_demo, policies=()).sections[0].tables) == 1


def test_plan_draws_the_other_policies_of_a_single_replica(small_demo: Path) -> None:
    (chart,) = plan_report(small_demo).sections[0].charts
    block_gib = 2 / 1024
    rows = [row for row in chart.spec["datasets"]["points"] if row["line"] == "optimum"]
    sizes = [round(row["size"] / block_gib) for row in rows]
    found = study(small_demo, blocks=sizes, policies=("optimal",))
    expected = {row.point.capacity: row.others[0].hit_tokens / row.point.prompt_tokens for row in found.rows}
    assert [row["rate"] for row in rows] == [expected[size] for size in sizes]
    assert 2_048 in sizes


def test_plan_of_several_replicas_has_a_line_and_a_table_for_each_routing(small_demo: Path) -> None:
    page = plan_report(small_demo, replicas=3)
    (chart,) = page.sections[0].charts
    assert {row["line"] for row in chart.spec["datasets"]["steps"]} == {"random routing", "affine routing"}
    assert len(page.sections[0].tables) == 2
    assert page.answer.endswith("with affine routing.")
    ends = {
        row["line"]: row["size"] for row in chart.spec["datasets"]["steps"]
    }  # the last row of each line wins
    assert len(set(ends.values())) == 1
