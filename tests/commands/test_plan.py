"""blockpool plan: what it says, in words and as JSON, and how it fails."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from blockpool.replay.plans.model_catalog import CATALOG
from blockpool.trace import generate, open_trace_for_writing, write_trace

from ..cli_support import invoke, run

pytest.importorskip("click.testing", reason="the extra cli is not installed")

MODEL = ["--model", "llama-3-8b", "--gpu-memory", "24GiB", "--reserve", "16GiB"]


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A small one, for the curve is slow when it is not compiled."""
    path = tmp_path_factory.mktemp("plan") / "chat.jsonl"
    with open_trace_for_writing(path) as file:
        write_trace(generate("chat", 60, seed=1), file, "token-ids", block_size=16)
    return str(path)


def plan_json(trace: str, *arguments: str) -> Any:
    return json.loads(invoke("plan", trace, *MODEL, *arguments, "--json").stdout)


@pytest.mark.both_builds
def test_one_replica() -> None:
    done = run("plan", "demo", *MODEL, "--prefill-rate", "1000")
    assert (done.returncode, done.stderr) == (0, b"")
    output = done.stdout.decode()
    assert "\x1b" not in output
    assert max(map(len, output.splitlines())) <= 80
    assert not any(line.endswith(" ") for line in output.splitlines())
    for words in (
        "demo: 1,000 requests, trace rules",
        "llama-3-8b: 32 layers see all tokens",
        "24.00 GiB, 16.00 GiB reserved",
        "bf16, 131,072 bytes per token",
        "16 tokens, 2.00 MiB",
        "8.00 GiB = 4,096 blocks = 65,536 tokens",
        "2,347,732 prompt tokens; the largest request needs 746",
        "as planned",
        "knee",
        "loses nothing",
        "The next 2x brings",
        "of prefill.",
    ):
        assert words in output
    assert "NOTHING" not in output
    assert "--prefill-rate" not in output


def test_time_has_a_column_if_it_can_be_told(trace: str) -> None:
    assert "time saved" not in invoke("plan", trace, *MODEL).stdout
    assert "time saved" in invoke("plan", trace, *MODEL, "--prefill-rate", "1000").stdout


def test_the_verdict(trace: str) -> None:
    """Below the knee, past it, at the end of the curve, and without anything to find."""
    points = plan_json(trace)["fleets"][0]["points"]
    per_block = points["knee"]["pool_bytes"] // points["knee"]["blocks"]
    knee, most = points["knee"]["blocks"], points["most"]["blocks"]
    assert knee < most - 1
    for blocks, words in (
        (knee - 1, "; twice is worth it: the knee is at "),
        (knee, "; twice is hardly worth it: the knee is behind."),
        (most, "As planned, the pool keeps 100.0% of what the largest pool finds; twice is not worth it"),
    ):
        arguments = ["--model", "llama-3-8b", "--gpu-memory", str(blocks * per_block)]
        output = " ".join(invoke("plan", trace, *arguments).stdout.split())
        assert words in output


