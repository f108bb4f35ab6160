"""How numbers are written: from sets of numbers to languages of text.

These spellings are generated, and no others (all are JSON, RFC 8259 section 6):

* plain decimals, ``-?(0|[1-9][0-9]*)(\\.[0-9]+)?``, with any number of trailing zeros, the integer
  part at most :data:`MAX_INTEGER_DIGITS` digits long, so that every number is finite as a double;
* where numbers need not be integers or multiples, also scientific notation as ``repr`` writes it:
  one digit from 1 to 9 before the point and an exponent from -:data:`MAX_NEGATIVE_EXPONENT` to
  :data:`MAX_EXPONENT`;
* integers (``integer``, or a ``const`` without fraction) as digits, or digits and ``.0`` (not in
  draft 4, which calls ``1.0`` no integer); other multiples (``multipleOf``) as plain decimals.

``-0`` is written only where negative numbers are admitted too.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from state_machines.grammar.boolean import difference, intersection
from state_machines.grammar.node import EMPTY, EPSILON, Node
from state_machines.grammar.nodes import choice, optional, repetition, sequence, symbols
from state_machines.grammar.symbols import ANY_CODE_POINT, CodePointSet, code_points
from state_machines.grammar.tries import trie
from state_machines.json_schema.multiples import multiples
from state_machines.json_schema.numbers import Interval, NumberSet

__all__ = [
    "MAX_EXPONENT",
    "MAX_INTEGER_DIGITS",
    "MAX_NEGATIVE_EXPONENT",
    "every_spelling",
    "number_language",
]

MAX_INTEGER_DIGITS = 308
MAX_LISTED = 256
"""Multiples between two bounds that are listed rather than counted."""

MAX_EXPONENT = 307
MAX_NEGATIVE_EXPONENT = 324

_POINT = symbols(code_points("."))
_MINUS = symbols(code_points("-"))
_ZERO = symbols(code_points("0"))


def _digit(low: int = 0, high: int = 9) -> Node:
    if low > high:
        return EMPTY
    return symbols(code_points(ord("0") + low, ord("0") + high))


_DIGITS = repetition(_digit(), 0, None)
_FRACTION = sequence(_POINT, repetition(_digit(), 1, None))
_WHOLE = choice((_ZERO, sequence(_digit(1), repetition(_digit(), 0, MAX_INTEGER_DIGITS - 1))))
_ZEROS = repetition(_ZERO, 0, None)


def number_language(numbers: NumberSet) -> Node:
    """Return the spellings of a set's numbers, as a language of code points."""
    return choice(_interval_language(interval) for interval in numbers.intervals)


@lru_cache(maxsize=4096)
def every_spelling(number: Fraction) -> Node:
    """Return all the ways in which a number is ever written, whatever set it is out of."""
    exactly = Interval(low=number, high=number)
    plain = choice((_non_negative(exactly), _negative(exactly)))
    if not number:
        plain = sequence(optional(_MINUS), plain)
    return choice((plain, _scientific_within(exactly)))


@lru_cache(maxsize=4096)
def _interval_language(interval: Interval) -> Node:
    is_range = interval.step in (None, 1) and not interval.avoided
    few = None if is_range and interval.low != interval.high else interval.members(most=MAX_LISTED)
    if few is not None:
        return trie((_written(number, interval.is_plain) for number in few), code_points)
    language = choice((_non_negative(interval), _negative(interval)))
    if interval.step is None and not interval.avoided:
        return choice((language, _scientific_within(interval)))
    if interval.step is not None:
        language = intersection(
            (language, _lattice(interval.step, EMPTY if interval.is_plain else _ZERO))
        )
    for step in interval.avoided:
        language = difference(language, _lattice(step, repetition(_ZERO, 1, None)), ANY_CODE_POINT)
    return language


