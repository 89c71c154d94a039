"""Block hashes by vLLM 0.16's own functions and by BlockHasher: equal bytes, for its four algorithms."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.peer import Peer
from blockpool import BlockHasher, BlockHashListWithBlockSize, MultiModalInput, block_extra_keys

from .core.hashing_reference import COMPATIBLE, GOLDEN, SEED
from .core.support import chain

pytestmark = pytest.mark.peer

each_algorithm = pytest.mark.parametrize("algorithm", COMPATIBLE)
TOKEN = st.one_of(st.integers(0, 300), st.integers(0, 2**32 - 1))


def seeded(peer: Peer, algorithm: str, block_size: int) -> BlockHasher:
    """Our hasher, with vLLM's global root set to the same."""
    hasher = BlockHasher(algorithm, block_size, SEED, key_schema="untagged")
    assert peer.seed_none_hash(algorithm, SEED) == hasher.none_hash
    assert hasher.none_hash.hex() == GOLDEN[algorithm][0]
    return hasher


@each_algorithm
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tokens=st.lists(TOKEN, max_size=120), block_size=st.integers(1, 20))
def test_plain_tokens(peer: Peer, algorithm: str, tokens: list[int], block_size: int) -> None:
    hasher = seeded(peer, algorithm, block_size)
    assert hasher.hash_tokens(tokens) == peer.hash_tokens(algorithm, tokens, block_size)


@each_algorithm
@given(tokens=st.lists(TOKEN, min_size=16, max_size=16), half=st.binary(min_size=16, max_size=16))
def test_any_parent(peer: Peer, algorithm: str, tokens: list[int], half: bytes) -> None:
    hasher = seeded(peer, algorithm, 16)
    parent = (half * 2)[: hasher.digest_size]
    assert hasher.hash_tokens(tokens, parent) == peer.hash_tokens(algorithm, tokens, 16, parent)


images = st.lists(
    st.tuples(st.sampled_from(["image-1", "image-2", "audio"]), st.integers(0, 20), st.integers(1, 40)),
    max_size=4,
)


