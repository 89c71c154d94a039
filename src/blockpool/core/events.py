"""What happened to the prefix index, for KV transfer layers and routers."""

from __future__ import annotations

from typing import Final, TypeAlias, final

MEDIUM_GPU: Final = "GPU"

ExternalBlockHash: TypeAlias = int | bytes
"""A block hash as events carry it: its last 8 bytes as an unsigned integer, or the digest itself."""


@final
class BlockStored:
    """Full blocks were indexed, in the order of the prompt.

    Attributes:
        block_hashes: One per block.
        parent_block_hash: Hash of the block before the first of these; None at the start of a prompt.
        token_ids: Their tokens; `len(token_ids) == len(block_hashes) * block_size`.
        block_size: Tokens per block.
        lora_id: Number of the adapter, or None.
        medium: Where the blocks lie.
        lora_name: Name of the adapter, or None.
    """

    __slots__ = (
        "block_hashes",
        "block_size",
        "lora_id",
        "lora_name",
        "medium",
        "parent_block_hash",
        "token_ids",
    )

    def __init__(
        self,
        block_hashes: list[ExternalBlockHash],
        parent_block_hash: ExternalBlockHash | None,
        token_ids: list[int],
        block_size: int,
        lora_id: int | None,
        medium: str | None,
        lora_name: str | None,
    ) -> None:
        self.block_hashes = block_hashes
        self.parent_block_hash = parent_block_hash
        self.token_ids = token_ids
        self.block_size = block_size
        self.lora_id = lora_id
        self.medium = medium
        self.lora_name = lora_name

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, BlockStored)
            and self.block_hashes == other.block_hashes
            and self.parent_block_hash == other.parent_block_hash
            and self.token_ids == other.token_ids
            and self.block_size == other.block_size
            and self.lora_id == other.lora_id
            and self.medium == other.medium
            and self.lora_name == other.lora_name
        )

    def __reduce__(self) -> tuple[object, ...]:
        fields = (
            self.block_hashes,
            self.parent_block_hash,
            self.token_ids,
            self.block_size,
            self.lora_id,
            self.medium,
            self.lora_name,
        )
        return BlockStored, fields

    def __hash__(self) -> int:
        return hash(
            (tuple(self.block_hashes), self.parent_block_hash, tuple(self.token_ids), self.block_size)
        )

    def __repr__(self) -> str:
        return (
            f"BlockStored(block_hashes={self.block_hashes!r}, parent_block_hash={self.parent_block_hash!r}, "
            f"token_ids={self.token_ids!r}, block_size={self.block_size}, lora_id={self.lora_id!r}, "
            f"medium={self.medium!r}, lora_name={self.lora_name!r})"
        )


@final
class BlockRemoved:
    """Blocks were dropped from the index, one per hash; other blocks under the same hash may remain.

    Attributes:
        block_hashes: One per block.
        medium: Where the blocks lie.
    """

    __slots__ = ("block_hashes", "medium")

    def __init__(self, block_hashes: list[ExternalBlockHash], medium: str | None) -> None:
        self.block_hashes = block_hashes
        self.medium = medium

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, BlockRemoved)
            and self.block_hashes == other.block_hashes
            and self.medium == other.medium
        )

    def __reduce__(self) -> tuple[object, ...]:
        return BlockRemoved, (self.block_hashes, self.medium)

    def __hash__(self) -> int:
        return hash((tuple(self.block_hashes), self.medium))

    def __repr__(self) -> str:
        return f"BlockRemoved(block_hashes={self.block_hashes!r}, medium={self.medium!r})"


@final
class AllBlocksCleared:
    """The whole index was emptied."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AllBlocksCleared)

    def __reduce__(self) -> tuple[object, ...]:
        return AllBlocksCleared, ()

    def __hash__(self) -> int:
        return hash("AllBlocksCleared")

    def __repr__(self) -> str:
        return "AllBlocksCleared()"


KVCacheEvent: TypeAlias = BlockStored | BlockRemoved | AllBlocksCleared
