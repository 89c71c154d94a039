"""From a model's shape to bytes: of a token, of a block, and of what each running request holds besides.

A pool of blocks pays off for layers that see all tokens: their cache grows with the prompt and every block of
it may hit. Layers with a sliding window, and Mamba states, cost each running request a constant; that part is
taken off the memory first, and the pool has the rest. docs/plan.md says what this leaves out.
"""

from __future__ import annotations

from dataclasses import dataclass

from blockpool.replay.plans.kv_dtype import AUTO_DTYPE, check_kv_dtype
from blockpool.replay.plans.model_shape import CachedLayers, ModelShape

_BLOCK_ALIGNMENT = 16  # tokens; vLLM's `kernel_block_alignment_size`


@dataclass(frozen=True, slots=True)
class ModelMemory:
    """Bytes on one GPU.

    Attributes:
        kv_dtype: Of the cache; never "auto".
        block_size: Tokens per block.
        bytes_per_token: What one more token takes in the pool.
        bytes_per_block: `block_size` of them.
        window_bytes_per_request: What one running request holds in the layers with a sliding window.
        state_bytes_per_request: What its states take.
        window_bytes_per_token: What a token takes in the layers with a window while it is in there.
        windows_in_pool: The model has windows only, so their blocks are what the pool is made of.
        vllm_block_size: The least block size that vLLM allows for a model with states, else None.
    """

    kv_dtype: str
    block_size: int
    bytes_per_token: int
    bytes_per_block: int
    window_bytes_per_request: int
    state_bytes_per_request: int
    window_bytes_per_token: int
    windows_in_pool: bool
    vllm_block_size: int | None

    @property
    def bytes_per_request(self) -> int:
        """The constant part: windows and states of one running request."""
        return self.window_bytes_per_request + self.state_bytes_per_request


def model_memory(
    shape: ModelShape, *, block_size: int, kv_dtype: str = AUTO_DTYPE, tensor_parallel: int = 1
) -> ModelMemory:
    """Works out the bytes; all of one GPU of `tensor_parallel`.

    * Per token: the sum over all layers that see all tokens, see `AttentionLayers` and `LatentLayers`.
    * Per request, windows: ⌈(window - 1) / block_size⌉ + 1 blocks in each such layer, for a window rarely
      begins where a block does (vLLM, `SlidingWindowSpec.max_memory_usage_bytes`, without a prompt in work).
      vLLM gives windows out in groups of as many layers as see all tokens; a group that is not full wastes
      the rest, which is counted.
    * Per request, states: one in each layer (vLLM, `MambaSpec.page_size_bytes`), without vLLM's padding.

    Args:
        block_size: Tokens per block, at least 1.
        kv_dtype: One of `KV_DTYPES`; "auto" takes the model's.
        tensor_parallel: GPUs that share the model, at least 1.

    Raises:
        ConfigError: The model cannot be split over so many GPUs, or the dtype is unknown.
    """
    check_kv_dtype(kv_dtype)
    shape.check_split(tensor_parallel)
    dtype = shape.dtype if kv_dtype == AUTO_DTYPE else kv_dtype
    windows_in_pool = not shape.full
    pooled: tuple[CachedLayers, ...] = shape.sliding if windows_in_pool else shape.full
    per_token = _bytes_per_token(pooled, dtype, tensor_parallel)
    return ModelMemory(
        kv_dtype=dtype,
        block_size=block_size,
        bytes_per_token=per_token,
        bytes_per_block=block_size * per_token,
        window_bytes_per_request=0
        if windows_in_pool
        else _window_bytes_per_request(shape, dtype, block_size, tensor_parallel),
        state_bytes_per_request=sum(
            layers.num_layers * layers.bytes_per_request(shape.dtype, tensor_parallel)
            for layers in shape.states
        ),
        window_bytes_per_token=_bytes_per_token(shape.sliding, dtype, tensor_parallel),
        windows_in_pool=windows_in_pool,
        vllm_block_size=_vllm_block_size(shape, pooled, dtype, tensor_parallel),
    )


def layers_with_padding(shape: ModelShape, num_layers: int) -> int:
    """Layers that vLLM pays for when it puts `num_layers` equal layers into groups.

    Args:
        num_layers: Of one kind of the model, at least 1.
    """
    group_size = layers_per_group(shape)
    return -(-num_layers // group_size) * group_size


def layers_per_group(shape: ModelShape) -> int:
    """How many layers a KV cache group has.

    As many as the rarest kind; when no kind has a quarter more than that, as many as the commonest (vLLM,
    `_get_kv_cache_groups_uniform_page_size`).
    """
    kinds = [layers.num_layers for layers in (*shape.full, *shape.sliding, *shape.states)]
    return max(kinds) if max(kinds) < min(kinds) * 1.25 else min(kinds)


def _bytes_per_token(layers: tuple[CachedLayers, ...], dtype: str, tensor_parallel: int) -> int:
    return sum(kind.num_layers * kind.bytes_per_token(dtype, tensor_parallel) for kind in layers)


def _window_bytes_per_request(shape: ModelShape, dtype: str, block_size: int, tensor_parallel: int) -> int:
    total = 0
    for layers in shape.sliding:
        assert layers.sliding_window is not None
        blocks = -(-(layers.sliding_window - 1) // block_size) + 1
        num_layers = layers_with_padding(shape, layers.num_layers)
        total += num_layers * blocks * block_size * layers.bytes_per_token(dtype, tensor_parallel)
    return total


def _vllm_block_size(
    shape: ModelShape, pooled: tuple[CachedLayers, ...], dtype: str, tensor_parallel: int
) -> int | None:
    """A state must fit into a block of one layer (vLLM, `HybridAttentionMambaModelConfig`)."""
    if not shape.states:
        return None
    state_bytes = max(layers.bytes_per_request(shape.dtype, tensor_parallel) for layers in shape.states)
    token_bytes = min(layers.bytes_per_token(dtype, tensor_parallel) for layers in pooled)
    return _BLOCK_ALIGNMENT * -(-state_bytes // (_BLOCK_ALIGNMENT * token_bytes))
