"""Direct writer of event logs as msgpack, for the compiled build: no event, no tuple, no hash as an integer on the way.

It writes what `msgspec` gives for the events of the log in the array dialect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from librt.strings import BytesWriter, read_i64_be, write_i16_be, write_i32_be, write_i64_be
from mypy_extensions import i16, i32, i64, u8

from blockpool.core.event_log import EventLog, StoredRun

STORED_HEAD: Final = b"\x98\xabBlockStored"
REMOVED_HEAD: Final = b"\x93\xacBlockRemoved"
CLEARED: Final = b"\x91\xb0AllBlocksCleared"
GPU: Final = b"\xa3GPU"
GPU_WITHOUT_LORA: Final = b"\xc0\xa3GPU\xc0"
NIL: Final = 0xC0
WORD_BYTES: Final = 8
MAX_SHORT: Final = 0xFF


@final
class EventWriter:
    """Writes logs one after the other into one buffer.

    Args:
        encode: Gives the msgpack of the number and the name of a LoRA.
    """

    def __init__(self, encode: Callable[[object], bytes]) -> None:
        self._buffer: BytesWriter = BytesWriter()
        self._encode: Callable[[object], bytes] = encode

    def array_of(self, log: EventLog) -> bytes | None:
        """The events of a log as a msgpack array; None if the generic encoder has to write them. Changes nothing.

        That is so if events of it were made already, if a hash is shorter than 8 or longer than 255 bytes, if a token
        is negative or beyond 63 bits, or if something cannot be encoded.
        """
        if log.num_made:
            return None
        self._buffer.truncate(0)
        try:
            self._write(log.records, log.int_block_hashes, log.batch_removes)
        except (OverflowError, TypeError, ValueError):
            return None
        return self._buffer.getvalue()

    def _write(self, records: list[object], as_integers: bool, batch_removes: bool) -> None:
        buffer = self._buffer
        _write_array_head(buffer, _num_events(records, batch_removes))
        position: i64 = 0
        num_records: i64 = len(records)
        while position < num_records:
            record = records[position]
            if isinstance(record, bytes):
                end = position + 1
                if batch_removes:
                    while end < num_records and isinstance(records[end], bytes):
                        end += 1
                buffer.write(REMOVED_HEAD)
                _write_hashes(buffer, records, position, end, as_integers)
                buffer.write(GPU)
                position = end
                continue
            if isinstance(record, StoredRun):
                self._write_stored(record, as_integers)
            else:
                buffer.write(CLEARED)
            position += 1

    def _write_stored(self, run: StoredRun, as_integers: bool) -> None:
        buffer = self._buffer
        buffer.write(STORED_HEAD)
        hashes = run.block_hashes
        _write_hashes(buffer, hashes, 0, len(hashes), as_integers)
        parent = run.parent_hash
        if isinstance(parent, bytes):
            _write_hash(buffer, parent, as_integers)
        else:
            buffer.append(NIL)
        _write_tokens(buffer, run.token_ids)
        _write_unsigned(buffer, run.block_size)
        if run.lora_id is None and run.lora_name is None:
            buffer.write(GPU_WITHOUT_LORA)
        else:
            encode = self._encode
            buffer.write(encode(run.lora_id))
            buffer.write(GPU)
            buffer.write(encode(run.lora_name))


def _num_events(records: list[object], batch_removes: bool) -> i64:
    if not batch_removes:
        return len(records)
    count: i64 = 0
    in_removals = False
    for record in records:
        removal = isinstance(record, bytes)
        if not (removal and in_removals):
            count += 1
        in_removals = removal
    return count


def _write_tokens(buffer: BytesWriter, tokens: list[object]) -> None:
    """Tokens, with `_write_unsigned` for most of them written out: here a call counts."""
    _write_array_head(buffer, len(tokens))
    for token in tokens:
        if not isinstance(token, int) or isinstance(token, bool):
            raise TypeError
        value: i64 = token
        if value > 0xFFFF and value <= 0xFFFFFFFF:
            buffer.append(0xCE)
            write_i32_be(buffer, i32(value))
        elif value > 0xFF and value <= 0xFFFF:
            buffer.append(0xCD)
            write_i16_be(buffer, i16(value))
        elif value >= 0:
            _write_unsigned(buffer, value)
        else:
            raise OverflowError


def _write_hashes(
    buffer: BytesWriter, hashes: list[object], start: i64, stop: i64, as_integers: bool
) -> None:
    _write_array_head(buffer, stop - start)
    for position in range(start, stop):
        digest = hashes[position]
        if not isinstance(digest, bytes):
            raise OverflowError
        _write_hash(buffer, digest, as_integers)


def _write_hash(buffer: BytesWriter, digest: bytes, as_integers: bool) -> None:
    size: i64 = len(digest)
    if as_integers:
        if size < WORD_BYTES:
            raise OverflowError
        _write_unsigned(buffer, read_i64_be(digest, size - WORD_BYTES))
        return
    if size > MAX_SHORT:
        raise OverflowError
    buffer.append(0xC4)
    buffer.append(u8(size))
    buffer.write(digest)


def _write_array_head(buffer: BytesWriter, count: i64) -> None:
    if count < 0x10:
        buffer.append(u8(0x90 | count))
    elif count <= 0xFFFF:
        buffer.append(0xDC)
        write_i16_be(buffer, i16(count))
    else:
        buffer.append(0xDD)
        write_i32_be(buffer, i32(count))


def _write_unsigned(buffer: BytesWriter, value: i64) -> None:
    """The shortest form; a negative word stands for itself plus 2^64."""
    if value < 0:
        buffer.append(0xCF)
        write_i64_be(buffer, value)
    elif value < 0x80:
        buffer.append(u8(value))
    elif value <= 0xFF:
        buffer.append(0xCC)
        buffer.append(u8(value))
    elif value <= 0xFFFF:
        buffer.append(0xCD)
        write_i16_be(buffer, i16(value))
    elif value <= 0xFFFFFFFF:
        buffer.append(0xCE)
        write_i32_be(buffer, i32(value))
    else:
        buffer.append(0xCF)
        write_i64_be(buffer, value)
