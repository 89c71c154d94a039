"""Block hashes of random requests, from vLLM's own hasher and from the one in its place, in a process of its own.

    python -m tests.vllm.drop_in.hash_calls FIRST_SEED NUM_SEEDS

Adapters, salts, images and prompt embeddings, alone and together; prompts share prefixes that are longer than what is
remembered as one, and grow token by token and by many. It prints one line of JSON: what there was, the first
difference, and how two equal identifiers in one block are hashed, where the two may differ.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import sys
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from blockpool.integrations.vllm.chain_memory import CHUNK_TOKENS
from blockpool.integrations.vllm.plugin import installed_version, line_of

Hasher = Callable[[Any], list[bytes]]


def make_hashers(block_size: int, algorithm: str) -> tuple[Hasher, Hasher]:
    """vLLM's own, and ours as the plugin makes it. The root of the hashes is drawn anew."""
    from vllm.utils import hashing
    from vllm.v1.core import kv_cache_utils

    from blockpool.integrations.vllm.request_hasher import HasherMaker

    line = importlib.import_module(f"blockpool.integrations.vllm.{line_of(installed_version())}")
    function = hashing.get_hash_fn_by_name(algorithm)
    kv_cache_utils.init_none_hash(function)
    own = kv_cache_utils.get_request_block_hasher
    maker = HasherMaker(kv_cache_utils, hashing, own, line._first_feature)
    return own(block_size, function), maker.make(block_size, function)


class Requests:
    """Makes them, as far as a hasher looks."""

    def __init__(self, source: random.Random, num_tokens: int) -> None:
        self.source = source
        self.prompts = [[source.randrange(1 << 32) for _ in range(num_tokens)] for _ in range(2)]
        self.seen: Counter[str] = Counter()

    def make(self) -> Any:
        """The start of a known prompt, with a tail of its own."""
        from vllm.lora.request import LoRARequest

        source = self.source
        prompt = source.choice(self.prompts)
        tokens = prompt[: source.randint(0, len(prompt))] + [
            source.randrange(9) for _ in range(source.randint(0, 40))
        ]
        what = {name: source.random() < 0.2 for name in ("adapter", "salt", "images", "embeddings")}
        self.seen += Counter(name for name, there in what.items() if there)
        self.seen["plain"] += not any(what.values())
        return SimpleNamespace(
            request_id="r",
            block_hashes=[],
            all_token_ids=tokens,
            num_tokens=len(tokens),
            lora_request=LoRARequest("adapter", 1, "some/where") if what["adapter"] else None,
            cache_salt=source.choice(("pepper", "mint")) if what["salt"] else None,
            mm_features=self.images(len(tokens)) if what["images"] else [],
            prompt_embeds=embeddings(len(tokens)) if what["embeddings"] else None,
            _prompt_embeds_per_block_hashes={},
        )

    def images(self, num_tokens: int) -> list[Any]:
        """Some, in order, side by side or apart; what they are called is not told twice."""
        found = []
        offset = self.source.randint(0, 8)
        while offset < num_tokens and len(found) < 12:
            length = self.source.randint(1, 30)
            found.append(image(f"image {len(found)} of {self.source.random()}", offset, length))
            offset += length + self.source.choice((0, 0, 1, 7, 60))
        return found

    def grow(self, request: Any) -> None:
        """Tokens are generated."""
        count = self.source.choice((1, 1, 2, 20))
        request.all_token_ids += [self.source.randrange(1 << 20) for _ in range(count)]
        request.num_tokens += count


def image(name: str, offset: int, length: int) -> Any:
    """A multimodal input, as far as a hasher looks."""
    return SimpleNamespace(identifier=name, mm_position=SimpleNamespace(offset=offset, length=length))


def embeddings(num_tokens: int) -> Any:
    """Of a prompt, two numbers for each token."""
    import torch

    return torch.arange(2 * num_tokens, dtype=torch.float32).reshape(num_tokens, 2)


def first_difference(seed: int, seen: Counter[str]) -> str | None:
    """Some requests with one pair of hashers."""
    source = random.Random(seed)
    algorithm = source.choice(("sha256", "sha256_cbor", "xxhash", "xxhash_cbor"))
    block_size = source.choice((1, 3, 16, 16, 32))
    own, ours = make_hashers(block_size, algorithm)
    requests = Requests(source, source.choice((60, 3 * CHUNK_TOKENS)))
    for _ in range(12):
        request = requests.make()
        for _ in range(source.randint(1, 8)):
            theirs, found = own(request), ours(request)
            if theirs != found:
                return f"{algorithm}, blocks of {block_size}: {request}"[:2000]
            request.block_hashes += theirs
            seen["hashes"] += len(theirs)
            seen[algorithm] += len(theirs)
            requests.grow(request)
    seen += requests.seen
    return None


def twins() -> dict[str, list[str]]:
    """The hash of a block with two inputs of one identifier: one object, or two that are equal."""
    own, ours = make_hashers(16, "sha256")
    name = "an image"
    again = "".join(["an ", "image"])
    assert name == again
    assert name is not again
    told = {"vLLM": [], "ours": []}
    for second in (name, again):
        request = SimpleNamespace(
            block_hashes=[],
            all_token_ids=list(range(16)),
            num_tokens=16,
            lora_request=None,
            cache_salt=None,
            mm_features=[image(name, 0, 4), image(second, 8, 4)],
            prompt_embeds=None,
        )
        told["vLLM"].append(own(request)[0].hex())
        told["ours"].append(ours(request)[0].hex())
    return told


def main() -> None:
    """Be one process of the test."""
    first, num_seeds = map(int, sys.argv[1:])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever vLLM prints goes elsewhere
    import vllm  # noqa: F401 - it sets itself up

    seen: Counter[str] = Counter()
    found = {seed: first_difference(seed, seen) for seed in range(first, first + num_seeds)}
    different = {seed: text for seed, text in found.items() if text}
    answers.write(json.dumps({"seen": seen, "different": different, "twins": twins()}) + "\n")


if __name__ == "__main__":
    main()
