"""`ReportFile`: a file that is there as a whole or not at all, and known to be writable before the work begins."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from pathlib import Path
from types import TracebackType

from blockpool.errors import ConfigError, MissingExtraError


class ReportFile:
    """Opens a file beside the one that is wanted, and puts it there when it is written.

    Use as a context manager around the work; without `write`, or with an error, nothing is left.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Checks the path and that the extra is there; opens nothing.

        Raises:
            MissingExtraError: The packages of the extra `report` are not there.
            ConfigError: The name is empty or "-", or is that of something that is no regular file, or of a
                link that leads back to itself.
        """
        if not os.fspath(path):
            raise ConfigError("html", path, "the name is empty")
        if os.fspath(path) == "-":
            raise ConfigError("html", path, "needs the name of a file")
        check_packages()
        self.path = Path(os.path.realpath(path))
        if self.path.is_symlink():  # all links have been followed
            raise ConfigError("html", os.fspath(path), "is a link that leads back to itself")
        if self.path.exists() and not self.path.is_file():
            raise ConfigError("html", os.fspath(path), "is there already, and no regular file")
        self._name = os.fspath(path)
        # Not made of the name, which may be as long as the file system allows.
        self._part = self.path.with_name(f".blockpool-{secrets.token_hex(8)}.part")

    def __enter__(self) -> ReportFile:
        """Opens the file beside it.

        Raises:
            OSError: It cannot be written.
        """
        try:
            if self.path.exists() and not os.access(self.path, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            self._file = self._part.open("xb")
        except OSError as error:
            error.filename = self._name
            raise
        return self

    def write(self, content: bytes) -> None:
        """Writes all of it, and puts it in its place, with the permissions of the file that is replaced.

        Raises:
            OSError: It cannot be written.
        """
        try:
            with self._file as file:
                file.write(content)
            if self.path.exists():
                shutil.copymode(self.path, self._part)
            self._part.replace(self.path)
        except OSError as error:
            error.filename = self._name
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        self._part.unlink(missing_ok=True)


def check_packages() -> None:
    """Raises MissingExtraError when a package of the extra `report` cannot be imported."""
    try:
        import altair  # noqa: F401
        import jinja2  # noqa: F401
        import vl_convert  # noqa: F401
    except ImportError:
        raise MissingExtraError("--html", "report") from None