def _written(number: Fraction, is_plain: bool) -> tuple[list[int], Node]:
    """Return how one number is written, and what may follow that."""
    digits, fraction = _decimal(abs(number))
    sign = "-" if number < 0 else ""
    text = f"{sign}{digits}.{fraction}" if fraction else f"{sign}{digits}"
    if fraction:
        return [ord(c) for c in text], _ZEROS
    return [ord(c) for c in text], EPSILON if is_plain else optional(_text(".0"))


def _text(text: str) -> Node:
    return trie([([ord(c) for c in text], EPSILON)], code_points)


def _decimal(number: Fraction) -> tuple[str, str]:
    """Return the digits before and after the point of a non-negative decimal fraction."""
    whole, rest = divmod(number.numerator, number.denominator)
    digits = []
    while rest:
        digit, rest = divmod(rest * 10, number.denominator)
        digits.append(str(digit))
    return str(whole), "".join(digits)


def _scientific_within(interval: Interval) -> Node:
    """Return the numbers of an interval in scientific notation, zero left out."""
    members = []
    if interval.high is None or interval.high > 0:
        low = None if interval.low is None or interval.low <= 0 else interval.low
        members.append(
            _powers(low, low is not None and interval.low_open, interval.high, interval.high_open)
        )
    if interval.low is None or interval.low < 0:
        low = None if interval.high is None or interval.high >= 0 else -interval.high
        high = None if interval.low is None else -interval.low
        is_open = low is not None and interval.high_open
        members.append(sequence(_MINUS, _powers(low, is_open, high, interval.low_open)))
    return choice(members)


def _powers(low: Fraction | None, low_open: bool, high: Fraction | None, high_open: bool) -> Node:
    """Return the positive numbers between two bounds as digit, fraction and power of ten."""
    least = -MAX_NEGATIVE_EXPONENT if low is None else _magnitude(low)
    most = MAX_EXPONENT if high is None else _magnitude(high)
    members = []
    first, last = least + (low is not None), most - (high is not None)
    if first <= last:
        members.append(sequence(_digit(1), optional(_FRACTION), _exponents(first, last)))
    for power in dict.fromkeys((least, most)):
        if first <= power <= last or not -MAX_NEGATIVE_EXPONENT <= power <= MAX_EXPONENT:
            continue
        scale = Fraction(10) ** power
        bounds = [sequence(_digit(1), optional(_FRACTION))]
        if low is not None and power == least:
            bounds.append(_at_least(*_decimal(low / scale), strict=low_open))
        if high is not None and power == most:
            bounds.append(_at_most(*_decimal(high / scale), strict=high_open))
        members.append(sequence(intersection(bounds), _exponents(power, power)))
    return choice(members)


def _magnitude(number: Fraction) -> int:
    """Return the greatest power of ten that is not above a positive decimal fraction."""
    whole, fraction = _decimal(number)
    if whole != "0":
        return len(whole) - 1
    return -1 - (len(fraction) - len(fraction.lstrip("0")))


@lru_cache(maxsize=256)
def _exponents(least: int, most: int) -> Node:
    """Return the powers of ten in a range as ``repr`` writes them: ``e+16``, ``e16``, ``e-07``."""
    least, most = max(least, -MAX_NEGATIVE_EXPONENT), min(most, MAX_EXPONENT)
    texts: list[str] = []
    for power in range(least, most + 1):
        digits = str(abs(power))
        signs = ("-",) if power < 0 else ("", "+")
        texts.extend(f"{sign}{zero}{digits}" for sign in signs for zero in ("", "0"))
    mark = symbols(CodePointSet.of("eE"))
    return sequence(mark, trie((([ord(c) for c in text], EPSILON) for text in texts), code_points))


def _non_negative(interval: Interval) -> Node:
    """Return the decimals of the interval without a sign."""
    low, low_open = interval.low, interval.low_open
    if low is not None and low < 0:
        low, low_open = None, False
    return _magnitudes(low, low_open, interval.high, interval.high_open)


