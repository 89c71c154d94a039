"""What --attention can say."""

from __future__ import annotations

import pytest

from blockpool import ArgumentError, ConfigError
from blockpool.kv_cache import FullAttentionSpec, MambaSpec, SlidingWindowSpec
from blockpool.replay.attention.grammar import AttentionPart, parse_attention
from blockpool.replay.attention.kv_groups import blocks_needed, kv_cache_groups


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("full", [("full", 0, 1)]),
        ("sliding:1", [("sliding", 1, 1)]),
        ("chunked:8192", [("chunked", 8192, 1)]),
        ("mamba", [("mamba", 0, 1)]),
        ("mamba:align", [("mamba:align", 0, 1)]),
        ("hybrid:full+5*sliding:1024", [("full", 0, 1), ("sliding", 1024, 5)]),
        ("hybrid:2*full", [("full", 0, 2)]),
        ("hybrid:full+sliding:4+full+sliding:5", [("full", 0, 2), ("sliding", 4, 1), ("sliding", 5, 1)]),
        ("hybrid:full+63*mamba:align", [("full", 0, 1), ("mamba:align", 0, 63)]),
    ],
)
def test_what_can_be_said(text: str, parts: list[tuple[str, int, int]]) -> None:
    assert parse_attention(text) == tuple(AttentionPart(*part) for part in parts)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "Full",
            " full",
            "full ",
            "full\n",
            "sliding",
            "sliding:",
            "sliding:-1",
            "sliding:4k",
            "sliding:4.0",
        ),
        *("full:3", "mamba:all", "mamba:3", "full+mamba", "5*full", "1*full", "sliding:0", "chunked:0"),
        *("sliding:1000000001", "chunked:99999999999", "sliding:٣", "hybrid:", "hybrid:full", "hybrid:full+"),
        *(
            "hybrid:+full",
            "hybrid:0*full+2*mamba",
            "hybrid:full++mamba",
            "hybrid:hybrid:2*full",
            "hybrid:65*full",
        ),
        *("hybrid:-1*full+mamba", "hybrid:full+64*mamba", "hybrid:full, mamba"),
    ],
)
def test_what_cannot(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_attention(text)
    assert (caught.value.field, caught.value.value) == ("attention", text)


@pytest.mark.parametrize("text", [None, 4096, b"full", ["full"]])
def test_what_is_no_text(text: object) -> None:
    with pytest.raises(ArgumentError, match="attention"):
        parse_attention(text)  # type: ignore[arg-type]


def test_the_groups_of_a_description() -> None:
    groups = kv_cache_groups(parse_attention("hybrid:full+2*sliding:33+mamba+mamba:align"), 16)
    specs = [group.kv_cache_spec for group in groups]
    assert [type(spec) for spec in specs] == [
        FullAttentionSpec,
        SlidingWindowSpec,
        SlidingWindowSpec,
        MambaSpec,
        MambaSpec,
    ]
    assert [spec.block_size for spec in specs] == [16] * 5
    assert isinstance(specs[1], SlidingWindowSpec)
    assert specs[1].sliding_window == 33
    modes = [spec.mamba_cache_mode for spec in specs if isinstance(spec, MambaSpec)]
    assert modes == ["all", "align"]


@pytest.mark.parametrize(
    ("text", "num_tokens", "blocks"),
    [
        ("full", 1000, 250),
        ("full", 997, 250),
        ("sliding:33", 1000, 25),  # 32 before the step, 64 in it, and one block more
        ("sliding:33", 40, 10),
        ("sliding:1", 1000, 17),
        ("chunked:33", 1000, 25),
        ("mamba", 1000, 18),
        ("mamba:align", 1000, 2),
        ("mamba:align", 3, 1),
        ("hybrid:full+3*sliding:33+mamba:align", 1000, 250 + 75 + 2),
    ],
)
def test_blocks_that_a_request_needs(text: str, num_tokens: int, blocks: int) -> None:
    assert blocks_needed(parse_attention(text), num_tokens, block_size=4, step_tokens=64) == blocks
