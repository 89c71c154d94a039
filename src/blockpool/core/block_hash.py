"""Keys of the prefix index, hashes as events show them, and hashes of blocks at a coarser grain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from librt.strings import read_i64_be

from blockpool.core.arguments import as_bytes, as_int, as_list, as_size
from blockpool.core.types import BlockHash, BlockHashWithGroupId, BytesArg, IntArg
from blockpool.errors import ConfigError

GROUP_ID_BYTES: Final = 4
MAX_GROUP_ID: Final = 0xFFFFFFFF


def as_group_id(value: object) -> int:
    """A KV cache group id, 0 … 2^32 - 1.

    Raises:
        ArgumentError: For anything but an integer.
        ConfigError: For one out of range.
    """
    group_id = as_int("kv_cache_group_id", value)
    if not 0 <= group_id <= MAX_GROUP_ID:
        raise ConfigError("kv_cache_group_id", group_id, f"must be in 0 … {MAX_GROUP_ID}")
    return group_id


def join_key(block_hash: bytes, group_id: int) -> BlockHashWithGroupId:
    """`make_block_hash_with_group_id` for arguments that are known to be right."""
    return BlockHashWithGroupId(block_hash + group_id.to_bytes(GROUP_ID_BYTES, "big"))


def make_block_hash_with_group_id(block_hash: BytesArg, group_id: IntArg) -> BlockHashWithGroupId:
    """Joins a block hash and a KV cache group id to a key of the index.

    Args:
        block_hash: Digest of the block.
        group_id: 0 … 2^32 - 1; written as 4 bytes, big endian.

    Raises:
        ArgumentError: For a wrong type.
        ConfigError: For a group id out of range.
    """
    return join_key(as_bytes("block_hash", block_hash), as_group_id(group_id))


def get_block_hash(key: BytesArg) -> BlockHash:
    """The block hash of a key.

    Raises:
        ArgumentError: If the key is not bytes.
        ConfigError: If it is too short to end in a group id.
    """
    return BlockHash(_checked_key(key)[:-GROUP_ID_BYTES])


def get_group_id(key: BytesArg) -> int:
    """The KV cache group id of a key.

    Raises:
        ArgumentError: If the key is not bytes.
        ConfigError: If it is too short to end in a group id.
    """
    return int.from_bytes(_checked_key(key)[-GROUP_ID_BYTES:], "big")


def _checked_key(key: object) -> bytes:
    data = as_bytes("key", key)
    if len(data) < GROUP_ID_BYTES:
        raise ConfigError("key", data, f"must end in the {GROUP_ID_BYTES} bytes of a group id")
    return data


def external_block_hash(block_hash: BytesArg) -> int:
    """The hash as events carry it: its last 8 bytes, big endian, as an unsigned integer.

    Raises:
        ArgumentError: If it is not bytes.
    """
    digest = as_bytes("block_hash", block_hash)
    size = len(digest)
    if size < 8:
        return int.from_bytes(digest, "big")
    signed: int = read_i64_be(digest, size - 8)
    return signed if signed >= 0 else signed + 0x10000000000000000


def scale_factor(hash_block_size: int, block_size: object) -> int:
    """How many fine hashes one block takes.

    Raises:
        ArgumentError: If `block_size` is no integer.
        ConfigError: If it is not a positive multiple of `hash_block_size`.
    """
    size = as_size("block_size", block_size)
    if size % hash_block_size != 0:
        raise ConfigError("block_size", size, f"must be a multiple of hash_block_size={hash_block_size}")
    return size // hash_block_size


def coarse_hash(block_hashes: Sequence[object], factor: int, position: int) -> BlockHash:
    """The hash of block `position` when a block takes `factor` fine hashes.

    Raises:
        ArgumentError: If a fine hash is not bytes.
    """
    if factor == 1:
        return BlockHash(as_bytes("block_hashes", block_hashes[position]))
    parts = as_list("block_hashes", block_hashes[position * factor : (position + 1) * factor])
    return BlockHash(b"".join([as_bytes("block_hashes", part) for part in parts]))
