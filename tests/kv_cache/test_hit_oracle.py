"""`find_longest_cache_hit` of every type, and of hybrids, against the definition, on caches full of holes."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockpool.kv_cache import KVCacheManager, KVCacheSpec

from .hit_oracle import longest_hit, looked_at, needed
from .support import chunked, full, make_manager, make_request, mamba, mla, sink, window

TOKENS = 48
ONE_GROUP: dict[str, list[KVCacheSpec]] = {
    "full": [full(2)],
    "mla": [mla(4)],
    "sink": [sink(2, 4)],
    "window of 1": [window(2, 1)],
    "window of a block and one": [window(2, 3)],
    "window between blocks": [window(4, 10)],
    "long window": [window(2, 13)],
    "chunks of whole blocks": [chunked(2, 6)],
    "chunks that end inside a block": [chunked(4, 6)],
    "chunks smaller than a block": [chunked(4, 3)],
    "mamba": [mamba(2)],
    "mamba, aligned": [mamba(4, "align", 1)],
}
SEVERAL_GROUPS: dict[str, list[KVCacheSpec]] = {
    "full and window": [full(2), window(2, 5)],
    "window, then full": [window(2, 5), full(2)],
    "two full": [full(2), full(2)],
    "two full, odd sizes": [full(4), full(6)],
    "coarser window": [full(2), window(4, 9)],
    "coarser full": [full(4), window(2, 5)],
    "full and mamba": [full(2), mamba(8)],
    "full and chunks": [full(2), chunked(2, 6)],
    "coarser full and chunks": [full(6), chunked(2, 4)],
    "two windows": [window(2, 5), window(2, 9)],
    "odd sizes": [full(4), window(6, 9)],
    "three types": [window(4, 7), full(2), mamba(4)],
    "four types": [full(2), window(2, 5), chunked(4, 8), mamba(4)],
    "equal groups among others": [window(2, 5), full(2), window(2, 5), full(2)],
    "no full attention": [window(2, 7), mamba(4), chunked(2, 8)],
    "two kinds of states": [mamba(2), mamba(4)],
}
holes = st.sampled_from(["none", "few", "many", "all"])


def caches(manager: KVCacheManager, specs: list[KVCacheSpec], draw: Any) -> set[tuple[int, int]]:
    """Indexes the blocks of a prompt in every group, then punches holes; what is left."""
    request = make_request("before", range(TOKENS), manager)
    pool = manager.block_pool
    left: set[tuple[int, int]] = set()
    for group, spec in enumerate(specs):
        num_blocks = TOKENS // spec.block_size
        blocks = pool.get_new_blocks(num_blocks)
        pool.cache_full_blocks(request, blocks, 0, num_blocks, spec.block_size, group)
        density = draw(holes)
        positions = set(range(num_blocks)) if density == "all" else set()
        if density in ("few", "many"):
            most = 3 if density == "few" else num_blocks
            positions = draw(st.sets(st.integers(0, num_blocks - 1), min_size=1, max_size=most))
        pool.evict_blocks([blocks[i].block_id for i in positions])
        pool.free_blocks(blocks[::-1])
        left |= {(group, i) for i in range(num_blocks) if i not in positions}
    return left


@pytest.mark.parametrize("use_eagle", [False, True])
@pytest.mark.parametrize("name", [*ONE_GROUP, *SEVERAL_GROUPS])
@given(data=st.data(), num_tokens=st.integers(1, TOKENS))
def test_longest_hit_is_what_the_definition_says(
    name: str, use_eagle: bool, data: Any, num_tokens: int
) -> None:
    specs = {**ONE_GROUP, **SEVERAL_GROUPS}[name]
    manager = make_manager(*specs, hash_block_size=2, num_blocks=200, use_eagle=use_eagle, self_check=False)
    left = caches(manager, specs, data.draw)
    request = make_request("now", range(num_tokens), manager)
    manager.block_pool.check_invariants()
    found, length = manager.get_computed_blocks(request)
    assert length == longest_hit(specs, lambda *at: at in left, num_tokens - 1, use_eagle)
    hashes = request.block_hashes
    for group, (spec, blocks) in enumerate(zip(specs, found.blocks, strict=True)):
        assert len(blocks) * spec.block_size == length
        shown = needed(spec, length, False) if length and not use_eagle else looked_at(spec, length)
        for i, block in enumerate(blocks):
            factor = spec.block_size // 2
            content = b"".join(hashes[i * factor : (i + 1) * factor])
            if i in shown:
                assert manager.block_pool.get_cached_block(content, [group]) == [block]
            else:
                assert block.is_null


def test_nothing_is_looked_up_twice_and_a_cold_window_costs_one_look_up_per_run() -> None:
    size, num_blocks = 2, 400
    manager = make_manager(window(size, 41), num_blocks=1000, self_check=False)
    single = manager.coordinator.single_type_managers[0]
    asked: list[int] = []

    class Counting(list[bytes]):
        """Hashes that note which of them were asked for."""

        def __getitem__(self, at: Any) -> Any:
            asked.extend(range(*at.indices(len(self))) if isinstance(at, slice) else [at])
            return super().__getitem__(at)

    hashes = Counting(
        bytes([i % 256, i // 256]) * 16 for i, _ in zip(count(), range(num_blocks), strict=False)
    )
    assert single.find_longest_cache_hit(hashes, num_blocks * size, [0], False, size) == ([],)
    assert len(asked) <= num_blocks, "slices overlap"
    assert len(asked) == len(set(asked))
