"""One line of JSON in, one checked request out; whatever is wrong with a line is said in the error."""

from __future__ import annotations

import json
from typing import Any

import pytest

from blockpool.trace.formats import KVCACHE_SIMULATOR, MOONCAKE, TOKEN_IDS, BadLineError, LineParser


def line(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def mooncake(**changes: Any) -> bytes:
    return line(**{"timestamp": 3, "input_length": 600, "output_length": 7, "hash_ids": [5, 9], **changes})


def image(name: str, offset: int, length: int) -> dict[str, Any]:
    return {"id": name, "offset": offset, "length": length}


def test_mooncake() -> None:
    parser = LineParser()
    request = parser.parse(mooncake())
    assert parser.format == MOONCAKE
    assert (request.timestamp_ms, request.prompt_tokens, request.output_tokens) == (3, 600, 7)
    assert (request.block_ids, request.block_size, request.token_ids) == ([5, 9], 512, None)
    assert request.num_prompt_blocks == 2
    assert [request.tokens_in_first(n) for n in range(3)] == [0, 512, 600]


def test_mooncake_with_another_block_size() -> None:
    request = LineParser(400).parse(mooncake())
    assert request.block_size == 400
    assert [request.tokens_in_first(n) for n in range(3)] == [0, 400, 600]


def test_kvcache_simulator_with_block_size() -> None:
    parser = LineParser()
    request = parser.parse(mooncake(block_size=300))
    assert parser.format == KVCACHE_SIMULATOR
    assert (request.block_size, request.prompt_tokens) == (300, 600)


def test_kvcache_simulator_with_unequal_blocks() -> None:
    parser = LineParser()
    request = parser.parse(mooncake(block_tokens=[301, 300]))
    assert parser.format == KVCACHE_SIMULATOR
    assert request.block_size is None
    assert request.prompt_tokens == 601, "the parts count, not the rounded length"
    assert [request.tokens_in_first(n) for n in range(3)] == [0, 301, 601]


def test_token_ids() -> None:
    parser = LineParser()
    text = line(
        timestamp=1.5,
        token_ids=[1, 2, 3],
        output_token_ids=[4],
        session_id=7,
        lora="a",
        salt="b",
        unknown=[{}],
    )
    request = parser.parse(text)
    assert parser.format == TOKEN_IDS
    assert (request.timestamp_ms, request.token_ids, request.output_token_ids) == (1.5, [1, 2, 3], [4])
    assert (request.output_tokens, request.block_size, request.session_id) == (1, 16, 7)
    assert (request.lora, request.salt, request.num_prompt_blocks) == ("a", "b", 1)


def test_images() -> None:
    text = line(token_ids=[1, 2, 3], images=[image("x", 0, 1), {**image("y", 1, 2), "alt": "a cat"}])
    assert LineParser().parse(text).images == [("x", 0, 1), ("y", 1, 2)]
    assert LineParser().parse(line(token_ids=[1], images=[])).images is None
    assert LineParser().parse(line(token_ids=[1], images=None)).images is None


@pytest.mark.parametrize(
    ("value", "tag"),
    [("a", "a"), ("", ""), (7, "7"), (1.5, "1.5"), (True, "true"), (None, None), (10**30, str(10**30))],
)
def test_any_field_can_be_a_tag(value: object, tag: str | None) -> None:
    name = 'odd: né"me'
    assert LineParser(tag_field=name).parse(mooncake(**{name: value})).tag == tag
    assert LineParser(tag_field=name).parse(mooncake()).tag is None
    assert LineParser().parse(mooncake(**{name: value})).tag is None


def test_no_two_values_are_one_tag() -> None:
    values = [
        1,
        "1",
        '"1"',
        1.0,
        "1.0",
        True,
        "true",
        False,
        "false",
        "1e5",
        1e5,
        -1,
        "-1",
        "null",
        "a",
        '"a"',
        "",
    ]
    parser = LineParser(tag_field="user")
    tags = [parser.parse(mooncake(user=value)).tag for value in values]
    assert len(set(tags)) == len(values)
    assert tags[:3] == ["1", '"1"', '"\\"1\\""']
    assert tags[-3:] == ["a", '"\\"a\\""', ""]


def test_a_number_that_no_float_holds_is_no_tag() -> None:
    text = mooncake(user=1).replace(b'"user": 1', b'"user":1e400').replace(b'"user":1}', b'"user":1e400}')
    with pytest.raises(BadLineError) as caught:
        LineParser(tag_field="user").parse(text)
    assert str(caught.value) == "'user' cannot be a tag: a number that is too large"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ([], "'user' cannot be a tag: text, a number, true or false is needed, not a list"),
        ({}, "'user' cannot be a tag: text, a number, true or false is needed, not an object"),
        ("x" * 1_001, "'user' cannot be a tag: it has 1,001 characters, more than 1,000"),
        (10**1_000, "'user' cannot be a tag: it has 1,001 characters, more than 1,000"),
        (-(10**1_000), "'user' cannot be a tag: it has 1,002 characters, more than 1,000"),
    ],
)
def test_what_cannot_be_a_tag(value: object, reason: str) -> None:
    parser = LineParser(tag_field="user")
    with pytest.raises(BadLineError) as caught:
        parser.parse(mooncake(user=value))
    assert str(caught.value) == reason
    assert parser.format is None
    assert LineParser().parse(mooncake(user=value)).tag is None


