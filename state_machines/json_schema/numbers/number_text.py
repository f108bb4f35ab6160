"""Spellings of numbers: from sets of numbers to languages of code points.

Exactly these spellings are generated (all are JSON, RFC 8259 section 6):

* plain decimals, ``-?(0|[1-9][0-9]*)(\\.[0-9]+)?``, with any number of trailing zeros, the integer
  part at most :data:`MAX_INTEGER_DIGITS` digits long, so that every number is finite as a double,
  and one digit longer only if the set contains no shorter number;
* where numbers are not constrained to multiples, also scientific notation as ``repr`` writes it:
  one digit from 1 to 9 before the point and an exponent from -:data:`MAX_NEGATIVE_EXPONENT` to
  :data:`MAX_EXPONENT`. If a schema has a bound of at least 1e308, the numbers from there to the
  largest double are included; otherwise the bound on the exponent keeps a number finite;
* integers (``integer``, or a ``const`` without fraction) as digits, or digits and ``.0``; other
  multiples (``multipleOf``) as plain decimals. With ``plain_integers``, as digits only: typed
  languages read no ``.0`` into an integer. In draft 4 ``1.0`` is not an integer.

``-0`` is generated only if the set contains negative numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from fractions import Fraction

from state_machines.budgets import spend
from state_machines.caches import WeakValueLruCache
from state_machines.grammar.boolean import difference
from state_machines.grammar.node import EMPTY, EPSILON, Node
from state_machines.grammar.nodes import concatenation, optional, symbols, union
from state_machines.grammar.symbols import ANY_CODE_POINT, CodePointSet, code_points
from state_machines.grammar.word_lists import word_list
from state_machines.json_schema.numbers.bounded_digits import ZEROS
from state_machines.json_schema.numbers.decimal_grid import decimal_places
from state_machines.json_schema.numbers.decimals import (
    FRACTION,
    dense_magnitudes,
    magnitudes,
    texts_between,
)
from state_machines.json_schema.numbers.doubles import EXACT_LIMIT, End, above, below, nearest
from state_machines.json_schema.numbers.number_sets import Interval, NumberSet, exact
from state_machines.limits import LIMITS

MAX_EXPONENT = 307
MAX_NEGATIVE_EXPONENT = 324

_MINUS = symbols(code_points("-"))
_PLUS = optional(symbols(code_points("+")))
_E = symbols(CodePointSet.of("eE"))
_LEADING_ZERO = optional(symbols(code_points("0")))
_NON_ZERO = symbols(code_points("1", "9"))
_ZEROS_AFTER = optional(concatenation(symbols(code_points(".")), symbols(code_points("0")), ZEROS))
_POINT_ZERO = optional(concatenation(symbols(code_points(".")), symbols(code_points("0"))))

_LANGUAGES: WeakValueLruCache[Hashable, Node] = WeakValueLruCache(LIMITS.held_languages)


def number_language(
    numbers: NumberSet, *, plain_integers: bool = False, plain_constants: bool = False
) -> Node:
    """Return the spellings of a set's numbers, as a language of code points.

    Args:
        numbers: The numbers.
        plain_integers: Whether sets of integers are written without a point.
        plain_constants: The same for single numbers.
    """
    parts = [
        _interval_language(interval, numbers.holes, plain_integers)
        for interval in numbers.intervals
    ]
    parts.append(word_list(_spelling(number, plain_constants) for number in numbers.points))
    return union(parts)


def every_spelling(numbers: Iterable[Fraction], *, has_exponents: bool = True) -> Node:
    """Return all decimals that are read as the same double as a number, in any set.

    Args:
        numbers: The numbers.
        has_exponents: Whether scientific notation is among them.
    """
    entries: list[tuple[str, Node]] = []
    others: list[Node] = []
    for double in {nearest(number): None for number in numbers}:
        spend()
        written = exact(abs(double))
        low, high = below(abs(double)), above(abs(double))
        low = End(max(low.value, Fraction(0)), not low.is_open)
        signs = ("-",) if double < 0 else ("",) if double else ("", "-")
        ranges = [(low, high, written, EPSILON)]
        if has_exponents:
            ranges += _mantissas(low, high, written)
        for least, most, near, suffix in ranges:
            texts = texts_between(least, most, decimal_places(near))
            for sign in signs:
                if texts is None:
                    language = concatenation(dense_magnitudes(least, most), suffix)
                    others.append(concatenation(_MINUS, language) if sign else language)
                else:
                    entries += [(sign + text, concatenation(rest, suffix)) for text, rest in texts]
    return union((word_list(entries), *others))


def _mantissas(low: End, high: End, written: Fraction) -> Iterator[tuple[End, End, Fraction, Node]]:
    """Yield positive decimals as mantissas from 1 to before 10, each with its exponent.

    Args:
        low: The lower bound.
        high: The upper bound.
        written: A number between them, in its shortest notation.
    """
    last = _magnitude(high.value)
    first = max(_magnitude(low.value), -MAX_NEGATIVE_EXPONENT) if low.value else last
    for power in range(first, last + 1):
        scale = Fraction(10) ** power
        least = max(_scaled(low, scale), End(Fraction(1), False))
        most = min(_scaled(high, scale), End(Fraction(10), True), key=_from_below)
        yield least, most, written / scale, _exponents(power, power)


def _scaled(end: End, scale: Fraction) -> End:
    return End(end.value / scale, end.is_open)


def _interval_language(
    interval: Interval, holes: frozenset[Fraction], plain_integers: bool
) -> Node:
    if interval.reaches_limit:
        interval = interval.finite()
    step = interval.step
    has_exponents = step is None and not interval.excluded_steps

    def make() -> Node:
        tail = "none" if plain_integers and step is not None and step.denominator == 1 else ""
        language = _signed(interval, lambda positive: magnitudes(positive, tail))
        return union((language, _signed(interval, _powers))) if has_exponents else language

    language = _LANGUAGES.get((interval, plain_integers), make)
    within = [hole for hole in holes if hole in interval]
    if not within:
        return language
    if step is not None and step.denominator == 1 and all(abs(h) < EXACT_LIMIT for h in within):
        # Other integers are other doubles.
        spellings = _decimal_spellings(within)
    else:
        spellings = every_spelling(within, has_exponents=has_exponents)
    return difference(language, spellings, ANY_CODE_POINT)


def _decimal_spellings(numbers: Iterable[Fraction]) -> Node:
    """Return all spellings of integers without an exponent."""
    entries = []
    for number in numbers:
        text, _ = _spelling(number, is_plain=False)
        entries += [(text, _ZEROS_AFTER), *([] if number else [("-0", _ZEROS_AFTER)])]
    return word_list(entries)


def _signed(interval: Interval, language: Callable[[Interval], Node]) -> Node:
    """Return the numbers of an interval, given the language of the numbers that have no sign."""
    parts = [language(interval)]
    if interval.low is None or interval.low < 0:
        parts.append(concatenation(_MINUS, language(-interval)))
    return union(parts)


def _spelling(number: Fraction, is_plain: bool) -> tuple[str, Node]:
    """Return the shortest spelling of a number, and the language of what follows it."""
    spend()
    digits, fraction = _decimal(abs(number))
    sign = "-" if number < 0 else ""
    text = f"{sign}{digits}.{fraction}" if fraction else f"{sign}{digits}"
    if fraction:
        return text, ZEROS
    return text, EPSILON if is_plain else _POINT_ZERO


def _decimal(number: Fraction) -> tuple[str, str]:
    """Return the digits before and after the point of a non-negative decimal fraction."""
    places = decimal_places(number)
    digits = str(int(number * 10**places)).zfill(places + 1)
    return digits[: len(digits) - places], digits[len(digits) - places :]


def _powers(interval: Interval) -> Node:
    """Return the positive numbers of an interval as digit, fraction and power of ten."""
    low, high = interval.low_end, interval.high_end
    if high is not None and high.value <= 0:
        return EMPTY
    if low is not None and low.value <= 0:
        low = None
    lowest = -MAX_NEGATIVE_EXPONENT if low is None else _magnitude(low.value)
    last = MAX_EXPONENT if high is None else _magnitude(high.value)
    bounded = {power for power, bound in ((lowest, low), (last, high)) if bound is not None}
    parts = []
    first = max(lowest, -MAX_NEGATIVE_EXPONENT)
    for power in sorted(power for power in bounded if first <= power <= last):
        if first < power:
            parts.append(_free_powers(first, power - 1))
        first = power + 1
        scale = Fraction(10) ** power
        least, most = End(Fraction(1), False), End(Fraction(10), True)
        if low is not None:
            least = max(least, _scaled(low, scale))
        if high is not None:
            most = min(most, _scaled(high, scale), key=_from_below)
        parts.append(concatenation(dense_magnitudes(least, most), _exponents(power, power)))
    if first <= last:
        parts.append(_free_powers(first, last))
    return union(parts)


def _from_below(end: End) -> tuple[Fraction, bool]:
    """Order upper bounds: of two equal ones the open one is the lower."""
    return end.value, not end.is_open


def _free_powers(first: int, last: int) -> Node:
    return concatenation(_NON_ZERO, optional(FRACTION), _exponents(first, last))


def _magnitude(number: Fraction) -> int:
    """Return the largest n for which 10 ** n does not exceed a positive decimal fraction."""
    whole, fraction = _decimal(number)
    if whole != "0":
        return len(whole) - 1
    return -1 - (len(fraction) - len(fraction.lstrip("0")))


def _exponents(first: int, last: int) -> Node:
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
