"""What operators run into with `watch`, `record`, `replay --publish`: closed streams, limits, full disks, signals."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

pytest.importorskip("zmq", reason="the extra events is not installed")
pytest.importorskip("click", reason="the extra cli is not installed")

from .cli_support import SECONDS, on_terminal, run, run_python, started

ANYWHERE = "tcp://127.0.0.1:0"
NOBODY = "tcp://127.0.0.1:1"
RECORDING_HEAD = '{"recording":"blockpool.events/1","at":1.0,"sources":[],"topic":""}\n'


@pytest.mark.parametrize(
    "arguments",
    [
        ("replay", "demo", "--blocks", "50"),
        ("replay", "demo", "--blocks", "50", "--publish", ANYWHERE),
        ("watch", NOBODY, "--duration", "0.1"),
    ],
)
def test_without_a_standard_error_the_work_is_done(arguments: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "blockpool", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        preexec_fn=lambda: os.close(2),
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0
    assert done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ("watch", *(f"tcp://127.0.0.1:{port}" for port in range(1, 65))),
            b"64 addresses need some 416 open files",
        ),
        (
            ("replay", "demo", "--blocks", "50", "--publish", ANYWHERE, "--workers", "64"),
            b"64 workers need some 800 open files",
        ),
    ],
)
def test_too_few_files_are_one_line(arguments: tuple[str, ...], words: bytes) -> None:
    limits = (100, 100)
    done = run(*arguments, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, limits))
    assert (done.returncode, done.stderr.count(b"\n")) == (1, 1)
    assert words + b", and 100 are allowed" in done.stderr


def test_a_limit_that_may_be_raised_is_raised() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    arguments = ("replay", "demo", "--blocks", "50", "--publish", ANYWHERE, "--workers", "16")
    done = run(*arguments, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard)))
    assert done.returncode == 0, done.stderr


def test_what_zeromq_complains_about_is_one_line() -> None:
    code = (
        "import sys, zmq\n"
        "import blockpool.events\n"
        "from blockpool.__main__ import main\n"
        "def fail(*_, **__): raise zmq.ZMQError(24)\n"
        "zmq.Context.socket = fail\n"
        "sys.exit(main(['watch', 'tcp://127.0.0.1:1', '--duration', '1']))"
    )
    done = run_python(code)
    assert (done.returncode, done.stderr) == (1, b"blockpool: ZeroMQ: Too many open files\n")


def test_names_in_a_recording_do_nothing_to_a_terminal(tmp_path: Path) -> None:
    event = {"type": "BlockStored", "block_hashes": [1], "parent_block_hash": None, "token_ids": [1]}
    event |= {"block_size": 1, "lora_id": None, "medium": "[/]\x1b[2J", "lora_name": None}
    head = {"recording": "blockpool.events/1", "at": 1.0, "sources": []}
    lines = [
        {
            "at": 1.0,
            "source": "tcp://[fe80::1]:5",
            "shared": True,
            "topic": "[/red]\x1b[31m\nx",
            "events": [event],
        }
    ]
    path = tmp_path / "events.jsonl"
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in [head, *lines]))
    done = run("replay", str(path))
    assert done.returncode == 0, done.stderr
    text = done.stdout.decode()
    assert text.count("tcp://[fe80::1]:5 [/red]\\x1b[31m\\nx ") == 2
    assert "at the end, [/]\\x1b[2J " in text


def test_names_of_workers_are_shown_as_they_are() -> None:
    with TemporaryDirectory() as folder:
        endpoint = f"ipc://{folder}/[bold]"
        done = run("replay", "demo", "--blocks", "50", "--publish", endpoint)
    assert done.returncode == 0, done.stderr
    assert f" {endpoint} " in done.stdout.decode()


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
@pytest.mark.parametrize("after", [b"\x1b[?1049h", b"stored/s"])
def test_whatever_ends_watch_the_screen_is_given_back(number: int, code: int, after: bytes) -> None:
    with on_terminal("watch", NOBODY) as terminal:
        terminal.read(until=after)
        terminal.process.send_signal(number)
        assert terminal.end() == code
    assert b"Traceback" not in terminal.shown
    assert terminal.shown.rindex(b"\x1b[?1049l") > terminal.shown.rindex(b"\x1b[?1049h")
    assert terminal.shown.rindex(b"\x1b[?25h") > terminal.shown.rfind(b"\x1b[?25l")


def test_a_dumb_terminal_gets_lines() -> None:
    with on_terminal("watch", NOBODY, "--duration", "0.3", term="dumb") as terminal:
        assert terminal.end() == 0
    assert b" tcp://127.0.0.1:1 waiting" in terminal.shown


def test_a_fleet_that_lingers_ends_in_good_order_when_it_is_terminated() -> None:
    words = ("replay", "demo", "--blocks", "50", "--linger", "600", "--publish", ANYWHERE)
    with started(*words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as made:
        line = b""
        while b" seconds" not in line:
            line = made.stdout.readline()
            assert line
        made.terminate()
        assert made.wait(SECONDS) == 143


def test_watch_follows_a_publisher_that_dies_and_comes_back() -> None:
    with TemporaryDirectory() as folder:
        where, answers = f"ipc://{folder}/events", f"ipc://{folder}/replay"
        fleet = ("replay", "demo", "--blocks", "50", "--publish", where, "--publish-replay", answers)
        look = ("watch", where, "--replay-endpoint", answers, "--interval", "0.1")
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        unbuffered = os.environ | {"PYTHONUNBUFFERED": "1"}
        with started(*look, stdout=subprocess.PIPE, text=True, env=unbuffered) as watching:
            for restarts in range(2):
                with started(*fleet, "--linger", "600", **quiet):
                    line = ""
                    while " GPU=49 " not in line or f" restarts={restarts}\n" not in line:
                        line = watching.stdout.readline()
                        assert line
            watching.terminate()
            assert watching.wait(SECONDS) == 143


def test_requests_do_not_overwrite_the_recording_that_is_standard_input(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text(RECORDING_HEAD)
    with path.open("rb") as file:
        done = subprocess.run(
            [sys.executable, "-m", "blockpool", "replay", "-", "--requests-to", str(path)],
            stdin=file,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    assert (done.returncode, path.read_text()) == (2, RECORDING_HEAD)
    assert b"--requests-to names the recording itself" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [("curve",), ("plan", "--model", "llama-3-8b", "--gpu-memory", "24GiB")],
)
def test_other_commands_say_what_a_recording_is(arguments: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text(RECORDING_HEAD)
    done = run(*arguments, str(path))
    assert (done.returncode, done.stderr.count(b"\n")) == (1, 1)
    assert b":1: a recording of events, which `blockpool replay` reads" in done.stderr
