"""`Replacements`: new objects in the place of vLLM's, in every module that knows the old ones; all or none."""

from __future__ import annotations

import inspect
import sys
from typing import Any

Place = tuple[Any, str, Any]


class Incompatible(Exception):
    """Something of vLLM is not what was tested. The text says what."""


class Replacements:
    """A list of replacements that are made together, and can be undone."""

    def __init__(self) -> None:
        self._wanted: list[Place] = []
        self._done: list[Place] = []

    def replace(self, owner: Any, name: str, new: Any) -> None:
        """Notes that `owner.name` shall be `new`; `owner` is a module or a class.

        Args:
            owner: Where the old one is defined. If it is a module, every module of vLLM that has imported the old one
                gets the new one, too.
        """
        self._wanted.append((owner, name, new))

    def names(self) -> list[str]:
        """What is replaced, as the log shows it."""
        return [_shown(owner, name) for owner, name, _ in self._wanted]

    def apply(self) -> None:
        """Makes all replacements; when one fails, those before it are undone."""
        try:
            for owner, name, new in self._wanted:
                old = inspect.getattr_static(owner, name)
                self._put(owner, name, old, new)
                if inspect.ismodule(owner):
                    for module in _modules_with(old, name):
                        self._put(module, name, old, new)
        except BaseException:
            self.undo()
            raise

    def undo(self) -> None:
        """Puts back what was replaced."""
        while self._done:
            owner, name, old = self._done.pop()
            setattr(owner, name, old)

    def _put(self, owner: Any, name: str, old: Any, new: Any) -> None:
        self._done.append((owner, name, old))
        setattr(owner, name, new)


def _shown(owner: Any, name: str) -> str:
    return name if inspect.ismodule(owner) else f"{owner.__name__}.{name}"


def _modules_with(old: Any, name: str) -> list[Any]:
    """The loaded modules of vLLM that have the object under its name."""
    found = []
    for title, module in list(sys.modules.items()):
        if title.startswith("vllm.") and getattr(module, "__dict__", {}).get(name) is old:
            found.append(module)
    return found


def require_own(owner: Any, name: str, module: str) -> Any:
    """The object that is to be replaced.

    Raises:
        Incompatible: If there is none, or somebody else has put another one there.
    """
    found = getattr(owner, name, None)
    if found is None:
        raise Incompatible(f"it has no {name}")
    if getattr(found, "__module__", None) != module:
        raise Incompatible(f"{_shown(owner, name)} is not vLLM's own any more, but of {found.__module__}")
    return found


def require_same_calls(theirs: Any, ours: Any) -> None:
    """Checks that whatever is called on a class of vLLM's can be called on ours, with the same arguments.

    Raises:
        Incompatible: If a method is missing, or its parameters are others.
    """
    for name, method in vars(theirs).items():
        if not inspect.isfunction(method) or (name.startswith("_") and name != "__init__"):
            continue
        if name == "__init__" and not inspect.isfunction(ours.__init__):
            continue  # a compiled class does not tell; tests/vllm constructs it in every way that vLLM's tests do
        require_same_parameters(method, getattr(ours, name, None), f"{theirs.__name__}.{name}")


def require_same_parameters(theirs: Any, ours: Any, shown: str) -> None:
    """Checks that two functions have the same parameters.

    Raises:
        Incompatible: If they have not.
    """
    if ours is None:
        raise Incompatible(f"{shown} is unknown")
    wanted = _parameters(theirs)
    found = _parameters(ours)
    if wanted != found:
        raise Incompatible(f"{shown} takes {', '.join(wanted)}; {', '.join(found)} was expected")


def _parameters(function: Any) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]
