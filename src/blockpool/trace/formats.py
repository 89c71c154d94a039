"""The three trace formats: one line of JSON in, one checked `TraceRequest` out.

| format | told by | fields |
|---|---|---|
| mooncake | `hash_ids` alone | `input_length`, `hash_ids`; optional `output_length` |
| kvcache-simulator | `block_size` or `block_tokens` beside `hash_ids` | the same and those two |
| token ids | `token_ids` | optional `output_token_ids` or `output_length`, `lora`, `salt`, `images` |

All may have `timestamp` (ms; on every line or on none) and `session_id`.
"""

from __future__ import annotations

from typing import Annotated

from blockpool.core.extra_keys import MultiModalInput
from blockpool.errors import MissingExtraError
from blockpool.trace.json_complaints import why_no_json, why_not_valid
from blockpool.trace.recording_mark import RECORDING_MARK
from blockpool.trace.request import TraceRequest
from blockpool.trace.tag_field import TagField, TagValueError

try:
    import msgspec
except ImportError:
    raise MissingExtraError("reading traces", "cli") from None

MOONCAKE = "mooncake"
KVCACHE_SIMULATOR = "kvcache-simulator"
TOKEN_IDS = "token-ids"  # noqa: S105 - no password

DEFAULT_TOKEN_BLOCK_SIZE = 16
MOONCAKE_BLOCK_SIZE = 512
MAX_BLOCK_SIZE = 2**31 - 1
MAX_LENGTH = 2**53  # tokens of a prompt or an output
MAX_TOKEN = 2**32 - 1
MAX_TIMESTAMP_MS = 10**15  # thirty thousand years; keeps nanoseconds within what a float can tell apart
MIN_BLOCK_ID = -(2**63)  # an id is a name, not a count: signed and unsigned 64-bit hashes both occur
MAX_BLOCK_ID = 2**64 - 1

_Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_LENGTH)]
_BlockSize = Annotated[int, msgspec.Meta(ge=1, le=MAX_BLOCK_SIZE)]
_Token = Annotated[int, msgspec.Meta(ge=0, le=MAX_TOKEN)]
_Name = Annotated[str, msgspec.Meta(min_length=1)]


class BadLineError(Exception):
    """One line of a trace is no request. The reader, which knows file and line, makes a TraceError of it."""


class _Image(msgspec.Struct):
    """A run of placeholder tokens in the prompt; unknown fields are ignored."""

    id: _Name
    offset: _Count
    length: _BlockSize


class _Line(msgspec.Struct):
    """The fields of all formats; unknown ones are ignored, null is the same as absent."""

    timestamp: int | float | None = None
    input_length: _Count | None = None
    output_length: _Count | None = None
    hash_ids: list[int] | None = None
    block_size: _BlockSize | None = None
    block_tokens: list[_BlockSize] | None = None
    token_ids: list[_Token] | None = None
    output_token_ids: list[_Token] | None = None
    session_id: str | int | None = None
    lora: _Name | None = None
    salt: _Name | None = None
    images: list[_Image] | None = None


