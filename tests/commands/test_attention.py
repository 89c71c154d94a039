"""`blockpool replay --attention` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli_support import invoke, invoke_json

pytest.importorskip("click.testing", reason="the extra cli is not installed")

HYBRID = "hybrid:full+sliding:1024"


def test_a_table_of_sizes() -> None:
    output = invoke("replay", "demo", "--blocks", "1500,3k", "--attention", HYBRID, "--jobs", "1").stdout
    assert f"engine rules, attention {HYBRID}" in output
    assert "1,500      884,688" in output
    assert "3,000    1,435,472" in output
    assert "attention" not in invoke("replay", "demo", "--blocks", "800").stdout


@pytest.mark.both_builds
def test_json() -> None:
    report = invoke_json("demo", "--blocks", "1500", "--attention", "sliding:1024")
    assert (report["settings"]["attention"], report["settings"]["rules"]) == ("sliding:1024", "engine")
    assert report["settings"]["explain"] is False
    (result,) = report["results"]
    assert (result["hit_tokens"], result["evictions"], result["misses"]) == (1_536_064, 48_779, None)
    assert invoke_json("demo", "--blocks", "800")["settings"]["attention"] == "full"


@pytest.mark.both_builds
def test_timed_json() -> None:
    report = invoke_json("demo", "--blocks", "1500", "--attention", "sliding:1024", "--timed")
    (result,) = report["results"]
    assert (result["hit_tokens"], result["sequential"]["hit_tokens"]) == (1_182_608, 1_536_064)
    assert report["settings"]["attention"] == "sliding:1024"


def test_a_report_explains_no_misses(tmp_path: Path, small_demo: Path) -> None:
    pytest.importorskip("altair", reason="the extra html is not installed")
    path = tmp_path / "report.html"
    invoke("replay", str(small_demo), "--blocks", "1500", "--attention", HYBRID, "--html", str(path))
    page = path.read_text(encoding="utf-8")
    assert HYBRID in page
    assert "Why prompt blocks missed" not in page


@pytest.mark.parametrize(
    "options",
    [
        ["--attention", "sliding"],
        ["--attention", ""],
        ["--attention", "hybrid:full"],
        ["--attention", "mamba", "--rules", "trace"],
        ["--attention", "mamba", "--explain"],
        ["--attention", "mamba:align", "--timed"],
        ["--attention", HYBRID, "--timed", "--rules", "trace"],
    ],
)
def test_usage_errors(options: list[str]) -> None:
    result = invoke("replay", "demo", "--blocks", "800", *options, exit_code=2)
    assert len(result.stderr.strip().splitlines()[-1]) > 20
    assert "--attention" in result.stderr.strip().splitlines()[-1]


def test_blocks_of_unequal_size(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    line = {
        "timestamp": 0,
        "input_length": 7,
        "output_length": 1,
        "hash_ids": [1, 2, 3],
        "block_tokens": [3, 2, 2],
    }
    path.write_text(json.dumps(line), encoding="ascii")
    result = invoke("replay", str(path), "--blocks", "80", "--attention", HYBRID, exit_code=2)
    assert result.stderr.splitlines()[-1].endswith("the trace has them unequal (block_tokens)")
