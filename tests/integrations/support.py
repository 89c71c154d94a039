"""What the tests of the integrations share: an engine with everything that can be shown, and scrapes read back."""

from __future__ import annotations

import threading
import urllib.request
from collections.abc import Callable, Iterable
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import zmq
from prometheus_client import CollectorRegistry, generate_latest, start_http_server
from prometheus_client.parser import text_string_to_metric_families

from blockpool import BlockPool, KVCacheMetricsCollector
from blockpool.events import EventPublisher
from blockpool.integrations.prometheus import PoolCollector, PoolMetrics
from blockpool.kv_cache import KVCacheManager
from tests.core.support import FakeClock
from tests.kv_cache.support import admit, full, make_manager, make_request

LABELS = {"model_name": "llama", "engine": "0"}
INSIDE = 'engine="0",model_name="llama"'


class Engine:
    """A manager on a small pool, with statistics, sampled residency and a publisher."""

    def __init__(self, num_blocks: int = 8) -> None:
        self.clock = FakeClock()
        collector = KVCacheMetricsCollector(1.0, clock=self.clock, random=lambda: 0.5)
        self.manager: KVCacheManager = make_manager(
            full(4),
            num_blocks=num_blocks,
            log_stats=True,
            enable_kv_cache_events=True,
            metrics_collector=collector,
        )
        self.context = zmq.Context()
        self.publisher = EventPublisher("inproc://events", context=self.context)
        self.metrics = PoolMetrics(self.manager, publisher=self.publisher)
        self.num_requests = 0

    def run(self, first_token: int, num_tokens: int, seconds: float = 1.0) -> None:
        """One request comes, is computed and goes; then the engine updates its metrics."""
        self.num_requests += 1
        request = make_request(
            f"r{self.num_requests}", range(first_token, first_token + num_tokens), self.manager
        )
        assert admit(self.manager, request) is not None
        self.clock.advance(seconds)
        self.manager.free(request)
        self.publisher.publish(self.manager.take_event_log())
        assert self.publisher.flush(30)
        self.metrics.update()

    def close(self) -> None:
        assert self.publisher.close(30)
        self.context.term()


def shown(engine: Engine, registry: CollectorRegistry, prefix: str = "blockpool:") -> PoolCollector:
    collector = PoolCollector(prefix, registry=registry)
    collector.add(engine.metrics, LABELS)
    return collector


def small_metrics(num_blocks: int = 5) -> PoolMetrics:
    return PoolMetrics(BlockPool(num_blocks, True, 4))


def samples_of(text: str) -> dict[str, float]:
    """Every sample of an exposition, as `name{label="value",...}` with sorted labels."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = name_of(sample.name, sample.labels)
            assert key not in found, key
            found[key] = sample.value
    return found


def name_of(name: str, labels: dict[str, Any]) -> str:
    inside = ",".join(f'{label}="{labels[label]}"' for label in sorted(labels))
    return f"{name}{{{inside}}}"


def scrape(registry: CollectorRegistry) -> dict[str, float]:
    return samples_of(generate_latest(registry).decode())


class Silent(WSGIRequestHandler):
    def log_message(self, *args: Any) -> None: ...


class Server:
    """Metrics on a port of the loopback interface that the system chooses.

    Args:
        source: A registry, served as prometheus-client does it, or a WSGI application.
    """

    def __init__(self, source: CollectorRegistry | Callable[..., Iterable[bytes]]) -> None:
        if isinstance(source, CollectorRegistry):
            self.server, self.thread = start_http_server(0, addr="127.0.0.1", registry=source)
        else:
            self.server = make_server("127.0.0.1", 0, source, handler_class=Silent)
            self.thread = threading.Thread(target=self.server.serve_forever)
            self.thread.start()
        self.port: int = self.server.server_port

    def get(self, accept: str = "*/*") -> tuple[str, str]:
        """Content type and body of a scrape."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/metrics", headers={"Accept": accept})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.headers["Content-Type"], answer.read().decode()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *error: object) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
