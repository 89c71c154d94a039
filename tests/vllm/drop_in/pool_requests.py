"""Requests for `pool_calls`, as far as a pool looks at them, and what a look-up wants to know."""

from __future__ import annotations

import hashlib
import random
from types import SimpleNamespace
from typing import Any

from .pool_pair import PoolSetting

PROMPT_BLOCKS = 40


class PoolRequests:
    """Makes them."""

    def __init__(self, source: random.Random, setting: PoolSetting) -> None:
        self.source = source
        self.setting = setting
        self.num_tokens = PROMPT_BLOCKS * setting.hash_block_size * setting.factor
        self.prompts = [[source.randrange(9) for _ in range(self.num_tokens)] for _ in range(2)]

    def make(self, number: int) -> Any:
        """The start of a known prompt; some with an adapter or a salt.

        Two attributes are the tests' own: `tables`, block ids per group, and `indexed`, how many of them are.
        """
        from vllm.lora.request import LoRARequest

        source = self.source
        tokens = source.choice(self.prompts)[: source.randint(1, self.num_tokens)]
        lora = LoRARequest("adapter", 1, "nowhere") if source.random() < 0.2 else None
        salt = source.choice(("pepper", "mint")) if source.random() < 0.2 else None
        chain = hashlib.sha256(repr((lora and lora.lora_name, salt)).encode())
        hashes = []
        size = self.setting.hash_block_size
        for end in range(size, len(tokens) + 1, size):
            chain.update(bytes(tokens[end - size : end]))
            hashes.append(chain.digest())
        return SimpleNamespace(
            request_id=f"r{number}",
            block_hashes=hashes,
            all_token_ids=tokens,
            num_tokens=len(tokens),
            lora_request=lora,
            cache_salt=salt,
            mm_features=[],
            prompt_embeds=None,
            session_id=None,
            tables={group: [] for group in self.setting.groups},
            indexed=dict.fromkeys(self.setting.groups, 0),
        )


def make_spec(block_size: int) -> Any:
    """Full attention."""
    import torch
    from vllm.v1.kv_cache_interface import FullAttentionSpec

    return FullAttentionSpec(block_size=block_size, num_kv_heads=1, head_size=1, dtype=torch.float16)


def coarse(hashes: list[bytes], size: int, block_size: int) -> Any:
    """The view that vLLM has of them, a hash per block."""
    from vllm.v1.core.kv_cache_utils import BlockHashListWithBlockSize

    return BlockHashListWithBlockSize(hashes, size, block_size)
