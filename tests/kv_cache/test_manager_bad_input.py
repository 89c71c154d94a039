"""Bad input: one typed error each, and nothing has changed."""

from __future__ import annotations

from typing import Any

import pytest

from blockpool import ArgumentError, BlockStateError, ConfigError, OutOfBlocksError
from blockpool.kv_cache import KVCacheBlocks, KVCacheManager, TokenRequest

from .support import (
    admit,
    assert_refused,
    chunked,
    cross,
    decode,
    full,
    make_manager,
    make_request,
    mamba,
    run_once,
    window,
)


@pytest.fixture
def manager() -> KVCacheManager:
    made = make_manager(full(4), window(4, 6), num_blocks=30, log_stats=True, enable_kv_cache_events=True)
    run_once(made, range(12))
    return made


@pytest.fixture
def request_a(manager: KVCacheManager) -> TokenRequest:
    return make_request("a", range(20), manager)


@pytest.mark.parametrize(
    ("arguments", "error", "field"),
    [
        ((0,), ConfigError, "num_new_tokens"),
        ((-1,), ConfigError, "num_new_tokens"),
        (("8",), ArgumentError, "num_new_tokens"),
        ((8, -4), ConfigError, "num_new_computed_tokens"),
        ((8, 4.0), ArgumentError, "num_new_computed_tokens"),
        ((8, 0, None, -1), ConfigError, "num_lookahead_tokens"),
        ((8, 0, None, 0, -1), ConfigError, "num_external_computed_tokens"),
        ((8, 0, None, 0, 0, 1), ArgumentError, "delay_cache_blocks"),
        ((8, 0, None, 0, 0, False, -1), ConfigError, "num_encoder_tokens"),
        ((8, 0, [[], []]), ArgumentError, "new_computed_blocks"),
        ((8, 0, KVCacheBlocks(((),))), ConfigError, "new_computed_blocks"),
        ((8, 8), ConfigError, "new_computed_blocks"),
        ((8, 3), ConfigError, "num_new_computed_tokens"),
    ],
)
def test_arguments(
    manager: KVCacheManager, request_a: TokenRequest, arguments: Any, error: type[ConfigError], field: str
) -> None:
    refused = assert_refused(manager, error, lambda: manager.allocate_slots(request_a, *arguments))
    assert isinstance(refused, ConfigError)
    assert refused.field == field
    assert admit(manager, request_a) is not None


@pytest.mark.parametrize(
    "arguments",
    [
        (0,),
        (-1,),
        ("1",),
        (1.0,),
        (None,),
        (1, 0.0),
        (1, "0"),
        (1, 0, None, -1),
        (1, 0, None, 1.0),
        (1, 0, None, 0, 0.0),
        (1, 0, None, 0, -1),
        (1, 0, None, 0, 0, 0),
        (1, 0, None, 0, 0, False, 0.0),
        (1, 0, None, 0, 0, False, -1),
        (1, 0, ()),
    ],
)
@pytest.mark.parametrize("num_tokens", [17, 20])
def test_arguments_of_a_running_request(manager: KVCacheManager, arguments: Any, num_tokens: int) -> None:
    """Whether the step would need something or, as most do, nothing."""
    request = make_request("a", range(num_tokens), manager)
    assert admit(manager, request) is not None
    request.append_output_token_ids(7)
    with pytest.raises(ConfigError) as caught:
        manager.allocate_slots(request, *arguments)
    assert_refused(manager, type(caught.value), lambda: manager.allocate_slots(request, *arguments))
    assert manager.allocate_slots(request, 1) is not None


@pytest.mark.parametrize(
    "changes",
    [
        {"request_id": ["a"]},
        {"num_tokens": None},
        {"num_tokens": "20"},
        {"num_tokens": -1},
        {"num_computed_tokens": None},
        {"num_computed_tokens": -1},
        {"num_computed_tokens": 17.0},
    ],
)
def test_a_running_request_that_went_bad(manager: KVCacheManager, changes: dict[str, Any]) -> None:
    attributes = {**whole(manager), "num_tokens": 17}
    request: Any = Partial(**attributes)
    assert manager.allocate_slots(request, 17) is not None
    request.__dict__.update(num_tokens=18, num_computed_tokens=17)
    for name, value in changes.items():
        request.__dict__.pop(name)
        if value is not None:
            request.__dict__[name] = value
    with pytest.raises(ConfigError) as caught:
        manager.allocate_slots(request, 1)
    assert_refused(manager, type(caught.value), lambda: manager.allocate_slots(request, 1))


