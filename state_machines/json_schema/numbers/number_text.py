"""How numbers are written: from sets of numbers to languages of text.

These spellings are generated, and no others (all are JSON, RFC 8259 section 6):

* plain decimals, ``-?(0|[1-9][0-9]*)(\\.[0-9]+)?``, with any number of trailing zeros, the integer
  part at most :data:`MAX_INTEGER_DIGITS` digits long, so that every number is finite as a double,
  and one digit longer only where no shorter number is admitted;
* where numbers need not be integers or multiples, also scientific notation as ``repr`` writes it:
  one digit from 1 to 9 before the point and an exponent from -:data:`MAX_NEGATIVE_EXPONENT` to
  :data:`MAX_EXPONENT`. Where a schema has a bound of 1e308 or more, the numbers from there to the
  greatest double are written so, too; without one, the exponent alone keeps a number finite;
* integers (``integer``, or a ``const`` without fraction) as digits, or digits and ``.0`` (not in
  draft 4, which calls ``1.0`` no integer); other multiples (``multipleOf``) as plain decimals.

``-0`` is written only where negative numbers are admitted too.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from fractions import Fraction

from state_machines.budgets import spend
from state_machines.caches import WeakValueLruCache
from state_machines.grammar.node import EPSILON, Node
from state_machines.grammar.nodes import concatenation, optional, symbols, union
from state_machines.grammar.symbols import CodePointSet, code_points
from state_machines.grammar.tries import trie
from state_machines.json_schema.numbers.decimals import FRACTION, ZEROS, magnitudes
from state_machines.json_schema.numbers.intervals import MAX_INTEGER_DIGITS, Interval
from state_machines.json_schema.numbers.number_sets import NumberSet
from state_machines.limits import LIMITS

__all__ = [
    "MAX_EXPONENT",
    "MAX_INTEGER_DIGITS",
    "MAX_NEGATIVE_EXPONENT",
    "every_spelling",
    "number_language",
]

MAX_EXPONENT = 307
MAX_NEGATIVE_EXPONENT = 324

_MINUS = symbols(code_points("-"))
_PLUS = optional(symbols(code_points("+")))
_MARK = symbols(CodePointSet.of("eE"))
_LEADING_ZERO = optional(symbols(code_points("0")))
_NON_ZERO = symbols(code_points("1", "9"))
_POINT_ZERO = optional(concatenation(symbols(code_points(".")), symbols(code_points("0"))))

_Holes = tuple[Fraction, ...]

_LANGUAGES: WeakValueLruCache[Hashable, Node] = WeakValueLruCache(LIMITS.held_languages)


def number_language(numbers: NumberSet) -> Node:
    """Return the spellings of a set's numbers, as a language of code points."""
    holes = tuple(sorted(numbers.holes))
    ways = [_interval_language(interval, holes) for interval in numbers.intervals]
    ways.append(
        trie(
            (_written(number, number in numbers.plain) for number in numbers.points),
            code_points,
        )
    )
    return union(ways)


def every_spelling(number: Fraction) -> Node:
    """Return all the ways in which a number is ever written, whatever set it is out of."""
    exactly = Interval(low=number, high=number)
    plain = _plain(exactly, ())
    if not number:
        plain = concatenation(optional(_MINUS), plain)
    return union((plain, _scientific(exactly, ())))


def _interval_language(interval: Interval, holes: _Holes) -> Node:
    if interval.reaches_limit:
        interval = interval.finite()
    within = tuple(hole for hole in holes if hole in interval)

    def make() -> Node:
        plain = _plain(interval, within)
        if interval.step is not None or interval.avoided:
            return plain
        return union((plain, _scientific(interval, within)))

    return _LANGUAGES.get((interval, within), make)


def _plain(interval: Interval, holes: _Holes) -> Node:
    """Return the decimals of an interval, less the holes."""
    ways = [magnitudes(interval, holes)]
    if interval.low is None or interval.low < 0:
        ways.append(concatenation(_MINUS, magnitudes(-interval, [-hole for hole in holes])))
    return union(ways)


