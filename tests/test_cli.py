"""The command line: what it says, and where its traces come from."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import blockpool

from .cli_support import REPLAY_DEMO, invoke, invoke_json, on_terminal, run

pytest.importorskip("click.testing", reason="the extra cli is not installed")


# --- what it says


def test_version() -> None:
    build = "compiled" if blockpool.COMPILED else "interpreted"
    done = run("--version")
    assert (done.returncode, done.stdout) == (0, f"blockpool {blockpool.__version__} ({build})\n".encode())


@pytest.mark.parametrize("arguments", [["--help"], ["replay", "--help"], ["generate", "-h"]])
def test_help_is_plain_ascii(arguments: list[str]) -> None:
    assert invoke(*arguments).output.isascii()


def test_help_is_not_cut() -> None:
    output = invoke("--help").output
    assert "..." not in output.partition("Commands:")[2]
    for command in ("replay", "curve", "plan", "generate"):
        assert f"  {command} " in output


@pytest.mark.parametrize("command", ["replay", "curve", "plan"])
def test_help_says_what_rules_and_windows_are(command: str) -> None:
    words = " ".join(invoke(command, "--help").output.split())
    assert "every block can hit; engine: as vLLM does" in words
    assert "the last half after a warm-up on the first" in words


def test_one_size() -> None:
    done = run(*REPLAY_DEMO)
    assert (done.returncode, done.stderr) == (0, b""), "no progress bar in a pipe"
    output = done.stdout.decode()
    assert "\x1b" not in output
    assert max(map(len, output.splitlines())) <= 80
    assert not any(line.endswith(" ") for line in output.splitlines())
    for words in (
        "demo: kvcache-simulator trace, trace rules",
        "800 blocks",
        "1,000, none refused",
        "975,168 of 2,347,732 = 41.54%",
        "requests/s",
        "in use",
        "cached, idle",
        "blank",
        "residency (seconds)",
        "lifetime",
        "reuse gap",
        "p99",
    ):
        assert words in output


def test_several_sizes_are_one_row_each() -> None:
    output = run("replay", "demo", "--blocks", "800,2k,30k", "--jobs", "2").stdout.decode()
    assert max(map(len, output.splitlines())) <= 80
    rows = [line.split() for line in output.splitlines() if "%" in line and "=" not in line]
    assert [row[0] for row in rows] == ["800", "2,000", "30,000"]
    assert [row[-1] for row in rows] == ["0", "0", "0"]


def test_refused_requests_are_told_with_both_numbers() -> None:
    output = invoke("replay", "demo", "--blocks", "500").stdout
    assert "13 refused (largest needs 746 blocks)" in output
    assert "500 blocks" in output
    assert max(map(len, output.splitlines())) <= 80


def test_details_say_whose_they_are_and_rates_what_they_are_of(small_demo: Path) -> None:
    def output(sizes: str) -> str:
        jobs = ["--jobs", "1"] if "," in sizes else []
        shown: str = invoke("replay", str(small_demo), "--blocks", sizes, *jobs).stdout
        return shown

    assert "details: pool of 400 blocks" in output("400,30k")
    assert "Rates are over the requests that were played" in output("400,30k")
    assert "Rates are" not in output("800,30k")
    assert "details" not in output("400")


def test_a_pool_that_never_evicts_has_no_residency(small_demo: Path) -> None:
    output = invoke("replay", str(small_demo), "--blocks", "60k").stdout
    assert "residency: no block was evicted" in output
    assert "lifetime" not in output
    assert "samples" in invoke("replay", str(small_demo), "--blocks", "800").stdout


def test_settings_are_told() -> None:
    arguments = [
        "--rules",
        "engine",
        "--window",
        "last-half",
        "--reuse-uncached-first",
        "--check-every",
        "500",
    ]
    output = invoke(*REPLAY_DEMO, *arguments).stdout
    words = "engine rules, last-half measured, uncached blocks reused first, invariants checked"
    assert words in output.splitlines()[0]


def test_json_schema() -> None:
    report = invoke_json("demo", "--blocks", "800,2k", "--rules", "engine", "--jobs", "1")
    assert sorted(report) == ["compiled", "results", "schema", "settings", "trace", "version"]
    assert (report["schema"], report["version"]) == ("blockpool.replay/1", blockpool.__version__)
    assert (report["compiled"], report["trace"]) == (blockpool.COMPILED, "demo")
    assert report["settings"] == {
        "rules": "engine",
        "window": "all",
        "reuse_uncached_first": False,
        "check_every": 0,
        "skip_bad": False,
        "sort": False,
        "block_size": None,
        "hash_algorithm": "blake2b_raw",
        "sample_rate": None,
        "explain": False,
        "tag": None,
        "attention": "full",
    }
    assert [result["blocks"] for result in report["results"]] == [800, 2000]
    result = report["results"][0]
    assert sorted(result) == [
        "bad_lines",
        "block_hit_rate",
        "blocks",
        "blocks_per_second",
        "evictions",
        "hit_blocks",
        "hit_tokens",
        "largest_refused_blocks",
        "misses",
        "occupancy",
        "played_blocks",
        "played_requests",
        "prompt_blocks",
        "prompt_tokens",
        "refused",
        "requests",
        "requests_per_second",
        "residency",
        "seconds",
        "token_hit_rate",
        "trace_format",
    ]
    assert sorted(result["occupancy"]) == ["mean", "points", "stride"]
    assert sorted(result["occupancy"]["points"][0]) == [
        "blank",
        "cached_idle",
        "in_use",
        "request",
        "time_ms",
    ]
    assert sorted(result["residency"]["idle"]) == ["median", "p90", "p99", "samples"]
    assert sum(result["occupancy"]["mean"].values()) == pytest.approx(800)


def test_memory_as_size() -> None:
    report = invoke_json("demo", "--memory", "2GiB", "--bytes-per-block", "2MiB")
    assert report["results"][0]["blocks"] == 1024


def test_check(small_demo: Path) -> None:
    report = invoke_json(str(small_demo), "--blocks", "800", "--check-every", "100")
    assert report["settings"]["check_every"] == 100
    lines = '{"token_ids":[1]}\n' * 3
    assert invoke_json("-", "--blocks", "5", "--check", input=lines)["settings"]["check_every"] == 1


@pytest.mark.parametrize("sizes", ["800", "800,900"])
def test_progress_on_a_terminal(sizes: str, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    with (
        path.open("wb") as output,
        on_terminal("replay", "demo", "--blocks", sizes, "--json", stdout=output) as terminal,
    ):
        assert terminal.end() == 0
    assert ("2 pools" if "," in sizes else "replaying") in terminal.shown.decode()
    assert len(json.loads(path.read_bytes())["results"]) == len(sizes.split(","))


# --- where traces come from


@pytest.mark.parametrize("sizes", ["800", "800,900"])
@pytest.mark.parametrize("window", ["all", "last-half"])
def test_standard_input(small_demo: Path, sizes: str, window: str) -> None:
    arguments = ["--blocks", sizes, "--window", window, "--json"]
    piped = json.loads(run("replay", "-", *arguments, data=small_demo.read_bytes()).stdout)
    from_file = json.loads(run("replay", str(small_demo), *arguments).stdout)
    for one, other in zip(piped["results"], from_file["results"], strict=True):
        assert one["hit_tokens"] == other["hit_tokens"]
        assert one["occupancy"] == other["occupancy"]


@pytest.mark.parametrize("name", ["t.jsonl", "t.jsonl.gz", "t.jsonl.zst"])
@pytest.mark.parametrize("trace_format", ["token-ids", "mooncake"])
def test_generate_and_replay(tmp_path: Path, name: str, trace_format: str) -> None:
    path = str(tmp_path / name)
    options = ["--requests", "30", "--seed", "5", "--format", trace_format]
    invoke("generate", "chat", *options, "-o", path)
    result = invoke_json(path, "--blocks", "5k")["results"][0]
    assert (result["requests"], result["refused"]) == (30, 0)
    assert result["hit_tokens"] > 0


def test_generate_to_a_pipe() -> None:
    options = ["generate", "mix", "--requests", "20", "--seed", "9"]
    once, again = run(*options), run(*options)
    assert once.stdout == again.stdout
    assert once.stdout.count(b"\n") == 20
    assert once.stderr == b""


def test_the_help_of_replay_has_every_option_under_one_heading() -> None:
    from blockpool.commands.replay import replay_command

    output = invoke("replay", "--help").stdout
    for heading, names in replay_command.sections:
        assert f"\n{heading}:\n" in output
        assert names
    listed = re.findall(r"^  (?:-\w, )?(--[a-z-]+)", output, re.MULTILINE)
    options = [
        parameter.opts[-1] for parameter in replay_command.params if parameter.opts[0].startswith("--")
    ]
    assert sorted(listed) == sorted([*options, "--help"])
