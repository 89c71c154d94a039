"""The three events: fields, defaults, equality, repr."""

import pytest

from blockpool import AllBlocksCleared, BlockRemoved, BlockStored

STORED = {
    "block_hashes": [1, 2],
    "parent_block_hash": 7,
    "token_ids": [1, 2, 3, 4],
    "block_size": 2,
    "lora_id": 3,
    "medium": "GPU",
    "lora_name": "adapter",
}
DIFFERENT = {
    "block_hashes": [1, 3],
    "parent_block_hash": None,
    "token_ids": [1, 2, 3, 5],
    "block_size": 4,
    "lora_id": None,
    "medium": None,
    "lora_name": "other",
}


def test_stored_has_its_seven_fields_in_order() -> None:
    event = BlockStored(*STORED.values())
    for name, value in STORED.items():
        assert getattr(event, name) == value
    assert event == BlockStored(**STORED)


@pytest.mark.parametrize("field", STORED)
def test_stored_differs_by_any_field(field: str) -> None:
    event = BlockStored(**STORED)
    assert event == BlockStored(**STORED)
    assert event != BlockStored(**{**STORED, field: DIFFERENT[field]})


def test_removed() -> None:
    event = BlockRemoved([5], "GPU")
    assert event.block_hashes == [5]
    assert event.medium == "GPU"
    assert event == BlockRemoved(block_hashes=[5], medium="GPU")
    assert event != BlockRemoved([6], "GPU")
    assert event != BlockRemoved([5], "CPU")


def test_cleared() -> None:
    assert AllBlocksCleared() == AllBlocksCleared()


def test_events_of_different_kinds_are_never_equal() -> None:
    events = [BlockStored(**STORED), BlockRemoved([1, 2], "GPU"), AllBlocksCleared()]
    for i, event in enumerate(events):
        for j, other in enumerate(events):
            assert (event == other) is (i == j)
        assert event != "event"
        assert event != None  # noqa: E711


def test_hashes_may_be_bytes() -> None:
    event = BlockRemoved([b"\x01" * 32], "GPU")
    assert event == BlockRemoved([b"\x01" * 32], "GPU")
    assert event != BlockRemoved([int.from_bytes(b"\x01" * 8, "big")], "GPU")


def test_equal_events_hash_equally() -> None:
    assert len({BlockStored(**STORED), BlockStored(**STORED)}) == 1
    assert len({BlockRemoved([5], "GPU"), BlockRemoved([5], "GPU"), BlockRemoved([6], "GPU")}) == 2
    assert len({AllBlocksCleared(), AllBlocksCleared()}) == 1


def test_repr_names_every_field() -> None:
    text = repr(BlockStored(**STORED))
    assert text.startswith("BlockStored(")
    for name, value in STORED.items():
        assert f"{name}={value!r}" in text
    assert repr(BlockRemoved([5], "GPU")) == "BlockRemoved(block_hashes=[5], medium='GPU')"
    assert repr(AllBlocksCleared()) == "AllBlocksCleared()"


@pytest.mark.parametrize("event", [BlockStored(**STORED), BlockRemoved([5], "GPU"), AllBlocksCleared()])
def test_events_are_slotted(event: object) -> None:
    assert not hasattr(event, "__dict__")
    with pytest.raises(AttributeError):
        event.note = "x"  # type: ignore[attr-defined]