@pytest.mark.parametrize("max_model_len", [12, 10])
def test_a_request_that_outgrows_the_longest_one(max_model_len: int) -> None:
    """As in vLLM: no slot beyond the longest request, no error; the blocks that exist are indexed."""
    manager = make_manager(full(4), window(4, 6), num_blocks=30, max_model_len=max_model_len)
    request = make_request("a", range(max_model_len), manager)
    assert admit(manager, request) is not None
    for token in range(8):
        assert decode(manager, request, token) is manager.empty_kv_cache_blocks
    assert [len(ids) for ids in manager.get_block_ids("a")] == [3, 3]
    index = manager.block_pool.cached_block_hash_to_block.group(0)
    assert len(index) == max_model_len // 4
    request.append_output_token_ids([1, 2, 3, 4])
    kept = request.block_hashes[1:]
    del request.block_hashes[1:]  # too few hashes are told of all the same, before anything changes
    assert_refused(manager, ConfigError, lambda: manager.allocate_slots(request, 4))
    request.block_hashes.extend(kept)
    assert manager.allocate_slots(request, 4) is manager.empty_kv_cache_blocks
    assert len(index) == 3
    manager.free(request)
    manager.block_pool.check_invariants()


def test_fewer_computed_blocks_than_tokens(manager: KVCacheManager, request_a: TokenRequest) -> None:
    computed, length = manager.get_computed_blocks(request_a)
    assert length == 12
    for wrong in (0, 8, 16):
        assert_refused(manager, ConfigError, lambda: manager.allocate_slots(request_a, 4, wrong, computed))  # noqa: B023


def test_admitted_twice(manager: KVCacheManager, request_a: TokenRequest) -> None:
    computed, length = manager.get_computed_blocks(request_a)
    assert manager.allocate_slots(request_a, 8, length, computed) is not None
    attempts: list[Any] = [(8, length, computed), (8, 0, computed), (8, length), (8, 0, None, 0, 4)]
    for arguments in attempts:
        refused = assert_refused(
            manager,
            ConfigError,
            lambda: manager.allocate_slots(request_a, *arguments),  # noqa: B023
        )
        assert "runs already" in str(refused)
    no_blocks: Any = [[], []]
    assert_refused(manager, ArgumentError, lambda: manager.allocate_slots(request_a, 1, 0, no_blocks))
    request_a.num_computed_tokens = 20
    assert decode(manager, request_a) is not None


def test_computed_blocks_of_another_pool(manager: KVCacheManager, request_a: TokenRequest) -> None:
    other = make_manager(full(4), window(4, 6), num_blocks=30)
    run_once(other, range(12))
    computed, length = other.get_computed_blocks(request_a)
    refused = assert_refused(
        manager, BlockStateError, lambda: manager.allocate_slots(request_a, 8, length, computed)
    )
    assert "another" in str(refused) or "of this pool" in str(refused)
    strangers: Any = [object()] * 3
    strange = KVCacheBlocks((strangers, strangers))
    assert_refused(manager, ArgumentError, lambda: manager.allocate_slots(request_a, 8, 12, strange))


def test_computed_blocks_that_were_recycled_meanwhile(
    manager: KVCacheManager, request_a: TokenRequest
) -> None:
    computed, length = manager.get_computed_blocks(request_a)
    run_once(manager, range(500, 550), "somebody else, who takes all blocks but a few")
    assert_refused(manager, BlockStateError, lambda: manager.allocate_slots(request_a, 8, length, computed))


def test_computed_blocks_that_were_filled_again_meanwhile() -> None:
    manager = make_manager(full(4), num_blocks=5)
    run_once(manager, range(8))
    request = make_request("a", range(12), manager)
    computed, length = manager.get_computed_blocks(request)
    run_once(manager, range(100, 112), "somebody else, whose blocks are indexed, too")
    refused = assert_refused(
        manager, BlockStateError, lambda: manager.allocate_slots(request, 4, length, computed)
    )
    assert "something else" in str(refused)


class LongerThanItIs(list[Any]):
    """A sequence of no blocks that says it has one."""

    def __len__(self) -> int:
        return 1


def test_computed_blocks_in_a_sequence_that_lies() -> None:
    manager = make_manager(full(4))
    run_once(manager, range(8))
    request = make_request("a", range(9), manager)
    blocks = KVCacheBlocks((LongerThanItIs(),))
    assert_refused(manager, ConfigError, lambda: manager.allocate_slots(request, 5, 4, blocks))


@pytest.mark.parametrize(
    ("specs", "options", "wanted"),
    [
        ([full(4)], {}, 13),
        ([full(4), full(4)], {}, 26),
        ([full(4), window(4, 6)], {}, 15),
        ([full(4), chunked(4, 16)], {}, 16),  # after 48 tokens
        ([full(4), mamba(4, "align", 2)], {}, 16),
        ([mamba(4, "align", 9), mamba(4, "align", 1)], {}, 12),
    ],
)
def test_a_prompt_longer_than_the_pool(specs: Any, options: Any, wanted: int) -> None:
    """What could never be held is refused at once, with both numbers, however small its first step."""
    manager = make_manager(*specs, num_blocks=11, **options)
    request = make_request("a", range(50), manager)
    refused = assert_refused(manager, OutOfBlocksError, lambda: manager.allocate_slots(request, 4))
    assert isinstance(refused, OutOfBlocksError)
    assert (refused.wanted, refused.free) == (wanted, 10)


