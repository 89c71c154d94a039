"""How numbers are written in a report."""

from __future__ import annotations


def whole(number: int) -> str:
    """1,234."""
    return f"{number:,}"


def percent(share: float) -> str:
    """12.34 %, with a space that does not break."""
    return f"{100 * share:.2f}\u00a0%"


def points(difference: float) -> str:
    """A difference of two shares in percentage points, with its sign."""
    return f"{100 * difference:+.2f}\u00a0points"


def ratio(part: int, total: int) -> float:
    """0 when there is nothing to have a part of."""
    return part / total if total else 0.0


def short(number: float) -> str:
    """Three digits below a thousand, whole numbers above; 0.5, 20, 1,000."""
    return f"{number:,.3g}" if number < 1000 else f"{number:,.0f}"


def quantile(value: float | None) -> str:
    """As `short`; a dash when there was nothing."""
    return "\u2013" if value is None else short(value)
