"""A trace as the traffic of a fleet: who gets what, when, and that consumers end up with the indexes of the pools."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from blockpool.errors import ConfigError, EndpointError
from blockpool.events import EventSubscriber, IndexView, Source, StoredEvent
from blockpool.events.fleet_settings import FleetSettings
from blockpool.events.mock_fleet import MockFleet, publish_trace
from blockpool.replay import ReplaySettings, replay
from blockpool.trace import generate
from blockpool.trace.request import TraceRequest

from ..core.support import external
from .support import GENEROUS_SECONDS, Consumer

ENGINE = ReplaySettings(rules="engine")
ANYWHERE = "tcp://127.0.0.1:0"
REQUESTS = list(generate("chat", 60, seed=1, block_size=16))


def fleet_settings(**fields: Any) -> FleetSettings:
    return FleetSettings(**({"publish": ANYWHERE, "publish_replay": ANYWHERE} | fields))


def index_of(worker: Any) -> Counter[int]:
    keys = [block.block_hash for block in worker.pool.blocks if block.block_hash is not None]
    return Counter(external(key[:-4]) for key in keys)


def ids(number: int, *block_ids: int, **fields: Any) -> TraceRequest:
    return TraceRequest(float(number), 4 * len(block_ids), 4, block_ids=list(block_ids), **fields)


@pytest.mark.parametrize("routing", ["round-robin", "session"])
def test_consumers_know_the_index_of_every_worker(routing: str) -> None:
    with MockFleet(REQUESTS[0], 300, ENGINE, fleet_settings(workers=3, routing=routing)) as fleet:
        with Consumer(*fleet.addresses()) as consumer:
            for request in REQUESTS:
                fleet.play(request)
            assert fleet.flush(GENEROUS_SECONDS)
            wanted = {worker.publisher.endpoint: index_of(worker) for worker in fleet.workers}
            consumer.follow(lambda: all(consumer.index(where) == index for where, index in wanted.items()))
            fingerprints = {counts.fingerprint for counts in consumer.subscriber.stats().values()}
        assert len(fingerprints) == 1
        assert [worker.publisher.data_parallel_rank for worker in fleet.workers] == [0, 1, 2]
        played = [worker.counts.requests for worker in fleet.workers]
        assert sum(played) == len(REQUESTS)
        if routing == "round-robin":
            assert played == [20, 20, 20]


def test_one_worker_counts_as_a_replay_does() -> None:
    (result,) = publish_trace(REQUESTS, 300, ENGINE, fleet_settings())
    assert result.replay.counts == replay(REQUESTS, 300, ENGINE).counts
    assert result.publisher.num_sent == result.publisher.num_batches
    assert result.cached_blocks == result.publisher.num_snapshot_hashes


def test_sessions_stay_where_they_began() -> None:
    settings = fleet_settings(workers=2, routing="session")
    requests = [
        ids(0, 1, session_id="a"), ids(1, 2, session_id="b"), ids(2, 3, session_id="a"), ids(3, 4, session_id="c")
    ]  # fmt: skip
    with MockFleet(requests[0], 10, ENGINE, settings) as fleet:
        for request in requests:
            fleet.play(request)
        assert [set(index_of(worker)) for worker in fleet.workers] == [{1, 3, 4}, {2}]
        with pytest.raises(ConfigError, match="no session_id"):
            fleet.play(ids(4, 5))


def test_block_ids_come_with_stand_ins_for_tokens_and_adapters_with_numbers() -> None:
    requests = [
        ids(0, 1, 2, session_id=None),
        ids(1, 1, 2**40 + 3),
        TraceRequest(2.0, 5, 4, token_ids=[9, 8, 7, 6, 5], lora="poet", output_token_ids=[4, 3, 2, 1]),
    ]
    with (
        MockFleet(requests[0], 10, ENGINE, fleet_settings()) as fleet,
        Consumer(*fleet.addresses()) as consumer,
    ):
        for request in requests:
            fleet.play(request)
        consumer.follow(lambda: consumer.seqs()[-1:] == [2])
    events = [event for _, each in consumer.batches for event in each.events]
    assert events[:2] == [
        StoredEvent([1, 2], None, [1] * 4 + [2] * 4, 4, medium="GPU"),
        StoredEvent([2**40 + 3], 1, [3] * 4, 4, medium="GPU"),
    ]
    (last,) = events[2:]
    assert (last.token_ids, last.lora_id, last.lora_name) == ([9, 8, 7, 6, 5, 4, 3, 2], 1, "poet")


def test_requests_are_played_when_they_are_due() -> None:
    now = [100.0]
    waits = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        now[0] += seconds + 0.25  # it always takes longer

    requests = [ids(5000, 1), ids(7000, 2), ids(7100, 3), ids(15000, 4)]
    publish_trace(requests, 10, ENGINE, fleet_settings(speed=2.0), clock=lambda: now[0], sleep=sleep)
    assert waits == [1.0, 3.75]


def test_no_clock_is_asked_for_more_than_it_has() -> None:
    now = [0.0]

    def sleep(seconds: float) -> None:
        assert seconds <= 3600  # a system's clock ends after some hundred years
        now[0] += seconds

    requests = [ids(0, 1), ids(10**10, 2)]
    publish_trace(requests, 10, ENGINE, fleet_settings(speed=0.5), clock=lambda: now[0], sleep=sleep)
    assert now[0] == 2 * 10**7


def test_every_worker_has_its_topic() -> None:
    settings = fleet_settings(publish_replay=None, workers=2, topic="kv@pod-{rank}@model", dialect="map")
    with MockFleet(REQUESTS[0], 300, ENGINE, settings) as fleet:
        assert [worker.publisher.topic for worker in fleet.workers] == ["kv@pod-0@model", "kv@pod-1@model"]
        assert fleet.addresses()[0].replay_endpoint is None


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("publish", {"publish": "tcp://x"}),
        ("publish", {"publish": "tcp://127.0.0.1:65535", "workers": 2, "publish_replay": None}),
        ("publish", {"publish": 5}),
        ("publish_replay", {"publish_replay": "nowhere"}),
        ("publish_replay", {"publish": "tcp://127.0.0.1:5557", "publish_replay": "tcp://127.0.0.1:5558", "workers": 2}),
        ("publish_replay", {"publish": "tcp://127.0.0.1:5557", "publish_replay": "tcp://127.0.0.1:5557"}),
        ("workers", {"workers": 0}),
        ("workers", {"workers": 257}),
        ("routing", {"routing": "random"}),
        ("speed", {"speed": 0}),
        ("speed", {"speed": float("nan")}),
        ("topic", {"topic": "\ud800"}),
        ("dialect", {"dialect": "json"}),
    ],
)  # fmt: skip
def test_settings_that_cannot_be_right(field: str, fields: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        fleet_settings(**fields)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("field", "requests", "settings", "fields"),
    [
        ("rules", REQUESTS, ReplaySettings(), {}),
        ("window", REQUESTS, ReplaySettings(rules="engine", window="last-half"), {}),
        ("speed", [TraceRequest(None, 4, 4, block_ids=[1])], ENGINE, {"speed": 1}),
        ("publish", [TraceRequest(None, 3, None, block_ids=[1, 2], block_tokens=[1, 2])], ENGINE, {}),
        ("publish", [ids(0, 1), TraceRequest(1.0, 8, 8, block_ids=[2])], ENGINE, {}),
    ],
)
def test_what_does_not_go_together(
    field: str, requests: list[TraceRequest], settings: ReplaySettings, fields: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError) as caught:
        publish_trace(requests, 10, settings, fleet_settings(**fields))
    assert caught.value.field == field


def test_a_port_in_use_leaves_nothing_behind() -> None:
    with MockFleet(REQUESTS[0], 300, ENGINE, fleet_settings()) as fleet:
        taken = fleet.addresses()[0]
        with pytest.raises(EndpointError):
            MockFleet(
                REQUESTS[0], 300, ENGINE, fleet_settings(publish_replay=taken.endpoint, publish=ANYWHERE)
            )
        with EventSubscriber(taken) as subscriber:
            fleet.play(REQUESTS[0])
            view = IndexView()
            source, each = next(subscriber)
            view.apply(source, each)
            assert Counter(dict(view.counts(Source(taken.endpoint)))) == index_of(fleet.workers[0])
