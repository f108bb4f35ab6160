"""The values of arguments of reader languages."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from fractions import Fraction

_MAX_EXPONENT = 10_000

Number = int | float | str
"""A number of a JSON document, or its text where a double would round it."""


def exact(number: Number | None) -> Fraction | None:
    """Return a number exactly as it is written; ``None`` if there is none.

    Raises:
        ValueError: It is no finite number, or has a huge exponent.
    """
    if number is None:
        return None
    try:
        decimal = Decimal(repr(number) if isinstance(number, float) else number)
    except InvalidOperation as error:
        raise ValueError(f"{number!r} is not a number") from error
    if not decimal.is_finite() or abs(decimal.adjusted()) > _MAX_EXPONENT:
        raise ValueError(f"{number!r} is not finite, or too large")
    return Fraction(decimal)


def tighter(
    included: Fraction | None, excluded: Fraction | None, *, is_low: bool
) -> tuple[Fraction | None, bool]:
    """Return the tighter of two bounds, and whether the bound itself is excluded.

    Args:
        included: A bound that is itself allowed; ``None`` for no bound.
        excluded: A bound that is not.
        is_low: Whether these are lower bounds.
    """
    if included is None or excluded is None:
        return (included, False) if excluded is None else (excluded, True)
    is_excluded = excluded >= included if is_low else excluded <= included
    return (excluded, True) if is_excluded else (included, False)
