"""Writes requests as a trace file: the token-id form or the mooncake form, plain, gzip or zstd."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import os
import struct
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

from blockpool.core.arguments import as_choice, as_size
from blockpool.core.extra_keys import block_extra_keys
from blockpool.errors import ConfigError
from blockpool.trace.formats import MOONCAKE, MOONCAKE_BLOCK_SIZE, TOKEN_IDS
from blockpool.trace.request import TraceRequest
from blockpool.trace.source import open_zstd

WRITABLE_FORMATS = (TOKEN_IDS, MOONCAKE)


class PrefixIds:
    """Numbers prefixes in order of appearance: equal id, equal whole prefix (and adapter, salt and images).

    Memory: one small entry per distinct block.
    """

    def __init__(self, block_size: int) -> None:
        self._block_size = block_size
        self._ids: dict[bytes, int] = {}

    def block_ids(self, request: TraceRequest) -> list[int]:
        """Ids of all blocks of the prompt, the partial last one included."""
        _check_has_tokens(request)
        tokens = request.token_ids or []
        chain = hashlib.blake2b(repr((request.lora, request.salt)).encode(), digest_size=16).digest()
        num_blocks = -(-len(tokens) // self._block_size)
        image_keys = block_extra_keys(num_blocks, self._block_size, mm_inputs=request.images or ())
        ids = []
        for number, keys in enumerate(image_keys):
            block = tokens[number * self._block_size : (number + 1) * self._block_size]
            content = struct.pack(f"<{len(block)}I", *block) + (repr(keys).encode() if keys else b"")
            chain = hashlib.blake2b(chain + content, digest_size=16).digest()
            ids.append(self._ids.setdefault(chain, len(self._ids)))
        return ids


def write_trace(
    requests: Iterable[TraceRequest], file: BinaryIO, trace_format: str, *, block_size: int
) -> int:
    """Writes requests that carry their tokens, one line each.

    The mooncake form is the same workload: same prompts, order and times; an id stands for the whole prefix,
    the last may be partial. Which tokens were generated is lost, their number stays. With a block size other
    than 512 each line also says `block_size`, which makes it the kvcache-simulator format: a file always says
    what is needed to read it.

    Args:
        requests: With `token_ids`.
        file: Where to; stays open.
        trace_format: One of `WRITABLE_FORMATS`.
        block_size: Tokens per block of the mooncake form, at least 1.

    Returns:
        Number of requests written.

    Raises:
        ConfigError: An unknown format, a block size below 1, a request without tokens.
    """
    as_choice("trace_format", trace_format, WRITABLE_FORMATS)
    block_size = as_size("block_size", block_size)
    prefix_ids = PrefixIds(block_size)
    written = 0
    for request in requests:
        fields = (
            _token_fields(request) if trace_format == TOKEN_IDS else _mooncake_fields(request, prefix_ids)
        )
        if trace_format == MOONCAKE and block_size != MOONCAKE_BLOCK_SIZE:
            fields["block_size"] = block_size
        file.write(json.dumps(fields, separators=(",", ":")).encode() + b"\n")
        written += 1
    return written


def _check_has_tokens(request: TraceRequest) -> None:
    if request.token_ids is None:
        raise ConfigError("request", request.session_id, "has block ids and no tokens")


def _token_fields(request: TraceRequest) -> dict[str, object]:
    _check_has_tokens(request)
    fields: dict[str, object] = {
        "timestamp": request.timestamp_ms,
        "session_id": request.session_id,
        "lora": request.lora,
        "salt": request.salt,
        "images": [
            {"id": image.identifier, "offset": image.offset, "length": image.length}
            for image in request.images
        ]
        if request.images
        else None,
        "token_ids": request.token_ids,
        "output_token_ids": request.output_token_ids,
        "output_length": request.output_tokens if request.output_token_ids is None else None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _mooncake_fields(request: TraceRequest, prefix_ids: PrefixIds) -> dict[str, object]:
    fields: dict[str, object] = {
        "timestamp": request.timestamp_ms,
        "input_length": request.prompt_tokens,
        "output_length": request.output_tokens,
        "session_id": request.session_id,
        "hash_ids": prefix_ids.block_ids(request),
    }
    return {name: value for name, value in fields.items() if value is not None}


@contextlib.contextmanager
def open_trace_for_writing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Opens a trace file: `.gz` is gzip, `.zst` is zstd, all else plain; the string "-" is standard output.

    Equal content gives equal bytes: neither name nor time goes into the archive.

    Raises:
        OSError: The file cannot be written.
        MissingExtraError: zstd without the package that packs it.
    """
    if path == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    name = os.fspath(path)
    with Path(path).open("wb") as file:
        if name.endswith(".gz"):
            with gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as packed:
                yield cast(BinaryIO, packed)
        elif name.endswith(".zst"):
            with open_zstd(file, "wb") as packed_zstd:
                yield packed_zstd
        else:
            yield file
