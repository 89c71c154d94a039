"""Every error that blockpool raises: one root, specific leaves, the facts as attributes.

This module is never compiled: exceptions of a compiled module could not be subclassed.
"""

from __future__ import annotations


def printable(text: str) -> str:
    """Text on one line that does nothing to a terminal: line breaks and control codes are written as in Python.

    Names of files and fields of a config may hold anything.
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


class BlockPoolError(Exception):
    """Root of all errors raised by blockpool. All can be pickled: values that are not plain become their text."""

    def __reduce__(self) -> tuple[type[BlockPoolError], tuple[object, ...]]:
        plain = (int, bool, str, bytes, float, type(None))
        return type(self), tuple(value if type(value) in plain else _shorten(value) for value in self.args)


class ConfigError(BlockPoolError, ValueError):
    """A number or a setting that cannot be right.

    Attributes:
        field: Name of the argument, option or config field.
        value: What was given.
        reason: What is wrong with it, as the end of the sentence "field=value ...".
    """

    def __init__(self, field: str, value: object, reason: str) -> None:
        super().__init__(field, value, reason)
        self.field = field
        self.value = value
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.field}={_shorten(self.value)}: {self.reason}"


class ArgumentError(ConfigError, TypeError):
    """An argument of the wrong type."""


class OutOfBlocksError(BlockPoolError, ValueError):
    """More blocks are wanted than are free. Expected in operation: wait, preempt or refuse.

    Attributes:
        wanted: Blocks asked for.
        free: Blocks that could have been had.
    """

    def __init__(self, wanted: int, free: int) -> None:
        wanted = int(wanted)  # True is 1
        super().__init__(wanted, free)
        self.wanted = wanted
        self.free = free

    def __str__(self) -> str:
        return f"{_shorten(self.wanted)} blocks wanted, {self.free} free"


class BlockStateError(BlockPoolError, RuntimeError):
    """A block is not in the state that the call needs: a bug of the caller.

    Attributes:
        block_id: The block.
        expected: The state that the call needs.
        actual: The state that was found.
    """

    def __init__(self, block_id: int, expected: str, actual: str) -> None:
        super().__init__(block_id, expected, actual)
        self.block_id = block_id
        self.expected = expected
        self.actual = actual

    def __str__(self) -> str:
        return f"block {_shorten(self.block_id)}: expected {self.expected}, but {self.actual}"


class HashAlreadySetError(BlockStateError, AssertionError):
    """A block that has a hash was given another; `reset_hash()` must come first."""


class TraceError(BlockPoolError, ValueError):
    """A trace that cannot be read.

    Attributes:
        path: The file, or "<stdin>".
        line: Line number from 1; 0 when the fault is not in one line.
        reason: What is wrong.
    """

    def __init__(self, path: str, line: int, reason: str) -> None:
        super().__init__(path, line, reason)
        self.path = path
        self.line = line
        self.reason = reason

    def __str__(self) -> str:
        where = f"{self.path}:{self.line}" if self.line else self.path
        return f"{where}: {self.reason}"


class EventDecodeError(BlockPoolError, ValueError):
    """A batch of events that cannot be read. It is rejected as a whole.

    Attributes:
        reason: What is wrong, and where.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"not a batch of events: {self.reason}"


class EndpointError(BlockPoolError):
    """An address that cannot be used now: taken by somebody else, or of no interface here.

    Attributes:
        endpoint: The address.
        reason: What the system says.
    """

    def __init__(self, endpoint: str, reason: str) -> None:
        super().__init__(endpoint, reason)
        self.endpoint = endpoint
        self.reason = reason

    def __str__(self) -> str:
        return f"{_shorten(self.endpoint)}: {self.reason}"


class FingerprintError(BlockPoolError, ValueError):
    """Publishers whose hashes cannot be compared with each other or with the reader's: nothing would ever match.

    Attributes:
        source: The publisher, by its address.
        expected: The fingerprint that is wanted, or that another publisher has.
        actual: The one that it has.
    """

    def __init__(self, source: str, expected: str, actual: str) -> None:
        super().__init__(source, expected, actual)
        self.source = source
        self.expected = expected
        self.actual = actual

    def __str__(self) -> str:
        wanted, found = _shorten(self.expected), _shorten(self.actual)
        return f"{_shorten(self.source)}: its hashes are of {found}, not of {wanted}"


class InvariantError(BlockPoolError, AssertionError):
    """The pool contradicts itself: a bug of ours, or somebody wrote to its insides.

    Attributes:
        invariant: Which rule is broken, as in ARCHITECTURE.md ("I1" to "I6").
        dump: What was found, for the bug report.
    """

    def __init__(self, invariant: str, dump: str) -> None:
        super().__init__(invariant, dump)
        self.invariant = invariant
        self.dump = dump

    def __str__(self) -> str:
        return f"invariant {self.invariant} is broken\n{self.dump}"


class MissingExtraError(BlockPoolError, ImportError):
    """A feature needs a package that is not installed.

    Attributes:
        feature: What was asked for.
        extra: The extra of blockpool that brings it.
    """

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(feature, extra)
        self.feature = feature
        self.extra = extra

    def __str__(self) -> str:
        return (
            f"{self.feature} needs a package that is not installed: install the extra, "
            f"from a checkout with pip install '.[{self.extra}]'"
        )


def _shorten(value: object, limit: int = 80) -> str:
    """Shows a value in one line of at most `limit` characters, whatever it is."""
    try:
        text = repr(value)
    except Exception:  # a value that cannot be shown must not hide the error
        text = f"<{type(value).__name__}>"
    return text if len(text) <= limit else text[: limit - 3] + "..."
