"""Shows pools to Prometheus: a collector for a `prometheus-client` registry, with vLLM's names and buckets.

Needs the extra `prometheus`.
"""

# ruff: noqa: E402 - what is missing is said before anything needs it
from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias, final

from blockpool.errors import ArgumentError, ConfigError, MissingExtraError

try:
    import prometheus_client as _prometheus_client
except ImportError:
    raise MissingExtraError("blockpool.integrations.prometheus", "prometheus") from None
del _prometheus_client

from prometheus_client import REGISTRY, CollectorRegistry, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from blockpool.core.arguments import as_list
from blockpool.core.occupancy import Occupancy
from blockpool.integrations.bucket_counts import RESIDENCY_BUCKETS, BucketCounts
from blockpool.integrations.metric_families import FAMILIES, STATE_LABEL, MetricFamily, Reading
from blockpool.integrations.pool_metrics import PoolMetrics
from blockpool.integrations.pool_snapshot import PoolSnapshot, PrefixCacheTotals, Residency

__all__ = ["PoolCollector", "PoolMetrics", "PoolSnapshot", "PrefixCacheTotals", "Residency", "make_text_app"]

DEFAULT_PREFIX: Final = "blockpool:"
DEFAULT_LABEL_NAMES: Final = ("model_name", "engine")
_PREFIX: Final = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)?")
_LABEL_NAME: Final = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*")
_TAKEN_LABELS: Final = frozenset({STATE_LABEL, "le", "quantile"})
_BOUNDS: Final = (*(str(bound) for bound in RESIDENCY_BUCKETS), "+Inf")
_Shown: TypeAlias = GaugeMetricFamily | CounterMetricFamily | HistogramMetricFamily
_KINDS: Final[dict[str, Callable[..., _Shown]]] = {
    "gauge": GaugeMetricFamily,
    "counter": CounterMetricFamily,
    "histogram": HistogramMetricFamily,
}


class _Engine(NamedTuple):
    """Metrics that are shown, and under which values of the labels."""

    metrics: PoolMetrics
    label_values: tuple[str, ...]


@final
class PoolCollector:
    """Any number of pools as one collector of a registry.

    A scrape reads `PoolMetrics.snapshot` of each and nothing else: it never touches a pool, so it may run in any thread
    at any time. `add` and `remove` may be called from any thread, too.

    Args:
        prefix: Begins every name: "blockpool:", or "vllm:" for dashboards that exist. Letters, digits, "_" and ":",
            not a digit first; may be empty.
        label_names: The labels that tell engines apart; `add` gives their values.
        registry: Where it registers itself; None: nowhere, do it yourself.

    Raises:
        ArgumentError: For an argument of the wrong type.
        ConfigError: For a prefix or label that Prometheus does not take, or a label that is used here; when the
            registry has metrics of these names: one collector shows all pools of one prefix.
    """

    def __init__(
        self,
        prefix: str = DEFAULT_PREFIX,
        label_names: Sequence[str] = DEFAULT_LABEL_NAMES,
        registry: CollectorRegistry | None = REGISTRY,
    ) -> None:
        self.prefix: str = _as_prefix(prefix)
        self.label_names: tuple[str, ...] = _as_label_names(label_names)
        if registry is not None and not isinstance(registry, CollectorRegistry):
            raise ArgumentError("registry", registry, "a CollectorRegistry is needed")
        self._lock = threading.Lock()
        self._engines: tuple[_Engine, ...] = ()  # replaced, never changed: a scrape may be reading it
        self._registry = registry
        if registry is not None:
            try:
                registry.register(self)
            except ValueError:
                reason = "the registry has metrics of these names: one collector shows all pools of a prefix"
                raise ConfigError("prefix", self.prefix, reason) from None

    def add(self, metrics: PoolMetrics, labels: Mapping[str, str | int]) -> None:
        """Shows one more pool.

        Args:
            metrics: Its numbers.
            labels: A value for each of `label_names`: text, or an integer.

        Raises:
            ArgumentError: For a wrong type.
            ConfigError: For a label too many or too few, text that is no UTF-8, values that another pool has, and
                metrics that are shown already. Nothing has changed.
        """
        if not isinstance(metrics, PoolMetrics):
            raise ArgumentError("metrics", metrics, "PoolMetrics are needed")
        values = self._as_values(labels)
        with self._lock:
            for engine in self._engines:
                if engine.metrics is metrics:
                    raise ConfigError("metrics", metrics, "they are shown already")
                if engine.label_values == values:
                    raise ConfigError("labels", labels, "another pool has the same")
            self._engines = (*self._engines, _Engine(metrics, values))

    def remove(self, metrics: PoolMetrics) -> None:
        """Shows a pool no more.

        Raises:
            ConfigError: If it is not shown.
        """
        with self._lock:
            left = tuple(engine for engine in self._engines if engine.metrics is not metrics)
            if len(left) == len(self._engines):
                raise ConfigError("metrics", metrics, "they are not shown")
            self._engines = left

    def close(self) -> None:
        """Leaves the registry. May be called twice."""
        with self._lock:
            registry, self._registry = self._registry, None
        if registry is not None:
            registry.unregister(self)

    def describe(self) -> list[Metric]:
        """All families, empty: for the registry, which looks for names that are taken."""
        return [self._empty(family) for family in FAMILIES]

    def collect(self) -> list[Metric]:
        """The families that have something to say. Reads snapshots; O(pools)."""
        seen = [(engine.label_values, engine.metrics.snapshot) for engine in self._engines]
        shown: list[Metric] = []
        for family in FAMILIES:
            metric = self._empty(family)
            for values, snapshot in seen:
                _add_samples(metric, values, family.read(snapshot))
            if metric.samples:
                shown.append(metric)
        return shown

    def _empty(self, family: MetricFamily) -> _Shown:
        labels = (*self.label_names, STATE_LABEL) if family.has_states else self.label_names
        return _KINDS[family.kind](self.prefix + family.name, family.documentation, labels=labels)

    def _as_values(self, labels: object) -> tuple[str, ...]:
        """The values of the labels, in the order of `label_names`."""
        if not isinstance(labels, Mapping):
            raise ArgumentError("labels", labels, "a mapping from label to value is needed")
        if set(labels) != set(self.label_names):
            raise ConfigError("labels", labels, f"the labels are {', '.join(self.label_names) or 'none'}")
        return tuple(_as_label_value(name, labels[name]) for name in self.label_names)


