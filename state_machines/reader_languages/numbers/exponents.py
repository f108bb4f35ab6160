"""Scientific notation: powers of ten as they are written, and bounds on what precedes them."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from state_machines.grammar.node import Node
from state_machines.grammar.nodes import concatenation, optional, symbols, union
from state_machines.grammar.symbols import CodePointSet, code_points
from state_machines.reader_languages.numbers.bounded_digits import decimal_digits
from state_machines.reader_languages.numbers.decimals import magnitudes
from state_machines.reader_languages.numbers.doubles import IntervalEnd
from state_machines.reader_languages.numbers.intervals import Interval

MAX_EXPONENT = 307
MAX_NEGATIVE_EXPONENT = 324

_MINUS = symbols(code_points("-"))
_PLUS = optional(symbols(code_points("+")))
_E = symbols(CodePointSet.of("eE"))
_LEADING_ZERO = optional(symbols(code_points("0")))


@lru_cache(maxsize=1024)
def magnitude(number: Fraction) -> int:
    """Return the largest n for which 10 ** n does not exceed a positive decimal fraction."""
    whole, fraction = decimal_digits(number)
    if whole != "0":
        return len(whole) - 1
    return -1 - (len(fraction) - len(fraction.lstrip("0")))


def mantissa_ends(
    low: IntervalEnd | None, high: IntervalEnd | None, power: int
) -> tuple[IntervalEnd, IntervalEnd]:
    """Return the bounds on mantissas from 1 to before 10, given those on their numbers.

    Args:
        low: The lower bound; ``None`` for no bound.
        high: The upper bound; ``None`` for no bound.
        power: The numbers are mantissas times 10 ** ``power``.
    """
    scale = Fraction(10) ** power
    least, most = IntervalEnd(Fraction(1), False), IntervalEnd(Fraction(10), True)
    if low is not None and low.value >= scale:
        least = IntervalEnd(low.value / scale, low.is_open)
    if high is not None and high.value < 10 * scale:
        most = IntervalEnd(high.value / scale, high.is_open)
    return least, most


def exponents(first: int, last: int) -> Node:
    """Return the powers of ten in a range as ``repr`` writes them: ``e+16``, ``e16``, ``e-07``."""
    parts = []
    if first < 0:
        parts.append(concatenation(_MINUS, _LEADING_ZERO, _integers(max(-last, 1), -first)))
    if last >= 0:
        parts.append(concatenation(_PLUS, _LEADING_ZERO, _integers(max(first, 0), last)))
    return concatenation(_E, union(parts))


def _integers(first: int, last: int) -> Node:
    bounds = Interval(low=Fraction(first), high=Fraction(last), step=Fraction(1))
    return magnitudes(bounds, "none")
