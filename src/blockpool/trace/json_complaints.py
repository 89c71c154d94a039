"""What msgspec says of a line that it cannot read, in the words of this package."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import msgspec

# How msgspec words a value that it does not like, and what its types are called in JSON.
_COMPLAINT = re.compile(
    r"Expected `([^`]+)`( of length [<>]= \d+| [<>]= \d+)?(?:, got `([^`]+)`)?(?: - at `([^`]*)`)?"
)
_MISSING = re.compile(r"Object missing required field `([^`]+)` - at `([^`]*)`")
_TOO_LARGE = re.compile(r"(?:Integer value|Number) out of range - at `([^`]*)`")
_JSON_TYPES = {
    "int": "an integer",
    "float": "a number",
    "str": "a string",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}


def why_not_valid(error: msgspec.ValidationError) -> str:
    """Of a value that it does not like: "Expected `int` >= 0 - at `$.input_length`" and the like."""
    text = _one_line(str(error))
    match = _MISSING.fullmatch(text)
    if match is not None:
        return f"{_place(match[2])}: {match[1]} missing"
    match = _TOO_LARGE.fullmatch(text)
    if match is not None:
        return f"{_place(match[1])}: a number that is too large"
    match = _COMPLAINT.fullmatch(text)
    if match is None:
        return text
    wanted, bound, got, place = match.groups()
    words = " or ".join(_JSON_TYPES.get(name, name) for name in wanted.split(" | ") if name != "null")
    if bound:
        sign, limit = bound.split()[-2:]
        if "length" in bound:
            words = f"{words} that is not empty"
        else:
            words = f"{words} of {limit} or {'more' if sign == '>=' else 'less'}"
    words += " is needed"
    if got:
        words += f", not {_JSON_TYPES.get(got, got)}"
    return f"{_place(place)}: {words}" if place else words


def _place(path: str) -> str:
    """A path of msgspec's, "$.images[0]", without its root."""
    return path.removeprefix("$").removeprefix(".") or "the line"


def why_no_json(error: msgspec.DecodeError, text: bytes) -> str:
    """Of bytes that are no JSON.

    Args:
        error: What it says.
        text: The line.
    """
    reason = _one_line(str(error)).removeprefix("JSON is malformed: ")
    if reason != "Input data was truncated":
        return reason
    # It says so of half a surrogate pair, too, which the standard library lets pass.
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return "it ends in the middle"
    return "half of a surrogate pair in a string"


def _one_line(text: str) -> str:
    return " ".join(text.split())[:200]
