"""An obvious model of the manager: tables of block ids, every rule from its definition, trial and error for room."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from blockpool.kv_cache import (
    ChunkedLocalAttentionSpec,
    CrossAttentionSpec,
    KVCacheSpec,
    MambaSpec,
    SinkFullAttentionSpec,
    TokenRequest,
)
from tests.core.pool_model import PoolModel
from tests.core.support import key

from .hit_oracle import longest_hit, looked_at, needed


class NoRoom(Exception):
    """The model has run out of blocks in the middle of something."""


def cdiv(number: int, divisor: int) -> int:
    return (number + divisor - 1) // divisor


class ManagerModel:
    """Changes as the manager must. What fails was tried on a copy, which is thrown away."""

    def __init__(
        self,
        specs: Sequence[KVCacheSpec],
        num_blocks: int,
        caching: bool,
        hash_block_size: int,
        use_eagle: bool,
    ) -> None:
        options = {
            "reuse_uncached_first": False,
            "int_block_hashes": True,
            "event_granularity": "every_copy",
        }
        self.specs = list(specs)
        self.caching = caching
        self.use_eagle = use_eagle
        self.pool = PoolModel(num_blocks, caching, hash_block_size, True, options)
        self.tables: dict[str, list[list[int]]] = {}
        self.num_cached: dict[str, list[int]] = {}
        self.has_state: set[tuple[str, int]] = set()
        self.stats = [0] * 6
        self.sinks: list[int] = []
        for spec in specs:
            if isinstance(spec, SinkFullAttentionSpec):
                self.sinks += self.take(spec.sink_len // spec.block_size)

    def take(self, count: int) -> list[int]:
        if count > len(self.pool.queue):
            raise NoRoom
        return self.pool.get_new_blocks(count)

    # ------------------------------------------------------------------------------------------------- look-up

    def content(self, request: TokenRequest, group: int, block: int) -> bytes:
        factor = self.specs[group].block_size // self.pool.hash_block_size
        return b"".join(request.block_hashes[block * factor : (block + 1) * factor])

    def get_computed_blocks(self, request: TokenRequest) -> tuple[list[list[int]], int]:
        nothing: list[list[int]] = [[] for _ in self.specs]
        if not self.caching or request.skip_reading_prefix_cache:
            return nothing, 0

        def has(group: int, block: int) -> bool:
            return key(self.content(request, group, block), group) in self.pool.index

        length = longest_hit(self.specs, has, request.num_tokens - 1, self.use_eagle)
        for group, spec in enumerate(self.specs):
            shown = looked_at(spec, length) if self.use_eagle else needed(spec, length, False)
            for block in range(length // spec.block_size):
                full_key = key(self.content(request, group, block), group)
                nothing[group].append(self.pool.index[full_key][0] if block in shown else 0)
        return nothing, length

    # ------------------------------------------------------------------------------------------------- allocation

    def allocate_slots(self, request: TokenRequest, *args: Any) -> list[list[int]] | None:
        trial = copy.deepcopy(self)
        try:
            new_blocks = trial._allocate(request, *args)
        except NoRoom:
            return None
        self.__dict__ = trial.__dict__
        return new_blocks

    def _allocate(
        self,
        request: TokenRequest,
        num_new: int,
        hits: list[list[int]],
        num_hit: int,
        num_lookahead: int,
        num_external: int,
        delay: bool,
        num_encoder: int,
    ) -> list[list[int]]:
        name = request.request_id
        total = request.num_computed_tokens + num_hit + num_external
        if name in self.tables:
            self.remove_skipped_blocks(name, total)
        else:
            self._admit(request, hits, num_hit, total)
            if num_external:
                for group, spec in enumerate(self.specs):
                    table = self.tables[name][group]
                    if not isinstance(spec, CrossAttentionSpec):
                        table += self.take(max(cdiv(total, spec.block_size) - len(table), 0))
        new_blocks = []
        for group, spec in enumerate(self.specs):
            tokens = total + num_new + num_lookahead
            if isinstance(spec, MambaSpec) and spec.mamba_cache_mode == "align":
                new_blocks.append(self._next_state(name, group, spec, total + num_new))
                continue
            if isinstance(spec, MambaSpec):
                tokens += spec.num_speculative_blocks * spec.block_size
            if isinstance(spec, CrossAttentionSpec):
                tokens = num_encoder
            table = self.tables[name][group]
            taken = self.take(max(cdiv(tokens, spec.block_size) - len(table), 0))
            table += taken
            new_blocks.append(taken)
        if self.caching and not delay:
            self.cache_blocks(request, min(total + num_new, request.num_tokens))
        return new_blocks

    def _admit(self, request: TokenRequest, hits: list[list[int]], num_hit: int, total: int) -> None:
        tables = []
        for group, spec in enumerate(self.specs):
            num_skipped = self.num_skipped(spec, total)
            kept = hits[group][num_skipped:]
            self.pool.touch(kept)
            tables.append([0] * num_skipped + kept)
        self.tables[request.request_id] = tables
        self.num_cached[request.request_id] = [len(table) for table in tables]
        if self.caching and not request.skip_reading_prefix_cache:
            first = 3 if request.num_preemptions else 0
            for i, number in enumerate((1, request.num_tokens, num_hit)):
                self.stats[first + i] += number

    def _next_state(self, name: str, group: int, spec: MambaSpec, tokens: int) -> list[int]:
        """Mode "align": the state at the end of the step, and the speculative blocks behind it."""
        table = self.tables[name][group]
        before = len(table)
        state = cdiv(tokens, spec.block_size) - 1
        length = state + 1 + spec.num_speculative_blocks
        if length <= before:
            return []
        speculative: list[tuple[int, int]] = []
        if (name, group) in self.has_state:
            cut = before - spec.num_speculative_blocks
            speculative = list(enumerate(table))[cut:]
            del table[cut:]
        table += [0] * (state - len(table))
        table += [block for at, block in speculative if at >= state]
        table += [block for at, block in speculative if at < state]
        table += self.take(length - len(table))
        self.has_state.add((name, group))
        return table[before:]

    def min_blocks(self, num_tokens: int, num_computed: int, lookahead: int, num_encoder: int) -> int:
        """What a new request must hold at once at least: in its last step, or when a group's last chunk is whole."""
        least = self._blocks_at(num_tokens, num_tokens + lookahead, num_encoder)
        for spec in self.specs:
            if isinstance(spec, ChunkedLocalAttentionSpec):
                end = num_tokens // spec.attention_chunk_size * spec.attention_chunk_size
                if end > num_computed:
                    least = max(least, self._blocks_at(end, end, num_encoder))
        return least

    def _blocks_at(self, num_tokens: int, num_slots: int, num_encoder: int) -> int:
        """What a step holds that computes the last of so many tokens, and nothing else."""
        total = 0
        for spec in self.specs:
            size = spec.block_size
            if isinstance(spec, CrossAttentionSpec):
                total += cdiv(num_encoder, size)
                continue
            least = cdiv(num_slots, size) - self.num_skipped(spec, num_tokens - 1)
            if isinstance(spec, MambaSpec):
                least = 1 if spec.mamba_cache_mode == "align" else max(least, 1)
                least += spec.num_speculative_blocks
            total += least
        return total

    # ------------------------------------------------------------------------------------------------- the rest

    @staticmethod
    def num_skipped(spec: KVCacheSpec, num_computed: int) -> int:
        """How many blocks, from the first on, have no token that will be looked at."""
        if isinstance(spec, CrossAttentionSpec):
            return 0
        seen = looked_at(spec, num_computed) if num_computed else set()
        # A window or chunk that starts with the next token starts where that will be.
        return min(seen) if seen else num_computed // spec.block_size

    def remove_skipped_blocks(self, name: str, num_computed: int) -> None:
        for group, spec in enumerate(self.specs):
            table = self.tables.get(name, [[] for _ in self.specs])[group]
            for at in range(min(self.num_skipped(spec, num_computed), len(table)) - 1, -1, -1):
                self.pool.free_blocks([table[at]])
                table[at] = 0

    def cache_blocks(self, request: TokenRequest, num_tokens: int) -> None:
        for group, spec in enumerate(self.specs):
            start, stop = self.num_cached[request.request_id][group], num_tokens // spec.block_size
            if start < stop:
                table = self.tables[request.request_id][group]
                tokens, hashes = request.all_token_ids, request.block_hashes
                self.pool.cache_full_blocks(tokens, hashes, table, start, stop, spec.block_size, group)
                self.num_cached[request.request_id][group] = stop

    def free(self, name: str) -> None:
        for table in self.tables.pop(name, []):
            self.pool.free_blocks(table[::-1])
        self.num_cached.pop(name, None)
        self.has_state = {pair for pair in self.has_state if pair[0] != name}

    def reset_prefix_cache(self) -> bool:
        if len(self.pool.queue) < self.pool.num_blocks - 1 - len(self.sinks):
            return False
        counts, queue = self.pool.counts, self.pool.queue
        self.pool.queue = [0] * (self.pool.num_blocks - 1)
        self.pool.reset_prefix_cache()
        self.pool.counts, self.pool.queue = counts, queue
        return True

    def state(self) -> dict[str, Any]:
        """In the form of `support.snapshot`."""
        state = self.pool.state()
        del state["hooks"]
        for group, spec in enumerate(self.specs):
            state[f"tables {group}"] = {name: tables[group] for name, tables in self.tables.items()}
            state[f"cached {group}"] = {name: cached[group] for name, cached in self.num_cached.items()}
            if isinstance(spec, CrossAttentionSpec):
                state[f"cached {group}"] = {}
        state["running"] = sorted(self.tables)
        return state
