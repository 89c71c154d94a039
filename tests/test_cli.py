"""The command line: options, tables, JSON, exit codes; never a traceback."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import blockpool
from blockpool.trace.demo import DEMO_TRACE

click_testing = pytest.importorskip("click.testing", reason="the extra cli is not installed")

REPLAY_DEMO = ["replay", "demo", "--blocks", "800"]


def run(*arguments: str, data: bytes | None = None, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Runs the command in a process of its own, as a shell with pipes would."""
    done = subprocess.run(
        [sys.executable, "-m", "blockpool", *arguments],
        input=data,
        stdin=subprocess.DEVNULL if data is None else None,
        capture_output=True,
        timeout=300,
        check=False,
        **options,
    )
    assert b"Traceback" not in done.stderr
    return done


def run_python(code: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=300, check=False)


def invoke(*arguments: str, exit_code: int = 0, **options: Any) -> Any:
    """Runs the command in this process."""
    from blockpool.cli import cli

    result = click_testing.CliRunner().invoke(cli, arguments, **options)
    assert result.exit_code == exit_code, result.output
    return result


def invoke_json(*arguments: str, **options: Any) -> Any:
    return json.loads(invoke("replay", *arguments, "--json", **options).stdout)


# --- what it says


def test_version() -> None:
    build = "compiled" if blockpool.COMPILED else "interpreted"
    done = run("--version")
    assert (done.returncode, done.stdout) == (0, f"blockpool {blockpool.__version__} ({build})\n".encode())


@pytest.mark.parametrize("arguments", [["--help"], ["replay", "--help"], ["generate", "-h"]])
def test_help_is_plain_ascii(arguments: list[str]) -> None:
    assert invoke(*arguments).output.isascii()


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
    assert "refused (the largest needs" in output
    assert "the pool has" in output


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
        "block_size": None,
        "hash_algorithm": "blake2b_raw",
        "sample_rate": None,
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


def test_check() -> None:
    assert invoke_json(*REPLAY_DEMO[1:], "--check-every", "100")["settings"]["check_every"] == 100
    lines = '{"token_ids":[1]}\n' * 3
    assert invoke_json("-", "--blocks", "5", "--check", input=lines)["settings"]["check_every"] == 1


@pytest.mark.skipif(os.name == "nt", reason="this platform has no pseudo-terminals")
@pytest.mark.parametrize("sizes", ["800", "800,900"])
def test_progress_on_a_terminal(sizes: str) -> None:
    ours, theirs = os.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    process = subprocess.Popen(
        [sys.executable, "-m", "blockpool", "replay", "demo", "--blocks", sizes, "--json"],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env=environment,
    )
    os.close(theirs)
    output, _ = process.communicate(timeout=300)
    shown = os.read(ours, 65_536).decode()
    os.close(ours)
    assert process.returncode == 0
    assert ("2 pools" if "," in sizes else "replaying") in shown
    assert len(json.loads(output)["results"]) == len(sizes.split(","))


# --- where traces come from


@pytest.mark.parametrize("sizes", ["800", "800,900"])
@pytest.mark.parametrize("window", ["all", "last-half"])
def test_standard_input(sizes: str, window: str) -> None:
    arguments = ["--blocks", sizes, "--window", window, "--json"]
    piped = json.loads(run("replay", "-", *arguments, data=DEMO_TRACE.read_bytes()).stdout)
    from_file = json.loads(run("replay", "demo", *arguments).stdout)
    for one, other in zip(piped["results"], from_file["results"], strict=True):
        assert one["hit_tokens"] == other["hit_tokens"]
        assert one["occupancy"] == other["occupancy"]


@pytest.mark.parametrize("name", ["t.jsonl", "t.jsonl.gz", "t.jsonl.zst"])
@pytest.mark.parametrize("trace_format", ["tokens", "mooncake"])
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


# --- what goes wrong


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["replay", "demo"], "either --blocks or --memory"),
        (["replay", "demo", "--blocks", "5", "--memory", "1GiB"], "either --blocks or --memory"),
        (["replay", "demo", "--memory", "1GiB"], "go together"),
        (["replay", "demo", "--blocks", "5", "--bytes-per-block", "5"], "go together"),
        (["replay", "demo", "--blocks", "five"], "--blocks five: must be numbers of blocks"),
        (["replay", "demo", "--blocks", "0"], "--blocks 0: must be 1"),
        (["replay", "demo", "--blocks", "999999999999"], "--blocks 999999999999"),
        (["replay", "demo", "--memory", "1G", "--bytes-per-block", "1"], "--memory 1G: must be a size"),
        (
            ["replay", "demo", "--memory", "1", "--bytes-per-block", "x"],
            "--bytes-per-block x: must be a size",
        ),
        (["replay", "demo", "--memory", "1", "--bytes-per-block", "2"], "less than one block"),
        (["replay", "demo", "--blocks", "5", "--rules", "house"], "--rules"),
        (["replay", "demo", "--blocks", "5", "--block-size", "0"], "--block-size"),
        (["replay", "demo", "--blocks", "5", "--hash", "md5"], "--hash"),
        (["replay", "demo", "--blocks", "5", "--sample-rate", "0"], "--sample-rate"),
        (["replay", "demo", "--blocks", "5", "--sample-rate", "nan"], "--sample-rate"),
        (["replay", "demo", "--blocks", "5", "--check-every", "0"], "--check-every"),
        (["replay", "demo", "--blocks", "5", "--jobs", "0"], "--jobs"),
        (["replay", "--blocks", "5"], "TRACE"),
        (["replay", "demo", "--bogus"], "--bogus"),
        (["generate", "poetry"], "poetry"),
        (["generate", "chat", "--requests", "0"], "--requests"),
        (["generate", "chat", "--seed", "-1"], "--seed"),
        (["generate", "chat", "--format", "xml"], "--format"),
        (["bogus"], "bogus"),
    ],
)
def test_usage_errors(arguments: list[str], words: str) -> None:
    assert words in invoke(*arguments, exit_code=2).stderr


