"""Addresses: which are well formed, which are bound, and where the ranks go."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.peer import Peer
from blockpool import ArgumentError, ConfigError
from blockpool.events import offset_endpoint
from blockpool.events.endpoints import as_endpoint, as_peer

BOUND = [
    "tcp://*:5557",
    "tcp://*:*",
    "tcp://[::]:5557",
    "tcp://:::5557",
    "ipc:///run/events",
    "inproc://events",
]
CONNECTED = ["tcp://127.0.0.1:5557", "tcp://pod-1.example:5557", "tcp://[fe80:1:2:3:4:5:6:7]:5557"]


@pytest.mark.parametrize("endpoint", BOUND + CONNECTED)
def test_the_rule(endpoint: str) -> None:
    assert as_endpoint("endpoint", endpoint).is_bound is (endpoint in BOUND)


ANYWHERE = ["tcp://*:5557", "tcp://*:*", "tcp://127.0.0.1:*", "tcp://[::]:5557", "tcp://:::5557"]
PEERS = [
    "tcp://[::1]:5557",
    "tcp://[fe80::1%lo]:5557",
    "tcp://0.0.0.0:1",
    "ipc:///run/a*",
    "inproc://*",
    *CONNECTED,
]


def test_addresses_of_this_machine_alone_can_be_connected_to() -> None:
    """vLLM's rule has a publisher bind `[::1]`; whoever reads from it has to connect."""
    for endpoint in ANYWHERE:
        assert as_endpoint("endpoint", endpoint).is_anywhere
    for endpoint in PEERS:
        assert not as_endpoint("endpoint", endpoint).is_anywhere
        assert as_peer("endpoint", endpoint).address == endpoint
    for endpoint in (*ANYWHERE, "ipc://*", "tcp://host:0", "tcp://host:00"):
        with pytest.raises(ConfigError, match="no address to connect to"):
            as_peer("endpoint", endpoint)


@pytest.mark.parametrize(
    ("endpoint", "rank", "moved"),
    [
        ("tcp://*:5557", 0, "tcp://*:5557"),
        ("tcp://*:5557", 3, "tcp://*:5560"),
        ("tcp://[::]:5557", 1, "tcp://[::]:5558"),
        ("tcp://host:0", 2, "tcp://host:0"),
        ("tcp://*:*", 2, "tcp://*:*"),
        ("inproc://cache", 2, "inproc://cache_dp2"),
        ("ipc:///run/events", 1, "ipc:///run/events_dp1"),
        ("ipc://*", 1, "ipc://*"),
    ],
)
def test_ranks(endpoint: str, rank: int, moved: str) -> None:
    assert offset_endpoint(endpoint, rank) == moved


@pytest.mark.peer
@pytest.mark.parametrize("endpoint", ["tcp://*:5557", "tcp://host:1", "tcp://[::]:80", "inproc://cache"])
@pytest.mark.parametrize("rank", [0, 1, 7])
def test_ranks_go_where_vllms_go(peer: Peer, endpoint: str, rank: int) -> None:
    theirs = peer.kv_events.ZmqEventPublisher.offset_endpoint_port(endpoint, rank)
    assert offset_endpoint(endpoint, rank) == theirs


@pytest.mark.parametrize(
    "bad",
    [
        "", "tcp", "tcp:/host:1", "tcp://host:", "tcp://:1", "tcp://ho st:1", "tcp://host:99999", "tcp://host:-1",
        "http://host:1", "ipc://", "inproc://", "ipc://a\0b", "ipc://\ud800", "tcp://höst:1", "tcp://host:1\n",
        "tcp://host:٣", "tcp://*:5557/",
    ],
)  # fmt: skip
def test_what_is_no_address(bad: str) -> None:
    with pytest.raises(ConfigError):
        as_endpoint("endpoint", bad)


@pytest.mark.parametrize(("endpoint", "rank"), [(None, 0), (5557, 0), ("tcp://*:1", "1"), ("tcp://*:1", 1.5)])
def test_wrong_types(endpoint: Any, rank: Any) -> None:
    with pytest.raises(ArgumentError):
        offset_endpoint(endpoint, rank)


def test_ranks_out_of_range() -> None:
    for endpoint, rank in (("tcp://*:65535", 1), ("tcp://*:1", -1)):
        with pytest.raises(ConfigError):
            offset_endpoint(endpoint, rank)
