"""`blockpool replay --explain` on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from blockpool.replay import REASONS
from blockpool.trace import generate, open_trace_for_writing, write_trace
from tests.cli_support import REPLAY_DEMO, invoke, invoke_json, run

pytest.importorskip("click.testing", reason="the extra cli is not installed")

EVIL = "[red]x[/red][/bold]\x1b[31m\x07\r\n\u202e\x9b"


def trace(path: Path, *lines: dict[str, Any]) -> str:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A trace of 80 requests with sessions and times."""
    path = tmp_path_factory.mktemp("traces") / "small.jsonl"
    with open_trace_for_writing(path) as file:
        write_trace(generate("mix", 80, seed=2), file, "mooncake", block_size=16)
    return str(path)


@pytest.mark.both_builds
def test_tables() -> None:
    output = invoke(*REPLAY_DEMO, "--explain").stdout
    assert "why blocks missed" in output
    for words in ("never seen", "differs", "evicted: seconds ago", "session_id", "241 others", "costliest"):
        assert words in output
    assert max(map(len, output.splitlines())) <= 80


def test_what_block_ids_cannot_tell(tmp_path: Path) -> None:
    """By trace rules the second prompt "differs" from the first, which it only continues; the report admits it."""
    ids = [{"input_length": 20, "hash_ids": [1, 2]}, {"input_length": 40, "hash_ids": [1, 3, 4]}]
    tokens = [{"token_ids": list(range(length))} for length in (20, 40)]
    for lines, rules, reason, is_noted in (
        (ids, "trace", "differs", True),
        (ids, "engine", "never seen", False),
        (tokens, "trace", "never seen", False),
    ):
        name = trace(tmp_path / "trace", *lines)
        options = ("--blocks", "9", "--block-size", "16", "--rules", rules, "--explain")
        misses = invoke_json(name, *options)["results"][0]["misses"]
        assert misses["differs_is_bound"] is is_noted
        assert misses["cases"][0]["reasons"][0]["reason"] == reason
        assert ("differs is at most so much" in invoke("replay", name, *options).stdout) is is_noted


def test_no_word_of_it_without_explain(small: str) -> None:
    assert "why blocks missed" not in invoke("replay", small, "--blocks", "500").stdout


def test_every_size_has_its_own_report(small: str) -> None:
    report = invoke_json(small, "--blocks", "500,1k", "--explain", "--jobs", "2")
    assert (report["settings"]["explain"], report["settings"]["tag"]) == (True, None)
    for result in report["results"]:
        misses = result["misses"]
        no_room = misses["reasons"][REASONS.index("no room")]
        missed = result["prompt_blocks"] - result["hit_blocks"]
        assert misses["missed_blocks"] - no_room["blocks"] == missed
    first, second = (result["misses"]["missed_tokens"] for result in report["results"])
    assert first > second
    output = invoke("replay", small, "--blocks", "500,1k", "--explain", "--jobs", "1").stdout
    for result in report["results"]:
        assert f"{result['misses']['missed_tokens']:,}" in output


def test_json_schema(small: str) -> None:
    misses = invoke_json(small, "--blocks", "500", "--explain", "--window", "last-half")["results"][0][
        "misses"
    ]
    assert sorted(misses) == [
        "cases",
        "differs_at",
        "differs_is_bound",
        "evicted",
        "missed_blocks",
        "missed_tokens",
        "num_tags",
        "other_keys",
        "other_tags",
        "reasons",
        "tag",
        "tags",
    ]
    assert [row["reason"] for row in misses["reasons"]] == list(REASONS)
    assert sorted(misses["evicted"]) == ["blocks_too_few", "requests_ago", "seconds_ago"]
    sums = ["missed_blocks", "missed_tokens", "prompt_tokens", "reasons", "requests", "tag"]
    assert sorted(misses["tags"][0]) == sorted(misses["other_tags"]) == sums
    assert sorted(misses["cases"][0]) == [
        "blocks_too_few",
        "differs_at",
        "line",
        "missed_blocks",
        "missed_tokens",
        "prompt_tokens",
        "reasons",
        "request",
        "tag",
        "time_ms",
    ]
    assert all(case["request"] >= 40 for case in misses["cases"])
    assert invoke_json(small, "--blocks", "500")["results"][0]["misses"] is None


def test_a_tag_named_by_the_user(tmp_path: Path) -> None:
    path = trace(
        tmp_path / "t",
        {"token_ids": [1], "user": "a"},
        {"token_ids": [2], "user": 5},
        {"token_ids": [3, 4]},
        {"token_ids": [5], "user": True},
    )
    misses = invoke_json(path, "--blocks", "9", "--explain", "--tag", "user")["results"][0]["misses"]
    assert [row["tag"] for row in misses["tags"]] == [None, "5", "a", "true"]
    assert [case["line"] for case in misses["cases"]] == [3, 1, 2, 4]
    assert "(none)" in invoke("replay", path, "--blocks", "9", "--explain", "--tag", "user").stdout


@pytest.mark.parametrize("field", ["session_id", "user"])
def test_text_from_the_trace_is_text(tmp_path: Path, field: str) -> None:
    path = trace(tmp_path / "t", {"token_ids": [1, 2], field: EVIL})
    arguments = [path, "--blocks", "9", "--explain", "--tag", field]
    done = run("replay", *arguments)
    assert done.returncode == 0
    printed = done.stdout.decode()
    assert "[red]x[/red][/bold]" in printed
    assert all(character.isprintable() or character == "\n" for character in printed)
    assert invoke_json(*arguments)["results"][0]["misses"]["tags"][0]["tag"] == EVIL


def test_a_name_of_a_field_is_text_too(tmp_path: Path) -> None:
    path = trace(tmp_path / "t", {"token_ids": [1, 2], EVIL: 1})
    printed = run("replay", path, "--blocks", "9", "--explain", "--tag", EVIL).stdout.decode()
    assert "[red]x[/red][/bold]" in printed
    assert all(character.isprintable() or character == "\n" for character in printed)


def test_what_goes_wrong(small: str) -> None:
    replay = ["replay", small, "--blocks", "500"]
    assert "--tag goes with --explain" in invoke(*replay, "--tag", "lora", exit_code=2).output
    assert "--tag : the name is empty" in invoke(*replay, "--explain", "--tag", "", exit_code=2).output
    for blocks in ("500", "500,600"):
        done = run("replay", small, "--blocks", blocks, "--explain", "--tag", "user")
        assert (done.returncode, done.stdout) == (1, b"")
        assert done.stderr == b"blockpool: tag='user': no request of the trace has this field\n"
    done = run(*replay, "--explain", "--tag", "hash_ids")
    assert done.returncode == 1
    assert (
        b"small.jsonl:1: 'hash_ids' cannot be a tag: text, a number, true or false is needed" in done.stderr
    )


def test_nothing_missed(tmp_path: Path) -> None:
    lines = [{"token_ids": [1, 2]}] * 4
    path = trace(tmp_path / "t", *lines)
    output = invoke("replay", path, "--blocks", "9", "--explain", "--window", "last-half").stdout
    assert "why blocks missed" in output
    assert "costliest" not in output
