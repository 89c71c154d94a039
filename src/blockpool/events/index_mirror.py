"""`IndexMirror`: the index of a pool as its events tell it, with all that a snapshot has to say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, final

import msgspec

from blockpool.core.block_hash import external_block_hash
from blockpool.core.event_log import EventLog, StoredRun
from blockpool.core.events import MEDIUM_GPU, AllBlocksCleared, BlockRemoved, BlockStored
from blockpool.errors import ArgumentError
from blockpool.events.encoder import ENCODE
from blockpool.events.wire_events import AnyEvent, ClearedEvent, MapStoredEvent, RemovedEvent, StoredEvent


class Settings(NamedTuple):
    """What all blocks of one event have in common; one object for all of them."""

    block_size: int
    lora_id: int | None
    lora_name: str | None
    kv_cache_spec_kind: str | None = None
    kv_cache_spec_sliding_window: int | None = None
    session_id: str | None = None


Place: TypeAlias = tuple[str | None, int | None, str | None, str | None]
"""Medium, group, locality, ownership: what a removal names beside the hash."""

Copy: TypeAlias = "tuple[int | bytes | None, bytes | list[Any], Settings, Any]"
"""One indexed block: parent hash, tokens as msgpack (in a change: as they came), settings, extra keys."""

_GPU: Final[Place] = (MEDIUM_GPU, None, None, None)


@final
class IndexMirror:
    """Every block that was stored and not removed, by place and hash.

    Tokens are kept block by block, as msgpack of a few bytes each, so that the memory is bounded by the size of the
    index, whatever becomes of the rest of the event that brought them.

    Args:
        whole: False: it starts empty in the middle of a stream and is the *change* since then: it notes removals of
            what it does not know, and `merge` brings a whole mirror up to date with it.
    """

    def __init__(self, whole: bool = True) -> None:
        self._copies: dict[Place, dict[int | bytes, tuple[Copy, ...]]] = {}
        self._missing: dict[Place, dict[int | bytes, int]] = {}
        self._pack: bool = whole
        self._whole: bool = whole

    def apply(self, events: EventLog | Iterable[AnyEvent]) -> None:
        """Does what the events say; of a log without making them. O(blocks).

        Raises:
            ArgumentError: If something is no event.
        """
        if isinstance(events, EventLog):
            if not events.num_made:
                self._apply_records(events)
                return
            events = events.events()
        for event in events:
            if isinstance(event, BlockRemoved):
                self._remove((event.medium, None, None, None), event.block_hashes)
            elif isinstance(event, BlockStored):
                settings = Settings(event.block_size, event.lora_id, event.lora_name)
                parent, hashes = event.parent_block_hash, event.block_hashes
                self._store((event.medium, None, None, None), parent, hashes, event.token_ids, settings, None)
            elif isinstance(event, RemovedEvent):
                place = (event.medium, event.group_idx, event.locality, event.ownership)
                self._remove(place, event.block_hashes)
            elif isinstance(event, StoredEvent):
                place = (event.medium, event.group_idx, event.locality, event.ownership)
                parent, hashes = event.parent_block_hash, list(event.block_hashes)
                self._store(place, parent, hashes, event.token_ids, _settings_of(event), event.extra_keys)
            elif isinstance(event, (AllBlocksCleared, ClearedEvent)):
                self.clear()
            else:
                raise ArgumentError("events", event, "an event is needed")

    def clear(self) -> None:
        """Forgets all blocks."""
        self._copies.clear()
        self._missing.clear()
        self._whole = True

    def merge(self, change: IndexMirror) -> None:
        """Brings this mirror up to date with a change that began where it stands. O(size of the change)."""
        if change._whole:
            self.clear()
        for place, missing in change._missing.items():
            for block_hash, count in missing.items():
                self._remove(place, [block_hash] * count)
        for place, copies in change._copies.items():
            ours = self._copies.setdefault(place, {})
            for block_hash, added in copies.items():
                packed = tuple((copy[0], _packed(copy[1]), copy[2], copy[3]) for copy in added)
                ours[block_hash] = ours.get(block_hash, ()) + packed

    def __len__(self) -> int:
        """Different hashes, summed over places."""
        return sum(len(copies) for copies in self._copies.values())

    def snapshot(self) -> IndexSnapshot:
        """The blocks as they are now, untouched by what comes later. O(hashes), a few nanoseconds each."""
        return IndexSnapshot([(place, list(copies.items())) for place, copies in self._copies.items()])

    def _apply_records(self, log: EventLog) -> None:
        """What the events of the log would do."""
        convert: Callable[[bytes], int | bytes] = external_block_hash if log.int_block_hashes else bytes
        removed: list[int | bytes] = []
        for record in log.records:
            if isinstance(record, bytes):
                removed.append(convert(record))
                continue
            if removed:
                self._remove(_GPU, removed)
                removed = []
            if isinstance(record, StoredRun):
                settings = Settings(record.block_size, record.lora_id, record.lora_name)
                hashes = [convert(digest) for digest in record.block_hashes]  # type: ignore[arg-type]
                parent = convert(record.parent_hash) if isinstance(record.parent_hash, bytes) else None
                self._store(_GPU, parent, hashes, record.token_ids, settings, None)
            else:
                self.clear()
        if removed:
            self._remove(_GPU, removed)

    def _store(
        self,
        place: Place,
        parent: int | bytes | None,
        block_hashes: Sequence[int | bytes],
        tokens: list[Any],
        settings: Settings,
        extra_keys: list[Any] | None,
    ) -> None:
        """Adds one copy per block. Tokens that do not fill the blocks are shared out as far as they go."""
        copies = self._copies.setdefault(place, {})
        pack = self._pack
        size = settings.block_size
        start = 0
        for position, block_hash in enumerate(block_hashes):
            stop = start + size
            keys = None
            if extra_keys is not None and position < len(extra_keys):
                keys = extra_keys[position]
            block = tokens[start:stop]
            copy: Copy = (parent, ENCODE(block) if pack else block, settings, keys)
            others = copies.get(block_hash)
            copies[block_hash] = (copy,) if others is None else (*others, copy)
            parent = block_hash
            start = stop

    def _remove(self, place: Place, block_hashes: Iterable[int | bytes]) -> None:
        """Takes away the oldest copy of each."""
        copies = self._copies.setdefault(place, {})
        for block_hash in block_hashes:
            there = copies.pop(block_hash, None)
            if there is None:
                if not self._whole:
                    missing = self._missing.setdefault(place, {})
                    missing[block_hash] = missing.get(block_hash, 0) + 1
            elif len(there) > 1:
                copies[block_hash] = there[1:]


@final
class IndexSnapshot:
    """The blocks of an index at one moment."""

    def __init__(self, places: list[tuple[Place, list[tuple[int | bytes, tuple[Copy, ...]]]]]) -> None:
        self._places = places

    def __len__(self) -> int:
        """Different hashes, summed over places."""
        return sum(len(copies) for _, copies in self._places)

    def events(self) -> Iterator[StoredEvent]:
        """One event per block, each with its own parent and tokens; a hash with several copies several times."""
        for (medium, group_idx, locality, ownership), hashes in self._places:
            for block_hash, copies in hashes:
                for parent, tokens, settings, keys in copies:
                    yield MapStoredEvent(
                        [block_hash],  # type: ignore[list-item]  # a byte string stays one
                        parent,  # type: ignore[arg-type]
                        msgspec.Raw(_packed(tokens)),  # type: ignore[arg-type]  # encoded already, written as it is
                        settings.block_size,
                        settings.lora_id,
                        medium,
                        settings.lora_name,
                        None if keys is None else [keys],
                        group_idx,
                        settings.kv_cache_spec_kind,
                        settings.kv_cache_spec_sliding_window,
                        locality,
                        ownership,
                        settings.session_id,
                    )


def _packed(tokens: bytes | list[Any]) -> bytes:
    return tokens if isinstance(tokens, bytes) else ENCODE(tokens)


def _settings_of(event: StoredEvent) -> Settings:
    return Settings(
        event.block_size,
        event.lora_id,
        event.lora_name,
        event.kv_cache_spec_kind,
        event.kv_cache_spec_sliding_window,
        event.session_id,
    )
