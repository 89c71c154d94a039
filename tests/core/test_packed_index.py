"""PackedIndex: the table itself. Its answers are compared with a model in test_packed_index_machine.py."""

import itertools
import random
from collections.abc import Callable

import pytest

from blockpool import (
    ArgumentError,
    BlockPool,
    BlockStateError,
    ConfigError,
    HashAlreadySetError,
    KVCacheBlock,
)
from blockpool.core.arguments import random_seed
from blockpool.core.block import group_of, home_of
from blockpool.core.hash_mixer import SEED_BYTES
from blockpool.core.packed_index import PackedIndex

from .index_support import PLAIN_SEED, hashed, meeting_hash, searches


def filled(hashes: list[bytes], seed: bytes = PLAIN_SEED) -> tuple[PackedIndex, list[KVCacheBlock]]:
    blocks = [KVCacheBlock(i) for i in range(len(hashes))]
    index = PackedIndex(blocks, seed)
    for block_id, block_hash in enumerate(hashes):
        index.insert(block_hash, hashed(blocks, block_id, block_hash))
    return index, blocks


def words(*values: int) -> bytes:
    return b"".join(value.to_bytes(8, "little") for value in values)


def test_it_grows_and_stays_at_most_half_full() -> None:
    hashes = [random.Random(i).randbytes(32) for i in range(600)]
    index, blocks = filled(hashes)
    assert len(index._table) == 2048
    assert index.damage() is None
    assert [index.get(block_hash) for block_hash in hashes] == blocks


def test_a_range_makes_room_once_for_all() -> None:
    hashes = [random.Random(i).randbytes(32) for i in range(9)]
    blocks = [KVCacheBlock(i) for i in range(9)]
    index = PackedIndex(blocks, PLAIN_SEED)
    assert index.insert_range(list(blocks), 0, 9, list(hashes), 0, home_of(blocks[0]._home, 3)) == 9
    assert len(index._table) == 32
    assert index.damage() is None
    assert [group_of(block._home) for block in blocks] == [3] * 9


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
@pytest.mark.parametrize("home", [3, 13, 14, 15])
def test_deleting_from_a_cluster(home: int, order: tuple[int, ...]) -> None:
    """Two that meet, one whose home is the next slot, one behind them all; some clusters wrap round the end."""
    homes = [home, home, (home + 1) % 16, (home + 3) % 16]
    hashes = [meeting_hash(slot, number) for number, slot in enumerate(homes)]
    index, blocks = filled(hashes)
    left = dict(zip(hashes, blocks, strict=True))
    for block_id in order:
        block = left.pop(hashes[block_id])
        assert index.pop(hashes[block_id], block_id) is block
        block.reset_hash()
        assert index.damage() is None
        assert [index.get(block_hash) for block_hash in hashes] == [left.get(h) for h in hashes]
    assert list(index._table) == [0] * 16


def test_deleting_from_a_cluster_by_eviction() -> None:
    hashes = [meeting_hash(15, number) for number in range(5)]
    index, blocks = filled(hashes)
    assert index.evict(blocks[1:4], 0, blocks[1]._home, None) == (3, 3)
    assert index.damage() is None
    assert [index.get(block_hash) for block_hash in hashes] == [blocks[0], None, None, None, blocks[4]]


@pytest.mark.parametrize("knows_slots", [True, False])
def test_evicting_one_by_one(knows_slots: bool) -> None:
    """Two that meet, one whose home is the next slot, and two more blocks under the first hash."""
    hashes = [
        meeting_hash(15, 0),
        meeting_hash(15, 1),
        meeting_hash(0, 2),
        meeting_hash(15, 0),
        meeting_hash(15, 0),
    ]
    index, blocks = filled(hashes)
    left = list(range(5))
    for block_id in (3, 0, 2, 4, 1):
        if not knows_slots:
            index._slots[block_id] = (index._slots[block_id] + 1) % len(index._table)
        index.read_ahead(blocks[block_id])
        assert index.evict_one(blocks[block_id])
        assert blocks[block_id].block_hash is None
        assert not index.evict_one(blocks[block_id])
        left.remove(block_id)
        first = {hashes[other]: blocks[other] for other in reversed(left)}
        assert [index.get(block_hash) for block_hash in hashes] == [first.get(h) for h in hashes]
        assert index.num_blocks() == len(left)
        if knows_slots:
            assert index.damage() is None
    assert list(index._table) == [0] * 16