def _negative(interval: Interval) -> Node:
    """Return the decimals of the interval with a minus sign."""
    if interval.low is not None and interval.low >= 0:
        return EMPTY
    low = -interval.high if interval.high is not None else None
    low_open = interval.high_open
    if low is not None and low < 0:
        low, low_open = None, False
    high = -interval.low if interval.low is not None else None
    return sequence(_MINUS, _magnitudes(low, low_open, high, interval.low_open))


def _magnitudes(
    low: Fraction | None, low_open: bool, high: Fraction | None, high_open: bool
) -> Node:
    """Return the unsigned decimals between two bounds."""
    bounds = [sequence(_WHOLE, optional(_FRACTION))]
    if low is not None and (low > 0 or low_open):
        bounds.append(_at_least(*_decimal(low), strict=low_open))
    if high is not None:
        if high < 0 or (high == 0 and high_open):
            return EMPTY
        bounds.append(_at_most(*_decimal(high), strict=high_open))
    return intersection(bounds)


def _at_least(whole: str, fraction: str, *, strict: bool) -> Node:
    longer = sequence(
        _digit(1), repetition(_digit(), len(whole), MAX_INTEGER_DIGITS - 1), optional(_FRACTION)
    )
    larger = []
    for index, mark in enumerate(whole):
        larger.append(
            sequence(
                _text(whole[:index]),
                _digit(int(mark) + 1),
                repetition(_digit(), len(whole) - index - 1, len(whole) - index - 1),
                optional(_FRACTION),
            )
        )
    same = sequence(_text(whole), _fraction_at_least(fraction, strict))
    return choice((longer if len(whole) < MAX_INTEGER_DIGITS else EMPTY, *larger, same))


def _fraction_at_least(fraction: str, strict: bool) -> Node:
    nonzero_tail = sequence(_ZEROS, _digit(1), _DIGITS)
    if not fraction:
        return sequence(_POINT, nonzero_tail) if strict else optional(_FRACTION)
    larger = [
        sequence(_text(fraction[:index]), _digit(int(mark) + 1), _DIGITS)
        for index, mark in enumerate(fraction)
    ]
    same = sequence(_text(fraction), nonzero_tail if strict else _DIGITS)
    return sequence(_POINT, choice((*larger, same)))


def _at_most(whole: str, fraction: str, *, strict: bool) -> Node:
    same = sequence(_text(whole), _fraction_at_most(fraction, strict))
    return choice((sequence(_less_whole(whole), optional(_FRACTION)), same))


def _less_whole(whole: str) -> Node:
    """Return the whole numbers, written without leading zeros, below a whole number."""
    members = []
    if len(whole) > 1:
        shorter = repetition(_digit(), 0, len(whole) - 2)
        members.append(choice((_ZERO, sequence(_digit(1), shorter))))
    for index, mark in enumerate(whole):
        first = 1 if index == 0 and len(whole) > 1 else 0
        rest = len(whole) - index - 1
        members.append(
            sequence(
                _text(whole[:index]),
                _digit(first, int(mark) - 1),
                repetition(_digit(), rest, rest),
            )
        )
    return choice(members)


def _fraction_at_most(fraction: str, strict: bool) -> Node:
    if not fraction:
        return EMPTY if strict else optional(sequence(_POINT, repetition(_ZERO, 1, None)))
    members = []
    for index, mark in enumerate(fraction):
        members.append(sequence(_text(fraction[:index]), _digit(0, int(mark) - 1), _DIGITS))
        if index:
            members.append(_text(fraction[:index]))
    members.append(_text(fraction) if strict else sequence(_text(fraction), _ZEROS))
    if strict:
        members.pop()
    return optional(sequence(_POINT, choice(members)))


def _lattice(step: Fraction, zeros: Node) -> Node:
    """Return the plain decimals that are multiples; of whole numbers, ``zeros`` ends them."""
    if step != 1:
        return multiples(step)
    return sequence(optional(_MINUS), _WHOLE, optional(sequence(_POINT, zeros)))
