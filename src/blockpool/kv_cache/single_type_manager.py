"""`SingleTypeKVCacheManager`: the block tables of one KV cache group, and what all attention types have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from blockpool.core.arguments import as_list
from blockpool.core.block import KVCacheBlock
from blockpool.core.pool import BlockPool
from blockpool.kv_cache.checks import num_idle, require_event_fields, require_hashes
from blockpool.kv_cache.specs import KVCacheSpec
from blockpool.kv_cache.types import RequestArg

NEVER: Final = 0x3FFFFFFFFFFFFFFF
"""More tokens than there ever are."""


class SingleTypeKVCacheManager:
    """Manages one KV cache group. This class alone is a group that skips nothing and never hits.

    A request is *new* until it has a block table here, then it *runs*, until `free`. The managers trust their
    arguments: `KVCacheManager` checks what a scheduler passes, and asks the managers of all groups how much they will
    take before any of them takes something.

    Args:
        kv_cache_spec: What the layers keep.
        block_pool: Shared by all groups.
        enable_caching: Whether full blocks are indexed.
        kv_cache_group_id: Position of the group.
        context_parallel_size: Among so many ranks the tokens of a block are dealt out: its block is larger by that.

    Attributes:
        block_size: Tokens per block.
        kv_cache_spec: As given.
        block_pool: As given.
        enable_caching: As given.
        kv_cache_group_id: As given.
        req_to_blocks: The block table of every request that runs.
        num_cached_block: How many blocks of it are indexed, or null, from the first on.
        can_skip: Whether blocks of a running request can become useless.
        wants_next_block: Whether, with EAGLE, a hit must be followed by one more block that is found: the draft model's
            KV of the hit's last token depends on the token after it.
    """

    def __init__(
        self,
        kv_cache_spec: KVCacheSpec,
        block_pool: BlockPool,
        enable_caching: bool,
        kv_cache_group_id: int,
        context_parallel_size: int = 1,
    ) -> None:
        self.block_size: int = kv_cache_spec.block_size * context_parallel_size
        self.kv_cache_spec: KVCacheSpec = kv_cache_spec
        self.block_pool: BlockPool = block_pool
        self.enable_caching: bool = enable_caching
        self.kv_cache_group_id: int = kv_cache_group_id
        self.req_to_blocks: dict[str, list[KVCacheBlock]] = {}
        self.num_cached_block: dict[str, int] = {}
        self.can_skip: bool = False
        self.wants_next_block: bool = True
        self._null_block: KVCacheBlock = block_pool.null_block

    # ------------------------------------------------------------------------------------------------- allocation

    def get_num_blocks_to_allocate(
        self,
        request_id: str,
        num_tokens: int,
        new_computed_blocks: Sequence[KVCacheBlock],
        total_computed_tokens: int,
        num_tokens_main_model: int,
    ) -> int:
        """How many free blocks the request will take: new ones, and hits that nobody holds. Changes nothing.

        Args:
            request_id: The request.
            num_tokens: Tokens that need a slot, with those that have one.
            new_computed_blocks: Hits of a new request; empty for a running one.
            total_computed_tokens: Tokens whose KV is or will be there without computing, hits and external ones.
            num_tokens_main_model: `num_tokens` without the lookahead.
        """
        num_required = cdiv(num_tokens, self.block_size)
        blocks = self.req_to_blocks.get(request_id)
        if blocks is not None:
            return max(num_required - len(blocks), 0)
        num_skipped = self.get_num_skipped_tokens(total_computed_tokens) // self.block_size
        num_admitted = max(num_skipped, len(new_computed_blocks))
        return max(num_required - num_admitted, 0) + num_idle(
            new_computed_blocks, num_skipped, self._null_block
        )

    def allocate_new_computed_blocks(
        self,
        request_id: str,
        new_computed_blocks: Sequence[KVCacheBlock],
        num_local_computed_tokens: int,
        num_external_computed_tokens: int,
    ) -> None:
        """Makes the block table of a new request: null for what is skipped, hits, blocks for external tokens.

        Args:
            request_id: The request; nothing happens when it runs already.
            new_computed_blocks: Its hits, held from now on.
            num_local_computed_tokens: Tokens in them.
            num_external_computed_tokens: Tokens after them whose KV somebody else brings.
        """
        if request_id in self.req_to_blocks:
            return
        total = num_local_computed_tokens + num_external_computed_tokens
        self.add_computed_blocks(request_id, new_computed_blocks, total)
        if num_external_computed_tokens > 0:
            self.add_external_blocks(request_id, total)

    def add_computed_blocks(
        self, request_id: str, new_computed_blocks: Sequence[KVCacheBlock], total_computed_tokens: int
    ) -> None:
        """The first half of `allocate_new_computed_blocks`: null blocks and hits. Takes no block that is not a hit."""
        num_skipped = self.get_num_skipped_tokens(total_computed_tokens) // self.block_size
        blocks: list[KVCacheBlock] = []
        kept: Sequence[KVCacheBlock] = new_computed_blocks
        if num_skipped > 0:
            blocks = [self._null_block] * num_skipped
            kept = new_computed_blocks[num_skipped:]
        if len(kept) > 0:
            self.block_pool._touch_own(as_list("new_computed_blocks", kept))
            blocks.extend(kept)
        self.req_to_blocks[request_id] = blocks
        self.num_cached_block[request_id] = len(blocks)

    def add_external_blocks(self, request_id: str, total_computed_tokens: int) -> None:
        """The second half: blocks for those external tokens that are not skipped.

        Where all are, a block that they end in is for the tokens after them: `allocate_new_blocks` takes it.
        """
        blocks = self.req_to_blocks[request_id]
        if self.block_size <= self.get_num_skipped_tokens(total_computed_tokens) == total_computed_tokens:
            return
        num_missing = cdiv(total_computed_tokens, self.block_size) - len(blocks)
        if num_missing > 0:
            blocks.extend(self.block_pool.get_new_blocks(num_missing))

    def allocate_new_blocks(
        self, request_id: str, num_tokens: int, num_tokens_main_model: int
    ) -> list[KVCacheBlock]:
        """Lengthens the block table to `num_tokens`.

        Args:
            request_id: The request.
            num_tokens: Tokens that need a slot, with those that have one. It may be fewer than before, when draft
                tokens were refused.
            num_tokens_main_model: `num_tokens` without the lookahead.

        Returns:
            The new blocks.
        """
        blocks = self.req_to_blocks.get(request_id)
        if blocks is None:
            self.add_computed_blocks(request_id, (), 0)
            blocks = self.req_to_blocks[request_id]
        num_new = cdiv(num_tokens, self.block_size) - len(blocks)
        if num_new <= 0:
            return []
        new_blocks = self.block_pool.get_new_blocks(num_new)
        blocks.extend(new_blocks)
        return new_blocks

    def free(self, request_id: str) -> None:
        """Gives all blocks of the request back, the last one first; nothing happens when it has none here."""
        blocks = self.req_to_blocks.pop(request_id, None)
        if blocks is None:
            return
        self.num_cached_block.pop(request_id, None)
        self.block_pool.free_blocks(reversed(blocks))

    # ------------------------------------------------------------------------------------------------- prefix cache

    def find_longest_cache_hit(
        self,
        block_hashes: Sequence[bytes],
        max_length: int,
        kv_cache_group_ids: list[int],
        use_eagle: bool,
        alignment_tokens: int,
    ) -> tuple[list[KVCacheBlock], ...]:
        """The longest prefix whose KV these groups have, as far as attention will need it. Changes nothing.

        Args:
            block_hashes: One per block of this group's size.
            max_length: Tokens that may be found at most.
            kv_cache_group_ids: The groups, all of this spec, that must all have it.
            use_eagle: Whether what was found last must be computed again: the hit is such that with one block more it
                would be one, too, within `max_length`; that block is left out.
            alignment_tokens: A multiple of the block size; the hit's length is a multiple of it.

        Returns:
            One list of blocks per group, null where attention will not look; the hit's length is theirs.
        """
        return nothing(len(kv_cache_group_ids))

    def cache_blocks(self, request: RequestArg, num_tokens: int) -> None:
        """Indexes the blocks of a running request that the first `num_tokens` tokens fill, if they are not yet.

        Tokens beyond the longest request have no slot, and so no block that could be indexed.
        """
        request_id = request.request_id
        num_cached = self.num_cached_block.get(request_id, 0)
        num_full = num_tokens // self.block_size
        if num_cached >= num_full or not self.enable_caching:
            return
        num_full = min(num_full, self.num_slots(request_id) // self.block_size)
        if num_cached >= num_full:
            return
        pool = self.block_pool
        blocks = as_list("blocks", self.req_to_blocks[request_id])
        factor = self.block_size // pool.hash_block_size
        pool._index_full(request, blocks, num_cached, num_full, factor, self.kv_cache_group_id)
        self.num_cached_block[request_id] = num_full

    def require_cacheable(self, request: RequestArg, num_cached: int, num_tokens: int) -> None:
        """Checks that `cache_blocks` will find in the request what it needs.

        Args:
            request: The request.
            num_cached: Its blocks that are indexed already.
            num_tokens: As for `cache_blocks`.

        Raises:
            ArgumentError: If the request lacks something.
            ConfigError: If it has too few hashes or tokens.
        """
        num_full = num_tokens // self.block_size
        if num_cached >= num_full:
            return
        require_hashes(request, num_cached, num_full, self.block_size // self.block_pool.hash_block_size)
        if self.block_pool.enable_kv_cache_events:
            require_event_fields(request, num_full * self.block_size)

    def get_num_common_prefix_blocks(self, running_request_id: str) -> int:
        """How many blocks from the first on all running requests share. 0 where that makes no sense."""
        return 0

    # ------------------------------------------------------------------------------------------------- skipping

    def get_num_skipped_tokens(self, num_computed_tokens: int) -> int:
        """How many tokens, from the first on, no later token will attend to when so many are computed."""
        return 0

    def remove_skipped_blocks(self, request_id: str, total_computed_tokens: int) -> None:
        """Frees blocks that attention will not need again; null blocks stand for them in the table."""
        positions = self.skipped_positions(request_id, total_computed_tokens)
        if not positions:
            return
        blocks = self.req_to_blocks[request_id]
        removed: list[KVCacheBlock] = []
        for position in positions:
            removed.append(blocks[position])
            blocks[position] = self._null_block
        self.block_pool.free_blocks(removed)

    def num_freed_by_skipping(self, request_id: str, total_computed_tokens: int) -> int:
        """How many blocks would be free for others after `remove_skipped_blocks`. Changes nothing."""
        positions = self.skipped_positions(request_id, total_computed_tokens)
        if not positions:
            return 0
        blocks = self.req_to_blocks[request_id]
        count = 0
        for position in positions:
            if blocks[position].ref_cnt == 1:
                count += 1
        return count

    def skipped_positions(self, request_id: str, total_computed_tokens: int) -> list[int]:
        """Where in its table the request has blocks that it no longer needs, the last one first."""
        positions: list[int] = []
        blocks = self.req_to_blocks.get(request_id)
        if blocks is None:
            return positions
        num_skipped = self.get_num_skipped_tokens(total_computed_tokens) // self.block_size
        position = min(num_skipped, len(blocks)) - 1
        while position >= 0 and blocks[position] is not self._null_block:
            positions.append(position)
            position -= 1
        return positions

    # ------------------------------------------------------------------------------------------------- outlook

    def num_slots(self, request_id: str) -> int:
        """For so many tokens, lookahead included, a running request needs no more blocks."""
        return len(self.req_to_blocks[request_id]) * self.block_size

    def next_to_cache(self, request_id: str) -> int:
        """With so many tokens the next block of a running request is full."""
        if not self.enable_caching:
            return NEVER
        return (self.num_cached_block[request_id] + 1) * self.block_size

    def next_to_skip(self, total_computed_tokens: int) -> int:
        """Before so many tokens are computed, no further block is skipped."""
        return NEVER

    def min_blocks(self, num_tokens: int, num_slots: int, num_computed: int, num_encoder_tokens: int) -> int:
        """A new request needs at least so many blocks in the step that computes its last token.

        However it is scheduled: at best all others are computed by then.

        Args:
            num_tokens: Tokens that it has.
            num_slots: With the lookahead.
            num_computed: Tokens that are not to be computed.
            num_encoder_tokens: Tokens that cross attention looks at.
        """
        num_before = max(num_tokens - 1, num_computed)
        return cdiv(num_slots, self.block_size) - self.get_num_skipped_tokens(num_before) // self.block_size

    def fullest_length(self, num_tokens: int, num_computed: int) -> int:
        """With how many of its tokens, more than `num_computed`, a new request needs most blocks: with all of them."""
        return num_tokens

    def max_blocks(self, num_tokens: int, num_encoder_tokens: int) -> int:
        """With so many slots a new request takes no more free blocks than that, whatever it hits."""
        return cdiv(num_tokens, self.block_size)

    def reserved_blocks(self) -> list[KVCacheBlock]:
        """Blocks that the group holds for good."""
        return []


def cdiv(number: int, divisor: int) -> int:
    """The quotient, rounded up."""
    return -(-number // divisor)


def nothing(num_groups: int) -> tuple[list[KVCacheBlock], ...]:
    """An empty list per group."""
    found: list[list[KVCacheBlock]] = [[] for _ in range(num_groups)]
    return tuple(found)
