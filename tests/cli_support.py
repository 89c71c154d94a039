"""Runs the command line, in a process of its own or in this one."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

SECONDS = 120.0
"""A bound for what takes seconds."""
REPLAY_DEMO = ["replay", "demo", "--blocks", "800"]

# The command line with a wide gap between the start of each process and the moment it gets what it is to read.
# A shell starts what it runs in the background with SIGINT ignored, and children inherit that: undone here.
SLOW_TO_START_PROCESSES = """
import multiprocessing.util, signal, sys, time
from blockpool.__main__ import main

def spawn(path, arguments, descriptors, *, start=multiprocessing.util.spawnv_passfds):
    pid = start(path, arguments, descriptors)
    if any("spawn_main" in str(argument) for argument in arguments):
        time.sleep(1)
    return pid

multiprocessing.util.spawnv_passfds = spawn
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(main())
"""


def heed_signals() -> None:
    """For `preexec_fn`: background jobs of a shell ignore SIGINT, those of nohup SIGHUP, and children inherit it."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


@contextlib.contextmanager
def started(*arguments: str, **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """The command in a process of its own, which is killed at the end of the block, and at the latest after SECONDS.

    So whoever reads what it writes comes to an end, whatever it does.
    """
    command = [sys.executable, "-m", "blockpool", *arguments]
    with subprocess.Popen(command, preexec_fn=heed_signals, **options) as process:
        guard = threading.Timer(SECONDS, process.kill)
        guard.start()
        try:
            yield process
        finally:
            guard.cancel()
            process.kill()


class Terminal:
    """A command on a terminal of its own, of 80 by 24 characters."""

    def __init__(self, process: subprocess.Popen[Any], master: int) -> None:
        self.process = process
        self._master = master
        self.shown = b""

    def read(self, until: bytes | None = None) -> None:
        """Until that was shown, else to the end."""
        while until is None or until not in self.shown:
            try:
                part = os.read(self._master, 65536)
            except OSError:  # how Linux says that the other side is closed
                part = b""
            if not part:
                assert until is None, self.shown
                return
            self.shown += part

    def end(self) -> int:
        """The exit code, after all that is still shown."""
        self.read()
        return self.process.wait(SECONDS)


@contextlib.contextmanager
def on_terminal(*arguments: str, term: str = "xterm", **options: Any) -> Iterator[Terminal]:
    """The command with standard output, and what `options` do not say otherwise, on a terminal."""
    pty = pytest.importorskip("pty", reason="no pseudo-terminals on this system")
    master, slave = pty.openpty()
    size = {"COLUMNS": "80", "LINES": "24", "TERM": term, "PYTHONUTF8": "1"}
    streams: dict[str, Any] = {"stdin": slave, "stdout": slave, "stderr": slave}
    try:
        with started(*arguments, env=os.environ | size, **(streams | options)) as process:
            os.close(slave)
            yield Terminal(process, master)
    finally:
        os.close(master)


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
    from click.testing import CliRunner

    from blockpool.cli import cli

    result = CliRunner().invoke(cli, arguments, **options)
    assert result.exit_code == exit_code, result.output
    return result


def invoke_json(*arguments: str, **options: Any) -> Any:
    return json.loads(invoke("replay", *arguments, "--json", **options).stdout)
