"""A call written for vLLM 0.16.0's manager is one of ours: the same names in the same order, with the same defaults."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import pytest

from benchmarks.manager_sides import Group, Setting, Side
from tests.kv_cache.scenarios import CROSS, MLA, SINK, chunked, full, mamba, sliding

pytestmark = pytest.mark.peer


def parameters(method: Any) -> list[tuple[str, object]]:
    """Names and defaults, in order."""
    return [(name, each.default) for name, each in inspect.signature(method).parameters.items()]


def public(of: Any) -> list[str]:
    return [name for name, value in vars(of).items() if not name.startswith("_") and callable(value)]


def test_methods_of_the_manager(ours: Side, theirs: Side) -> None:
    their_class, our_class = theirs.classes.KVCacheManager, ours.classes.KVCacheManager
    names = public(their_class)
    assert {"allocate_slots", "free", "take_events"} <= set(names)
    for name in names:
        assert parameters(getattr(our_class, name)) == parameters(getattr(their_class, name)), name


def test_methods_of_the_blocks_it_returns(ours: Side, theirs: Side) -> None:
    setting = Setting([full()], 9, 4)
    their_class, our_class = (type(side.manager(setting).empty_kv_cache_blocks) for side in (theirs, ours))
    names = public(their_class)
    assert {"get_block_ids", "get_unhashed_block_ids", "new_empty"} <= set(names)
    for name in names:
        assert parameters(getattr(our_class, name)) == parameters(getattr(their_class, name)), name


def test_the_manager_is_made_with_the_same_arguments(ours: Side, theirs: Side) -> None:
    """By position, because a compiled class does not tell its signature."""
    setting = Setting([full()], 9, 4)
    taken = inspect.signature(theirs.classes.KVCacheManager).parameters
    assert list(taken)[1:] == [
        "max_model_len", "hash_block_size", "enable_caching", "use_eagle", "log_stats",
        "enable_kv_cache_events", "dcp_world_size", "pcp_world_size", "metrics_collector",
    ]  # fmt: skip
    values: tuple[Any, ...] = (256, 4, True, True, True, True, 1, 1, None)
    kept = []
    for side in (theirs, ours):
        for made in (
            side.classes.KVCacheManager(side.config(setting), *values),
            side.classes.KVCacheManager(
                side.config(setting), **dict(zip(list(taken)[1:], values, strict=True))
            ),
            side.classes.KVCacheManager(side.config(setting), 256, 4),
        ):
            pool = made.block_pool
            kept.append(
                (
                    made.max_model_len, made.enable_caching, made.use_eagle, made.log_stats, pool.hash_block_size,
                    pool.enable_kv_cache_events, made.num_kv_cache_groups, made.metrics_collector,
                )
            )  # fmt: skip
    assert kept[:3] == kept[3:]
    assert kept[0] == kept[1] != kept[2]


@pytest.mark.parametrize(
    "group", [full(), MLA, sliding(8), chunked(8), mamba("all"), CROSS, SINK], ids=lambda group: group.spec
)
def test_specs(ours: Side, theirs: Side, whole: bool, group: Group) -> None:
    fields = [
        [field.name for field in dataclasses.fields(getattr(side.classes, group.spec))]
        for side in (ours, theirs)
    ]
    assert fields[0] == fields[1]
    if whole:  # their sizes need PyTorch's types
        assert ours.spec(group).page_size_bytes == theirs.spec(group).page_size_bytes


def test_the_configuration_but_for_tensors(ours: Side, theirs: Side) -> None:
    names = {
        side.name: [field.name for field in dataclasses.fields(side.classes.KVCacheConfig)]
        for side in (ours, theirs)
    }
    assert names["vLLM"] == ["num_blocks", "kv_cache_tensors", "kv_cache_groups"]
    assert names["ours"] == ["num_blocks", "kv_cache_groups"]
