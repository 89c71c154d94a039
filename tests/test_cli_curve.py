"""`blockpool curve`: what it prints, what it refuses, and that replay agrees."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path

import pytest

from blockpool.replay.curves import curve_study

from .cli_support import invoke, invoke_json, run

pytest.importorskip("click.testing", reason="the extra cli is not installed")
pytest.importorskip("plotille", reason="the extra cli is not installed")


def curve_json(*arguments: str) -> dict[str, object]:
    report: dict[str, object] = json.loads(invoke("curve", *arguments, "--json").stdout)
    return report


@pytest.fixture
def small(tmp_path: Path) -> str:
    path = tmp_path / "trace"
    chains = [[1], [2], [3], [1, 4], [2], [3], [1, 4, 5]]
    lines = [json.dumps({"hash_ids": ids, "input_length": 16 * len(ids), "block_size": 16}) for ids in chains]
    path.write_text("\n".join(lines), encoding="ascii")
    return str(path)


def output_in_utf8(*arguments: str) -> str:
    done = run("curve", *arguments, env={**os.environ, "PYTHONIOENCODING": "utf-8"})
    assert (done.returncode, done.stderr) == (0, b"")
    output = done.stdout.decode()
    assert "\x1b" not in output
    return output


def test_table_and_plot() -> None:
    output = output_in_utf8("demo")
    assert max(map(len, output.splitlines())) <= 80
    for words in ("demo: kvcache-simulator trace, trace rules, 1,000 requests", "knee", "50% of max"):
        assert words in output
    for words in ("Below 746 blocks, requests are refused.", "Exact at every capacity.", "\u28c0"):
        assert words in output


def test_policies_are_columns_and_lines(small_demo: Path) -> None:
    output = output_in_utf8(str(small_demo), "--policies", "lru,fifo,optimal")
    assert max(map(len, output.splitlines()[1:])) <= 80
    for words in ("knee", "fifo", "optimal", "\u28c0"):
        assert words in output
    assert "fifo" not in output_in_utf8(str(small_demo))


def test_no_plot_where_it_cannot_be_shown(small_demo: Path) -> None:
    done = run("curve", str(small_demo), env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert b"knee" in done.stdout
    assert b"\\u28" not in done.stdout
    assert done.stdout.isascii() or b"\\u" in done.stdout


def test_json_equals_replay() -> None:
    report = curve_json("demo", "--rules", "engine", "--window", "last-half", "--blocks", "800,2k,100")
    assert (report["schema"], report["exact"]) == ("blockpool.curve/1", True)
    rows = {row["capacity"]: row for row in report["chosen"]}  # type: ignore[attr-defined]
    replayed = invoke_json("demo", "--rules", "engine", "--window", "last-half", "--blocks", "800,2k,100")
    for result in replayed["results"]:
        row = rows[result["blocks"]]
        for name in ("requests", "refused", "prompt_tokens", "hit_tokens", "prompt_blocks", "hit_blocks"):
            assert row[name] == result[name]
    curve = report["curve"]
    assert len(curve["capacities"]) == len(curve["hit_blocks"]) == len(curve["hit_tokens"])  # type: ignore[index]


def test_csv_has_every_step(small: str) -> None:
    rows = list(csv.reader(io.StringIO(invoke("curve", small, "--csv").stdout)))
    assert rows == [
        ["capacity", "hit_blocks", "block_hit_rate", "hit_tokens", "token_hit_rate"],
        ["3", "2", "0.200000", "32", "0.200000"],
        ["4", "5", "0.500000", "80", "0.500000"],
    ]


def test_estimates_are_called_so_in_csv(small_demo: Path) -> None:
    arguments = [str(small_demo), "--sample", "1/8"]
    rows = list(csv.DictReader(io.StringIO(invoke("curve", *arguments, "--csv").stdout)))
    assert list(rows[0]) == [
        "capacity",
        "estimated_hit_blocks",
        "estimated_block_hit_rate",
        "estimated_hit_tokens",
        "estimated_token_hit_rate",
        "least_hit_blocks",
        "most_hit_blocks",
        "least_hit_tokens",
        "most_hit_tokens",
    ]
    capacities = [int(row["capacity"]) for row in rows]
    assert capacities == sorted(set(capacities))
    chosen = {row["capacity"]: row for row in curve_json(*arguments)["chosen"]}  # type: ignore[attr-defined]
    bounded = [row for row in rows if row["least_hit_tokens"]]
    assert {int(row["capacity"]) for row in bounded} == set(chosen)
    for row in bounded:
        expected = chosen[int(row["capacity"])]
        assert int(row["estimated_hit_tokens"]) == expected["hit_tokens"]
        assert int(row["least_hit_tokens"]) == expected["bound"]["least_hit_tokens"]


def test_sizes_below_the_largest_request_are_replayed(small: str) -> None:
    """Many at once, which need no more memory than their blocks."""
    report = curve_json(small, "--blocks", "1,2", "--jobs", "1", "--rules", "engine")
    rows = {row["capacity"]: row for row in report["chosen"]}  # type: ignore[attr-defined]
    for result in invoke_json(small, "--blocks", "1,2", "--rules", "engine", "--jobs", "1")["results"]:
        for name in ("requests", "refused", "prompt_tokens", "hit_tokens", "prompt_blocks", "hit_blocks"):
            assert rows[result["blocks"]][name] == result[name]


def test_a_policy_at_the_very_top_of_the_plot(tmp_path: Path) -> None:
    """Its label is where the plot ends: RAGPulse has an optimum that is flat at the end."""
    path = tmp_path / "trace"
    chains = [[number] for number in (1, 2, 3, 4, 5, 6, 7, 8)] * 6
    lines = [json.dumps({"hash_ids": ids, "input_length": 16, "block_size": 16}) for ids in chains]
    path.write_text("\n".join(lines), encoding="ascii")
    for policies in ("lru,fifo,optimal", "optimal", "fifo,lru"):
        done = run(
            "curve", str(path), "--policies", policies, env={**os.environ, "PYTHONIOENCODING": "utf-8"}
        )
        assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("variables", "colored"),
    [({"TERM": "xterm-256color"}, True), ({"TERM": "dumb"}, False), ({"NO_COLOR": "1"}, False)],
)
def test_colors_only_where_the_terminal_has_them(
    monkeypatch: pytest.MonkeyPatch, small: str, variables: dict[str, str], colored: bool
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # or plotille looks whether standard output is a terminal
    from rich.console import Console

    from blockpool.replay import study
    from blockpool.replay.curves.curve_tables import print_study

    file = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    environment = {"TERM": "xterm", **variables}
    print_study(Console(file=file, force_terminal=True, _environ=environment), study(small))
    file.seek(0)
    output = file.read()
    plot = output[output.index("% of tokens") :]
    assert ("\x1b[" in plot) is colored


def test_names_do_nothing_to_the_terminal(tmp_path: Path, small: str) -> None:
    path = tmp_path / "a\nb\x1b[31m.jsonl"
    path.write_bytes(Path(small).read_bytes())
    for command in (["curve", str(path)], ["replay", str(path), "--blocks", "10"]):
        done = run(*command)
        assert (done.returncode, done.stderr, b"\x1b" in done.stdout) == (0, b"", False)
        assert "a\\nb\\x1b[31m.jsonl: kvcache-simulator trace" in done.stdout.decode().splitlines()[0]


def test_memory_names_sizes(small: str) -> None:
    report = curve_json(small, "--memory", "20MiB,2MiB", "--bytes-per-block", "2MiB")
    assert {1, 10} <= {row["capacity"] for row in report["chosen"]}  # type: ignore[attr-defined]


def test_verify(small: str) -> None:
    report = curve_json(small, "--verify", "2", "--jobs", "1", "--seed", "3", "--rules", "engine")
    assert len(report["verified"]) == 2  # type: ignore[arg-type]
    assert "Replayed at 3 capacities" in invoke("curve", small, "--verify", "9", "--jobs", "1").stdout


def test_a_curve_that_is_wrong_is_found_out(small: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from blockpool.errors import BlockPoolError

    def wrong(trace: object, sizes: list[int], settings: object, **_: object) -> object:
        return [curve_study_replay(trace, size + 1, settings) for size in sizes]

    from blockpool.replay import replay as curve_study_replay

    monkeypatch.setattr(curve_study, "replay_many", wrong)
    with pytest.raises(BlockPoolError, match="the curve is wrong"):
        curve_study.study(small, verify=3)


def test_sample(small_demo: Path) -> None:
    report = curve_json(str(small_demo), "--sample", "1/4")
    assert (report["exact"], report["sample_one_in"]) == (False, 4)
    for row in report["chosen"]:  # type: ignore[attr-defined]
        assert row["bound"]["least_hit_tokens"] <= row["hit_tokens"] <= row["bound"]["most_hit_tokens"]
    assert "Estimated from one of 4 blocks" in invoke("curve", str(small_demo), "--sample", "1/4").stdout


def test_standard_input(small: str) -> None:
    done = run("curve", "-", "--csv", data=Path(small).read_bytes())
    assert (done.returncode, done.stdout.splitlines()[1]) == (0, b"3,2,0.200000,32,0.200000")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--json", "--csv"], "either --json or --csv"),
        (["--policies", "lru,best"], "--policies best"),
        (["--sample", "0.1"], "--sample 0.1"),
        (["--sample", "1/0"], "--sample 1/0"),
        (["--sample", "1/1"], "--sample 1/1"),
        (["--jobs", "2"], "--jobs is for sizes that are replayed"),
        (["--seed", "2"], "--seed is for --sample and --verify"),
        (["--csv", "--blocks", "5"], "--blocks is for the table"),
        (["--csv", "--memory", "1MiB", "--bytes-per-block", "1kiB"], "--memory is for the table"),
        (["--csv", "--policies", "fifo"], "--policies is for the table"),
        (["--policies", "\x1b[31m"], "--policies \\x1b[31m"),
        (["--sample", "1/4", "--verify", "2"], "--verify 2"),
        (["--sample", "1/4", "--policies", "fifo"], "--policies fifo"),
        (["--sample", "1/4", "--blocks", "1"], "below the largest request"),
        (["--blocks", "0"], "--blocks"),
        (["--memory", "1GiB"], "--bytes-per-block"),
        (["--verify", "-1"], "--verify"),
    ],
)
def test_usage(small: str, arguments: list[str], words: str) -> None:
    output = invoke("curve", small, *arguments, exit_code=2).output
    assert words in output


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no requests"),
        ("{", "trace:1: not JSON"),
        (
            '{"hash_ids":[1,2],"input_length":600}\n{"hash_ids":[2],"input_length":6}',
            "trace:2: block 1 of the prompt",
        ),
    ],
)
def test_bad_traces_are_one_line(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "trace"
    path.write_text(text, encoding="ascii")
    done = run("curve", str(path))
    assert (done.returncode, done.stdout) == (1, b"")
    assert len(done.stderr.splitlines()) == 1
    assert words in done.stderr.decode()


def test_a_missing_trace() -> None:
    done = run("curve", "no-such-trace")
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
