"""`MockWorker`: a pool that plays requests of a trace and publishes what happens to its index, as an engine would."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Final, final

from blockpool.core.block import KVCacheBlock
from blockpool.core.hasher import BlockHasher
from blockpool.core.pool import BlockPool
from blockpool.core.types import MetricsCollector
from blockpool.errors import ConfigError
from blockpool.events.publisher import EventPublisher
from blockpool.replay.keys import REPLAY_SEED
from blockpool.replay.pool_run import PoolRun
from blockpool.replay.settings import ReplaySettings
from blockpool.trace.request import TraceRequest

_GROUP_ID: Final = 0
_TOKENS: Final = 1 << 31


def event_block_size(request: TraceRequest) -> int:
    """Tokens per block of a trace whose requests are like this one.

    Raises:
        ConfigError: If its blocks are of unequal size, which no event can tell.
    """
    if request.block_size is None or request.block_tokens is not None:
        raise ConfigError(
            "publish", True, "the blocks of the trace are of unequal size; events have one size"
        )
    return request.block_size


def trace_fingerprint(request: TraceRequest, settings: ReplaySettings) -> str:
    """What must match for the hashes of two such fleets to be comparable."""
    size = event_block_size(request)
    if request.token_ids is None:
        return f"trace-ids:{size}"
    return BlockHasher(settings.hash_algorithm, size, REPLAY_SEED).fingerprint


@final
class MockWorker(PoolRun):
    """A `PoolRun` with events on: one batch per request that changed the index.

    A trace of block ids has no tokens: there each block is said to hold its id, modulo 2^31, as many times as a block
    has tokens. Adapters are numbered from 1 in order of appearance.

    Args:
        blocks: Usable blocks.
        settings: By engine rules: only full blocks are indexed.
        block_size: Tokens per block of all requests.
        publisher: Takes the batches; closed by the caller.
        adapters: Numbers of the adapters, shared by a fleet.

    Raises:
        ConfigError: A number out of range.
    """

    def __init__(
        self,
        blocks: int,
        settings: ReplaySettings,
        block_size: int,
        publisher: EventPublisher,
        adapters: dict[str, int],
    ) -> None:
        self._block_size = block_size
        self._adapters = adapters
        self.publisher = publisher
        super().__init__(blocks, settings)

    def _make_pool(self, collector: MetricsCollector) -> BlockPool:
        return BlockPool(
            self._blocks + 1,
            True,
            self._block_size,
            enable_kv_cache_events=True,
            metrics_collector=collector,
            reuse_uncached_first=self._settings.reuse_uncached_first,
        )

    def play(self, request: TraceRequest, line: int | None = None) -> int | None:
        """As `PoolRun.play`, and publishes what it did.

        Raises:
            ConfigError: Also for a request whose blocks have another size.
        """
        size = event_block_size(request)
        if size != self._block_size:
            raise ConfigError("publish", True, f"a block of {size} tokens after one of {self._block_size}")
        num_hits = super().play(request, line)
        self.publisher.publish(self.pool.take_event_log())
        return num_hits

    def _index(
        self, request: TraceRequest, keys: list[bytes], blocks: list[KVCacheBlock], num_hits: int
    ) -> None:
        if num_hits >= len(keys):
            return
        size = self._block_size
        pool_request = SimpleNamespace(
            request_id="",
            block_hashes=keys,
            all_token_ids=_tokens_of(request, size, num_hits),
            lora_request=None,
        )
        if request.lora is not None:
            number = self._adapters.setdefault(request.lora, len(self._adapters) + 1)
            pool_request.lora_request = SimpleNamespace(adapter_id=number, name=request.lora)
        self.pool.cache_full_blocks(pool_request, blocks, num_hits, len(keys), size, _GROUP_ID)


def _tokens_of(request: TraceRequest, block_size: int, num_hits: int) -> list[int]:
    """Prompt and output; of block ids stand-ins, with zeros where nobody looks."""
    if request.token_ids is not None:
        return request.token_ids + (request.output_token_ids or [])
    tokens = [0] * (num_hits * block_size)
    for block_id in (request.block_ids or [])[num_hits:]:
        tokens += [block_id % _TOKENS] * block_size
    return tokens
