"""Checks of what callers pass: the value, or the typed error that names the argument."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from operator import index
from typing import Any, Final

from blockpool.errors import ArgumentError, ConfigError

MAX_LENGTH: Final = 0x7FFFFFFFFFFFFFF
BACKWARD_ITERATOR: Final[type] = type(iter(reversed([0])))


def as_int(field: str, value: object) -> int:
    """An integer, or whatever stands for one (NumPy's, say).

    Raises:
        ArgumentError: For anything else.
    """
    if isinstance(value, int):
        return value
    try:
        return index(value)  # type: ignore[arg-type]
    except TypeError:
        raise ArgumentError(field, value, "an integer is needed") from None


def as_count(field: str, value: object) -> int:
    """An integer of 0 or more.

    Raises:
        ArgumentError: For anything but an integer.
        ConfigError: For a negative one.
    """
    number = value if isinstance(value, int) else as_int(field, value)
    if number < 0:
        raise ConfigError(field, number, "must not be negative")
    return number


def as_size(field: str, value: object) -> int:
    """An integer of 1 or more.

    Raises:
        ArgumentError: For anything but an integer.
        ConfigError: For 0 or less.
    """
    number = value if isinstance(value, int) else as_int(field, value)
    if number < 1:
        raise ConfigError(field, number, "must be at least 1")
    return number


def as_bytes(field: str, value: object) -> bytes:
    """Bytes.

    Raises:
        ArgumentError: For anything else.
    """
    if isinstance(value, bytes):
        return value
    raise ArgumentError(field, value, "bytes are needed")


def as_bool(field: str, value: object) -> bool:
    """True or False.

    Raises:
        ArgumentError: For anything else.
    """
    if isinstance(value, bool):
        return value
    raise ArgumentError(field, value, "True or False is needed")


def as_choice(field: str, value: object, choices: tuple[str, ...]) -> str:
    """One of some names.

    Raises:
        ArgumentError: If it is no string.
        ConfigError: If it is none of them.
    """
    if not isinstance(value, str):
        raise ArgumentError(field, value, "a name is needed")
    if value not in choices:
        raise ConfigError(field, value, "must be one of " + ", ".join(choices))
    return value


def as_optional_text(field: str, value: object) -> str | None:
    """None, or a string that is not empty.

    Raises:
        ArgumentError: For anything else.
        ConfigError: For an empty one.
    """
    if value is None:
        return None
    if not isinstance(value, str):
        raise ArgumentError(field, value, "a string is needed")
    if not value:
        raise ConfigError(field, value, "must not be empty")
    return value


def random_seed(random_bytes: object, size: int) -> bytes:
    """Asks a source for `size` random bytes.

    Raises:
        ArgumentError: If it cannot be called, or returns no bytes.
        ConfigError: If it returns another number of them.
    """
    if not callable(random_bytes):
        raise ArgumentError("random_bytes", random_bytes, "a function is needed")
    seed = as_bytes("random_bytes", random_bytes(size))
    if len(seed) != size:
        raise ConfigError("random_bytes", len(seed), f"it must return {size} bytes")
    return bytes(seed)


def as_list(field: str, values: object, limit: int = MAX_LENGTH) -> list[object]:
    """The first `limit` values of any iterable, taken once; a list that is no longer is used as it is.

    Raises:
        ArgumentError: For what cannot be iterated, and for text and bytes, which are never meant.
    """
    if isinstance(values, list):
        return values if len(values) <= limit else values[:limit]
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise ArgumentError(field, values, "an iterable is needed")
    try:
        iterator = iter(values)
    except TypeError:  # NumPy's arrays of no dimension, say
        raise ArgumentError(field, values, "an iterable is needed") from None
    return list(iterator) if limit >= MAX_LENGTH else list(islice(iterator, limit))


def as_list_from_end(field: str, values: object) -> list[object]:
    """All values of any iterable, the last one first, taken once. Of `reversed(…)` of a list it is that list itself.

    Callers free a request's blocks that way. How the iterator is pickled tells the list and the position.

    Raises:
        ArgumentError: As `as_list`.
    """
    if type(values) is not BACKWARD_ITERATOR:
        items = as_list(field, values)
        if len(items) < 2:
            return items
        copied = list(items)
        copied.reverse()
        return copied
    iterator: Any = values
    state = iterator.__reduce__()
    if len(state) == 3 and type(state[1][0]) is list:
        whole: list[object] = state[1][0]
        num_left: int = state[2] + 1
        if 0 < num_left <= len(whole):
            iterator.__setstate__(-1)
            return whole if num_left == len(whole) else whole[:num_left]
    return list(iterator)[::-1]


def require_attributes(field: str, value: object, names: tuple[str, ...]) -> None:
    """None, or an object that has all of these attributes.

    Raises:
        ArgumentError: If one is missing.
    """
    if value is None:
        return
    for name in names:
        if not hasattr(value, name):
            raise ArgumentError(field, value, f"it has no {name}")
