"""`TagField`: one field of a trace's lines, whatever its name, as the tag of a request."""

from __future__ import annotations

import json

from blockpool.errors import MissingExtraError

try:
    import msgspec
except ImportError:
    raise MissingExtraError("reading traces", "cli") from None


MAX_TAG_LENGTH = 1_000  # characters; a tag names a group of requests, and each is kept


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
        """The value as text: a string as it is, the rest as JSON writes it; None when it is absent or null.

        Args:
            text: A line that has been read as JSON already.

        Raises:
            TagValueError: It is a list or an object, or longer than `MAX_TAG_LENGTH`.
        """
        raw = self._decoder.decode(text).get(self._name)
        if raw is None:
            return None
        try:
            value: object = msgspec.json.decode(raw)
        except msgspec.DecodeError as error:
            raise TagValueError(f"{self._name!r} cannot be a tag: {error}") from None
        if isinstance(value, str) and len(value) > MAX_TAG_LENGTH:
            raise TagValueError(
                f"{self._name!r} cannot be a tag: it has {len(value):,} characters, more than {MAX_TAG_LENGTH:,}"
            )
        if value is None or isinstance(value, str):
            return value
        if isinstance(value, (list, dict)):
            kind = "a list" if isinstance(value, list) else "an object"
            raise TagValueError(
                f"{self._name!r} cannot be a tag: text, a number, true or false is needed, not {kind}"
            )
        return json.dumps(value)
