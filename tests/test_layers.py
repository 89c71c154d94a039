"""The rules that keep the package in layers, read off the source by `ast`; nothing of it is imported."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parent.parent
PACKAGE = CHECKOUT / "src" / "blockpool"

if not PACKAGE.is_dir():
    pytest.skip("src/ is out of sight; the layers are checked in a checkout", allow_module_level=True)

# Each may import what stands before it, and itself. `__init__` only names what the core offers.
LAYERS = [
    "errors", "core", "kv_cache", "trace", "replay", "events", "integrations", "demo", "commands", "cli", "__main__"
]  # fmt: skip
INIT_MAY_IMPORT = {"errors", "core", "kv_cache"}
# Who may use the package's own `__init__`, which stands above the core.
MAY_IMPORT_PACKAGE = {"integrations", "commands", "cli", "__main__"}
CORE_MAY_IMPORT = {"librt", "mypy_extensions"}
CORE_MAY_IMPORT_LATE = {"xxhash"}  # inside a function, by the algorithms that need it
# What reads a clock, a random source or the environment: whole modules, or names of one.
AMBIENT_MODULES = {"datetime", "platform", "random", "secrets", "socket", "time", "uuid"}
AMBIENT_NAMES = {"os": {"environ", "environb", "getenv", "getpid", "getrandom", "uname", "urandom"}}
MAX_LINES = 400
HOME = re.compile(r"(?<![\w.])/(?:work|root|home|tmp/w)\b")

SOURCES = sorted(PACKAGE.rglob("*.py"))
CORE = [path for path in SOURCES if path.relative_to(PACKAGE).parts[0] == "core"]


def layer_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def name_of(path: Path) -> str:
    return path.relative_to(CHECKOUT).as_posix()


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def imports_of(path: Path) -> Iterator[tuple[int, str]]:
    """Line and dotted name of every import, wherever it stands; relative ones made absolute."""
    package = ["blockpool", *path.relative_to(PACKAGE).parts[:-1]]
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            if module == "blockpool":
                for alias in node.names:
                    inner = (PACKAGE / alias.name).is_dir() or (PACKAGE / f"{alias.name}.py").is_file()
                    yield node.lineno, f"blockpool.{alias.name}" if inner else "blockpool"
            else:
                yield node.lineno, module


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_imports_only_what_stands_below(path: Path) -> None:
    layer = layer_of(path)
    allowed = INIT_MAY_IMPORT if layer == "__init__" else set(LAYERS[: LAYERS.index(layer) + 1])
    wrong = []
    for line, name in imports_of(path):
        top, _, rest = name.partition(".")
        if top != "blockpool":
            continue
        inner = rest.partition(".")[0]
        if inner not in allowed and not (not inner and layer in MAY_IMPORT_PACKAGE):
            wrong.append(f"{name_of(path)}:{line}: {layer} imports {name}")
    assert not wrong


@pytest.mark.parametrize("path", CORE, ids=name_of)
def test_core_needs_only_the_standard_library_and_the_compilers_runtime(path: Path) -> None:
    tree = tree_of(path)
    late = {
        id(inner) for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""] if not node.level else []
        else:
            continue
        for name in names:
            top = name.partition(".")[0]
            allowed = (
                top in sys.stdlib_module_names
                or top == "blockpool"
                or top in CORE_MAY_IMPORT
                or (top in CORE_MAY_IMPORT_LATE and id(node) in late)
            )
            assert allowed, f"{name_of(path)}:{node.lineno} imports {name}"


@pytest.mark.parametrize("path", CORE, ids=name_of)
def test_core_reads_no_clock_chance_or_environment_of_its_own(path: Path) -> None:
    """A default of a parameter may name such a source; the body may not use one."""
    tree = tree_of(path)
    defaults: set[int] = set()
    aliases: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            given = [*node.args.defaults, *(default for default in node.args.kw_defaults if default)]
            defaults.update(id(inner) for default in given for inner in ast.walk(default))
        elif isinstance(node, ast.Import):
            aliases.update({alias.asname or alias.name: alias.name for alias in node.names})
        elif isinstance(node, ast.ImportFrom) and not node.level:
            ambient = AMBIENT_NAMES.get(node.module or "", set())
            taken = [alias.name for alias in node.names if alias.name in ambient]
            assert not taken, f"{name_of(path)}:{node.lineno} takes {taken} of {node.module}"
            assert node.module not in AMBIENT_MODULES, f"{name_of(path)}:{node.lineno}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and id(node) not in defaults:
            module = aliases.get(node.value.id, "")
            reads = module in AMBIENT_MODULES or node.attr in AMBIENT_NAMES.get(module, set())
            assert not reads, f"{name_of(path)}:{node.lineno} reads {module}.{node.attr}"


# A pickle runs what its sender wants. `core` writes them, because vLLM hashes them.
PICKLING_MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle"}
UNPICKLING = {"load", "loads", "Unpickler"}


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_nothing_is_unpickled(path: Path) -> None:
    imported = {name.partition(".")[0] for _, name in imports_of(path)}
    assert layer_of(path) == "core" or not imported & PICKLING_MODULES
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Attribute):
            assert node.attr not in {"recv_pyobj", "send_pyobj"}
            if isinstance(node.value, ast.Name) and node.value.id in PICKLING_MODULES:
                assert node.attr not in UNPICKLING, f"line {node.lineno}"


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_files_are_short_and_well_named(path: Path) -> None:
    assert path.stem not in {"utils", "util", "helpers", "common", "misc"}
    assert not re.search(r"_?v\d+$", path.stem), "no version suffixes"
    if layer_of(path) != "__init__":
        lines = len(path.read_text(encoding="utf-8").splitlines())
        assert lines <= MAX_LINES, f"{name_of(path)} has {lines} lines, more than {MAX_LINES}"


def test_no_file_names_a_place_of_one_machine() -> None:
    """Paths are relative to the checkout, or come from the user."""
    kinds = {".py", ".md", ".toml", ".in", ".txt", ""}
    folders = ("src", "tests", "benchmarks", "docs", "examples", ".ci")
    # In a worktree of git, .git is a file that names where the main checkout stands.
    files = [path for path in CHECKOUT.iterdir() if path.is_file() and path.name != ".git"]
    files += [path for folder in folders for path in (CHECKOUT / folder).rglob("*") if path.is_file()]
    named = [
        f"{path.relative_to(CHECKOUT).as_posix()}:{number}: {line.strip()[:80]}"
        for path in files
        if path.suffix in kinds and path != Path(__file__).resolve() and ".egg-info" not in str(path)
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if HOME.search(line)
    ]
    assert not named


def test_every_file_of_the_package_stands_in_a_known_layer() -> None:
    assert {layer_of(path) for path in SOURCES} <= {*LAYERS, "__init__"}
