"""What reports say: the answer first, and the same numbers as everywhere else."""

from __future__ import annotations

import pytest

pytest.importorskip("altair", reason="the extra report is not installed")

from blockpool.replay import ReplayResult, ReplaySettings, replay, study
from blockpool.replay.html.block_map_section import block_map_section
from blockpool.replay.html.curve_page import curve_page
from blockpool.replay.html.hit_chart import curve_points
from blockpool.replay.html.miss_section import miss_section
from blockpool.replay.html.page import Page, Section
from blockpool.replay.html.replay_page import replay_page
from blockpool.replay.html.residency_section import residency_section
from blockpool.trace import TraceRequest

from .html_support import REASONS, curve_report, plan_report, replay_report


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


def test_replay_of_several_sizes() -> None:
    page = replay_report(blocks=(2_000, 800))
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
    found = residency_section(result)
    assert found is not None
    assert [len(chart.spec["datasets"]["bars"]) > 1 for chart in found.charts] == [True] * 3
    for chart in found.charts:
        assert sum(row["share"] for row in chart.spec["datasets"]["bars"]) == pytest.approx(1)
    assert "seconds" in found.words[0]
    assert found.tables[0].rows[0][1] == f"{result.residency.lifetime.samples:,}"


def test_misses_by_reason() -> None:
    assert miss_section(()) is None
    assert miss_section((("never seen", 0, 0),)) is None
    found = miss_section(REASONS)
    assert found is not None
    assert found.tables[0].rows == (
        ("never seen", "700", "11,200", "72.21\u00a0%"),
        ("evicted", "250", "4,000", "25.79\u00a0%"),
        ("partial block", "50", "310", "2.00\u00a0%"),
    )
    assert "never seen" in found.charts[0].description


def test_curve_answers_with_the_knee() -> None:
    page = curve_report()
    found = study("demo")
    knee = found.curve.at(found.knee)
    assert page.answer.startswith(f"{knee.capacity:,} blocks find {100 * knee.token_hit_rate:.2f}\u00a0%")
    assert any("best of all policies" in words for words in page.meaning)
    chart = page.sections[0].charts[0]
    assert {row["line"] for row in chart.spec["datasets"]["points"]} == {"FIFO", "optimum"}
    (mark,) = chart.spec["datasets"]["marks"]
    assert (mark["mark"], mark["size"]) == ("knee", knee.capacity)


def test_the_line_of_a_curve_is_the_curve() -> None:
    curve = study("demo").curve
    points = curve_points(curve)
    assert 200 < len(points) <= 241
    assert points[0][0] == curve.largest_request_blocks
    assert points[-1][0] == curve.last_capacity
    assert all(curve.at(size).token_hit_rate == rate for size, rate in points)


def test_a_curve_of_one_step_is_drawn() -> None:
    request = TraceRequest(None, 16, 16, block_ids=[1])
    from blockpool.replay import curve

    assert curve_points(curve([request])) == [(1, 0.0), (2, 0.0)]


def test_a_sampled_curve_says_so() -> None:
    page = curve_page(study("demo", one_in=4))
    assert "about" in page.answer
    assert "token hit rate within" in page.sections[0].tables[0].headings
    assert any(fact.value.startswith("estimated from one of 4 blocks") for fact in page.settings)


def test_plan_marks_its_sizes() -> None:
    page = plan_report()
    assert page.answer.startswith("2,048 blocks fit, and find ")
    (chart,) = page.sections[0].charts
    assert {row["mark"] for row in chart.spec["datasets"]["marks"]} == {"planned", "twice", "knee"}
    assert len(page.sections[0].tables) == 2
    assert len(plan_report(policies=()).sections[0].tables) == 1


def test_plan_draws_the_other_policies_of_a_single_replica() -> None:
    (chart,) = plan_report().sections[0].charts
    block_gib = 2 / 1024
    rows = [row for row in chart.spec["datasets"]["points"] if row["line"] == "optimum"]
    sizes = [round(row["size"] / block_gib) for row in rows]
    found = study("demo", blocks=sizes, policies=("optimal",))
    expected = {row.point.capacity: row.others[0].hit_tokens / row.point.prompt_tokens for row in found.rows}
    assert [row["rate"] for row in rows] == [expected[size] for size in sizes]
    assert 2_048 in sizes


def test_plan_of_several_replicas_has_a_line_and_a_table_for_each_routing() -> None:
    page = plan_report(replicas=3)
    (chart,) = page.sections[0].charts
    assert {row["line"] for row in chart.spec["datasets"]["steps"]} == {"random routing", "affine routing"}
    assert len(page.sections[0].tables) == 2
    assert page.answer.endswith("with affine routing.")
    ends = {
        row["line"]: row["size"] for row in chart.spec["datasets"]["steps"]
    }  # the last row of each line wins
    assert len(set(ends.values())) == 1