class LineParser:
    """Reads the lines of one trace. The first good line decides what the others must look like.

    Attributes:
        format: `MOONCAKE`, `KVCACHE_SIMULATOR` or `TOKEN_IDS`; None before the first good line.
    """

    def __init__(self, block_size: int | None = None, tag_field: str | None = None) -> None:
        """Starts a trace.

        Args:
            block_size: Tokens per block, 1 … `MAX_BLOCK_SIZE`. None: 512 for mooncake, 16 for token ids, what
                the lines say for kvcache-simulator.
            tag_field: Field that requests keep as their `tag`; null is as good as absent.
        """
        self.format: str | None = None
        self._block_size = block_size
        self._line_block_size: int | None = None
        self._has_timestamps = False
        self._decoder = msgspec.json.Decoder(_Line)
        self._tag_field = None if tag_field is None else TagField(tag_field)

    def parse(self, text: bytes) -> TraceRequest:
        """Reads one line. A line that raises leaves the parser as it was.

        Raises:
            BadLineError: With the reason.
        """
        line = self._decode(text)
        line_format = _format_of(line, text)
        self._check_same_trace(line, line_format)
        _check_timestamp(line.timestamp)
        if line_format == TOKEN_IDS:
            request = self._token_request(line)
        else:
            request = self._block_request(line, line_format)
        if self._tag_field is not None:
            try:
                request.tag = self._tag_field.of(text)
            except TagValueError as error:
                raise BadLineError(str(error)) from None
        if self.format is None:
            self.format = line_format
            self._line_block_size = line.block_size
            self._has_timestamps = line.timestamp is not None
        return request

    def _decode(self, text: bytes) -> _Line:
        try:
            if not text.isascii():
                text.decode("utf-8")
            return self._decoder.decode(text)
        except UnicodeDecodeError as error:
            raise BadLineError(f"not UTF-8 (byte {error.start})") from None
        except msgspec.ValidationError as error:
            raise BadLineError(why_not_valid(error)) from None
        except msgspec.DecodeError as error:
            raise BadLineError(f"not JSON: {why_no_json(error, text)}") from None
        except RecursionError:
            raise BadLineError("not JSON that can be read: nested too deeply") from None

    def _check_same_trace(self, line: _Line, line_format: str) -> None:
        if self.format is None:
            if None not in (line.block_size, self._block_size) and line.block_size != self._block_size:
                raise BadLineError(f"block_size {line.block_size}, but {self._block_size} was asked for")
            return
        if line_format != self.format:
            raise BadLineError(f"a {line_format} line in a {self.format} trace")
        if line.block_size != self._line_block_size:
            raise BadLineError(
                f"block_size {_shown(line.block_size)}, but {_shown(self._line_block_size)} before"
            )
        if (line.timestamp is not None) != self._has_timestamps:
            raise BadLineError("timestamp missing" if self._has_timestamps else "timestamp, but none before")

    def _token_request(self, line: _Line) -> TraceRequest:
        tokens = line.token_ids
        assert tokens is not None
        if not tokens:
            raise BadLineError("token_ids is empty")
        if line.input_length is not None and line.input_length != len(tokens):
            raise BadLineError(f"input_length {line.input_length}, but {len(tokens)} token_ids")
        output = line.output_token_ids
        if output is not None and line.output_length is not None and line.output_length != len(output):
            raise BadLineError(f"output_length {line.output_length}, but {len(output)} output_token_ids")
        return TraceRequest(
            timestamp_ms=line.timestamp,
            prompt_tokens=len(tokens),
            block_size=self._block_size or DEFAULT_TOKEN_BLOCK_SIZE,
            token_ids=tokens,
            output_token_ids=output,
            output_tokens=line.output_length if output is None else len(output),
            session_id=line.session_id,
            lora=line.lora,
            salt=line.salt,
            images=None if line.images is None else _checked_images(line.images, len(tokens)),
        )

    def _block_request(self, line: _Line, line_format: str) -> TraceRequest:
        ids = line.hash_ids
        assert ids is not None
        if line.input_length is None:
            raise BadLineError("input_length missing")
        _check_block_ids(ids)
        block_size = line.block_size or self._block_size
        if line_format == MOONCAKE and block_size is None:
            block_size = MOONCAKE_BLOCK_SIZE
        prompt_tokens = line.input_length
        if line.block_tokens is not None:
            _check_block_tokens(line.block_tokens, len(ids), prompt_tokens, block_size)
            prompt_tokens = sum(line.block_tokens)
        elif block_size is None or -(-prompt_tokens // block_size) != len(ids):
            raise BadLineError(
                f"input_length {prompt_tokens} does not make {len(ids)} blocks of {block_size} tokens"
            )
        return TraceRequest(
            timestamp_ms=line.timestamp,
            prompt_tokens=prompt_tokens,
            block_size=block_size,
            block_ids=ids,
            block_tokens=line.block_tokens,
            output_tokens=line.output_length,
            session_id=line.session_id,
        )


def _format_of(line: _Line, text: bytes) -> str:
    if line.token_ids is not None:
        if line.hash_ids is not None:
            raise BadLineError("both token_ids and hash_ids")
        return TOKEN_IDS
    if line.hash_ids is None:
        if text.startswith(RECORDING_MARK):
            raise BadLineError(
                "a recording of events, which `blockpool replay` reads; --requests-to makes a trace of it"
            )
        raise BadLineError("neither token_ids nor hash_ids")
    if line.block_size is None and line.block_tokens is None:
        return MOONCAKE
    return KVCACHE_SIMULATOR


def _check_timestamp(timestamp: float | None) -> None:
    if timestamp is not None and not 0 <= timestamp <= MAX_TIMESTAMP_MS:
        raise BadLineError(f"timestamp out of range (0 … {MAX_TIMESTAMP_MS:,} ms)")


def _checked_images(images: list[_Image], prompt_tokens: int) -> list[MultiModalInput] | None:
    end = 0
    for number, image in enumerate(images):
        if image.offset < end:
            raise BadLineError(
                f"images[{number}] begins at {image.offset}, but the one before it ends at {end}"
            )
        end = image.offset + image.length
        if end > prompt_tokens:
            raise BadLineError(f"images[{number}] ends at {end}, but there are {prompt_tokens} token_ids")
    return [MultiModalInput(image.id, image.offset, image.length) for image in images] or None


def _check_block_ids(ids: list[int]) -> None:
    if not ids:
        raise BadLineError("hash_ids is empty")
    if min(ids) < MIN_BLOCK_ID or max(ids) > MAX_BLOCK_ID:
        raise BadLineError("an id in hash_ids is out of range (-2^63 … 2^64-1)")
    if len(set(ids)) != len(ids):
        raise BadLineError("hash_ids repeats an id, but an id stands for a whole prefix")


def _check_block_tokens(
    block_tokens: list[int], num_ids: int, input_length: int, block_size: int | None
) -> None:
    if len(block_tokens) != num_ids:
        raise BadLineError(f"{len(block_tokens)} block_tokens for {num_ids} hash_ids")
    # Traces cut prompts into equal parts and round, so each block may be off by one token.
    if abs(sum(block_tokens) - input_length) > num_ids:
        raise BadLineError(f"input_length {input_length}, but block_tokens sum to {sum(block_tokens)}")
    if block_size is not None and max(block_tokens) > block_size:
        raise BadLineError(f"a block of {max(block_tokens)} tokens, but block_size {block_size}")


def _shown(value: int | None) -> str:
    return "missing" if value is None else str(value)
