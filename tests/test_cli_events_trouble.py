"""What operators run into with `watch`, `record`, `replay --publish`: closed streams, limits, full disks, signals."""

from __future__ import annotations

import os
import resource
import subprocess
import sys

import pytest

pytest.importorskip("zmq", reason="the extra events is not installed")
pytest.importorskip("click", reason="the extra cli is not installed")

from .cli_support import run, run_python

SECONDS = 60.0
ANYWHERE = "tcp://127.0.0.1:0"
NOBODY = "tcp://127.0.0.1:1"


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
