"""`BlockHasher`: chained block hashes, those compatible with vLLM and two of our own."""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, cast, final

from blockpool.core.arguments import as_bytes, as_choice, as_list, as_size, random_seed
from blockpool.core.build import COMPILED
from blockpool.core.chains import CHAINS, Form, Run
from blockpool.core.digests import Digest, blake2b_digest, sha256_digest, xxh3_digest
from blockpool.core.direct_chains import DirectChains
from blockpool.core.encoding import cbor_value
from blockpool.core.extra_keys import KEY_SCHEMAS, canonical_keys
from blockpool.core.tokens import pack_list, token_values
from blockpool.core.types import BlockHash, BytesArg, IntArg, KeysArg, StrArg
from blockpool.errors import ArgumentError, ConfigError


class _Algorithm(NamedTuple):
    form: Form
    digest: Digest | None
    """None: xxh3-128, of the package that the extra `hash` brings."""


_ALGORITHMS = {
    "sha256": _Algorithm("pickle", sha256_digest),
    "sha256_cbor": _Algorithm("cbor", sha256_digest),
    "xxhash": _Algorithm("pickle", None),
    "xxhash_cbor": _Algorithm("cbor", None),
    "blake2b_raw": _Algorithm("raw", blake2b_digest),
    "xxh3_raw": _Algorithm("raw", None),
}

HASH_ALGORITHMS: tuple[str, ...] = tuple(_ALGORITHMS)
"""All algorithms. `sha256`, `sha256_cbor`, `xxhash` and `xxhash_cbor` give the bytes of vLLM's of the same name. The
raw ones are our own: `blake2b_raw` is cryptographic and needs nothing, `xxh3_raw` is the fastest. `xxhash`,
`xxhash_cbor` and `xxh3_raw` need the extra `hash`."""

NONE_HASH_BYTES: Final = 32


