"""`EventEncoder`: writes batches of events in the array or the map dialect."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from operator import index
from typing import Any, Final, final

import msgspec

from blockpool.core.arguments import as_choice, as_int
from blockpool.core.build import COMPILED
from blockpool.core.event_log import EventLog
from blockpool.core.event_writer import EventWriter
from blockpool.core.events import AllBlocksCleared, BlockRemoved, BlockStored
from blockpool.errors import ArgumentError, ConfigError
from blockpool.events.durations import as_moment
from blockpool.events.wire_events import (
    REMOVED_DETAILS,
    REMOVED_FIELDS,
    STORED_DETAILS,
    STORED_FIELDS,
    AnyEvent,
    ClearedEvent,
    RemovedEvent,
    StoredEvent,
)

DIALECTS: Final = ("array", "map")
"""How an event is written: vLLM up to 0.2x and most others, or vLLM 0.32."""

_PACK_DOUBLE: Final = struct.Struct(">d").pack

ARRAY_DETAILS: Final = STORED_DETAILS[:4]
"""What the array dialect has a place for; the rest exists in maps only."""


def _as_plain(value: object) -> int:
    """What msgpack does not know, but stands for an integer, such as NumPy's: requests may have such tokens."""
    return index(value)  # type: ignore[arg-type]


ENCODE: Final[Callable[[Any], bytes]] = msgspec.msgpack.Encoder(enc_hook=_as_plain).encode
"""Writes any value as msgpack."""


@final
class EventEncoder:
    """Writes the events of a pool, and decoded ones, byte for byte as vLLM does.

    Args:
        dialect: One of `DIALECTS`.

    Raises:
        ArgumentError: If it is no string.
        ConfigError: If it is none of them.
    """

    def __init__(self, dialect: str = "array") -> None:
        self.dialect: str = as_choice("dialect", dialect, DIALECTS)
        self._written = _array_of if self.dialect == "array" else map_of
        self._encode: Callable[[Any], bytes] = ENCODE
        self._writer = EventWriter(self._encode) if COMPILED and self.dialect == "array" else None

    def encode(
        self, ts: float, events: EventLog | Iterable[AnyEvent], data_parallel_rank: int | None = None
    ) -> bytes:
        """One payload.

        A log is written without making its events where that can be: array dialect, compiled build.

        Args:
            ts: Seconds since 1970.
            events: A log, or events of a pool or decoded ones, in order.
            data_parallel_rank: Of the publisher, or None.

        Raises:
            ArgumentError: For what is no event, for fields that no dialect can carry, for a time or a rank that is no
                number.
            ConfigError: For a time that no float can hold, and a rank that msgpack cannot.
        """
        seconds = as_moment("ts", ts)
        rank = None if data_parallel_rank is None else as_int("data_parallel_rank", data_parallel_rank)
        if rank is not None and not -(1 << 63) <= rank < 1 << 64:
            raise ConfigError("data_parallel_rank", rank, "has more than 64 bits")
        if isinstance(events, EventLog):
            if self._writer is not None:
                array = self._writer.array_of(events)
                if array is not None:
                    return b"\x93\xcb" + _PACK_DOUBLE(seconds) + array + self._encode(rank)
            events = events.events()
        written = self._written
        try:
            return self._encode((seconds, [written(event) for event in events], rank))
        except (TypeError, ValueError, OverflowError, AttributeError) as error:
            raise ArgumentError("events", events, f"they cannot be written: {error}") from None


def _whole_numbers(tokens: Any) -> Any:
    """Tokens as readers take them; TypeError for what stands for no integer. A snapshot's are written already."""
    if isinstance(tokens, msgspec.Raw) or set(map(type, tokens)) <= {int}:
        return tokens
    return [index(token) for token in tokens]


def _array_of(event: Any) -> tuple[Any, ...]:
    if isinstance(event, BlockRemoved):
        return "BlockRemoved", event.block_hashes, event.medium
    if isinstance(event, (BlockStored, StoredEvent)):
        fields = (
            "BlockStored",
            event.block_hashes,
            event.parent_block_hash,
            _whole_numbers(event.token_ids),
            event.block_size,
            event.lora_id,
            event.medium,
            event.lora_name,
        )
        return fields if isinstance(event, BlockStored) else fields + _array_details(event, ARRAY_DETAILS)
    if isinstance(event, RemovedEvent):
        return ("BlockRemoved", event.block_hashes, event.medium, *_array_details(event, ("group_idx",)))
    if isinstance(event, (AllBlocksCleared, ClearedEvent)):
        return ("AllBlocksCleared",)
    raise TypeError(f"{type(event).__name__} is no event")


def _array_details(event: object, names: tuple[str, ...]) -> tuple[Any, ...]:
    """The fields that only newer writers have, up to the last that says something."""
    values = [getattr(event, name) for name in names]
    while values and values[-1] is None:
        values.pop()
    return tuple(values)


def map_of(event: Any) -> dict[str, Any]:
    """An event as the map dialect has it; TypeError for what is none."""
    if isinstance(event, (BlockRemoved, RemovedEvent)):
        written = {"type": "BlockRemoved"} | {name: getattr(event, name) for name in REMOVED_FIELDS}
        details: tuple[str, ...] = REMOVED_DETAILS if isinstance(event, RemovedEvent) else ()
    elif isinstance(event, (BlockStored, StoredEvent)):
        written = {"type": "BlockStored"} | {name: getattr(event, name) for name in STORED_FIELDS}
        written["token_ids"] = _whole_numbers(event.token_ids)
        details = STORED_DETAILS if isinstance(event, StoredEvent) else ()
    elif isinstance(event, (AllBlocksCleared, ClearedEvent)):
        return {"type": "AllBlocksCleared"}
    else:
        raise TypeError(f"{type(event).__name__} is no event")
    for name in details:
        value = getattr(event, name)
        if value is not None:
            written[name] = value
    return written
