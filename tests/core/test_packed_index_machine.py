"""PackedIndex against a dict of lists, step by step: few slots, hashes that meet, clusters that wrap round the end."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from blockpool import KVCacheBlock
from blockpool.core.dict_index import DictIndex
from blockpool.core.packed_index import PackedIndex

from .index_support import PLAIN_SEED, hashed, meeting_hash

NUM_BLOCKS = 24
HASHES = [meeting_hash(home, number) for home in (0, 1, 7, 14, 15) for number in range(3)] + [
    b"",
    b"a",
    b"a\0",
]
each_hash = st.sampled_from(HASHES)
each_id = st.integers(0, NUM_BLOCKS - 1)


class IndexMachine(RuleBasedStateMachine):
    """`model` holds for each hash its blocks in the order of their insertion; `reference` is a DictIndex."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = [KVCacheBlock(i) for i in range(NUM_BLOCKS)]
        self.index = PackedIndex(self.blocks, PLAIN_SEED)
        self.reference = DictIndex()
        self.model: dict[bytes, list[KVCacheBlock]] = {}

    def blank(self) -> list[int]:
        return [block.block_id for block in self.blocks if block.block_hash is None]

    def forget(self, block: KVCacheBlock, block_hash: bytes) -> None:
        self.model[block_hash].remove(block)
        if not self.model[block_hash]:
            del self.model[block_hash]

    @precondition(lambda self: self.blank())
    @rule(data=st.data(), block_hash=each_hash)
    def insert(self, data: st.DataObject, block_hash: bytes) -> None:
        block = hashed(self.blocks, data.draw(st.sampled_from(self.blank())), block_hash)
        assert self.index.takes(block_hash, block)
        self.index.insert(block_hash, block)
        self.reference.insert(block_hash, block)
        self.model.setdefault(block_hash, []).append(block)

    @precondition(lambda self: len(self.blank()) > 3)
    @rule(hashes=st.lists(each_hash, min_size=2, max_size=4))
    def insert_range(self, hashes: list[bytes]) -> None:
        blocks = [self.blocks[block_id] for block_id in self.blank()[: len(hashes)]]
        self.index.insert_range(list(blocks), 0, len(blocks), list(hashes), 0, blocks[0]._home)
        for block, block_hash in zip(blocks, hashes, strict=False):
            self.reference.insert(block_hash, block)
            self.model.setdefault(block_hash, []).append(block)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def insert_again(self, data: st.DataObject) -> None:
        block_hash = data.draw(st.sampled_from(sorted(self.model)))
        block = data.draw(st.sampled_from(self.model[block_hash]))
        self.index.insert(block_hash, block)
        self.reference.insert(block_hash, block)

    @rule(block_hash=each_hash, block_id=st.one_of(each_id, st.sampled_from([-1, NUM_BLOCKS, 2**70])))
    def pop(self, block_hash: bytes, block_id: int) -> None:
        under = self.model.get(block_hash, [])
        expected = next((block for block in under if block.block_id == block_id), None)
        assert self.index.find(block_hash, block_id) is expected
        assert self.index.pop(block_hash, block_id) is expected
        assert self.reference.pop(block_hash, block_id) is expected
        if expected is not None:
            expected.reset_hash()
            self.forget(expected, block_hash)

    @rule(block_ids=st.lists(each_id, max_size=8))
    def evict(self, block_ids: list[int]) -> None:
        blocks = [self.blocks[block_id] for block_id in block_ids]
        expected: list[bytes] = []
        for block in dict.fromkeys(blocks):
            if block._hash is not None:
                expected.append(block._hash)
                self.reference.pop(block._hash, block.block_id)
                self.forget(block, block._hash)
        dropped: list[bytes] = []
        assert self.index.evict(blocks, 0, self.blocks[0]._home, dropped) == (len(blocks), len(expected))
        assert dropped == expected
        assert all(block._hash is None for block in blocks)

    @rule(block_id=each_id)
    def evict_one(self, block_id: int) -> None:
        block = self.blocks[block_id]
        block_hash = block._hash
        self.index.read_ahead(block)
        evicted = self.reference.evict_one(block)
        if evicted:
            hashed(self.blocks, block_id, block_hash or b"")  # both are to take it
        assert self.index.evict_one(block) is evicted is (block_hash is not None)
        assert block._hash is None
        if block_hash is not None:
            self.forget(block, block_hash)

    @rule(block_hash=each_hash)
    def discard(self, block_hash: bytes) -> None:
        assert self.index.discard(block_hash) is self.reference.discard(block_hash)
        for block in self.model.pop(block_hash, []):
            block.reset_hash()

    @rule(hashes=st.lists(each_hash, max_size=6))
    def longest_prefix(self, hashes: list[bytes]) -> None:
        expected = []
        for block_hash in hashes:
            if block_hash not in self.model:
                break
            expected.append(self.model[block_hash][0])
        assert self.index.longest_prefix(list(hashes)) == expected
        assert self.reference.longest_prefix(list(hashes)) == expected

    @invariant()
    def agrees(self) -> None:
        assert self.index.damage() is None
        assert len(self.index) == len(self.model)
        assert self.index.num_blocks() == sum(len(under) for under in self.model.values())
        assert set(self.index.hashes()) == set(self.model)
        for block_hash in HASHES:
            under = self.model.get(block_hash)
            assert self.index.get(block_hash) is (under[0] if under else None)
            entry = self.index.entry(block_hash)
            assert entry == self.reference.entry(block_hash)
            if isinstance(entry, dict):
                assert list(entry.values()) == under


TestIndexMachine = IndexMachine.TestCase
