"""`BlockList`: all blocks of a pool as a sequence. Not compiled: a subclass of `Sequence`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import index
from typing import TYPE_CHECKING, overload

if TYPE_CHECKING:
    from blockpool.core.block import KVCacheBlock
    from blockpool.core.block_store import BlockStore


class BlockList(Sequence["KVCacheBlock"]):
    """Every block of a pool, by id, for reading; those that nobody needed so far are made when they are looked at.

    Behaves as a list of all blocks: indexes, slices (as lists), iteration, membership, equality with a list.
    """

    __slots__ = ("_store",)

    def __init__(self, store: BlockStore) -> None:
        self._store = store

    def __len__(self) -> int:
        return self._store.num_blocks

    @overload
    def __getitem__(self, idx: int) -> KVCacheBlock: ...

    @overload
    def __getitem__(self, idx: slice) -> list[KVCacheBlock]: ...

    def __getitem__(self, idx: int | slice) -> KVCacheBlock | list[KVCacheBlock]:
        size = self._store.num_blocks
        if isinstance(idx, slice):
            wanted = range(*idx.indices(size))
            if wanted:
                self._store.at(max(wanted[0], wanted[-1]))
            return (
                self._store.made[idx]
                if len(self._store.made) == size
                else [self._store.made[i] for i in wanted]
            )
        position = index(idx)
        if not -size <= position < size:
            raise IndexError("list index out of range")
        return self._store.at(position % size)

    def __iter__(self) -> Iterator[KVCacheBlock]:
        for block_id in range(self._store.num_blocks):
            yield self._store.at(block_id)

    def __contains__(self, item: object) -> bool:
        made = self._store.made
        block_id = getattr(item, "block_id", -1)
        return 0 <= block_id < len(made) and made[block_id] is item

    def __eq__(self, other: object) -> bool:
        if isinstance(other, BlockList):
            return self._store is other._store or (not len(self) and not len(other))
        if isinstance(other, list):
            return len(other) == len(self) and self._store.all() == other
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._store.all())
