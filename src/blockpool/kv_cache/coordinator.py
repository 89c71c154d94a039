"""`KVCacheCoordinator`: the managers of all groups as one; this one finds no hits, because caching is off."""

from __future__ import annotations

from collections.abc import Sequence

from blockpool.core.block import KVCacheBlock
from blockpool.core.pool import BlockPool
from blockpool.kv_cache.cross_attention import CrossAttentionManager
from blockpool.kv_cache.demand import Demand
from blockpool.kv_cache.outlook import Outlook
from blockpool.kv_cache.single_type_manager import NEVER, SingleTypeKVCacheManager, nothing
from blockpool.kv_cache.types import RequestArg


class KVCacheCoordinator:
    """Asks and tells the managers of all groups, in the order of the groups.

    Args:
        block_pool: Shared by all groups.
        managers: One per group.
        use_eagle: Whether one block of what is found is computed again.

    Attributes:
        block_pool: As given.
        single_type_managers: As given.
        use_eagle: As given.
        outlooks: One per running request.
    """

    def __init__(
        self, block_pool: BlockPool, managers: tuple[SingleTypeKVCacheManager, ...], use_eagle: bool
    ) -> None:
        self.block_pool: BlockPool = block_pool
        self.single_type_managers: tuple[SingleTypeKVCacheManager, ...] = managers
        self.use_eagle: bool = use_eagle
        self.outlooks: dict[str, Outlook] = {}

    def find_longest_cache_hit(
        self, block_hashes: Sequence[bytes], max_cache_hit_length: int
    ) -> tuple[tuple[list[KVCacheBlock], ...], int]:
        """The longest prefix that every group accepts. Changes nothing.

        Args:
            block_hashes: One per `hash_block_size` tokens.
            max_cache_hit_length: Tokens that may be found at most.

        Returns:
            One list of blocks per group, and the tokens in them.
        """
        return nothing(len(self.single_type_managers)), 0

    def is_running(self, request_id: str) -> bool:
        """Whether the request has block tables."""
        return request_id in self.outlooks

    def get_num_blocks_to_allocate(
        self,
        request_id: str,
        num_tokens: int,
        new_computed_blocks: tuple[Sequence[KVCacheBlock], ...],
        num_encoder_tokens: int,
        total_computed_tokens: int,
        num_tokens_main_model: int,
    ) -> int:
        """Free blocks that all groups together will take. Changes nothing. See `SingleTypeKVCacheManager`."""
        total = 0
        for group_id, manager in enumerate(self.single_type_managers):
            if isinstance(manager, CrossAttentionManager):
                total += manager.get_num_blocks_to_allocate(
                    request_id, num_encoder_tokens, (), 0, num_encoder_tokens
                )
            else:
                total += manager.get_num_blocks_to_allocate(
                    request_id,
                    num_tokens,
                    new_computed_blocks[group_id],
                    total_computed_tokens,
                    num_tokens_main_model,
                )
        return total

    def allocate_new_computed_blocks(
        self,
        request_id: str,
        new_computed_blocks: tuple[Sequence[KVCacheBlock], ...],
        num_local_computed_tokens: int,
        num_external_computed_tokens: int,
    ) -> None:
        """Makes the tables of a new request. All groups hold their hits before any takes a block for external tokens.

        Otherwise such a block could be a hit of another group. See `SingleTypeKVCacheManager`.
        """
        total = num_local_computed_tokens + num_external_computed_tokens
        for group_id, manager in enumerate(self.single_type_managers):
            manager.add_computed_blocks(request_id, new_computed_blocks[group_id], total)
        if num_external_computed_tokens > 0:
            for manager in self.single_type_managers:
                manager.add_external_blocks(request_id, total)

    def allocate_new_blocks(
        self, request_id: str, num_tokens: int, num_tokens_main_model: int, num_encoder_tokens: int = 0
    ) -> tuple[list[KVCacheBlock], ...]:
        """Lengthens all tables. Returns the new blocks of each group."""
        new_blocks: list[list[KVCacheBlock]] = []
        for manager in self.single_type_managers:
            wanted = num_encoder_tokens if isinstance(manager, CrossAttentionManager) else num_tokens
            new_blocks.append(manager.allocate_new_blocks(request_id, wanted, num_tokens_main_model))
        return tuple(new_blocks)

    def admit(
        self,
        request: RequestArg,
        demand: Demand,
        computed: tuple[Sequence[KVCacheBlock], ...],
        caches: bool,
    ) -> tuple[list[KVCacheBlock], ...]:
        """Makes the tables of a new request for which there is room. Returns the new blocks of each group.

        A request whose hashes cannot be read any more, though they could before, leaves no blocks behind.
        """
        num_external = demand.total_computed - demand.num_local
        self.allocate_new_computed_blocks(demand.request_id, computed, demand.num_local, num_external)
        try:
            return self.lengthen(request, demand, True, caches)
        except BaseException:
            self.free(demand.request_id)
            raise

    def lengthen(
        self, request: RequestArg, demand: Demand, takes: bool, fills: bool
    ) -> tuple[list[KVCacheBlock], ...]:
        """Does what is due for a running request. Returns the new blocks of each group; nothing when none are taken."""
        taken: tuple[list[KVCacheBlock], ...] = ()
        if takes:
            taken = self.allocate_new_blocks(
                demand.request_id, demand.num_slots, demand.num_main, demand.num_encoder_tokens
            )
        if fills:
            self.cache_blocks(request, demand.num_to_cache)
        self.look_ahead(request, demand.request_id, demand.total_computed)
        return taken

    def require_cacheable(
        self,
        request: RequestArg,
        new_computed_blocks: tuple[Sequence[KVCacheBlock], ...],
        total_computed_tokens: int,
        num_tokens: int,
    ) -> None:
        """Checks that `cache_blocks` will find in the request what it needs; for a new one with its hits."""
        request_id = request.request_id
        for group_id, manager in enumerate(self.single_type_managers):
            num_cached = manager.num_cached_block.get(request_id, -1)
            if num_cached < 0:
                num_skipped = manager.get_num_skipped_tokens(total_computed_tokens) // manager.block_size
                num_cached = max(num_skipped, len(new_computed_blocks[group_id]))
            manager.require_cacheable(request, num_cached, num_tokens)

    def cache_blocks(self, request: RequestArg, num_computed_tokens: int) -> None:
        """Indexes in all groups what the first so many tokens fill."""
        for manager in self.single_type_managers:
            manager.cache_blocks(request, num_computed_tokens)

    def free(self, request_id: str) -> None:
        """Gives all blocks of the request back, group by group; nothing happens when it has none."""
        self.outlooks.pop(request_id, None)
        for manager in self.single_type_managers:
            manager.free(request_id)

    def num_freed_by_skipping(self, request_id: str, total_computed_tokens: int) -> int:
        """How many blocks `remove_skipped_blocks` would make free for others. Changes nothing."""
        total = 0
        for manager in self.single_type_managers:
            if manager.can_skip:
                total += manager.num_freed_by_skipping(request_id, total_computed_tokens)
        return total

    def remove_skipped_blocks(self, request_id: str, total_computed_tokens: int) -> None:
        """Frees in all groups what attention will not need again."""
        for manager in self.single_type_managers:
            if manager.can_skip:
                manager.remove_skipped_blocks(request_id, total_computed_tokens)

    def get_num_common_prefix_blocks(self, running_request_id: str) -> list[int]:
        """Per group, how many blocks from the first on all running requests share; 0 while caching is off."""
        return [0] * len(self.single_type_managers)

    def get_blocks(self, request_id: str) -> tuple[list[KVCacheBlock], ...]:
        """A copy of the table of each group; empty when there is none."""
        return tuple([manager.req_to_blocks.get(request_id, [])[:] for manager in self.single_type_managers])

    def reset_prefix_cache(self) -> bool:
        """`BlockPool.reset_prefix_cache`, for which blocks that groups hold for good do not count as in use."""
        reserved: list[KVCacheBlock] = []
        for manager in self.single_type_managers:
            reserved += manager.reserved_blocks()
        pool = self.block_pool
        if not reserved or pool.num_gpu_blocks - 1 - pool.get_num_free_blocks() > len(reserved):
            return pool.reset_prefix_cache()
        pool.free_blocks(reserved)
        done = pool.reset_prefix_cache()
        pool.touch(reserved)
        return done

    def min_blocks(self, num_tokens: int, num_slots: int, num_computed: int, num_encoder_tokens: int) -> int:
        """A new request needs at least so many blocks at once. See `SingleTypeKVCacheManager`. O(groups²).

        What groups need at different times does not add up: that is looked at when each group needs most.
        """
        least = self._min_blocks_at(num_tokens, num_slots, num_computed, num_encoder_tokens)
        for manager in self.single_type_managers:
            length = manager.fullest_length(num_tokens, num_computed)
            if length < num_tokens:
                least = max(least, self._min_blocks_at(length, length, num_computed, num_encoder_tokens))
        return least

    def max_blocks(self, num_tokens: int, num_encoder_tokens: int) -> int:
        """With so many slots a new request takes no more free blocks than that, whatever it hits. O(groups)."""
        total = 0
        for manager in self.single_type_managers:
            total += manager.max_blocks(num_tokens, num_encoder_tokens)
        return total

    def num_reserved_blocks(self) -> int:
        """Blocks that groups hold for good."""
        total = 0
        for manager in self.single_type_managers:
            total += len(manager.reserved_blocks())
        return total

    def _min_blocks_at(
        self, num_tokens: int, num_slots: int, num_computed: int, num_encoder_tokens: int
    ) -> int:
        """What all groups need in the step that computes the last of so many tokens."""
        total = 0
        for manager in self.single_type_managers:
            total += manager.min_blocks(num_tokens, num_slots, num_computed, num_encoder_tokens)
        return total

    def look_ahead(self, request: RequestArg, request_id: str, total_computed_tokens: int) -> None:
        """Notes how far a running request can go before any group must do something."""
        num_slots = NEVER
        next_to_cache = NEVER
        next_to_skip = NEVER
        for manager in self.single_type_managers:
            slots = manager.num_slots(request_id)
            if slots < num_slots:
                num_slots = slots
            to_cache = manager.next_to_cache(request_id)
            if to_cache < next_to_cache:
                next_to_cache = to_cache
            to_skip = manager.next_to_skip(total_computed_tokens)
            if to_skip < next_to_skip:
                next_to_skip = to_skip
        self.outlooks[request_id] = Outlook(
            request, total_computed_tokens, num_slots, next_to_cache, next_to_skip
        )
