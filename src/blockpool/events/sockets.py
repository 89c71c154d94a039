"""ZeroMQ sockets as publishers and subscribers need them; faults as our own errors."""

from __future__ import annotations

import os
import socket as unix
import stat
from typing import Any, TypeAlias

import zmq

from blockpool.errors import ArgumentError, EndpointError
from blockpool.events.endpoints import Endpoint, as_endpoint

Context: TypeAlias = "zmq.Context[zmq.Socket[bytes]]"

MAX_REQUEST_BYTES = 1 << 16


def as_context(context: Context | None) -> tuple[Context, bool]:
    """A context, and whether it is a new one that has to be terminated.

    Raises:
        ArgumentError: If it is something else.
    """
    if context is None:
        return zmq.Context(), True
    if not isinstance(context, zmq.Context):
        raise ArgumentError("context", context, "a zmq.Context is needed")
    return context, False


def open_pub(
    context: Context, endpoint: Endpoint, bind: bool, high_water: int
) -> tuple[zmq.Socket[bytes], str]:
    """A PUB socket, and the address that it really has.

    Raises:
        EndpointError: If the address is taken or not to be had.
    """
    pub = context.socket(zmq.PUB)
    pub.setsockopt(zmq.SNDHWM, high_water)
    return _attach(pub, endpoint, bind)


def open_router(context: Context, endpoint: Endpoint) -> tuple[zmq.Socket[bytes], str]:
    """A ROUTER socket that tells when a client is gone or slow, and the address that it really has.

    Raises:
        EndpointError: If the address is taken or not to be had.
    """
    router = context.socket(zmq.ROUTER)
    router.setsockopt(zmq.ROUTER_MANDATORY, 1)
    router.setsockopt(zmq.MAXMSGSIZE, MAX_REQUEST_BYTES)
    return _attach(router, endpoint, True)


def open_dealer(context: Context, endpoint: str) -> zmq.Socket[bytes]:
    """A DEALER socket that asks at that address.

    Raises:
        EndpointError: If there can be no connection to it.
    """
    try:
        dealer = context.socket(zmq.DEALER)
    except zmq.ZMQError as error:  # as many sockets as there may be
        raise EndpointError(endpoint, str(error.strerror)) from None
    dealer.setsockopt(zmq.LINGER, 0)
    return _attach(dealer, as_endpoint("endpoint", endpoint), False)[0]


def _attach(socket: zmq.Socket[Any], endpoint: Endpoint, bind: bool) -> tuple[zmq.Socket[Any], str]:
    """Binds or connects; the socket is closed if that fails."""
    if "[" in endpoint.address or "::" in endpoint.address:
        socket.setsockopt(zmq.IPV6, 1)
    try:
        if not bind:
            socket.connect(endpoint.address)
            return socket, endpoint.address
        if endpoint.transport == "ipc" and _is_of_another_kind(endpoint.address.removeprefix("ipc://")):
            raise EndpointError(endpoint.address, "a file that is no socket is there")
        if endpoint.transport == "ipc" and _is_served(endpoint.address.removeprefix("ipc://")):
            raise zmq.ZMQError(zmq.EADDRINUSE)
        socket.bind(endpoint.address)
    except zmq.ZMQError as error:
        socket.close(0)
        raise EndpointError(endpoint.address, zmq.strerror(error.errno or 0)) from None
    except EndpointError:
        socket.close(0)
        raise
    bound = socket.getsockopt(zmq.LAST_ENDPOINT)
    assert isinstance(bound, bytes)
    text = bound.rstrip(b"\0").decode()
    return socket, text if endpoint.transport == "tcp" or endpoint.address == "ipc://*" else endpoint.address


def _is_of_another_kind(path: str) -> bool:
    """Whether something stands at that path that is no socket: ZeroMQ would delete it to bind."""
    if path.startswith(("@", "*")):
        return False
    try:
        return not stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError:  # nothing is there; what else may be wrong the bind will say
        return False


def _is_served(path: str) -> bool:
    """Whether somebody listens at that path: ZeroMQ would take it from him without a word."""
    if path.startswith(("@", "*")) or not hasattr(unix, "AF_UNIX"):
        return False
    with unix.socket(unix.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except BlockingIOError:
            return True
        except OSError:
            return False
    return True
