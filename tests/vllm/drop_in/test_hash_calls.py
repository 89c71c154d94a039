"""The block hashes of requests with adapters, salts, images and prompt embeddings are vLLM's, byte for byte."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.peer

NUM_SEEDS = 40


def test_the_same_hashes_but_for_twins(report: Callable[..., Any]) -> None:
    found = report("hash_calls", "0", str(NUM_SEEDS))
    assert found["different"] == {}
    for what in ("adapter", "salt", "images", "embeddings", "plain"):
        assert found["seen"][what] > 50
    for algorithm in ("sha256", "sha256_cbor", "xxhash", "xxhash_cbor"):
        assert found["seen"][algorithm] > 500
    # Two equal identifiers in one block: vLLM tells one object from two, ours does not (docs/vllm.md).
    assert len(set(found["twins"]["vLLM"])) == 2
    assert found["twins"]["ours"] == found["twins"]["vLLM"][:1] * 2
