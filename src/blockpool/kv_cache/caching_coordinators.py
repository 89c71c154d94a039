"""Coordinators with prefix caching: of one group, and of several that must agree on a hit."""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm
from typing import final

from blockpool.core.block import KVCacheBlock
from blockpool.core.block_hash_list import BlockHashListWithBlockSize
from blockpool.core.pool import BlockPool
from blockpool.kv_cache.coordinator import KVCacheCoordinator
from blockpool.kv_cache.full_attention import FullAttentionManager
from blockpool.kv_cache.single_type_manager import SingleTypeKVCacheManager


class CachingCoordinator(KVCacheCoordinator):
    """What both have in common.

    Attributes:
        alignment_tokens: The length of a hit is a multiple of it: the least common multiple of the block sizes.
    """

    def __init__(
        self, block_pool: BlockPool, managers: tuple[SingleTypeKVCacheManager, ...], use_eagle: bool
    ) -> None:
        super().__init__(block_pool, managers, use_eagle)
        self.alignment_tokens: int = lcm(*[manager.block_size for manager in managers])
        # With EAGLE a hit is one that would be one with one more block, too. Where no group has a say in that, the last
        # block is left out of the hit instead.
        self._drops_itself: bool = use_eagle
        for manager in managers:
            if manager.wants_next_block:
                self._drops_itself = False

    def find_longest_cache_hit(
        self, block_hashes: Sequence[bytes], max_cache_hit_length: int
    ) -> tuple[tuple[list[KVCacheBlock], ...], int]:
        """See `KVCacheCoordinator`. With EAGLE one block is left out in all, however many groups there are."""
        found, length = self._find(block_hashes, max_cache_hit_length)
        if self._drops_itself and length > 0:
            return self._find(block_hashes, length - 1)
        return found, length

    def num_dropped_tokens(self) -> int:
        """Tokens that must be found beyond the shortest hit, because EAGLE has them computed again."""
        if not self.use_eagle:
            return 0
        if self._drops_itself:
            return self.alignment_tokens
        sizes = [manager.block_size for manager in self.single_type_managers if manager.wants_next_block]
        return max(sizes)

    def get_num_common_prefix_blocks(self, running_request_id: str) -> list[int]:
        """See `KVCacheCoordinator`."""
        return [
            manager.get_num_common_prefix_blocks(running_request_id) for manager in self.single_type_managers
        ]

    def _find(
        self, block_hashes: Sequence[bytes], max_length: int
    ) -> tuple[tuple[list[KVCacheBlock], ...], int]:
        raise NotImplementedError

    def _hashes_for(
        self, manager: SingleTypeKVCacheManager, block_hashes: Sequence[bytes]
    ) -> Sequence[bytes]:
        """The hashes at the grain of a group."""
        fine = self.block_pool.hash_block_size
        if manager.block_size == fine:
            return block_hashes
        return BlockHashListWithBlockSize(block_hashes, fine, manager.block_size)


@final
class UnitaryKVCacheCoordinator(CachingCoordinator):
    """One group: its hit is the hit."""

    def _find(
        self, block_hashes: Sequence[bytes], max_length: int
    ) -> tuple[tuple[list[KVCacheBlock], ...], int]:
        manager = self.single_type_managers[0]
        size = manager.block_size
        hashes = self._hashes_for(manager, block_hashes)
        found = manager.find_longest_cache_hit(hashes, max_length, [0], self.use_eagle, size)
        return found, len(found[0]) * size


@final
class HybridKVCacheCoordinator(CachingCoordinator):
    """Several groups: the hit is the longest length that each of them accepts.

    Groups of equal specs are looked up together. Every kind of group in turn takes the length as it stands, or lowers
    it to the longest one that it accepts; when all have taken the same one in a row, that is it. None can be missed
    above it: a length that all accept is never lowered. Full attention comes first, because it bounds the others at
    the price of one pass and accepts whatever is shorter than what it found.
    """

    def __init__(
        self, block_pool: BlockPool, managers: tuple[SingleTypeKVCacheManager, ...], use_eagle: bool
    ) -> None:
        super().__init__(block_pool, managers, use_eagle)
        full: list[tuple[SingleTypeKVCacheManager, list[int]]] = []
        others: list[tuple[SingleTypeKVCacheManager, list[int]]] = []
        for group_id, manager in enumerate(managers):
            kinds = full if isinstance(manager, FullAttentionManager) else others
            for kind, group_ids in kinds:
                if kind.kv_cache_spec == manager.kv_cache_spec:
                    group_ids.append(group_id)
                    break
            else:
                kinds.append((manager, [group_id]))
        self.kinds: list[tuple[SingleTypeKVCacheManager, list[int]]] = full + others

    def _find(
        self, block_hashes: Sequence[bytes], max_length: int
    ) -> tuple[tuple[list[KVCacheBlock], ...], int]:
        found: dict[int, tuple[list[KVCacheBlock], ...]] = {}
        length = max_length - max_length % self.alignment_tokens
        num_agreed = 0
        turn = 0
        while num_agreed < len(self.kinds) and length > 0:
            accepted = self._accepted(turn, found, block_hashes, length, max_length)
            if accepted < length:
                length = accepted
                num_agreed = 0
            num_agreed += 1
            turn = (turn + 1) % len(self.kinds)
        return self._tables(found, length), length

    def _accepted(
        self,
        turn: int,
        found: dict[int, tuple[list[KVCacheBlock], ...]],
        block_hashes: Sequence[bytes],
        length: int,
        max_length: int,
    ) -> int:
        """The longest length up to `length` that one kind of group accepts; notes the blocks in `found`."""
        manager, group_ids = self.kinds[turn]
        size = manager.block_size
        if isinstance(manager, FullAttentionManager) and turn in found:
            return min(length, len(found[turn][0]) * size)
        limit = length
        if self.use_eagle and manager.wants_next_block:
            limit = min(length + size, max_length)
        blocks = manager.find_longest_cache_hit(
            self._hashes_for(manager, block_hashes), limit, group_ids, self.use_eagle, self.alignment_tokens
        )
        found[turn] = blocks
        return len(blocks[0]) * size

    def _tables(
        self, found: dict[int, tuple[list[KVCacheBlock], ...]], length: int
    ) -> tuple[list[KVCacheBlock], ...]:
        """What was found, by group, cut to the length."""
        tables: list[list[KVCacheBlock]] = [[] for _ in self.single_type_managers]
        if length == 0:
            return tuple(tables)
        for turn, (manager, group_ids) in enumerate(self.kinds):
            for group_id, blocks in zip(group_ids, found[turn], strict=True):
                del blocks[length // manager.block_size :]
                tables[group_id] = blocks
        return tuple(tables)
