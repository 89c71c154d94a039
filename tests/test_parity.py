"""Interpreted and compiled build give equal results: one seed through both, and each against what is expected."""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import blockpool

HERE = Path(__file__).parent
SCENARIO = HERE / "parity_scenario.py"
EXPECTED = HERE / "parity_expected.json"
SEED = 20_260
STEPS = 3_000
OTHER = "BLOCKPOOL_OTHER_PYTHON"


@functools.cache
def play(python: str, seed: int = SEED, steps: int = STEPS) -> Any:
    """The scenario's output under that interpreter, which imports the blockpool that is installed there."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if python == sys.executable:
        # The very package that these tests run on, whether it is installed or on the path.
        environment["PYTHONPATH"] = str(Path(blockpool.__file__).parent.parent)
    command = [python, str(SCENARIO), str(seed), str(steps)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def other_python() -> str:
    """An interpreter whose blockpool is the other build, or a skip that says why there is none."""
    named = os.environ.get(OTHER)
    if named:
        return named
    other = "interpreted" if blockpool.COMPILED else "compiled"
    beside = HERE.parent / f".venv-{other}" / "bin" / "python"
    if not (HERE.parent / f".venv-{other}" / "installed.ok").is_file():
        pytest.skip(f"no {other} build to compare with: {OTHER} is not set and there is no .venv-{other}")
    return str(beside)


def test_the_scenario_runs_on_this_build() -> None:
    assert play(sys.executable)["compiled"] is blockpool.COMPILED


def test_the_scenario_reaches_what_it_should() -> None:
    results = play(sys.executable)["results"]
    for name in ("plain", "reuse_uncached_first"):
        played = results[name]
        assert played["num_events"] > 1_000
        assert played["num_evictions"] > 1_000
        assert min(played["num_residencies"]) > 50
    assert results["plain"]["events"] != results["reuse_uncached_first"]["events"]


def test_the_scenario_repeats() -> None:
    command_again = play.__wrapped__(sys.executable)
    assert command_again == play(sys.executable)
    assert play(sys.executable, SEED + 1, 200)["results"] != play(sys.executable, SEED, 200)["results"]


@pytest.mark.parametrize("part", ["plain", "reuse_uncached_first", "hashing"])
def test_this_build_gives_the_expected_results(part: str) -> None:
    """The expected results were written by the interpreted build: python tests/test_parity.py."""
    expected = json.loads(EXPECTED.read_text())
    assert play(sys.executable)["results"][part] == expected[part]


def test_every_bad_call_is_answered_by_a_typed_error_or_an_answer() -> None:
    expected = json.loads(EXPECTED.read_text())["bad calls"]
    found = play(sys.executable)["results"]["bad calls"]
    assert set(found) == set(expected)
    assert {name: one for name, one in found.items() if one != expected[name]} == {}
    assert {name: one for name, one in found.items() if one.startswith("other error")} == {}


def test_the_other_build_gives_equal_results() -> None:
    other = play(other_python())
    this = play(sys.executable)
    assert other["compiled"] is not this["compiled"], f"{OTHER} has the same build as this one"
    for part, results in this["results"].items():
        for name, value in results.items():
            assert other["results"][part][name] == value, f"{part}: {name}"


if __name__ == "__main__":
    assert not blockpool.COMPILED, "the expected results are those of the interpreted build"
    EXPECTED.write_text(json.dumps(play(sys.executable)["results"], indent=1) + "\n")
