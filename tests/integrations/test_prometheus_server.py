"""A real Prometheus scrapes an engine and answers every query of the dashboard (`apt-get install prometheus`)."""

from __future__ import annotations

import json
import math
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from blockpool.integrations.prometheus import make_text_app
from tests.events.support import GENEROUS_SECONDS

from .dashboard import DASHBOARD, filled_in, load, queries
from .support import Engine, Server, shown

if not DASHBOARD.is_file():
    pytest.skip("no docs here: the tests run without the checkout", allow_module_level=True)

CONFIG = """
global: {{scrape_interval: 200ms, scrape_timeout: 200ms}}
scrape_configs:
  - job_name: engines
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""
VALUES = {"__rate_interval": "1m", "__range": "1h", "model_name": ".*", "engine": ".*"}


class Prometheus:
    """A server of its own, with an empty store."""

    def __init__(self, program: str, folder: Path, target_port: int) -> None:
        config = folder / "prometheus.yml"
        config.write_text(CONFIG.format(port=target_port), encoding="utf-8")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.log = (folder / "log").open("w")
        self.process = subprocess.Popen(
            [
                program,
                f"--config.file={config}",
                f"--storage.tsdb.path={folder / 'store'}",
                f"--web.listen-address=127.0.0.1:{self.port}",
            ],
            stdout=self.log,
            stderr=self.log,
        )

    def ask(self, expression: str) -> list[Any]:
        """The result of a query now; [] so long as the server is not up."""
        question = urllib.parse.urlencode({"query": expression})
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/query?{question}") as answer:
                result: list[Any] = json.load(answer)["data"]["result"]
                return result
        except urllib.error.HTTPError as error:
            if error.code == 503:
                return []
            raise AssertionError(f"{expression}: {error.read().decode()}") from None
        except urllib.error.URLError:
            assert self.process.poll() is None, "prometheus has ended"
            return []

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(30)
        self.log.close()


@pytest.fixture
def prometheus(tmp_path: Path, engine: Engine, registry: CollectorRegistry) -> Iterator[Prometheus]:
    program = os.environ.get("BLOCKPOOL_PROMETHEUS") or shutil.which("prometheus")
    if program is None:
        pytest.skip("no prometheus: neither BLOCKPOOL_PROMETHEUS nor a program of that name")
    for prefix in ("blockpool:", "vllm:"):
        shown(engine, registry, prefix)
    with Server(make_text_app(registry)) as server:
        running = Prometheus(program, tmp_path, server.port)
        yield running
        running.close()


def are_numbers(result: list[Any]) -> bool:
    return bool(result) and all(math.isfinite(float(series["value"][1])) for series in result)


def test_every_query_is_answered_with_numbers(prometheus: Prometheus, engine: Engine) -> None:
    missing = [
        filled_in(query.expression, {**VALUES, "prefix": prefix})
        for query in queries(load())
        for prefix in ("blockpool:", "vllm:")
    ]
    started = time.monotonic()
    while missing and time.monotonic() < started + GENEROUS_SECONDS:
        for first_token in (0, 0, 0, 100, 200):  # used again and again, then evicted
            engine.run(first_token, 18)
        missing = [expression for expression in missing if not are_numbers(prometheus.ask(expression))]
        time.sleep(0.1)
    assert missing == []
    (up,) = prometheus.ask("up")
    assert up["value"][1] == "1"
    assert prometheus.ask('sum(blockpool:kv_blocks{engine="0", model_name="llama"})')[0]["value"][1] == "7"
