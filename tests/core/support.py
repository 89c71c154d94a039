"""What the tests of the core share: fake requests, a recording collector, a picture of a pool."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from blockpool import (
    AllBlocksCleared,
    BlockPool,
    BlockPoolError,
    BlockRemoved,
    BlockStored,
    KVCacheBlock,
)


class FakeLoRA:
    """What the pool reads of a LoRA request."""

    def __init__(self, name: str, adapter_id: int) -> None:
        self.name = name
        self.adapter_id = adapter_id


class FakeRequest:
    """The few attributes of an engine's request that the pool reads, and nothing else."""

    def __init__(
        self,
        block_hashes: Sequence[bytes],
        all_token_ids: Sequence[int] = (),
        lora_request: FakeLoRA | None = None,
        request_id: str = "request-0",
    ) -> None:
        self.request_id = request_id
        self.block_hashes = list(block_hashes)
        self.all_token_ids = list(all_token_ids)
        self.lora_request = lora_request


class FakeClock:
    """A clock in nanoseconds that moves only when told to."""

    def __init__(self, now: int = 1_000_000_000) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += round(seconds * 1_000_000_000)


class ScriptedRandom:
    """Returns the given numbers one after the other; asked too often it fails."""

    def __init__(self, *values: float) -> None:
        self.values = list(values)
        self.asked = 0

    def __call__(self) -> float:
        self.asked += 1
        return self.values[self.asked - 1]


