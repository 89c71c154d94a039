"""The block map of a timed run against a recount of the whole pool; what else only a report draws."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockpool.core.block import KVCacheBlock
from blockpool.core.pool import BlockPool
from blockpool.replay import ReplaySettings, replay_timed, replay_timed_many
from blockpool.replay.block_map import BlockMap
from blockpool.replay.timed import timed_block_map, timed_statistics
from blockpool.replay.timed.block_access import BlockAccess
from blockpool.replay.timed.manager_access import access_for
from blockpool.replay.timed.timed_block_map import TimedBlockMapSampler

from .test_scheduler import ENGINES, FORMS, Drawn, Engine, Told, drawn_requests, play

MS = 1_000_000


class Witness(TimedBlockMapSampler):
    """Recounts the whole pool whenever a state holds, and adds up all hand-outs."""

    pool: BlockPool | None = None
    given = 0
    holds = 0

    def note_handed_out(self, blocks: Iterable[KVCacheBlock]) -> None:
        blocks = list(blocks)
        self.given += len(blocks)
        super().note_handed_out(blocks)

    def hold(self, now_ns: int, duration_ns: int, request: int) -> None:
        super().hold(now_ns, duration_ns, request)
        self.holds += 1
        if self.pool is not None:
            states = [[0] * self._num_bins for _ in range(3)]
            for block in self.pool.blocks[1:]:
                state = 2 if block.ref_cnt else int(block.block_hash is not None)
                states[state][(block.block_id - 1) // self._bin_blocks] += 1
            assert states == self._counts


@pytest.mark.parametrize(
    ("rules", "form", "attention"),
    [
        *itertools.product(["engine", "trace"], FORMS, ["full"]),
        ("engine", "tokens", "sliding:3"),
        ("engine", "lengths", "hybrid:full+chunked:4+mamba"),
    ],
)
@given(drawn=drawn_requests(), engine=ENGINES, block_size=st.integers(1, 4), reuse=st.booleans())
def test_every_state_equals_a_recount(
    rules: str, form: str, attention: str, drawn: list[Drawn], engine: Engine, block_size: int, reuse: bool
) -> None:
    made: list[Witness] = []

    def access_with_witness(*arguments: Any, **options: Any) -> BlockAccess:
        access = access_for(*arguments, **options)
        made[-1].pool = access.pool
        return access

    def witness(blocks: int) -> Witness:
        made.append(Witness(blocks))
        return made[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("blockpool.replay.block_map.MAX_BINS", 5)
        patch.setattr(timed_block_map, "MAX_COLUMNS", 6)
        patch.setattr(timed_block_map, "NS_PER_MS", 1)
        patch.setattr(timed_statistics, "TimedBlockMapSampler", witness)
        patch.setattr("blockpool.replay.timed.scheduler.access_for", access_with_witness)
        settings = ReplaySettings(rules=rules, reuse_uncached_first=reuse, attention=attention)
        scheduler = play(Told(drawn, form, block_size).trace, engine, settings, pictures=True)
        assert scheduler.statistics.block_map is made[-1]
        found = made[-1].result()
    if scheduler.statistics.steps:
        assert made[-1].holds
    assert len(found.columns) <= 6
    assert found.interval_ms is not None
    # What was handed out after the last column is in none.
    assert sum(sum(column.handed_out) for column in found.columns) <= made[-1].given
    for number, column in enumerate(found.columns):
        assert column.time_ms == (found.columns[0].time_ms or 0) + number * found.interval_ms


def test_columns_are_evenly_spaced_in_time_and_thinned() -> None:
    sampler = TimedBlockMapSampler(3)
    blocks = BlockPool(4, True, 16).get_new_blocks(2)
    sampler.restart(5 * MS)
    sampler.hold(5 * MS, 1, 0)
    sampler.note_handed_out(blocks)
    sampler.note_changed(blocks)
    sampler.hold(5 * MS + 1, 300 * MS - 1, 7)
    found = sampler.result()
    assert (found.stride, found.interval_ms, len(found.columns)) == (0, 2, 150)
    assert [column.time_ms for column in found.columns[:3]] == [5, 7, 9]
    assert (found.columns[0].request, found.columns[0].in_use) == (0, (0, 0, 0))
    # The column at 6 ms is dropped; what was handed out before it is in that at 7 ms.
    assert found.columns[1] == (7, 7, (1, 1, 0), (0, 0, 0), (1, 1, 0))
    assert found.columns[2].handed_out == (0, 0, 0)


def test_the_demo_has_pictures_that_change_no_number() -> None:
    plain, pictured = (
        replay_timed("demo", 1_500, pictures=pictures, perf_counter=lambda: 0.0) for pictures in (False, True)
    )
    assert plain.pictures is None
    assert pictured.pictures is not None
    assert (pictured.counts, pictured.preemption) == (plain.counts, plain.preemption)
    assert (pictured.residency, pictured.occupancy_points) == (plain.residency, plain.occupancy_points)
    block_map = pictured.pictures.block_map
    assert isinstance(block_map, BlockMap)
    points = {point.time_ms: point for point in pictured.occupancy_points}
    matched = 0
    for column in block_map.columns:
        point = points.get(column.time_ms)
        if point is not None:
            assert (sum(column.in_use), sum(column.cached_idle)) == point[2:4]
            matched += 1
    assert matched > 20
    assert sum(bar.numbers for bar in pictured.pictures.queueing) == pictured.queueing.samples == 1_000
    assert sum(bar.numbers for bar in pictured.pictures.first_token) == 1_000
    assert sum(bar.numbers for bar in pictured.pictures.histograms.idle) == pictured.residency.idle.samples


def test_of_several_sizes_the_first_has_pictures(small_demo: Path) -> None:
    results = replay_timed_many(small_demo, [3_000, 2_900], pictures=True, jobs=2)
    assert [result.pictures is not None for result in results] == [True, False]
