"""`IndexMirror`: the index of a pool as its events tell it, with all that a snapshot has to say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple, TypeAlias, final

import msgspec

from blockpool.core.events import AllBlocksCleared, BlockRemoved, BlockStored
from blockpool.errors import ArgumentError
from blockpool.events.wire_events import AnyEvent, ClearedEvent, MapStoredEvent, RemovedEvent, StoredEvent

_encode: Final = msgspec.msgpack.Encoder().encode


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

Copy: TypeAlias = tuple[int | bytes | None, bytes, Settings, Any]
"""One indexed block: parent hash, tokens as msgpack, settings, extra keys."""


@final
class IndexMirror:
    """Every block that was stored and not removed, by place and hash.

    Tokens are kept as msgpack, a few bytes each, so that the memory is bounded by the size of the index, whatever
    became of the rest of the event that brought them.

    Args:
        whole: False: it starts empty in the middle of a stream and is the *change* since then: it notes removals of
            what it does not know, and `merge` brings a whole mirror up to date with it.
    """

    def __init__(self, whole: bool = True) -> None:
        self._copies: dict[Place, dict[int | bytes, tuple[Copy, ...]]] = {}
        self._missing: dict[Place, dict[int | bytes, int]] = {}
        self._whole: bool = whole

    def apply(self, events: Iterable[AnyEvent]) -> None:
        """Does what the events say. O(blocks).

        Raises:
            ArgumentError: If something is no event.
        """
        for event in events:
            if isinstance(event, BlockRemoved):
                self._remove((event.medium, None, None, None), event.block_hashes)
            elif isinstance(event, BlockStored):
                settings = Settings(event.block_size, event.lora_id, event.lora_name)
                self._store((event.medium, None, None, None), event, settings, None)
            elif isinstance(event, RemovedEvent):
                place = (event.medium, event.group_idx, event.locality, event.ownership)
                self._remove(place, event.block_hashes)
            elif isinstance(event, StoredEvent):
                place = (event.medium, event.group_idx, event.locality, event.ownership)
                self._store(place, event, _settings_of(event), event.extra_keys)
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
                ours[block_hash] = ours.get(block_hash, ()) + added

    def __len__(self) -> int:
        """Different hashes, summed over places."""
        return sum(len(copies) for copies in self._copies.values())

    def snapshot(self) -> IndexSnapshot:
        """The blocks as they are now, untouched by what comes later. O(hashes), a few nanoseconds each."""
        return IndexSnapshot([(place, list(copies.items())) for place, copies in self._copies.items()])

    def _store(self, place: Place, event: Any, settings: Settings, extra_keys: list[Any] | None) -> None:
        """Adds one copy per block. Tokens that do not fill the blocks are shared out as far as they go."""
        copies = self._copies.setdefault(place, {})
        tokens = event.token_ids
        size = event.block_size
        parent = event.parent_block_hash
        start = 0
        for position, block_hash in enumerate(event.block_hashes):
            stop = start + size
            keys = None
            if extra_keys is not None and position < len(extra_keys):
                keys = extra_keys[position]
            copy: Copy = (parent, _encode(tokens[start:stop]), settings, keys)
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
                        msgspec.Raw(tokens),  # type: ignore[arg-type]  # encoded already, written as it is
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


def _settings_of(event: StoredEvent) -> Settings:
    return Settings(
        event.block_size,
        event.lora_id,
        event.lora_name,
        event.kv_cache_spec_kind,
        event.kv_cache_spec_sliding_window,
        event.session_id,
    )
