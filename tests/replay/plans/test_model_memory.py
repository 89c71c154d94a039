"""Bytes per token, block and request, against figures that others have published or measured."""

from __future__ import annotations

from typing import Any

import pytest

from blockpool import ConfigError
from blockpool.replay.plans.kv_dtype import KV_DTYPES, bytes_of_row
from blockpool.replay.plans.model_catalog import CATALOG, load_model_shape
from blockpool.replay.plans.model_config import shape_from_config
from blockpool.replay.plans.model_memory import ModelMemory, layers_with_padding, model_memory

KIB, MIB, GIB = 2**10, 2**20, 2**30


def memory_of(model: str, **options: Any) -> ModelMemory:
    return model_memory(load_model_shape(model), **{"block_size": 16, **options})


def memory_of_config(config: dict[str, object], **options: Any) -> ModelMemory:
    return model_memory(shape_from_config(config, "config"), **{"block_size": 16, **options})


# --- published per token


@pytest.mark.parametrize(
    ("model", "bytes_per_token"),
    [
        # Zhao et al., "Insights into DeepSeek-V3", arXiv:2505.09343, table 1 (thousands of bytes).
        ("deepseek-v3", 70_272),
        ("qwen2.5-72b", 327_680),
        ("llama-3.1-405b", 516_096),
        # llama.cpp at 2,048 tokens, f16: 256 and 640 MiB, in huggingface.co/dranger003/
        # c4ai-command-r-v01-iMat.GGUF/discussions/6.
        ("llama-3-8b", 256 * MIB // 2048),
        ("llama-3-70b", 640 * MIB // 2048),
        # Lieber et al., "Jamba", arXiv:2403.19887, table 1: 4 and 32 GB at 256K tokens.
        ("jamba-v0.1", 4 * GIB // (256 * KIB)),
        ("mistral-7b-v0.1", 32 * GIB // (256 * KIB)),
        # By hand from the configs: 2 · layers · heads · head_dim · 2.
        ("qwen3-8b", 2 * 36 * 8 * 128 * 2),
        ("qwen3-32b", 2 * 64 * 8 * 128 * 2),
        ("qwen3-235b-a22b", 2 * 94 * 4 * 128 * 2),
        ("qwen3-next-80b-a3b", 2 * 12 * 2 * 256 * 2),
        ("nemotron-h-8b", 2 * 4 * 8 * 128 * 2),
        ("gpt-oss-120b", 2 * 18 * 8 * 64 * 2),
        ("gemma-2-27b", 2 * 23 * 16 * 128 * 2),
        ("gemma-3-27b", 2 * 10 * 16 * 128 * 2),
        ("deepseek-r1", 61 * (512 + 64) * 2),
        ("kimi-k2", 61 * (512 + 64) * 2),
    ],
)
def test_bytes_per_token(model: str, bytes_per_token: int) -> None:
    memory = memory_of(model)
    assert memory.kv_dtype == "bf16"
    assert memory.bytes_per_token == bytes_per_token
    assert memory.bytes_per_block == 16 * bytes_per_token


def test_every_built_in_model_is_in_the_table_above() -> None:
    parameters = test_bytes_per_token.pytestmark[0].args[1]  # type: ignore[attr-defined]
    assert {model for model, _ in parameters} == set(CATALOG)


def test_qwen3_32b_with_one_byte_per_value() -> None:
    # "128KB on Qwen3" per 8-bit token, as users of vLLM report.
    assert memory_of("qwen3-32b", kv_dtype="fp8").bytes_per_token == 128 * KIB


def test_deepseek_v3_quantised_as_measured_by_llama_cpp() -> None:
    # github.com/ikawrakow/ik_llama.cpp/issues/296: "KV self size = 1166.62 MiB, c^KV (q8_0)", 32,768 tokens.
    assert 32_768 * memory_of("deepseek-v3", kv_dtype="q8_0").bytes_per_token / MIB == 1166.625


def test_gemma_3_as_measured_by_llama_server() -> None:
    # github.com/unslothai/unsloth/pull/5225, Gemma-3-270m: 27 MiB at 4,096 and 39 MiB at 8,192 tokens; what
    # grows are 3 of 18 layers. llama.cpp keeps two windows of the others.
    gemma: dict[str, object] = {
        "model_type": "gemma3_text",
        "num_hidden_layers": 18,
        "num_attention_heads": 4,
        "num_key_value_heads": 1,
        "head_dim": 256,
        "sliding_window": 512,
        "torch_dtype": "bfloat16",
    }
    memory = memory_of_config(gemma)
    assert 4096 * memory.bytes_per_token == (39 - 27) * MIB
    assert 4096 * memory.bytes_per_token + 2 * 512 * memory.window_bytes_per_token == 27 * MIB


# --- GPUs


def test_llama_3_70b_on_eight_gpus() -> None:
    # The KVDirect paper, as quoted in github.com/TensorDirect/KVDirect/issues/2: 640 MB for a prompt of 16K
    # tokens of a 70B model on one of eight GPUs.
    assert 16 * KIB * memory_of("llama-3-70b", tensor_parallel=8).bytes_per_token == 640 * MIB


@pytest.mark.parametrize(("gpus", "heads"), [(1, 4), (2, 2), (4, 1), (8, 1), (16, 1)])
def test_heads_are_split_and_then_copied(gpus: int, heads: int) -> None:
    memory = memory_of("qwen3-235b-a22b", tensor_parallel=gpus)
    assert memory.bytes_per_token == 2 * 94 * heads * 128 * 2


def test_a_latent_vector_is_on_every_gpu() -> None:
    assert memory_of("deepseek-v3", tensor_parallel=8) == memory_of("deepseek-v3")


@pytest.mark.parametrize(
    ("model", "gpus"),
    [
        ("llama-3-8b", 3),
        ("llama-3-8b", 1024),  # 32 query heads, although 8 KV heads could be copied 128 times
        ("deepseek-v3", 7),  # its latent vector is not split, its 128 heads are
        ("jamba-v0.1", 16384),
    ],
)
def test_what_cannot_be_split(model: str, gpus: int) -> None:
    with pytest.raises(ConfigError, match=r"does not divide the model's \d+ query heads") as caught:
        memory_of(model, tensor_parallel=gpus)
    assert (caught.value.field, caught.value.value) == ("tensor_parallel", gpus)


def test_kv_heads_that_cannot_be_split() -> None:
    config = {**CATALOG["llama-3-8b"], "num_attention_heads": 48, "num_key_value_heads": 8}
    with pytest.raises(ConfigError, match="does not divide the model's 8 KV heads"):
        memory_of_config(config, tensor_parallel=12)


# --- dtypes


@pytest.mark.parametrize(
    ("dtype", "size"),
    [
        ("fp32", 512),
        ("bf16", 256),
        ("fp16", 256),
        ("fp8", 128),
        ("int8", 128),
        ("fp4", 64),
        ("int4", 64),
        ("nvfp4", 72),
        ("q8_0", 136),
        ("q4_0", 72),
    ],
)
def test_bytes_of_a_head_of_128(dtype: str, size: int) -> None:
    assert bytes_of_row(128, dtype) == size
    assert memory_of("llama-3-8b", kv_dtype=dtype).bytes_per_token == 2 * 32 * 8 * size


def test_all_dtypes_are_in_the_table_above() -> None:
    parameters = test_bytes_of_a_head_of_128.pytestmark[0].args[1]  # type: ignore[attr-defined]
    assert {"auto"} | {dtype for dtype, _ in parameters} == set(KV_DTYPES)


def test_a_pack_that_is_not_full_counts_whole() -> None:
    assert [bytes_of_row(count, "nvfp4") for count in (0, 1, 16, 17)] == [0, 9, 9, 18]


def test_an_unknown_dtype() -> None:
    with pytest.raises(ConfigError, match="kv_dtype='fp7': must be one of auto, bf16"):
        memory_of("llama-3-8b", kv_dtype="fp7")


# --- windows and states


def test_windows_are_a_constant_part_of_each_request() -> None:
    # 18 layers, a window of 128: 127 tokens reach into 9 blocks of 16.
    memory = memory_of("gpt-oss-120b")
    assert memory.window_bytes_per_request == 18 * 9 * 16 * 2 * 8 * 64 * 2
    assert (memory.state_bytes_per_request, memory.windows_in_pool) == (0, False)
    assert memory.bytes_per_request == memory.window_bytes_per_request


def test_windows_in_groups_as_vllm_makes_them() -> None:
    # 10 layers see all; 52 with a window make 6 groups of 10, the last one with padding.
    shape = load_model_shape("gemma-3-27b")
    assert layers_with_padding(shape, 52) == 60
    assert memory_of("gemma-3-27b").window_bytes_per_request == 60 * 65 * 16 * 2 * 16 * 128 * 2


def test_kinds_of_nearly_equal_number_make_one_group_each() -> None:
    # vLLM's example: 12 layers with a window and 13 without are 13 and 13.
    kinds = ["sliding_attention"] * 12 + ["full_attention"] * 13
    shape = shape_from_config(
        {
            "num_hidden_layers": 25,
            "num_attention_heads": 64,
            "num_key_value_heads": 8,
            "head_dim": 64,
            "sliding_window": 128,
            "layer_types": kinds,
        },
        "x",
    )
    assert (layers_with_padding(shape, 12), layers_with_padding(shape, 13)) == (13, 13)


def test_a_model_of_windows_only_is_sized_as_if_they_were_none() -> None:
    memory = memory_of("mistral-7b-v0.1")
    assert memory.windows_in_pool
    assert memory.bytes_per_token == memory.window_bytes_per_token == memory_of("llama-3-8b").bytes_per_token
    assert memory.bytes_per_request == 0


def test_states_by_hand() -> None:
    # Mamba 1: 8,192 channels, 3 steps and a state of 16 each, 28 layers.
    assert memory_of("jamba-v0.1").state_bytes_per_request == 28 * 8192 * (3 + 16) * 2
    # Mamba 2: 128 heads of 64, 8 groups of B and C with 128 channels each, 24 layers.
    assert memory_of("nemotron-h-8b").state_bytes_per_request == 24 * 2 * (
        3 * (128 * 64 + 2 * 8 * 128) + 128 * 64 * 128
    )
    # Gated delta net: 2 · 16 · 128 channels of keys and queries, 32 · 128 of values, 36 layers.
    assert memory_of("qwen3-next-80b-a3b").state_bytes_per_request == 36 * 2 * (
        3 * (2 * 16 * 128 + 32 * 128) + 32 * 128 * 128
    )


def test_states_are_split_and_their_groups_copied() -> None:
    one, eight = (memory_of("nemotron-h-8b", tensor_parallel=gpus) for gpus in (1, 8))
    assert eight.state_bytes_per_request * 8 == one.state_bytes_per_request
    sixteen = memory_of("nemotron-h-8b", tensor_parallel=16)
    assert sixteen.state_bytes_per_request * 16 == 24 * 2 * (3 * (128 * 64 + 2 * 16 * 128) + 128 * 64 * 128)


LINEAR = {
    "layer_types": ["linear_attention", "linear_attention", "linear_attention", "full_attention"] * 16,
    "num_hidden_layers": 64,
    "num_attention_heads": 24,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 48,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
    "mamba_ssm_dtype": "float32",
}
NEMOTRON_NANO_9B = {
    "hybrid_override_pattern": "M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-",
    "num_hidden_layers": 56,
    "num_attention_heads": 40,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "mamba_num_heads": 128,
    "mamba_head_dim": 80,
    "n_groups": 8,
    "ssm_state_size": 128,
    "conv_kernel": 4,
}


def test_block_sizes_that_vllm_has_chosen() -> None:
    # github.com/vllm-project/vllm/pull/32492: "qwen3-next … uses non-standard block size (544)".
    assert memory_of("qwen3-next-80b-a3b").vllm_block_size == 544
    # github.com/LMCache/LMCache/pull/5079: "Setting attention block size to 784 tokens", Qwen3.6-27B.
    assert memory_of_config({"text_config": LINEAR, "dtype": "bfloat16"}).vllm_block_size == 784
    # github.com/vllm-project/vllm/issues/24280: "672 tokens for nvidia/NVIDIA-Nemotron-Nano-9B-v2".
    assert memory_of_config({**NEMOTRON_NANO_9B, "torch_dtype": "bfloat16"}).vllm_block_size == 672
    assert memory_of("llama-3-8b").vllm_block_size is None
