"""Shared prefixes against what a walk over all chains says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from blockpool.events.prefix_tree import PrefixTree, SharedPrefix

PROMPTS = st.lists(st.text("ab", min_size=1, max_size=6), max_size=12)


def number(prefix: str) -> int:
    return int(prefix.replace("a", "1").replace("b", "2"))


def store(tree: PrefixTree, prompt: str) -> None:
    tree.store([number(prompt[: end + 1]) for end in range(len(prompt))], None, 4)


@given(PROMPTS)
def test_hottest_is_what_a_walk_says(prompts: list[str]) -> None:
    tree = PrefixTree()
    for prompt in prompts:
        store(tree, prompt)
    known = {prompt[: end + 1] for prompt in prompts for end in range(len(prompt))}
    expected = []
    for prefix in known:
        if prefix + "a" in known and prefix + "b" in known:
            below = [each for each in known if each.startswith(prefix) and each != prefix]
            ends = [each for each in below if each + "a" not in known and each + "b" not in known]
            size = len(prefix)
            expected.append(SharedPrefix(number(prefix), size, 4 * size, True, len(ends), len(below)))
    expected.sort(key=lambda each: (each.chains, each.below, each.block_hash), reverse=True)
    assert len(tree) == len(known)
    assert tree.hottest(1000) == expected
    assert tree.hottest(2) == expected[:2]


@given(PROMPTS, st.randoms())
def test_blocks_stay_until_their_last_copy_is_dropped(prompts: list[str], random: object) -> None:
    tree = PrefixTree()
    for prompt in prompts:
        store(tree, prompt)
    left = list(prompts)
    while left:
        prompt = left.pop()
        for end in range(len(prompt)):
            tree.drop(number(prompt[: end + 1]), 1)
        assert len(tree) == len({each[: end + 1] for each in left for end in range(len(each))})


def test_a_beginning_that_is_not_known_is_said() -> None:
    tree = PrefixTree()
    tree.store([5, 6], 4, 16)  # nobody told of 4
    tree.store([7], 5, 16)
    assert tree.hottest(5) == [SharedPrefix(5, 1, 16, False, 2, 2)]


def test_circles_that_a_liar_tells_of_end() -> None:
    tree = PrefixTree()
    tree.store([1], 2, 1)
    tree.store([2], 1, 1)
    tree.store([3], 1, 1)
    tree.store([4], 4, 1)
    assert {each.block_hash for each in tree.hottest(9)} == {1}