def test_usage_errors_of_the_process() -> None:
    assert run().returncode == 2
    done = run("replay", "demo")
    assert (done.returncode, done.stdout) == (2, b"")


def assert_fails(done: subprocess.CompletedProcess[bytes], message: str) -> None:
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.decode() == f"blockpool: {message}\n"


@pytest.mark.parametrize("sizes", ["5", "5,6"])
def test_domain_errors_are_one_line(tmp_path: Path, sizes: str) -> None:
    def fails(path: Path, message: str, *options: str) -> None:
        assert_fails(run("replay", str(path), "--blocks", sizes, *options), message)

    bad = tmp_path / "bad"
    bad.write_text('{"token_ids":[1]}\n{"token_ids":[]}\n', encoding="ascii")
    fails(bad, f"{bad}:2: token_ids is empty")
    cut = tmp_path / "cut"
    cut.write_bytes(gzip.compress(b'{"token_ids":[1]}\n' * 9)[:-4])
    for options in ([], ["--skip-bad"], ["--window", "last-half"]):
        fails(cut, f"{cut}:10: the compressed data ends in the middle", *options)
    empty = tmp_path / "empty"
    empty.write_bytes(b"")
    fails(empty, f"{empty}: no requests")
    fails(tmp_path / "none", f"{tmp_path / 'none'}: No such file or directory")
    fails(tmp_path, f"{tmp_path}: Is a directory")


def test_skip_bad_counts(tmp_path: Path) -> None:
    path = tmp_path / "bad"
    path.write_text('{"token_ids":[1]}\n{"token_ids":[]}\n', encoding="ascii")
    assert "1 skipped" in invoke("replay", str(path), "--blocks", "5", "--skip-bad").stdout
    assert invoke_json(str(path), "--blocks", "5,6", "--skip-bad")["results"][1]["bad_lines"] == 1


def test_output_that_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "none" / "t"
    assert_fails(run("generate", "chat", "-o", str(path)), f"{path}: No such file or directory")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this platform has no /dev/full")
def test_a_full_disk() -> None:
    done = run("generate", "chat", "-o", "/dev/full")
    assert (done.returncode, done.stderr) == (1, b"blockpool: No space left on device\n")


@pytest.mark.skipif(os.name == "nt", reason="file names are not bytes on this platform")
def test_a_file_name_that_is_not_text(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/\xff.jsonl"
    try:
        Path(os.fsdecode(path)).write_bytes(b'{"token_ids":[1]}\n')
    except OSError:
        pytest.skip("the file system takes only names that are text")
    done = run("replay", os.fsdecode(path), "--blocks", "5")
    assert (done.returncode, done.stderr) == (0, b"")
    missing = run("replay", os.fsdecode(path) + "x", "--blocks", "5")
    assert missing.returncode == 1
    assert missing.stderr.count(b"\n") == 1


def test_a_terminal_that_knows_ascii_only() -> None:
    done = run(*REPLAY_DEMO, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"lifetime" in done.stdout


@pytest.mark.parametrize("arguments", [["generate", "chat"], [*REPLAY_DEMO, "--json"], REPLAY_DEMO])
def test_a_reader_that_leaves(arguments: list[str]) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "blockpool", *arguments],
            stdout=write_end,
            stderr=subprocess.PIPE,
            timeout=300,
            check=False,
        )
    finally:
        os.close(write_end)
    assert (done.returncode, done.stderr) == (1, b"")


def children_of(pid: int) -> list[int]:
    return [
        int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    ]


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except OSError:
        return False
    return state != b"Z"


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc to see the processes")
@pytest.mark.parametrize("sizes", ["100k", "100k,100k"])
def test_interrupt(sizes: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "blockpool", "replay", "-", "--blocks", sizes, "--check", "--jobs", "2"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    process.stdin.write(DEMO_TRACE.read_bytes())
    process.stdin.close()
    process.stdin = None
    workers: list[int] = []
    # The replay takes minutes; it is interrupted once it is seen to run.
    while process.poll() is None and len(workers) < (3 if "," in sizes else 0):
        workers = children_of(process.pid)
        time.sleep(0.05)
    while process.poll() is None and b"msgspec" not in Path(f"/proc/{process.pid}/maps").read_bytes():
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=300)
    assert (process.returncode, output, errors.strip()) == (130, b"", b"")
    # Helpers of multiprocessing end by themselves once their parent is gone; a worker would go on for minutes.
    while any(is_running(worker) for worker in workers):
        time.sleep(0.05)


# --- without the extra


@pytest.mark.parametrize("package", ["click", "rich", "msgspec"])
def test_without_the_extra(package: str) -> None:
    code = f"import sys; sys.modules[{package!r}] = None\n"
    code += "from blockpool.__main__ import main; sys.exit(main({}))"
    done = run_python(code.format(["replay", "demo"]))
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.count(b"\n") == 1
    assert b"pip install 'blockpool[cli]'" in done.stderr
    version = run_python(code.format(["--version"]))
    assert (version.returncode, version.stderr) == (0, b"")
    assert version.stdout.startswith(b"blockpool ")
