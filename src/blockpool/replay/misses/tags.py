"""`TagReader`: the tag of each request, and whether any had one."""

from __future__ import annotations

from blockpool.errors import ConfigError
from blockpool.trace.request import TraceRequest

DEFAULT_TAG = "session_id"
_REQUEST_FIELDS = (DEFAULT_TAG, "lora", "salt")


def tag_field_to_read(tag: str | None) -> str | None:
    """The field that a `TraceReader` must keep for this tag; None when a request has it anyway."""
    return None if tag in _REQUEST_FIELDS else tag


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
        value: str | None = getattr(request, self._field)
        if value is not None:
            self._found = True
        return value

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
