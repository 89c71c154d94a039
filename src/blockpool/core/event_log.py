"""`EventLog`: what happened to the index, noted so cheaply that a request hardly feels it."""

from __future__ import annotations

from typing import Final, cast, final

from blockpool.core.arguments import as_choice
from blockpool.core.block_hash import external_block_hash
from blockpool.core.events import (
    MEDIUM_GPU,
    AllBlocksCleared,
    BlockRemoved,
    BlockStored,
    ExternalBlockHash,
    KVCacheEvent,
)

EVENT_GRANULARITIES: Final = ("every_copy", "last_copy")
"""Whether events tell of every block, as vLLM's do, or only of the first and the last under one key."""


def as_granularity(value: object) -> str:
    """One of `EVENT_GRANULARITIES`.

    Raises:
        ArgumentError: If it is no string.
        ConfigError: If it is none of them.
    """
    return as_choice("event_granularity", value, EVENT_GRANULARITIES)


@final
class StoredRun:
    """Blocks that were indexed, one after the other in a prompt: a `BlockStored` before its hashes are converted."""

    __slots__ = ("block_hashes", "block_size", "lora_id", "lora_name", "parent_hash", "token_ids")

    def __init__(
        self,
        block_hashes: list[object],
        parent_hash: object,
        token_ids: list[object],
        block_size: int,
        lora_id: int | None,
        lora_name: str | None,
    ) -> None:
        self.block_hashes = block_hashes
        self.parent_hash = parent_hash
        self.token_ids = token_ids
        self.block_size = block_size
        self.lora_id = lora_id
        self.lora_name = lora_name

    def piece(self, begin: int, end: int) -> StoredRun:
        """The run of its blocks begin … end - 1, counted from 0."""
        return StoredRun(
            self.block_hashes[begin:end],
            self.parent_hash if begin == 0 else self.block_hashes[begin - 1],
            self.token_ids[begin * self.block_size : end * self.block_size],
            self.block_size,
            self.lora_id,
            self.lora_name,
        )

    def event(self, as_integers: bool) -> BlockStored:
        """The event; its lists are this run's own."""
        hashes = [_event_hash(cast(bytes, digest), as_integers) for digest in self.block_hashes]
        parent = self.parent_hash
        return BlockStored(
            hashes,
            _event_hash(parent, as_integers) if isinstance(parent, bytes) else None,
            cast("list[int]", self.token_ids),
            self.block_size,
            self.lora_id,
            MEDIUM_GPU,
            self.lora_name,
        )


@final
class EventLog:
    """Changes of one pool's index, in order. `events()` makes the events when somebody wants them.

    The pool writes to one log at a time. One that `take_event_log` has handed over is no longer written to, so another
    thread may read it: one thread, or each a `copy`, since `events` changes what the log keeps.

    Args:
        int_block_hashes: Whether events carry hashes as 64-bit unsigned integers, or as the digests themselves.
        batch_removes: Whether hashes that were dropped one after the other share one `BlockRemoved`.
    """

    __slots__ = ("_events", "batch_removes", "int_block_hashes", "records")

    def __init__(self, int_block_hashes: bool, batch_removes: bool) -> None:
        self.int_block_hashes: bool = int_block_hashes
        self.batch_removes: bool = batch_removes
        self.records: list[object] = []
        """What no event was made of yet: a digest that was dropped, a `StoredRun`, or None for a cleared index."""
        self._events: list[KVCacheEvent] = []

    def successor(self) -> EventLog:
        """An empty log with the same settings."""
        return EventLog(self.int_block_hashes, self.batch_removes)

    def copy(self) -> EventLog:
        """Another log with the same content, which makes its events by itself. O(events made already)."""
        other = self.successor()
        other.records = self.records
        other._events = self._events.copy()
        return other

    def events(self) -> list[KVCacheEvent]:
        """All events so far: always the same list, to which later ones are added. Once O(what is new)."""
        if self.records:
            records = self.records
            self.records = []
            self._make(records)
        return self._events

    @property
    def num_made(self) -> int:
        """Events that were made already."""
        return len(self._events)

    def __len__(self) -> int:
        """Records and events; 0 if nothing happened."""
        return len(self.records) + len(self._events)

    def _make(self, records: list[object]) -> None:
        events = self._events
        as_integers = self.int_block_hashes
        removed: list[ExternalBlockHash] | None = None
        for record in records:
            if isinstance(record, bytes):
                if removed is not None:
                    removed.append(_event_hash(record, as_integers))
                    continue
                hashes = [_event_hash(record, as_integers)]
                events.append(BlockRemoved(hashes, MEDIUM_GPU))
                if self.batch_removes:
                    removed = hashes
                continue
            removed = None
            if isinstance(record, StoredRun):
                events.append(record.event(as_integers))
            else:
                events.append(AllBlocksCleared())


def _event_hash(digest: bytes, as_integer: bool) -> ExternalBlockHash:
    """A hash in the form that events carry."""
    return external_block_hash(digest) if as_integer else digest
