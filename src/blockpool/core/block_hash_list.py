"""`BlockHashListWithBlockSize`: hashes of larger blocks as a lazy sequence. Not compiled: a subclass of `Sequence`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

from blockpool.core.arguments import as_int, as_size
from blockpool.core.block_hash import coarse_hash, scale_factor
from blockpool.core.types import BlockHash
from blockpool.errors import ArgumentError


class BlockHashListWithBlockSize(Sequence[BlockHash]):
    """Hashes of larger blocks, derived from the hashes of smaller ones when they are asked for.

    Entry i is the concatenation of the fine hashes of coarse block i; as each of them chains over its whole prefix, so
    does the concatenation. A trailing coarse block that is not complete does not count.

    Args:
        block_hashes: Fine hashes, one per `hash_block_size` tokens. Not copied: what is appended later is seen.
        hash_block_size: Tokens per fine hash, at least 1.
        block_size: Tokens per coarse block, a multiple of `hash_block_size`.

    Raises:
        ArgumentError: For an argument of the wrong type.
        ConfigError: If the sizes are below 1 or do not divide.
    """

    def __init__(self, block_hashes: Sequence[bytes], hash_block_size: int, block_size: int) -> None:
        if isinstance(block_hashes, (str, bytes)) or not isinstance(block_hashes, Sequence):
            raise ArgumentError("block_hashes", block_hashes, "a sequence of hashes is needed")
        self.block_hashes = block_hashes
        self.scale_factor = scale_factor(as_size("hash_block_size", hash_block_size), block_size)

    def __len__(self) -> int:
        return len(self.block_hashes) // self.scale_factor

    @overload
    def __getitem__(self, idx: int) -> BlockHash: ...

    @overload
    def __getitem__(self, idx: slice) -> list[BlockHash]: ...

    def __getitem__(self, idx: int | slice) -> BlockHash | list[BlockHash]:
        if isinstance(idx, slice):
            return [self._at(i) for i in range(*idx.indices(len(self)))]
        position = as_int("idx", idx)
        size = len(self)
        if not -size <= position < size:
            raise IndexError(f"block {position} of {size}")
        return self._at(position % size)

    def __iter__(self) -> Iterator[BlockHash]:
        for i in range(len(self)):
            yield self._at(i)

    def _at(self, position: int) -> BlockHash:
        return coarse_hash(self.block_hashes, self.scale_factor, position)