def _written(number: Fraction, is_plain: bool) -> tuple[list[int], Node]:
    """Return how one number is written, and what may follow that."""
    spend()
    digits, fraction = _decimal(abs(number))
    sign = "-" if number < 0 else ""
    text = f"{sign}{digits}.{fraction}" if fraction else f"{sign}{digits}"
    if fraction:
        return [ord(c) for c in text], ZEROS
    return [ord(c) for c in text], EPSILON if is_plain else _POINT_ZERO


def _decimal(number: Fraction) -> tuple[str, str]:
    """Return the digits before and after the point of a non-negative decimal fraction."""
    whole, rest = divmod(number.numerator, number.denominator)
    digits = []
    while rest:
        digit, rest = divmod(rest * 10, number.denominator)
        digits.append(str(digit))
    return str(whole), "".join(digits)


def _scientific(interval: Interval, holes: _Holes) -> Node:
    """Return the numbers of an interval in scientific notation, zero left out."""
    ways = []
    if interval.high is None or interval.high > 0:
        ways.append(_powers(interval, holes))
    if interval.low is None or interval.low < 0:
        ways.append(concatenation(_MINUS, _powers(-interval, [-hole for hole in holes])))
    return union(ways)


def _powers(interval: Interval, holes: Iterable[Fraction]) -> Node:
    """Return the positive numbers of an interval as digit, fraction and power of ten."""
    low = interval.low if interval.low is not None and interval.low > 0 else None
    least = -MAX_NEGATIVE_EXPONENT if low is None else _magnitude(low)
    last = MAX_EXPONENT if interval.high is None else _magnitude(interval.high)
    bounded = {power for power, bound in ((least, low), (last, interval.high)) if bound is not None}
    excepted: dict[int, list[Fraction]] = {}
    for hole in holes:
        if hole > 0:
            excepted.setdefault(_magnitude(hole), []).append(hole)
    ways = []
    first = max(least, -MAX_NEGATIVE_EXPONENT)
    for power in sorted(power for power in {*bounded, *excepted} if first <= power <= last):
        if first < power:
            ways.append(_free_powers(first, power - 1))
        first = power + 1
        scale = Fraction(10) ** power
        mantissas = Interval(low=Fraction(1), high=Fraction(10), high_open=True) & Interval(
            None if low is None else low / scale,
            None if interval.high is None else interval.high / scale,
            interval.low_open,
            interval.high_open,
        )
        if not mantissas.is_empty:
            mantissa = magnitudes(mantissas, [hole / scale for hole in excepted.get(power, ())])
            ways.append(concatenation(mantissa, _exponents(power, power)))
    if first <= last:
        ways.append(_free_powers(first, last))
    return union(ways)


def _free_powers(least: int, most: int) -> Node:
    return concatenation(_NON_ZERO, optional(FRACTION), _exponents(least, most))


def _magnitude(number: Fraction) -> int:
    """Return the greatest power of ten that is not above a positive decimal fraction."""
    whole, fraction = _decimal(number)
    if whole != "0":
        return len(whole) - 1
    return -1 - (len(fraction) - len(fraction.lstrip("0")))


def _exponents(least: int, most: int) -> Node:
    """Return the powers of ten in a range as ``repr`` writes them: ``e+16``, ``e16``, ``e-07``."""
    ways = []
    if least < 0:
        ways.append(concatenation(_MINUS, _LEADING_ZERO, _whole_numbers(max(-most, 1), -least)))
    if most >= 0:
        ways.append(concatenation(_PLUS, _LEADING_ZERO, _whole_numbers(max(least, 0), most)))
    return concatenation(_MARK, union(ways))


def _whole_numbers(least: int, most: int) -> Node:
    bounds = Interval(low=Fraction(least), high=Fraction(most), step=Fraction(1), is_plain=True)
    return magnitudes(bounds)
