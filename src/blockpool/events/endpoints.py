"""Addresses of ZeroMQ sockets: what is well formed, what is bound, and the port of a data-parallel rank."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from blockpool.core.arguments import as_count
from blockpool.errors import ArgumentError, ConfigError

MAX_PORT: Final = 65535
MAX_IPC_PATH: Final = 107
_TCP: Final = re.compile(
    r"tcp://(?P<host>\*|\[[0-9A-Fa-f:.]+(%[\w.-]+)?\]|::|[\w.-]+):(?P<port>\*|\d{1,5})", re.ASCII
)


class Endpoint(NamedTuple):
    """A well-formed address.

    Attributes:
        address: As ZeroMQ takes it.
        transport: "tcp", "ipc" or "inproc".
    """

    address: str
    transport: str

    @property
    def is_bound(self) -> bool:
        """Whether a publisher binds it by the rule: `*`, `::`, ipc and inproc are bound, all else is connected."""
        return self.transport != "tcp" or "*" in self.address or "::" in self.address

    @property
    def is_anywhere(self) -> bool:
        """Whether it stands for all addresses of this machine, or any port: to be bound, nowhere to connect to."""
        if self.transport != "tcp":
            return False
        host, _, port = self.address.removeprefix("tcp://").rpartition(":")
        return host in ("*", "::", "[::]") or port == "*"


def as_endpoint(field: str, value: object) -> Endpoint:
    """An address that ZeroMQ will understand: tcp://host:port, ipc://path or inproc://name.

    Raises:
        ArgumentError: If it is no string.
        ConfigError: If it is none of these.
    """
    if not isinstance(value, str):
        raise ArgumentError(field, value, "an address is needed, such as tcp://*:5557")
    transport, separator, rest = value.partition("://")
    if not separator or transport not in ("tcp", "ipc", "inproc"):
        raise ConfigError(field, value, "must begin with tcp://, ipc:// or inproc://")
    if not rest or "\0" in rest or any(0xD800 <= ord(letter) <= 0xDFFF for letter in rest):
        raise ConfigError(field, value, f"is no address after {transport}://")
    if transport == "tcp":
        found = _TCP.fullmatch(value)
        if found is None:
            raise ConfigError(field, value, "must be tcp://host:port")
        if found["port"] != "*" and int(found["port"]) > MAX_PORT:
            raise ConfigError(field, value, f"ports end at {MAX_PORT}")
    elif transport == "ipc" and len(rest.encode()) > MAX_IPC_PATH:
        raise ConfigError(field, value, f"the path must have at most {MAX_IPC_PATH} bytes")
    return Endpoint(value, transport)


def as_peer(field: str, value: object) -> Endpoint:
    """An address that can be connected to.

    Raises:
        ArgumentError: If it is no string.
        ConfigError: If it is not well formed, or nobody can be there: `*`, `::`, port 0.
    """
    endpoint = as_endpoint(field, value)
    if endpoint.is_anywhere or endpoint.address == "ipc://*":
        raise ConfigError(field, value, "is no address to connect to")
    if endpoint.transport == "tcp" and int(endpoint.address.rpartition(":")[2]) == 0:
        raise ConfigError(field, value, "is no address to connect to: it has port 0")
    return endpoint


def offset_endpoint(endpoint: str, data_parallel_rank: int) -> str:
    """The address of one data-parallel rank: a tcp port rises by the rank, other addresses get `_dp<rank>`.

    Ports 0 and `*`, and the path `*`, which the system chooses, stay.

    Raises:
        ArgumentError: For a wrong type.
        ConfigError: For an address that is not well formed, a negative rank, or a port that becomes too large.
    """
    checked = as_endpoint("endpoint", endpoint)
    rank = as_count("data_parallel_rank", data_parallel_rank)
    if rank == 0:
        return endpoint
    if endpoint == "ipc://*":
        return endpoint
    if checked.transport != "tcp":
        return as_endpoint("endpoint", f"{endpoint}_dp{rank}").address
    head, _, port = endpoint.rpartition(":")
    if port == "*" or int(port) == 0:
        return endpoint
    if int(port) + rank > MAX_PORT:
        raise ConfigError("data_parallel_rank", rank, f"port {port} + {rank} is above {MAX_PORT}")
    return f"{head}:{int(port) + rank}"


def as_topic(field: str, value: object) -> bytes:
    """A topic as bytes.

    Raises:
        ArgumentError: If it is no string.
        ConfigError: If it cannot be written as UTF-8.
    """
    if not isinstance(value, str):
        raise ArgumentError(field, value, "a string is needed")
    try:
        return value.encode("utf-8")
    except UnicodeEncodeError:
        raise ConfigError(field, value, "cannot be written as UTF-8") from None
