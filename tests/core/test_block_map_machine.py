"""BlockHashToBlockMap against a dict of lists, step by step, for both kinds of index."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from blockpool import BlockHashToBlockMap, KVCacheBlock

from .index_support import MAPS
from .support import key

NUM_BLOCKS = 6
KEYS = [key(bytes([i]) * 32, group_id) for i in range(3) for group_id in (0, 1, 2**31, 2**32 - 1)]
each_key = st.sampled_from(KEYS)
each_id = st.integers(0, NUM_BLOCKS - 1)


class MapMachine(RuleBasedStateMachine):
    """`model` holds for each key its blocks in the order of their insertion."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = [KVCacheBlock(i) for i in range(NUM_BLOCKS)]
        self.index = BlockHashToBlockMap()
        self.model: dict[bytes, list[KVCacheBlock]] = {}

    @initialize(kind=st.sampled_from(sorted(MAPS)), hashed=st.booleans())
    def start(self, kind: str, hashed: bool) -> None:
        """With `hashed`, each block carries one of the keys, so that a packed index can hold it there."""
        self.index = MAPS[kind](self.blocks)
        if hashed:
            for block in self.blocks:
                block.block_hash = KEYS[block.block_id % 2]  # type: ignore[assignment]

    @rule(block_id=each_id)
    def insert_under_its_own(self, block_id: int) -> None:
        own_key = self.blocks[block_id].block_hash
        if own_key is not None:
            self.insert(own_key, block_id)

    @rule(full_key=each_key, block_id=each_id)
    def insert_anywhere(self, full_key: bytes, block_id: int) -> None:
        self.insert(full_key, block_id)

    def insert(self, full_key: bytes, block_id: int) -> None:
        block = self.blocks[block_id]
        self.index.insert(full_key, block)
        under = self.model.setdefault(full_key, [])
        if block not in under:
            under.append(block)

    @rule(full_key=each_key, block_id=st.one_of(each_id, st.sampled_from([-1, NUM_BLOCKS, 2**40])))
    def pop(self, full_key: bytes, block_id: int) -> None:
        under = self.model.get(full_key, [])
        expected = next((block for block in under if block.block_id == block_id), None)
        assert self.index.pop(full_key, block_id) is expected
        if expected is not None:
            under.remove(expected)
            if not under:
                del self.model[full_key]

    @rule(full_key=each_key)
    def pop_all_of_one_key(self, full_key: bytes) -> None:
        for block in self.model.pop(full_key, []):
            assert self.index.get_one_block(full_key) is block
            assert self.index.pop(full_key, block.block_id) is block
        assert self.index.get_one_block(full_key) is None

    @invariant()
    def agrees(self) -> None:
        assert len(self.index) == len(self.model)
        assert self.index.num_duplicates() == sum(len(under) - 1 for under in self.model.values())
        for full_key in KEYS:
            under = self.model.get(full_key)
            assert self.index.get_one_block(full_key) is (under[0] if under else None)

    @invariant()
    def the_view_agrees(self) -> None:
        view = self.index._cache
        assert set(view) == set(self.model)
        for full_key, under in self.model.items():
            entry = view[full_key]
            found = list(entry.values()) if isinstance(entry, dict) else [entry]
            assert found == under
            if isinstance(entry, dict):
                assert list(entry) == [block.block_id for block in under]


TestMapMachine = MapMachine.TestCase
