"""What is installed, what is compiled, what the distributions hold, and how the build decides."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import sys
import tarfile
import zipfile
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import ModuleType

import pytest

import blockpool

CHECKOUT = Path(__file__).resolve().parent.parent
INSTALLED = Path(blockpool.__file__).resolve().parent
CORE_SOURCE = CHECKOUT / "src" / "blockpool" / "core"
# Of the replay: the hot part of `blockpool curve`.
COMPILED_PASS = {
    "hit_histogram",
    "integer_lists",
    "key_sampler",
    "policies",
    "recency_list",
    "stack_distance",
}
# The managers that a scheduler calls at every step.
COMPILED_MANAGERS = {
    "admission",
    "blocks",
    "caching_coordinators",
    "checks",
    "chunked_local",
    "coordinator",
    "cross_attention",
    "demand",
    "found_hit",
    "full_attention",
    "lookups",
    "mamba",
    "manager",
    "outlook",
    "single_type_manager",
    "sliding_window",
}
# Interpreted on purpose: aliases and protocols, subclasses of abstract collections, the docstring.
NOT_COMPILED = {"__init__", "types", "block_hash_list", "block_list", "block_map_view"}

in_checkout = pytest.mark.skipif(
    not (CHECKOUT / "setup.py").is_file(), reason="no setup.py here: the tests run without the checkout"
)


def extension_modules(folder: Path) -> set[str]:
    files = (path.name for path in folder.rglob("*") if path.is_file())
    return {name for name in files if name.endswith(tuple(EXTENSION_SUFFIXES))}


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, CHECKOUT / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    pytest.importorskip("setuptools")
    monkeypatch.delenv("BLOCKPOOL_COMPILE", raising=False)
    return load("build_backend")


# --- the installed package


def test_compiled_says_what_runs() -> None:
    pool_file = importlib.import_module("blockpool.core.pool").__file__
    assert pool_file is not None
    is_extension = pool_file.endswith(tuple(EXTENSION_SUFFIXES))
    assert is_extension == blockpool.COMPILED


def test_the_expected_build_is_tested() -> None:
    expected = os.environ.get("BLOCKPOOL_EXPECT")
    if expected is None:
        pytest.skip("BLOCKPOOL_EXPECT is not set: `make test` sets it to the build that it means")
    assert expected == ("compiled" if blockpool.COMPILED else "interpreted")
    assert CHECKOUT / "src" not in INSTALLED.parents, "the tests must run against an installed wheel"


def test_source_folder_holds_no_extension_module() -> None:
    assert not extension_modules(CORE_SOURCE.parent)


def test_installed_files() -> None:
    assert (INSTALLED / "py.typed").is_file()
    assert list((INSTALLED / "trace" / "data").glob("*.gz")), "the demo trace ships with the package"
    assert not list(INSTALLED.rglob("*.c"))
    if blockpool.COMPILED:
        names = {name.partition(".")[0] for name in extension_modules(INSTALLED)}
        assert "_compiled__mypyc" in names
        sources = {path.stem for path in (INSTALLED / "core").glob("*.py")}
        assert names - {"_compiled__mypyc"} == (sources - NOT_COMPILED) | COMPILED_PASS | COMPILED_MANAGERS
        record = importlib.metadata.files("blockpool") or []
        libraries = [file for file in record if file.name.endswith(tuple(EXTENSION_SUFFIXES))]
        assert all(file.parts[0] == "blockpool" for file in libraries), "no hash-named library at top level"
    else:
        assert not extension_modules(INSTALLED)


def test_metadata() -> None:
    metadata = importlib.metadata.metadata("blockpool")
    assert metadata["Version"] == blockpool.__version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.10"
    extras = {"hash", "cli", "demo", "events", "prometheus", "report", "vllm", "dev"}
    assert set(metadata.get_all("Provides-Extra") or []) == extras
    always = [line for line in importlib.metadata.requires("blockpool") or [] if "extra ==" not in line]
    assert {re.split(r"[<>=!~ ]", line)[0] for line in always} == {"librt", "mypy_extensions"}


# --- what is compiled


@in_checkout
def test_every_core_module_is_listed_as_compiled_or_not() -> None:
    text = (CHECKOUT / "setup.py").read_text(encoding="utf-8")
    block = text[text.index("COMPILED_MODULES") : text.index(")\n", text.index("COMPILED_MODULES"))]
    listed = re.findall(r'"(\w+)"', block)
    assert listed == sorted(set(listed))
    present = {path.stem for path in CORE_SOURCE.glob("*.py")}
    assert set(listed) == present - NOT_COMPILED


# --- the distributions, when `make wheel-test` has built them


@pytest.fixture
def distributions() -> Path:
    folder = os.environ.get("BLOCKPOOL_DIST")
    if folder is None:
        pytest.skip("BLOCKPOOL_DIST is not set: `make wheel-test` builds the distributions and sets it")
    return Path(folder)


def test_wheel_holds_the_package_and_nothing_else(distributions: Path) -> None:
    (wheel,) = distributions.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    about = f"blockpool-{blockpool.__version__}.dist-info"
    assert {name.partition("/")[0] for name in names} == {"blockpool", about}
    assert "blockpool/py.typed" in names
    assert f"{about}/licenses/LICENSE" in names
    assert [name for name in names if name.startswith("blockpool/trace/data/") and name.endswith(".gz")]
    assert not [name for name in names if name.endswith((".c", ".pyc", ".md"))]
    compiled = [name for name in names if name.endswith(tuple(EXTENSION_SUFFIXES))]
    assert all(
        name.startswith(("blockpool/core/", "blockpool/kv_cache/", "blockpool/replay/")) for name in compiled
    )
    assert ("none-any" in wheel.name) == (not compiled), "the tag says whether it is compiled"


def files_under(folder: str) -> set[str]:
    paths = [path for path in (CHECKOUT / folder).rglob("*") if path.is_file()]
    return {path.relative_to(CHECKOUT).as_posix() for path in paths if path.parent.name != "__pycache__"}


def test_sdist_holds_what_a_build_and_a_test_need(distributions: Path) -> None:
    (sdist,) = distributions.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {member.name.partition("/")[2] for member in archive if member.isfile()}
    for needed in ("pyproject.toml", "setup.py", "build_backend.py", "LICENSE", "Makefile"):
        assert needed in names
    assert "src/blockpool/py.typed" in names
    for folder in ("tests", "benchmarks", "docs", "examples"):
        packed = {name for name in names if name.startswith(f"{folder}/")}
        assert packed == files_under(folder), f"MANIFEST.in leaves out, or adds, files of {folder}/"
    assert not [name for name in names if name.endswith((".c", ".so", ".pyc", ".pyd"))]


# --- how the build decides


@in_checkout
def test_compiler_is_asked_for_only_when_wanted(backend: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = [backend.COMPILER_REQUIREMENT]
    monkeypatch.setattr(backend, "_has_c_compiler", lambda: True)
    assert backend.get_requires_for_build_wheel() == wanted
    assert backend.get_requires_for_build_editable() == []
    monkeypatch.setattr(backend, "_has_c_compiler", lambda: False)
    assert backend.get_requires_for_build_wheel() == []
    monkeypatch.setenv("BLOCKPOOL_COMPILE", "1")
    assert backend.get_requires_for_build_wheel() == wanted
    assert backend.get_requires_for_build_editable() == wanted
    monkeypatch.setenv("BLOCKPOOL_COMPILE", "0")
    assert backend.get_requires_for_build_wheel() == []


@in_checkout
def test_a_compiler_without_the_headers_is_none(
    backend: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if os.name == "nt":
        pytest.skip("on this platform setuptools looks for the compiler")
    monkeypatch.setenv("CC", sys.executable)
    monkeypatch.setattr(backend.sysconfig, "get_path", lambda name: str(tmp_path))
    assert not backend._has_c_compiler()
    (tmp_path / "Python.h").touch()
    assert backend._has_c_compiler()
    monkeypatch.setenv("CC", "no-such-compiler")
    assert not backend._has_c_compiler()


class FakeSetuptools:
    """Builds nothing; a compile fails, as often as it is told to."""

    def __init__(self, compile_fails: bool) -> None:
        self.compile_fails = compile_fails
        self.switches: list[str | None] = []

    def build_wheel(self, *_: object) -> str:
        switch = os.environ.get("BLOCKPOOL_COMPILE")
        self.switches.append(switch)
        if switch == "1" and self.compile_fails:
            raise SystemExit("error: command 'cc' failed")
        return "blockpool.whl"


@in_checkout
@pytest.mark.parametrize(
    ("wish", "compiler", "fails", "switches", "warning"),
    [
        ("", True, False, ["1"], None),
        ("", True, True, ["1", "0"], "the compile failed"),
        ("", False, False, ["0"], "no C compiler with Python's headers was found"),
        ("0", True, False, ["0"], None),
        ("1", True, False, ["1"], None),
    ],
)
def test_build_falls_back_only_when_the_choice_is_left_to_it(
    backend: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    wish: str,
    compiler: bool,
    fails: bool,
    switches: list[str],
    warning: str | None,
) -> None:
    fake = FakeSetuptools(fails)
    monkeypatch.setattr(backend, "build_meta", fake)
    monkeypatch.setattr(backend, "_has_c_compiler", lambda: compiler)
    monkeypatch.setenv("BLOCKPOOL_COMPILE", wish)
    assert backend.build_wheel("unused") == "blockpool.whl"
    assert fake.switches == switches
    said = capsys.readouterr().err
    assert (warning in said and "WITHOUT its compiled core" in said) if warning else said == ""


@in_checkout
def test_insisting_makes_a_failing_compile_an_error(
    backend: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "build_meta", FakeSetuptools(compile_fails=True))
    monkeypatch.setenv("BLOCKPOOL_COMPILE", "1")
    with pytest.raises(SystemExit, match="cc"):
        backend.build_wheel("unused")


@in_checkout
def test_a_mistyped_switch_stops_the_build(backend: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BLOCKPOOL_COMPILE", "yes")
    with pytest.raises(SystemExit, match="must be 0, 1 or unset"):
        backend.build_wheel("unused")
