"""`KVCacheBlock`: what the host knows about one block of accelerator memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final
from weakref import WeakValueDictionary

from mypy_extensions import i32, i64, mypyc_attr

from blockpool.core.arguments import as_int
from blockpool.core.block_hash import get_block_hash, get_group_id, join_key
from blockpool.core.types import BlockHashWithGroupId, BytesArg, IntArg
from blockpool.errors import ArgumentError, ConfigError, HashAlreadySetError

if TYPE_CHECKING:
    from blockpool.core.block_store import BlockStore

MAX_BLOCK_ID: Final = 0x7FFFFFFE
OWNER_BITS: Final = 31
OWNER_MASK: Final = 0x7FFFFFFF
NOBODY: Final = 1
"""The owner of a block that has not been in a queue yet."""

GAP_ID: Final = -2
"""`block_id` of what stands in a queue for blocks that are not made yet (`BlockStore`)."""

stores: WeakValueDictionary[int, BlockStore] = WeakValueDictionary()
"""The stores by owner. Only the two neighbours of a gap look here, when somebody reads their links."""


@final
@mypyc_attr(acyclic=True)  # the circle that the links make is cut by the queue
class KVCacheBlock:
    """Metadata of one block.

    The digest and its group id are kept apart, because the index is keyed by them apart; `block_hash` joins them.
    Equality and hashing are by identity. Few fields, the small ones first: a compiled block takes 64 bytes, and the
    garbage collector does not see it.

    `_home` tells whose the block is and where it is indexed: the number of its queue (`OWNER_BITS`), above it the group
    id. It is negated for a null block. `_prev` and `_next` are the links as they are, the gap included.

    Args:
        block_id: -1 … 2^31 - 2.

    Raises:
        ArgumentError: If it is no integer.
        ConfigError: If it is out of range.

    Attributes:
        block_id: Position in the pool, 0 … `num_gpu_blocks` - 1; -1 for the two sentinels of a queue.
        ref_cnt: How many requests hold the block; 0 means that it is in the free queue.
        prev_free_block: Older neighbour in the free queue, None outside of it. Only the queue writes it.
        next_free_block: Younger neighbour in the free queue, None outside of it. Only the queue writes it.
    """

    __slots__ = (
        "_hash",
        "_home",
        "_next",
        "_prev",
        "block_id",
        "ref_cnt",
    )

    def __init__(self, block_id: IntArg) -> None:
        number = block_id if isinstance(block_id, int) else as_int("block_id", block_id)
        if not -1 <= number <= MAX_BLOCK_ID:
            raise ConfigError("block_id", number, f"must be in -1 … {MAX_BLOCK_ID}")
        self.block_id: i32 = number
        self.ref_cnt: i32 = 0
        self._home: i64 = NOBODY
        self._hash: bytes | None = None
        self._prev: KVCacheBlock | None = None
        self._next: KVCacheBlock | None = None

    @property
    def prev_free_block(self) -> KVCacheBlock | None:
        """The older neighbour."""
        before = self._prev
        return _made_end(before, True) if before is not None and before.block_id == GAP_ID else before

    @prev_free_block.setter
    def prev_free_block(self, block: KVCacheBlock | None) -> None:
        self._prev = block

    @property
    def next_free_block(self) -> KVCacheBlock | None:
        """The younger neighbour."""
        after = self._next
        return _made_end(after, False) if after is not None and after.block_id == GAP_ID else after

    @next_free_block.setter
    def next_free_block(self, block: KVCacheBlock | None) -> None:
        self._next = block

    @property
    def is_null(self) -> bool:
        """True for the one placeholder block of a pool."""
        return self._home < 0

    @is_null.setter
    def is_null(self, is_null: bool) -> None:
        if self.is_null != is_null:
            self._home = -self._home

    @property
    def block_hash(self) -> BlockHashWithGroupId | None:
        """The key under which the block is indexed (block hash + group id), or None.

        Raises:
            HashAlreadySetError: On setting, when a hash is there; `reset_hash()` must come first.
            ArgumentError: On setting something else than bytes.
            ConfigError: On setting a key too short to end in a group id.
        """
        digest = self._hash
        return None if digest is None else join_key(digest, group_of(self._home))

    @block_hash.setter
    def block_hash(self, block_hash: BytesArg) -> None:
        digest = get_block_hash(block_hash)
        if self._hash is not None:
            raise HashAlreadySetError(self.block_id, "no hash", f"it has {self._hash.hex()}")
        group_id: i64 = get_group_id(block_hash)
        home = self._home
        if home < 0:
            self._home = -home_of(-home & OWNER_MASK, group_id)
        else:
            self._home = home_of(home & OWNER_MASK, group_id)
        self._hash = digest

    @property
    def _block_hash(self) -> BlockHashWithGroupId | None:
        return self.block_hash

    def __reduce_ex__(self, protocol: object) -> tuple[object, ...]:
        raise ArgumentError(
            "self", "KVCacheBlock", "a block belongs to its pool and cannot be copied or pickled"
        )

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


def _made_end(gap: KVCacheBlock, youngest: bool) -> KVCacheBlock | None:
    """The youngest or oldest of the blocks that a gap stands for; it is made for that. None when the pool is gone."""
    store = stores.get(gap._home)
    if store is None:
        return None
    block_id = store.num_blocks - 1 if youngest else len(store.made)
    return store.at(block_id)


def group_of(home: i64) -> int:
    """The group id in the `_home` of a block."""
    return (-home if home < 0 else home) >> OWNER_BITS


def home_of(owner: i64, group_id: i64) -> i64:
    """The `_home` of a block of that queue that is indexed in that group."""
    return owner | group_id << OWNER_BITS
