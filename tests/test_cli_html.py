"""--html on the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("click.testing", reason="the extra cli is not installed")
pytest.importorskip("altair", reason="the extra report is not installed")

from blockpool.replay.plans.model_catalog import CATALOG
from blockpool.trace import source
from blockpool.trace.demo import DEMO_TRACE

from .cli_support import REPLAY_DEMO, SLOW_TO_START_PROCESSES, invoke, run, run_python
from .replay.html.html_support import parsed

PLAN_DEMO = ["plan", "demo", "--model", "llama-3-8b", "--gpu-memory", "20GiB", "--reserve", "16GiB"]
TIMED_DEMO = ["replay", "demo", "--blocks", "3000", "--timed"]
COMMANDS = {"replay": REPLAY_DEMO, "timed": TIMED_DEMO, "curve": ["curve", "demo"], "plan": PLAN_DEMO}


def with_trace(words: list[str], trace: Path) -> list[str]:
    """The command for another trace, for the curve of the bundled one is slow when it is not compiled."""
    return [str(trace) if word == "demo" else word for word in words]


@pytest.mark.both_builds
@pytest.mark.parametrize("name", COMMANDS)
def test_writes_a_report_beside_the_usual_output(tmp_path: Path, small_demo: Path, name: str) -> None:
    path = tmp_path / "report.html"
    words = with_trace(COMMANDS[name], small_demo)
    with_report = invoke(*words, "--html", str(path))
    assert small_demo.name in with_report.stdout.replace("\n", "")
    document = parsed(path.read_bytes())
    assert "%" in document.all("h1")[0].text
    assert document.all("code")[0].text == f"blockpool {' '.join(words)} --html {path}"
    assert list(tmp_path.iterdir()) == [path]


def test_goes_with_json(tmp_path: Path, small_demo: Path) -> None:
    arguments = [*with_trace(PLAN_DEMO, small_demo), "--json"]
    plain = invoke(*arguments).stdout
    assert invoke(*arguments, "--html", str(tmp_path / "r.html")).stdout == plain
    assert (tmp_path / "r.html").exists()


def test_goes_with_csv(tmp_path: Path, small_demo: Path) -> None:
    arguments = ["curve", str(small_demo), "--csv"]
    assert invoke(*arguments, "--html", str(tmp_path / "r.html")).stdout == invoke(*arguments).stdout


def test_a_curve_with_a_report_has_all_policies_unless_told(tmp_path: Path, small_demo: Path) -> None:
    path, curve = tmp_path / "r.html", ["curve", str(small_demo)]
    assert "optimal" in invoke(*curve, "--html", str(path)).stdout
    told = ["--policies", "lru"]
    assert "optimal" not in invoke(*curve, *told, "--html", str(path)).stdout
    sample = ["--sample", "1/4"]
    assert "optimal" not in invoke(*curve, *sample, "--html", str(path)).stdout
    assert "optimal" not in invoke(*curve).stdout


def test_several_sizes_in_processes(tmp_path: Path, small_demo: Path) -> None:
    path = tmp_path / "r.html"
    invoke("replay", str(small_demo), "--blocks", "800,900", "--html", str(path))
    headings = [element.text for element in parsed(path.read_bytes()).all("h2")]
    assert headings[:4] == [
        "All sizes",
        "Occupancy over time",
        "Block map",
        "Why prompt blocks missed",
    ]


def test_a_report_of_a_replay_says_why_blocks_missed_unless_told(tmp_path: Path, small_demo: Path) -> None:
    path = tmp_path / "r.html"
    words = with_trace(REPLAY_DEMO, small_demo)

    def has_reasons(*options: str) -> bool:
        report = json.loads(invoke(*words, *options, "--json", "--html", str(path)).stdout)
        headings = [element.text for element in parsed(path.read_bytes()).all("h2")]
        assert ("Why prompt blocks missed" in headings) == (report["results"][0]["misses"] is not None)
        assert ("Why prompt blocks missed" in headings) == report["settings"]["explain"]
        return "Why prompt blocks missed" in headings

    assert has_reasons()
    assert has_reasons("--tag", "session_id")
    assert has_reasons("--explain")
    assert not has_reasons("--no-explain")


@pytest.mark.skipif(os.name == "nt", reason="signals are another thing on this platform")
@pytest.mark.parametrize("sizes", ["100k", "100k,100k"])
def test_a_run_that_is_terminated_leaves_nothing(tmp_path: Path, sizes: str) -> None:
    """Also when the processes of several pools are half-started."""
    jobs = ["--jobs", "2"] if "," in sizes else []
    words = ["replay", "demo", "--blocks", sizes, "--check", *jobs, "--html", "r.html"]
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW_TO_START_PROCESSES, *words],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        # The replay takes minutes; it is ended once it has opened its file.
        while process.poll() is None and not any(tmp_path.iterdir()):
            time.sleep(0.05)
        time.sleep(0.3)
        assert [path.suffix for path in tmp_path.iterdir()] == [".part"]
        process.terminate()
        output, errors = process.communicate(timeout=300)
    finally:
        process.kill()
    assert (process.returncode, output, errors) == (143, b"", b"")
    assert not any(tmp_path.iterdir())


@pytest.mark.skipif(os.name == "nt", reason="such names are not allowed on this platform")
def test_a_trace_with_a_hostile_name(tmp_path: Path, small_demo: Path) -> None:
    folder = tmp_path / "<script>window.pwned=1<"
    folder.mkdir()
    path = folder / "script>\"'&\n"
    path.write_bytes(small_demo.read_bytes())
    invoke("replay", str(path), "--blocks", "800", "--html", str(tmp_path / "r.html"))
    document = parsed((tmp_path / "r.html").read_bytes())
    assert str(path) in [element.text for element in document.all("span")]
    assert len(document.all("script")) == 4


@pytest.mark.parametrize("name", COMMANDS)
def test_what_cannot_be_written_is_said_before_the_work(tmp_path: Path, name: str) -> None:
    path = tmp_path / "none" / "r.html"
    done = run(*with_trace(COMMANDS[name], tmp_path / "no-trace"), "--html", str(path))
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.decode() == f"blockpool: {path}: No such file or directory\n"


@pytest.mark.parametrize(
    ("path", "words"),
    [("", "the name is empty"), ("-", "needs the name of a file"), (".", "no regular file")],
)
def test_usage_errors(path: str, words: str) -> None:
    assert words in invoke(*REPLAY_DEMO, "--html", path, exit_code=2).stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this platform has no /dev/full")
def test_a_device_is_not_replaced() -> None:
    assert "no regular file" in invoke(*REPLAY_DEMO, "--html", "/dev/full", exit_code=2).stderr


def test_the_trace_itself_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "trace.gz"
    path.write_bytes(DEMO_TRACE.read_bytes())
    arguments = ["replay", str(path), "--blocks", "800", "--html", str(path)]
    assert "is the trace itself" in invoke(*arguments, exit_code=2).stderr
    assert path.read_bytes() == DEMO_TRACE.read_bytes()


@pytest.mark.skipif(os.name == "nt", reason="links and open files are another thing on this platform")
@pytest.mark.parametrize("target", ["trace", "hard", "soft"])
def test_nor_when_it_is_standard_input(tmp_path: Path, target: str) -> None:
    path = tmp_path / "trace"
    path.write_bytes(DEMO_TRACE.read_bytes())
    (tmp_path / "hard").hardlink_to(path)
    (tmp_path / "soft").symlink_to(path)
    with path.open("rb") as file:
        done = subprocess.run(
            [sys.executable, "-m", "blockpool", "replay", "-", "--blocks", "800", "--html", target],
            cwd=tmp_path,
            stdin=file,
            capture_output=True,
            timeout=300,
            check=False,
        )
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"is the trace itself" in done.stderr
    assert path.read_bytes() == DEMO_TRACE.read_bytes()


def test_files_that_are_called_as_a_trace_that_is_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("demo").touch()
    Path("-").touch()
    invoke("replay", "demo", "--blocks", "5", "--html", "demo")
    assert Path("demo").read_bytes().startswith(b"<!DOCTYPE html>")
    line = b'{"token_ids":[1,2]}'
    invoke("replay", "-", "--blocks", "5", "--html", "./-", input=line)
    assert Path("-").read_bytes().startswith(b"<!DOCTYPE html>")
    assert "is the trace itself" in invoke("curve", "./demo", "--html", "demo", exit_code=2).stderr


def test_the_bundled_trace_is_not_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundled = tmp_path / "demo.jsonl.gz"
    bundled.write_bytes(DEMO_TRACE.read_bytes())
    monkeypatch.setattr(source, "DEMO_TRACE", bundled)  # what a fault might cost shall be a copy
    assert "is the trace itself" in invoke(*REPLAY_DEMO, "--html", str(bundled), exit_code=2).stderr
    assert bundled.read_bytes() == DEMO_TRACE.read_bytes()


def test_a_config_that_is_read_is_not_overwritten(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(CATALOG["llama-3-8b"]), encoding="utf-8")
    before = config.read_bytes()
    for model in (tmp_path, config):
        arguments = [str(model) if word == "llama-3-8b" else word for word in PLAN_DEMO]
        assert "which is read, too" in invoke(*arguments, "--html", str(config), exit_code=2).stderr
    assert config.read_bytes() == before


def test_a_run_that_fails_leaves_nothing(tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    bad.write_text('{"token_ids":[1]}\n{"token_ids":[]}\n', encoding="ascii")
    done = run("replay", str(bad), "--blocks", "5", "--html", str(tmp_path / "r.html"))
    assert done.returncode == 1
    assert list(tmp_path.iterdir()) == [bad]


def test_without_the_extra() -> None:
    done = run_python(
        "import sys; sys.modules['vl_convert'] = None\n"
        "from blockpool.__main__ import main\n"
        "sys.exit(main(['replay', 'demo', '--blocks', '5', '--html', 'r.html']))"
    )
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.decode().startswith("blockpool: --html needs a package that is not installed")
    assert "'.[report]'" in done.stderr.decode()


def test_the_extra_is_not_imported_without_a_report() -> None:
    done = run_python(
        "import sys\n"
        "from blockpool.__main__ import main\n"
        "main(['replay', 'demo', '--blocks', '5'])\n"
        "sys.exit(bool({'altair', 'jinja2', 'vl_convert'} & set(sys.modules)))"
    )
    assert done.returncode == 0, sys.version
