"""The rules of order without sockets: gaps, duplicates, restarts, late joins, snapshots; publishers of both kinds."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from blockpool import FingerprintError
from blockpool.events import EventDecoder, EventEncoder, Source, SourceAddress
from blockpool.events.replay_protocol import SyncHead
from blockpool.events.source_state import SourceState
from blockpool.events.sync_client import Answered, Ended

from .support import stored

ENDPOINT = "tcp://pod:5557"


def payload(seq: int, publisher: int = 0) -> bytes:
    return EventEncoder().encode(float(publisher), [stored(seq)], 0)


class Reader:
    """A state, and what it has handed out."""

    def __init__(self, replay: bool = True, topic: bytes = b"") -> None:
        self.refused = ""
        address = SourceAddress(ENDPOINT, "tcp://pod:5558" if replay else None)
        self.state = SourceState(address, EventDecoder(), self.check, topic)
        self.ready: deque[Any] = deque()
        self.state.connected()

    def check(self, fingerprint: str) -> None:
        if fingerprint == self.refused:
            raise FingerprintError(ENDPOINT, "wanted", fingerprint)

    def live(self, *seqs: int, publisher: int = 0, topic: bytes = b"") -> bool:
        """Whether all were taken; the last that was not makes it necessary to ask."""
        return all(
            self.state.live([topic, seq.to_bytes(8, "big"), payload(seq, publisher)], self.ready)
            for seq in seqs
        )

    def answer(self, *parts: Any, plain: bool = False) -> bool:
        """Whether a plain publisher has to be asked from the beginning."""
        again = [self.state.answered(part, plain, self.ready) for part in parts]
        if not again[-1]:
            self.state.finish_sync(self.ready)
        return again[-1]

    def ours(
        self, kind: Any, epoch: str, next_seq: int, seqs: Any = (), seq: int = -1, topic: str = ""
    ) -> None:
        batches = [Answered(number, payload(number), None) for number in seqs]
        self.answer(SyncHead(kind, epoch, next_seq, seq, "f", topic), *batches, Ended(len(batches)))

    def plain(self, *seqs: int, publisher: int = 0, topic: bytes | None = None) -> bool:
        batches = [Answered(seq, payload(seq, publisher), topic) for seq in seqs]
        return self.answer(*batches, Ended(len(batches)), plain=True)

    def taken(self) -> list[tuple[int, str, bool, int]]:
        """Number, origin, reset and lost of each."""
        batches = [batch for _, batch in self.ready]
        self.ready.clear()
        return [(batch.seq, batch.origin, batch.reset, batch.lost) for batch in batches]


def live(*seqs: int) -> list[tuple[int, str, bool, int]]:
    return [(seq, "live", False, 0) for seq in seqs]


def replay(*seqs: int) -> list[tuple[int, str, bool, int]]:
    return [(seq, "replay", False, 0) for seq in seqs]


def joined(reader: Reader, epoch: str = "one") -> Reader:
    """Has had batches 0 to 4 of one of our publishers."""
    reader.state.begin_sync()
    reader.ours("replay", epoch, 3, range(3))
    assert reader.live(3, 4)
    assert reader.taken() == [*replay(0, 1, 2), *live(3, 4)]
    return reader


def test_in_order() -> None:
    joined(Reader())


def test_case_9_batch_5_is_missing() -> None:
    reader = joined(Reader())
    assert not reader.live(6)
    assert reader.taken() == []
    assert reader.state.begin_sync()[0].start == 5
    reader.ours("replay", "one", 8, (5, 6, 7))
    assert reader.live(7, 8)
    assert reader.taken() == [*replay(5, 6, 7), *live(8)]
    assert reader.state.stats.num_gaps == 1
    assert reader.state.stats.num_duplicates == 1


def test_case_9_live_ones_arrive_while_replayed_ones_do() -> None:
    """The replay overlaps what waits at the live socket, on both sides; nothing is applied twice."""
    reader = joined(Reader())
    assert not reader.live(7)
    reader.state.begin_sync()
    reader.ours("replay", "one", 9, range(4, 9))
    assert reader.live(8, 9, 10)
    assert reader.taken() == [*replay(5, 6, 7, 8), *live(9, 10)]


def test_case_9_joins_at_100_when_50_are_kept() -> None:
    reader = Reader()
    request, _ = reader.state.begin_sync()
    assert (request.start, request.epoch) == (0, None)
    reader.ours("snapshot", "one", 100, (99, 99), seq=99)
    assert reader.live(100)
    assert reader.taken() == [(99, "snapshot", True, 0), (99, "snapshot", False, 0), *live(100)]
    assert reader.state.stats.num_snapshots == 1


def test_an_empty_snapshot_still_says_that_all_is_void() -> None:
    reader = joined(Reader())
    assert not reader.live(50)
    reader.state.begin_sync()
    reader.ours("snapshot", "one", 51, seq=50)
    assert reader.taken() == [(50, "notice", True, 0)]
    assert reader.live(51)


def test_case_9_history_gone_is_told() -> None:
    reader = joined(Reader())
    assert not reader.live(100)
    reader.state.begin_sync()
    reader.ours("gone", "one", 101)
    assert reader.taken() == [(100, "notice", False, 96)]
    assert reader.state.stats.num_lost == 96
    assert reader.live(101)


def test_case_9_restarted_and_overtaken() -> None:
    """Its numbers go on where ours ended; its epoch tells."""
    reader = joined(Reader())
    reader.state.connected()
    assert reader.state.begin_sync()[0].epoch == "one"
    reader.ours("snapshot", "two", 5, (4,), seq=4)
    assert reader.live(5)
    assert reader.taken() == [(4, "snapshot", True, 0), *live(5)]
    assert reader.state.stats.num_restarts == 1


def test_a_restart_behind_a_proxy_shows_by_its_number() -> None:
    reader = joined(Reader())
    assert not reader.live(0)
    request, _ = reader.state.begin_sync()
    assert (request.start, request.epoch) == (0, None)
    reader.ours("replay", "two", 2, (0, 1))
    assert reader.live(1, 2)
    assert reader.taken() == [(0, "replay", True, 0), *replay(1), *live(2)]
    assert reader.state.stats.num_restarts == 1


def test_the_same_publisher_after_a_lost_connection() -> None:
    reader = joined(Reader())
    reader.state.connected()
    reader.state.begin_sync()
    reader.ours("replay", "one", 7, (5, 6))
    assert reader.live(6, 7)
    assert reader.taken() == [*replay(5, 6), *live(7)]
    assert reader.state.stats.num_restarts == 0


def test_a_snapshot_that_breaks_off_is_begun_anew() -> None:
    reader = joined(Reader())
    reader.state.begin_sync()
    head = SyncHead("snapshot", "two", 9, 8, None, "")
    reader.state.answered(head, False, reader.ready)
    reader.state.answered(Answered(8, payload(8), None), False, reader.ready)
    request, _ = reader.state.begin_sync()
    assert (request.start, request.epoch) == (0, None)
    reader.ours("snapshot", "two", 9, (8,), seq=8)
    assert reader.state.stats.num_restarts == 1
    assert reader.taken() == [(8, "snapshot", True, 0), (8, "snapshot", True, 0)]


def test_no_answer_counts_as_lost() -> None:
    reader = joined(Reader())
    assert not reader.live(7)
    reader.state.begin_sync()
    reader.state.give_up_sync(reader.ready)
    assert reader.taken() == [(7, "live", False, 2)]
    assert reader.state.stats.num_lost == 2


def test_fingerprints_are_compared() -> None:
    reader = Reader()
    reader.refused = "theirs"
    reader.state.begin_sync()
    with pytest.raises(FingerprintError):
        reader.state.answered(SyncHead("replay", "one", 0, -1, "theirs", ""), False, reader.ready)


def test_a_snapshot_that_cannot_be_read_leaves_a_loss() -> None:
    reader = Reader()
    reader.state.begin_sync()
    head = SyncHead("snapshot", "one", 9, 8, None, "")
    reader.answer(head, Answered(8, b"garbage", None), Answered(8, payload(8), None), Ended(2))
    assert reader.taken() == [(8, "snapshot", True, 1)]
    assert reader.state.stats.num_malformed == 1


def test_answers_say_under_which_topic_they_were_published() -> None:
    reader = Reader(topic=b"kv@")
    reader.state.begin_sync()
    reader.ours("replay", "one", 2, range(2), topic="kv@a")
    assert reader.live(2, topic=b"kv@a")
    assert [batch.topic for _, batch in reader.ready] == ["kv@a"] * 3


@pytest.mark.parametrize("kind", ["replay", "snapshot", "gone"])
def test_answers_of_another_topic_are_passed_over(kind: Any) -> None:
    """The replay socket knows nothing of topics; what is not wanted is neither handed out, nor lost, nor compared."""
    reader = Reader(topic=b"kv@b")
    reader.refused = "f"
    reader.state.begin_sync()
    reader.ours(kind, "one", 3, () if kind == "gone" else range(3), 2, topic="kv@a")
    assert [item for item in reader.taken() if item != (2, "notice", True, 0)] == []
    assert reader.state.begin_sync()[0].start == 3
    stats = reader.state.stats
    assert (stats.num_batches, stats.num_lost, stats.num_snapshots) == (0, 0, 0)


def test_plain_answers_of_another_topic_are_passed_over() -> None:
    reader = Reader(topic=b"kv@b")
    reader.state.begin_sync()
    assert not reader.plain(0, 1, 2, topic=b"kv@a")
    assert reader.taken() == []
    assert reader.state.begin_sync()[1] == 2


def test_the_highest_numbers_are_garbage() -> None:
    """The last two: one ends an answer, the other could not be followed by a number."""
    reader = joined(Reader())
    for seq in (2**64 - 1, 2**64 - 2):
        assert reader.state.live([b"", seq.to_bytes(8, "big"), payload(0)], reader.ready)
    assert reader.state.stats.num_garbage == 2
    assert reader.live(5)
    assert reader.taken() == live(5)


# --- publishers as plain as vLLM's ------------------------------------------------------------------------------


def joined_plain(reader: Reader) -> Reader:
    reader.state.begin_sync()
    assert not reader.plain(0, 1, 2)
    assert reader.live(3, 4)
    assert reader.taken() == [*replay(0, 1, 2), *live(3, 4)]
    return reader


def test_plain_gap() -> None:
    reader = joined_plain(Reader())
    assert not reader.live(7)
    assert reader.state.begin_sync()[1] == 4
    assert not reader.plain(4, 5, 6, 7)
    assert reader.live(8)
    assert reader.taken() == [*replay(5, 6, 7), *live(8)]
    assert reader.state.stats.num_duplicates == 0


def test_plain_history_gone() -> None:
    reader = joined_plain(Reader())
    assert not reader.live(100)
    reader.state.begin_sync()
    assert not reader.plain(*range(91, 101))
    assert reader.taken() == [(91, "replay", False, 86), *replay(*range(92, 101))]


def test_plain_late_join() -> None:
    reader = Reader()
    reader.state.begin_sync()
    assert not reader.plain(50, 51)
    assert reader.taken() == [(50, "replay", False, 50), *replay(51)]


def test_plain_restart_with_fewer_batches() -> None:
    """Nothing from the last one on: it cannot be the one we know."""
    reader = joined_plain(Reader())
    reader.state.connected()
    assert reader.state.begin_sync()[1] == 4
    assert reader.plain()
    assert reader.state.begin_sync()[1] == 0
    assert not reader.plain(0, 1, publisher=1)
    assert reader.taken() == [(0, "replay", True, 0), *replay(1)]


def test_plain_restart_that_has_overtaken() -> None:
    """Batch 4 is there, but it is not the one that we had."""
    reader = joined_plain(Reader())
    reader.state.connected()
    reader.state.begin_sync()
    assert reader.state.answered(Answered(4, payload(4, publisher=1), None), True, reader.ready)
    reader.state.begin_sync()
    assert not reader.plain(*range(7), publisher=1)
    assert reader.live(6, 7, publisher=1)
    assert reader.taken() == [(0, "replay", True, 0), *replay(*range(1, 7)), *live(7)]
    assert reader.state.stats.num_restarts == 1


def test_plain_restart_that_has_published_nothing() -> None:
    reader = joined_plain(Reader())
    reader.state.connected()
    reader.state.begin_sync()
    assert reader.plain()
    reader.state.begin_sync()
    assert not reader.plain()
    assert reader.taken() == [(-1, "notice", True, 0)]
    assert reader.live(0)


def test_a_plain_publisher_that_keeps_nothing_is_not_taken_for_another() -> None:
    reader = Reader()
    reader.state.begin_sync()
    assert not reader.plain()
    assert reader.live(0, 1)
    reader.state.begin_sync()
    assert not reader.plain()
    assert not reader.live(4)
    reader.state.begin_sync()
    assert not reader.plain()
    assert reader.taken() == [*live(0, 1), (4, "live", False, 2)]
    assert reader.state.stats.num_restarts == 0


def test_plain_same_publisher_after_a_lost_connection() -> None:
    reader = joined_plain(Reader())
    reader.state.connected()
    reader.state.begin_sync()
    assert not reader.plain(4, 5)
    assert reader.live(5, 6)
    assert reader.taken() == [*replay(5), *live(6)]
    assert reader.state.stats.num_restarts == 0


# --- without a replay endpoint ----------------------------------------------------------------------------------


def test_without_replay_gaps_and_restarts_are_told() -> None:
    reader = Reader(replay=False)
    assert reader.live(2, 3, 6, 0, 1)
    assert reader.taken() == [
        (2, "live", False, 2), *live(3), (6, "live", False, 2), (0, "live", True, 0), *live(1),
    ]  # fmt: skip
    reader.state.connected()
    assert reader.live(1, 2)
    assert reader.taken() == [(1, "live", True, 1), *live(2)]
    assert reader.state.stats.num_restarts == 2


def test_without_replay_topics_are_publishers() -> None:
    reader = Reader(replay=False)
    assert reader.live(0, 1, topic=b"kv@a@m")
    assert reader.live(0, topic=b"kv@b@m")
    assert reader.live(2, topic=b"kv@a@m")
    assert [source for source, _ in reader.ready] == [
        Source(ENDPOINT, "kv@a@m"), Source(ENDPOINT, "kv@a@m"), Source(ENDPOINT, "kv@b@m"), Source(ENDPOINT, "kv@a@m"),
    ]  # fmt: skip
    assert not any(batch.lost or batch.reset for _, batch in reader.ready)


def test_garbage_is_counted_and_malformed_batches_count_as_lost() -> None:
    reader = joined(Reader())
    for frames in ([], [b""], [b"", b"short", b""], [b"", bytes(8), b"", b""]):
        assert reader.state.live(frames, reader.ready)
    assert reader.state.live([b"", (5).to_bytes(8, "big"), b"garbage"], reader.ready)
    assert reader.live(6)
    assert reader.taken() == [(6, "live", False, 1)]
    assert reader.state.stats.num_garbage == 4
    assert reader.state.stats.num_malformed == 1
    assert reader.state.answered(None, False, reader.ready) is False
    assert reader.state.stats.num_garbage == 5


def test_topics_are_bounded() -> None:
    reader = Reader(replay=False)
    for number in range(1_200):
        reader.live(0, topic=b"%d" % number)
    assert reader.state.stats.num_garbage == 200
    reader.live(0, topic=b"\xff")
    assert reader.state.stats.num_garbage == 201
