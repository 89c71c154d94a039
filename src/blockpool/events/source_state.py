"""`SourceState`: what is known of the publisher at one address, and what its messages mean. No sockets here."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias, final

from blockpool.errors import EventDecodeError
from blockpool.events.decoder import EventDecoder
from blockpool.events.received import ReceivedBatch, Source, SourceAddress, SourceStats
from blockpool.events.replay_protocol import SyncHead, SyncRequest, read_seq
from blockpool.events.stream_order import StreamOrder, Verdict
from blockpool.events.sync_client import Answered, Ended, Part

MAX_TOPICS: Final = 1_000

Ready: TypeAlias = "deque[tuple[Source, ReceivedBatch]]"


class _Held(NamedTuple):
    """A live message that waits until what is missing before it was asked for."""

    topic: bytes
    seq: int
    payload: bytes


class _Stream:
    """One publisher: its order, and what the next batch has to say of those before."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.order = StreamOrder()
        self.reset = False
        self.lost = 0


@final
class SourceState:
    """Takes messages of one address and makes batches of them: in order, each once, with what was lost.

    With a replay endpoint the address is one publisher's. Without, publishers are told apart by their topics.

    Args:
        address: Checked.
        decoder: For payloads.
        check_fingerprint: Called with the fingerprint of every head; raises if it does not fit.
        topic: Prefix of the topics that are wanted. Of live messages ZeroMQ sees to that, of answers nobody else.
    """

    def __init__(
        self,
        address: SourceAddress,
        decoder: EventDecoder,
        check_fingerprint: Callable[[str], None],
        topic: bytes = b"",
    ) -> None:
        self._prefix = topic
        self._endpoint = address.endpoint
        self._has_replay = address.replay_endpoint is not None
        self._decode = decoder.decode
        self._check_fingerprint = check_fingerprint
        self._streams: dict[bytes, _Stream] = {}
        self._epoch: str | None = None
        self._last_payload: bytes | None = None
        self._held: _Held | None = None
        self._head: SyncHead | None = None
        self._head_topic = b""
        self._is_wanted = True  # the topic of the answer
        self._compare = False
        self._keeps_history = False  # not known: a publisher may keep nothing
        self.stats = SourceStats()
        if self._has_replay:
            self._streams[b""] = _Stream(Source(self._endpoint))

    def connected(self) -> None:
        """A new connection; whose, has to be found out."""
        self.stats.num_connections += 1
        self._held = None
        for stream in self._streams.values():
            stream.order.connected()

    def live(self, frames: list[bytes], ready: Ready) -> bool:
        """Takes one message of the SUB socket.

        Returns:
            False: the replay socket has to be asked before anything else is taken.
        """
        seq = read_seq(frames[1]) if len(frames) == 3 else None
        stream = None if seq is None else self._stream_of(frames[0])
        if seq is None or stream is None:
            self.stats.num_garbage += 1
            return True
        topic, _, payload = frames
        verdict = stream.order.judge(seq)
        if verdict is Verdict.NEXT:
            self._take(stream, seq, payload, "live", topic, ready)
            return True
        if verdict is Verdict.KNOWN:
            self.stats.num_duplicates += 1
            return True
        if verdict is Verdict.GAP:
            self.stats.num_gaps += 1
        else:
            self._forget(stream)
            self.stats.num_restarts += 1
            self.stats.epoch = None  # counted; the next head does not count it again
        if self._has_replay:
            self._held = _Held(topic, seq, payload)
            return False
        self._take(stream, seq, payload, "live", topic, ready)
        return True

    # ---------------------------------------------------------------------------------------------- conversation

    def begin_sync(self) -> tuple[SyncRequest, int]:
        """What to ask one of our publishers, and where to start with a plain one: at the last batch, to compare it."""
        order = self._streams[b""].order
        if (
            self._head is not None and self._head.kind == "snapshot"
        ):  # it broke off: half of it was handed out
            self._forget(self._streams[b""])
        self._head = None
        self._compare = order.last >= 0
        return SyncRequest(order.last + 1, self._epoch), max(order.last, 0)

    def answered(self, part: Part, is_plain: bool, ready: Ready) -> bool:
        """Takes one part of the answer.

        Returns:
            True: it is a publisher that was not known; ask it from the beginning.

        Raises:
            FingerprintError: If its hashes cannot be compared.
        """
        stream = self._streams[b""]
        if part is None:
            self.stats.num_garbage += 1
        elif isinstance(part, SyncHead):
            self._take_head(stream, part)
        elif isinstance(part, Ended):
            if is_plain and self._compare and self._keeps_history and part.num_batches == 0:
                return self._other_plain_publisher(stream)  # it has fewer than we had
        elif is_plain:
            return self._take_plain(stream, part, ready)
        elif self._head is None:
            self.stats.num_garbage += 1
        elif self._head.kind == "snapshot":
            if self._is_wanted and not self._hand_out(
                stream, self._head.seq, part.payload, "snapshot", self._head_topic, ready
            ):
                stream.lost += 1
        else:
            self._take_replayed(stream, part, self._head_topic, ready)
        return False

    def finish_sync(self, ready: Ready) -> None:
        """The answer has come to its end."""
        stream, head = self._streams[b""], self._head
        if head is not None and head.kind == "snapshot":
            stream.order.took(head.seq)
            self._epoch = head.epoch
        elif head is not None and head.kind == "gone":
            if self._is_wanted:
                missing = max(head.next_seq - 1 - stream.order.last, 0)
                stream.lost += missing
                self.stats.num_lost += missing
            stream.order.took(head.next_seq - 1)
        self._head = None
        stream.order.synced()
        if stream.reset or stream.lost:
            self._notice(stream, ready)
        self._take_held(stream, ready)

    def give_up_sync(self, ready: Ready) -> None:
        """No answer: what is missing is lost."""
        stream = self._streams[b""]
        if self._head is not None and self._head.kind == "snapshot":
            self._forget(stream)
        self._head = None
        self._take_held(stream, ready)

    def _take_head(self, stream: _Stream, head: SyncHead) -> None:
        if self.stats.epoch is not None and self.stats.epoch != head.epoch:
            self.stats.num_restarts += 1
        self.stats.fingerprint = head.fingerprint
        self.stats.epoch = head.epoch
        self._head_topic = head.topic.encode()
        self._is_wanted = self._head_topic.startswith(self._prefix)
        if head.fingerprint is not None and self._is_wanted:
            self._check_fingerprint(head.fingerprint)
        if self._epoch is not None and self._epoch != head.epoch:
            self._forget(stream)
        if head.kind == "snapshot":
            self.stats.num_snapshots += self._is_wanted
            self._forget(stream)
        else:
            self._epoch = head.epoch
        self._last_payload = None
        self._head = head

    def _take_plain(self, stream: _Stream, part: Answered, ready: Ready) -> bool:
        """A batch of vLLM's. The first is the last that we had, if it is still the same publisher."""
        self._keeps_history = True
        if self._compare:
            self._compare = False
            if part.seq == stream.order.last:
                known = self._last_payload
                return known is not None and known != part.payload and self._other_plain_publisher(stream)
        self._is_wanted = part.topic is None or part.topic.startswith(self._prefix)
        self._take_replayed(stream, part, part.topic or b"", ready)
        return False

    def _other_plain_publisher(self, stream: _Stream) -> bool:
        self.stats.num_restarts += 1
        self._forget(stream)
        return True

    def _take_replayed(self, stream: _Stream, part: Answered, topic: bytes, ready: Ready) -> None:
        if not self._is_wanted:
            stream.order.took(max(part.seq, stream.order.last))
            return
        if part.seq <= stream.order.last:
            self.stats.num_duplicates += 1
            return
        self.stats.num_replayed += 1
        self._take(stream, part.seq, part.payload, "replay", topic, ready)
        stream.order.synced()

    def _take_held(self, stream: _Stream, ready: Ready) -> None:
        held, self._held = self._held, None
        if held is not None and stream.order.judge_again(held.seq) in (Verdict.NEXT, Verdict.GAP):
            self._take(stream, held.seq, held.payload, "live", held.topic, ready)

    # -------------------------------------------------------------------------------------------------- hand out

    def _stream_of(self, topic: bytes) -> _Stream | None:
        """The publisher that uses the topic; None for one topic too many, or none that can be read."""
        if self._has_replay:
            return self._streams[b""]
        stream = self._streams.get(topic)
        if stream is None and len(self._streams) < MAX_TOPICS:
            try:
                stream = _Stream(Source(self._endpoint, topic.decode("utf-8")))
            except UnicodeDecodeError:
                return None
            self._streams[topic] = stream
        return stream

    def _forget(self, stream: _Stream) -> None:
        """It is another publisher, or its index is told anew: what was handed out is void."""
        stream.order.forget()
        stream.reset = True
        stream.lost = 0
        self._epoch = None
        self._last_payload = None

    def _take(
        self, stream: _Stream, seq: int, payload: bytes, origin: str, topic: bytes, ready: Ready
    ) -> None:
        """A batch with a number of its own: those between the last and it are lost."""
        missing = seq - stream.order.last - 1
        stream.lost += missing
        self.stats.num_lost += missing
        stream.order.took(seq)
        self._last_payload = payload if self._has_replay and self._epoch is None else None
        if self._hand_out(stream, seq, payload, origin, topic, ready):
            self.stats.num_batches += 1
        else:
            stream.lost += 1

    def _hand_out(
        self, stream: _Stream, seq: int, payload: bytes, origin: str, topic: bytes, ready: Ready
    ) -> bool:
        """Adds the batch to what is ready; False if it cannot be read."""
        try:
            batch = self._decode(payload)
            name = topic.decode("utf-8", "replace")
        except EventDecodeError:
            self.stats.num_malformed += 1
            return False
        self.stats.num_events += len(batch.events)
        self.stats.num_unknown_events += batch.num_unknown
        received = ReceivedBatch(
            seq,
            batch.ts,
            batch.events,
            batch.data_parallel_rank,
            origin,
            stream.reset,
            stream.lost,
            name,
        )
        stream.reset = False
        stream.lost = 0
        ready.append((stream.source, received))
        return True

    def _notice(self, stream: _Stream, ready: Ready) -> None:
        """Says what no batch has said yet."""
        notice = ReceivedBatch(stream.order.last, 0.0, [], None, "notice", stream.reset, stream.lost)
        stream.reset = False
        stream.lost = 0
        ready.append((stream.source, notice))
