"""Tells a recording of events from a trace of requests, by its first bytes; reading it is the business of `events`."""

from __future__ import annotations

import sys
import zlib
from pathlib import Path
from typing import Final

from blockpool.trace.demo import DEMO_NAME

RECORDING_FORMAT: Final = "blockpool.events/1"
"""What the first line of a recording says under "recording"."""

RECORDING_MARK: Final = b'{"recording":"blockpool.events/'
"""How every recording begins, whatever the number of its format."""

_HEAD_BYTES: Final = 1 << 18  # more than a packed block of zstd


def is_recording(path: str) -> bool:
    """Whether that is a recording of events, plain, gzip or zstd.

    Nothing is taken from standard input; pipes with a name are not looked at, as that would take from them.

    Args:
        path: As `TraceReader` takes it.

    Raises:
        OSError: The file cannot be read.
    """
    if path == DEMO_NAME:
        return False
    if path == "-":
        peek = getattr(getattr(sys.stdin, "buffer", None), "peek", None)
        return peek is not None and _unpacked(peek(len(RECORDING_MARK))).startswith(RECORDING_MARK)
    if not Path(path).is_file():
        return False
    with Path(path).open("rb") as file:
        return _unpacked(file.read(_HEAD_BYTES)).startswith(RECORDING_MARK)


def _unpacked(head: bytes) -> bytes:
    """The first bytes of what is packed in there; of what is damaged none."""
    wanted = len(RECORDING_MARK)
    if head.startswith(b"\x1f\x8b"):
        try:
            return zlib.decompressobj(wbits=31).decompress(head, wanted)
        except zlib.error:
            return b""
    if head.startswith(b"\x28\xb5\x2f\xfd"):
        return _zstd_head(head, wanted)
    return head[:wanted]


def _zstd_head(head: bytes, wanted: int) -> bytes:
    try:
        if sys.version_info >= (3, 14):
            from compression import zstd
        else:
            from backports import zstd
    except ImportError:
        return b""  # whoever reads it will say so
    try:
        unpacked: bytes = zstd.ZstdDecompressor().decompress(head, wanted)
    except zstd.ZstdError:
        return b""
    return unpacked
