"""The KV-cache block pool of an LLM server, as a library that stands on its own."""

from blockpool.core.block import KVCacheBlock
from blockpool.core.block_hash import (
    external_block_hash,
    get_block_hash,
    get_group_id,
    make_block_hash_with_group_id,
)
from blockpool.core.block_hash_list import BlockHashListWithBlockSize
from blockpool.core.block_map import BlockHashToBlockMap
from blockpool.core.build import COMPILED
from blockpool.core.event_log import EVENT_GRANULARITIES, EventLog
from blockpool.core.events import (
    MEDIUM_GPU,
    AllBlocksCleared,
    BlockRemoved,
    BlockStored,
    ExternalBlockHash,
    KVCacheEvent,
)
from blockpool.core.extra_keys import KEY_SCHEMAS, MultiModalInput, block_extra_keys
from blockpool.core.free_queue import FreeKVCacheBlockQueue
from blockpool.core.hasher import HASH_ALGORITHMS, BlockHasher
from blockpool.core.metrics import BlockMetricsState, KVCacheEvictionEvent, KVCacheMetricsCollector
from blockpool.core.occupancy import Occupancy
from blockpool.core.pool import BlockPool
from blockpool.core.types import BlockHash, BlockHashWithGroupId, LoRARequest, MetricsCollector, Request
from blockpool.errors import (
    ArgumentError,
    BlockPoolError,
    BlockStateError,
    ConfigError,
    EndpointError,
    EventDecodeError,
    FingerprintError,
    HashAlreadySetError,
    InvariantError,
    MissingExtraError,
    OutOfBlocksError,
    TraceError,
)
from blockpool.kv_cache import KVCacheBlocks, KVCacheConfig, KVCacheGroupSpec, KVCacheManager

__version__ = "0.1.0"

__all__ = [
    "COMPILED",
    "EVENT_GRANULARITIES",
    "HASH_ALGORITHMS",
    "KEY_SCHEMAS",
    "MEDIUM_GPU",
    "AllBlocksCleared",
    "ArgumentError",
    "BlockHash",
    "BlockHashListWithBlockSize",
    "BlockHashToBlockMap",
    "BlockHashWithGroupId",
    "BlockHasher",
    "BlockMetricsState",
    "BlockPool",
    "BlockPoolError",
    "BlockRemoved",
    "BlockStateError",
    "BlockStored",
    "ConfigError",
    "EndpointError",
    "EventDecodeError",
    "EventLog",
    "ExternalBlockHash",
    "FingerprintError",
    "FreeKVCacheBlockQueue",
    "HashAlreadySetError",
    "InvariantError",
    "KVCacheBlock",
    "KVCacheBlocks",
    "KVCacheConfig",
    "KVCacheEvent",
    "KVCacheEvictionEvent",
    "KVCacheGroupSpec",
    "KVCacheManager",
    "KVCacheMetricsCollector",
    "LoRARequest",
    "MetricsCollector",
    "MissingExtraError",
    "MultiModalInput",
    "Occupancy",
    "OutOfBlocksError",
    "Request",
    "TraceError",
    "__version__",
    "block_extra_keys",
    "external_block_hash",
    "get_block_hash",
    "get_group_id",
    "make_block_hash_with_group_id",
]
