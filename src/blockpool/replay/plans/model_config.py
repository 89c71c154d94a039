"""A model's shape from its Hugging Face `config.json`.

What is not understood is refused, never guessed; see `model_families`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from blockpool.replay.plans.config_fields import ConfigFields
from blockpool.replay.plans.kv_dtype import TORCH_DTYPES, dtype_of_torch
from blockpool.replay.plans.model_families import family_of, refuse_unknown
from blockpool.replay.plans.model_shape import (
    AttentionLayers,
    CachedLayers,
    LatentLayers,
    ModelShape,
    StateLayers,
)

FULL = "full_attention"
SLIDING = "sliding_attention"
CHUNKED = "chunked_attention"
LINEAR = "linear_attention"
MAMBA = "mamba"
NO_CACHE = "mlp"

# What configs call the kinds, in `layer_types` and `layers_block_type`.
_KINDS = {
    FULL: FULL,
    "attention": FULL,
    "hybrid_attention": FULL,
    SLIDING: SLIDING,
    CHUNKED: CHUNKED,
    LINEAR: LINEAR,
    MAMBA: MAMBA,
    "mamba2": MAMBA,
    NO_CACHE: NO_CACHE,
    "moe": NO_CACHE,
}
_NEMOTRON_KINDS = {"*": FULL, "M": MAMBA, "-": NO_CACHE, "E": NO_CACHE, "O": NO_CACHE}

# Families whose code, not whose config, says which layers have the window.
_ALL_LAYERS_SLIDE = {"mistral", "mixtral", "phi3", "starcoder2"}
_DEFAULT_PATTERNS = {"gemma2": 2, "gemma3": 6, "gemma3_text": 6, "cohere2": 4}

_MAX_LAYERS = 10_000


def shape_from_config(config: Mapping[str, object], name: str) -> ModelShape:
    """Reads a shape off a config.

    Args:
        config: What `json.load` makes of config.json. The language part of a multimodal model is found in
            `text_config`.
        name: The model, or the file, as errors and reports name it.

    Raises:
        ConfigError: A field is missing, cannot be right, or is not modelled; it names the field.
    """
    outer = ConfigFields(config, name)
    fields = outer.inner("text_config") or outer
    refuse_unknown(fields, outer)
    dtype = _dtype(fields, outer)
    kinds = Counter(_layer_kinds(fields, family_of(fields, outer)))
    shape = ModelShape(
        name=name,
        dtype=dtype,
        query_heads=fields.number("num_attention_heads", "n_head"),
        full=_full_layers(fields, kinds[FULL]),
        sliding=_sliding_layers(fields, kinds),
        states=_state_layers(fields, kinds, dtype),
    )
    if not shape.full and not shape.sliding:
        raise fields.bad("model_type", "has no attention layers, so there are no blocks to plan for")
    return shape


def _dtype(fields: ConfigFields, outer: ConfigFields) -> str:
    for source in (fields, outer):
        name = source.text("torch_dtype", "dtype")
        if name is None:
            continue
        if name.removeprefix("torch.") not in TORCH_DTYPES:
            field = "torch_dtype" if "torch_dtype" in source else "dtype"
            raise source.bad(field, f"must be one of {', '.join(TORCH_DTYPES)}")
        return dtype_of_torch(name)
    return "bf16"


def _layer_kinds(fields: ConfigFields, family: str) -> list[str]:
    """The kind of every layer, one of the constants of this module."""
    pattern = fields.text("hybrid_override_pattern")
    listed = fields.texts("layers_block_type") or fields.texts("layer_types")
    if pattern is not None:
        kinds = [_NEMOTRON_KINDS.get(character, "") for character in pattern]
        field = "hybrid_override_pattern"
    elif listed is not None:
        kinds = [_KINDS.get(kind, "") for kind in listed]
        field = "layers_block_type" if "layers_block_type" in fields else "layer_types"
    else:
        return _unlisted_kinds(fields, family)
    if "" in kinds:
        unknown = (pattern or listed or [])[kinds.index("")]
        raise fields.bad(field, f"{unknown!r} is no known kind of layer")
    num_layers = fields.number("num_hidden_layers", most=_MAX_LAYERS)
    if len(kinds) != num_layers:
        raise fields.bad(field, f"has {len(kinds)} layers, but num_hidden_layers is {num_layers}")
    return kinds


def _unlisted_kinds(fields: ConfigFields, family: str) -> list[str]:
    num_layers = fields.number("num_hidden_layers", most=_MAX_LAYERS)
    if "attn_layer_period" in fields:  # Jamba
        period, offset = fields.number("attn_layer_period"), fields.number("attn_layer_offset", least=0)
        return [FULL if layer % period == offset else MAMBA for layer in range(num_layers)]
    if "linear_num_value_heads" in fields:  # Qwen3-Next
        interval = fields.number("full_attention_interval", default=4)
        return [FULL if (layer + 1) % interval == 0 else LINEAR for layer in range(num_layers)]
    if "ssm_state_size" in fields or "mamba_d_state" in fields or "state_size" in fields:
        raise fields.missing("layers_block_type or layer_types")
    if "attention_chunk_size" in fields:
        raise fields.missing("layer_types (which layers have the attention_chunk_size?)")
    if "sliding_window" not in fields or not fields.flag("use_sliding_window", default=True):
        return [FULL] * num_layers
    return _sliding_kinds(fields, family, num_layers)


def _sliding_kinds(fields: ConfigFields, family: str, num_layers: int) -> list[str]:
    """Where there is a window, but no list of the layers that have it."""
    if "use_sliding_window" in fields and "max_window_layers" in fields:  # Qwen2
        first = fields.number("max_window_layers", least=0)
        return [SLIDING if layer >= first else FULL for layer in range(num_layers)]
    if family in _ALL_LAYERS_SLIDE:
        return [SLIDING] * num_layers
    default = _DEFAULT_PATTERNS.get(family, 0)
    every = fields.number("sliding_window_pattern", "_sliding_window_pattern", default=default, least=0)
    if not every:
        raise fields.missing("layer_types (which layers have the sliding_window?)")
    return [FULL if (layer + 1) % every == 0 else SLIDING for layer in range(num_layers)]


def _full_layers(fields: ConfigFields, num_layers: int) -> tuple[CachedLayers, ...]:
    if not num_layers:
        return ()
    if "kv_lora_rank" in fields:
        return (
            LatentLayers(
                num_layers, fields.number("kv_lora_rank"), fields.number("qk_rope_head_dim", least=0)
            ),
        )
    return (AttentionLayers(num_layers, _kv_heads(fields), _head_dim(fields)),)


def _sliding_layers(fields: ConfigFields, kinds: Counter[str]) -> tuple[AttentionLayers, ...]:
    """Layers with a window; a chunk of chunked attention is counted as one of its length."""
    found = []
    for kind, window in ((SLIDING, "sliding_window"), (CHUNKED, "attention_chunk_size")):
        if kinds[kind]:
            found.append(
                AttentionLayers(kinds[kind], _kv_heads(fields), _head_dim(fields), fields.number(window))
            )
    return tuple(found)


def _kv_heads(fields: ConfigFields) -> int:
    if fields.says("multi_query") and not fields.says("new_decoder_architecture"):  # Falcon
        return 1
    # Configs of multi-head attention name no KV heads; then there are as many as query heads.
    return fields.number("num_key_value_heads", "num_kv_heads", "n_head_kv", "num_attention_heads", "n_head")


def _head_dim(fields: ConfigFields) -> int:
    head_dim = _key_dim(fields)
    if fields.number("v_head_dim", default=head_dim) != head_dim:
        raise fields.bad("v_head_dim", f"values of another size than keys ({head_dim}) cannot be planned for")
    return head_dim


def _key_dim(fields: ConfigFields) -> int:
    if "head_dim" in fields or "attention_head_dim" in fields:
        return fields.number("head_dim", "attention_head_dim")
    hidden, heads = fields.number("hidden_size"), fields.number("num_attention_heads")
    if hidden % heads:
        raise fields.bad(
            "hidden_size", f"is no multiple of num_attention_heads={heads}, and head_dim is missing"
        )
    return hidden // heads


def _state_layers(fields: ConfigFields, kinds: Counter[str], dtype: str) -> tuple[StateLayers, ...]:
    found = []
    if kinds[MAMBA]:
        found.append(_mamba_layers(fields, kinds[MAMBA], dtype))
    if kinds[LINEAR]:
        found.append(_linear_layers(fields, kinds[LINEAR], dtype))
    return tuple(found)


def _state_dtype(fields: ConfigFields, dtype: str) -> str:
    """Of the recurrent state: the model's, unless the config says otherwise."""
    name = fields.text("mamba_ssm_cache_dtype", "mamba_ssm_dtype")
    if name is None:
        return dtype
    if name not in TORCH_DTYPES:
        field = "mamba_ssm_cache_dtype" if "mamba_ssm_cache_dtype" in fields else "mamba_ssm_dtype"
        raise fields.bad(field, f"must be one of {', '.join(TORCH_DTYPES)}")
    return dtype_of_torch(name)