@final
class BlockHasher:
    """Hashes blocks of tokens so that equal hashes mean equal content and equal content before it.

    `block_hash = H((parent_hash or none_hash, token_ids, extra_keys or None))`, where H serialises and digests as the
    algorithm says. It holds no state of a request: hashing goes on from the last hash, so the total stays linear.

    Args:
        algorithm: One of `HASH_ALGORITHMS`.
        block_size: Tokens per block, at least 1.
        seed: Root of all chains. Processes that shall agree on hashes need the same; None draws a random root.
        key_schema: "tagged" or "untagged": which form of extra keys the caller passes (`block_extra_keys`). It does not
            change a hash by itself; it is part of the fingerprint.
        random_bytes: Source of the random root.

    Attributes:
        algorithm: As given.
        block_size: As given.
        key_schema: As given.
        none_hash: Stands for the parent of a first block: H(seed), or 32 random bytes.
        digest_size: Bytes per hash: 32; 16 for `xxhash`, `xxhash_cbor` and `xxh3_raw`.

    Raises:
        ArgumentError: For an argument of the wrong type.
        ConfigError: For an unknown algorithm or schema, a block size below 1, or a seed that is not valid Unicode.
        MissingExtraError: If the algorithm needs a package that is not installed.
    """

    def __init__(
        self,
        algorithm: StrArg,
        block_size: IntArg,
        seed: StrArg | None = None,
        *,
        key_schema: StrArg = "tagged",
        random_bytes: Callable[[int], object] = os.urandom,
    ) -> None:
        self.algorithm: str = as_choice("algorithm", algorithm, HASH_ALGORITHMS)
        self.block_size: int = as_size("block_size", block_size)
        self.key_schema: str = as_choice("key_schema", key_schema, KEY_SCHEMAS)
        form, digest = _ALGORITHMS[self.algorithm]
        self._form: str = form
        self._digest: Digest = xxh3_digest(self.algorithm) if digest is None else digest
        self._direct: DirectChains | None = DirectChains(form, self._digest) if COMPILED else None
        self.digest_size: int = len(self._digest(b""))
        if seed is None:
            self.none_hash: bytes = random_seed(random_bytes, NONE_HASH_BYTES)
        else:
            self.none_hash = self._digest(_seed_bytes(seed, self._form == "pickle"))
        # What a first block is chained to. A raw block comes apart in one way only if all parents are of one length.
        fits = self._form != "raw" or len(self.none_hash) == self.digest_size
        self._root: bytes = self.none_hash if fits else self._digest(self.none_hash)

    @property
    def fingerprint(self) -> str:
        """Tells whether two hashers give comparable hashes, without giving the root away.

        Equal for equal algorithm, root, block size and key schema: `algorithm:block_size:key_schema:digest`, where
        digest is the start of the SHA-256 of the root.
        """
        root = hashlib.sha256(b"blockpool fingerprint" + self.none_hash).hexdigest()[:16]
        return f"{self.algorithm}:{self.block_size}:{self.key_schema}:{root}"

    def hash_block(
        self,
        parent_hash: BytesArg | None,
        token_ids: Sequence[int],
        extra_keys: KeysArg | None = None,
    ) -> BlockHash:
        """Hashes one block.

        Args:
            parent_hash: Hash of the block before, or None for the first.
            token_ids: The block's tokens, as `hash_tokens` takes them; normally `block_size` of them.
            extra_keys: What else its content depends on, as `block_extra_keys` gives it; None or () for nothing.

        Returns:
            `digest_size` bytes.

        Raises:
            As `hash_tokens`.
        """
        parent = self._checked_parent(parent_hash)
        tokens = token_values(token_ids)
        count = _count(tokens)
        if not count:
            raise ConfigError("token_ids", token_ids, "a block holds at least one token")
        return BlockHash(self._hash(parent, tokens, count, [(0, 1, canonical_keys(extra_keys))])[0])

    def hash_tokens(
        self,
        token_ids: Sequence[int],
        parent_hash: BytesArg | None = None,
        extra_keys: Sequence[tuple[object, ...] | None] | None = None,
    ) -> list[BlockHash]:
        """Hashes every full block of a run of tokens; a partial block at the end is left for later.

        Args:
            token_ids: Any length; a list, tuple, `array`, NumPy array or other one-dimensional buffer of 32- or 64-bit
                integers; each token in 0 … 2^32 - 1.
            parent_hash: Hash of the block before the first of these; None, or `none_hash`, at the start of a prompt.
            extra_keys: None, or one tuple-or-None per full block, as `block_extra_keys` gives them.

        Returns:
            One hash of `digest_size` bytes per full block. Complexity: O(len(token_ids)).

        Raises:
            ArgumentError: For anything else than integers, and for keys that are not None, bool, int, str, bytes or
                tuples of them.
            ConfigError: For a token out of range, not one key entry per block, or a parent hash that has neither
                `digest_size` bytes nor, in vLLM's forms, the 32 of a random root.
        """
        parent = self._checked_parent(parent_hash)
        tokens = token_values(token_ids)
        runs = _runs_of_keys(extra_keys, _count(tokens) // self.block_size)
        return cast("list[BlockHash]", self._hash(parent, tokens, self.block_size, runs))

    def _hash(self, parent: bytes, tokens: list[object] | bytes, size: int, runs: list[Run]) -> list[bytes]:
        if self._direct is not None:
            written = self._direct.hash(parent, tokens, size, runs)
            if written is not None:
                return written
        packed = pack_list(tokens) if isinstance(tokens, list) else tokens
        chain = CHAINS[self._form]
        hashes: list[bytes] = []
        for start, stop, keys in runs:
            hashes += chain(self._digest, parent, packed, size, start, stop, keys)
            parent = hashes[-1]
        return hashes

    def _checked_parent(self, parent_hash: object) -> bytes:
        if parent_hash is None:
            return self._root
        parent = as_bytes("parent_hash", parent_hash)
        if parent == self.none_hash:
            return self._root
        if len(parent) != self.digest_size and (len(parent) != NONE_HASH_BYTES or self._form == "raw"):
            raise ConfigError("parent_hash", parent, f"{self.algorithm} hashes have {self.digest_size} bytes")
        return bytes(parent)  # of a subclass, it would be pickled as such


def _seed_bytes(seed: object, pickled: bool) -> bytes:
    if not isinstance(seed, str):
        raise ArgumentError("seed", seed, "a string is needed")
    canonical_keys((seed,))
    return pickle.dumps(seed, 5) if pickled else cbor_value(seed)


def _count(tokens: list[object] | bytes) -> int:
    return len(tokens) if isinstance(tokens, list) else len(tokens) // 4


def _runs_of_keys(extra_keys: object, count: int) -> list[Run]:
    """Ranges start … stop - 1 of blocks that have the same extra keys."""
    if extra_keys is None:
        return [(0, count, None)] if count else []
    entries = as_list("extra_keys", extra_keys)
    if len(entries) != count:
        raise ConfigError(
            "extra_keys", len(entries), f"one entry per full block is needed, there are {count}"
        )
    runs: list[Run] = []
    start = 0
    for stop in range(1, count + 1):
        if stop == count or entries[stop] is not entries[start]:
            runs.append((start, stop, canonical_keys(entries[start])))
            start = stop
    return runs
