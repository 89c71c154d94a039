"""`make test-vllm` tests what it says: this build of ours, vLLM 0.16.0, and no CUDA build of torch."""

from __future__ import annotations

import os

import pytest

import blockpool
from benchmarks import peer as peer_module

from . import environment


def test_the_build_is_the_one_meant() -> None:
    expected = os.environ.get("BLOCKPOOL_EXPECT")
    if expected is None:
        pytest.skip("BLOCKPOOL_EXPECT is not set: `make test` and `make test-vllm` set it")
    assert blockpool.COMPILED is (expected == "compiled")


def test_vllm_is_the_real_one() -> None:
    reason = peer_module.missing(peer_module.load_whole)
    if reason is not None:
        pytest.skip(reason)
    import torch
    import vllm

    assert vllm.__version__.startswith(peer_module.VERSION)
    assert torch.version.cuda is None
    whole = peer_module.load_whole()
    assert whole.kv_cache_manager.KVCacheManager.__module__ == "vllm.v1.core.kv_cache_manager"
    assert isinstance(whole.torch_dtype, torch.dtype)


def test_a_version_that_may_be_a_cuda_build_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "pip", lambda *arguments: pytest.fail("nothing may be installed"))
    with pytest.raises(SystemExit, match="ends in \\+cpu"):
        environment.install_torch(["2.10.0"], [])


def test_without_a_cpu_build_it_is_said_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def refuse(*arguments: str) -> None:
        asked.append(arguments)
        raise environment.subprocess.CalledProcessError(1, "pip")

    monkeypatch.setattr(environment, "pip", refuse)
    with pytest.raises(SystemExit, match="TORCH_FIND_LINKS"):
        environment.install_torch(["2.10.0+cpu", "2.13.0+cpu"], ["--find-links", "wheels"])
    assert asked == [
        ("install", f"torch=={version}", "--find-links", "wheels") for version in ("2.10.0+cpu", "2.13.0+cpu")
    ]


def test_the_build_that_vllm_names_is_tried_first_and_no_other_kind() -> None:
    assert environment.torch_versions(["torch==2.10.0+cpu"]) == ["2.10.0+cpu", "2.13.0+cpu"]
    assert environment.torch_versions(["torch==2.13.0+cpu"]) == ["2.13.0+cpu"]
    assert environment.torch_versions(["torch==2.10.0", "torch>=2.9"]) == ["2.13.0+cpu"]
