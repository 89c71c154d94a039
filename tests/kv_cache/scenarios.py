"""The models and habits that the manager is compared on, each small enough to run out of blocks often."""

from __future__ import annotations

import random
from math import lcm
from typing import Any

from benchmarks.manager_sides import Group, Setting

from .diary import Scenario


def full(block_size: int = 4) -> Group:
    return Group("FullAttentionSpec", block_size)


def sliding(window: int, block_size: int = 4) -> Group:
    return Group("SlidingWindowSpec", block_size, {"sliding_window": window})


def chunked(chunk: int, block_size: int = 4) -> Group:
    return Group("ChunkedLocalAttentionSpec", block_size, {"attention_chunk_size": chunk})


def mamba(mode: str, block_size: int = 4, speculative: int = 0) -> Group:
    settings = {"mamba_cache_mode": mode, "num_speculative_blocks": speculative}
    return Group("MambaSpec", block_size, settings)


CROSS = Group("CrossAttentionSpec", 4)
SINK = Group("SinkFullAttentionSpec", 4, {"sink_len": 8})
MLA = Group("MLAAttentionSpec", 4)
MAX_MODEL_LEN = 256


def scenario(name: str, *groups: Group, num_blocks: int = 48, **more: Any) -> Scenario:
    """A scenario with everything recorded; what is neither said nor the usual goes into its setting or its habits."""
    names = Setting.__dataclass_fields__
    in_setting = {key: more.pop(key) for key in list(more) if key in names}
    usual = {"log_stats": True, "enable_kv_cache_events": True, "max_model_len": MAX_MODEL_LEN}
    smallest = min(group.block_size for group in groups)
    setting = Setting(groups, num_blocks, **{"hash_block_size": smallest, **usual, **in_setting})
    return Scenario(name, setting, **more)


DRAFTS = {"num_lookahead_tokens": 3, "draft_tokens": 3}
EAGLE = {"use_eagle": True, **DRAFTS}
OFF = {"enable_caching": False}

# Mamba keeps null blocks among those that are indexed: vLLM stores events for them, ours does not.
SPARSE = {"exact_events": False}
ALIGN = {"align": 4, **SPARSE}
STEADY = {**DRAFTS, "steady_drafts": True}
# vLLM takes the blocks of the sink without counting them, and can then never reset.
SUNK = {"held": 2, "reset": False}
# vLLM's events then name tokens that have no slot.
TOO_LONG = {"max_model_len": 48, "prompt_tokens": 60, "overrun": 20, "exact_events": False}

SCENARIOS = [
    scenario("full", full()),
    scenario("full-roomy", full(), num_blocks=300),
    scenario("full-quiet", full(), enable_kv_cache_events=False, log_stats=False),
    scenario("full-off", full(), **OFF),
    scenario("full-short-model", full(), max_model_len=48, prompt_tokens=40, **DRAFTS),
    scenario("full-too-long", full(), **TOO_LONG, **DRAFTS),
    scenario("full-too-long-odd", full(), **{**TOO_LONG, "max_model_len": 50}),
    scenario("full+sliding-too-long", full(), sliding(8), num_blocks=80, **TOO_LONG),
    scenario("full-drafts", full(), **DRAFTS),
    scenario("full-eagle", full(), **EAGLE),
    scenario("full-external", full(), external=True),
    scenario("full-ranks", full(), hash_block_size=24, num_blocks=12, dcp_world_size=2, pcp_world_size=3),
    scenario("mla", MLA),
    scenario("sliding-8", sliding(8), num_blocks=26),
    scenario("sliding-9", sliding(9), num_blocks=26),
    scenario("sliding-1", sliding(1), num_blocks=22),
    scenario("sliding-off", sliding(8), num_blocks=24, **OFF),
    scenario("sliding-eagle", sliding(8), num_blocks=28, **EAGLE),
    scenario("sliding-external", sliding(10), num_blocks=24, external=True),
    scenario("chunked", chunked(8), num_blocks=18),
    scenario("chunked-12", chunked(12), num_blocks=18),
    scenario("chunked-external", chunked(8), num_blocks=17, external=True),
    scenario("full+sliding", full(), sliding(8), num_blocks=80),
    scenario("full+sliding-off", full(), sliding(8), num_blocks=80, **OFF),
    scenario("full+sliding-drafts", full(), sliding(8), num_blocks=80, **DRAFTS),
    scenario("full+sliding-external", full(), sliding(8), num_blocks=80, external=True),
    scenario("full+2x-sliding", full(), sliding(8), sliding(8), num_blocks=100),
    scenario("2x-full+sliding", full(), sliding(12), full(), num_blocks=100),
    scenario("full-8+sliding-4", full(8), sliding(8, 4), num_blocks=50),
    scenario("full-4+sliding-8", full(4), sliding(20, 8), num_blocks=70),
    scenario("full-8+sliding-12", full(8), sliding(20, 12), num_blocks=28, hash_block_size=4),
    scenario("full+sliding-hashed-finer", full(8), sliding(8, 8), num_blocks=32, hash_block_size=4),
    scenario("sliding+sliding", sliding(8), sliding(16), num_blocks=50),
    scenario("full+sliding+sliding", full(), sliding(8), sliding(16), num_blocks=100),
    scenario("full+chunked", full(), chunked(8), num_blocks=60),
    scenario("full+chunked+sliding", full(), chunked(8), sliding(12), num_blocks=75),
    scenario("mamba-none", mamba("none", MAX_MODEL_LEN), num_blocks=6, evict=False, **OFF),
    scenario("mamba-none-drafts", mamba("none", MAX_MODEL_LEN, 3), num_blocks=16, **DRAFTS, **OFF),
    scenario("mamba-all", mamba("all"), num_blocks=24),
    scenario("full+mamba-none", full(), mamba("none", MAX_MODEL_LEN), num_blocks=60, **OFF),
    scenario("full+mamba-all", full(), mamba("all"), num_blocks=70),
    scenario("full+mamba-all-drafts", full(), mamba("all", 4, 3), num_blocks=100, **DRAFTS, **SPARSE),
    scenario("full+mamba-align", full(), mamba("align"), num_blocks=50, **ALIGN),
    scenario("full+mamba-align-drafts", full(), mamba("align", 4, 3), num_blocks=80, **STEADY, **ALIGN),
    scenario("full+mamba-align-eagle", full(), mamba("align"), num_blocks=50, use_eagle=True, **ALIGN),
    scenario("full-4+mamba-8", full(4), mamba("align", 8), num_blocks=40, align=8, **SPARSE),
    scenario("full+cross", full(), CROSS, num_blocks=60, encoder_tokens=30, **OFF),
    scenario("cross+full", CROSS, full(), num_blocks=60, encoder_tokens=30, **OFF),
    scenario("sink", SINK, **SUNK),
    scenario("sink+sliding", SINK, sliding(8), num_blocks=80, **SUNK),
]