def _mamba_layers(fields: ConfigFields, num_layers: int, dtype: str) -> StateLayers:
    """Mamba 2 has heads; Mamba 1 a state per channel."""
    state_size = fields.number("ssm_state_size", "mamba_d_state")
    steps = fields.number("conv_kernel", "mamba_d_conv") - 1
    if "mamba_num_heads" not in fields and "mamba_n_heads" not in fields:
        channels = fields.number("mamba_expand") * fields.number("hidden_size")
        return StateLayers(num_layers, channels, steps, channels, state_size, _state_dtype(fields, dtype))
    heads = fields.number("mamba_num_heads", "mamba_n_heads")
    head_dim = fields.number("mamba_head_dim", "mamba_d_head")
    return StateLayers(
        num_layers,
        heads * head_dim,
        steps,
        heads,
        head_dim * state_size,
        _state_dtype(fields, dtype),
        conv_groups=fields.number("n_groups", "mamba_n_groups"),
        group_values=2 * state_size,
    )


def _linear_layers(fields: ConfigFields, num_layers: int, dtype: str) -> StateLayers:
    """Gated delta net, as in Qwen3-Next."""
    key_dim, value_dim = fields.number("linear_key_head_dim"), fields.number("linear_value_head_dim")
    value_heads = fields.number("linear_num_value_heads")
    return StateLayers(
        num_layers,
        2 * key_dim * fields.number("linear_num_key_heads") + value_dim * value_heads,
        fields.number("linear_conv_kernel_dim") - 1,
        value_heads,
        key_dim * value_dim,
        _state_dtype(fields, dtype),
    )
