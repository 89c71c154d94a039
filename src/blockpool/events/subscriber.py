"""`EventSubscriber`: follows publishers, ours and vLLM's, and hands their batches out in order, each once."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from types import TracebackType
from typing import Final, TypeAlias, final

import zmq
import zmq.asyncio

from blockpool.core.arguments import as_bool, as_count, as_list, as_optional_text
from blockpool.errors import ArgumentError, BlockPoolError, ConfigError, FingerprintError
from blockpool.events.decoder import MAX_PAYLOAD_BYTES, EventDecoder
from blockpool.events.durations import as_interval, as_timeout, milliseconds
from blockpool.events.endpoints import as_endpoint, as_peer, as_topic
from blockpool.events.received import ReceivedBatch, Source, SourceAddress, SourceStats
from blockpool.events.sockets import Context, as_context
from blockpool.events.source_link import SourceLink
from blockpool.events.source_state import SourceState

Delivery: TypeAlias = tuple[Source, ReceivedBatch]

LONGEST_WAIT_SECONDS: Final = 60.0
ASYNC_WAIT_SECONDS: Final = 0.5
MAX_HWM: Final = 0x7FFFFFFF


@final
class EventSubscriber:
    """An iterator, and an async iterator, of (source, batch) over any number of publishers.

    Gaps are filled from the publisher's history, or by a snapshot if that is gone; a publisher that has been restarted
    is noticed. A consumer that clears what it knows when `reset` is set, and applies everything else, as `IndexView`
    does, has the publisher's index. For one thread, or one event loop, at a time.

    Args:
        addresses: One or several: a `SourceAddress` for each publisher, or just where it publishes.
        topic: Only topics that begin so; "" for all.
        fingerprint: What the publishers' hashes must be comparable with, as `BlockHasher.fingerprint` says it. None:
            with each other.
        compare_fingerprints: False: publishers may be of different models; nothing is compared.
        hwm: Messages per publisher that may wait in ZeroMQ; 0 for no limit.
        check_interval: Seconds without a message after which a publisher with a replay endpoint is asked whether
            something was missed, above 0.
        sync_timeout: Seconds without an answer on the replay socket after which it is asked again, above 0. After the
            third time what is missing counts as lost; where nobody has answered at all, after the first, and what is
            asked only because of a silence is asked more and more seldom: live batches wait meanwhile.
        max_payload_bytes: Longer batches count as malformed.
        context: A ZeroMQ context to share; needed for inproc. None: one of its own.

    Raises:
        ArgumentError: For an argument of the wrong type.
        ConfigError: For an address that is not well formed or listed twice, no address, a number out of range.
        EndpointError: If an address that is to be bound is taken.
    """

    def __init__(
        self,
        addresses: SourceAddress | str | Iterable[SourceAddress | str],
        *,
        topic: str = "",
        fingerprint: str | None = None,
        compare_fingerprints: bool = True,
        hwm: int = 100_000,
        check_interval: float = 1.0,
        sync_timeout: float = 2.0,
        max_payload_bytes: int = MAX_PAYLOAD_BYTES,
        context: Context | None = None,
    ) -> None:
        checked = _checked_addresses(addresses)
        prefix = as_topic("topic", topic)
        self.fingerprint: str | None = as_optional_text("fingerprint", fingerprint)
        self._compare = as_bool("compare_fingerprints", compare_fingerprints)
        high_water = as_count("hwm", hwm)
        if high_water > MAX_HWM:
            raise ConfigError("hwm", high_water, f"must be at most {MAX_HWM}")
        check_seconds = as_interval("check_interval", check_interval)
        sync_seconds = as_interval("sync_timeout", sync_timeout)
        parts = [part for address in checked for part in address if part is not None]
        if context is None and any(part.startswith("inproc://") for part in parts):
            raise ConfigError("context", None, "inproc needs the context that is shared")
        decoder = EventDecoder(max_payload_bytes)
        self._ready: deque[Delivery] = deque()
        self._links: dict[str, SourceLink] = {}
        self._states: dict[str, SourceState] = {}
        self._accepted: dict[str, str] = {}
        self._closed = False
        self._context, self._owned = as_context(context)
        try:
            for address in checked:
                state = SourceState(address, decoder, self._checker(address.endpoint), prefix)
                self._states[address.endpoint] = state
                self._links[address.endpoint] = SourceLink(
                    self._context,
                    address,
                    as_endpoint("addresses", address.endpoint),
                    prefix,
                    state,
                    high_water=high_water,
                    check_seconds=check_seconds,
                    sync_seconds=sync_seconds,
                    clock=time.monotonic,
                )
        except BaseException:
            self.close()
            raise

    # ---------------------------------------------------------------------------------------------------- reading

    def poll(self, timeout: float = 0.0) -> list[Delivery]:
        """What has come in, in order; waits up to `timeout` seconds for the first. [] if nothing has, or when closed.

        Raises:
            ArgumentError, ConfigError: If `timeout` is no number.
            FingerprintError: If a publisher's hashes cannot be compared. It is not followed any more; the others are.
        """
        deadline = time.monotonic() + as_timeout("timeout", timeout)
        while not self._ready and not self._closed:
            left = deadline - time.monotonic()
            wait_ms = self._wait_ms(left)
            poller = zmq.Poller()
            if self._register(poller):
                poller.poll(wait_ms)
            else:
                time.sleep(wait_ms / 1000)
            self._step()
            if left <= 0:
                break
        return self._take_all()

    def __iter__(self) -> Iterator[Delivery]:
        return self

    def __next__(self) -> Delivery:
        """Waits for the next batch; ends when the subscriber is closed, or follows nobody."""
        while not self._ready:
            if self._closed or not self._links:
                raise StopIteration
            self._ready.extend(self.poll(LONGEST_WAIT_SECONDS))
        return self._ready.popleft()

    def __aiter__(self) -> AsyncIterator[Delivery]:
        return self

    async def __anext__(self) -> Delivery:
        """As `__next__`, but the event loop goes on."""
        while not self._ready:
            if self._closed or not self._links:
                raise StopAsyncIteration
            wait_ms = self._wait_ms(ASYNC_WAIT_SECONDS)
            poller = zmq.asyncio.Poller()
            if self._register(poller):
                await poller.poll(wait_ms)
            else:
                await asyncio.sleep(wait_ms / 1000)
            if not self._closed:
                self._step()
        return self._ready.popleft()

    # ------------------------------------------------------------------------------------------------- the others

    def stats(self) -> dict[str, SourceStats]:
        """Live counts by endpoint, as given."""
        return {endpoint: state.stats for endpoint, state in self._states.items()}

    def close(self) -> None:
        """Gives the sockets back; iterators end. May be called twice."""
        if self._closed:
            return
        self._closed = True
        for link in self._links.values():
            link.close()
        if self._owned:
            # Not `term`: it waits for ever for a socket that an exception, a KeyboardInterrupt say, left half-made.
            self._context.destroy(0)

    def __enter__(self) -> EventSubscriber:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> EventSubscriber:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---------------------------------------------------------------------------------------------------- inside

    def _register(self, poller: zmq.Poller) -> bool:
        """Tells whether there is anything: between two attempts to connect there is not, and a poll would not wait."""
        for link in self._links.values():
            for socket in link.sockets():
                poller.register(socket, zmq.POLLIN)
        return bool(poller.sockets)

    def _wait_ms(self, seconds: float) -> int:
        """How long to wait for a message: until something else is to be done, or the time is over."""
        seconds = min(seconds, LONGEST_WAIT_SECONDS)
        now = time.monotonic()
        for link in self._links.values():
            wake_at = link.wake_at()
            if wake_at is not None:
                seconds = min(seconds, wake_at - now)
        return milliseconds(seconds) + 1 if seconds > 0 else 0

    def _step(self) -> None:
        for endpoint, link in list(self._links.items()):
            try:
                link.step(self._ready)
            except BlockPoolError:
                link.close()
                del self._links[endpoint]
                raise

    def _take_all(self) -> list[Delivery]:
        taken = list(self._ready)
        self._ready.clear()
        return taken

    def _checker(self, endpoint: str) -> Callable[[str], None]:
        """Compares the fingerprint of that publisher with what is wanted, or with the others'."""

        def check(fingerprint: str) -> None:
            if not self._compare:
                return
            expected = self.fingerprint
            if expected is None:
                others = [known for other, known in self._accepted.items() if other != endpoint]
                expected = others[0] if others else fingerprint
            if fingerprint != expected:
                raise FingerprintError(endpoint, expected, fingerprint)
            self._accepted[endpoint] = fingerprint

        return check


def _checked_addresses(addresses: object) -> list[SourceAddress]:
    """All addresses, well formed, each once."""
    if isinstance(addresses, (str, SourceAddress)):
        addresses = [addresses]
    checked: list[SourceAddress] = []
    for item in as_list("addresses", addresses):
        address = SourceAddress(item) if isinstance(item, str) else item
        if not isinstance(address, SourceAddress):
            raise ArgumentError("addresses", item, "a SourceAddress or an address is needed")
        endpoint = as_endpoint("addresses", address.endpoint)
        if not endpoint.is_anywhere:
            as_peer("addresses", address.endpoint)
        if address.replay_endpoint is not None:
            as_peer("addresses", address.replay_endpoint)
        if any(address.endpoint == other.endpoint for other in checked):
            raise ConfigError("addresses", address.endpoint, "is listed twice")
        checked.append(address)
    if not checked:
        raise ConfigError("addresses", addresses, "at least one is needed")
    return checked