def random_scenario(seed: int) -> Scenario:
    """A mix of up to three groups that vLLM accepts, with habits that it can live with; the same for equal seeds."""
    source = random.Random(f"scenario {seed}")
    caching = source.random() < 0.85
    sizes = source.choice([(4,), (4,), (8,), (4, 8), (4, 12)])
    groups = _random_groups(source, caching, sizes)
    kinds = {group.spec for group in groups}
    more: dict[str, Any] = {"enable_caching": caching, "hash_block_size": 4 if len(groups) > 1 else sizes[0]}
    if source.random() < 0.4:
        more |= DRAFTS
    if "MambaSpec" in kinds:
        more |= {**SPARSE, "align": lcm(*sizes), "steady_drafts": True}
    elif source.random() < 0.3:
        more["external"] = True
    if len(groups) == 1 and kinds <= {"FullAttentionSpec", "SlidingWindowSpec"}:
        more["use_eagle"] = source.random() < 0.3
    if "CrossAttentionSpec" in kinds:
        more["encoder_tokens"] = source.randint(1, 40)
    # Room for the longest request at least: what could never run is refused in different ways.
    longest = sum(
        -(-96 // group.block_size) + group.settings.get("num_speculative_blocks", 0) for group in groups
    )
    cross = 10 if "CrossAttentionSpec" in kinds else 0
    num_blocks = round((longest + cross) * source.uniform(1.05, 2.0)) + 2
    return scenario(f"random-{seed}", *groups, num_blocks=num_blocks, max_model_len=96, **more)


def _random_groups(source: random.Random, caching: bool, sizes: tuple[int, ...]) -> list[Group]:
    """Different from each other when there are several, as vLLM wants them."""
    makers = [
        lambda size: full(size),
        lambda size: sliding(source.randint(1, 40), size),
        lambda size: mamba("align" if len(sizes) > 1 else source.choice(["all", "align"]), size),
    ]
    if len(sizes) == 1:
        makers.append(lambda size: chunked(size * source.randint(1, 5), size))
    if not caching:
        makers.append(lambda size: Group("CrossAttentionSpec", size))
    if len(sizes) == 1 and source.random() < 0.4:
        makers_of_one = [full, lambda size: sliding(source.randint(1, 40), size)]
        return [source.choice(makers_of_one)(sizes[0])]
    groups: list[Group] = []
    # One Mamba group, as models have; one of full attention, for of several vLLM cuts only the first to the hit.
    single = {"MambaSpec", "FullAttentionSpec"}
    while len(groups) < max(len(sizes), source.randint(2, 3)):
        group = source.choice(makers)(sizes[len(groups) % len(sizes)])
        if group not in groups and not (group.spec in single and group.spec in {one.spec for one in groups}):
            groups.append(group)
    return groups
