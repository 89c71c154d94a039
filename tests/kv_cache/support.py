"""What the tests of the managers share: specs in one word, a manager of them, a request, a picture of everything."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from blockpool import BlockHasher, BlockPoolError
from blockpool.kv_cache import (
    ChunkedLocalAttentionSpec,
    CrossAttentionSpec,
    FullAttentionSpec,
    KVCacheConfig,
    KVCacheGroupSpec,
    KVCacheManager,
    KVCacheSpec,
    MambaSpec,
    MLAAttentionSpec,
    SinkFullAttentionSpec,
    SlidingWindowSpec,
    TokenRequest,
)
from tests.core.support import snapshot as pool_snapshot

HEADS: dict[str, Any] = {"num_kv_heads": 1, "head_size": 1, "dtype": "float16"}
STATE: dict[str, Any] = {"shapes": ((2, 3), (5,)), "dtypes": ("float32", "bfloat16")}


def full(block_size: int) -> FullAttentionSpec:
    return FullAttentionSpec(block_size=block_size, **HEADS)


def mla(block_size: int) -> MLAAttentionSpec:
    return MLAAttentionSpec(block_size=block_size, **HEADS)


def sink(block_size: int, sink_len: int) -> SinkFullAttentionSpec:
    return SinkFullAttentionSpec(block_size=block_size, sink_len=sink_len, **HEADS)


def window(block_size: int, sliding_window: int) -> SlidingWindowSpec:
    return SlidingWindowSpec(block_size=block_size, sliding_window=sliding_window, **HEADS)


def chunked(block_size: int, chunk: int) -> ChunkedLocalAttentionSpec:
    return ChunkedLocalAttentionSpec(block_size=block_size, attention_chunk_size=chunk, **HEADS)


def mamba(block_size: int, mode: str = "all", num_speculative_blocks: int = 0) -> MambaSpec:
    return MambaSpec(
        block_size, **STATE, mamba_cache_mode=mode, num_speculative_blocks=num_speculative_blocks
    )


def cross(block_size: int) -> CrossAttentionSpec:
    return CrossAttentionSpec(block_size=block_size, **HEADS)


def make_manager(
    *specs: KVCacheSpec, num_blocks: int = 100, max_model_len: int = 10_000, **options: Any
) -> KVCacheManager:
    groups = [KVCacheGroupSpec([f"layer{i}"], spec) for i, spec in enumerate(specs)]
    options.setdefault("hash_block_size", min(spec.block_size for spec in specs))
    options.setdefault("self_check", True)
    return KVCacheManager(KVCacheConfig(num_blocks, groups), max_model_len, **options)


def make_request(
    request_id: str, tokens: Iterable[int], manager: KVCacheManager | None, **options: Any
) -> TokenRequest:
    size = 1 if manager is None else manager.block_pool.hash_block_size
    hasher = BlockHasher("blake2b_raw", size, "the tests of the managers")
    return TokenRequest(request_id, tokens, hasher, **options)


def admit(manager: KVCacheManager, request: TokenRequest, **options: Any) -> Any:
    """Looks up and allocates for the whole request; the new blocks, or None."""
    computed, num_computed = manager.get_computed_blocks(request)
    num_new = request.num_tokens - num_computed
    blocks = manager.allocate_slots(request, num_new, num_computed, computed, **options)
    if blocks is not None:
        request.num_computed_tokens = request.num_tokens
    return blocks


def run_once(manager: KVCacheManager, tokens: Iterable[int], name: str = "before") -> TokenRequest:
    """A request that comes, computes its prompt and goes: what it computed can be found."""
    request = make_request(name, tokens, manager)
    assert admit(manager, request) is not None
    manager.free(request)
    return request


def decode(manager: KVCacheManager, request: TokenRequest, token: int = 7, **options: Any) -> Any:
    """One token more."""
    request.append_output_token_ids(token)
    blocks = manager.allocate_slots(request, 1, **options)
    if blocks is not None:
        request.num_computed_tokens += 1
    return blocks


def tables(manager: KVCacheManager, request: TokenRequest) -> tuple[list[int], ...]:
    return manager.get_block_ids(request.request_id)


def snapshot(manager: KVCacheManager) -> dict[str, Any]:
    """Everything about a manager that can be observed, as plain comparable values."""
    state = pool_snapshot(manager.block_pool)
    for group_id, single in enumerate(manager.coordinator.single_type_managers):
        state[f"tables {group_id}"] = {
            request_id: [block.block_id for block in blocks]
            for request_id, blocks in single.req_to_blocks.items()
        }
        state[f"cached {group_id}"] = dict(single.num_cached_block)
    state["running"] = sorted(manager.coordinator.outlooks)
    state["stats"] = repr(manager.prefix_cache_stats)
    return state


def assert_refused(
    manager: KVCacheManager, error: type[BaseException], call: Callable[[], object]
) -> BaseException:
    """The call raises exactly this leaf and changes nothing; returns the error."""
    before = snapshot(manager)
    with pytest.raises(error) as caught:
        call()
    assert type(caught.value) is error
    assert isinstance(caught.value, BlockPoolError)
    assert snapshot(manager) == before
    manager.block_pool.check_invariants()
    return caught.value


def assert_all_given_back(manager: KVCacheManager) -> None:
    """No request is left: every block but the null one and the sinks is free."""
    reserved = sum(len(single.reserved_blocks()) for single in manager.coordinator.single_type_managers)
    pool = manager.block_pool
    assert pool.get_num_free_blocks() == pool.num_gpu_blocks - 1 - reserved
    assert not manager.coordinator.outlooks
    for single in manager.coordinator.single_type_managers:
        assert not single.req_to_blocks
        assert not single.num_cached_block
    pool.check_invariants()
