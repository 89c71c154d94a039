"""`SyncClient`: one conversation on the replay socket of a publisher, ours or vLLM's."""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias, final

import zmq

from blockpool.events.replay_protocol import (
    END_SEQ,
    MARK,
    SyncHead,
    SyncRequest,
    plain_request,
    read_head,
    read_seq,
    sync_request,
)
from blockpool.events.sockets import Context, open_dealer

_NOTHING_FROM: Final = 2**64 - 1
"""A start beyond all batches: to ask a plain publisher for nothing but the end of its answer."""


class Answered(NamedTuple):
    """A batch of the answer; its topic is None where it was not said."""

    seq: int
    payload: bytes
    topic: bytes | None


class Ended(NamedTuple):
    """The end of the answer."""

    num_batches: int


Part: TypeAlias = "SyncHead | Answered | Ended | None"
"""None: garbage."""


@final
class SyncClient:
    """Asks in a way that both kinds of publisher understand.

    Ours answers the first request, with a `SyncHead`. vLLM passes it over, as it has a frame too many, and answers the
    second, which asks for nothing: an answer without a head means that it has to be asked plainly.

    Args:
        context: Of the subscriber.
        endpoint: The replay address.
        request: What ours is asked.
        plain_start: What vLLM is asked.
        is_plain: Whether it is known to be vLLM: then only the plain question is put.

    Attributes:
        is_plain: As given, or found out.

    Raises:
        EndpointError: If there can be no connection to the address.
    """

    def __init__(
        self, context: Context, endpoint: str, request: SyncRequest, plain_start: int, is_plain: bool
    ) -> None:
        self.socket: zmq.Socket[bytes] = open_dealer(context, endpoint)
        self._plain_start = plain_start
        self._num_batches = 0
        self._has_head = False
        self._probing = not is_plain
        self.is_plain: bool = is_plain
        if is_plain:
            self.socket.send_multipart(plain_request(plain_start))
        else:
            self.socket.send_multipart(sync_request(request))
            self.socket.send_multipart(plain_request(_NOTHING_FROM))

    def receive(self) -> Part:
        """The next part of the answer; never waits.

        Raises:
            zmq.Again: If nothing is there.
        """
        while True:
            part = self._part(self.socket.recv_multipart(zmq.NOBLOCK))
            if not self._probing:
                return part
            if part is None:
                return part
            self._probing = False
            if isinstance(part, SyncHead):
                return part
            self.is_plain = True
            if isinstance(part, Answered):
                return part
            self.socket.send_multipart(plain_request(self._plain_start))

    def close(self) -> None:
        """Ends the conversation, wherever it stands."""
        self.socket.close(0)

    def _part(self, frames: list[bytes]) -> Part:
        topic: bytes | None
        if len(frames) == 3 and frames[1] == MARK:
            head = read_head(frames[2])
            self._has_head = head is not None
            return head
        if len(frames) == 3:
            topic, seq, payload = None, frames[1], frames[2]
        elif len(frames) == 4:
            topic, seq, payload = frames[1:]
        else:
            return None
        if frames[0] or (topic == MARK and not self._has_head):
            return None
        if seq == END_SEQ:
            return Ended(self._num_batches)
        number = read_seq(seq)
        if number is None:
            return None
        self._num_batches += 1
        return Answered(number, payload, None if topic == MARK else topic)
