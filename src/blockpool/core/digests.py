"""The digest functions behind block hashes."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b, sha256
from typing import Any, Final, TypeAlias

from blockpool.errors import MissingExtraError

Digest: TypeAlias = Callable[[Any], bytes]
"""From bytes, or another buffer, to their digest."""

# Copying an empty state takes less time than making one: OpenSSL looks the algorithm up for that.
_SHA256: Final[Any] = sha256()
new_sha256: Final[Callable[[], Any]] = _SHA256.copy
_update_sha256: Final[Callable[[Any, Any], None]] = type(_SHA256).update
_finish_sha256: Final[Callable[[Any], bytes]] = type(_SHA256).digest

BLAKE2B_BYTES: Final = 32
BLAKE2B_PERSON: Final = b"blockpool raw 1"
_BLAKE2B: Final[Any] = blake2b(digest_size=BLAKE2B_BYTES, person=BLAKE2B_PERSON)
new_blake2b: Final[Callable[[], Any]] = _BLAKE2B.copy
_update_blake2b: Final[Callable[[Any, Any], None]] = blake2b.update
_finish_blake2b: Final[Callable[[Any], bytes]] = blake2b.digest


def sha256_digest(data: object) -> bytes:
    """SHA-256, 32 bytes."""
    state = new_sha256()
    _update_sha256(state, data)
    return _finish_sha256(state)


def blake2b_digest(data: object) -> bytes:
    """BLAKE2b, 32 bytes, personalised so that it is nobody else's."""
    state = new_blake2b()
    _update_blake2b(state, data)
    return _finish_blake2b(state)


def xxh3_digest(algorithm: str) -> Digest:
    """The function xxh3-128, 16 bytes, for an algorithm of that name.

    Raises:
        MissingExtraError: If its package is not installed.
    """
    try:
        import xxhash
    except ImportError:
        raise MissingExtraError(f"the hash algorithm {algorithm!r}", "hash") from None
    digest: Digest = xxhash.xxh3_128_digest
    return digest
