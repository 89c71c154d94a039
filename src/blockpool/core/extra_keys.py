"""What a block's content depends on besides its tokens, as keys that go into its hash."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from operator import index
from typing import Any, Final, NamedTuple

from blockpool.core.arguments import as_choice, as_count, as_list, as_size
from blockpool.core.types import IntArg, StrArg
from blockpool.errors import ArgumentError, ConfigError

KEY_SCHEMAS = ("tagged", "untagged")
MAX_DEPTH: Final = 8


class MultiModalInput(NamedTuple):
    """An image, or the like, that stands in a prompt as a run of placeholder tokens.

    Attributes:
        identifier: Names the content: equal for equal content only.
        offset: Token position in the prompt where the run starts, 0 or more.
        length: Tokens of the run, 1 or more.
    """

    identifier: str
    offset: int
    length: int


def block_extra_keys(
    num_blocks: IntArg,
    block_size: IntArg,
    lora_name: StrArg | None = None,
    mm_inputs: Sequence[tuple[str, int, int]] = (),
    cache_salt: StrArg | None = None,
    prompt_embeds: Any = None,
    first_block: IntArg = 0,
    schema: StrArg = "tagged",
) -> list[tuple[object, ...] | None]:
    """Extra keys for a run of blocks, for `BlockHasher.hash_tokens`.

    Tagged, each key says what it is: `("lora", name)`, `("mm", identifier, offset)` with the offset relative to the
    start of the block (negative if the input began before it), `("cache_salt", salt)` on block 0 only,
    `("prompt_embeds", SHA-256 of the block's bytes)`. Untagged, as vLLM 0.16 has them, they are the bare names,
    identifiers, salt and bytes in that order: a LoRA and a salt of one name are then not told apart.

    Args:
        num_blocks: Blocks, 0 or more.
        block_size: Tokens per block, at least 1.
        lora_name: Adapter of the request.
        mm_inputs: `MultiModalInput`s or equal tuples, in the order of their offsets.
        cache_salt: Keeps those with other salts out.
        prompt_embeds: Array of shape (tokens, …) whose slices have `tobytes()`; row i belongs to token i of the prompt.
        first_block: Position in the prompt of the first block.
        schema: "tagged" or "untagged".

    Returns:
        A tuple of keys per block; None for a block without any.

    Raises:
        ArgumentError: For an argument of the wrong type.
        ConfigError: For a number out of range, an empty name or salt, inputs out of order, or an unknown schema.
    """
    first = as_count("first_block", first_block)
    count = as_count("num_blocks", num_blocks)
    size = as_size("block_size", block_size)
    tagged = as_choice("schema", schema, KEY_SCHEMAS) == "tagged"
    lora = _name_key("lora", lora_name, tagged)
    salt = _name_key("cache_salt", cache_salt, tagged)
    inputs = _checked_inputs(mm_inputs)
    result: list[tuple[object, ...] | None] = []
    passed = 0
    for block in range(first, first + count):
        start = block * size
        end = start + size
        while passed < len(inputs) and inputs[passed].offset + inputs[passed].length <= start:
            passed += 1
        keys = lora + _mm_keys(inputs, passed, start, end, tagged)
        if block == 0:
            keys = keys + salt
        if prompt_embeds is not None:
            keys.append(_embeds_key(prompt_embeds, start, end, tagged))
        result.append(tuple(keys) if keys else None)
    return result


def _name_key(tag: str, name: object, tagged: bool) -> list[object]:
    if name is None:
        return []
    if not isinstance(name, str):
        raise ArgumentError(tag, name, "a string is needed")
    if not name:
        raise ConfigError(tag, name, "must not be empty")
    return [(tag, name)] if tagged else [name]


def _checked_inputs(mm_inputs: object) -> list[MultiModalInput]:
    inputs: list[MultiModalInput] = []
    end = 0
    for item in as_list("mm_inputs", mm_inputs):
        if not isinstance(item, tuple) or len(item) != 3 or not isinstance(item[0], str):
            raise ArgumentError("mm_inputs", item, "tuples of identifier, offset and length are needed")
        entry = MultiModalInput(item[0], as_count("offset", item[1]), as_size("length", item[2]))
        if entry.offset < end:
            raise ConfigError("mm_inputs", item, f"the input before it ends at {end}; they must not overlap")
        end = entry.offset + entry.length
        inputs.append(entry)
    return inputs


def _mm_keys(inputs: list[MultiModalInput], passed: int, start: int, end: int, tagged: bool) -> list[object]:
    """Keys of the inputs, from the first that is not yet passed on, that overlap tokens start … end - 1."""
    keys: list[object] = []
    position = passed
    while position < len(inputs) and inputs[position].offset < end:
        entry = inputs[position]
        keys.append(("mm", entry.identifier, entry.offset - start) if tagged else entry.identifier)
        position += 1
    return keys


def _embeds_key(prompt_embeds: Any, start: int, end: int, tagged: bool) -> object:
    try:
        if end > len(prompt_embeds):
            raise ConfigError("prompt_embeds", len(prompt_embeds), f"the blocks reach to token {end}")
        data = bytes(prompt_embeds[start:end].tobytes())
    except (AttributeError, TypeError):
        raise ArgumentError(
            "prompt_embeds", prompt_embeds, "an array with a row per token is needed"
        ) from None
    return ("prompt_embeds", hashlib.sha256(data).digest()) if tagged else data


def canonical_keys(extra_keys: object) -> tuple[object, ...] | None:
    """Extra keys in the one form that is hashed: plain types, equal parts being one object; () becomes None.

    A pickle writes an object that it has met before as a reference. So that equal keys hash equally, whatever the
    identity of their parts, equal strings, bytes and tuples are made one object each, as short strings are anyway.

    Raises:
        ArgumentError: For keys that are not None, bool, int, str, bytes or tuples of them.
        ConfigError: For an integer beyond 64 bits, a string that is not valid Unicode, or tuples nested too deep.
    """
    if extra_keys is None:
        return None
    if not isinstance(extra_keys, tuple):
        raise ArgumentError("extra_keys", extra_keys, "a tuple or None is needed")
    if not extra_keys:
        return None
    seen: dict[object, object] = {}
    return tuple([_canonical(key, seen, 1) for key in extra_keys])


def _canonical(key: object, seen: dict[object, object], depth: int) -> object:
    if key is None or isinstance(key, bool):
        return key
    if isinstance(key, str):
        text = _plain_text(key)
        return seen.setdefault(text, text)
    if isinstance(key, (bytes, bytearray)):
        data = bytes(key)
        return seen.setdefault(data, data)
    if isinstance(key, tuple):
        if depth == MAX_DEPTH:
            raise ConfigError("extra_keys", key, f"must not be nested deeper than {MAX_DEPTH} tuples")
        items = tuple([_canonical(item, seen, depth + 1) for item in key])
        return seen.setdefault((tuple, repr(items)), items)
    return _plain_int(key)


def _plain_text(text: str) -> str:
    plain = str.__str__(text)
    try:
        plain.encode()
    except UnicodeEncodeError:
        raise ConfigError("extra_keys", text, "must be valid Unicode") from None
    return plain


def _plain_int(key: object) -> int:
    try:
        number = int(index(key))  # type: ignore[arg-type]
    except TypeError:
        raise ArgumentError(
            "extra_keys", key, "None, bool, int, str, bytes or a tuple of them is needed"
        ) from None
    if not -(1 << 63) <= number < 1 << 64:
        raise ConfigError("extra_keys", number, "must fit in 64 bits")
    return number
