"""What is said on the replay socket: vLLM's two layouts, and a third that only our subscribers ask for.

Frames are listed without the routing identity. `docs/events.md` shows them byte by byte.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

MARK: Final = b"\xffblockpool/1"
"""Stands where others have a topic or a number. It is no UTF-8, so no topic, and not 8 bytes, so no number."""

SEQ_BYTES: Final = 8
END_SEQ: Final = b"\xff" * SEQ_BYTES
"""In the place of the sequence number in the last frame of an answer."""

MAX_SEQ: Final = 2**64 - 2
"""No batch has so high a number: the next one can be asked for, and still is not the end's."""

NOTHING_YET: Final = -1


class SyncRequest(msgspec.Struct, frozen=True):
    """Asks for all batches from one on, or for a snapshot if they cannot be had.

    Attributes:
        start: Sequence number of the first batch that is wanted.
        epoch: Of the publisher that the earlier batches came from; None: there were none.
    """

    start: int
    epoch: str | None = None


class SyncHead(msgspec.Struct, frozen=True):
    """Begins the answer to a `SyncRequest`.

    Attributes:
        kind: "replay": the wanted batches follow. "snapshot": batches follow that make the index anew. "gone": the
            history is gone and there are no snapshots; nothing follows.
        epoch: Of this publisher: a random name, new whenever it is started.
        next_seq: Number that the next batch will get.
        seq: Of a snapshot: the last batch that it includes, -1 for none.
        fingerprint: What must match for hashes to be comparable, or None if it was not told.
        topic: Under which it publishes.
    """

    kind: Literal["replay", "snapshot", "gone"]
    epoch: str
    next_seq: int
    seq: int
    fingerprint: str | None
    topic: str


_encode: Final = msgspec.msgpack.Encoder().encode
_request: Final = msgspec.msgpack.Decoder(SyncRequest)
_head: Final = msgspec.msgpack.Decoder(SyncHead)


def seq_frame(seq: int) -> bytes:
    """A sequence number, 8 bytes big endian."""
    return seq.to_bytes(SEQ_BYTES, "big")


def plain_request(start: int) -> list[bytes]:
    """The request that every publisher understands."""
    return [b"", seq_frame(start)]


def sync_request(request: SyncRequest) -> list[bytes]:
    """The request that only ours understands; vLLM passes it over, for it has a frame too many."""
    return [b"", MARK, _encode(request)]


def plain_batch(seq: int, payload: bytes, topic: bytes | None) -> list[bytes]:
    """One batch for whoever asked plainly; the topic is None in the layout of 0.16."""
    return [b"", seq_frame(seq), payload] if topic is None else [b"", topic, seq_frame(seq), payload]


def plain_end(with_topic: bool) -> list[bytes]:
    """The last frames for whoever asked plainly."""
    return [b"", b"", END_SEQ, b""] if with_topic else [b"", END_SEQ, b""]


def sync_head(head: SyncHead) -> list[bytes]:
    """The first frames of our answer."""
    return [b"", MARK, _encode(head)]


def sync_batch(seq: int, payload: bytes) -> list[bytes]:
    """One batch of our answer."""
    return [b"", MARK, seq_frame(seq), payload]


def sync_end() -> list[bytes]:
    """The last frames of our answer."""
    return [b"", MARK, END_SEQ, b""]


def read_request(frames: list[bytes]) -> int | SyncRequest | None:
    """What a client asked: a start for vLLM's answer, a sync, or None for garbage."""
    if len(frames) == 2 and not frames[0] and len(frames[1]) == SEQ_BYTES:
        return int.from_bytes(frames[1], "big")
    if len(frames) == 3 and not frames[0] and frames[1] == MARK:
        try:
            request = _request.decode(frames[2])
        except (msgspec.DecodeError, RecursionError):
            return None
        return request if request.start >= 0 else None
    return None


def read_head(frame: bytes) -> SyncHead | None:
    """The head of our answer, or None for garbage."""
    try:
        head = _head.decode(frame)
    except (msgspec.DecodeError, RecursionError):
        return None
    return head if NOTHING_YET <= head.seq < head.next_seq <= MAX_SEQ else None


def read_seq(frame: bytes) -> int | None:
    """The number of a batch, or None for garbage: it may be followed by another number, and is not the end's."""
    if len(frame) != SEQ_BYTES:
        return None
    seq = int.from_bytes(frame, "big")
    return seq if seq < MAX_SEQ else None
