"""block_extra_keys: what goes into a block's hash besides its tokens."""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockpool import ArgumentError, BlockHasher, ConfigError, MultiModalInput, block_extra_keys

Image = MultiModalInput


class Embeds:
    """One row of bytes per token, with just what is asked of an array."""

    def __init__(self, rows: Sequence[bytes]) -> None:
        self.rows = rows

    def __getitem__(self, part: slice) -> "Embeds":
        return Embeds(self.rows[part])

    def tobytes(self) -> bytes:
        return b"".join(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


EMBEDS = Embeds([bytes([i]) * 3 for i in range(8)])


def test_nothing_special() -> None:
    assert block_extra_keys(3, 16) == [None, None, None]
    assert block_extra_keys(0, 16, lora_name="a", cache_salt="b") == []


def test_lora_is_on_every_block() -> None:
    assert block_extra_keys(2, 16, "adapter") == [(("lora", "adapter"),)] * 2
    assert block_extra_keys(2, 16, "adapter", schema="untagged") == [("adapter",)] * 2


def test_salt_is_on_the_first_block_only() -> None:
    assert block_extra_keys(3, 16, cache_salt="s") == [(("cache_salt", "s"),), None, None]
    assert block_extra_keys(3, 16, cache_salt="s", schema="untagged") == [("s",), None, None]
    assert block_extra_keys(2, 16, cache_salt="s", first_block=1) == [None, None]


def test_images_by_the_blocks_that_they_overlap() -> None:
    images = [Image("x", 2, 3), Image("y", 5, 10), Image("z", 16, 1)]
    assert block_extra_keys(5, 4, mm_inputs=images) == [
        (("mm", "x", 2),),
        (("mm", "x", -2), ("mm", "y", 1)),
        (("mm", "y", -3),),
        (("mm", "y", -7),),
        (("mm", "z", 0),),
    ]
    assert block_extra_keys(5, 4, mm_inputs=images, schema="untagged") == [
        ("x",), ("x", "y"), ("y",), ("y",), ("z",),
    ]  # fmt: skip


def test_images_may_be_plain_tuples() -> None:
    assert block_extra_keys(1, 4, mm_inputs=[("x", 1, 2)]) == [(("mm", "x", 1),)]
    assert block_extra_keys(1, 4, mm_inputs=(("x", 1, 2),)) == [(("mm", "x", 1),)]


def test_embeddings() -> None:
    first, second = EMBEDS[:4].tobytes(), EMBEDS[4:8].tobytes()
    assert block_extra_keys(2, 4, prompt_embeds=EMBEDS) == [
        (("prompt_embeds", hashlib.sha256(first).digest()),),
        (("prompt_embeds", hashlib.sha256(second).digest()),),
    ]
    assert block_extra_keys(2, 4, prompt_embeds=EMBEDS, schema="untagged") == [(first,), (second,)]
    assert block_extra_keys(1, 4, prompt_embeds=EMBEDS, first_block=1, schema="untagged") == [(second,)]


def test_all_at_once_in_the_order_of_the_specification() -> None:
    keys = block_extra_keys(
        1,
        4,
        lora_name="l",
        mm_inputs=[Image("i", 1, 1)],
        cache_salt="s",
        prompt_embeds=EMBEDS,
        schema="untagged",
    )
    assert keys == [("l", "i", "s", EMBEDS[:4].tobytes())]
    (tagged,) = block_extra_keys(
        1, 4, lora_name="l", mm_inputs=[Image("i", 1, 1)], cache_salt="s", prompt_embeds=EMBEDS
    )
    assert tagged is not None
    assert [key[0] for key in tagged] == ["lora", "mm", "cache_salt", "prompt_embeds"]  # type: ignore[index]


@given(
    images=st.lists(st.tuples(st.sampled_from("xyz"), st.integers(0, 6), st.integers(1, 9)), max_size=4),
    cut=st.integers(0, 6),
    schema=st.sampled_from(["tagged", "untagged"]),
)
def test_growing_piecewise_equals_at_once(images: list[tuple[str, int, int]], cut: int, schema: str) -> None:
    """Gaps and lengths become inputs in order; the keys from block `cut` on need no others."""
    inputs = []
    position = 0
    for name, gap, length in images:
        inputs.append(Image(name, position + gap, length))
        position += gap + length
    options: dict[str, Any] = {"lora_name": "l", "cache_salt": "s", "mm_inputs": inputs, "schema": schema}
    at_once = block_extra_keys(8, 4, **options)
    head = block_extra_keys(cut, 4, **options)
    rest = block_extra_keys(8 - cut, 4, first_block=cut, **options)
    assert head + rest == at_once
    for i, keys in enumerate(at_once):
        overlapping = [
            entry for entry in inputs if entry.offset < 4 * i + 4 and entry.offset + entry.length > 4 * i
        ]
        assert keys is not None
        found = [key for key in keys if key in ("x", "y", "z") or key[0] == "mm"]  # type: ignore[index]
        if schema == "tagged":
            assert found == [("mm", entry.identifier, entry.offset - 4 * i) for entry in overlapping]
        else:
            assert found == [entry.identifier for entry in overlapping]


def test_untagged_keys_do_collide_and_tagged_ones_do_not() -> None:
    """The documented reason for the tags."""
    lora, salt = (
        block_extra_keys(1, 16, schema="untagged", **{name: "a"})[0] for name in ("lora_name", "cache_salt")
    )
    assert lora == salt
    lora, salt = (block_extra_keys(1, 16, **{name: "a"})[0] for name in ("lora_name", "cache_salt"))
    assert lora != salt
    hasher = BlockHasher("sha256", 2, "0")
    assert hasher.hash_block(None, [1, 2], lora) != hasher.hash_block(None, [1, 2], salt)


@pytest.fixture
def numpy() -> Any:
    return pytest.importorskip(
        "numpy", reason="numpy is not installed: neither arrays nor integers of it to try"
    )


def test_embeddings_in_numpy(numpy: Any) -> None:
    array = numpy.arange(16, dtype=numpy.float32).reshape(8, 2)
    keys = block_extra_keys(2, 4, prompt_embeds=array, schema="untagged")
    assert keys == [(array[:4].tobytes(),), (array[4:].tobytes(),)]


def test_numpy_integers_are_integers(numpy: Any) -> None:
    one, two = numpy.int64(1), numpy.int64(2)
    keys = block_extra_keys(one, 4 * one, mm_inputs=[("x", one, two)], first_block=0 * one)
    assert keys == [(("mm", "x", 1),)]
    assert type(keys[0][0][2]) is int  # type: ignore[index]


BAD_TYPES: dict[str, Callable[[], object]] = {
    "count is text": lambda: block_extra_keys("1", 16),
    "size is half": lambda: block_extra_keys(1, 16.5),
    "lora is a number": lambda: block_extra_keys(1, 16, 5),
    "lora is bytes": lambda: block_extra_keys(1, 16, b"a"),
    "salt is a number": lambda: block_extra_keys(1, 16, cache_salt=5),
    "inputs are a number": lambda: block_extra_keys(1, 16, mm_inputs=5),
    "an input is text": lambda: block_extra_keys(1, 16, mm_inputs=["abc"]),
    "an input is a pair": lambda: block_extra_keys(1, 16, mm_inputs=[("a", 1)]),
    "an identifier is a number": lambda: block_extra_keys(1, 16, mm_inputs=[(5, 1, 1)]),
    "an offset is text": lambda: block_extra_keys(1, 16, mm_inputs=[("a", "1", 1)]),
    "a length is half": lambda: block_extra_keys(1, 16, mm_inputs=[("a", 1, 1.5)]),
    "first block is None": lambda: block_extra_keys(1, 16, first_block=None),
    "embeddings are a number": lambda: block_extra_keys(1, 16, prompt_embeds=5),
    "embeddings are a list": lambda: block_extra_keys(1, 2, prompt_embeds=[1, 2]),
    "schema is None": lambda: block_extra_keys(1, 16, schema=None),
}
BAD_VALUES: dict[str, Callable[[], object]] = {
    "count -1": lambda: block_extra_keys(-1, 16),
    "size 0": lambda: block_extra_keys(1, 0),
    "first block -1": lambda: block_extra_keys(1, 16, first_block=-1),
    "offset -1": lambda: block_extra_keys(1, 16, mm_inputs=[("a", -1, 3)]),
    "length 0": lambda: block_extra_keys(1, 16, mm_inputs=[("a", 0, 0)]),
    "length -1": lambda: block_extra_keys(1, 16, mm_inputs=[("a", 0, -1)]),
    "overlapping inputs": lambda: block_extra_keys(1, 16, mm_inputs=[("a", 0, 5), ("b", 4, 5)]),
    "inputs out of order": lambda: block_extra_keys(1, 16, mm_inputs=[("a", 8, 2), ("b", 0, 2)]),
    "schema unknown": lambda: block_extra_keys(1, 16, schema="new"),
    "empty lora": lambda: block_extra_keys(1, 16, ""),
    "empty salt": lambda: block_extra_keys(1, 16, cache_salt=""),
    "too few embeddings": lambda: block_extra_keys(3, 4, prompt_embeds=EMBEDS),
}


@pytest.mark.parametrize("name", BAD_TYPES)
def test_wrong_types(name: str) -> None:
    with pytest.raises(ArgumentError):
        BAD_TYPES[name]()


@pytest.mark.parametrize("name", BAD_VALUES)
def test_wrong_values(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        BAD_VALUES[name]()
    assert type(caught.value) is ConfigError
