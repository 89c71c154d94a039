"""`KVCacheBlock`: what the host knows about one block of accelerator memory."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i32

from blockpool.core.arguments import as_int
from blockpool.core.block_hash import get_block_hash, get_group_id, join_key, signed_group_id
from blockpool.core.types import BlockHashWithGroupId, BytesArg, IntArg
from blockpool.errors import HashAlreadySetError

NOBODY: Final = 1
"""The owner of a block that has not been in a queue yet. Owners are positive; a null block has its owner negated."""


@final
class KVCacheBlock:
    """Metadata of one block.

    The digest and its group id are kept apart, because the index is keyed by them apart; `block_hash` joins them.
    Equality and hashing are by identity. The small fields stand first: so a compiled block takes 80 bytes.

    Args:
        block_id: -1 … 2^31 - 1.

    Raises:
        ArgumentError: If it is no integer.

    Attributes:
        block_id: Position in the pool, 0 … `num_gpu_blocks` - 1; -1 for the two sentinels of a queue.
        ref_cnt: How many requests hold the block; 0 means that it is in the free queue.
        prev_free_block: Older neighbour in the free queue, None outside of it. Only the queue writes it.
        next_free_block: Younger neighbour in the free queue, None outside of it. Only the queue writes it.
    """

    __slots__ = (
        "_hash",
        "_owner",
        "_signed_group_id",
        "block_id",
        "next_free_block",
        "prev_free_block",
        "ref_cnt",
    )

    def __init__(self, block_id: IntArg) -> None:
        self.block_id: i32 = block_id if isinstance(block_id, int) else as_int("block_id", block_id)
        self.ref_cnt: i32 = 0
        self._signed_group_id: i32 = 0
        self._owner: i32 = NOBODY
        self._hash: bytes | None = None
        self.prev_free_block: KVCacheBlock | None = None
        self.next_free_block: KVCacheBlock | None = None

    @property
    def is_null(self) -> bool:
        """True for the one placeholder block of a pool."""
        return self._owner < 0

    @is_null.setter
    def is_null(self, is_null: bool) -> None:
        if self.is_null != is_null:
            self._owner = -self._owner

    @property
    def block_hash(self) -> BlockHashWithGroupId | None:
        """The key under which the block is indexed (block hash + group id), or None.

        Raises:
            HashAlreadySetError: On setting, when a hash is there; `reset_hash()` must come first.
            ArgumentError: On setting something else than bytes.
            ConfigError: On setting a key too short to end in a group id.
        """
        digest = self._hash
        return None if digest is None else join_key(digest, self._signed_group_id)

    @block_hash.setter
    def block_hash(self, block_hash: BytesArg) -> None:
        digest = get_block_hash(block_hash)
        if self._hash is not None:
            raise HashAlreadySetError(self.block_id, "no hash", f"it has {self._hash.hex()}")
        self._signed_group_id = signed_group_id(get_group_id(block_hash))
        self._hash = digest

    @property
    def _block_hash(self) -> BlockHashWithGroupId | None:
        return self.block_hash

    def reset_hash(self) -> None:
        """Forgets the hash, if there is one. The index is not told."""
        self._hash = None

    def __repr__(self) -> str:
        before = self.prev_free_block
        after = self.next_free_block
        return (
            f"KVCacheBlock(block_id={self.block_id}, ref_cnt={self.ref_cnt}, "
            f"block_hash={self.block_hash!r}, is_null={self.is_null}, "
            f"prev_free_block={None if before is None else before.block_id}, "
            f"next_free_block={None if after is None else after.block_id})"
        )