def make_text_app(registry: CollectorRegistry = REGISTRY) -> Callable[..., Iterable[bytes]]:
    """A WSGI application that answers every scrape in Prometheus' text format, whatever it asks for.

    There the names are as they should be. In OpenMetrics, prometheus-client from 0.23 on writes "_" for the ":" of the
    samples' names, unless the scraper takes UTF-8 names, as Prometheus 3 does.
    """
    answer = make_wsgi_app(registry)

    def app(environ: dict[str, object], start_response: Callable[..., object]) -> Iterable[bytes]:
        plain = {name: value for name, value in environ.items() if name != "HTTP_ACCEPT"}
        shown: Iterable[bytes] = answer(plain, start_response)
        return shown

    return app


def _add_samples(metric: _Shown, values: tuple[str, ...], reading: Reading) -> None:
    """Adds what one pool says to a family; nothing if it has nothing to say."""
    if reading is None:
        return
    if isinstance(metric, HistogramMetricFamily):
        assert isinstance(reading, BucketCounts)
        metric.add_metric(values, list(zip(_BOUNDS, reading.cumulative, strict=True)), reading.total)
    elif isinstance(reading, Occupancy):
        for state, number in reading._asdict().items():
            metric.add_metric((*values, state), number)
    else:
        assert not isinstance(reading, BucketCounts)
        metric.add_metric(values, reading)


def _as_prefix(prefix: object) -> str:
    if not isinstance(prefix, str):
        raise ArgumentError("prefix", prefix, "a string is needed")
    if not _PREFIX.fullmatch(prefix):
        raise ConfigError(
            "prefix", prefix, "letters, digits, _ and : make a metric's name, and no digit begins it"
        )
    return prefix


def _as_label_names(label_names: object) -> tuple[str, ...]:
    names: list[str] = []
    for name in as_list("label_names", label_names):
        if not isinstance(name, str):
            raise ArgumentError("label_names", name, "a string is needed")
        if not _LABEL_NAME.fullmatch(name):
            raise ConfigError(
                "label_names", name, "letters, digits and _ make a label's name, and no digit or __ begins it"
            )
        if name in _TAKEN_LABELS:
            raise ConfigError("label_names", name, "it has a meaning of its own")
        if name in names:
            raise ConfigError("label_names", name, "it is there twice")
        names.append(name)
    return tuple(names)


def _as_label_value(name: str, value: object) -> str:
    """Text that can be written: a scrape would fail for all metrics of the process over one value that cannot."""
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise ArgumentError(f"labels[{name!r}]", value, "a string or an integer is needed")
    text = str(value)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ConfigError(f"labels[{name!r}]", value, "it cannot be written as UTF-8") from None
    return text
