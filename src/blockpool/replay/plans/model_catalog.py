"""Well-known models: the fields of their published configs that decide the size of the cache.

Each is an excerpt of the `config.json` on Hugging Face of the repository named beside it, read like any other;
where a config leaves the kind of its layers to the model's code, that is said in `model_config`.
"""

from __future__ import annotations

import json
from pathlib import Path

from blockpool.errors import ConfigError
from blockpool.replay.arguments import as_instance
from blockpool.replay.plans.model_config import shape_from_config
from blockpool.replay.plans.model_shape import ModelShape

_Config = dict[str, object]


def _gqa(
    model_type: str, num_layers: int, query_heads: int, kv_heads: int, head_dim: int, **more: object
) -> _Config:
    return {
        "model_type": model_type,
        "num_hidden_layers": num_layers,
        "num_attention_heads": query_heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "torch_dtype": "bfloat16",
        **more,
    }


_DEEPSEEK_V3: _Config = {
    "model_type": "deepseek_v3",
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "torch_dtype": "bfloat16",
}
_NEMOTRON_H_PATTERN = "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-"

CATALOG: dict[str, _Config] = {
    "llama-3-8b": _gqa("llama", 32, 32, 8, 128),  # meta-llama/Meta-Llama-3-8B
    "llama-3-70b": _gqa("llama", 80, 64, 8, 128),  # meta-llama/Meta-Llama-3-70B
    "llama-3.1-405b": _gqa("llama", 126, 128, 8, 128),  # meta-llama/Llama-3.1-405B
    "qwen2.5-72b": _gqa("qwen2", 80, 64, 8, 128),  # Qwen/Qwen2.5-72B-Instruct
    "qwen3-8b": _gqa("qwen3", 36, 32, 8, 128),  # Qwen/Qwen3-8B
    "qwen3-32b": _gqa("qwen3", 64, 64, 8, 128),  # Qwen/Qwen3-32B
    "qwen3-235b-a22b": _gqa("qwen3_moe", 94, 64, 4, 128),  # Qwen/Qwen3-235B-A22B
    # mistralai/Mistral-7B-v0.1: every layer has the window
    "mistral-7b-v0.1": _gqa("mistral", 32, 32, 8, 128, sliding_window=4096),
    # openai/gpt-oss-120b: layers 0, 2, 4 … have the window
    "gpt-oss-120b": _gqa(
        "gpt_oss",
        36,
        64,
        8,
        64,
        sliding_window=128,
        layer_types=["sliding_attention", "full_attention"] * 18,
    ),
    # google/gemma-2-27b-it (the base repository has float32): every second layer sees all
    "gemma-2-27b": _gqa("gemma2", 46, 32, 16, 128, sliding_window=4096),
    # google/gemma-3-27b-it, text_config: every sixth layer sees all
    "gemma-3-27b": _gqa("gemma3_text", 62, 32, 16, 128, sliding_window=1024),
    "deepseek-v3": _DEEPSEEK_V3,  # deepseek-ai/DeepSeek-V3
    "deepseek-r1": _DEEPSEEK_V3,  # deepseek-ai/DeepSeek-R1
    "kimi-k2": {
        **_DEEPSEEK_V3,
        "model_type": "kimi_k2",
        "num_attention_heads": 64,
    },  # moonshotai/Kimi-K2-Instruct
    # ai21labs/Jamba-v0.1: one layer of eight has attention, the others are Mamba 1
    "jamba-v0.1": _gqa(
        "jamba",
        32,
        32,
        8,
        128,
        hidden_size=4096,
        attn_layer_period=8,
        attn_layer_offset=4,
        mamba_d_state=16,
        mamba_d_conv=4,
        mamba_expand=2,
    ),
    # nvidia/Nemotron-H-8B-Base-8K: 4 attention, 24 Mamba 2 and 24 MLP layers
    "nemotron-h-8b": _gqa(
        "nemotron_h",
        52,
        32,
        8,
        128,
        hybrid_override_pattern=_NEMOTRON_H_PATTERN,
        mamba_num_heads=128,
        mamba_head_dim=64,
        n_groups=8,
        ssm_state_size=128,
        conv_kernel=4,
    ),
    # Qwen/Qwen3-Next-80B-A3B-Instruct: one layer of four has attention, the others a gated delta net
    "qwen3-next-80b-a3b": _gqa(
        "qwen3_next",
        48,
        16,
        2,
        256,
        full_attention_interval=4,
        linear_num_key_heads=16,
        linear_num_value_heads=32,
        linear_key_head_dim=128,
        linear_value_head_dim=128,
        linear_conv_kernel_dim=4,
    ),
}


def config_path(model: str) -> Path | None:
    """The file that `load_model_shape` reads, there or not; None for a model of the catalog."""
    if model.lower() in CATALOG:
        return None
    path = Path(model)
    return path / "config.json" if path.is_dir() else path


def load_model_shape(model: str) -> ModelShape:
    """The shape of a model by its name or its config.

    Args:
        model: A name of `CATALOG` (case does not matter), or the path of a `config.json` or of the folder
            that holds it. A file called like a model is "./llama-3-8b".

    Raises:
        ConfigError: Neither, not JSON, or a config that does not say enough.
        OSError: The file cannot be read.
    """
    if not as_instance("model", model, str):
        raise ConfigError("model", model, "the name is empty")
    known = CATALOG.get(model.lower())
    if known is not None:
        return shape_from_config(known, model.lower())
    path = config_path(model)
    assert path is not None
    if not path.exists():
        names = ", ".join(CATALOG)
        raise ConfigError(
            "model", model, f"is neither a config.json, nor a folder with one, nor one of {names}"
        )
    try:
        config = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else " ".join(str(error).split())
        raise ConfigError("model", model, f"{path} is not JSON: {reason}") from None
    if not isinstance(config, dict):
        raise ConfigError("model", model, f"{path} must hold a JSON object, not {type(config).__name__}")
    return shape_from_config(config, str(path))
