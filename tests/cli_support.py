"""Runs the command line, in a process of its own or in this one."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import Any

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
