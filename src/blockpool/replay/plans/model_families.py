"""Which configs are understood: families by their `model_type`, and fields that change the cache in other ways.

What is not understood is refused and never guessed. A family that is not known here is refused, for its code may do
anything with fields that look familiar (BERT keeps no cache, Falcon-H1 runs two kinds of attention in one layer). In
a known family, a field that speaks of windows, states or KV heads and is not read is refused, too. A config that names
no family may have fields that are read, or that matter to no cache, and no others.

What families do is from their `configuration_*.py` and `modeling_*.py` in Hugging Face's transformers.
"""

from __future__ import annotations

from blockpool.replay.plans.config_fields import ConfigFields


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_FAMILIES = _names(
    """
    apertus arcee bamba cohere cohere2 deepseek_v2 deepseek_v3 ernie4_5 ernie4_5_moe exaone exaone4 falcon gemma gemma2
    gemma3 gemma3_text glm glm4 glm4_moe gpt_neox gpt_oss granite granitemoe granitemoehybrid internlm2 jamba kimi_k2
    llama llama4_text mistral mixtral nemotron nemotron_h olmo olmo2 olmo3 olmoe phi phi3 phimoe qwen2 qwen2_5_vl
    qwen2_5_vl_text qwen2_moe qwen2_vl qwen2_vl_text qwen3 qwen3_moe qwen3_next qwen3_vl_moe_text qwen3_vl_text
    seed_oss smollm3 stablelm starcoder2
    """
)

# Families that have other numbers than the usual ones when a field is left out: then the field must be there.
_NEEDED = {
    "num_key_value_heads": _names(
        "falcon gemma gemma2 gemma3 gemma3_text glm glm4 glm4_moe gpt_oss jamba llama4_text mistral mixtral "
        "nemotron_h qwen3_next starcoder2"
    ),
    "head_dim": _names(
        "gemma gemma2 gemma3 gemma3_text glm glm4 glm4_moe gpt_oss llama4_text nemotron_h qwen3 qwen3_next"
    ),
    "sliding_window": _names("cohere2 gemma2 gemma3 gemma3_text gpt_oss olmo3"),
    "attention_chunk_size": _names("llama4_text"),
}

_NOT_MODELLED = {
    "num_kv_shared_layers": "layers that share a cache",
    "global_head_dim": "full layers of another head size",
    "num_global_key_value_heads": "full layers with another number of heads",
    "index_head_dim": "the index cache of sparse attention",
    "compress_ratios": "compressed caches",
    "linear_attn_config": "Kimi's linear attention",
    "block_configs": "layers of unequal shape",
    "num_key_value_heads_per_layer": "layers of unequal shape",
    "swa_num_key_value_heads": "windows with another number of heads",
    "swa_head_dim": "windows of another head size",
    "attn_type_list": "lightning attention",
    "is_encoder_decoder": "cross attention",
    "cross_attention_layers": "cross attention",
    "lru_width": "the recurrence of RecurrentGemma",
    "multi_query_group_num": "ChatGLM's way to name KV heads",
    "conv_L_cache": "the short convolutions of LFM2",
}

# Names with these words speak of the cache.
_CACHE_WORDS = (
    "window",
    "sliding",
    "kv_head",
    "key_value",
    "multi_query",
    "block_type",
    "layer_type",
    "attn_layer",
    "attn_idx",
    "hybrid",
    "recurrent",
    "mamba",
    "ssm",
    "conv",
    "cross_attention",
    "kv_lora",
)

_READ = _names(
    """
    model_type num_hidden_layers num_attention_heads n_head num_key_value_heads num_kv_heads n_head_kv multi_query
    new_decoder_architecture head_dim attention_head_dim v_head_dim hidden_size torch_dtype dtype kv_lora_rank
    qk_rope_head_dim sliding_window use_sliding_window max_window_layers sliding_window_pattern
    _sliding_window_pattern attention_chunk_size layer_types layers_block_type hybrid_override_pattern
    attn_layer_period attn_layer_offset full_attention_interval ssm_state_size mamba_d_state state_size conv_kernel
    mamba_d_conv mamba_num_heads mamba_n_heads mamba_head_dim mamba_d_head n_groups mamba_n_groups mamba_expand
    mamba_ssm_cache_dtype mamba_ssm_dtype linear_num_key_heads linear_num_value_heads linear_key_head_dim
    linear_value_head_dim linear_conv_kernel_dim text_config
    """
)

# They change nothing about the cache, although they sound like it.
_WITHOUT_EFFECT = _names(
    """
    mamba_chunk_size mamba_conv_bias mamba_proj_bias mamba_dt_rank mamba_hidden_act mamba_inner_layernorms
    use_mamba_kernels use_conv_bias conv_bias mamba_dt_limit mamba_dt_min mamba_dt_max mamba_dt_init_floor
    """
)
_HARMLESS = _names(
    """
    architectures attention_bias attention_dropout bos_token_id eos_token_id pad_token_id hidden_act
    initializer_range intermediate_size max_position_embeddings mlp_bias num_experts num_experts_per_tok q_lora_rank
    qk_nope_head_dim rms_norm_eps rope_scaling rope_theta tie_word_embeddings transformers_version use_cache
    vision_config vocab_size
    """
)


def refuse_unknown(fields: ConfigFields, outer: ConfigFields) -> None:
    """Raises ConfigError, with the name of the field, for a config that is not understood.

    Args:
        fields: Of the language part.
        outer: The whole config, which may be the same.
    """
    for source in (fields, outer):
        for field, meaning in _NOT_MODELLED.items():
            if source.says(field):
                raise source.bad(field, f"{meaning} cannot be planned for")
    family = family_of(fields, outer)
    if family and family not in _FAMILIES:
        raise (fields if "model_type" in fields else outer).bad(
            "model_type", "is no family that is known here; if its cache is that of llama, say so in a copy"
        )
    known = _READ | _WITHOUT_EFFECT
    for field in fields:
        if field not in known and fields.says(field) and any(word in field for word in _CACHE_WORDS):
            raise fields.bad(field, "may change the size of the cache in a way that is not known here")
    if not family and not all(field in known | _HARMLESS for field in fields):
        raise fields.missing("model_type")
    for field, families in _NEEDED.items():
        if family in families and field not in fields and not _told_otherwise(field, fields):
            raise fields.missing(field)


def family_of(fields: ConfigFields, outer: ConfigFields) -> str:
    """The `model_type` of the language part, or "" when the config names none."""
    return fields.text("model_type") or outer.text("model_type") or ""


def _told_otherwise(field: str, fields: ConfigFields) -> bool:
    if field == "num_key_value_heads":
        return any(name in fields for name in ("num_kv_heads", "n_head_kv", "multi_query", "kv_lora_rank"))
    return field == "head_dim" and "attention_head_dim" in fields
