"""Full attention: every block is needed to the end; a hit is a run of blocks from the first on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from blockpool.core.block import KVCacheBlock
from blockpool.core.pool import BlockPool
from blockpool.errors import ConfigError
from blockpool.kv_cache.lookups import find_run
from blockpool.kv_cache.single_type_manager import SingleTypeKVCacheManager
from blockpool.kv_cache.specs import SinkFullAttentionSpec


class FullAttentionManager(SingleTypeKVCacheManager):
    """Manages full attention and latent attention (MLA)."""

    def find_longest_cache_hit(
        self,
        block_hashes: Sequence[bytes],
        max_length: int,
        kv_cache_group_ids: list[int],
        use_eagle: bool,
        alignment_tokens: int,
    ) -> tuple[list[KVCacheBlock], ...]:
        """Left to right, up to the first miss. O(hit). See `SingleTypeKVCacheManager`."""
        size = self.block_size
        found = find_run(self.block_pool, block_hashes, kv_cache_group_ids, 0, max_length // size)
        num_found = len(found[0])
        num_kept = num_found - 1 if use_eagle and num_found > 0 else num_found
        num_kept -= num_kept % (alignment_tokens // size)
        if num_kept < num_found:
            for blocks in found:
                del blocks[num_kept:]
        return found

    def get_num_common_prefix_blocks(self, running_request_id: str) -> int:
        """Blocks held as often as there are running requests. O(result)."""
        num_running = len(self.req_to_blocks)
        count = 0
        for block in self.req_to_blocks.get(running_request_id, []):
            if block.ref_cnt != num_running:
                break
            count += 1
        return count


@final
class SinkFullAttentionManager(FullAttentionManager):
    """Full attention with a sink: blocks that all requests attend to, taken at the start and held for good.

    Args:
        kv_cache_spec: What the layers keep, and the length of the sink.

    Attributes:
        sink_blocks: The blocks of the sink. They stand in no block table.

    Raises:
        ConfigError: If it leaves no block of the pool.
    """

    def __init__(
        self,
        kv_cache_spec: SinkFullAttentionSpec,
        block_pool: BlockPool,
        enable_caching: bool,
        kv_cache_group_id: int,
        context_parallel_size: int = 1,
    ) -> None:
        super().__init__(kv_cache_spec, block_pool, enable_caching, kv_cache_group_id, context_parallel_size)
        num_sinks = kv_cache_spec.sink_len // self.block_size
        if num_sinks >= block_pool.get_num_free_blocks():
            reason = f"the sink takes {num_sinks} and leaves none"
            raise ConfigError("num_blocks", block_pool.num_gpu_blocks, reason)
        self.sink_blocks: list[KVCacheBlock] = block_pool.get_new_blocks(num_sinks)

    def reserved_blocks(self) -> list[KVCacheBlock]:
        """See `SingleTypeKVCacheManager`."""
        return self.sink_blocks
