"""A pytest plugin for vLLM's own tests: puts the drop-in in place before they are imported, and writes what came out.

Loaded by name (`-p outcomes`), since vLLM's tests are a package `tests`, as ours are.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

RESULTS: dict[str, list[str]] = {}

if os.environ.get("BLOCKPOOL_VLLM"):
    import vllm  # noqa: F401 - it sets itself up

    from blockpool.integrations.vllm import register

    register()
    from vllm.v1.core import block_pool

    assert block_pool.BlockPool.__module__.startswith("blockpool."), "nothing was replaced"


@pytest.fixture
def caplog_vllm(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """What vLLM's conftest.py offers, which is not loaded."""
    logger = logging.getLogger("vllm")
    logger.addHandler(caplog.handler)
    yield caplog
    logger.removeHandler(caplog.handler)


def pytest_configure(config: Any) -> None:
    """Their marks are unknown here."""
    config.addinivalue_line("markers", "cpu_test: of vLLM's")
    config.addinivalue_line("markers", "skip_global_cleanup: of vLLM's")


def pytest_runtest_logreport(report: Any) -> None:
    """Notes the outcome and, of a failure, its last words."""
    if report.when == "call" or report.outcome != "passed":
        crash = getattr(report.longrepr, "reprcrash", None)
        RESULTS[report.nodeid] = [report.outcome, crash.message if crash else ""]


def pytest_sessionfinish() -> None:
    """Writes all outcomes."""
    Path(os.environ["BLOCKPOOL_OUTCOMES"]).write_text(json.dumps(RESULTS), encoding="utf-8")
