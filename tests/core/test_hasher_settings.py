"""BlockHasher: what it is made of: algorithm, block size, seed, key schema; and its fingerprint."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import blockpool
from blockpool import HASH_ALGORITHMS, ArgumentError, BlockHasher, ConfigError

each_algorithm = pytest.mark.parametrize("algorithm", HASH_ALGORITHMS)


def test_fingerprint_tells_every_setting_apart() -> None:
    settings = [
        (algorithm, block_size, seed, schema)
        for algorithm in HASH_ALGORITHMS
        for block_size in (16, 32)
        for seed in ("0", "1")
        for schema in ("tagged", "untagged")
    ]
    made = {setting: BlockHasher(*setting[:3], key_schema=setting[3]).fingerprint for setting in settings}
    assert len(set(made.values())) == len(settings)
    for (algorithm, block_size, seed, schema), fingerprint in made.items():
        assert BlockHasher(algorithm, block_size, seed, key_schema=schema).fingerprint == fingerprint


@each_algorithm
def test_fingerprint_without_a_seed_is_unique(algorithm: str) -> None:
    assert BlockHasher(algorithm, 16).fingerprint != BlockHasher(algorithm, 16).fingerprint


def test_fingerprint_does_not_reveal_the_seed() -> None:
    fingerprint = BlockHasher("sha256", 16, "a secret seed").fingerprint
    assert "a secret seed" not in str(fingerprint)


@pytest.mark.parametrize("algorithm", ["md5", "", "SHA256", "sha256 "])
def test_unknown_algorithm(algorithm: str) -> None:
    with pytest.raises(ConfigError) as caught:
        BlockHasher(algorithm, 16)
    assert type(caught.value) is ConfigError
    assert caught.value.field == "algorithm"
    assert caught.value.value == algorithm


@pytest.mark.parametrize("block_size", [0, -1, -(2**70)])
def test_block_size_is_positive(block_size: int) -> None:
    with pytest.raises(ConfigError) as caught:
        BlockHasher("sha256", block_size)
    assert type(caught.value) is ConfigError
    assert caught.value.field == "block_size"


def test_unknown_schema() -> None:
    with pytest.raises(ConfigError) as caught:
        BlockHasher("sha256", 16, key_schema="new")
    assert type(caught.value) is ConfigError
    assert caught.value.field == "key_schema"


@pytest.mark.parametrize(
    ("arguments", "keywords"),
    [
        ((None, 16), {}),
        ((b"sha256", 16), {}),
        (("sha256", "16"), {}),
        (("sha256", 16.0), {}),
        (("sha256", None), {}),
        (("sha256", 16, 0), {}),
        (("sha256", 16, b"0"), {}),
        (("sha256", 16, "0"), {"key_schema": None}),
    ],
)
def test_wrong_types(arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError):
        BlockHasher(*arguments, **keywords)


WITHOUT_XXHASH = """
import sys
sys.modules["xxhash"] = sys.modules["cbor2"] = None  # as if they were not installed
import blockpool
for algorithm in blockpool.HASH_ALGORITHMS:
    try:
        blockpool.BlockHasher(algorithm, 16, "0")
    except blockpool.MissingExtraError as error:
        assert algorithm in str(error), error
        print(algorithm, error.extra)
    else:
        print(algorithm, "works")
"""


def test_only_what_needs_a_package_asks_for_it() -> None:
    """In a process of its own: a compiled module remembers what it has imported."""
    environment = {**os.environ, "PYTHONPATH": str(Path(blockpool.__file__).parent.parent)}
    command = [sys.executable, "-c", WITHOUT_XXHASH]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120, env=environment)
    assert dict(line.split() for line in done.stdout.splitlines()) == {
        "sha256": "works",
        "sha256_cbor": "works",
        "xxhash": "hash",
        "xxhash_cbor": "hash",
        "blake2b_raw": "works",
        "xxh3_raw": "hash",
    }


def test_the_random_root_can_be_injected() -> None:
    asked = []

    def source(num_bytes: int) -> bytes:
        asked.append(num_bytes)
        return b"\x07" * num_bytes

    hasher = BlockHasher("sha256", 4, random_bytes=source)
    assert asked == [32]
    assert hasher.none_hash == b"\x07" * 32
    assert BlockHasher("sha256", 4, random_bytes=source).fingerprint == hasher.fingerprint
