"""Build backend: setuptools, plus the choice between a compiled and an interpreted build.

``BLOCKPOOL_COMPILE`` decides:

* ``1`` insists: mypyc is a build requirement and a failing compile fails the build;
* ``0`` forbids: mypyc is neither needed nor fetched, the wheel is pure Python;
* unset: compiled when a C compiler and Python's headers are there; when the compile fails, a warning says so and
  the build is pure Python. Editable installs stay interpreted unless ``1`` is given, so that
  no stale extension module lies beside its source.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (
    build_sdist,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

COMPILER_REQUIREMENT = "mypy>=2.4,<2.5"
SWITCH = "BLOCKPOOL_COMPILE"

Settings = dict[str, Any] | None


def _wish() -> str:
    """The switch: "1", "0" or "" for unset; anything else stops the build."""
    wish = os.environ.get(SWITCH, "")
    if wish not in ("", "0", "1"):
        raise SystemExit(f"{SWITCH} must be 0, 1 or unset, not {wish!r}")
    return wish


def _has_c_compiler() -> bool:
    """Whether the compile can work at all; the Makefile asks the same before it insists."""
    if sys.platform == "win32":
        return True  # setuptools finds MSVC by itself, or fails and we fall back
    command = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    words = shlex.split(command)
    header = Path(sysconfig.get_path("include"), "Python.h")
    return bool(words) and shutil.which(words[0]) is not None and header.exists()


def _warn(reason: str) -> None:
    line = "*" * 78
    print(
        f"{line}\nWARNING: blockpool is built WITHOUT its compiled core: {reason}.\n"
        f"It works, several times slower. Set {SWITCH}=1 to make this an error.\n{line}",
        file=sys.stderr,
        flush=True,
    )


def _interpreted(build: Callable[[], str]) -> str:
    os.environ[SWITCH] = "0"
    return build()


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    """mypyc, unless the compile is forbidden or cannot work."""
    wish = _wish()
    if wish == "1" or (wish == "" and _has_c_compiler()):
        return [COMPILER_REQUIREMENT]
    return []


def get_requires_for_build_editable(config_settings: Settings = None) -> list[str]:
    """mypyc, only when insisted on."""
    return [COMPILER_REQUIREMENT] if _wish() == "1" else []


def build_wheel(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Build a compiled wheel, or a pure one: see the module's docstring."""

    def build() -> str:
        return str(build_meta.build_wheel(wheel_directory, config_settings, metadata_directory))

    if _wish() in ("0", "1"):
        return build()
    if not _has_c_compiler():
        _warn("no C compiler with Python's headers was found")
        return _interpreted(build)
    os.environ[SWITCH] = "1"
    try:
        return build()
    except (Exception, SystemExit) as error:
        _warn(f"the compile failed ({type(error).__name__}: {str(error)[:100]}, see above)")
        return _interpreted(build)


def build_editable(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Build an editable install, interpreted unless the compile is insisted on."""
    os.environ[SWITCH] = _wish() or "0"
    return str(build_meta.build_editable(wheel_directory, config_settings, metadata_directory))
