"""Bytes of both dialects, and every form that others write."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from benchmarks.peer import Peer
from blockpool import (
    AllBlocksCleared,
    ArgumentError,
    BlockPool,
    BlockRemoved,
    BlockStored,
    ConfigError,
    EventDecodeError,
    EventLog,
)
from blockpool.core.event_log import StoredRun
from blockpool.events import (
    ClearedEvent,
    EventBatch,
    EventDecoder,
    EventEncoder,
    MapRemovedEvent,
    MapStoredEvent,
    RemovedEvent,
    StoredEvent,
)

GOLDEN = bytes.fromhex(
    "93 cb3ff8000000000000 93"
    "98 ab426c6f636b53746f726564 92 cfffffffffffffffff 07 c0 94 01 02 03 cd012c 02 c0 a3475055 c0"
    "93 ac426c6f636b52656d6f766564 91 c420" + "01" * 32 + "a3475055"
    "91 b0416c6c426c6f636b73436c6561726564"
    "00"
)
EVENTS = [
    BlockStored([2**64 - 1, 7], None, [1, 2, 3, 300], 2, None, "GPU", None),
    BlockRemoved([b"\x01" * 32], "GPU"),
    AllBlocksCleared(),
]
DECODED = [
    StoredEvent([2**64 - 1, 7], None, [1, 2, 3, 300], 2, None, "GPU", None),
    RemovedEvent([0x0101010101010101], "GPU"),
    ClearedEvent(),
]
pack = msgspec.msgpack.encode


def decode(*events: Any, rank: Any = 0) -> EventBatch:
    return EventDecoder().decode(pack([1.5, list(events), rank]))


def test_the_golden_batch() -> None:
    assert EventEncoder().encode(1.5, EVENTS, 0) == GOLDEN
    assert EventDecoder().decode(GOLDEN) == EventBatch(1.5, DECODED, 0)


def test_the_map_dialect_has_seven_fields_always() -> None:
    payload = EventEncoder("map").encode(1.5, EVENTS, 3)
    assert msgspec.msgpack.decode(payload) == [
        1.5,
        [
            {
                "type": "BlockStored",
                "block_hashes": [2**64 - 1, 7],
                "parent_block_hash": None,
                "token_ids": [1, 2, 3, 300],
                "block_size": 2,
                "lora_id": None,
                "medium": "GPU",
                "lora_name": None,
            },
            {"type": "BlockRemoved", "block_hashes": [b"\x01" * 32], "medium": "GPU"},
            {"type": "AllBlocksCleared"},
        ],
        3,
    ]
    assert EventDecoder().decode(payload) == EventBatch(1.5, DECODED, 3)


FULL = MapStoredEvent([5], 4, [1], 1, 2, "CPU", "l", [["x"]], 7, "full", 128, "LOCAL", "tier", "session")
FULL_ARRAY = StoredEvent([5], 4, [1], 1, 2, "CPU", "l", [["x"]], 7, "full", 128)


@pytest.mark.parametrize("as_log", [False, True])
@pytest.mark.parametrize("dialect", ["array", "map"])
def test_tokens_that_stand_for_integers_arrive_as_integers(dialect: str, as_log: bool) -> None:
    np = pytest.importorskip("numpy")
    events: Any = [BlockStored([5], None, [1, True, np.int64(3), np.uint8(4)], 4, None, "GPU", None)]
    if as_log:
        log = EventLog(True, False)
        log.records.append(StoredRun([bytes(7) + b"\5"], None, events[0].token_ids, 4, None, None))
        events = log
    (read,) = EventDecoder().decode(EventEncoder(dialect).encode(0, events)).events
    assert read.token_ids == [1, 1, 3, 4]


@pytest.mark.parametrize("token", ["1", 1.5, None, [1]])
@pytest.mark.parametrize("dialect", ["array", "map"])
def test_other_tokens_never_reach_the_wire(dialect: str, token: Any) -> None:
    events = [AllBlocksCleared(), BlockStored([5], None, [1, token], 2, None, "GPU", None)]
    with pytest.raises(ArgumentError, match="cannot be written"):
        EventEncoder(dialect).encode(0, events)


@pytest.mark.parametrize("dialect", ["array", "map"])
def test_decoded_events_can_be_written_again(dialect: str) -> None:
    events = [
        FULL,
        MapRemovedEvent([5], "CPU", 7, "LOCAL", "tier"),
        ClearedEvent(),
        StoredEvent([1], None, [], 1),
    ]
    read = EventDecoder().decode(EventEncoder(dialect).encode(0, events, None)).events
    if dialect == "array":  # some fields of 0.32 have no place there
        events[:2] = [FULL_ARRAY, RemovedEvent([5], "CPU", 7)]
    assert read == events


STORED_8 = ["BlockStored", [1, 2], 9, [1, 2, 3, 4], 2, 6, "GPU", "lora"]
DETAILS = [[["k"], None], 4, "sliding", 128]


@pytest.mark.parametrize("length", range(5, 16))
@pytest.mark.parametrize("first_hash", [1, -(2**63), b"\x01" * 32])
def test_arrays_of_any_length(length: int, first_hash: int | bytes) -> None:
    known: list[Any] = STORED_8[:length] + DETAILS[: max(length - 8, 0)]
    further = [{"unknown": 1}, 3, "x"][: max(length - 12, 0)]
    known[1] = [first_hash, 2]
    (event,) = decode(known + further, rank=None).events
    first = {1: 1, -(2**63): 2**63}.get(first_hash, 0x0101010101010101)  # type: ignore[arg-type]
    assert event == StoredEvent([first, 2], *known[2:])
    assert type(event) is StoredEvent


def test_maps_with_unknown_keys() -> None:
    event = dict(
        zip(["type", "block_hashes", "parent_block_hash", "token_ids", "block_size"], STORED_8, strict=False)
    )
    assert decode(event | {"further": [1]}).events == [StoredEvent([1, 2], 9, [1, 2, 3, 4], 2)]
    assert decode({"further": {}, "block_hashes": [3], "type": "BlockRemoved"}).events == [RemovedEvent([3])]


def test_hashes_become_unsigned_integers() -> None:
    (event,) = decode(["BlockRemoved", [-1, 2**64 - 1, b"\xff" * 16, b"\x02", b"", 7], None]).events
    assert event == RemovedEvent([2**64 - 1, 2**64 - 1, 2**64 - 1, 2, 0, 7])
    (event,) = decode(["BlockStored", [-2], b"\x00" * 24 + b"\xff" * 8, [1], 1]).events
    assert event == StoredEvent([2**64 - 2], 2**64 - 1, [1], 1)


def test_unknown_types_are_counted_and_left_out() -> None:
    batch = decode(["BlockMoved", [1]], ["BlockRemoved", [1], "GPU"], {"type": "Other", "x": 1})
    assert batch == EventBatch(1.5, [RemovedEvent([1], "GPU")], 0, 2)


def test_dialects_may_be_mixed() -> None:
    batch = decode({"type": "BlockRemoved", "block_hashes": [1], "medium": "CPU"}, ["BlockRemoved", [2]])
    assert batch.events == [RemovedEvent([1], "CPU"), RemovedEvent([2])]


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        [1.5],
        ["now", []],
        [True, []],
        [1.5, None],
        [1.5, {}],
        [1.5, [], "rank"],
        [1.5, [1]],
        [1.5, [[]]],
        [1.5, [{}]],
        [1.5, [[7]]],
        [1.5, [["BlockRemoved"]]],
        [1.5, [["BlockRemoved", None]]],
        [1.5, [["BlockRemoved", ["text"]]]],
        [1.5, [["BlockRemoved", [True]]]],
        [1.5, [["BlockRemoved", [1], 7]]],
        [1.5, [["BlockRemoved", [1], "GPU", "group"]]],
        [1.5, [["BlockStored", [1], None, [1]]]],
        [1.5, [["BlockStored", [1], 1.5, [1], 1]]],
        [1.5, [["BlockStored", [1], None, "tokens", 1]]],
        [1.5, [["BlockStored", [1], None, [1.5], 1]]],
        [1.5, [["BlockStored", [1], None, [True], 1]]],
        [1.5, [["BlockStored", [1], None, [1], None]]],
        [1.5, [["BlockStored", [1], None, [1], 1, "id"]]],
        [1.5, [["BlockStored", [1], None, [1], 1, None, None, None, "keys"]]],
        [1.5, [{"type": "BlockStored", "block_hashes": [1], "parent_block_hash": None, "block_size": 1}]],
        [1.5, [{"type": "BlockRemoved", "block_hashes": [1], "locality": 3}]],
    ],
)
@pytest.mark.parametrize("before", [[], [["BlockRemoved", [1], "GPU"]], [["BlockRemoved", [-1], "GPU"]]])
def test_a_malformed_batch_is_rejected_whole(value: Any, before: list[Any]) -> None:
    if isinstance(value, list) and len(value) > 1 and isinstance(value[1], list):
        value = [value[0], before + value[1], *value[2:]]
    with pytest.raises(EventDecodeError):
        EventDecoder().decode(pack(value))


@pytest.mark.parametrize(
    "payload",
    [b"", b"\x93", GOLDEN[:-1], GOLDEN + b"\x00", b"\x91" * 100_000, b"\xdd\xff\xff\xff\xff", b"\xc1" * 9],
)
def test_bytes_that_are_no_batch(payload: bytes) -> None:
    with pytest.raises(EventDecodeError):
        EventDecoder().decode(payload)


def test_the_error_says_which_event() -> None:
    with pytest.raises(EventDecodeError, match="event 1: block_hashes is no array"):
        decode(["BlockRemoved", [1]], ["BlockRemoved", 7])


def test_payloads_beyond_the_limit_are_refused_unread() -> None:
    assert EventDecoder(len(GOLDEN)).decode(GOLDEN).ts == 1.5
    with pytest.raises(EventDecodeError, match="more than"):
        EventDecoder(len(GOLDEN) - 1).decode(GOLDEN)


def test_buffers_serve() -> None:
    assert EventDecoder().decode(bytearray(GOLDEN)) == EventDecoder().decode(memoryview(GOLDEN))  # type: ignore[arg-type]


def test_buffers_that_are_not_bytes_side_by_side() -> None:
    released = memoryview(GOLDEN)
    released.release()
    for bad in (memoryview(GOLDEN + GOLDEN)[::2], released):
        with pytest.raises(ArgumentError):
            EventDecoder().decode(bad)  # type: ignore[arg-type]
    grid = memoryview(GOLDEN[:104]).cast("B", (8, 13))
    with pytest.raises(EventDecodeError):
        EventDecoder().decode(grid)  # type: ignore[arg-type]


@pytest.mark.parametrize("dialect", ["array", "map"])
def test_times_and_ranks_that_are_none_are_refused_by_their_names(dialect: str) -> None:
    """Of a log, too, which the compiled build writes without its events."""
    pool = BlockPool(3, True, 4, True)
    pool.reset_prefix_cache()
    log = pool.take_event_log()
    encode = EventEncoder(dialect).encode
    for ts, rank, field in (
        ("now", 0, "ts"), (None, 0, "ts"), (10**400, 0, "ts"), (True, 0, "ts"), (1.0, "0", "data_parallel_rank"),
        (1.0, -(2**63) - 1, "data_parallel_rank"), (1.0, 2**64, "data_parallel_rank"), (1.0, 1.5, "data_parallel_rank"),
    ):  # fmt: skip
        with pytest.raises((ArgumentError, ConfigError)) as caught:
            encode(ts, log.copy(), rank)  # type: ignore[arg-type]
        assert caught.value.field == field
    for rank in (-(2**63), 2**64 - 1):
        assert EventDecoder().decode(encode(1, log.copy(), rank)).data_parallel_rank == rank


def test_bad_arguments() -> None:
    with pytest.raises(ArgumentError):
        EventDecoder().decode("text")  # type: ignore[arg-type]
    with pytest.raises(ConfigError):
        EventDecoder(0)
    with pytest.raises(ConfigError):
        EventEncoder("xml")
    for bad in ([7], [RemovedEvent([2**64])], [RemovedEvent([object()])], None):  # type: ignore[list-item]
        with pytest.raises(ArgumentError):
            EventEncoder().encode(1.0, bad, 0)  # type: ignore[arg-type]


@pytest.mark.peer
@pytest.mark.parametrize("rank", [None, 0, 3])
def test_bytes_are_those_of_vllms_structs(peer: Peer, rank: int | None) -> None:
    events = [
        (peer.BlockStored, BlockStored, ([1, 2**64 - 1], 3, [1, 70_000], 1, None, "GPU", None)),
        (peer.BlockStored, BlockStored, ([b"\x01" * 32], b"\x02" * 32, [], 16, 7, None, "lora")),
        (peer.BlockRemoved, BlockRemoved, ([4, 5], "GPU")),
        (peer.BlockRemoved, BlockRemoved, ([b"\x01" * 32], None)),
        (peer.AllBlocksCleared, AllBlocksCleared, ()),
    ]
    theirs = peer.KVEventBatch(1.25, [kind(*values) for kind, _, values in events], rank)
    written = msgspec.msgpack.encode(theirs)
    assert EventEncoder().encode(1.25, [kind(*values) for _, kind, values in events], rank) == written
    decoded = EventDecoder().decode(written)
    assert msgspec.msgpack.decode(
        EventEncoder().encode(decoded.ts, decoded.events, rank), type=peer.KVEventBatch
    )
    assert [type(event).__name__ for event in decoded.events] == [
        "StoredEvent", "StoredEvent", "RemovedEvent", "RemovedEvent", "ClearedEvent",
    ]  # fmt: skip
