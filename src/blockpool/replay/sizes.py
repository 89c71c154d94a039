"""Pool sizes, shares and speeds as people write them: "10k", "40GiB", "1/100", "2x"."""

from __future__ import annotations

import re

from blockpool.errors import ConfigError
from blockpool.replay.settings import MAX_POOL_BLOCKS, check_pool_blocks

_COUNT = re.compile(r"([0-9]{1,18})([kM]?)", re.ASCII)
_COUNT_FACTORS = {"": 1, "k": 10**3, "M": 10**6}

_SAMPLING = re.compile(r"1/([0-9]{1,9})", re.ASCII)
MAX_SAMPLING = 1 << 20

_SPEED = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)x?", re.ASCII)

_BYTES = re.compile(r"([0-9]{1,18})(?:\.([0-9]{1,9}))? ?([A-Za-z]*)", re.ASCII)
_BARE_UNITS = ("k", "m", "g", "t", "p")  # of which nobody knows whether 1,000 or 1,024 is meant
_BYTE_FACTORS = {"": 1, "b": 1}
for _power, _prefix in enumerate(_BARE_UNITS, start=1):
    _BYTE_FACTORS[f"{_prefix}b"] = 1000**_power
    _BYTE_FACTORS[f"{_prefix}ib"] = 1024**_power


def parse_block_counts(text: str) -> list[int]:
    """Reads "1000,10k,1M": numbers of blocks with k = 1,000 and M = 1,000,000.

    Raises:
        ConfigError: Not such a list, or a number that no pool can have.
    """
    counts = []
    for part in text.split(","):
        match = _COUNT.fullmatch(part.strip())
        if match is None:
            raise ConfigError("blocks", text, "must be numbers of blocks such as 1000,10k,1M")
        count = int(match[1]) * _COUNT_FACTORS[match[2]]
        check_pool_blocks(count)
        counts.append(count)
    return counts


def parse_sampling(text: str) -> int:
    """Reads "1/100": one of so many blocks, 2 … 1,048,576.

    Raises:
        ConfigError: Not such a share.
    """
    match = _SAMPLING.fullmatch(text.strip())
    if match is None or not 2 <= int(match[1]) <= MAX_SAMPLING:
        raise ConfigError("sample", text, f"must be a share such as 1/100, 1/2 … 1/{MAX_SAMPLING}")
    return int(match[1])


def parse_speed(text: str) -> float:
    """Reads "2x", "0.5x" or "2".

    Raises:
        ConfigError: Not such a speed.
    """
    match = _SPEED.fullmatch(text.strip())
    if match is None:
        raise ConfigError("speed", text, "must be a speed such as 2x or 0.5x")
    return float(match[1])


def parse_bytes(field: str, text: str, *, least: int = 1) -> int:
    """Reads "40GiB", "1.5 GB", "2097152": bytes. Units from kB and KiB to PB and PiB, any case.

    Args:
        field: What the error calls it.
        least: Bytes at least, 0 or 1.

    Raises:
        ConfigError: Not such a size.
    """
    match = _BYTES.fullmatch(text.strip())
    factor = None if match is None else _BYTE_FACTORS.get(match[3].lower())
    if match is not None and match[3].lower() in _BARE_UNITS:
        number = text.strip()[: -len(match[3])].rstrip()
        binary, decimal = (number + match[3].upper() + end for end in ("iB", "B"))
        raise ConfigError(field, text, f"write {binary} or {decimal}")
    if match is None or factor is None:
        raise ConfigError(field, text, "must be a size such as 40GiB, 1.5GB or 2097152")
    decimals = match[2] or ""
    size: int = int(match[1] + decimals) * factor // 10 ** len(decimals)
    if size < least:
        raise ConfigError(field, text, "must be at least one byte")
    return size


def blocks_for_memory(memory: str, bytes_per_block: str) -> list[int]:
    """How many blocks fit into each of some amounts of memory ("40GiB" or "40GiB,80GiB").

    The null block is not charged to the memory.

    Raises:
        ConfigError: Not such sizes, or less than one block.
    """
    block_bytes = parse_bytes("bytes_per_block", bytes_per_block)
    sizes = []
    for part in memory.split(","):
        count = parse_bytes("memory", part) // block_bytes
        if count < 1:
            raise ConfigError("memory", part, f"is less than one block of {block_bytes:,} bytes")
        if count > MAX_POOL_BLOCKS:
            raise ConfigError(
                "memory",
                part,
                f"is {count:,} blocks of {block_bytes:,} bytes, and a pool has at most {MAX_POOL_BLOCKS:,}",
            )
        sizes.append(count)
    return sizes