def test_the_verdict_where_nothing_repeats(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    path.write_text('{"token_ids": [1, 2, 3]}\n', encoding="ascii")
    assert "Nothing can be found at any size" in invoke("plan", str(path), *MODEL).stdout


def test_replicas_with_both_ways_of_routing(trace: str) -> None:
    output = run("plan", trace, *MODEL, "--replicas", "3").stdout.decode()
    assert max(map(len, output.splitlines()[1:])) <= 80
    for words in (
        "3 replicas, random routing",
        "3 replicas, affine routing",
        "one pool of all",
        "--prefill-rate",
    ):
        assert words in output
    only = invoke("plan", trace, *MODEL, "--replicas", "3", "--routing", "affine").stdout
    assert "random" not in only


@pytest.mark.parametrize("model", sorted(CATALOG))
def test_every_model(trace: str, model: str) -> None:
    output = invoke(
        "plan", trace, "--model", model, "--gpu-memory", "900GiB", "--tensor-parallel", "2"
    ).stdout
    assert max(map(len, output.splitlines()[1:])) <= 80
    assert f"{model}: " in output.replace("\n", " ")
    assert "NOTHING reserved for weights" in " ".join(output.split())


def test_what_hybrids_leave_out_is_told(trace: str) -> None:
    def words_of(model: str) -> str:
        return " ".join(invoke("plan", trace, "--model", model, "--gpu-memory", "900GiB").stdout.split())

    assert "A hit also needs the window or state at its end" in words_of("gemma-3-27b")
    assert "vLLM would raise the block size of this model to 544 tokens" in words_of("qwen3-next-80b-a3b")
    assert "All layers have a window" in words_of("mistral-7b-v0.1")
    assert "upper bound" not in words_of("deepseek-v3")


def test_json(trace: str) -> None:
    report = plan_json(trace, "--replicas", "2", "--prefill-rate", "2000")
    assert report["schema"] == "blockpool.plan/1"
    assert report["trace"] == trace
    assert report["model"] == {
        "name": "llama-3-8b",
        "full_layers": 32,
        "sliding_layers": 0,
        "state_layers": 0,
    }
    assert report["memory"]["bytes_per_token"] == 131_072
    assert (report["blocks"], report["pool_bytes"]) == (4096, 8 * 2**30)
    assert report["settings"]["replicas"] == 2
    assert [fleet["routing"] for fleet in report["fleets"]] == ["random", "affine"]
    here = report["fleets"][1]["points"]["planned"]
    assert here["saved_seconds"] == here["hit_tokens"] / 2000
    assert report == plan_json(trace, "--replicas", "2", "--prefill-rate", "2000"), "repeats"
    assert report != plan_json(trace, "--replicas", "2", "--prefill-rate", "2000", "--seed", "1")


def test_options_reach_the_library(trace: str) -> None:
    report = plan_json(
        trace, "--kv-dtype", "fp8", "--tensor-parallel", "4", "--rules", "engine", "--window", "last-half"
    )
    assert report["memory"]["bytes_per_token"] == 2 * 32 * 2 * 128
    assert (report["replay"]["rules"], report["replay"]["window"]) == ("engine", "last-half")
    assert report["facts"]["first_measured"] == 30


def test_standard_input_and_a_config(trace: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CATALOG["llama-3-8b"]), encoding="utf-8")
    arguments = ["plan", "-", *MODEL, "--model", str(tmp_path), "--json"]
    done = run(*arguments, data=Path(trace).read_bytes())
    assert json.loads(done.stdout)["fleets"] == plan_json(trace)["fleets"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["plan", "demo", "--gpu-memory", "1GiB"], "--model"),
        (["plan", "demo", "--model", "llama-3-8b"], "--gpu-memory"),
        (["plan", "demo", *MODEL, "--gpu-memory", "1G"], "--gpu-memory 1G: write 1GiB or 1GB"),
        (["plan", "demo", *MODEL, "--gpu-memory", "2000000TB"], "--gpu-memory"),
        (["plan", "demo", *MODEL, "--reserve", "much"], "--reserve much: must be a size"),
        (["plan", "demo", *MODEL, "--kv-dtype", "fp7"], "--kv-dtype"),
        (["plan", "demo", *MODEL, "--tensor-parallel", "0"], "--tensor-parallel"),
        (["plan", "demo", *MODEL, "--prefill-rate", "0"], "--prefill-rate 0.0: must be"),
        (["plan", "demo", *MODEL, "--prefill-rate", "nan"], "--prefill-rate nan: must be"),
        (["plan", "demo", *MODEL, "--prefill-rate", "1e-320"], "--prefill-rate 1e-320: must be"),
        (["plan", "demo", *MODEL, "--routing", "affine"], "--routing is for several replicas"),
        (["plan", "demo", *MODEL, "--seed", "1"], "--seed is for several replicas"),
        (
            ["plan", "demo", *MODEL, "--replicas", "2", "--routing", "affine", "--seed", "1"],
            "--seed is for random routing",
        ),
        (["plan", "demo", *MODEL, "--max-running", "4"], "--max-running is for windows and states"),
        (
            ["plan", "demo", *MODEL, "--model", "mistral-7b-v0.1", "--max-running", "4"],
            "--max-running is for",
        ),
        (["plan", "demo", *MODEL, "--model", ""], "'--model': the name is empty"),
        (["plan", "demo", *MODEL, "--replicas", "0"], "--replicas"),
        (["plan", "demo", *MODEL, "--routing", "fair"], "--routing"),
        (["plan", "demo", *MODEL, "--block-size", "0"], "--block-size"),
        (["plan", "demo", *MODEL, "--max-running", "0"], "--max-running"),
    ],
)
def test_usage_errors(arguments: list[str], words: str) -> None:
    assert words in invoke(*arguments, exit_code=2).stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--model", "llama-9"], "model='llama-9': is neither a config.json"),
        (["--model", "missing/config.json"], "is neither a config.json"),
        (
            ["--gpu-memory", "17GiB"],
            "holds 512 blocks (1,073,741,824 bytes), but request 367 of the trace alone",
        ),
        (["--gpu-memory", "16GiB"], "leave nothing for the pool"),
        (["--tensor-parallel", "3"], "tensor_parallel=3: does not divide the model's 32 query heads"),
        (["--block-size", "32"], "block_size 16, but 32 was asked for"),
    ],
)
def test_failures_are_one_line(arguments: list[str], words: str) -> None:
    done = run("plan", "demo", *MODEL, *arguments)
    assert (done.returncode, done.stdout) == (1, b"")
    assert words in done.stderr.decode()
    assert done.stderr.count(b"\n") == 1


