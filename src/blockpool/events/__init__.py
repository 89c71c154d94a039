"""Events on the wire: codec for every dialect, publisher, subscriber, and a consumer's view of the index.

Needs the extra `events`.
"""

# ruff: noqa: E402 - what is missing is said before anything needs it
from blockpool.errors import MissingExtraError

try:
    import msgspec as _msgspec
    import zmq as _zmq
except ImportError:
    raise MissingExtraError("blockpool.events", "events") from None
del _msgspec, _zmq

from blockpool.events.decoder import MAX_PAYLOAD_BYTES, EventDecoder
from blockpool.events.encoder import DIALECTS, EventEncoder
from blockpool.events.endpoints import offset_endpoint
from blockpool.events.index_view import IndexView
from blockpool.events.publisher import EventPublisher, PublisherStats
from blockpool.events.received import ReceivedBatch, Source, SourceAddress, SourceStats
from blockpool.events.subscriber import EventSubscriber
from blockpool.events.wire_events import (
    ClearedEvent,
    EventBatch,
    MapRemovedEvent,
    MapStoredEvent,
    RemovedEvent,
    StoredEvent,
    WireEvent,
)

__all__ = [
    "DIALECTS",
    "MAX_PAYLOAD_BYTES",
    "ClearedEvent",
    "EventBatch",
    "EventDecoder",
    "EventEncoder",
    "EventPublisher",
    "EventSubscriber",
    "IndexView",
    "MapRemovedEvent",
    "MapStoredEvent",
    "PublisherStats",
    "ReceivedBatch",
    "RemovedEvent",
    "Source",
    "SourceAddress",
    "SourceStats",
    "StoredEvent",
    "WireEvent",
    "offset_endpoint",
]
