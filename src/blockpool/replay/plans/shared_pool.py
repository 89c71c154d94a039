"""`SharedPool`: the pool of a model with windows as vLLM makes it, so that a replay can tell its true hits."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from blockpool.replay.attention.grammar import FULL, HYBRID, SLIDING
from blockpool.replay.plans.model_memory import ModelMemory, layers_per_group
from blockpool.replay.plans.model_shape import ModelShape
from blockpool.replay.plans.plan_settings import PlanSettings


@dataclass(frozen=True, slots=True)
class SharedPool:
    """All kinds of layers draw from one pool; a block is of the layers of one group.

    Attributes:
        attention: The groups, as `replay --attention` takes them.
        blocks: Usable blocks that fit on one GPU; windows of running requests come out of them.
        bytes_per_block: Of one GPU.
    """

    attention: str
    blocks: int
    bytes_per_block: int


def shared_pool(shape: ModelShape, memory: ModelMemory, settings: PlanSettings) -> SharedPool | None:
    """The pool that the memory makes; see `layers_per_group` for the groups.

    Returns:
        None for a model of full attention, where the plan says it all; for one with states, whose blocks vLLM makes
        larger than a trace's; and when a token takes different bytes in different kinds of layers.
    """
    kinds = (*shape.full, *shape.sliding)
    sizes = {layers.bytes_per_token(memory.kv_dtype, settings.tensor_parallel) for layers in kinds}
    if not shape.sliding or shape.states or len(sizes) != 1:
        return None
    group_size = layers_per_group(shape)
    parts = [FULL] * _num_groups(shape.num_full_layers, group_size)
    for layers in shape.sliding:
        parts += [f"{SLIDING}:{layers.sliding_window}"] * _num_groups(layers.num_layers, group_size)
    counted = [part if count == 1 else f"{count}*{part}" for part, count in Counter(parts).items()]
    bytes_per_block = group_size * memory.block_size * sizes.pop()
    return SharedPool(
        attention=parts[0] if len(parts) == 1 else HYBRID + "+".join(counted),
        blocks=(settings.gpu_memory - settings.reserve) // bytes_per_block,
        bytes_per_block=bytes_per_block,
    )


def _num_groups(num_layers: int, group_size: int) -> int:
    return -(-num_layers // group_size)
