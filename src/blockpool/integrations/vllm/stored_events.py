"""The KV cache events of vLLM 0.16, made of what our pool noted. 0.32's pool makes its own."""

from __future__ import annotations

from typing import Any

from vllm.distributed.kv_events import MEDIUM_GPU, AllBlocksCleared, BlockRemoved, BlockStored
from vllm.v1.core.kv_cache_utils import maybe_convert_block_hash

from blockpool.core.event_log import EventLog, StoredRun


def events_of(log: EventLog) -> list[Any]:
    """The events of a log that nobody has read, in order."""
    return [_event(record) for record in log.records]


def _event(record: object) -> Any:
    if record is None:
        return AllBlocksCleared()
    if isinstance(record, StoredRun):
        parent = record.parent_hash
        return BlockStored(
            block_hashes=[maybe_convert_block_hash(digest) for digest in record.block_hashes],
            parent_block_hash=None if parent is None else maybe_convert_block_hash(parent),
            token_ids=record.token_ids,
            block_size=record.block_size,
            lora_id=record.lora_id,
            medium=MEDIUM_GPU,
            lora_name=record.lora_name,
        )
    return BlockRemoved(block_hashes=[maybe_convert_block_hash(record)], medium=MEDIUM_GPU)
