"""The command line when something is wrong: exit codes, one line, never a traceback."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from blockpool.trace.demo import DEMO_TRACE

from .cli_support import REPLAY_DEMO, SECONDS, SLOW_TO_START_PROCESSES, invoke, invoke_json, run, run_python

pytest.importorskip("click.testing", reason="the extra cli is not installed")


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
        (["replay", "demo", "--memory", "1G", "--bytes-per-block", "1"], "--memory 1G: write 1GiB or 1GB"),
        (
            ["replay", "demo", "--memory", "1", "--bytes-per-block", "x"],
            "--bytes-per-block x: must be a size",
        ),
        (["replay", "demo", "--memory", "1", "--bytes-per-block", "2"], "less than one block"),
        (
            ["replay", "demo", "--memory", "1.5TiB", "--bytes-per-block", "1kB"],
            "--memory 1.5TiB: is 1,649,267,441 blocks of 1,000 bytes",
        ),
        (["replay", "demo", "--blocks", "5", "--rules", "house"], "--rules"),
        (["replay", "demo", "--blocks", "5", "--block-size", "0"], "--block-size"),
        (["replay", "demo", "--blocks", "5", "--hash", "md5"], "--hash"),
        (["replay", "demo", "--blocks", "5", "--sample-rate", "0"], "--sample-rate"),
        (["replay", "demo", "--blocks", "5", "--sample-rate", "nan"], "--sample-rate"),
        (["replay", "demo", "--blocks", "5", "--check-every", "0"], "--check-every"),
        (["replay", "demo", "--blocks", "5", "--jobs", "0"], "--jobs"),
        (["replay", "demo", "--blocks", "5", "--jobs", "2"], "--jobs goes with several sizes"),
        (["replay", "demo", "--blocks", "5", "--no-explain"], "--no-explain goes with --html"),
        (["replay", "demo", "--blocks", "5", "--tag", "lora"], "--tag goes with --explain"),
        (["replay", "demo", "--blocks", "5", "--html", "r", "--no-explain", "--tag", "lora"], "--tag goes"),
        (
            ["replay", "demo", "--blocks", "5", "--reuse-uncached-first"],
            "by trace rules all blocks are cached",
        ),
        (["replay", "--blocks", "5"], "TRACE"),
        (["replay", "demo", "--bogus"], "--bogus"),
        (["generate", "poetry"], "poetry"),
        (["generate", "chat", "--requests", "0"], "--requests"),
        (["generate", "chat", "--seed", "-1"], "--seed"),
        (["generate", "chat", "--format", "xml"], "--format"),
        (["bogus"], "bogus"),
        (["replay", "", "--blocks", "5"], "the name is empty"),
        (["curve", ""], "the name is empty"),
        (["generate", "chat", "-o", ""], "the name is empty"),
        (["generate", "chat", "--block-size", "16"], "--block-size is for --format mooncake"),
        (["replay", "demo", "--blocks", "5", "--hash", "sha256"], "--hash is for traces of token ids"),
        (["curve", "demo", "--hash", "sha256"], "--hash is for traces of token ids"),
        (
            ["plan", "demo", "--model", "llama-3-8b", "--gpu-memory", "9GB", "--hash", "sha256"],
            "--hash is for traces of token ids",
        ),
        (
            ["replay", "demo", "--blocks", "5", "--check", "--check-every", "5"],
            "either --check or --check-every",
        ),
    ],
)
def test_usage_errors(arguments: list[str], words: str) -> None:
    assert words in invoke(*arguments, exit_code=2).stderr


def test_a_hash_for_block_ids_from_standard_input() -> None:
    arguments = ["replay", "-", "--blocks", "5", "--hash", "sha256"]
    line = '{"hash_ids":[1],"input_length":5}\n'
    assert "--hash is for" in invoke(*arguments, exit_code=2, input=line).stderr
    assert invoke(*arguments, input='{"token_ids":[1]}\n').stdout


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


def test_a_name_with_line_breaks_and_control_codes_stays_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a\nb\x1b[31mé"
    assert_fails(
        run("replay", str(path), "--blocks", "5"), f"{tmp_path}/a\\nb\\x1b[31mé: No such file or directory"
    )


def test_a_pool_that_can_play_nothing() -> None:
    done = run("replay", "demo", "--blocks", "5")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"refused (largest needs" in done.stdout


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
    assert (done.returncode, done.stderr) == (1, b"blockpool: /dev/full: No space left on device\n")


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


def wait_until(condition: Callable[[], bool]) -> None:
    """Looks again and again; fails after 2,000 looks, about a hundred seconds."""
    for _ in range(2_000):
        if condition():
            return
        time.sleep(0.05)
    pytest.fail("waited in vain")


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
    jobs = ["--jobs", "2"] if "," in sizes else []
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW_TO_START_PROCESSES, "replay", "-", "--blocks", sizes, "--check", *jobs],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    process.stdin.write(DEMO_TRACE.read_bytes())
    process.stdin.close()
    process.stdin = None
    workers: list[int] = []

    def has_its_workers() -> bool:
        workers[:] = children_of(process.pid)
        return len(workers) >= (3 if "," in sizes else 0)

    def has_loaded() -> bool:
        return b"msgspec" in Path(f"/proc/{process.pid}/maps").read_bytes()

    try:
        # The replay takes minutes; it is interrupted once it is seen to run.
        wait_until(lambda: process.poll() is not None or has_its_workers())
        wait_until(lambda: process.poll() is not None or has_loaded())
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=SECONDS)
    finally:
        process.kill()
    assert (process.returncode, output, errors.strip()) == (130, b"", b"")
    # Helpers of multiprocessing end by themselves once their parent is gone; a worker would go on for minutes.
    wait_until(lambda: not any(is_running(worker) for worker in workers))


@pytest.mark.skipif(os.name == "nt", reason="signals are another thing on this platform")
def test_interrupt_of_the_whole_group_while_processes_start(tmp_path: Path) -> None:
    """Ctrl-C on a terminal reaches the started processes as well, which are at their imports."""
    words = ["replay", "demo", "--blocks", "100k,100k", "--check", "--jobs", "2", "--html", "r.html"]
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW_TO_START_PROCESSES, *words],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        # The processes are started right after the file of the report was opened.
        wait_until(lambda: process.poll() is not None or any(tmp_path.iterdir()))
        time.sleep(0.3)
        os.killpg(process.pid, signal.SIGINT)
        output, errors = process.communicate(timeout=SECONDS)
    finally:
        process.kill()
    assert (process.returncode, output, errors.strip()) == (130, b"", b"")


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc to see the processes")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGKILL"])
def test_workers_do_not_outlive_a_command_that_was_killed(name: str) -> None:
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "blockpool",
            "replay",
            "demo",
            "--blocks",
            "100k,100k",
            "--check",
            "--jobs",
            "2",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    workers: list[int] = []

    def has_its_workers() -> bool:
        workers[:] = children_of(process.pid)
        return len(workers) >= 3

    try:
        wait_until(lambda: process.poll() is not None or has_its_workers())
        process.send_signal(getattr(signal, name))
        process.wait(timeout=300)
    finally:
        process.kill()
    wait_until(lambda: not any(is_running(worker) for worker in workers))
    process.communicate(timeout=SECONDS)


# --- without the extra


@pytest.mark.parametrize("package", ["click", "rich", "msgspec"])
def test_without_the_extra(package: str) -> None:
    code = f"import sys; sys.modules[{package!r}] = None\n"
    code += "from blockpool.__main__ import main; sys.exit(main({}))"
    done = run_python(code.format(["replay", "demo"]))
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.count(b"\n") == 1
    assert b"pip install '.[cli]'" in done.stderr
    version = run_python(code.format(["--version"]))
    assert (version.returncode, version.stderr) == (0, b"")
    assert version.stdout.startswith(b"blockpool ")