def test_a_hash_that_is_not_indexed_is_not_evicted() -> None:
    index, blocks = filled([b"a" * 32, b"b" * 32])
    assert index.pop(b"b" * 32, 1) is blocks[1]
    assert not index.evict_one(blocks[1])
    assert blocks[1].block_hash == b"b" * 32 + bytes(4)
    assert index.get(b"a" * 32) is blocks[0]


def test_eviction_stops_at_another_group() -> None:
    index, blocks = filled([b"%032d" % i for i in range(3)])
    blocks[1].reset_hash()
    blocks[2].reset_hash()
    blocks[2].block_hash = bytes(32) + b"\0\0\0\1"  # type: ignore[assignment]
    assert index.evict(blocks, 0, blocks[0]._home, None) == (2, 1)
    assert blocks[2].block_hash is not None


def test_hashes_of_every_length() -> None:
    """Short ones are filled up with zeros for mixing only: they meet, and are told apart."""
    hashes = [b"x" * length for length in range(1, 70)] + [b"\0" * length for length in range(40)]
    index, blocks = filled(hashes)
    assert index.damage() is None
    assert [index.get(block_hash) for block_hash in hashes] == blocks


def test_duplicates_keep_their_order() -> None:
    index, blocks = filled([b"a" * 32] * 4)
    assert (len(index), index.num_blocks()) == (1, 4)
    assert index.get(b"a" * 32) is blocks[0]
    assert index.pop(b"a" * 32, 1) is blocks[1]
    assert index.pop(b"a" * 32, 1) is None
    assert index.pop(b"a" * 32, 0) is blocks[0]
    assert index.get(b"a" * 32) is blocks[2]
    assert index.find(b"a" * 32, 3) is blocks[3]
    index.insert(b"a" * 32, blocks[0])
    assert index.entry(b"a" * 32) == {2: blocks[2], 3: blocks[3], 0: blocks[0]}
    assert index.evict([blocks[3], blocks[2], blocks[0]], 0, blocks[3]._home, None) == (3, 3)
    assert (len(index), index.num_blocks()) == (0, 0)
    assert index._later == {}


def test_it_takes_only_blocks_of_its_pool_under_their_own_hash() -> None:
    index, blocks = filled([b"a" * 32, b"b" * 32])
    assert index.takes(b"a" * 32, blocks[0])
    assert not index.takes(b"b" * 32, blocks[0])
    for block_id in (-1, 0, 2):
        stranger = KVCacheBlock(block_id)
        stranger.block_hash = b"a" * 32 + bytes(4)  # type: ignore[assignment]
        assert not index.takes(b"a" * 32, stranger)


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        ("hash", ArgumentError),
        ("no block", ArgumentError),
        ("twice", HashAlreadySetError),
        ("owner", BlockStateError),
    ],
)
def test_a_range_is_all_or_nothing(bad: str, error: type[Exception]) -> None:
    held = [meeting_hash(15, number) for number in range(3)]
    index, blocks = filled(held)
    before = list(index._table)
    blocks.extend(KVCacheBlock(i) for i in range(3, 7))
    items: list[object] = list(blocks[3:7])
    # The first doubles one that is there, the second meets it.
    hashes: list[object] = [held[0], meeting_hash(15, 9), b"c", b"d"]
    if bad == "hash":
        hashes[3] = "d"
    elif bad == "owner":
        blocks[6]._home = 99
    else:
        items[3] = items[0] if bad == "twice" else 5
    with pytest.raises(error):
        index.insert_range(items, 0, 4, hashes, 0, blocks[3]._home)
    assert index.damage() is None
    assert (len(index), index.num_blocks()) == (3, 3)
    assert [index.get(block_hash) for block_hash in held] == blocks[:3]
    assert all(block.block_hash is None for block in blocks[3:7])
    assert [entry & (2**62 - 1) for entry in before if entry] == [e & (2**62 - 1) for e in index._table if e]


