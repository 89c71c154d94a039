"""`blockpool replay --timed` on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .cli_support import invoke, invoke_json, run

pytest.importorskip("click.testing", reason="the extra cli is not installed")

DEMO = ["replay", "demo", "--blocks", "3000", "--timed"]


@pytest.fixture(name="small_demo")
def name_of_small_demo(small_demo: Path) -> str:
    return str(small_demo)


def write(path: Path, *lines: dict[str, Any]) -> str:
    path.write_text("\n".join(map(json.dumps, lines)), encoding="ascii")
    return str(path)


def test_tables() -> None:
    output = invoke(*DEMO).stdout
    assert "kvcache-simulator trace, engine rules" in output
    assert "at most 256 running, 8,192 tokens per step" in output
    for words in (
        "1,722,432 of 2,347,732 = 73.37%",
        "1,774,496 of 2,347,732 = 75.58%",
        "at most 24",
        "1,952 of 2,070 tokens found again, 117 recomputed",
        "first token",
        "mean over time",
        "lifetime",
    ):
        assert words in " ".join(output.split())
    assert max(map(len, output.splitlines()[2:])) <= 80
    assert not any(line != line.rstrip() for line in output.splitlines())


def test_json_has_what_the_document_lists(small_demo: str) -> None:
    report = invoke_json(small_demo, "--blocks", "3000", "--timed", "--speed", "0.5x", "--max-running", "9")
    assert report["schema"] == "blockpool.replay-timed/1"
    assert report["settings"]["rules"] == "engine"
    assert report["timed"] == {
        "speed": 0.5,
        "arrival_rate": None,
        "seed": 0,
        "max_running": 9,
        "max_batched_tokens": 8192,
        "prefill_rate": 8000.0,
        "decode_rate": 40.0,
    }
    (result,) = report["results"]
    document = Path(__file__).resolve().parent.parent / "docs" / "timed.md"
    if not document.is_file():
        pytest.skip("no docs here: the tests run without the checkout")
    text = document.read_text(encoding="utf-8")
    for field in (*report, *report["timed"], *result):
        assert f"`{field}" in text or f".{field}`" in text, field
    assert set(result["running"]) == {"mean", "max"}
    assert result["running"]["max"] <= 9
    assert set(result["occupancy"]) == {"mean", "interval_ms", "points"}
    assert sum(result["occupancy"]["mean"].values()) == pytest.approx(3000)
    assert set(result["queueing_seconds"]) == {"samples", "median", "p90", "p99"}
    times = [point["time_ms"] for point in result["occupancy"]["points"]]
    assert times == [place * result["occupancy"]["interval_ms"] for place in range(len(times))]


def test_rules_are_the_engines_unless_named(small_demo: str) -> None:
    for options, rules in (
        ([], "engine"),
        (["--rules", "trace"], "trace"),
        (["--rules", "engine"], "engine"),
    ):
        report = invoke_json(small_demo, "--blocks", "900", "--timed", *options)
        assert report["settings"]["rules"] == rules
    assert invoke_json(small_demo, "--blocks", "900")["settings"]["rules"] == "trace"


def test_several_sizes(small_demo: str) -> None:
    output = invoke("replay", small_demo, "--timed", "--blocks", "60,900").stdout
    assert "without the refused ones" in output
    assert "details: pool of 60 blocks" in output
    report = invoke_json(small_demo, "--timed", "--blocks", "900,60", "--jobs", "1")
    assert [result["blocks"] for result in report["results"]] == [900, 60]
    assert all(f"{result['hit_tokens']:,}" in output for result in report["results"])


def test_explained(small_demo: str) -> None:
    options = ["--timed", "--blocks", "900,800", "--explain", "--tag", "session_id"]
    output = invoke("replay", small_demo, *options).stdout
    report = invoke_json(small_demo, *options)
    assert report["settings"]["explain"]
    for result in report["results"]:
        misses = result["misses"]
        assert misses["missed_tokens"] == result["prompt_tokens"] - result["hit_tokens"]
        assert f"{misses['missed_tokens']:,}" in output
    assert misses["evicted"]["blocks_too_few"]["samples"] == 0
    assert "why blocks missed" in output
    assert invoke_json(small_demo, "--timed", "--blocks", "900")["results"][0]["misses"] is None
    done = run("replay", small_demo, "--timed", "--blocks", "900", "--explain", "--tag", "user")
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr == b"blockpool: tag='user': no request of the trace has this field\n"


def test_all_refused(small_demo: str) -> None:
    output = invoke("replay", small_demo, "--timed", "--blocks", "5").stdout
    assert "100, 100 refused (largest needs" in output
    assert "pool 5 blocks" in " ".join(output.split())
    assert "no block was evicted" in output


def test_standard_input(small_demo: str) -> None:
    options = ["--timed", "--blocks", "900", "--json"]
    expected = invoke_json(small_demo, *options)["results"][0]
    done = run("replay", "-", *options, data=Path(small_demo).read_bytes())
    found = json.loads(done.stdout)["results"][0]
    assert found["occupancy"] == expected["occupancy"]
    assert found["hit_tokens"] == expected["hit_tokens"]


def test_checked(tmp_path: Path) -> None:
    trace = write(tmp_path / "t", *[{"timestamp": time, "token_ids": [1] * 40} for time in range(9)])
    for options in (["--check"], ["--check-every", "2"]):
        assert "invariants checked" in invoke("replay", trace, "--blocks", "6", "--timed", *options).stdout


def test_a_trace_without_times(tmp_path: Path) -> None:
    trace = write(tmp_path / "t", *[{"token_ids": [1] * 40} for _ in range(9)])
    timed = ["replay", trace, "--blocks", "6", "--timed"]
    assert "--arrival-rate: is needed, as the trace has no timestamps" in invoke(*timed, exit_code=2).stderr
    assert "--speed 2.0: the trace has no" in invoke(*timed, "--speed", "2x", exit_code=2).stderr
    assert "--sort: the trace has no" in invoke(*timed, "--sort", "--arrival-rate", "5", exit_code=2).stderr
    outputs = [
        json.loads(invoke(*timed, "--arrival-rate", "5", "--seed", seed, "--json").stdout)["results"][0]
        for seed in ("1", "1", "2")
    ]
    assert outputs[0]["makespan_seconds"] == outputs[1]["makespan_seconds"]
    assert outputs[0]["makespan_seconds"] != outputs[2]["makespan_seconds"]
    assert "5 requests/s (seed 0)" in invoke(*timed, "--arrival-rate", "5").stdout


@pytest.mark.parametrize("sizes", ["3000", "3000,4000"])
def test_a_rate_for_a_trace_with_times(sizes: str) -> None:
    done = invoke("replay", "demo", "--blocks", sizes, "--timed", "--arrival-rate", "5", exit_code=2)
    assert "--arrival-rate 5.0: the trace has timestamps" in done.stderr


@pytest.mark.parametrize(
    "option",
    [
        ["--speed", "2x"],
        ["--arrival-rate", "5"],
        ["--seed", "5"],
        ["--max-running", "5"],
        ["--max-batched-tokens", "500"],
        ["--prefill-rate", "5"],
        ["--decode-rate", "5"],
    ],
)
def test_options_that_need_timed(option: list[str]) -> None:
    done = invoke("replay", "demo", "--blocks", "5", *option, exit_code=2)
    assert f"{option[0]} goes with --timed" in done.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--seed", "5"], "--seed goes with --arrival-rate"),
        (["--speed", "fast"], "--speed fast: must be a speed such as 2x"),
        (["--speed", "0x"], "--speed 0.0: must be"),
        (["--speed", "2x", "--arrival-rate", "1"], "not with speed"),
        (["--arrival-rate", "nan"], "--arrival-rate nan: must be"),
        (["--prefill-rate", "0"], "--prefill-rate 0.0: must be"),
        (["--decode-rate", "-1"], "--decode-rate -1.0: must be"),
        (["--max-running", "0"], "--max-running"),
        (["--max-batched-tokens", "9"], "must be at least max_running, by default 256"),
        (["--hash", "sha256"], "--hash is for traces of token ids"),
    ],
)
def test_values_that_cannot_be_right(options: list[str], words: str) -> None:
    assert words in invoke(*DEMO, *options, exit_code=2).stderr


def test_an_order_that_is_wrong(tmp_path: Path) -> None:
    trace = write(tmp_path / "t", *[{"timestamp": time, "token_ids": [1] * 40} for time in (9, 5)])
    for sizes in ("6", "6,7"):
        done = run("replay", trace, "--blocks", sizes, "--timed")
        assert (done.returncode, done.stdout) == (1, b"")
        assert done.stderr.decode() == (
            f"blockpool: {trace}:2: timestamp 5 ms comes before 9 ms of line 1; "
            "--sort (in Python: sort=True) plays by time\n"
        )
    assert invoke("replay", trace, "--blocks", "6", "--timed", "--sort").stdout