class RecordingCollector:
    """A metrics collector that writes down each hook with the block's state at that moment."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int, int, bool]] = []

    def _note(self, hook: str, block: KVCacheBlock) -> None:
        self.calls.append((hook, block.block_id, block.ref_cnt, block.block_hash is not None))

    def on_block_allocated(self, block: KVCacheBlock) -> None:
        self._note("allocated", block)

    def on_block_accessed(self, block: KVCacheBlock) -> None:
        self._note("accessed", block)

    def on_block_evicted(self, block: KVCacheBlock) -> None:
        self._note("evicted", block)

    def reset(self) -> None:
        self.calls.append(("reset", -1, 0, False))

    def names(self) -> list[tuple[str, int]]:
        return [(hook, block_id) for hook, block_id, _, _ in self.calls]


def chain(symbols: Iterable[object], seed: bytes = b"root") -> list[bytes]:
    """Hashes of 32 bytes, each over its whole prefix of symbols."""
    hashes: list[bytes] = []
    parent = seed
    for symbol in symbols:
        parent = hashlib.sha256(parent + repr(symbol).encode()).digest()
        hashes.append(parent)
    return hashes


def external(block_hash: bytes) -> int:
    """The hash that an event carries, worked out apart from the package."""
    return int.from_bytes(block_hash[-8:], "big")


def key(block_hash: bytes, group_id: int = 0) -> bytes:
    """The index key, worked out apart from the package."""
    return block_hash + group_id.to_bytes(4, "big")


def ids(blocks: Iterable[KVCacheBlock]) -> list[int]:
    return [block.block_id for block in blocks]


def queue_ids(pool: BlockPool) -> list[int]:
    return ids(pool.free_block_queue.get_all_free_blocks())


def cache_chain(
    pool: BlockPool,
    symbols: Iterable[object],
    group_id: int = 0,
    block_size: int | None = None,
) -> tuple[list[KVCacheBlock], FakeRequest]:
    """Takes blocks for a prompt of full blocks and indexes them all."""
    symbols = list(symbols)
    size = block_size or pool.hash_block_size
    fine_per_block = size // pool.hash_block_size
    request = FakeRequest(chain(symbols), range(len(symbols) * pool.hash_block_size))
    num_blocks = len(symbols) // fine_per_block
    blocks = pool.get_new_blocks(num_blocks)
    pool.cache_full_blocks(request, blocks, 0, num_blocks, size, group_id)
    return blocks, request


def event_fields(event: object) -> tuple[Any, ...]:
    """One event as a plain tuple with its tag in front."""
    if isinstance(event, BlockStored):
        return (
            "stored",
            list(event.block_hashes),
            event.parent_block_hash,
            list(event.token_ids),
            event.block_size,
            event.lora_id,
            event.medium,
            event.lora_name,
        )
    if isinstance(event, BlockRemoved):
        return ("removed", list(event.block_hashes), event.medium)
    assert isinstance(event, AllBlocksCleared)
    return ("cleared",)


def told_events(pool: BlockPool, events: Iterable[object]) -> list[tuple[Any, ...]]:
    """Events as plain tuples; removals that share an event, where the pool was asked for that, one by one."""
    told: list[tuple[Any, ...]] = []
    for event in events:
        if isinstance(event, BlockRemoved) and pool._log.batch_removes:
            told += [("removed", [block_hash], event.medium) for block_hash in event.block_hashes]
        else:
            told.append(event_fields(event))
    return told


def snapshot(pool: BlockPool) -> dict[str, Any]:
    """Everything about a pool that a caller can observe, as plain comparable values."""
    index = pool.cached_block_hash_to_block
    first_under = {}
    for block in pool.blocks:
        full_key = block.block_hash
        if full_key is not None:
            first = index.get_one_block(full_key)
            first_under[full_key] = None if first is None else first.block_id
    state: dict[str, Any] = {
        "queue": queue_ids(pool),
        "num_free_blocks": pool.free_block_queue.num_free_blocks,
        "counts": [block.ref_cnt for block in pool.blocks],
        "hashes": [block.block_hash for block in pool.blocks],
        "index": first_under,
        "index length": len(index),
        "events": told_events(pool, pool.kv_event_queue),
        "occupancy": tuple(pool.occupancy()),
        "usage": pool.get_usage(),
        "evictions": pool.num_evictions,
    }
    if isinstance(pool.metrics_collector, RecordingCollector):
        state["hooks"] = list(pool.metrics_collector.calls)
    return state


def assert_refused(
    pool: BlockPool, error: type[BaseException], call: Callable[[], object], message: str = ""
) -> BaseException:
    """The call raises exactly this leaf and changes nothing (I7); returns the error."""
    before = snapshot(pool)
    with pytest.raises(error) as caught:
        call()
    assert type(caught.value) is error, f"{message}: {type(caught.value).__name__}, not {error.__name__}"
    assert isinstance(caught.value, BlockPoolError)
    assert snapshot(pool) == before, message
    pool.check_invariants()
    return caught.value


class IndexConsumer:
    """A router that knows the pool by its events alone, counting every copy of a hash.

    It may end with no more and no less than the pool's own index holds.
    """

    def __init__(self) -> None:
        self.copies: Counter[int | bytes] = Counter()
        self.contents: dict[tuple[int | bytes, int], tuple[object, tuple[int, ...]]] = {}

    def apply(self, events: Iterable[object]) -> None:
        for event in events:
            if isinstance(event, BlockStored):
                self._store(event)
            elif isinstance(event, BlockRemoved):
                for block_hash in event.block_hashes:
                    assert self.copies[block_hash] > 0, f"removed but never stored: {block_hash!r}"
                    self.copies[block_hash] -= 1
            else:
                assert isinstance(event, AllBlocksCleared)
                self.copies.clear()

    def _store(self, event: BlockStored) -> None:
        assert event.block_hashes, "a stored event that names no block"
        assert len(event.token_ids) == len(event.block_hashes) * event.block_size
        parent = event.parent_block_hash
        for i, block_hash in enumerate(event.block_hashes):
            tokens = tuple(event.token_ids[i * event.block_size : (i + 1) * event.block_size])
            known = self.contents.setdefault((block_hash, event.block_size), (parent, tokens))
            assert known == (parent, tokens), "one hash, two contents"
            self.copies[block_hash] += 1
            parent = block_hash

    def held(self) -> Counter[int | bytes]:
        return +self.copies


def indexed_copies(pool: BlockPool) -> Counter[int | bytes]:
    """What a consumer should hold: one count for each indexed block, by external hash."""
    copies: Counter[int | bytes] = Counter()
    for block in pool.blocks:
        if block.block_hash is not None:
            copies[external(block.block_hash[:-4])] += 1
    return copies
