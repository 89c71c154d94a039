"""A remembered chunk gives what hashing gives, and is found by its content and its place alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockpool import BlockHasher
from blockpool.errors import BlockPoolError
from blockpool.integrations.vllm.chain_memory import ChainMemory, Keys

BLOCK_SIZE = 4


def make(max_chunks: int = 3, algorithm: str = "sha256") -> tuple[ChainMemory, BlockHasher]:
    hasher = BlockHasher(algorithm, BLOCK_SIZE, "seed")
    return ChainMemory(hasher, chunk_tokens=2 * BLOCK_SIZE, max_chunks=max_chunks), hasher


@given(
    st.lists(
        st.tuples(
            st.lists(st.lists(st.integers(0, 1), min_size=4, max_size=4), max_size=9),
            st.integers(0, 2),
            st.sampled_from([None, ("adapter",), (("lora", "adapter", "nowhere"),)]),
        ),
        max_size=12,
    ),
    st.integers(1, 4),
)
def test_the_same_hashes_as_without(
    prompts: list[tuple[list[list[int]], int, Keys]], max_chunks: int
) -> None:
    memory, hasher = make(max_chunks)
    for blocks, first, keys in prompts:
        tokens = [token for block in blocks for token in block]
        parent = bytes([first]) * 32 if first else hasher.none_hash
        expected = hasher.hash_tokens(tokens, parent, None if keys is None else [keys] * len(blocks))
        assert memory.hash_tokens(tokens, parent, keys) == expected
        assert len(memory) <= max_chunks


class Counting:
    """A hasher that notes what it is asked."""

    def __init__(self, hasher: BlockHasher) -> None:
        self.hasher = hasher
        self.block_size = hasher.block_size
        self.num_tokens = 0

    def hash_tokens(self, token_ids: Any, parent: Any, extra_keys: Any) -> Any:
        self.num_tokens += len(token_ids)
        return self.hasher.hash_tokens(token_ids, parent, extra_keys)


def test_what_is_known_is_not_hashed_again_until_it_is_dropped() -> None:
    counting = Counting(BlockHasher("sha256", BLOCK_SIZE, "seed"))
    memory = ChainMemory(counting, chunk_tokens=8, max_chunks=2)  # type: ignore[arg-type]
    root = bytes(32)
    first, second, third = ([number] * 8 for number in (1, 2, 3))
    memory.hash_tokens(first + second + [9] * 4, root)
    assert counting.num_tokens == 20
    memory.hash_tokens(first + second + [9] * 4, root)
    assert counting.num_tokens == 24  # the part that is no whole chunk
    memory.hash_tokens(first, root)  # now `second` is the one that was not used for longest
    memory.hash_tokens(third, root)
    assert counting.num_tokens == 32
    memory.hash_tokens(first, root)
    assert counting.num_tokens == 32
    memory.hash_tokens(first + second, root)
    assert counting.num_tokens == 40
    memory.hash_tokens(second, root)  # the same tokens in another place
    assert counting.num_tokens == 48
    memory.hash_tokens(second, root, ("adapter",))
    assert counting.num_tokens == 56
    memory.hash_tokens(second, root, ("".join(["adap", "ter"]),))  # equal is the same
    assert counting.num_tokens == 56


@pytest.mark.parametrize("tokens", [[-1] * 8, [1 << 40] * 8, ["a"] * 8, [1.5] * 4])
def test_tokens_that_are_none_are_refused_and_not_kept(tokens: list[Any]) -> None:
    memory, _ = make()
    with pytest.raises(BlockPoolError):
        memory.hash_tokens(tokens, bytes(32))
    assert len(memory) == 0
