"""Decimal numbers between two bounds, as languages of digits.

A number with ``places`` digits after the point is an integer in units of ``10 ** -places``. A state
holds the digits that are still to come: how many, between which values, and modulo which step. So
each state is known to have a word, however large the bounds and the step are.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from math import ceil, floor

from state_machines.budgets import spend
from state_machines.grammar.lazy import reference
from state_machines.grammar.node import EMPTY, EPSILON, Node
from state_machines.grammar.nodes import (
    branch,
    concatenation,
    optional,
    repetition,
    symbols,
    union,
)
from state_machines.grammar.symbols import CodePointSet, code_points
from state_machines.reader_languages.numbers.bounded_digits import DIGIT, DIGITS

MAX_DIGITS = 308
"""Digits before the point of a number without an upper bound."""

_FREE_STEP_DIGITS = 28
"""Digits of a multiple without an upper bound, beside those of the step."""

_POINT = code_points(".")
_NUMERALS = code_points("0", "9")

MINUS = symbols(code_points("-"))
"""The minus sign."""

_POSITIVE = symbols(code_points("1", "9"))
_CHARACTERS = _NUMERALS | _POINT


def integers(low: int = 0, high: int | None = None, step: int = 1) -> Node:
    """Return the non-negative integers within bounds, without leading zeros.

    Args:
        low: Lower bound.
        high: Upper bound; ``None`` for at most :data:`MAX_DIGITS` digits.
        step: The integers are multiples of it.
    """
    return _numbers(0, low, high, step)


def magnitudes(
    low: Fraction | None, high: Fraction | None, places: int, step: Fraction | None = None
) -> Node:
    """Return the non-negative decimals within bounds, which are included.

    Args:
        low: Lower bound; ``None`` for 0.
        high: Upper bound; ``None`` for at most :data:`MAX_DIGITS` digits before the point.
        places: Largest number of digits after the point.
        step: The numbers are multiples of it; ``None`` for all numbers.
    """
    scale = 10**places
    unit = 1
    if step is not None:
        # The multiples of the step that can be written with these places.
        unit = Fraction(step * scale).numerator
    first = 0 if low is None else max(ceil(low * scale), 0)
    return _numbers(places, first, None if high is None else floor(high * scale), unit)


def signed(
    low: Fraction | None,
    high: Fraction | None,
    places: int,
    step: Fraction | None = None,
    *,
    low_open: bool = False,
    high_open: bool = False,
) -> Node:
    """Return the decimals within bounds. Zero has no sign.

    Args:
        low: Lower bound; ``None`` for no bound.
        high: Upper bound; ``None`` for no bound.
        places: Largest number of digits after the point.
        step: The numbers are multiples of it; ``None`` for all numbers.
        low_open: Whether the lower bound is excluded.
        high_open: Whether the upper bound is excluded.
    """
    unit = Fraction(1, 10**places)
    if low is not None and low_open and low / unit == ceil(low / unit):
        low += unit
    if high is not None and high_open and high / unit == floor(high / unit):
        high -= unit
    parts = []
    if high is None or high >= 0:
        parts.append(magnitudes(low, high, places, step))
    if low is None or low < 0:
        least = unit if high is None or high > -unit else -high
        greatest = None if low is None else -low
        parts.append(concatenation(MINUS, magnitudes(least, greatest, places, step)))
    return union(parts)


def _numbers(places: int, low: int, high: int | None, step: int) -> Node:
    """Return the numbers within bounds, in units of the last place."""
    low = max(low, 0)
    longest = places + MAX_DIGITS
    if step > 1:
        longest = min(longest, places + len(str(step)) + _FREE_STEP_DIGITS)
    if high is None:
        high = 10 ** max(longest, len(str(low)) + 1) - 1
    if low > high:
        return EMPTY
    return union(_by_length(places, low, high, step))


def _by_length(places: int, low: int, high: int, step: int) -> Iterator[Node]:
    """Yield the numbers, by the number of their digits."""
    scale = 10**places
    if low < scale:
        yield concatenation(symbols(DIGITS[0]), _rest(places, places, low, high, 0, step, False))
    shortest, longest = max(len(str(low)), places + 1), len(str(high))
    free: list[int] = []
    for length in range(shortest, longest + 1):
        spend()
        first, last = 10 ** (length - 1), 10**length - 1
        if step == 1 and low <= first and last <= high:
            free.append(length)
            continue
        yield _leading(length, places, max(low, first), min(high, last), step)
    if free:
        more = repetition(DIGIT, free[0] - places - 1, free[-1] - places - 1)
        yield concatenation(_POSITIVE, more, _free_fraction(places))


def _leading(length: int, places: int, low: int, high: int, step: int) -> Node:
    """Return the numbers of a number of digits whose first digit is not 0."""
    unit = 10 ** (length - 1)
    return branch(
        (DIGITS[digit], target)
        for digit in range(max(low // unit, 1), high // unit + 1)
        if (
            target := _rest(
                length - 1,
                places,
                low - digit * unit,
                high - digit * unit,
                digit * unit % step,
                step,
                False,
            )
        )
        is not EMPTY
    )


def _free_fraction(places: int) -> Node:
    if not places:
        return EPSILON
    return optional(concatenation(symbols(_POINT), repetition(DIGIT, 1, places)))


def _rest(
    left: int, places: int, low: int, high: int, residue: int, step: int, behind: bool
) -> Node:
    """Return the rest of a number.

    Args:
        left: Number of digits that are still to come. Trailing zeros after the point may be absent.
        places: Number of digits after the point.
        low: Smallest value of these digits.
        high: Largest value of these digits.
        residue: Value of the digits so far, modulo the step.
        step: The number is a multiple of it.
        behind: Whether the point has been written.
    """
    low, high = max(low, 0), min(high, 10**left - 1)
    if low + -(residue + low) % step > high:
        return EMPTY
    if left == 0:
        return EPSILON
    may_end = low == 0 and residue % step == 0 and left <= places
    if step == 1 and low == 0 and high == 10**left - 1:
        if behind:
            # A digit follows the point.
            return repetition(DIGIT, 0 if left < places else 1, left)
        return concatenation(
            repetition(DIGIT, left - places, left - places), _free_fraction(places)
        )
    nullable = may_end and not (behind and left == places)
    return reference(
        ("digits", left, places, low, high, residue, step, behind),
        lambda: _expanded(left, places, low, high, residue, step, behind),
        nullable=nullable,
        min_length=1 + (left == places and not behind) if left <= places else left - places,
        symbols=_CHARACTERS,
    )


def _expanded(
    left: int, places: int, low: int, high: int, residue: int, step: int, behind: bool
) -> Node:
    may_end = low == 0 and residue % step == 0 and left <= places
    if left == places and not behind:
        after_point = _rest(left, places, low, high, residue, step, True)
        return branch(((_POINT, after_point),), nullable=may_end)
    unit = 10 ** (left - 1)
    targets: dict[Node, CodePointSet] = {}
    for digit in range(low // unit, high // unit + 1):
        spend()
        target = _rest(
            left - 1,
            places,
            low - digit * unit,
            high - digit * unit,
            (residue + digit * unit) % step,
            step,
            behind,
        )
        if target is not EMPTY:
            known = targets.get(target)
            targets[target] = DIGITS[digit] if known is None else known | DIGITS[digit]
    nullable = may_end and behind and left < places
    return branch(((members, target) for target, members in targets.items()), nullable=nullable)


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
