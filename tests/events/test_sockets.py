"""Binding: what stands at an ipc path is spared. ZeroMQ itself would delete it, whatever it is."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

pytest.importorskip("zmq", reason="the extra events is not installed")

from blockpool import EndpointError
from blockpool.events import EventPublisher

from .support import publisher


@pytest.fixture
def folder() -> Iterator[Path]:
    """With a short name: paths of sockets must be."""
    with TemporaryDirectory() as name:
        yield Path(name)


def test_a_file_at_an_ipc_path_is_spared(folder: Path) -> None:
    path = folder / "results.json"
    path.write_text("precious")
    with pytest.raises(EndpointError, match="a file that is no socket is there"):
        EventPublisher(f"ipc://{path}")
    assert path.read_text() == "precious"


def test_an_ipc_path_at_which_somebody_listens_is_taken(folder: Path) -> None:
    endpoint = f"ipc://{folder / 'events'}"
    with publisher(endpoint=endpoint), pytest.raises(EndpointError, match="in use"):
        EventPublisher(endpoint)


def test_a_publisher_cannot_answer_where_it_publishes(folder: Path) -> None:
    endpoint = f"ipc://{folder / 'events'}"
    with pytest.raises(EndpointError, match="in use"):
        EventPublisher(endpoint, endpoint)


def test_a_socket_that_was_left_over_is_bound_again(folder: Path) -> None:
    path = folder / "events"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    assert path.is_socket()
    with publisher(endpoint=f"ipc://{path}") as made:
        assert made.endpoint == f"ipc://{path}"


def test_the_error_is_what_the_system_says(folder: Path) -> None:
    endpoint = f"ipc://{folder / 'no' / 'events'}"
    with pytest.raises(EndpointError) as caught:
        EventPublisher(endpoint)
    assert caught.value.reason == "No such file or directory"
