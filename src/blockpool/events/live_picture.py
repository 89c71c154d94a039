"""`LivePicture`: what is to be seen of publishers at this moment. No terminal here."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, final

from blockpool.events.index_view import IndexView
from blockpool.events.prefix_tree import PrefixTree
from blockpool.events.received import ReceivedBatch, Source, SourceStats, place_among
from blockpool.events.wire_events import RemovedEvent, StoredEvent, WireEvent

HISTORY_SECONDS: Final = 60
RATE_SECONDS: Final = 5
MAX_NOTES: Final = 100


class Note(NamedTuple):
    """Something that went wrong or was mended; `seconds` as the caller's clock said."""

    seconds: float
    source: str
    text: str


@final
class RateHistory:
    """How many in each of the last seconds."""

    def __init__(self) -> None:
        self._counts: deque[int] = deque([0], HISTORY_SECONDS)
        self._second: int | None = None

    def add(self, now: float, count: int) -> None:
        """So many more, at that time, which never goes back."""
        self._move(now)
        self._counts[-1] += count

    def rate(self, now: float) -> float:
        """Per second, over the last few whole seconds; over the running one as long as there is no other."""
        self._move(now)
        whole = list(self._counts)[:-1][-RATE_SECONDS:]
        return sum(whole) / len(whole) if whole else float(self._counts[-1])

    def seconds(self, now: float) -> list[int]:
        """Counts of the last whole seconds, oldest first."""
        self._move(now)
        return list(self._counts)[:-1]

    def _move(self, now: float) -> None:
        second = int(now)
        if self._second is None:
            self._second = second
        gone = second - self._second
        if gone > 0:
            self._counts.extend([0] * min(gone, HISTORY_SECONDS))
            self._second = second


@dataclass(slots=True)
class SourcePicture:
    """One publisher.

    Attributes:
        source: Address, and topic where several publishers share one.
        rank: Its data-parallel rank, or None.
        seq: Number of the last batch; -1 for none.
        heard: Time of the last batch; None: never.
        num_stored: Blocks stored, snapshots not counted.
        num_removed: Blocks removed one by one.
        num_lost: Batches lost for good.
        num_resets: Times that what was known became void.
        stored: The stored blocks of live batches, by second.
        removed: The removed ones likewise.
    """

    source: Source
    rank: int | None = None
    seq: int = -1
    heard: float | None = None
    num_stored: int = 0
    num_removed: int = 0
    num_lost: int = 0
    num_resets: int = 0
    stored: RateHistory = field(default_factory=RateHistory)
    removed: RateHistory = field(default_factory=RateHistory)


class _Single(NamedTuple):
    """A batch of one event."""

    events: tuple[WireEvent, ...]


