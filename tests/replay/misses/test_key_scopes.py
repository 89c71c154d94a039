"""Under which LoRA, salts and images tokens are known: the nearest of them, however many there are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockpool.replay.misses import key_scopes
from blockpool.replay.misses.key_scopes import PLAIN_SCOPE, KeyScopes, Scope

NAMES = st.sampled_from([None, "a", "b", "c"])
SCOPES = st.builds(Scope, NAMES, NAMES, st.integers(0, 3)).filter(lambda scope: scope != PLAIN_SCOPE)


def model(known: list[Scope], scope: Scope, known_plain: bool) -> str:
    """The rule as it is written: in the fewest kinds, then the plain one, then the one that was known first."""
    others = [PLAIN_SCOPE, *known] if known_plain else known
    differing = [
        [kind for kind, one, two in zip(("lora", "salt", "image"), scope, other, strict=True) if one != two]
        for other in others
    ]
    return " + ".join(min(differing, key=len, default=[]))


@given(st.lists(SCOPES, unique=True, max_size=40), SCOPES, st.booleans())
def test_the_nearest_scope(known: list[Scope], scope: Scope, known_plain: bool) -> None:
    known = [other for other in known if other != scope]
    scopes = KeyScopes()
    for other in known:
        scopes.add("tokens", other)
        scopes.add("others", scope)
    expected = model(known, scope, known_plain)
    assert scopes.differing_kinds("tokens", scope, known_plain=known_plain) == expected


def test_one_more_user_costs_no_more_however_many_there_were(monkeypatch: pytest.MonkeyPatch) -> None:
    """A salt and a picture per user: every scope differs from every other in two kinds."""
    compared = 0

    class Counted(Scope):
        __slots__ = ()

        def __iter__(self):  # type: ignore[no-untyped-def]
            nonlocal compared
            compared += 1
            return super().__iter__()

    monkeypatch.setattr(key_scopes, "Scope", Counted)
    scopes = KeyScopes()
    for user in range(500):
        scope = Counted(None, f"user{user}", user + 1)
        kinds = scopes.differing_kinds("tokens", scope, known_plain=False)
        assert kinds == ("salt + image" if user else "")
        scopes.add("tokens", scope)
    assert compared < 20 * 500
