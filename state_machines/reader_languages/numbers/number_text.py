"""Spellings of numbers: from sets of numbers to languages of code points.

Exactly these spellings are generated (all are JSON, RFC 8259 section 6):

* plain decimals, ``-?(0|[1-9][0-9]*)(\\.[0-9]+)?``, with any number of trailing zeros, the integer
  part at most :data:`MAX_INTEGER_DIGITS` digits long, so that every number is finite as a double,
  and one digit longer only if the set contains no shorter number;
* where numbers are not constrained to multiples, also scientific notation as ``repr`` writes it:
  one digit from 1 to 9 before the point and an exponent from -:data:`MAX_NEGATIVE_EXPONENT` to
  :data:`MAX_EXPONENT`. If a schema has a bound of at least 1e308, the numbers from there to the
  largest double are included; otherwise the bound on the exponent keeps a number finite;
* near a bound or an excluded number, only spellings that are on the right side of it after
  rounding to a double (:mod:`~state_machines.reader_languages.numbers.doubles`);
* integers (``integer``, or a ``const`` without fraction) as digits, or digits and ``.0``; other
  multiples (``multipleOf``) as plain decimals. With ``plain_integers``, as digits only: typed
  languages read no ``.0`` into an integer. In draft 4 ``1.0`` is not an integer.

``-0`` is generated only if the set contains negative numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from fractions import Fraction

from state_machines.budgets import spend
from state_machines.caches import WeakValueLruCache
from state_machines.grammar.boolean import difference
from state_machines.grammar.node import EMPTY, EPSILON, Node
from state_machines.grammar.nodes import concatenation, optional, symbols, union
from state_machines.grammar.symbols import ANY_CODE_POINT, code_points
from state_machines.grammar.word_lists import word_list
from state_machines.limits import LIMITS
from state_machines.reader_languages.numbers.bounded_digits import ZEROS, decimal_digits
from state_machines.reader_languages.numbers.decimals import (
    FRACTION,
    dense_magnitudes,
    magnitudes,
)
from state_machines.reader_languages.numbers.doubles import EXACT_LIMIT
from state_machines.reader_languages.numbers.exponents import (
    MAX_EXPONENT,
    MAX_NEGATIVE_EXPONENT,
    exponents,
    magnitude,
    mantissa_ends,
)
from state_machines.reader_languages.numbers.intervals import Interval
from state_machines.reader_languages.numbers.number_sets import NumberSet
from state_machines.reader_languages.numbers.same_double import every_spelling

_MINUS = symbols(code_points("-"))
_NON_ZERO = symbols(code_points("1", "9"))
_ZEROS_AFTER = optional(concatenation(symbols(code_points(".")), symbols(code_points("0")), ZEROS))
_POINT_ZERO = optional(concatenation(symbols(code_points(".")), symbols(code_points("0"))))

INTERVAL_STEPS = 32
"""Steps charged for the spellings of an interval."""

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


def _interval_language(
    interval: Interval, holes: frozenset[Fraction], plain_integers: bool
) -> Node:
    if interval.reaches_limit:
        interval = interval.finite()
    step = interval.step
    has_exponents = step is None and not interval.excluded_steps

    def make() -> Node:
        spend(INTERVAL_STEPS)
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
    digits, fraction = decimal_digits(abs(number))
    sign = "-" if number < 0 else ""
    text = f"{sign}{digits}.{fraction}" if fraction else f"{sign}{digits}"
    if fraction:
        return text, ZEROS
    return text, EPSILON if is_plain else _POINT_ZERO


def _powers(interval: Interval) -> Node:
    """Return the positive numbers of an interval as digit, fraction and power of ten."""
    low, high = interval.low_end, interval.high_end
    if high is not None and high.value <= 0:
        return EMPTY
    if low is not None and low.value <= 0:
        low = None
    lowest = -MAX_NEGATIVE_EXPONENT if low is None else magnitude(low.value)
    last = MAX_EXPONENT if high is None else magnitude(high.value)
    bounded = {power for power, bound in ((lowest, low), (last, high)) if bound is not None}
    parts = []
    first = max(lowest, -MAX_NEGATIVE_EXPONENT)
    for power in sorted(power for power in bounded if first <= power <= last):
        if first < power:
            parts.append(_free_powers(first, power - 1))
        first = power + 1
        mantissas = dense_magnitudes(*mantissa_ends(low, high, power))
        parts.append(concatenation(mantissas, exponents(power, power)))
    if first <= last:
        parts.append(_free_powers(first, last))
    return union(parts)


def _free_powers(first: int, last: int) -> Node:
    return concatenation(_NON_ZERO, optional(FRACTION), exponents(first, last))
