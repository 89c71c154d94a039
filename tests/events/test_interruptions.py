"""Ctrl-C, or the other side, in the middle of what a subscriber or publisher does: nothing waits for ever after it."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import zmq

from blockpool.events import EventPublisher, EventSubscriber

from .support import Consumer, PoolRun, publisher

SECONDS = 60.0
NOBODY = "tcp://127.0.0.1:1"


def in_time(work: Callable[[], object]) -> bool:
    """Whether it comes to an end; a thread that does not is left behind."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(SECONDS)
    return not thread.is_alive()


@pytest.fixture
def interrupted_once(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[Any]]:
    """Makes one method of contexts or sockets do its work once more and then be interrupted."""

    def arrange(name: str) -> list[Any]:
        owner = zmq.Context if hasattr(zmq.Context, name) else zmq.Socket
        real = getattr(owner, name)
        made: list[Any] = []

        def once(self: Any, *arguments: Any, **options: Any) -> Any:
            result = real(self, *arguments, **options)
            if made:
                return result
            made.append(result)  # as the frames of the exception hold it
            raise KeyboardInterrupt

        monkeypatch.setattr(owner, name, once)
        return made

    return arrange


@pytest.mark.parametrize("name", ["socket", "get_monitor_socket", "connect"])
def test_a_subscriber_ends_although_a_socket_was_left_half_made(
    name: str, interrupted_once: Callable[[str], list[Any]]
) -> None:
    subscriber = EventSubscriber(NOBODY)
    made = interrupted_once(name)
    with pytest.raises(KeyboardInterrupt):
        next(subscriber)  # it tries to connect again and again
    assert made
    assert in_time(subscriber.close)


@pytest.mark.parametrize("name", ["socket", "get_monitor_socket", "connect"])
def test_a_subscriber_is_interrupted_while_it_is_made(
    name: str, interrupted_once: Callable[[str], list[Any]]
) -> None:
    interrupted_once(name)

    def make() -> None:
        with pytest.raises(KeyboardInterrupt):
            EventSubscriber(NOBODY)

    assert in_time(make)


@pytest.mark.parametrize("name", ["socket", "bind"])
def test_a_publisher_is_interrupted_while_it_is_made(
    name: str, interrupted_once: Callable[[str], list[Any]]
) -> None:
    interrupted_once(name)

    def make() -> None:
        with pytest.raises(KeyboardInterrupt):
            EventPublisher("tcp://127.0.0.1:0", "tcp://127.0.0.1:0", bind=True)

    assert in_time(make)


@pytest.mark.parametrize("name", ["socket", "get_monitor_socket", "connect"])
def test_whoever_goes_on_after_an_interruption_is_connected_later(
    name: str, interrupted_once: Callable[[str], list[Any]]
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with Consumer(f"tcp://127.0.0.1:{port}") as consumer:  # type: ignore[arg-type]
        interrupted_once(name)
        with pytest.raises(KeyboardInterrupt):
            next(consumer.subscriber)
        run = PoolRun(31)
        with publisher(endpoint=f"tcp://127.0.0.1:{port}") as made:

            def told() -> bool:
                made.publish(run.batch(1))
                return bool(consumer.batches)

            consumer.follow(told, SECONDS)


def test_connections_that_end_while_their_subscriber_is_closed() -> None:
    """ZeroMQ's own thread tells of the end while the subscriber stops listening for it."""
    source = random.Random(1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def hang_up() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                time.sleep(source.random() * 0.001)
                connection.close()

        def come_and_go() -> None:
            for _ in range(2_000):
                subscriber = EventSubscriber(f"tcp://127.0.0.1:{port}")
                time.sleep(source.random() * 0.002)
                subscriber.close()

        hanging_up = threading.Thread(target=hang_up, daemon=True)
        hanging_up.start()
        assert in_time(come_and_go)
        server.shutdown(socket.SHUT_RDWR)
        hanging_up.join(SECONDS)
