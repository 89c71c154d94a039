"""`IndexView`: what a consumer knows of the indexes of publishers, by their events alone."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Protocol, final

from blockpool.core.events import AllBlocksCleared, BlockRemoved, BlockStored
from blockpool.errors import ArgumentError
from blockpool.events.wire_events import ClearedEvent, RemovedEvent, StoredEvent


class Applicable(Protocol):
    """What `IndexView.apply` reads of a batch: an `EventBatch`, or what a subscriber hands out."""

    @property
    def events(self) -> Iterable[Any]:
        """Events of a pool, or decoded ones."""
        ...


@final
class IndexView:
    """Counts the copies of every hash, by source and medium. Feed it every batch of a subscriber, in order.

    Its counts are those of the publisher's index with either granularity: blocks with "every_copy", keys with
    "last_copy".

    Attributes:
        num_unmatched: Removals of hashes that were not there: 0 unless batches were lost.
    """

    def __init__(self) -> None:
        self._counts: dict[Hashable, dict[str | None, dict[int | bytes, int]]] = {}
        self.num_unmatched: int = 0

    def apply(self, source: Hashable, batch: Applicable) -> None:
        """Does what the events say. A batch whose `reset` is true first makes the source forgotten. O(hashes).

        Raises:
            ArgumentError: If it is no batch, or something in it is no event.
        """
        events = getattr(batch, "events", None)
        if not isinstance(events, Iterable):
            raise ArgumentError("batch", batch, "a batch of events is needed")
        if getattr(batch, "reset", False):
            self.forget(source)
        media = self._counts.setdefault(source, {})
        for event in events:
            if isinstance(event, (BlockRemoved, RemovedEvent)):
                self._remove(media.setdefault(event.medium, {}), event.block_hashes)
            elif isinstance(event, (BlockStored, StoredEvent)):
                counts = media.setdefault(event.medium, {})
                for block_hash in event.block_hashes:
                    counts[block_hash] = counts.get(block_hash, 0) + 1
            elif isinstance(event, (AllBlocksCleared, ClearedEvent)):
                media.clear()
            else:
                raise ArgumentError("batch", event, "an event is needed")

    def forget(self, source: Hashable) -> None:
        """Drops all that is known of a source."""
        self._counts.pop(source, None)

    def sources(self) -> list[Hashable]:
        """Those that were heard of, oldest first."""
        return list(self._counts)

    def media(self, source: Hashable) -> list[str | None]:
        """Media in which the source has, or had, blocks."""
        return list(self._counts.get(source, {}))

    def counts(self, source: Hashable, medium: str | None = "GPU") -> Mapping[int | bytes, int]:
        """Copies by hash: a live, read-only view, empty for what is unknown."""
        return MappingProxyType(self._counts.get(source, {}).get(medium, {}))

    def copies(self, block_hash: int | bytes, source: Hashable, medium: str | None = "GPU") -> int:
        """Copies of one hash. O(1)."""
        return self._counts.get(source, {}).get(medium, {}).get(block_hash, 0)

    def holders(self, block_hash: int | bytes) -> list[Hashable]:
        """Sources that have the hash, in whatever medium. O(sources)."""
        found = []
        for source, media in self._counts.items():
            if any(block_hash in counts for counts in media.values()):
                found.append(source)
        return found

    def longest_prefix(self, block_hashes: Iterable[int | bytes], source: Hashable) -> int:
        """How many of these hashes the source has, from the first on without a gap, in whatever medium."""
        media = list(self._counts.get(source, {}).values())
        length = 0
        for block_hash in block_hashes:
            if not any(block_hash in counts for counts in media):
                break
            length += 1
        return length

    def num_hashes(self, source: Hashable) -> int:
        """Different hashes, summed over media. O(media)."""
        return sum(len(counts) for counts in self._counts.get(source, {}).values())

    def _remove(self, counts: dict[int | bytes, int], block_hashes: Iterable[int | bytes]) -> None:
        for block_hash in block_hashes:
            count = counts.get(block_hash, 0)
            if count > 1:
                counts[block_hash] = count - 1
            elif count == 1:
                del counts[block_hash]
            else:
                self.num_unmatched += 1
