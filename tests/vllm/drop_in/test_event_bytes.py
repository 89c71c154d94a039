"""Events as the vLLM that is here writes them: arrays in 0.16, maps in 0.32."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from blockpool import AllBlocksCleared, BlockRemoved, BlockStored
from blockpool.events import EventDecoder, EventEncoder

pytestmark = pytest.mark.peer

EVENTS: list[tuple[type, tuple[Any, ...]]] = [
    (BlockStored, ([1, 2**64 - 1], 3, [1, 70_000], 1, None, "GPU", None)),
    (BlockStored, ([b"\x01" * 32], b"\x02" * 32, [], 16, 7, None, "lora")),
    (BlockRemoved, ([4, 5], "GPU")),
    (BlockRemoved, ([b"\x01" * 32], None)),
    (AllBlocksCleared, ()),
]


@pytest.fixture(scope="module")
def theirs(version: str) -> Any:
    return pytest.importorskip("vllm.distributed.kv_events")


def dialect_of(theirs: Any) -> str:
    return "array" if theirs.BlockStored.__struct_config__.array_like else "map"


@pytest.mark.parametrize("rank", [None, 0, 3])
def test_bytes_are_those_of_its_structs(theirs: Any, rank: int | None) -> None:
    structs = [getattr(theirs, kind.__name__)(*values) for kind, values in EVENTS]
    written = msgspec.msgpack.encode(theirs.KVEventBatch(1.25, structs, rank))
    encoder = EventEncoder(dialect_of(theirs))
    assert encoder.encode(1.25, [kind(*values) for kind, values in EVENTS], rank) == written


def test_what_it_writes_with_all_details_is_read_and_written_again(theirs: Any) -> None:
    """All the fields that we know; others are passed over."""
    stored = theirs.BlockStored([5, 6], 4, [1, 2], 1, 2, "CPU", "l")
    removed = theirs.BlockRemoved([5], "CPU")
    known = {"extra_keys": [["x"], None], "group_idx": 7, "locality": "LOCAL", "ownership": "tier"}
    known |= {"kv_cache_spec_kind": "full_attention", "kv_cache_spec_sliding_window": 128, "session_id": "s"}
    for struct in (stored, removed):
        for name in set(known) & set(struct.__struct_fields__):
            setattr(struct, name, known[name])
    written = msgspec.msgpack.encode(theirs.KVEventBatch(1.25, [stored, removed], 1))
    read = EventDecoder().decode(written)
    assert EventEncoder(dialect_of(theirs)).encode(read.ts, read.events, read.data_parallel_rank) == written
    for name in set(known) & set(stored.__struct_fields__):
        assert getattr(read.events[0], name) == known[name]