@each_algorithm
@given(
    num_tokens=st.integers(0, 100),
    lora=st.sampled_from([None, "adapter"]),
    salt=st.sampled_from([None, "salt"]),
    gaps=images,
)
def test_requests_with_everything(
    peer: Peer, algorithm: str, num_tokens: int, lora: str | None, salt: str | None, gaps: list[Any]
) -> None:
    """vLLM's request hasher, at once from the start, against untagged keys and one call."""
    hasher = seeded(peer, algorithm, 16)
    inputs = []
    position = 0
    for name, gap, length in gaps:
        inputs.append(MultiModalInput(f"{name}-{len(inputs)}", position + gap, length))
        position += gap + length
    features = [
        SimpleNamespace(
            identifier=entry.identifier,
            mm_position=SimpleNamespace(offset=entry.offset, length=entry.length),
        )
        for entry in inputs
    ]
    tokens = list(range(num_tokens))
    request = peer.make_request(
        "r",
        tokens,
        lora_request=None if lora is None else peer.make_lora(lora, 1),
        cache_salt=salt,
        mm_features=features,
    )
    theirs = peer.get_request_block_hasher(16, peer.hash_functions[algorithm])(request)
    keys = block_extra_keys(num_tokens // 16, 16, lora, inputs, salt, schema="untagged")
    assert hasher.hash_tokens(tokens, extra_keys=keys) == theirs


@each_algorithm
def test_a_request_that_grows(peer: Peer, algorithm: str) -> None:
    hasher = seeded(peer, algorithm, 16)
    request = peer.make_request("r", [], lora_request=peer.make_lora("adapter", 1))
    grow = peer.get_request_block_hasher(16, peer.hash_functions[algorithm])
    hashes: list[bytes] = []
    for token in range(100):
        request.all_token_ids.append(token)
        request.block_hashes += grow(request)
        first = len(hashes)
        rest = request.all_token_ids[first * 16 :]
        keys = block_extra_keys(len(rest) // 16, 16, "adapter", first_block=first, schema="untagged")
        hashes += hasher.hash_tokens(rest, hashes[-1] if hashes else None, keys)
        assert hashes == request.block_hashes


@each_algorithm
def test_embeddings(peer: Peer, algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    numpy = pytest.importorskip("numpy", reason="numpy is not installed: no array to take embeddings from")
    monkeypatch.setattr(peer.kv_cache_utils, "tensor_data", lambda tensor: tensor)
    hasher = seeded(peer, algorithm, 16)
    embeddings = numpy.arange(40 * 700, dtype=numpy.float64).reshape(40, 700)  # 89,600 bytes a block
    request = peer.make_request("r", [0] * 40, prompt_embeds=embeddings, cache_salt="salt")
    theirs = peer.get_request_block_hasher(16, peer.hash_functions[algorithm])(request)
    keys = block_extra_keys(2, 16, cache_salt="salt", prompt_embeds=embeddings, schema="untagged")
    assert hasher.hash_tokens([0] * 40, extra_keys=keys) == theirs


def test_coarse_hashes(peer: Peer) -> None:
    fine = chain(range(11))
    for factor in (1, 2, 3, 5, 12):
        theirs = peer.BlockHashListWithBlockSize(fine, 16, 16 * factor)
        ours = BlockHashListWithBlockSize(fine, 16, 16 * factor)
        assert len(ours) == len(theirs)
        assert list(ours) == list(theirs)
        assert ours[1:] == theirs[1:]


# ------------------------------------------------------------------------------- differences on purpose


@pytest.mark.parametrize("algorithm", ["sha256", "xxhash"])
def test_ours_equal_keys_hash_equally(peer: Peer, algorithm: str) -> None:
    hasher = seeded(peer, algorithm, 2)
    name = "some name"
    shared, apart = (name, name), (name, name.encode().decode())
    theirs = [peer.hash_tokens(algorithm, [1, 2], 2, None, [keys])[0] for keys in (shared, apart)]
    assert theirs[0] != theirs[1]
    ours = [hasher.hash_block(None, [1, 2], keys) for keys in (shared, apart)]
    assert ours[0] == ours[1]
    assert ours[0] in theirs


@pytest.mark.parametrize("algorithm", ["sha256", "xxhash"])
def test_ours_numpy_integers_hash_as_integers(peer: Peer, algorithm: str) -> None:
    numpy = pytest.importorskip("numpy", reason="numpy is not installed: none of its integers can be tried")
    hasher = seeded(peer, algorithm, 2)
    plain = peer.hash_tokens(algorithm, [1, 2], 2)
    odd = [numpy.int64(1), numpy.int64(2)]
    assert peer.hash_tokens(algorithm, odd, 2) != plain
    assert hasher.hash_tokens(odd) == plain


@each_algorithm
def test_ours_an_image_that_ended_at_the_edge_is_over_when_the_request_grows(
    peer: Peer, algorithm: str
) -> None:
    """vLLM, when it hashes from a later block on, still counts an image that ended just before that block."""
    hasher = seeded(peer, algorithm, 16)
    position = SimpleNamespace(offset=8, length=8)
    request = peer.make_request(
        "r", list(range(32)), mm_features=[SimpleNamespace(identifier="image", mm_position=position)]
    )
    grow = peer.get_request_block_hasher(16, peer.hash_functions[algorithm])
    at_once = grow(request)
    request.block_hashes = at_once[:1]
    assert grow(request) != at_once[1:]
    inputs = [MultiModalInput("image", 8, 8)]
    keys = block_extra_keys(1, 16, mm_inputs=inputs, first_block=1, schema="untagged")
    assert keys == [None]
    assert hasher.hash_tokens(range(16, 32), at_once[0], keys) == at_once[1:]
