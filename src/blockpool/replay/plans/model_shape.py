"""What of a model's shape decides the size of its KV cache: its layers, by the kind of their attention."""

from __future__ import annotations

from dataclasses import dataclass

from blockpool.errors import ConfigError
from blockpool.replay.plans.kv_dtype import bytes_of_row


@dataclass(frozen=True, slots=True)
class AttentionLayers:
    """Equal layers that keep a key and a value per KV head (multi-head, grouped-query, multi-query).

    Attributes:
        num_layers: How many.
        num_kv_heads: KV heads of each, of the whole model.
        head_dim: Values of one head's key, and of its value.
        sliding_window: How many tokens back a token sees, itself included; None: all.
    """

    num_layers: int
    num_kv_heads: int
    head_dim: int
    sliding_window: int | None = None

    def bytes_per_token(self, dtype: str, tensor_parallel: int) -> int:
        """Bytes that one token takes in one of the layers on one GPU: 2 · KV heads of the GPU · head_dim.

        KV heads are split between the GPUs; when there are more GPUs than heads, each keeps one whole head
        (vLLM, `ModelConfig.get_num_kv_heads`; key and value: `FullAttentionSpec.page_size_bytes`).

        Raises:
            ConfigError: The heads cannot be split evenly.
        """
        heads = _split(self.num_kv_heads, tensor_parallel, "KV heads", may_replicate=True)
        return 2 * heads * bytes_of_row(self.head_dim, dtype)


@dataclass(frozen=True, slots=True)
class LatentLayers:
    """Equal layers of multi-head latent attention (MLA): one compressed vector for key and value.

    Attributes:
        num_layers: How many.
        kv_lora_rank: Values of the compressed vector.
        qk_rope_head_dim: Values of the key part that carries the position, shared by all heads.
    """

    num_layers: int
    kv_lora_rank: int
    qk_rope_head_dim: int
    sliding_window: None = None

    def bytes_per_token(self, dtype: str, tensor_parallel: int) -> int:
        """Bytes that one token takes in one of the layers on one GPU: kv_lora_rank + qk_rope_head_dim.

        Every GPU keeps the whole vector, for it cannot be split by heads (DeepSeek-V2, arXiv:2405.04434,
        section 2.1; vLLM, `MLAAttentionSpec.page_size_bytes`).
        """
        return bytes_of_row(self.kv_lora_rank + self.qk_rope_head_dim, dtype)


@dataclass(frozen=True, slots=True)
class StateLayers:
    """Equal layers without a KV cache: each request has a state of constant size (Mamba, linear attention).

    The shapes are those of vLLM's `MambaStateShapeCalculator`.

    Attributes:
        num_layers: How many.
        conv_channels: Channels of the short convolution that are split between GPUs.
        conv_steps: Steps that it remembers: its kernel less one.
        heads: What is split between GPUs of the recurrent state: heads, or channels in Mamba 1.
        head_values: Values of the state of one of them.
        state_dtype: Of the recurrent state; the convolution has the model's.
        conv_groups: Mamba 2: groups of B and C, `group_values` channels each, besides `conv_channels`.
        group_values: Channels of one group, of B and C together.
    """

    num_layers: int
    conv_channels: int
    conv_steps: int
    heads: int
    head_values: int
    state_dtype: str
    conv_groups: int = 0
    group_values: int = 0

    def bytes_per_request(self, model_dtype: str, tensor_parallel: int) -> int:
        """Bytes of the state of one request in one of the layers on one GPU.

        Raises:
            ConfigError: The state cannot be split evenly.
        """
        groups = self.conv_groups
        if groups % tensor_parallel:
            groups = tensor_parallel  # a group that several GPUs need is copied, as in vLLM
        channels = _split(
            self.conv_channels + groups * self.group_values, tensor_parallel, "channels of the convolution"
        )
        heads = _split(self.heads, tensor_parallel, "heads of the recurrent state")
        return bytes_of_row(channels * self.conv_steps, model_dtype) + bytes_of_row(
            heads * self.head_values, self.state_dtype
        )


CachedLayers = AttentionLayers | LatentLayers


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A model, as far as its cache is concerned.

    Attributes:
        name: As the user named it, or the path of its config.
        dtype: Of its activations, as `kv_dtype` names it: what "auto" stands for.
        query_heads: Of each attention layer; GPUs split them whatever becomes of the KV heads.
        full: Layers whose cache grows with every token.
        sliding: Layers that need the latest tokens only.
        states: Layers with a state of constant size.
    """

    name: str
    dtype: str
    query_heads: int
    full: tuple[CachedLayers, ...]
    sliding: tuple[AttentionLayers, ...] = ()
    states: tuple[StateLayers, ...] = ()

    def check_split(self, tensor_parallel: int) -> None:
        """Raises ConfigError unless so many GPUs can share the query heads (vLLM, `verify_with_parallel_config`)."""
        _split(self.query_heads, tensor_parallel, "query heads")

    @property
    def has_constant_part(self) -> bool:
        """Whether a running request holds something besides its blocks in the pool: windows or states."""
        return bool(self.states or (self.sliding and self.full))

    @property
    def num_full_layers(self) -> int:
        """How many layers see all tokens."""
        return sum(layers.num_layers for layers in self.full)

    @property
    def num_sliding_layers(self) -> int:
        """How many layers see a window."""
        return sum(layers.num_layers for layers in self.sliding)

    @property
    def num_state_layers(self) -> int:
        """How many layers have a state of constant size."""
        return sum(layers.num_layers for layers in self.states)


def _split(count: int, parts: int, what: str, *, may_replicate: bool = False) -> int:
    """The share of one GPU of `count` equal things."""
    if count % parts == 0:
        return count // parts
    if may_replicate and parts % count == 0:
        return 1
    raise ConfigError("tensor_parallel", parts, f"does not divide the model's {count:,} {what}")