def test_a_config_without_a_field_tells_which_and_what_was_found(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"num_hidden_layers": 4, "model_type": "llama"}), encoding="utf-8")
    done = run("plan", "demo", "--model", str(path), "--gpu-memory", "8GiB")
    assert done.returncode == 1
    assert done.stderr.decode().startswith("blockpool: num_attention_heads or n_head=None: missing in ")
    assert done.stderr.decode().endswith("config.json, which has model_type, num_hidden_layers\n")


def test_a_missing_trace() -> None:
    done = run("plan", "nowhere.jsonl", "--model", "llama-3-8b", "--gpu-memory", "8GiB")
    assert (done.returncode, done.stderr) == (1, b"blockpool: nowhere.jsonl: No such file or directory\n")


def test_nothing_reserved_may_be_said(trace: str) -> None:
    assert plan_json(trace, "--reserve", "0")["settings"]["reserve"] == 0
    assert plan_json(trace, "--reserve", "0B")["blocks"] == 12_288


def test_an_empty_model_is_not_the_config_that_lies_there(
    tmp_path: Path, trace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CATALOG["llama-3-8b"]), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    invoke("plan", trace, "--model", "", "--gpu-memory", "24GiB", exit_code=2)


def test_names_do_nothing_to_the_terminal(tmp_path: Path, trace: str) -> None:
    names = tmp_path / "a\nb\x1b[31m.jsonl", tmp_path / "m\x1b[31m[red][" / "x].json"
    names[1].parent.mkdir()
    names[0].write_bytes(Path(trace).read_bytes())
    names[1].write_text(json.dumps(CATALOG["llama-3-8b"]), encoding="utf-8")
    done = run("plan", str(names[0]), "--model", str(names[1]), "--gpu-memory", "24GiB")
    assert (done.returncode, done.stderr, b"\x1b" in done.stdout) == (0, b"", False)
    output = done.stdout.decode()
    assert "a\\nb\\x1b[31m.jsonl: 60 requests" in output.splitlines()[0]
    assert "m\\x1b[31m[red][/x].json" in "".join(output.split())
