"""Fetches vLLM's own tests, which only its source distribution has, into a folder; nothing of them is kept here.

    python tests/vllm/fetch_tests.py VERSION FOLDER

Runs in the environment of that vLLM: its source distribution asks for torch before it lets itself be downloaded.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

TOOLS = (
    "cmake",
    "ninja",
    "packaging",
    "setuptools<81",
    "setuptools-scm",
    "setuptools-rust",
    "jinja2",
    "regex",
    "wheel",
)
# Not tests/conftest.py, which imports half of vLLM and what its other tests need.
WANTED = ("tests/__init__.py", "tests/utils.py", "tests/v1/__init__.py", "tests/v1/utils.py")
WANTED_FOLDERS = ("tests/v1/core/", "tests/v1/kv_connector/")
MODELS: dict[str, dict[str, Any]] = {
    "Qwen/Qwen3-0.6B": {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "hidden_size": 1024,
        "intermediate_size": 3072,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "num_hidden_layers": 28,
        "vocab_size": 151936,
        "max_position_embeddings": 40960,
        "torch_dtype": "bfloat16",
    },
    "Qwen/Qwen1.5-7B": {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_attention_heads": 32,
        "num_key_value_heads": 32,
        "num_hidden_layers": 32,
        "vocab_size": 151936,
        "max_position_embeddings": 32768,
        "torch_dtype": "bfloat16",
    },
    "facebook/opt-125m": {
        "architectures": ["OPTForCausalLM"],
        "model_type": "opt",
        "hidden_size": 768,
        "ffn_dim": 3072,
        "num_attention_heads": 12,
        "num_hidden_layers": 12,
        "vocab_size": 50272,
        "max_position_embeddings": 2048,
        "word_embed_proj_dim": 768,
        "torch_dtype": "float16",
    },
}
"""Models that the tests name and take nothing of but the sizes: folders of these names spare the download."""


def download(version: str, folder: Path) -> Path:
    """The source distribution."""
    tools = folder / "tools"
    pip = [sys.executable, "-m", "pip"]
    subprocess.run([*pip, "install", "--target", str(tools), *TOOLS], check=True)
    environment = {
        **os.environ,
        "PYTHONPATH": str(tools),
        "VLLM_TARGET_DEVICE": "empty",
        "VLLM_VERSION_OVERRIDE": version,
    }
    options = ["--no-deps", "--no-binary", "vllm", "--no-build-isolation", "--dest", str(folder)]
    subprocess.run([*pip, "download", *options, f"vllm=={version}"], check=True, env=environment)
    return folder / f"vllm-{version}.tar.gz"


def unpack(archive: Path, folder: Path) -> None:
    """The tests of the block pool and of its callers."""
    with tarfile.open(archive) as packed:
        for member in packed:
            _, _, path = member.name.partition("/")
            if member.isfile() and (path in WANTED or path.startswith(WANTED_FOLDERS)):
                content = packed.extractfile(member)
                assert content is not None
                target = folder / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content.read())


def write_models(folder: Path) -> None:
    """Configurations and a tokenizer of three words, in the place of what would be downloaded."""
    from tokenizers import Tokenizer, models

    for name, config in MODELS.items():
        place = folder / name
        place.mkdir(parents=True, exist_ok=True)
        (place / "config.json").write_text(json.dumps(config), encoding="utf-8")
        words = {"<unk>": 0, "word": 1, "</s>": 2}
        Tokenizer(models.WordLevel(words, unk_token="<unk>")).save(str(place / "tokenizer.json"))
        kind = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "</s>", "unk_token": "<unk>"}
        (place / "tokenizer_config.json").write_text(json.dumps(kind), encoding="utf-8")


def main() -> None:
    """Fetch and lay out."""
    version, folder = sys.argv[1], Path(sys.argv[2]).resolve()  # pip builds in another one
    folder.mkdir(parents=True, exist_ok=True)
    unpack(download(version, folder), folder)
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")  # theirs, not what ours says
    write_models(folder)


if __name__ == "__main__":
    main()
