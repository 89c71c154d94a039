"""`TagField`: one field of a trace's lines, whatever its name, as the tag of a request."""

from __future__ import annotations

import json
import re

from blockpool.errors import MissingExtraError

try:
    import msgspec
except ImportError:
    raise MissingExtraError("reading traces", "cli") from None


MAX_TAG_LENGTH = 1_000  # characters; a tag names a group of requests, and each is kept


_LIKE_ANOTHER_TYPE = re.compile(r'true|false|-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?|".*', re.DOTALL)


def tag_text(value: str | float | bool) -> str:
    """A value as a tag: no two values of JSON have the same.

    Text stays as it is unless it could be mistaken for a number, for true or false, or for such a text: then it is
    in quotes, as in JSON. All else is as JSON writes it.
    """
    if isinstance(value, str) and not _LIKE_ANOTHER_TYPE.fullmatch(value):
        return value
    return json.dumps(value, ensure_ascii=False)


class TagValueError(Exception):
    """The field holds what cannot be a tag. Whoever knows file and line makes a TraceError of it."""


class TagField:
    """Reads one field of a line and nothing else."""

    def __init__(self, name: str) -> None:
        """Any name will do.

        Args:
            name: As it stands in the JSON, at the top of the line.
        """
        self._name = name
        # The values of other fields are passed over, not decoded.
        self._decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])

    def of(self, text: bytes) -> str | None:
        """The value as `tag_text` has it; None when it is absent or null.

        Args:
            text: A line that has been read as JSON already.

        Raises:
            TagValueError: It is a list or an object, or longer than `MAX_TAG_LENGTH`.
        """
        raw = self._decoder.decode(text).get(self._name)
        if raw is None:
            return None
        content = bytes(raw).strip()
        if content[:1] in (b"[", b"{"):
            kind = "a list" if content[:1] == b"[" else "an object"
            raise self._error(f"text, a number, true or false is needed, not {kind}")
        is_text = content[:1] == b'"'
        if not is_text:
            self._check_length(len(content))
        try:
            value: str | float | bool | None = msgspec.json.decode(content)
        except msgspec.DecodeError:  # it is JSON, as the whole line was read
            raise self._error("a number that is too large") from None
        if value is None:
            return None
        if isinstance(value, str):
            self._check_length(len(value))
        return tag_text(value)

    def _check_length(self, length: int) -> None:
        if length > MAX_TAG_LENGTH:
            raise self._error(f"it has {length:,} characters, more than {MAX_TAG_LENGTH:,}")

    def _error(self, reason: str) -> TagValueError:
        return TagValueError(f"{self._name!r} cannot be a tag: {reason}")
