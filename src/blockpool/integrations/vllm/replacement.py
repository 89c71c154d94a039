"""`Replacements`: new objects in the place of vLLM's, in every module that knows the old ones; all or none."""

from __future__ import annotations

import hashlib
import inspect
import sys
import textwrap
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
            owner: Where the old one is defined. If it is a module, every module of vLLM that has imported the old one,
                under whatever name, gets the new one, too.
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
                    for module, known_as in _places_of(old):
                        self._put(module, known_as, old, new)
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


def _places_of(old: Any) -> list[tuple[Any, str]]:
    """The loaded modules of vLLM that have the object, and its name there."""
    found = []
    for title, module in list(sys.modules.items()):
        if title.startswith("vllm."):
            known = getattr(module, "__dict__", {})
            found += [(module, name) for name, value in list(known.items()) if value is old]
    return found


def require_tested(owner: Any, name: str, fingerprint: str) -> Any:
    """The object that is to be replaced, or that a replacement relies on.

    Args:
        fingerprint: Of its source, as `fingerprint_of` gives it, when it was tested.

    Raises:
        Incompatible: If there is none, somebody else has put another one there, or its source is another one.
    """
    found = getattr(owner, name, None)
    if found is None:
        raise Incompatible(f"it has no {_shown(owner, name)}")
    module = owner.__name__ if inspect.ismodule(owner) else owner.__module__
    shown = _shown(owner, name)
    parts = vars(found).items() if inspect.isclass(found) else ()
    for what, one in [(shown, found), *((f"{shown}.{part}", value) for part, value in parts)]:
        for origin in _origins(one):
            if origin not in (module, "dataclasses"):
                raise Incompatible(f"{what} is not vLLM's own any more, but of {origin}")
    for part, value in parts:
        if inspect.isfunction(value) and value.__qualname__ != f"{found.__qualname__}.{part}":
            raise Incompatible(f"{shown}.{part} is not vLLM's own any more, but {value.__qualname__}")
    try:
        actual = fingerprint_of(found)
    except (OSError, TypeError):
        raise Incompatible(f"the source of {shown} cannot be read") from None
    if actual != fingerprint:
        raise Incompatible(f"{shown} is not what was tested ({actual}, not {fingerprint})")
    return found


def _origins(found: Any) -> list[str]:
    """The modules of a class or function, or of those of a property; of a wrapper its own, whatever it says.

    Of anything else that is called, or that answers for an attribute, the module of its type; none of plain values.
    """
    if isinstance(found, property):
        return [origin for one in (found.fget, found.fset, found.fdel) if one for origin in _origins(one)]
    bound = isinstance(found, (classmethod, staticmethod)) or inspect.ismethod(found)
    function = found.__func__ if bound else found
    if inspect.isfunction(function):
        return [str(function.__globals__.get("__name__"))]
    if inspect.isclass(function):
        return [str(function.__module__)]
    kind = type(function)
    answers = callable(function) or hasattr(kind, "__get__")
    return [kind.__module__] if answers and kind.__module__ != "builtins" else []


def fingerprint_of(function_or_class: Any) -> str:
    """Tells one source from another, lines that are empty or nothing but a comment aside.

    Raises:
        OSError, TypeError: If the source cannot be had.
    """
    lines = textwrap.dedent(inspect.getsource(function_or_class)).splitlines()
    told = "\n".join(line.rstrip() for line in lines if line.strip() and not line.lstrip().startswith("#"))
    return hashlib.sha256(told.encode()).hexdigest()[:12]