def test_eviction_does_not_rely_on_what_it_knows_of_slots() -> None:
    """A wrong slot costs a search, and nothing else."""
    hashes = [meeting_hash(i % 16, i) for i in range(12)] + [meeting_hash(0, 0)]
    index, blocks = filled(hashes)
    for block_id in range(len(blocks)):
        index._slots[block_id] = (index._slots[block_id] + 1) % len(index._table)
    assert index.evict(blocks, 0, blocks[0]._home, None) == (13, 13)
    assert (len(index), index.num_blocks()) == (0, 0)
    assert index.damage() is None


NUM_KEYS = 3000
KEYS: dict[str, Callable[[int], bytes]] = {
    "random": lambda i: random.Random(i).randbytes(32),
    "one first word": lambda i: b"12345678" + random.Random(i).randbytes(24),
    "one last word": lambda i: random.Random(i).randbytes(24) + b"12345678",
    "only the first word": lambda i: random.Random(i).randbytes(8) + bytes(24),
    "only the last word": lambda i: bytes(24) + random.Random(i).randbytes(8),
    "counted in the first word": lambda i: words(i, 0, 0, 0),
    "counted in the second word": lambda i: words(5, i, 0, 0),
    "counted in the third word": lambda i: words(5, 5, i, 0),
    "counted from the end": lambda i: bytes(16) + i.to_bytes(16, "big"),
    "far apart": lambda i: words(i << 40, 0, 0, 0),
    "all words the same": lambda i: words(i, i, i, i),
    "a constant sum": lambda i: words(i, 2**40 - i, 0, 0),
    "16 bytes": lambda i: words(7, i),
    "20 bytes": lambda i: bytes(16) + i.to_bytes(4, "little"),
    "4 bytes": lambda i: i.to_bytes(4, "big"),
}


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("seed_number", range(4))
def test_chosen_hashes_do_not_make_searches_long(kind: str, seed_number: int) -> None:
    """Slots passed are counted, not time. Without the random factors, most of these would be one cluster."""
    index, _ = filled(
        [KEYS[kind](i) for i in range(NUM_KEYS)], random.Random(seed_number).randbytes(SEED_BYTES)
    )
    passed = searches(index)
    assert len(passed) == NUM_KEYS
    assert sum(passed) / NUM_KEYS < 4
    assert max(passed) < 100


@pytest.mark.parametrize("kind", ["one last word", "only the first word"])
def test_hashes_that_meet_have_all_mixed_anew_once(kind: str) -> None:
    """Digests never come here; chosen hashes do, and afterwards everything is where it was."""
    hashes = [random.Random(i).randbytes(32) for i in range(200)]
    index, blocks = filled(hashes)
    assert not index._mixer.strong
    chosen = [KEYS[kind](i) for i in range(300)] * 2  # each hash twice: later blocks keep their place
    blocks += [KVCacheBlock(len(hashes) + i) for i in range(len(chosen))]
    for position, block_hash in enumerate(chosen):
        index.insert(block_hash, hashed(blocks, len(hashes) + position, block_hash))
    assert index._mixer.strong
    assert index.damage() is None
    assert (len(index), index.num_blocks()) == (500, 800)
    assert [index.get(block_hash) for block_hash in hashes] == blocks[:200]
    assert [index.get(block_hash) for block_hash in chosen] == blocks[200:500] * 2
    assert index.evict(blocks, 0, blocks[0]._home, None) == (800, 800)
    assert len(index) == 0
    assert index.damage() is None


