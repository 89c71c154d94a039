"""The generic serialisers as the reference for the hand-written encoders, and the golden vectors."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import cbor2
import xxhash

COMPATIBLE = ("sha256", "sha256_cbor", "xxhash", "xxhash_cbor")

SEED = "0"
GOLDEN_BLOCKS: list[tuple[list[int], tuple[str, ...] | None]] = [
    (list(range(16)), None),
    (list(range(16, 32)), ("lora",)),
    ([70000, 65535, 65536, 255, 256, 2147483647, 0, 23, 24, 1, 2, 3, 4, 5, 6, 7], None),
]
# algorithm: NONE_HASH, then the three blocks chained.
GOLDEN = {
    "sha256": (
        "1973e23848344dc43a988a9b478663803cfffe1243480253f9a3cf004b14aa7c",
        "6358e31578a64b75ebe28cdb99d3beae65de82a2087321dc6ec84ae048faaaa6",
        "0bb0006498301f11f596d2864445df2fe0f463ae202a9a4802c56d38a5cb45fd",
        "799cae80e67d48533804cb88a6f18b17297b581ade8e0ac4e6251072320fd0fa",
    ),
    "sha256_cbor": (
        "4e1195df020de59e0d65a33a4279f1183e7ae4e5d980e309f8b55adff2e61c3e",
        "d830de3d42c00f25a2949b5d12d98642664a44872c1614c5b0147556276afc9c",
        "103b000c4ae2c33360a1e594353dcc9046652b943c63155f199d493c5ed370e4",
        "4c67cf653d3c5d678430216befcde29624a04f2118f0d37ba8100305f86e0199",
    ),
    "xxhash": (
        "6fb31cc38bba6066183f7f2104b9c051",
        "8ef953407c0da43eacbb3639ed2bff4d",
        "9f92fe69344e187346ea555d50467759",
        "4e89ffc77717928e0403016c4f9f8d17",
    ),
    "xxhash_cbor": (
        "1ebe36576dcb573f26b99533a20aaeca",
        "209f5d549fc07c8e39d823615ede61ce",
        "bd0ea119b40f784103c3ce49b2edb30a",
        "aa2094983baf7849b67733467a3c830f",
    ),
}


def _pickle(value: object) -> bytes:
    return pickle.dumps(value, protocol=5)


def _cbor(value: object) -> bytes:
    encoded: bytes = cbor2.dumps(value, canonical=True)
    return encoded


def _sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


SERIALISER: dict[str, Callable[[object], bytes]] = {
    "sha256": _pickle,
    "sha256_cbor": _cbor,
    "xxhash": _pickle,
    "xxhash_cbor": _cbor,
}
DIGEST: dict[str, Callable[[bytes], bytes]] = {
    "sha256": _sha256,
    "sha256_cbor": _sha256,
    "xxhash": xxhash.xxh3_128_digest,
    "xxhash_cbor": xxhash.xxh3_128_digest,
}


def reference_block(
    algorithm: str, parent: bytes, tokens: Sequence[int], extra: tuple[Any, ...] | None = None
) -> bytes:
    """One block's hash by the generic serialiser."""
    return DIGEST[algorithm](SERIALISER[algorithm]((parent, tuple(tokens), extra)))


def reference_chain(
    algorithm: str,
    none_hash: bytes,
    tokens: Sequence[int],
    block_size: int,
    extras: Sequence[tuple[Any, ...] | None] | None = None,
) -> list[bytes]:
    """Hashes of all full blocks by the generic serialiser."""
    hashes: list[bytes] = []
    parent = none_hash
    for i in range(len(tokens) // block_size):
        part = tokens[i * block_size : (i + 1) * block_size]
        parent = reference_block(algorithm, parent, part, None if extras is None else extras[i])
        hashes.append(parent)
    return hashes


def reference_none_hash(algorithm: str, seed: str) -> bytes:
    return DIGEST[algorithm](SERIALISER[algorithm](seed))
