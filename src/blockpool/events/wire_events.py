"""Events as they come off the wire, with every field that any dialect has."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final, NamedTuple, TypeAlias

import msgspec

from blockpool.core.events import KVCacheEvent

STORED_FIELDS: Final = (
    "block_hashes",
    "parent_block_hash",
    "token_ids",
    "block_size",
    "lora_id",
    "medium",
    "lora_name",
)
"""Always on the wire, in this order."""

STORED_DETAILS: Final = (
    "extra_keys",
    "group_idx",
    "kv_cache_spec_kind",
    "kv_cache_spec_sliding_window",
    "locality",
    "ownership",
    "session_id",
)
REMOVED_FIELDS: Final = ("block_hashes", "medium")
REMOVED_DETAILS: Final = ("group_idx", "locality", "ownership")


Hash: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
"""A block hash, 0 … 2^64 - 1."""


class _Event(msgspec.Struct, eq=False, gc=False):
    """Equal to an event of the same kind with the same values, whatever dialect either came in."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Event) or self.__struct_config__.tag != other.__struct_config__.tag:
            return NotImplemented
        return self._values() == other._values()

    __hash__ = None  # type: ignore[assignment]

    def _values(self) -> tuple[Any, ...]:
        """All fields that any dialect has."""
        return ()


class StoredEvent(_Event, eq=False, gc=False, array_like=True, tag="BlockStored"):
    """Blocks were indexed, in the order of the prompt. The first seven fields are those of `blockpool.BlockStored`.

    Attributes:
        block_hashes: One per block, in 0 … 2^64 - 1, whatever form they came in.
        parent_block_hash: Hash of the block before the first of these; None at the start of a prompt.
        token_ids: Their tokens.
        block_size: Tokens per block.
        lora_id: Number of the adapter.
        medium: Where the blocks lie: "GPU", "CPU", "STORAGE", or what the publisher says.
        lora_name: Name of the adapter.
        extra_keys: What else was hashed, one entry per block.
        group_idx: KV cache group.
        kv_cache_spec_kind: Attention type of the group.
        kv_cache_spec_sliding_window: Its window in tokens.
        locality: "LOCAL" or "REMOTE", relative to the publisher; None in the array dialect, as are the next two.
        ownership: Name of a second-level store.
        session_id: Session that made the publisher store or report this.
    """

    block_hashes: list[Hash]
    parent_block_hash: Hash | None
    token_ids: list[int]
    block_size: int
    lora_id: int | None = None
    medium: str | None = None
    lora_name: str | None = None
    extra_keys: list[Any] | None = None
    group_idx: int | None = None
    kv_cache_spec_kind: str | None = None
    kv_cache_spec_sliding_window: int | None = None
    locality: ClassVar[str | None] = None
    ownership: ClassVar[str | None] = None
    session_id: ClassVar[str | None] = None

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in (*STORED_FIELDS, *STORED_DETAILS))


class MapStoredEvent(StoredEvent, eq=False, gc=False, array_like=False, tag="BlockStored"):
    """A `StoredEvent` with what only the map dialect can say."""

    locality: str | None = None  # type: ignore[misc]
    ownership: str | None = None  # type: ignore[misc]
    session_id: str | None = None  # type: ignore[misc]


class RemovedEvent(_Event, eq=False, gc=False, array_like=True, tag="BlockRemoved"):
    """Blocks were dropped from the index, one per hash. For the fields see `StoredEvent`."""

    block_hashes: list[Hash]
    medium: str | None = None
    group_idx: int | None = None
    locality: ClassVar[str | None] = None
    ownership: ClassVar[str | None] = None

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in (*REMOVED_FIELDS, *REMOVED_DETAILS))


class MapRemovedEvent(RemovedEvent, eq=False, gc=False, array_like=False, tag="BlockRemoved"):
    """A `RemovedEvent` with what only the map dialect can say."""

    locality: str | None = None  # type: ignore[misc]
    ownership: str | None = None  # type: ignore[misc]


class ClearedEvent(_Event, eq=False, gc=False, array_like=True, tag="AllBlocksCleared"):
    """The whole index of the publisher was emptied."""


class MapClearedEvent(ClearedEvent, eq=False, gc=False, array_like=False, tag="AllBlocksCleared"):
    """A `ClearedEvent` that was written as a map."""


WireEvent: TypeAlias = StoredEvent | RemovedEvent | ClearedEvent
AnyEvent: TypeAlias = KVCacheEvent | WireEvent
"""An event of a pool, or one that was decoded."""


class EventBatch(NamedTuple):
    """What one payload says.

    Attributes:
        ts: Seconds since 1970 at the publisher.
        events: In order.
        data_parallel_rank: Of the publisher, or None.
        num_unknown: Events of unknown types that were left out.
    """

    ts: float
    events: list[WireEvent]
    data_parallel_rank: int | None
    num_unknown: int = 0
