"""Events from plain lists and dicts, checked field by field: the reader of everything out of the ordinary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from blockpool.errors import EventDecodeError
from blockpool.events.wire_events import (
    REMOVED_DETAILS,
    REMOVED_FIELDS,
    STORED_DETAILS,
    STORED_FIELDS,
    ClearedEvent,
    EventBatch,
    MapRemovedEvent,
    MapStoredEvent,
    RemovedEvent,
    StoredEvent,
    WireEvent,
)

WORD: Final = 1 << 64
HASH_BYTES: Final = 8
_MISSING: Final = object()


def loose_batch(value: object) -> EventBatch:
    """A batch of what msgpack gives: lists, dicts, numbers, text, bytes.

    Raises:
        EventDecodeError: If it is no batch, or an event of a known type is wrong.
    """
    if not isinstance(value, list) or len(value) < 2:
        raise EventDecodeError("an array of time, events and rank is needed")
    ts, events = value[0], value[1]
    if isinstance(ts, bool) or not isinstance(ts, (int, float)):
        raise EventDecodeError("the time is no number")
    if not isinstance(events, list):
        raise EventDecodeError("the events are no array")
    rank = _whole_or_none("data_parallel_rank", value[2] if len(value) > 2 else None)
    known: list[WireEvent] = []
    for position, event in enumerate(events):
        try:
            read = _event(event)
        except EventDecodeError as error:
            raise EventDecodeError(f"event {position}: {error.reason}") from None
        if read is not None:
            known.append(read)
    try:
        seconds = float(ts)
    except OverflowError:
        raise EventDecodeError("the time is too large") from None
    return EventBatch(seconds, known, rank, len(events) - len(known))


def _event(event: object) -> WireEvent | None:
    """One event; None if its type is unknown."""
    if isinstance(event, list):
        tag = event[0] if event else None
    elif isinstance(event, dict):
        tag = event.get("type")
    else:
        raise EventDecodeError("it is neither an array nor a map")
    if not isinstance(tag, str):
        raise EventDecodeError("it has no type")
    reader = _READERS.get(tag)
    return None if reader is None else reader(event)


def _stored(event: list[Any] | dict[Any, Any]) -> StoredEvent:
    values = _values(event, (*STORED_FIELDS, *STORED_DETAILS))
    parent = values[1]
    if values[3] is _MISSING:
        raise EventDecodeError("a field is missing: hashes, parent, tokens and block size are needed")
    values = [None if value is _MISSING else value for value in values]
    tokens = values[2]
    if not isinstance(tokens, list) or not all(type(token) is int for token in tokens):
        raise EventDecodeError("token_ids is no array of integers")
    block_size = _whole_or_none("block_size", values[3])
    if block_size is None:
        raise EventDecodeError("block_size is no integer")
    extra_keys = values[7]
    if extra_keys is not None and not isinstance(extra_keys, list):
        raise EventDecodeError("extra_keys is no array")
    fields = (
        _hashes(values[0]),
        None if parent is None else _hash(parent),
        tokens,
        block_size,
        _whole_or_none("lora_id", values[4]),
        _text_or_none("medium", values[5]),
        _text_or_none("lora_name", values[6]),
        extra_keys,
        _whole_or_none("group_idx", values[8]),
        _text_or_none("kv_cache_spec_kind", values[9]),
        _whole_or_none("kv_cache_spec_sliding_window", values[10]),
    )
    if isinstance(event, list):
        return StoredEvent(*fields)
    details = [
        _text_or_none(name, value) for name, value in zip(STORED_DETAILS[4:], values[11:], strict=True)
    ]
    return MapStoredEvent(*fields, *details)


def _removed(event: list[Any] | dict[Any, Any]) -> RemovedEvent:
    values = _values(event, (*REMOVED_FIELDS, *REMOVED_DETAILS))
    if values[0] is _MISSING:
        raise EventDecodeError("a field is missing: block_hashes")
    values = [None if value is _MISSING else value for value in values]
    fields = _hashes(values[0]), _text_or_none("medium", values[1]), _whole_or_none("group_idx", values[2])
    if isinstance(event, list):
        return RemovedEvent(*fields)
    details = [
        _text_or_none(name, value) for name, value in zip(REMOVED_DETAILS[1:], values[3:], strict=True)
    ]
    return MapRemovedEvent(*fields, *details)


def _cleared(event: list[Any] | dict[Any, Any]) -> ClearedEvent:
    return ClearedEvent()


_READERS: Final[dict[str, Callable[[Any], WireEvent]]] = {
    "BlockStored": _stored,
    "BlockRemoved": _removed,
    "AllBlocksCleared": _cleared,
}


def _values(event: list[Any] | dict[Any, Any], names: tuple[str, ...]) -> list[Any]:
    """The values of these fields; what is not there is `_MISSING`, and what is more is passed over."""
    if isinstance(event, dict):
        return [event.get(name, _MISSING) for name in names]
    values = event[1 : len(names) + 1]
    return values + [_MISSING] * (len(names) - len(values))


def _hashes(value: object) -> list[int]:
    if not isinstance(value, list):
        raise EventDecodeError("block_hashes is no array")
    return [_hash(item) for item in value]


def _hash(value: object) -> int:
    """A hash of any form as an unsigned integer of 64 bits."""
    if isinstance(value, bytes):
        return int.from_bytes(value[-HASH_BYTES:], "big")
    if isinstance(value, bool) or not isinstance(value, int):
        raise EventDecodeError("a hash is neither an integer nor bytes")
    return value % WORD


def _whole_or_none(name: str, value: object) -> int | None:
    if value is None or type(value) is int:
        return value
    raise EventDecodeError(f"{name} is no integer")


def _text_or_none(name: str, value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise EventDecodeError(f"{name} is no text")