def test_a_long_prompt_of_which_little_is_held_at_once_is_not_too_long() -> None:
    manager = make_manager(window(4, 9), chunked(4, 8), num_blocks=11)
    request = make_request("a", range(400), manager)
    for start in range(0, 400, 8):
        request.num_computed_tokens = start
        assert manager.allocate_slots(request, 8) is not None


def test_an_input_longer_than_the_pool() -> None:
    manager = make_manager(full(4), cross(4), num_blocks=11, enable_caching=False)
    request = make_request("a", range(9), None)
    assert_refused(
        manager, OutOfBlocksError, lambda: manager.allocate_slots(request, 9, num_encoder_tokens=40)
    )
    assert manager.allocate_slots(request, 9, num_encoder_tokens=28) is not None


# --- requests that lack something


class Partial:
    """Has what the test gives it."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


def whole(manager: KVCacheManager) -> dict[str, Any]:
    made = make_request("a", range(20), manager)
    return {
        "request_id": "a",
        "num_tokens": 20,
        "num_computed_tokens": 0,
        "num_preemptions": 0,
        "block_hashes": made.block_hashes,
        "all_token_ids": made.all_token_ids,
        "lora_request": None,
        "skip_reading_prefix_cache": False,
    }


def test_any_object_with_the_attributes_is_a_request(manager: KVCacheManager) -> None:
    request = Partial(**whole(manager))
    computed, length = manager.get_computed_blocks(request)  # type: ignore[arg-type]
    assert manager.allocate_slots(request, 20 - length, length, computed) is not None  # type: ignore[arg-type]
    manager.free(request)  # type: ignore[arg-type]


@pytest.mark.parametrize("missing", ["num_tokens", "block_hashes", "skip_reading_prefix_cache"])
def test_looked_up_without(manager: KVCacheManager, missing: str) -> None:
    attributes = whole(manager)
    del attributes[missing]
    request: Any = Partial(**attributes)
    assert_refused(manager, ArgumentError, lambda: manager.get_computed_blocks(request))


@pytest.mark.parametrize(
    "changes",
    [
        {"request_id": None},
        {"request_id": 7},
        {"num_tokens": None},
        {"num_tokens": "20"},
        {"num_computed_tokens": None},
        {"num_computed_tokens": -1},
        {"num_preemptions": None},
        {"num_preemptions": "0"},
        {"block_hashes": None},
        {"block_hashes": 5},
        {"block_hashes": {b"x" * 32: 0}},
        {"block_hashes": b"x" * 32},
        {"block_hashes": []},
        {"block_hashes": [b"x" * 32] * 4},
        {"block_hashes": [b"x" * 32] * 4 + ["x"]},
        {"all_token_ids": None},
        {"all_token_ids": list(range(19))},
        {"all_token_ids": set(range(20))},
        {"lora_request": object()},
        {"lora_request": Partial(adapter_id="x", name="y")},
        {"lora_request": Partial(adapter_id=1, name=2)},
        {"skip_reading_prefix_cache": None},
    ],
)
def test_allocated_with_a_poor_request(manager: KVCacheManager, changes: dict[str, Any]) -> None:
    attributes = whole(manager)
    for name, value in changes.items():
        if value is None:
            del attributes[name]
        else:
            attributes[name] = value
    request: Any = Partial(**attributes)
    with pytest.raises(ConfigError) as caught:
        manager.allocate_slots(request, 20)
    assert_refused(manager, type(caught.value), lambda: manager.allocate_slots(request, 20))


@pytest.mark.parametrize(
    "call",
    [
        lambda manager: manager.free(object()),
        lambda manager: manager.free(Partial(request_id=3)),
        lambda manager: manager.get_blocks(3),
        lambda manager: manager.get_block_ids(None),
        lambda manager: manager.remove_skipped_blocks(b"a", 3),
        lambda manager: manager.remove_skipped_blocks("a", "3"),
        lambda manager: manager.get_num_common_prefix_blocks(3),
        lambda manager: manager.cache_blocks(object(), 3),
        lambda manager: manager.evict_blocks(["x"]),
    ],
)
def test_wrong_types_elsewhere(manager: KVCacheManager, call: Any) -> None:
    assert_refused(manager, ArgumentError, lambda: call(manager))


def test_caching_more_than_there_is(manager: KVCacheManager, request_a: TokenRequest) -> None:
    assert_refused(manager, ConfigError, lambda: manager.cache_blocks(request_a, 20))
    assert manager.allocate_slots(request_a, 0, 0, None, 0, 16, True) is not None
    assert_refused(manager, ConfigError, lambda: manager.cache_blocks(request_a, 17))
    request_a.block_hashes.pop()
    request_a.block_hashes.pop()
    assert_refused(manager, ConfigError, lambda: manager.cache_blocks(request_a, 16))


def test_computed_blocks_without_caching() -> None:
    manager = make_manager(full(4), enable_caching=False)
    request = make_request("a", range(20), None)
    given = KVCacheBlocks((manager.block_pool.blocks[1:2],))
    assert_refused(manager, ConfigError, lambda: manager.allocate_slots(request, 4, 4, given))
    assert_refused(manager, ConfigError, lambda: manager.allocate_slots(request, 4, 4))
