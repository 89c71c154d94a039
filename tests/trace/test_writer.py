"""Traces that are written are read back as they were, and both forms of a workload are the same workload."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from blockpool import ConfigError
from blockpool.core.extra_keys import MultiModalInput
from blockpool.replay import ReplaySettings, replay
from blockpool.trace import (
    WORKLOAD_KINDS,
    TraceReader,
    TraceRequest,
    generate,
    open_trace_for_writing,
    write_trace,
)
from blockpool.trace.demo import DEMO_BLOCK_SIZE, DEMO_TRACE, demo_requests


def written(path: Path, kind: str, num_requests: int, trace_format: str, block_size: int) -> Path:
    with open_trace_for_writing(path) as file:
        count = write_trace(generate(kind, num_requests, seed=2), file, trace_format, block_size=block_size)
    assert count == num_requests
    return path


@pytest.mark.parametrize("name", ["trace.jsonl", "trace.jsonl.gz", "trace.jsonl.zst"])
def test_token_form_is_read_back(tmp_path: Path, name: str) -> None:
    path = written(tmp_path / name, "mix", 60, "token-ids", 512)
    reader = TraceReader(path)
    assert list(reader) == list(generate("mix", 60, seed=2))
    assert reader.format == "token-ids"


def test_all_fields_are_read_back(tmp_path: Path) -> None:
    request = TraceRequest(
        timestamp_ms=None,
        prompt_tokens=2,
        block_size=16,
        token_ids=[1, 2],
        output_tokens=3,
        lora="adapter",
        salt="pepper",
        images=[MultiModalInput("cat", 0, 1), MultiModalInput("dog", 1, 1)],
    )
    with open_trace_for_writing(tmp_path / "t") as file:
        write_trace([request], file, "token-ids", block_size=16)
    assert list(TraceReader(tmp_path / "t")) == [request]


@pytest.mark.parametrize(("block_size", "trace_format"), [(512, "mooncake"), (16, "kvcache-simulator")])
def test_mooncake_form_says_what_is_needed_to_read_it(
    tmp_path: Path, block_size: int, trace_format: str
) -> None:
    reader = TraceReader(written(tmp_path / "t", "mix", 60, "mooncake", block_size))
    for read, made in zip(reader, generate("mix", 60, seed=2), strict=True):
        assert read.block_size == block_size
        assert (read.timestamp_ms, read.prompt_tokens) == (made.timestamp_ms, made.prompt_tokens)
        assert (read.output_tokens, read.session_id) == (made.output_tokens, made.session_id)
    assert reader.format == trace_format


def test_an_id_stands_for_its_whole_prefix(tmp_path: Path) -> None:
    prefix_of: dict[int, tuple[int, ...]] = {}
    reader = TraceReader(written(tmp_path / "t", "mix", 80, "mooncake", 64))
    for read, made in zip(reader, generate("mix", 80, seed=2), strict=True):
        assert made.token_ids is not None
        for position, block_id in enumerate(read.block_ids or []):
            prefix = tuple(made.token_ids[: (position + 1) * 64])
            assert prefix_of.setdefault(block_id, prefix) == prefix
    assert len(set(prefix_of.values())) == len(prefix_of)


@pytest.mark.parametrize("kind", WORKLOAD_KINDS)
@pytest.mark.parametrize("block_size", [16, 512])
def test_both_forms_give_the_same_counts_under_trace_rules(
    tmp_path: Path, kind: str, block_size: int
) -> None:
    as_tokens = written(tmp_path / "tokens", kind, 120, "token-ids", block_size)
    as_ids = written(tmp_path / "ids", kind, 120, "mooncake", block_size)
    settings = ReplaySettings(block_size=block_size)
    for blocks in (16_384 // block_size + 400, 4_000):
        assert replay(as_tokens, blocks, settings).counts == replay(as_ids, blocks, settings).counts


def test_adapters_and_salts_have_ids_of_their_own(tmp_path: Path) -> None:
    requests = [
        TraceRequest(None, 3, 2, token_ids=[1, 2, 3], lora=lora, salt=salt)
        for lora, salt in ((None, None), ("a", None), (None, "a"), (None, None))
    ]
    with open_trace_for_writing(tmp_path / "t") as file:
        write_trace(requests, file, "mooncake", block_size=2)
    ids = [request.block_ids for request in TraceReader(tmp_path / "t")]
    assert ids == [[0, 1], [2, 3], [4, 5], [0, 1]]


def test_equal_content_gives_equal_bytes(tmp_path: Path) -> None:
    for suffix in ("gz", "zst"):
        one = written(tmp_path / f"one.{suffix}", "chat", 20, "mooncake", 16)
        other = written(tmp_path / f"other.{suffix}", "chat", 20, "mooncake", 16)
        assert one.read_bytes() == other.read_bytes()


def test_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    output = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(sys, "stdout", output)
    with open_trace_for_writing("-") as file:
        write_trace(generate("chat", 2), file, "token-ids", block_size=16)
    assert output.buffer.getvalue().count(b"\n") == 2  # type: ignore[attr-defined]


def test_what_cannot_be_written() -> None:
    by_ids = TraceRequest(None, 3, 2, block_ids=[1, 2])
    for requests, trace_format, block_size in (
        ([by_ids], "mooncake", 2),
        ([by_ids], "token-ids", 2),
        ([], "xml", 2),
        ([], "token-ids", 0),
    ):
        with pytest.raises(ConfigError):
            write_trace(requests, io.BytesIO(), trace_format, block_size=block_size)


def test_the_bundled_trace_is_what_its_recipe_makes(tmp_path: Path) -> None:
    assert DEMO_TRACE.stat().st_size <= 200_000
    with open_trace_for_writing(tmp_path / "demo") as file:
        write_trace(demo_requests(), file, "mooncake", block_size=DEMO_BLOCK_SIZE)
    made_again = [(request, request.block_size) for request in TraceReader(tmp_path / "demo")]
    assert [(request, request.block_size) for request in TraceReader("demo")] == made_again
    assert len(made_again) == 1000


def test_images_tell_blocks_apart_in_both_forms(tmp_path: Path) -> None:
    def request(*images: tuple[str, int, int]) -> TraceRequest:
        inputs = [MultiModalInput(*image) for image in images] or None
        return TraceRequest(None, 6, 2, token_ids=[1, 2, 3, 4, 5, 6], images=inputs)

    requests = [
        request(),
        request(("x", 3, 1)),
        request(("y", 3, 1)),
        request(("x", 3, 1), ("y", 5, 1)),
        request(("x", 2, 2)),
    ]
    assert replay(requests, 100).counts.hit_blocks == 0 + 1 + 1 + 2 + 1
    with open_trace_for_writing(tmp_path / "t") as file:
        write_trace(requests, file, "mooncake", block_size=2)
    assert replay(tmp_path / "t", 100).counts == replay(requests, 100).counts
    assert replay(requests, 100, ReplaySettings(rules="engine")).counts.hit_blocks == 0 + 1 + 1 + 2 + 1
