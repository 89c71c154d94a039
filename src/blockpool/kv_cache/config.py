"""`KVCacheConfig`: how many blocks there are, and the groups of layers that share them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from blockpool.core.arguments import as_list, as_size
from blockpool.errors import ArgumentError
from blockpool.kv_cache.specs import KVCacheSpec


@dataclass(frozen=True, slots=True)
class KVCacheGroupSpec:
    """Layers that share one block table, because they keep the same.

    Args:
        layer_names: For the engine; not read here.
        kv_cache_spec: What each of them keeps.

    Raises:
        ArgumentError: For a name that is no string, or a spec that is none.
    """

    layer_names: Sequence[str]
    kv_cache_spec: KVCacheSpec

    def __post_init__(self) -> None:
        names = tuple(as_list("layer_names", self.layer_names))
        for name in names:
            if not isinstance(name, str):
                raise ArgumentError("layer_names", name, "a string is needed")
        object.__setattr__(self, "layer_names", names)
        if not isinstance(self.kv_cache_spec, KVCacheSpec):
            raise ArgumentError("kv_cache_spec", self.kv_cache_spec, "a KVCacheSpec is needed")


@dataclass(frozen=True, slots=True)
class KVCacheConfig:
    """The KV cache of a model.

    Args:
        num_blocks: Blocks in the pool that all groups share, the null block included; at least 1.
        kv_cache_groups: The groups; a group's id is its position. Several when a model has several attention types.

    Raises:
        ArgumentError: For a wrong type.
        ConfigError: For a number out of range.
    """

    num_blocks: int
    kv_cache_groups: Sequence[KVCacheGroupSpec]

    def __post_init__(self) -> None:
        object.__setattr__(self, "num_blocks", as_size("num_blocks", self.num_blocks))
        groups = tuple(as_list("kv_cache_groups", self.kv_cache_groups))
        for group in groups:
            if not isinstance(group, KVCacheGroupSpec):
                raise ArgumentError("kv_cache_groups", group, "a KVCacheGroupSpec is needed")
        object.__setattr__(self, "kv_cache_groups", groups)
