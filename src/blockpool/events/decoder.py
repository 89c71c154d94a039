"""`EventDecoder`: one reader for every dialect of event batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast, final

import msgspec

from blockpool.core.arguments import as_size
from blockpool.errors import ArgumentError, EventDecodeError
from blockpool.events.loose_events import loose_batch
from blockpool.events.wire_events import (
    ClearedEvent,
    EventBatch,
    MapClearedEvent,
    MapRemovedEvent,
    MapStoredEvent,
    RemovedEvent,
    StoredEvent,
    WireEvent,
)

MAX_PAYLOAD_BYTES: Final = 32 << 20


class _MapBatch(msgspec.Struct, array_like=True, gc=False):
    ts: float
    events: list[MapStoredEvent | MapRemovedEvent | MapClearedEvent]
    data_parallel_rank: int | None = None


class _ArrayBatch(msgspec.Struct, array_like=True, gc=False):
    ts: float
    events: list[StoredEvent | RemovedEvent | ClearedEvent]
    data_parallel_rank: int | None = None


@final
class EventDecoder:
    """Reads batches of events: arrays of any length, maps; unsigned, signed and byte hashes, mixed as they come.

    Batches in which every event is of a known type, all are arrays or all are maps, and all hashes are unsigned are
    read in one pass by typed decoders; all others by `loose_batch`, which is slower and gives the same.

    Args:
        max_bytes: Longer payloads are refused unread, at least 1. What a payload of n bytes needs while it is decoded
            is at most some 100 n.

    Raises:
        ArgumentError: If it is no integer.
        ConfigError: If it is below 1.
    """

    def __init__(self, max_bytes: int = MAX_PAYLOAD_BYTES) -> None:
        self.max_bytes: int = as_size("max_bytes", max_bytes)
        self._decode_arrays: Callable[[bytes], _ArrayBatch] = msgspec.msgpack.Decoder(_ArrayBatch).decode
        self._decode_maps: Callable[[bytes], _MapBatch] = msgspec.msgpack.Decoder(_MapBatch).decode
        self._decode_anything: Callable[[bytes], Any] = msgspec.msgpack.Decoder().decode

    def decode(self, payload: bytes) -> EventBatch:
        """Reads one payload.

        Args:
            payload: Bytes, or another contiguous buffer of them.

        Returns:
            Its events, with hashes as unsigned integers: signed ones modulo 2^64, of byte strings the last 8 bytes.
            Events of unknown types are counted and left out; unknown fields are passed over.

        Raises:
            ArgumentError: If it is no bytes, or they do not lie side by side.
            EventDecodeError: If it is no batch, or an event of a known type is wrong. Nothing of it is returned.
        """
        if not isinstance(payload, (bytes, bytearray, memoryview)):
            raise ArgumentError("payload", payload, "bytes are needed")
        if isinstance(payload, memoryview):
            payload = _flat(payload)
        if len(payload) > self.max_bytes:
            raise EventDecodeError(f"{len(payload)} bytes are more than {self.max_bytes}")
        try:
            batch = self._decode_maps(payload) if _has_maps(payload) else self._decode_arrays(payload)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return self._decode_loosely(payload)
        return EventBatch(batch.ts, cast("list[WireEvent]", batch.events), batch.data_parallel_rank)

    def _decode_loosely(self, payload: bytes) -> EventBatch:
        try:
            value = self._decode_anything(payload)
        except RecursionError:
            raise EventDecodeError("it is nested too deeply") from None
        except (msgspec.DecodeError, ValueError, TypeError, OverflowError, MemoryError) as error:
            raise EventDecodeError(str(error)) from None
        return loose_batch(value)


def _flat(payload: memoryview) -> Any:
    """The same memory, byte by byte."""
    try:
        return payload.cast("B")
    except (TypeError, ValueError):
        raise ArgumentError("payload", payload, "contiguous bytes are needed") from None


def _has_maps(payload: bytes) -> bool:
    """Whether the first event is a map, in a batch written the usual way: array, double, array of events."""
    if len(payload) < 12 or payload[1] != 0xCB:
        return False
    head = payload[10]
    first = 11 if head < 0xA0 else 13 if head == 0xDC else 15
    return len(payload) > first and (payload[first] & 0xF0 == 0x80 or payload[first] in (0xDE, 0xDF))
