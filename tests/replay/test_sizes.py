"""Sizes as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockpool import ConfigError
from blockpool.replay.sizes import blocks_for_memory, parse_block_counts, parse_bytes


def test_block_counts() -> None:
    assert parse_block_counts("1000") == [1000]
    assert parse_block_counts("1, 10k,2M") == [1, 10_000, 2_000_000]


@pytest.mark.parametrize(
    "text", ["", ",", "1,", "0", "-1", "1.5", "1K", "k", "ten", "1e3", "\u0661", "101M", "9" * 5000]
)
def test_bad_block_counts(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_block_counts(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1", 1),
        ("2097152", 2**21),
        ("7B", 7),
        ("40GiB", 40 * 2**30),
        ("40 gib", 40 * 2**30),
        ("1.5GB", 1_500_000_000),
        ("0.1MiB", 104_857),
        ("2kB", 2_000),
        ("2KiB", 2_048),
        ("3MB", 3_000_000),
        ("1TiB", 2**40),
    ],
)
def test_bytes(text: str, size: int) -> None:
    assert parse_bytes("memory", text) == size


@pytest.mark.parametrize(
    "text", ["", "GiB", "-1", "0", "0.0GiB", "1G", "1Gi", "1,5GB", "1e9", "nan", "1 2", "\u0663"]
)
def test_bad_bytes(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_bytes("memory", text)
    assert (caught.value.field, caught.value.value) == ("memory", text)


@given(st.text())
def test_any_text_is_a_size_or_a_clear_error(text: str) -> None:
    for parse in (parse_block_counts, lambda text: parse_bytes("memory", text)):
        try:
            parse(text)
        except ConfigError:
            pass


def test_blocks_for_memory() -> None:
    assert blocks_for_memory("40GiB", "2MiB") == [20_480]
    assert blocks_for_memory("1GiB,3MiB", "2MiB") == [512, 1]
    with pytest.raises(ConfigError, match="less than one block"):
        blocks_for_memory("1MiB", "2MiB")
    with pytest.raises(ConfigError, match="bytes_per_block"):
        blocks_for_memory("1MiB", "2 bananas")
