"""Hypothesis profiles, the header that says what is tested, and fixtures for outside material."""

from __future__ import annotations

import gc
import gzip
import itertools
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

import blockpool
from benchmarks import peer as peer_module
from blockpool.core import block_map
from blockpool.trace.demo import DEMO_TRACE

from .second_build import leave_out

CHECKOUT = Path(__file__).resolve().parent.parent

# No deadline and no "too slow" in any profile: no test depends on wall-clock time.
COMMON: dict[str, Any] = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow],
    "print_blob": True,
}
# dev: seconds, for every save. ci: thousands of steps per state machine, the same ones every time,
# so that a red run can be repeated. explore: different every time, to go hunting.
settings.register_profile("dev", max_examples=30, stateful_step_count=30, **COMMON)
settings.register_profile("ci", max_examples=200, stateful_step_count=50, derandomize=True, **COMMON)
settings.register_profile("explore", max_examples=2000, stateful_step_count=100, **COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))


def find_traces() -> Path | None:
    """The folder of the public traces: BLOCKPOOL_TRACES, else beside the checkout, else None."""
    named = os.environ.get("BLOCKPOOL_TRACES")
    folder = Path(named) if named else CHECKOUT.parent / "shared" / "traces"
    return folder if folder.is_dir() else None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--index", choices=("dict", "packed"), help="the index that pools get, instead of this build's own"
    )
    parser.addoption(
        "--second-build",
        action="store_true",
        help="leave out what has been shown on the first (second_build.py)",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--index") is not None:
        block_map.PACKED = config.getoption("--index") == "packed"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--second-build"):
        leave_out(config, items)


def pytest_collection_finish() -> None:
    """Thousands of tests stay until the end: no collection need look at them again, and some tests ask for many."""
    gc.collect()
    gc.freeze()


def pytest_report_header() -> list[str]:
    build = "compiled" if blockpool.COMPILED else "interpreted"
    return [
        f"blockpool: {blockpool.__version__}, {build}",
        f"index of pools: {'packed' if block_map.PACKED else 'dict'}",
        f"hypothesis profile: {settings.get_current_profile_name()}",
        f"peer: {peer_module.missing() or peer_module.VERSION}",
        f"traces: {'found' if find_traces() else 'not found'}",
    ]


@pytest.fixture(scope="session")
def traces() -> Path:
    """The folder of the public traces, or a skip that says where it is looked for."""
    folder = find_traces()
    if folder is None:
        pytest.skip("no public traces: neither BLOCKPOOL_TRACES nor ../shared/traces beside the checkout")
    return folder


@pytest.fixture(scope="session")
def peer() -> peer_module.Peer:
    """vLLM 0.16.0's own pool, or a skip that says how to install it."""
    reason = peer_module.missing()
    if reason is not None:
        pytest.skip(reason)
    return peer_module.load()


@pytest.fixture(scope="session")
def small_demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the first 100 requests of the bundled trace, where its own numbers do not matter."""
    path = tmp_path_factory.mktemp("demo") / "small-demo"
    with gzip.open(DEMO_TRACE) as demo:
        path.write_bytes(b"".join(itertools.islice(demo, 100)))
    return path
