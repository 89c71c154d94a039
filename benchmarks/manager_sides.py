"""vLLM's KVCacheManager and ours behind one constructor, so that one program can drive either.

What a model needs is written down once, as groups that name a spec and its settings in the words that
both sides share; each side turns them into its own objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from benchmarks.peer import Peer
from blockpool import kv_cache


@dataclass(frozen=True)
class Group:
    """One KV cache group: the name of its spec, the size of its blocks in tokens, what else the spec wants."""

    spec: str
    block_size: int
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Setting:
    """What a manager is built from; the names are those of vLLM's constructor."""

    groups: Sequence[Group]
    num_blocks: int
    hash_block_size: int
    max_model_len: int = 1 << 20
    enable_caching: bool = True
    use_eagle: bool = False
    log_stats: bool = False
    enable_kv_cache_events: bool = False
    dcp_world_size: int = 1
    pcp_world_size: int = 1


@dataclass
class ManagedRequest:
    """What either manager reads of a request; the program that plays the scheduler writes it."""

    request_id: str
    all_token_ids: list[int]
    block_hashes: list[bytes]
    num_computed_tokens: int = 0
    num_preemptions: int = 0
    skip_reading_prefix_cache: bool = False
    lora_request: Any = None

    @property
    def num_tokens(self) -> int:
        """Prompt and generated tokens so far."""
        return len(self.all_token_ids)


class Side:
    """One of the two implementations: its classes and what their constructors want."""

    def __init__(self, name: str, classes: Any, dtype: Any, **config: Any) -> None:
        self.name = name
        self.classes = classes
        self._dtype = dtype
        self._config = config

    def spec(self, group: Group) -> Any:
        """The spec of a group, with one head of size one where the size of a page does not matter."""
        settings: dict[str, Any] = dict(group.settings)
        if group.spec == "MambaSpec":
            settings = {"shapes": ((1,),), "dtypes": (self._dtype,), **settings}
        else:
            settings = {"num_kv_heads": 1, "head_size": 1, "dtype": self._dtype, **settings}
        return getattr(self.classes, group.spec)(block_size=group.block_size, **settings)

    def config(self, setting: Setting) -> Any:
        """The KVCacheConfig."""
        groups = [
            self.classes.KVCacheGroupSpec([f"layer.{index}"], self.spec(group))
            for index, group in enumerate(setting.groups)
        ]
        return self.classes.KVCacheConfig(
            num_blocks=setting.num_blocks, kv_cache_groups=groups, **self._config
        )

    def manager(self, setting: Setting) -> Any:
        """A new KVCacheManager."""
        return self.classes.KVCacheManager(
            self.config(setting),
            setting.max_model_len,
            setting.hash_block_size,
            enable_caching=setting.enable_caching,
            use_eagle=setting.use_eagle,
            log_stats=setting.log_stats,
            enable_kv_cache_events=setting.enable_kv_cache_events,
            dcp_world_size=setting.dcp_world_size,
            pcp_world_size=setting.pcp_world_size,
        )


def their_side(peer: Peer) -> Side:
    """The one of vLLM, from its files or from the whole of it."""
    classes = SimpleNamespace(**vars(peer.kv_cache_interface))
    classes.KVCacheManager = peer.kv_cache_manager.KVCacheManager
    return Side("vLLM", classes, peer.torch_dtype, kv_cache_tensors=[])


def our_side() -> Side:
    """Ours."""
    return Side("ours", kv_cache, "float16")
