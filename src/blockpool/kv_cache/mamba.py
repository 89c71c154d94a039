"""Mamba and other recurrent layers: a block holds the state after its last token; only the last state is needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from blockpool.core.block import KVCacheBlock
from blockpool.core.pool import BlockPool
from blockpool.kv_cache.checks import num_idle
from blockpool.kv_cache.single_type_manager import SingleTypeKVCacheManager, cdiv, nothing
from blockpool.kv_cache.specs import MambaSpec


@final
class MambaManager(SingleTypeKVCacheManager):
    """Manages recurrent states, in one of two ways.

    Modes "none" and "all": the table has a block for every `block_size` tokens, like attention, and then the
    speculative ones; those before the last are given back as the request goes on.

    Mode "align": a step takes one block, for the state at its end, however long it is; null blocks stand before it. The
    last blocks of the table are the speculative ones; the next step moves them on rather than taking new ones. The
    state that a step started from is given back when the step after it is planned. Lookahead tokens take no slot.

    Attributes:
        num_speculative_blocks: Blocks for the states of draft tokens.
        is_aligned: Whether the mode is "align".
    """

    def __init__(
        self,
        kv_cache_spec: MambaSpec,
        block_pool: BlockPool,
        enable_caching: bool,
        kv_cache_group_id: int,
        context_parallel_size: int = 1,
    ) -> None:
        super().__init__(kv_cache_spec, block_pool, enable_caching, kv_cache_group_id, context_parallel_size)
        self.num_speculative_blocks: int = kv_cache_spec.num_speculative_blocks
        self.is_aligned: bool = kv_cache_spec.mamba_cache_mode == "align"
        self.can_skip = True
        self.wants_next_block = False
        # In mode "align": the requests that have a block for their running state, and where the state lies that the
        # last step started from.
        self._has_state: set[str] = set()
        self._start_state: dict[str, int] = {}

    # ------------------------------------------------------------------------------------------------- allocation

    def get_num_blocks_to_allocate(
        self,
        request_id: str,
        num_tokens: int,
        new_computed_blocks: Sequence[KVCacheBlock],
        total_computed_tokens: int,
        num_tokens_main_model: int,
    ) -> int:
        """See `SingleTypeKVCacheManager`."""
        size = self.block_size
        num_extra = self.num_speculative_blocks
        if not self.is_aligned:
            return super().get_num_blocks_to_allocate(
                request_id,
                num_tokens + num_extra * size,
                new_computed_blocks,
                total_computed_tokens,
                num_tokens_main_model,
            )
        num_required = cdiv(num_tokens_main_model, size) + num_extra
        blocks = self.req_to_blocks.get(request_id)
        if blocks is not None:
            num_missing = max(num_required - len(blocks), 0)
            return min(num_missing, 1 if request_id in self._has_state else 1 + num_extra)
        num_skipped = self.get_num_skipped_tokens(total_computed_tokens) // size
        num_hits = len(new_computed_blocks)
        num_admitted = max(num_skipped, num_hits)
        num_external = 0
        if total_computed_tokens > num_hits * size:
            num_external = cdiv(total_computed_tokens, size) - num_admitted
        num_new = min(num_required - num_admitted - num_external, 1 + num_extra)
        return num_external + max(num_new, 0) + num_idle(new_computed_blocks, num_skipped, self._null_block)

    def allocate_new_blocks(
        self, request_id: str, num_tokens: int, num_tokens_main_model: int
    ) -> list[KVCacheBlock]:
        """See `SingleTypeKVCacheManager`. In mode "align", with the null blocks and the moved ones."""
        if not self.is_aligned:
            num_extra_tokens = self.num_speculative_blocks * self.block_size
            return super().allocate_new_blocks(
                request_id, num_tokens + num_extra_tokens, num_tokens_main_model
            )
        blocks = self.req_to_blocks.get(request_id)
        if blocks is None:
            self.add_computed_blocks(request_id, (), 0)
            blocks = self.req_to_blocks[request_id]
        num_before = len(blocks)
        num_extra = self.num_speculative_blocks
        num_required = cdiv(num_tokens_main_model, self.block_size) + num_extra
        if num_required <= num_before:
            return []
        running = request_id in self._has_state
        if running:
            self._start_state[request_id] = num_before - num_extra - 1
        elif num_before > 0:
            self._start_state[request_id] = num_before - 1
        state = num_required - num_extra - 1
        if num_before < state:
            blocks.extend([self._null_block] * (state - num_before))
        if running:
            for position in range(num_before - num_extra, min(num_before, state)):
                blocks.append(blocks[position])
                blocks[position] = self._null_block
        blocks.extend(self.block_pool.get_new_blocks(num_required - len(blocks)))
        self._has_state.add(request_id)
        return blocks[num_before:]

    def free(self, request_id: str) -> None:
        """See `SingleTypeKVCacheManager`."""
        self._has_state.discard(request_id)
        self._start_state.pop(request_id, None)
        super().free(request_id)

    # ------------------------------------------------------------------------------------------------- prefix cache

    def find_longest_cache_hit(
        self,
        block_hashes: Sequence[bytes],
        max_length: int,
        kv_cache_group_ids: list[int],
        use_eagle: bool,
        alignment_tokens: int,
    ) -> tuple[list[KVCacheBlock], ...]:
        """From the right, the first state that is found. A draft model has no such layers: EAGLE changes nothing here.

        See `SingleTypeKVCacheManager`. One look-up per `alignment_tokens` at most.
        """
        size = self.block_size
        step = alignment_tokens // size
        end = min(max_length // size, len(block_hashes)) // step * step
        while end > 0:
            states = self.block_pool.get_cached_block(block_hashes[end - 1], kv_cache_group_ids)
            if states is not None:
                found: list[list[KVCacheBlock]] = []
                for state in states:
                    found.append([*[self._null_block] * (end - 1), state])
                return tuple(found)
            end -= step
        return nothing(len(kv_cache_group_ids))

    # ------------------------------------------------------------------------------------------------- skipping

    def get_num_skipped_tokens(self, num_computed_tokens: int) -> int:
        """All but the last computed one."""
        return max(num_computed_tokens - 1, 0)

    def skipped_positions(self, request_id: str, total_computed_tokens: int) -> list[int]:
        """See `SingleTypeKVCacheManager`. In mode "align" blocks do not stand side by side: the start state, too."""
        positions = super().skipped_positions(request_id, total_computed_tokens)
        start = self._start_state.get(request_id, -1)
        if (
            0 <= start < cdiv(total_computed_tokens, self.block_size) - 1
            and start not in positions
            and self.req_to_blocks[request_id][start] is not self._null_block
        ):
            positions.append(start)
        return positions

    # ------------------------------------------------------------------------------------------------- outlook

    def num_slots(self, request_id: str) -> int:
        """See `SingleTypeKVCacheManager`."""
        num_blocks = len(self.req_to_blocks[request_id]) - self.num_speculative_blocks
        return num_blocks * self.block_size

    def next_to_skip(self, total_computed_tokens: int) -> int:
        """See `SingleTypeKVCacheManager`."""
        return (
            self.get_num_skipped_tokens(total_computed_tokens) // self.block_size + 1
        ) * self.block_size + 1

    def min_blocks(self, num_tokens: int, num_slots: int, num_computed: int, num_encoder_tokens: int) -> int:
        """The running state and the speculative ones; where the mode is not "align", those of the last step."""
        num_states = 1
        if not self.is_aligned:
            num_states = super().min_blocks(num_tokens, num_slots, num_computed, num_encoder_tokens)
        return max(num_states, 1) + self.num_speculative_blocks

    def max_blocks(self, num_tokens: int, num_encoder_tokens: int) -> int:
        """See `SingleTypeKVCacheManager`."""
        return cdiv(num_tokens, self.block_size) + self.num_speculative_blocks