def test_token_ids_with_output_length_only() -> None:
    request = LineParser().parse(line(token_ids=[1], output_length=9))
    assert (request.timestamp_ms, request.output_token_ids, request.output_tokens) == (None, None, 9)


@pytest.mark.parametrize("block_id", [-(2**63), -1, 0, 2**63, 2**64 - 1])
def test_ids_are_names_and_may_be_any_64_bit_integer(block_id: int) -> None:
    assert LineParser().parse(mooncake(input_length=1, hash_ids=[block_id])).block_ids == [block_id]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"{", "not JSON"),
        (b"{} {}", "not JSON"),
        (b"nonsense", "not JSON"),
        (b"\x00", "not JSON"),
        (b"[1]", "an object is needed, not a list"),
        (b"17", "an object is needed, not an integer"),
        (b"null", "an object is needed, not null"),
        (b'{"a":' + b"[" * 100_000, "nested too deeply"),
        (b'{"token_ids":[1],"note":"\xff"}', "not UTF-8 (byte 25)"),
        (b"{}", "neither token_ids nor hash_ids"),
        (line(token_ids=None), "neither token_ids nor hash_ids"),
        (line(token_ids=[1], hash_ids=[1], input_length=1), "both token_ids and hash_ids"),
        (line(token_ids=[]), "token_ids is empty"),
        (line(token_ids=[-1]), "token_ids[0]: an integer of 0 or more is needed"),
        (line(token_ids=[2**32]), "an integer of 4294967295 or less is needed"),
        (line(token_ids=[10**30]), "token_ids[0]: "),
        (line(token_ids=[1.5]), "an integer is needed, not a number"),
        (line(token_ids=[True]), "an integer is needed, not true or false"),
        (line(token_ids="1"), "token_ids: a list is needed, not a string"),
        (line(token_ids=[1], input_length=2), "input_length 2, but 1 token_ids"),
        (line(token_ids=[1], output_token_ids=[1], output_length=2), "output_length 2, but 1"),
        (line(token_ids=[1], output_token_ids=[-1]), "an integer of 0 or more"),
        (line(token_ids=[1], output_length=-1), "output_length: an integer of 0 or more is needed"),
        (line(token_ids=[1], lora=""), "a string that is not empty is needed"),
        (line(token_ids=[1], lora=5), "lora: a string is needed, not an integer"),
        (line(token_ids=[1], salt=""), "a string that is not empty is needed"),
        (line(token_ids=[1], session_id=[]), "session_id: "),
        (b'{"token_ids":[1],"session_id":' + b"9" * 5_000 + b"}", "session_id: a number that is too large"),
        (b'{"token_ids":[' + b"9" * 5_000 + b"]}", "token_ids[0]: a number that is too large"),
        (b'{"token_ids":[1],"note":"\\ud800"}', "not JSON: half of a surrogate pair in a string"),
        (b'{"token_ids":[1],"note":"a', "not JSON: it ends in the middle"),
        (line(token_ids=[1], images=[{"id": "a"}]), "images[0]: offset missing"),
        (line(token_ids=[1], images={}), "images: a list is needed, not an object"),
        (line(token_ids=[1], images=[5]), "images[0]: an object is needed, not an integer"),
        (line(token_ids=[1], images=[{"offset": 0, "length": 1}]), "images[0]: id missing"),
        (line(token_ids=[1], images=[image("", 0, 1)]), "images[0].id: a string that is not empty is needed"),
        (
            line(token_ids=[1], images=[image("x", -1, 1)]),
            "images[0].offset: an integer of 0 or more is needed",
        ),
        (
            line(token_ids=[1], images=[image("x", 0, 0)]),
            "images[0].length: an integer of 1 or more is needed",
        ),
        (line(token_ids=[1], images=[image("x", 0, 2)]), "images[0] ends at 2, but there are 1 token_ids"),
        (
            line(token_ids=[1, 2], images=[image("x", 0, 2), image("x", 1, 1)]),
            "images[1] begins at 1, but the one before it ends at 2",
        ),
        (line(token_ids=[1], timestamp=-1), "timestamp out of range"),
        (line(token_ids=[1], timestamp=1e300), "timestamp out of range"),
        (line(token_ids=[1], timestamp=10**400), "timestamp out of range"),
        (b'{"token_ids":[1],"timestamp":1e400}', "timestamp: a number that is too large"),
        (b'{"token_ids":[1],"timestamp":NaN}', "not JSON"),
        (line(token_ids=[1], timestamp="1"), "timestamp: "),
        (line(hash_ids=[1]), "input_length missing"),
        (mooncake(hash_ids=[]), "hash_ids is empty"),
        (mooncake(hash_ids=[3, 3]), "repeats an id"),
        (mooncake(hash_ids=[2**64, 1]), "out of range"),
        (mooncake(hash_ids=[1, -(2**63) - 1]), "out of range"),
        (mooncake(hash_ids=[10**400, 1]), "out of range"),
        (mooncake(hash_ids=["1", "2"]), "an integer is needed, not a string"),
        (mooncake(input_length=0), "input_length 0 does not make 2 blocks"),
        (mooncake(input_length=512), "input_length 512 does not make 2 blocks"),
        (mooncake(input_length=1025), "input_length 1025 does not make 2 blocks"),
        (mooncake(input_length=-5), "input_length: an integer of 0 or more is needed"),
        (mooncake(input_length=10**300), "input_length: "),
        (mooncake(output_length=10**300), "output_length: "),
        (mooncake(block_size=0), "an integer of 1 or more"),
        (mooncake(block_size=2**31), "an integer of 2147483647 or less"),
        (mooncake(block_tokens=[600]), "1 block_tokens for 2 hash_ids"),
        (mooncake(block_tokens=[0, 600]), "an integer of 1 or more"),
        (mooncake(block_tokens=[300, 303]), "block_tokens sum to 603"),
        (mooncake(block_size=299, block_tokens=[300, 300]), "a block of 300 tokens, but block_size 299"),
    ],
)
def test_bad_lines(text: bytes, reason: str) -> None:
    parser = LineParser()
    with pytest.raises(BadLineError) as caught:
        parser.parse(text)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300
    assert parser.format is None, "a bad line decides nothing"


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        (mooncake(), line(timestamp=4, token_ids=[1]), "a token-ids line in a mooncake trace"),
        (line(token_ids=[1]), line(hash_ids=[1], input_length=1), "a mooncake line in a token-ids trace"),
        (mooncake(), mooncake(block_size=512), "a kvcache-simulator line in a mooncake trace"),
        (mooncake(block_size=512), mooncake(), "a mooncake line in a kvcache-simulator trace"),
        (mooncake(block_size=300), mooncake(block_size=301), "block_size 301, but 300 before"),
        (mooncake(block_size=300), mooncake(block_tokens=[300, 300]), "block_size missing, but 300 before"),
        (mooncake(), mooncake(timestamp=None), "timestamp missing"),
        (mooncake(timestamp=None), mooncake(), "timestamp, but none before"),
    ],
)
def test_lines_of_one_trace_must_agree(first: bytes, second: bytes, reason: str) -> None:
    parser = LineParser()
    parser.parse(first)
    with pytest.raises(BadLineError, match=reason):
        parser.parse(second)
    parser.parse(first)


def test_a_block_size_that_contradicts_the_trace() -> None:
    with pytest.raises(BadLineError, match="block_size 300, but 16 was asked for"):
        LineParser(16).parse(mooncake(block_size=300))
