"""ZeroMQ sockets as publishers and subscribers need them; faults as our own errors."""

from __future__ import annotations

import os
import socket as system
import stat
from typing import Any, TypeAlias

import zmq

from blockpool.errors import ArgumentError, EndpointError
from blockpool.events.endpoints import Endpoint

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


def _attach(socket: zmq.Socket[Any], endpoint: Endpoint, bind: bool) -> tuple[zmq.Socket[Any], str]:
    """Binds or connects; the socket is closed if that fails."""
    if "[" in endpoint.address or "::" in endpoint.address:
        socket.setsockopt(zmq.IPV6, 1)
    try:
        if not bind:
            socket.connect(endpoint.address)
            return socket, endpoint.address
        _spare_what_is_there(endpoint)
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
    return socket, text if endpoint.transport == "tcp" else endpoint.address


def _spare_what_is_there(endpoint: Endpoint) -> None:
    """Refuses an ipc path with a file, or with a socket that somebody answers: ZeroMQ would delete either to bind."""
    if endpoint.transport != "ipc":
        return
    path = endpoint.address.removeprefix("ipc://")
    if path.startswith("@"):  # no file: a name that the kernel keeps, and keeps apart
        return
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return  # nothing is there; what else may be wrong the bind will say
    if not stat.S_ISSOCK(mode):
        raise EndpointError(endpoint.address, "a file that is no socket is there")
    with system.socket(system.AF_UNIX, system.SOCK_STREAM) as caller:
        caller.settimeout(1.0)
        try:
            caller.connect(path)
        except ConnectionRefusedError:
            return  # left over from somebody who is gone
        except OSError:
            pass
    raise EndpointError(endpoint.address, "Address already in use")
