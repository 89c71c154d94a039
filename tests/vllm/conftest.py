"""vLLM's manager and ours, and with what requests they are driven."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks import peer as peer_module
from benchmarks.manager_sides import Side, our_side, their_side
from tests.kv_cache.random_scheduler import PlainRequests

LOADERS = {"files": peer_module.load, "whole": peer_module.load_whole}


@pytest.fixture(params=LOADERS)
def vllm(request: pytest.FixtureRequest) -> peer_module.Peer:
    """vLLM 0.16.0: its files, as `make test` has them, and the whole of it, as `make test-vllm` has it."""
    loader = LOADERS[request.param]
    reason = peer_module.missing(loader)
    if reason is not None:
        pytest.skip(reason)
    return loader()


@pytest.fixture
def whole(vllm: peer_module.Peer) -> bool:
    """Whether vLLM is there with all that it needs."""
    return vllm.source == peer_module.WHOLE


@pytest.fixture
def theirs(vllm: peer_module.Peer) -> Side:
    return their_side(vllm)


@pytest.fixture
def ours() -> Side:
    return our_side()


class EngineRequests:
    """vLLM's own requests, with its own block hashes, LoRA requests and salts."""

    def __init__(self, vllm: peer_module.Peer, hash_block_size: int) -> None:
        self.hasher = vllm.get_request_block_hasher(hash_block_size, vllm.hash_functions["sha256_cbor"])

    def make(self, request_id: str, token_ids: list[int], lora_id: int, salt: str | None) -> Any:
        """A request that has its prompt; `lora_id` 0 means none."""
        from vllm.lora.request import LoRARequest
        from vllm.sampling_params import SamplingParams
        from vllm.v1.request import Request

        return Request(
            request_id=request_id,
            prompt_token_ids=list(token_ids),
            sampling_params=SamplingParams(max_tokens=1000),
            pooling_params=None,
            eos_token_id=None,
            arrival_time=0.0,
            lora_request=LoRARequest("adapter", lora_id, "nowhere") if lora_id else None,
            cache_salt=salt,
            block_hasher=self.hasher,
        )

    def append(self, request: Any, token_ids: list[int]) -> None:
        """Tokens are generated."""
        request.append_output_token_ids(list(token_ids))


@pytest.fixture
def requests_for(vllm: peer_module.Peer, whole: bool) -> Any:
    """Makes the maker of requests: plain ones for the files, vLLM's own for the whole."""
    if whole:
        return lambda hash_block_size: EngineRequests(vllm, hash_block_size)
    return PlainRequests
