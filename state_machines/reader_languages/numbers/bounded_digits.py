"""The digits after the point of a decimal between two bounds.

Bounds are texts of digits, since half-way points between doubles have up to 1,075 decimal places.
A state is a place in these texts: behind the first digit that differs, digits are free.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from state_machines.budgets import spend
from state_machines.grammar.node import (
    EMPTY,
    Node,
    Transitions,
    collect_transitions,
    intern_node,
    known_node,
)
from state_machines.grammar.nodes import concatenation, repetition, symbols
from state_machines.grammar.symbols import code_points
from state_machines.reader_languages.numbers.decimal_grid import decimal_places

DIGITS = [code_points(ord("0") + digit) for digit in range(10)]
DIGIT = symbols(code_points(ord("0"), ord("9")))
ZEROS = repetition(symbols(DIGITS[0]), 0, None)
_POSITIVE = symbols(code_points(ord("1"), ord("9")))
_ANY_DIGITS = repetition(DIGIT, 0, None)
_NOT_ZERO = concatenation(ZEROS, _POSITIVE, _ANY_DIGITS)


class BoundedDigits(Node):
    """The digits from a place on that keep a fraction between two bounds.

    Attributes:
        low: The digits of the lower bound, if all digits so far equal its digits.
        high: The same for the upper bound.
        low_open: Whether the lower bound is excluded.
        high_open: Whether the upper bound is excluded.
        place: Number of digits so far.
    """

    __slots__ = ("high", "high_open", "low", "low_open", "place")

    def __init__(
        self,
        low: str | None,
        high: str | None,
        low_open: bool,
        high_open: bool,
        place: int,
        min_length: int,
    ) -> None:
        super().__init__(nullable=min_length == 0, min_length=min_length, max_length=None)
        self.low = low
        self.high = high
        self.low_open = low_open
        self.high_open = high_open
        self.place = place

    def compute_transitions(self) -> Transitions:
        low, high, place = self.low, self.high, self.place
        first = _digit(low, place) if low is not None else -1
        last = _digit(high, place) if high is not None else 10
        steps = []
        if first + 1 < last:
            between = code_points(ord("0") + first + 1, ord("0") + last - 1)
            steps.append((between, _ANY_DIGITS))
        for digit in {first, last} - {-1, 10}:
            target = bounded_digits(
                low if digit == first else None,
                high if digit == last else None,
                low_open=self.low_open,
                high_open=self.high_open,
                place=place + 1,
            )
            steps.append((DIGITS[digit], target))
        return collect_transitions(steps)


def bounded_digits(
    low: str | None,
    high: str | None,
    *,
    low_open: bool = False,
    high_open: bool = False,
    place: int = 0,
    begun: bool = True,
) -> Node:
    """Return the digits after the point of the fractions between two bounds.

    Args:
        low: The digits of the lower bound, without trailing zeros; ``None`` for no bound.
        high: The digits of the upper bound, likewise.
        low_open: Whether the lower bound is excluded.
        high_open: Whether the upper bound is excluded.
        place: Number of digits that are already written, and equal those of the bounds.
        begun: Whether a digit is already written; otherwise there is at least one.
    """
    if low is not None and place >= len(low):
        low = "" if low_open else None
    if low is None and high is None:
        return repetition(DIGIT, 0 if begun else 1, None)
    if high is not None and place >= len(high):
        if low is not None or high_open:
            return EMPTY
        return repetition(symbols(DIGITS[0]), 0 if begun else 1, None)
    if low == "" and high is None:
        return _NOT_ZERO
    low_open = low_open and low is not None
    high_open = high_open and high is not None
    key = (BoundedDigits, low, high, low_open, high_open, place, begun)
    known: Node | None = known_node(key)
    if known is not None:
        return known
    shortest = _fewest_digits(low, high, low_open, high_open, place)
    if shortest is None:
        return EMPTY
    length = max(shortest, 0 if begun else 1)
    return intern_node(key, lambda: BoundedDigits(low, high, low_open, high_open, place, length))


def _fewest_digits(
    low: str | None, high: str | None, low_open: bool, high_open: bool, place: int
) -> int | None:
    """Return the length of the shortest word of :func:`bounded_digits`; ``None`` if it is empty."""
    if low is None:
        return 0
    longest = max(len(low), len(high or "")) - place + 1
    count = 0 if high is None else _common_length(low, high, place)
    while count <= longest:
        spend(0 if count % 64 else 1)
        end = place + count
        least = _number(low, place, end)
        least += low_open or end < len(low)
        if high is None:
            if least < 10**count:
                return count
        else:
            most = _number(high, place, end)
            if least < most or (least == most and (end < len(high) or not high_open)):
                return count
        count += 1
    return None


def _common_length(low: str, high: str, place: int) -> int:
    """Return the number of digits that two bounds share, at most those of the lower one."""
    count = 0
    while place + count < len(low) and low[place + count] == _text_digit(high, place + count):
        count += 1
    return min(count, max(len(low) - place, 0))


def _text_digit(digits: str, place: int) -> str:
    return digits[place] if place < len(digits) else "0"


def _digit(digits: str, place: int) -> int:
    return int(_text_digit(digits, place))


def _number(digits: str, first: int, end: int) -> int:
    """Return some digits of a bound as an integer."""
    return int(digits[first:end].ljust(end - first, "0") or "0")


def decimal_digits(number: Fraction) -> tuple[str, str]:
    """Return the digits before and after the point of a non-negative decimal fraction."""
    places = decimal_places(number)
    digits = str(int(number * 10**places)).zfill(places + 1)
    return digits[: len(digits) - places], digits[len(digits) - places :]


@lru_cache(maxsize=1024)
def split_decimal(number: Fraction) -> tuple[int, str]:
    """Return the integer part of a non-negative decimal, and the digits after its point."""
    whole, rest = divmod(number, 1)
    return whole, decimal_digits(rest)[1]
