"""Golden block hashes, byte for byte as vLLM 0.16.0 makes them."""

import cbor2
import pytest

from blockpool import BlockHasher, external_block_hash

from .hashing_reference import (
    COMPATIBLE,
    DIGEST,
    GOLDEN,
    GOLDEN_BLOCKS,
    SEED,
    reference_block,
    reference_none_hash,
)


@pytest.mark.parametrize("algorithm", COMPATIBLE)
def test_none_hash(algorithm: str) -> None:
    assert BlockHasher(algorithm, 16, SEED).none_hash.hex() == GOLDEN[algorithm][0]


@pytest.mark.parametrize("algorithm", COMPATIBLE)
def test_blocks_one_by_one(algorithm: str) -> None:
    hasher = BlockHasher(algorithm, 16, SEED, key_schema="untagged")
    parent = None
    for (tokens, extra), golden in zip(GOLDEN_BLOCKS, GOLDEN[algorithm][1:], strict=True):
        parent = hasher.hash_block(parent, tokens, extra)
        assert parent.hex() == golden


@pytest.mark.parametrize("algorithm", COMPATIBLE)
@pytest.mark.parametrize("key_schema", ["tagged", "untagged"])
def test_blocks_at_once(algorithm: str, key_schema: str) -> None:
    """Extra keys that are passed in are hashed as they are, whatever the schema."""
    hasher = BlockHasher(algorithm, 16, SEED, key_schema=key_schema)
    tokens = [token for block, _ in GOLDEN_BLOCKS for token in block]
    extras = [extra for _, extra in GOLDEN_BLOCKS]
    hashes = hasher.hash_tokens(tokens, extra_keys=extras)
    assert [block_hash.hex() for block_hash in hashes] == list(GOLDEN[algorithm][1:])


@pytest.mark.parametrize("algorithm", COMPATIBLE)
def test_the_reference_itself_makes_the_golden_hashes(algorithm: str) -> None:
    """Else the comparisons against the reference would prove nothing."""
    parent = reference_none_hash(algorithm, SEED)
    assert parent.hex() == GOLDEN[algorithm][0]
    for (tokens, extra), golden in zip(GOLDEN_BLOCKS, GOLDEN[algorithm][1:], strict=True):
        parent = reference_block(algorithm, parent, tokens, extra)
        assert parent.hex() == golden


@pytest.mark.parametrize(
    ("algorithm", "expected"),
    [("sha256", 7982712666671721126), ("sha256_cbor", 12687895063098490012)],
)
def test_external_hash_of_block_0(algorithm: str, expected: int) -> None:
    block_hash = BlockHasher(algorithm, 16, SEED).hash_block(None, range(16))
    assert external_block_hash(block_hash) == expected


@pytest.mark.parametrize("algorithm", ["sha256_cbor", "xxhash_cbor"])
def test_the_cbor_sample(algorithm: str) -> None:
    sample = bytes.fromhex("83" + "5820" + "00" * 32 + "83" + "01" + "02" + "19012c" + "f6")
    assert cbor2.dumps((bytes(32), (1, 2, 300), None), canonical=True) == sample
    hasher = BlockHasher(algorithm, 3, SEED)
    assert hasher.hash_block(bytes(32), [1, 2, 300]) == DIGEST[algorithm](sample)


@pytest.mark.parametrize("algorithm", COMPATIBLE)
@pytest.mark.parametrize("seed", ["", "0", "vllm-none-hash", "samen 種", "x" * 300, "y" * 70_000])
def test_none_hash_of_any_seed(algorithm: str, seed: str) -> None:
    assert BlockHasher(algorithm, 16, seed).none_hash == reference_none_hash(algorithm, seed)
