"""Shapes from config.json: the families, and what is said of configs that are not good enough."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockpool import ConfigError
from blockpool.replay.plans.model_catalog import CATALOG, load_model_shape
from blockpool.replay.plans.model_config import shape_from_config
from blockpool.replay.plans.model_memory import model_memory
from blockpool.replay.plans.model_shape import AttentionLayers, LatentLayers, ModelShape

DENSE: dict[str, object] = {
    "model_type": "llama",
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "hidden_size": 512,
    "torch_dtype": "bfloat16",
}


def shape(**fields: object) -> ModelShape:
    """The dense model with some fields changed; None takes one away."""
    return shape_from_config({**DENSE, **fields}, "config.json")


def kinds(model: ModelShape) -> tuple[int, int, int]:
    return model.num_full_layers, model.num_sliding_layers, model.num_state_layers


# --- families


def test_dense() -> None:
    assert shape().full == (AttentionLayers(4, 2, 64),)
    assert shape(head_dim=128).full == (AttentionLayers(4, 2, 128),)
    assert shape(num_key_value_heads=None).full == (AttentionLayers(4, 8, 64),)


def test_multi_query_of_falcon() -> None:
    falcon = shape(num_key_value_heads=None, multi_query=True)
    assert falcon.full == (AttentionLayers(4, 1, 64),)
    new = shape(num_key_value_heads=None, num_kv_heads=4, multi_query=True, new_decoder_architecture=True)
    assert new.full == (AttentionLayers(4, 4, 64),)


def test_latent() -> None:
    assert shape(kv_lora_rank=512, qk_rope_head_dim=64).full == (LatentLayers(4, 512, 64),)


def test_the_language_part_of_a_multimodal_model() -> None:
    inner = {key: value for key, value in DENSE.items() if key != "torch_dtype"}
    outer = shape_from_config({"text_config": inner, "vision_config": {}, "torch_dtype": "float16"}, "x")
    assert (outer.full, outer.dtype) == (shape().full, "fp16")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"sliding_window": None}, (4, 0)),
        ({"sliding_window": 128, "use_sliding_window": False}, (4, 0)),
        ({"sliding_window": 128, "use_sliding_window": True, "max_window_layers": 3}, (3, 1)),
        ({"sliding_window": 128, "model_type": "mistral"}, (0, 4)),
        ({"sliding_window": 128, "model_type": "gemma2", "head_dim": 64}, (2, 2)),
        (
            {"sliding_window": 128, "model_type": "gemma3_text", "num_hidden_layers": 13, "head_dim": 64},
            (2, 11),
        ),
        ({"sliding_window": 128, "sliding_window_pattern": 4}, (1, 3)),
        ({"sliding_window": 128, "_sliding_window_pattern": 2}, (2, 2)),
        ({"sliding_window": 128, "layer_types": ["sliding_attention"] * 3 + ["full_attention"]}, (1, 3)),
        ({"attention_chunk_size": 128, "layer_types": ["chunked_attention", "full_attention"] * 2}, (2, 2)),
    ],
)
def test_windows(fields: dict[str, object], expected: tuple[int, int]) -> None:
    model = shape(**fields)
    assert kinds(model) == (*expected, 0)
    assert all(layers.sliding_window == 128 for layers in model.sliding)


def test_mamba_hybrids() -> None:
    assert kinds(load_model_shape("jamba-v0.1")) == (4, 0, 28)
    assert kinds(load_model_shape("nemotron-h-8b")) == (4, 0, 24)
    assert kinds(load_model_shape("qwen3-next-80b-a3b")) == (12, 0, 36)
    bamba = shape(
        layer_types=["mamba", "mamba", "mamba", "attention"],
        mamba_n_heads=8,
        mamba_d_head=64,
        mamba_d_state=128,
        mamba_n_groups=1,
        mamba_d_conv=4,
        mamba_ssm_cache_dtype="float32",
    )
    assert kinds(bamba) == (1, 0, 3)
    assert model_memory(bamba, block_size=16).state_bytes_per_request == 3 * (
        2 * 3 * (8 * 64 + 2 * 128) + 4 * 8 * 64 * 128
    )


def test_dtypes() -> None:
    assert shape(torch_dtype="float32").dtype == "fp32"
    assert shape(torch_dtype=None, dtype="torch.float16").dtype == "fp16"
    assert shape(torch_dtype=None).dtype == "bf16"


# --- where configs come from


def test_names_paths_and_folders(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(DENSE), encoding="utf-8")
    for path in (tmp_path, tmp_path / "config.json"):
        assert load_model_shape(str(path)).full == shape().full
    assert load_model_shape(str(tmp_path)).name == str(tmp_path / "config.json")
    assert load_model_shape("Llama-3-8B").name == "llama-3-8b"


def test_neither_a_name_nor_a_path() -> None:
    with pytest.raises(ConfigError, match="nor one of llama-3-8b, ") as caught:
        load_model_shape("llama-9")
    assert all(name in str(caught.value) for name in CATALOG)


def test_a_folder_without_config(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nor a folder with one"):
        load_model_shape(str(tmp_path))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b"\xff\xfe", "is not JSON"),
        (b"[" * 200_000, "is not JSON: nested too deeply"),
        (b"[]", "must hold a JSON object, not list"),
        (b"{}", "num_hidden_layers=None: missing in .*, which has no fields"),
    ],
)
def test_damaged_files(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=words) as caught:
        load_model_shape(str(path))
    assert "\n" not in str(caught.value)


# --- what is missing or wrong


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"num_hidden_layers": None}, "num_hidden_layers", "which has hidden_size, model_type, num_att"),
        ({"num_hidden_layers": "80"}, "num_hidden_layers", "'80': must be a whole number, 1 … 10,000"),
        ({"num_hidden_layers": 0}, "num_hidden_layers", "=0: must be"),
        ({"num_hidden_layers": -1}, "num_hidden_layers", "=-1: must be"),
        ({"num_hidden_layers": 2**40}, "num_hidden_layers", "must be"),
        ({"num_hidden_layers": 4.0}, "num_hidden_layers", "=4.0: must be"),
        ({"num_hidden_layers": True}, "num_hidden_layers", "=True: must be"),
        ({"hidden_size": None}, "hidden_size", "missing in config.json"),
        ({"hidden_size": 513}, "hidden_size", "is no multiple of num_attention_heads=8"),
        ({"num_key_value_heads": [2]}, "num_key_value_heads", "must be"),
        ({"kv_lora_rank": 512}, "qk_rope_head_dim", "missing"),
        ({"torch_dtype": "bfloat17"}, "torch_dtype", "must be one of bfloat16"),
        ({"torch_dtype": 16}, "torch_dtype", "must be a string"),
        ({"sliding_window": 128}, "layer_types (which layers have the sliding_window?)", "missing"),
        ({"sliding_window": 128, "use_sliding_window": "no"}, "use_sliding_window", "must be true or false"),
        ({"layer_types": ["full_attention"] * 3}, "layer_types", "has 3 layers, but num_hidden_layers is 4"),
        ({"layer_types": ["full_attention"] * 3 + ["magic"]}, "layer_types", "'magic' is no known kind"),
        ({"layer_types": [1, 2, 3, 4]}, "layer_types", "must be a list of strings"),
        ({"layer_types": 4}, "layer_types", "must be a list of strings"),
        ({"layer_types": ["sliding_attention"] * 4}, "sliding_window", "missing"),
        ({"layer_types": ["mlp"] * 4}, "model_type", "has no attention layers"),
        ({"hybrid_override_pattern": "M-*?"}, "hybrid_override_pattern", "'?' is no known kind"),
        ({"hybrid_override_pattern": "MM*-"}, "ssm_state_size or mamba_d_state", "missing"),
        ({"ssm_state_size": 16}, "layers_block_type or layer_types", "missing"),
        ({"attn_layer_period": 2}, "attn_layer_offset", "missing"),
        ({"text_config": []}, "text_config", "must be an object"),
        ({"num_hidden_layers": 10_001}, "num_hidden_layers", "must be"),
        (
            {"attention_chunk_size": 8192},
            "layer_types (which layers have the attention_chunk_size?)",
            "missing",
        ),
        ({"v_head_dim": 128}, "v_head_dim", "values of another size than keys (64)"),
        ({"swa_head_dim": 128}, "swa_head_dim", "cannot be planned for"),
        ({"attn_type_list": [0, 1]}, "attn_type_list", "lightning attention"),
        ({"is_encoder_decoder": True}, "is_encoder_decoder", "cross attention"),
        ({"num_kv_shared_layers": 2}, "num_kv_shared_layers", "cannot be planned for"),
        ({"index_head_dim": 128}, "index_head_dim", "sparse attention cannot be planned for"),
        ({"num_attention_heads": None, "head_dim": 64}, "num_attention_heads or n_head", "missing"),
        # Families and fields that are not understood.
        ({"model_type": "bert"}, "model_type", "'bert': is no family that is known here"),
        ({"model_type": "recurrent_gemma"}, "model_type", "is no family"),
        (
            {"model_type": "recurrent_gemma", "lru_width": 2560, "_block_types": ["recurrent", "attention"]},
            "lru_width",
            "RecurrentGemma",
        ),
        ({"block_types": ["recurrent", "attention"]}, "block_types", "in a way that is not known here"),
        ({"attention_window_size": 2048}, "attention_window_size", "in a way that is not known here"),
        (
            {"model_type": "mllama_text_model", "cross_attention_layers": [3, 8]},
            "cross_attention_layers",
            "cross attention",
        ),
        (
            {"model_type": "chatglm", "multi_query_attention": True, "multi_query_group_num": 2},
            "multi_query_group_num",
            "ChatGLM",
        ),
        ({"multi_query_attention": True}, "multi_query_attention", "in a way that is not known here"),
        ({"model_type": "lfm2", "full_attn_idxs": [1, 3], "conv_L_cache": 3}, "conv_L_cache", "LFM2"),
        ({"layer_types": ["conv", "full_attention"] * 2}, "layer_types", "'conv' is no known kind"),
        ({"hybrid_layer_pattern": [0, 1, 1, 0]}, "hybrid_layer_pattern", "in a way that is not known here"),
        (
            {"model_type": None, "magic": 1},
            "model_type",
            "missing in config.json, which has hidden_size, magic",
        ),
        ({"model_type": 5}, "model_type", "must be a string"),
        # What families take for granted when it is left out.
        ({"model_type": "mistral", "num_key_value_heads": None}, "num_key_value_heads", "missing"),
        ({"model_type": "qwen3"}, "head_dim", "missing"),
        ({"model_type": "gemma2", "head_dim": 64}, "sliding_window", "missing"),
        ({"model_type": "llama4_text", "head_dim": 64}, "attention_chunk_size", "missing"),
    ],
)
def test_which_field_and_what_was_found(fields: dict[str, object], field: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        shape(**fields)
    assert caught.value.field == field
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_fields_that_say_nothing_do_no_harm() -> None:
    assert (
        shape(num_kv_shared_layers=0, is_encoder_decoder=False, compress_ratios=[], v_head_dim=64) == shape()
    )


def test_a_config_without_a_family_has_fields_that_are_understood() -> None:
    assert shape(model_type=None, vocab_size=32_000) == shape()


def test_the_family_of_a_multimodal_model_is_that_of_its_language_part() -> None:
    inner = {key: value for key, value in DENSE.items() if key != "model_type"}
    assert shape_from_config({"model_type": "llava", "text_config": DENSE}, "x").full == shape().full
    for outer in ({"model_type": "llava"}, {"model_type": "llama", "is_encoder_decoder": True}):
        with pytest.raises(ConfigError, match=r"model_type='llava'|is_encoder_decoder"):
            shape_from_config({**outer, "text_config": inner}, "x")


def test_names_of_fields_do_nothing_to_a_terminal() -> None:
    with pytest.raises(ConfigError) as caught:
        shape_from_config({"\x1b[31mred\n": 1}, "x")
    assert str(caught.value).isprintable()


def test_an_empty_name_is_no_folder() -> None:
    with pytest.raises(ConfigError, match="model='': the name is empty"):
        load_model_shape("")


def test_many_fields_are_not_all_told() -> None:
    with pytest.raises(ConfigError, match=r"and 8 more$"):
        shape_from_config({f"field_{number:02}": 1 for number in range(20)}, "x")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=6,
)
FIELDS = sorted(
    {field for config in CATALOG.values() for field in config} | set(DENSE) | {"text_config", "dtype"}
)


@given(st.sampled_from(sorted(CATALOG)), st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=4))
def test_any_config_makes_a_shape_or_an_error(model: str, fields: dict[str, object]) -> None:
    try:
        found = shape_from_config({**CATALOG[model], **fields}, "x")
        memory = model_memory(found, block_size=16)
    except ConfigError as error:
        assert "\n" not in str(error)
    else:
        assert memory.bytes_per_token > 0
