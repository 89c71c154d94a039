"""Cross attention: blocks for what the encoder made, once and for all; shared with nobody, never cached."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from blockpool.core.block import KVCacheBlock
from blockpool.kv_cache.checks import MAX_TOKENS
from blockpool.kv_cache.single_type_manager import NEVER, SingleTypeKVCacheManager, cdiv
from blockpool.kv_cache.types import RequestArg


@final
class CrossAttentionManager(SingleTypeKVCacheManager):
    """Manages cross attention: wherever the others take numbers of tokens, it takes numbers of encoder tokens."""

    def add_computed_blocks(
        self, request_id: str, new_computed_blocks: Sequence[KVCacheBlock], total_computed_tokens: int
    ) -> None:
        """An empty table: nothing of it is ever found."""
        self.req_to_blocks[request_id] = []

    def add_external_blocks(self, request_id: str, total_computed_tokens: int) -> None:
        """None: external tokens are the decoder's."""

    def cache_blocks(self, request: RequestArg, num_tokens: int) -> None:
        """Nothing: the tokens do not name its content."""

    def require_cacheable(self, request: RequestArg, num_cached: int, num_tokens: int) -> None:
        """Nothing is needed."""

    def num_slots(self, request_id: str) -> int:
        """No decoder token needs a block here. More than that is no number of tokens."""
        return MAX_TOKENS

    def next_to_cache(self, request_id: str) -> int:
        """See `SingleTypeKVCacheManager`."""
        return NEVER

    def min_blocks(self, num_tokens: int, num_slots: int, num_computed: int, num_encoder_tokens: int) -> int:
        """The blocks of the encoder's tokens."""
        return cdiv(num_encoder_tokens, self.block_size)

    def max_blocks(self, num_tokens: int, num_encoder_tokens: int) -> int:
        """The same."""
        return cdiv(num_encoder_tokens, self.block_size)
