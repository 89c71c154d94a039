"""Two requests share a prompt's beginning: the second finds it in the pool. Run it: python examples/prefix_cache.py."""

from __future__ import annotations

from types import SimpleNamespace

from blockpool import BlockHasher, BlockPool, BlockStored, KVCacheBlock, KVCacheMetricsCollector

BLOCK_SIZE = 16
SYSTEM_PROMPT = list(range(1000, 1064))  # token ids, four full blocks

metrics = KVCacheMetricsCollector(sample_rate=1.0)  # follow every block; a server follows one in a hundred
pool = BlockPool(13, True, BLOCK_SIZE, enable_kv_cache_events=True, metrics_collector=metrics)
hasher = BlockHasher("blake2b_raw", BLOCK_SIZE, seed="my fleet")


def begin(request_id: str, prompt: list[int]) -> list[KVCacheBlock]:
    """Gives a request its blocks: those that hold its prefix already, and new ones for the rest."""
    hashes = hasher.hash_tokens(prompt)
    (hits,) = pool.find_longest_prefix(hashes, [0])
    pool.touch(hits)  # before anything else is allocated, so that they cannot be recycled
    blocks = hits + pool.get_new_blocks(-(-len(prompt) // BLOCK_SIZE) - len(hits))
    request = SimpleNamespace(
        request_id=request_id, block_hashes=hashes, all_token_ids=prompt, lora_request=None
    )
    pool.cache_full_blocks(request, blocks, len(hits), len(hashes), BLOCK_SIZE, 0)
    print(f"{request_id}: {len(blocks)} blocks, {len(hits)} of them found: {pool.occupancy()}")
    return blocks


def end(blocks: list[KVCacheBlock]) -> None:
    """Gives them back, the prompt's end first: it is recycled first, and the shared beginning last."""
    pool.free_blocks(reversed(blocks))


first = begin("first", [*SYSTEM_PROMPT, *range(40)])
second = begin("second", [*SYSTEM_PROMPT, *range(500, 540)])
assert first[:4] == second[:4]
end(first)
end(second)
end(begin("another", list(range(7000, 7190))))  # takes the whole pool, so that all of it is recycled

for event in pool.take_events():
    names = ", ".join(str(block_hash)[:6] for block_hash in getattr(event, "block_hashes", []))
    parent = event.parent_block_hash if isinstance(event, BlockStored) else None
    print(f"{type(event).__name__}: {names}" + (f" after {str(parent)[:6]}" if parent is not None else ""))
lives = [f"{residency.lifetime_seconds * 1e6:.0f}" for residency in metrics.drain_events()]
print(f"{pool.num_evictions} blocks were evicted; they lived for {', '.join(lives)} µs")
