"""The chains of the compiled build against the generic ones: equal hashes, or nothing, from every kind of input."""

import struct
from typing import Any

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from blockpool import COMPILED, ConfigError
from blockpool.core.chains import CHAINS, Form, Run
from blockpool.core.digests import Digest, blake2b_digest, sha256_digest
from blockpool.core.direct_chains import DirectChains
from blockpool.core.extra_keys import canonical_keys
from blockpool.core.tokens import are_token_ids
from blockpool.core.writers import MAX_WRITTEN, MIN_WRITTEN

from .test_hasher_reference import EXTRA, TOKEN

pytestmark = pytest.mark.skipif(
    not COMPILED,
    reason="direct chains run in the compiled build only: they rely on words that wrap round",
)
each_form = pytest.mark.parametrize("form", ["pickle", "cbor", "raw"])
DIGESTS = {"sha256": sha256_digest, "blake2b": blake2b_digest, "xxh3": xxhash.xxh3_128_digest}


def generic(
    form: Form, digest: Digest, parent: bytes, tokens: list[int], size: int, runs: list[Run]
) -> list[bytes]:
    packed = struct.pack(f"<{len(tokens)}I", *tokens)
    hashes: list[bytes] = []
    for start, stop, keys in runs:
        hashes += CHAINS[form](digest, parent, packed, size, start, stop, keys)
        parent = hashes[-1]
    return hashes


@st.composite
def chains(draw: st.DrawFn) -> tuple[list[int], int, list[Run]]:
    """Tokens, with some left over, a block size, and runs of blocks with keys of their own."""
    size = draw(st.integers(MIN_WRITTEN, 19))
    lengths = draw(st.lists(st.integers(1, 3), max_size=4))
    num_tokens = size * sum(lengths) + draw(st.integers(0, size - 1))
    tokens = draw(st.lists(TOKEN, min_size=num_tokens, max_size=num_tokens))
    runs: list[Run] = []
    start = 0
    for length in lengths:
        runs.append((start, start + length, canonical_keys(draw(EXTRA))))
        start += length
    return tokens, size, runs


@each_form
@pytest.mark.parametrize("name", DIGESTS)
@given(chain=chains(), bare=st.booleans())
def test_direct_chains_give_what_generic_ones_give(
    form: Form, name: str, chain: tuple[list[int], int, list[Run]], bare: bool
) -> None:
    tokens, size, runs = chain
    if bare:
        runs = [(start, stop, None) for start, stop, _ in runs]
    digest = DIGESTS[name]
    parent = digest(b"root")
    direct = DirectChains(form, digest)
    expected = generic(form, digest, parent, tokens, size, runs)
    from_list: list[object] = [*tokens]
    assert direct.hash(parent, from_list, size, runs) == expected
    assert direct.hash(parent, struct.pack(f"<{len(tokens)}I", *tokens), size, runs) == expected


@each_form
@pytest.mark.parametrize("size", [1, 2, 3, MIN_WRITTEN, MAX_WRITTEN, MAX_WRITTEN + 1])
@pytest.mark.parametrize("keys", [None, ("k" * (MAX_WRITTEN + 1),)])
def test_every_size_is_written_right_or_not_at_all(form: Form, size: int, keys: Any) -> None:
    tokens = [position * 77_777 % 2**32 for position in range(2 * size)]
    runs: list[Run] = [(0, 2, keys)]
    hashes = DirectChains(form, sha256_digest).hash(bytes(32), [*tokens], size, runs)
    if form == "pickle" and (not MIN_WRITTEN <= size <= MAX_WRITTEN or keys is not None):
        assert hashes is None
    else:
        assert hashes == generic(form, sha256_digest, bytes(32), tokens, size, runs)


@each_form
@pytest.mark.parametrize("position", range(10))
@pytest.mark.parametrize("bad", [-1, 2**32, -(2**63), 2**63, 2**70, -(2**70)])
def test_a_bad_token_is_found_wherever_it_stands(form: Form, position: int, bad: int) -> None:
    """Also one of a block that is not full."""
    tokens: list[object] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    tokens[position] = bad
    with pytest.raises(ConfigError) as caught:
        DirectChains(form, sha256_digest).hash(bytes(32), tokens, 4, [(0, 2, None)])
    assert caught.value.field == f"token_ids[{position}]"
    with pytest.raises(ConfigError):
        DirectChains(form, sha256_digest).hash(bytes(32), tokens, 11, [])
    assert not are_token_ids(tokens)


@each_form
def test_integers_of_another_type_are_read_as_well(form: Form) -> None:
    class Odd:
        def __init__(self, token: int) -> None:
            self._token = token

        def __index__(self) -> int:
            return self._token

    tokens = [1, 300, 70_000, 4, 5, 6, 7, 8]
    runs: list[Run] = [(0, 2, None)]
    direct = DirectChains(form, sha256_digest)
    expected = direct.hash(bytes(32), [*tokens], 4, runs)
    assert direct.hash(bytes(32), [Odd(token) for token in tokens], 4, runs) == expected
    assert direct.hash(bytes(32), [*tokens[:6], Odd(7), 8], 4, runs) == expected
    assert direct.hash(bytes(32), [Odd(1)], 4, []) == []


@each_form
def test_a_list_that_has_grown_meanwhile_gives_the_blocks_that_were_asked_for(form: Form) -> None:
    tokens: list[object] = [1, 2, 3, 4]
    direct = DirectChains(form, sha256_digest)
    expected = direct.hash(bytes(32), tokens, 4, [(0, 1, None)])
    assert direct.hash(bytes(32), [*tokens, *tokens], 4, [(0, 1, None)]) == expected
    assert direct.hash(bytes(32), tokens, 4, []) == []
