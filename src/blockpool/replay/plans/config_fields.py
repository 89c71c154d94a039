"""Reading fields of a model's config, with errors that say which field and what was found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from blockpool.errors import ConfigError, printable

_MAX_NUMBER = 2**31 - 1
_NAMES_SHOWN = 12


class ConfigFields:
    """The fields of one config.

    Attributes:
        name: The config as errors name it.
    """

    def __init__(self, fields: Mapping[str, object], name: str) -> None:
        """Keeps the fields; null is the same as absent."""
        self._fields = {key: value for key, value in fields.items() if value is not None}
        self.name = name

    def __contains__(self, field: str) -> bool:
        return field in self._fields

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def says(self, field: str) -> bool:
        """Whether the field is there and is not 0, false or empty."""
        return bool(self._fields.get(field))

    def number(self, *names: str, default: int | None = None, least: int = 1, most: int = _MAX_NUMBER) -> int:
        """The first of some fields that is there, a whole number.

        Args:
            names: What different families call it.
            default: When none is there; None: that is an error.
            least: The smallest number that makes sense.
            most: The largest.

        Raises:
            ConfigError: Missing, not a whole number, or out of range.
        """
        for name in names:
            value = self._fields.get(name)
            if value is None:
                continue
            if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
                raise self.bad(name, f"must be a whole number, {least} … {most:,}")
            return value
        if default is None:
            raise self.missing(" or ".join(names))
        return default

    def text(self, *names: str) -> str | None:
        """The first of some fields that is there, a string; None without any."""
        for name in names:
            value = self._fields.get(name)
            if value is not None:
                if not isinstance(value, str):
                    raise self.bad(name, "must be a string")
                return value
        return None

    def texts(self, name: str) -> list[str] | None:
        """A list of strings, or None."""
        value = self._fields.get(name)
        if value is None:
            return None
        if not isinstance(value, Sequence) or not all(isinstance(item, str) for item in value):
            raise self.bad(name, "must be a list of strings")
        return list(value)

    def flag(self, name: str, *, default: bool) -> bool:
        """True or false."""
        value = self._fields.get(name, default)
        if not isinstance(value, bool):
            raise self.bad(name, "must be true or false")
        return value

    def inner(self, name: str) -> ConfigFields | None:
        """The fields inside a field, or None when it is absent."""
        value = self._fields.get(name)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self.bad(name, "must be an object")
        return ConfigFields(value, f"{name} of {self.name}")

    def missing(self, what: str) -> ConfigError:
        """The error for a field that is not there; tells which are."""
        names = sorted(map(printable, self._fields))
        shown = ", ".join(names[:_NAMES_SHOWN])
        if len(names) > _NAMES_SHOWN:
            shown += f" and {len(names) - _NAMES_SHOWN} more"
        return ConfigError(what, None, f"missing in {self.name}, which has {shown or 'no fields'}")

    def bad(self, name: str, reason: str) -> ConfigError:
        """The error for a field whose value cannot be right."""
        return ConfigError(name, self._fields.get(name), f"{reason} (in {self.name})")
