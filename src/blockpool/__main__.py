"""Entry point of the command line: `blockpool` and `python -m blockpool`.

All that can go wrong ends here as one line on standard error and an exit code: 0 fine, 1 the work failed,
2 the call was wrong, 130 interrupted. What needs the extra `cli` is imported only after it was asked for.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from blockpool.errors import BlockPoolError, MissingExtraError, printable

_CLI_PACKAGES = ("click", "rich", "msgspec", "plotille")
_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line.

    Args:
        arguments: Without the program's name; by default those of the process.

    Returns:
        The exit code.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if sys.stderr is None:  # closed: what would be said there is lost, and no reason to fail
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 - as long as the process
    if sys.stdout is None:
        return _fail("standard output is closed")
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A file name that the terminal cannot show is no reason to fail.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        return _run(arguments)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        _drop_stdout()
        return 1
    except BlockPoolError as error:
        return _fail(str(error))
    except OSError as error:
        name = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, (str, bytes)) else ""
        return _fail(f"{name}{error.strerror or error}")
    except MemoryError:
        return _fail("out of memory")
    except Exception as error:
        if not _is_of_zeromq(error):
            raise
        return _fail(f"ZeroMQ: {error}")


def _is_of_zeromq(error: Exception) -> bool:
    """Whether it is what pyzmq raises when the system has no more sockets, say; needs the extra `events` as little."""
    zmq = sys.modules.get("zmq")
    return zmq is not None and isinstance(error, zmq.ZMQError)


def _run(arguments: list[str]) -> int:
    if arguments[:1] == ["--version"]:
        import blockpool

        build = "compiled" if blockpool.COMPILED else "interpreted"
        print(f"blockpool {blockpool.__version__} ({build})")
        return 0
    try:
        import click

        from blockpool.cli import cli
    except MissingExtraError:
        raise
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in _CLI_PACKAGES:
            raise
        raise MissingExtraError("the command line", "cli") from None
    try:
        code = cli.main(arguments, prog_name="blockpool", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.exceptions.Abort:
        return _INTERRUPTED
    except click.ClickException as error:
        error.show()
        return error.exit_code


def _fail(message: str) -> int:
    print(f"blockpool: {printable(message)}", file=sys.stderr)
    return 1


def _drop_stdout() -> None:
    """Whoever read our output has left; keeps the interpreter from failing once more as it exits."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        pass


if __name__ == "__main__":
    sys.exit(main())