@final
class LivePicture:
    """Takes what a subscriber hands out, and its counts now and then.

    Args:
        endpoints: Addresses that are listened to.

    Attributes:
        view: The index of every publisher.
        tree: Which blocks continue which, over all publishers.
        sources: All that were heard of, and addresses that were not yet.
        notes: The latest last.
    """

    def __init__(self, endpoints: Iterable[str]) -> None:
        self.view = IndexView()
        self.tree = PrefixTree()
        self.sources: dict[Source, SourcePicture] = {}
        self.notes: deque[Note] = deque(maxlen=MAX_NOTES)
        self.stats: dict[str, SourceStats] = {}
        listed = list(endpoints)
        self._place = place_among(listed)
        self._waiting: dict[str, SourcePicture] = {
            endpoint: SourcePicture(Source(endpoint)) for endpoint in listed
        }
        self._told: dict[str, tuple[int, ...]] = {}
        self._fingerprints: dict[str, str] = {}

    @property
    def fingerprints_differ(self) -> bool:
        """Whether two publishers' hashes cannot be compared now."""
        return len(set(self._fingerprints.values())) > 1

    def pictures(self) -> list[SourcePicture]:
        """Of all publishers, and of addresses of which nothing has been heard, in the order of the addresses."""
        pictures = [*self.sources.values(), *self._waiting.values()]
        return sorted(pictures, key=lambda picture: self._place(picture.source))

    def media(self) -> list[str | None]:
        """In which any publisher has, or had, blocks."""
        return list(dict.fromkeys(medium for source in self.sources for medium in self.view.media(source)))

    def apply(self, source: Source, batch: ReceivedBatch, now: float) -> None:
        """Takes one batch. O(blocks)."""
        picture = self.sources.get(source)
        if picture is None:
            self._waiting.pop(source.endpoint, None)
            picture = self.sources[source] = SourcePicture(source)
        self._note(picture, batch, now)
        num_stored = num_removed = 0
        for event in batch.events:
            if isinstance(event, StoredEvent):
                num_stored += len(event.block_hashes)
                self.tree.store(event.block_hashes, event.parent_block_hash, event.block_size)
                self.view.apply(source, _Single((event,)))
            elif isinstance(event, RemovedEvent):
                num_removed += self._remove(source, event)
            else:
                self._drop_all(source)
                self.view.apply(source, _Single((event,)))
        if batch.origin == "snapshot":
            return
        picture.num_stored += num_stored
        picture.num_removed += num_removed
        if batch.origin == "live":
            picture.stored.add(now, num_stored)
            picture.removed.add(now, num_removed)

    def look(self, stats: Mapping[str, SourceStats], now: float) -> None:
        """Takes note of what the counts say that no batch says: gaps, restarts, garbage, fingerprints."""
        self.stats = dict(stats)
        for endpoint, counts in stats.items():
            numbers = (counts.num_gaps, counts.num_restarts, counts.num_malformed + counts.num_garbage)
            told = self._told.get(endpoint, (0, 0, 0))
            words = ("gap", "restart", "unreadable message")
            for number, before, word in zip(numbers, told, words, strict=True):
                if number > before:
                    many = f"{number - before:,} {word}s" if number - before > 1 else word
                    self.notes.append(Note(now, endpoint, many))
            self._told[endpoint] = numbers
            if counts.fingerprint is not None:
                self._compare(endpoint, counts.fingerprint, now)

    def _compare(self, endpoint: str, fingerprint: str, now: float) -> None:
        if self._fingerprints.get(endpoint) == fingerprint:
            return
        self._fingerprints[endpoint] = fingerprint
        others = [name for other, name in self._fingerprints.items() if other != endpoint]
        if others and fingerprint not in others:
            text = f"fingerprint {fingerprint}, others {others[0]}: their hashes cannot be compared"
            self.notes.append(Note(now, endpoint, text))

    def _note(self, picture: SourcePicture, batch: ReceivedBatch, now: float) -> None:
        if batch.reset:
            self._drop_all(picture.source)
            self.view.forget(picture.source)
            picture.num_resets += 1
        if batch.lost:
            picture.num_lost += batch.lost
            many = "batches" if batch.lost > 1 else "batch"
            self.notes.append(Note(now, str(picture.source), f"{batch.lost:,} {many} lost for good"))
        if batch.origin == "snapshot" and (batch.reset or picture.heard is None):
            self.notes.append(Note(now, str(picture.source), "index taken from a snapshot"))
        picture.seq = batch.seq
        if batch.origin != "notice":
            picture.heard = now
        if batch.data_parallel_rank is not None:
            picture.rank = batch.data_parallel_rank

    def _remove(self, source: Source, event: RemovedEvent) -> int:
        """Takes away what was there; returns how many copies that are."""
        counts = self.view.counts(source, event.medium)
        before = {block_hash: counts.get(block_hash, 0) for block_hash in event.block_hashes}
        self.view.apply(source, _Single((event,)))
        counts = self.view.counts(source, event.medium)
        num_removed = 0
        for block_hash, copies in before.items():
            gone = copies - counts.get(block_hash, 0)
            if gone:
                self.tree.drop(block_hash, gone)
                num_removed += gone
        return num_removed

    def _drop_all(self, source: Source) -> None:
        for medium in self.view.media(source):
            for block_hash, copies in self.view.counts(source, medium).items():
                self.tree.drop(block_hash, copies)  # type: ignore[arg-type]  # decoded hashes are integers
