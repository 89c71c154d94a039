"""The block map against a plain recount of all blocks of the pool, request by request."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockpool.core.block import KVCacheBlock
from blockpool.replay import PoolRun, ReplaySettings, replay, replay_many
from blockpool.replay import block_map as block_map_module
from blockpool.replay.block_map import BlockMap, BlockMapColumn, BlockMapSampler
from blockpool.trace import TraceRequest, generate


class WitnessedSampler(BlockMapSampler):
    """Recounts the whole pool at every request, and keeps the hand-outs of each."""

    def __init__(self, blocks: int) -> None:
        super().__init__(blocks)
        self.recounts: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        self.handed_out_by: list[list[int]] = []
        self.run: PoolRun | None = None

    def add(
        self,
        request: int,
        time_ms: float | None,
        new_blocks: Iterable[KVCacheBlock],
        held: Iterable[KVCacheBlock],
    ) -> None:
        new_blocks, held = list(new_blocks), list(held)
        super().add(request, time_ms, new_blocks, held)
        assert self.run is not None
        bins = -(-self._blocks // self._bin_blocks)
        in_use, idle, handed_out = [0] * bins, [0] * bins, [0] * bins
        for block in self.run.pool.blocks[1:]:
            number = (block.block_id - 1) // self._bin_blocks
            if block.ref_cnt:
                in_use[number] += 1
            elif block.block_hash is not None:
                idle[number] += 1
        for block in new_blocks:
            handed_out[(block.block_id - 1) // self._bin_blocks] += 1
        self.recounts[request] = tuple(in_use), tuple(idle)
        self.handed_out_by.append(handed_out)
        occupancy = self.run.pool.occupancy()
        assert (sum(in_use), sum(idle)) == occupancy[:2]


def play_witnessed(
    requests: Iterable[TraceRequest], blocks: int, settings: ReplaySettings, restart_at: int = 0
) -> tuple[BlockMap, WitnessedSampler, PoolRun]:
    run = PoolRun(blocks, settings, pictures=True)
    witness = WitnessedSampler(blocks)
    witness.run = run
    run._block_map = witness
    for number, request in enumerate(requests):
        if number and number == restart_at:
            run.restart_window()
            witness.recounts.clear()
            witness.handed_out_by.clear()
        run.play(request)
    return witness.result(), witness, run


@given(
    kind=st.sampled_from(["chat", "agent", "documents"]),
    seed=st.integers(0, 1000),
    requests=st.integers(1, 40),
    blocks=st.integers(1, 900),
    rules=st.sampled_from(["trace", "engine"]),
    reuse=st.booleans(),
    restart_at=st.integers(0, 20),
)
def test_every_column_equals_a_recount(
    kind: str, seed: int, requests: int, blocks: int, rules: str, reuse: bool, restart_at: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(block_map_module, "MAX_COLUMNS", 6)
        patch.setattr(block_map_module, "MAX_BINS", 7)
        settings = ReplaySettings(rules=rules, reuse_uncached_first=reuse)
        found, witness, _ = play_witnessed(
            generate(kind, requests, seed=seed), blocks, settings, restart_at=restart_at
        )
    played = list(witness.recounts)
    assert [column.request for column in found.columns] == played[:: found.stride]
    assert len(found.columns) <= 6
    assert found.num_bins <= 7
    assert sum(found.bin_size(number) for number in range(found.num_bins)) == blocks
    done = 0
    for place, column in enumerate(found.columns):
        assert (column.in_use, column.cached_idle) == witness.recounts[column.request]
        until = place * found.stride + 1
        between = witness.handed_out_by[done:until]
        assert column.handed_out == tuple(sum(counts) for counts in zip(*between, strict=True))
        done = until


def test_hand_outs_are_the_blocks_that_were_not_found() -> None:
    result = replay("demo", 2_000, pictures=True)
    assert result.pictures is not None
    found = result.pictures.block_map
    assert (found.blocks, found.bin_blocks, found.num_bins, found.stride) == (2_000, 20, 100, 8)
    assert len(found.columns) == 125
    assert found.columns[-1].request == 992
    _, witness, run = play_witnessed([], 2_000, ReplaySettings())
    assert run.counts.requests == 0
    assert witness.result().columns == ()


def test_all_hand_outs_are_counted_when_every_request_has_a_column() -> None:
    requests = list(generate("chat", 150, seed=3))
    found, _, run = play_witnessed(requests, 400, ReplaySettings())
    assert found.stride == 1
    handed_out = sum(sum(column.handed_out) for column in found.columns)
    assert handed_out == run.counts.prompt_blocks - run.counts.hit_blocks > 400
    assert [column.time_ms for column in found.columns] == [request.timestamp_ms for request in requests]


def test_a_pool_smaller_than_the_bins_has_a_bin_per_block() -> None:
    found = BlockMapSampler(3).result()
    assert found == BlockMap(3, 1, 1, ())
    assert [found.bin_size(number) for number in range(found.num_bins)] == [1, 1, 1]


def test_the_last_bin_may_be_smaller() -> None:
    found = BlockMapSampler(250).result()
    assert (found.bin_blocks, found.num_bins) == (3, 84)
    assert found.bin_size(83) == 1


def test_pictures_are_made_only_when_asked_for(small_demo: Path) -> None:
    assert replay(small_demo, 500).pictures is None
    results = replay_many(small_demo, [500, 600], pictures=True, jobs=1)
    assert results[0].pictures is not None
    assert results[1].pictures is None


def test_pictures_change_no_number() -> None:
    plain = replay("demo", 900, perf_counter=lambda: 0.0)
    pictured = replay("demo", 900, pictures=True, perf_counter=lambda: 0.0)
    assert pictured.counts == plain.counts
    assert pictured.occupancy_points == plain.occupancy_points
    assert pictured.residency == plain.residency


def test_columns_can_be_read_by_name() -> None:
    column = BlockMapColumn(5, None, (1,), (2,), (3,))
    assert (column.request, column.in_use, column.cached_idle, column.handed_out) == (5, (1,), (2,), (3,))
