"""Checks of requests that come from Python. Those of a file are checked by `blockpool.trace.formats`."""

from __future__ import annotations

from blockpool.errors import ArgumentError, ConfigError
from blockpool.trace.formats import (
    MAX_BLOCK_ID,
    MAX_BLOCK_SIZE,
    MAX_LENGTH,
    MAX_TIMESTAMP_MS,
    MAX_TOKEN,
    MIN_BLOCK_ID,
)
from blockpool.trace.request import TraceRequest


def check_request(request: TraceRequest) -> None:
    """Makes sure that a request is one, as a reader would. O(blocks), with tokens O(tokens), at the speed of `min`.

    Raises:
        ConfigError: With the field of the request that cannot be right; an ArgumentError for a wrong type.
    """
    _check_timestamp(request.timestamp_ms)
    _check_int("prompt_tokens", request.prompt_tokens, 1, MAX_LENGTH)
    if request.block_size is not None:
        _check_int("block_size", request.block_size, 1, MAX_BLOCK_SIZE)
    if request.output_tokens is not None:
        _check_int("output_tokens", request.output_tokens, 0, MAX_LENGTH)
    for field in ("lora", "salt", "tag"):
        _check_text(field, getattr(request, field), may_be_empty=field == "tag")
    session_id = request.session_id
    if type(session_id) is not int:  # not `isinstance`: neither True nor False
        _check_text("session_id", session_id, may_be_empty=True)
    if request.token_ids is not None:
        _check_tokens(request)
    elif request.block_ids is not None:
        _check_blocks(request)
    else:
        raise ConfigError("token_ids", None, "either these or block_ids are needed")


def _check_tokens(request: TraceRequest) -> None:
    for field in ("block_ids", "block_tokens"):
        if getattr(request, field) is not None:
            raise ConfigError(field, getattr(request, field), "not beside token_ids")
    if request.block_size is None:
        raise ConfigError("block_size", None, "is needed")
    count = _check_ints("token_ids", request.token_ids, 0, MAX_TOKEN)
    if count != request.prompt_tokens:
        raise ConfigError("prompt_tokens", request.prompt_tokens, f"but there are {count:,} token_ids")
    if request.output_token_ids is not None:
        _check_ints("output_token_ids", request.output_token_ids, 0, MAX_TOKEN)
    if request.images is not None:
        _check_images(request.images, request.prompt_tokens)


def _check_blocks(request: TraceRequest) -> None:
    for field in ("output_token_ids", "lora", "salt", "images"):
        if getattr(request, field) is not None:
            raise ConfigError(field, getattr(request, field), "goes with token_ids only")
    count = _check_ints("block_ids", request.block_ids, MIN_BLOCK_ID, MAX_BLOCK_ID)
    if not count:
        raise ConfigError("block_ids", [], "at least one is needed")
    sizes = request.block_tokens
    if sizes is not None:
        if _check_ints("block_tokens", sizes, 1, MAX_BLOCK_SIZE) != count:
            raise ConfigError("block_tokens", sizes, f"one is needed for each of {count:,} block_ids")
        if sum(sizes) != request.prompt_tokens:
            raise ConfigError("prompt_tokens", request.prompt_tokens, f"but block_tokens sum to {sum(sizes)}")
        if request.block_size is not None and max(sizes) > request.block_size:
            raise ConfigError("block_tokens", sizes, f"one is above the block_size of {request.block_size:,}")
    elif request.block_size is None:
        raise ConfigError("block_size", None, "either this or block_tokens is needed")
    elif -(-request.prompt_tokens // request.block_size) != count:
        size = request.block_size
        reason = f"does not make {count:,} blocks of {size:,} tokens, as there are block_ids"
        raise ConfigError("prompt_tokens", request.prompt_tokens, reason)


def _check_timestamp(value: object) -> None:
    if value is None:
        return
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise ArgumentError("timestamp_ms", value, "a number or None is needed")
    if not 0 <= value <= MAX_TIMESTAMP_MS:  # nor is what is not a number
        raise ConfigError("timestamp_ms", value, f"must be 0 … {MAX_TIMESTAMP_MS:,}")


def _check_text(field: str, value: object, *, may_be_empty: bool) -> None:
    if value is None:
        return
    if not isinstance(value, str):
        raise ArgumentError(field, value, "text or None is needed")
    if not value and not may_be_empty:
        raise ConfigError(field, value, "must not be empty")


def _check_int(field: str, value: object, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ArgumentError(field, value, "an integer is needed")
    if not least <= value <= most:
        raise ConfigError(field, value, f"must be {least:,} … {most:,}")


def _check_ints(field: str, values: object, least: int, most: int) -> int:
    """Their number."""
    if not isinstance(values, list):
        raise ArgumentError(field, values, "a list is needed")
    if any(kind is not int for kind in set(map(type, values))):
        wrong = next(value for value in values if type(value) is not int)
        raise ArgumentError(field, wrong, "integers are needed")
    if values and (min(values) < least or max(values) > most):
        wrong = min(values) if min(values) < least else max(values)
        raise ConfigError(field, wrong, f"each must be {least:,} … {most:,}")
    return len(values)


def _check_images(images: object, prompt_tokens: int) -> None:
    if not isinstance(images, list):
        raise ArgumentError("images", images, "a list is needed")
    end = 0
    for image in images:
        if not isinstance(image, tuple) or len(image) != 3:
            raise ArgumentError("images", image, "a MultiModalInput is needed")
        identifier, offset, length = image
        if not isinstance(identifier, str):
            raise ArgumentError("images", identifier, "an identifier is text")
        _check_int("images", offset, end, prompt_tokens - 1)
        _check_int("images", length, 1, prompt_tokens - offset)
        end = offset + length
