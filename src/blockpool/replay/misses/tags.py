"""`TagReader`: the tag of each request, and whether any had one. How tables show tags."""

from __future__ import annotations

import json
import re

from blockpool.errors import ConfigError
from blockpool.trace.request import TraceRequest
from blockpool.trace.tag_field import tag_text

DEFAULT_TAG = "session_id"
NO_TAG = "(none)"
_REQUEST_FIELDS = (DEFAULT_TAG, "lora", "salt")


def tag_field_to_read(tag: str | None) -> str | None:
    """The field that a `TraceReader` must keep for this tag; None when a request has it anyway."""
    return None if tag in _REQUEST_FIELDS else tag


_OTHERS = re.compile(r"[0-9,]+ others")


def shown_tag(tag: str | None) -> str:
    """A tag as tables have it: what is not there, and all others together, cannot be mistaken for one."""
    if tag is None:
        return NO_TAG
    return json.dumps(tag, ensure_ascii=False) if tag == NO_TAG or _OTHERS.fullmatch(tag) else tag


def shown_others(count: int) -> str:
    """The name of so many tags together."""
    return f"{count:,} others"


class TagReader:
    """Reads tags off requests.

    `session_id`, `lora` and `salt` are fields of every request; of any other name the request has the value that the
    reader of the trace was asked to keep.
    """

    def __init__(self, tag: str | None) -> None:
        """Has seen no request.

        Args:
            tag: Name of the field; None: `session_id` where there is one.
        """
        self._tag = tag
        self._field = "tag" if tag_field_to_read(tag) is not None else (tag or DEFAULT_TAG)
        self._found = False

    def of(self, request: TraceRequest) -> str | None:
        """The tag of a request, or None."""
        value: str | int | None = getattr(request, self._field)
        if value is None:
            return None
        self._found = True
        # A reader has made text of all other fields, and LoRA and salt are nothing else.
        return tag_text(value) if self._field == DEFAULT_TAG else str(value)

    def name(self) -> str | None:
        """Name of the tag; None when none was asked for and no request has the default one.

        Raises:
            ConfigError: One was asked for and no request has it.
        """
        if self._found:
            return self._tag or DEFAULT_TAG
        if self._tag is not None:
            raise ConfigError("tag", self._tag, "no request of the trace has this field")
        return None
