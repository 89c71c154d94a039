"""Timestamps that go back, on the command line: one line that says where, or --sort."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .cli_support import invoke, run

pytest.importorskip("click.testing", reason="the extra cli is not installed")

COMMANDS = [
    pytest.param(["replay", "--blocks", "4"], id="replay"),
    pytest.param(["replay", "--blocks", "4,5"], id="replay of two sizes"),
    pytest.param(["curve"], id="curve"),
    pytest.param(["plan", "--model", "llama-3-8b", "--gpu-memory", "1GB"], id="plan"),
]


def write(path: Path, times: list[int | None]) -> str:
    lines = [
        {"timestamp": time, "input_length": 16, "hash_ids": [number], "block_size": 16}
        for number, time in enumerate(times)
    ]
    path.write_text("\n".join(map(json.dumps, lines)), encoding="ascii")
    return str(path)


@pytest.mark.parametrize("command", COMMANDS)
def test_an_order_that_is_wrong(tmp_path: Path, command: list[str]) -> None:
    trace = write(tmp_path / "t", [0, 9, 5])
    for options in ([], ["--skip-bad"]):
        done = run(*command, *options, trace)
        assert (done.returncode, done.stdout) == (1, b"")
        assert done.stderr.decode() == (
            f"blockpool: {trace}:3: timestamp 5 ms comes before 9 ms of line 2; "
            "--sort (in Python: sort=True) plays by time\n"
        )
    assert invoke(*command, "--sort", trace).stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_nothing_to_sort_by(tmp_path: Path, command: list[str]) -> None:
    trace = write(tmp_path / "t", [None, None])
    done = invoke(*command, "--sort", trace, exit_code=2)
    assert "--sort: the trace has no timestamps to sort by" in done.stderr


def test_sorted_counts_are_those_of_a_sorted_file(tmp_path: Path) -> None:
    mixed = write(tmp_path / "mixed", [5, 0, 9])
    found = json.loads(invoke("replay", "--blocks", "4", "--json", "--sort", mixed).stdout)
    assert found["settings"]["sort"] is True
    times = [point["time_ms"] for point in found["results"][0]["occupancy"]["points"]]
    assert times == [0, 5, 9]