def test_a_range_of_hashes_that_meet_is_found_again() -> None:
    hashes = [KEYS["one last word"](i) for i in range(400)]
    blocks = [KVCacheBlock(i) for i in range(400)]
    index = PackedIndex(blocks, random.Random(1).randbytes(SEED_BYTES))
    assert index.insert_range(list(blocks), 0, 400, list(hashes), 0, home_of(blocks[0]._home, 0)) == 400
    assert index._mixer.strong
    assert index.longest_prefix(list(hashes)) == blocks
    assert max(searches(index)) < 100
    assert index.damage() is None


def test_with_a_known_seed_hashes_can_be_made_to_meet() -> None:
    """What the random seed is for."""
    index, _ = filled([meeting_hash(3, number) for number in range(200)])
    assert max(searches(index)) == 199


@pytest.mark.parametrize(("random_bytes", "error"), [(5, ArgumentError), (lambda n: "x" * n, ArgumentError)])
def test_a_seed_must_be_bytes(random_bytes: Callable[[int], bytes], error: type[Exception]) -> None:
    with pytest.raises(error):
        BlockPool(5, True, 4, random_bytes=random_bytes)


def test_a_seed_must_be_long_enough() -> None:
    with pytest.raises(ConfigError):
        BlockPool(5, True, 4, random_bytes=lambda n: bytes(n - 1))
    assert random_seed(bytes, SEED_BYTES) == bytes(SEED_BYTES)


def test_a_pool_asks_for_random_bytes_once() -> None:
    asked: list[int] = []

    def random_bytes(count: int) -> bytes:
        asked.append(count)
        return bytes(count)

    pool = BlockPool(5, True, 4, random_bytes=random_bytes)
    assert pool.reset_prefix_cache()
    assert asked == [SEED_BYTES]


def damaged(change: Callable[[PackedIndex, list[KVCacheBlock]], None]) -> str | None:
    index, blocks = filled([meeting_hash(15, 0), meeting_hash(15, 1), meeting_hash(4, 0), meeting_hash(4, 0)])
    assert index.damage() is None
    change(index, blocks)
    return index.damage()


def move_out_of_reach(index: PackedIndex, blocks: list[KVCacheBlock]) -> None:
    index._table[8], index._table[0] = index._table[0], 0


def tear_a_hole(index: PackedIndex, blocks: list[KVCacheBlock]) -> None:
    index._table[15] = 0


def name_no_block(index: PackedIndex, blocks: list[KVCacheBlock]) -> None:
    index._table[15] += 2**20


def take_the_hash(index: PackedIndex, blocks: list[KVCacheBlock]) -> None:
    blocks[0].reset_hash()


def drop_the_sign(index: PackedIndex, blocks: list[KVCacheBlock]) -> None:
    index._table[4] &= 2**62 - 1


def lose_a_later_one(index: PackedIndex, blocks: list[KVCacheBlock]) -> None:
    index._later[meeting_hash(4, 0)].clear()


def lose_all_later(index: PackedIndex, blocks: list[KVCacheBlock]) -> None:
    index._later.clear()


def forget_a_slot(index: PackedIndex, blocks: list[KVCacheBlock]) -> None:
    index._slots[1] = index._slots[0]


def miscount(index: PackedIndex, blocks: list[KVCacheBlock]) -> None:
    index._num_slots_used += 1


@pytest.mark.parametrize(
    "change",
    [
        move_out_of_reach,
        tear_a_hole,
        name_no_block,
        take_the_hash,
        drop_the_sign,
        lose_a_later_one,
        lose_all_later,
        forget_a_slot,
        miscount,
    ],
)
def test_damage_is_found(change: Callable[[PackedIndex, list[KVCacheBlock]], None]) -> None:
    assert damaged(change) is not None


def test_coarse_hashes_with_one_beginning_do_not_meet() -> None:
    """Coarse hashes are fine ones joined: prompts that share the first fine block share the first bytes."""
    hashes = [bytes(32) + i.to_bytes(32, "big") for i in range(2000)]
    index, _ = filled(hashes)
    assert max(searches(index)) < 30
