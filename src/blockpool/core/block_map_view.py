"""A map's content as one mapping by full key, for inspection. Not compiled: a subclass of `MutableMapping`."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import TYPE_CHECKING

from blockpool.core.block_hash import get_block_hash, get_group_id, join_key

if TYPE_CHECKING:
    from blockpool.core.block_map import BlockHashToBlockMap
    from blockpool.core.group_index import Entry


class BlockMapView(MutableMapping[bytes, "Entry"]):
    """Reads and writes through to the map; len() counts keys. Writing does not touch the blocks' own hashes."""

    def __init__(self, block_map: BlockHashToBlockMap) -> None:
        self._map = block_map

    def __getitem__(self, key: bytes) -> Entry:
        entry = self._map.find_group(get_group_id(key)).entry(get_block_hash(key))
        if entry is None:
            raise KeyError(key)
        return entry

    def __setitem__(self, key: bytes, entry: Entry) -> None:
        block_hash = get_block_hash(key)
        self._map.dict_group(get_group_id(key)).put(block_hash, entry)

    def __delitem__(self, key: bytes) -> None:
        if not self._map.find_group(get_group_id(key)).discard(get_block_hash(key)):
            raise KeyError(key)

    def __iter__(self) -> Iterator[bytes]:
        for group_id, index in self._map.groups().items():
            for block_hash in index.hashes():
                yield join_key(block_hash, group_id)

    def __len__(self) -> int:
        return len(self._map)

    def __repr__(self) -> str:
        return repr(dict(self))

    def __copy__(self) -> dict[bytes, Entry]:
        """What stands in it now, as `copy.copy` of a plain dict would keep it."""
        return dict(self)
