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

A union of many numbers is a list of texts, each with the language of what follows: all decimals
that a reader rounds to the same double. That language is only made where a walk gets there: behind
the digits that a number shares with its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from fractions import Fraction
from functools import lru_cache

from state_machines.budgets import spend
from state_machines.caches import WeakValueLruCache
from state_machines.grammar.boolean import difference
from state_machines.grammar.lazy import Lazy
from state_machines.grammar.node import EMPTY, EPSILON, Node, intern_node
from state_machines.grammar.nodes import concatenation, optional, symbols, union
from state_machines.grammar.symbols import ANY_CODE_POINT, CodePointSet, code_points
from state_machines.grammar.word_lists import word_list
from state_machines.limits import LIMITS
from state_machines.reader_languages.numbers.bounded_digits import ZEROS, decimal_digits
from state_machines.reader_languages.numbers.decimal_grid import decimal_places
from state_machines.reader_languages.numbers.decimals import (
    FRACTION,
    dense_magnitudes,
    magnitudes,
    numbers_between,
    pointed,
    rest_between,
)
from state_machines.reader_languages.numbers.doubles import (
    EXACT_LIMIT,
    IntervalEnd,
    above,
    below,
    nearest,
)
from state_machines.reader_languages.numbers.intervals import Interval, exact
from state_machines.reader_languages.numbers.number_sets import NumberSet

MAX_EXPONENT = 307
MAX_NEGATIVE_EXPONENT = 324

SPELLING_STEPS = 8
"""Steps charged for all spellings of a number."""

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


_DISTINCT = 10**15
"""Decimals of up to 15 digits are different doubles."""

_MAX_SHORT_PLACES = 300
"""Places up to which doubles are not subnormal, so that they have 15 digits."""

_SHORTEST_EXPONENT = len("e0")

_FEW_TEXTS = 64
"""Texts up to which the decimals of a double are listed by their first digits."""


def every_spelling(numbers: Iterable[Fraction], *, has_exponents: bool = True) -> Node:
    """Return all decimals that are read as the same double as a number.

    Args:
        numbers: The numbers.
        has_exponents: Whether scientific notation is among them.
    """
    entries: list[tuple[str, Node]] = []
    others: list[Node] = []
    for double in {nearest(number): None for number in numbers}:
        spend(SPELLING_STEPS)
        signs = ("-",) if double < 0 else ("",) if double else ("", "-")
        size = abs(double)
        texts = list(_short_texts(size, has_exponents=has_exponents))
        if not texts:
            for power in _powers_of(size, has_exponents=has_exponents):
                ends, places = _ends(size, power), _places(size, power)
                found = numbers_between(*ends, places)
                if found.stop - found.start > _FEW_TEXTS:
                    language = _following(dense_magnitudes(*ends), power)
                    others += [concatenation(_MINUS, language) if s else language for s in signs]
                    continue
                for number in found:
                    rest = _following(rest_between(*ends, places, number), power)
                    texts.append((pointed(number, places), rest))
        entries += [(sign + text, rest) for sign in signs for text, rest in texts]
    return union((word_list(entries), *others))


def _short_texts(double: float, *, has_exponents: bool) -> Iterator[tuple[str, Node]]:
    """Yield the first digits of the decimals of a positive double that has few digits itself.

    They begin like the double, or like the number that is smaller by 1 in its last place.
    """
    written = exact(double)
    places = decimal_places(written)
    number = int(written * 10**places)
    if not 0 < number < _DISTINCT or places > _MAX_SHORT_PLACES:
        return
    yield _entry(double, None, number, places, nullable=True)
    yield _entry(double, None, number - 1, places)
    if not has_exponents:
        return
    power = magnitude(written)
    mantissa = written / Fraction(10) ** power
    places = decimal_places(mantissa)
    number = int(mantissa * 10**places)
    yield _entry(double, power, number, places)
    if number > 1:
        yield _entry(double, power, number - 1, places)
    else:
        yield _entry(double, power - 1, 9, places)


def _entry(
    double: float, power: int | None, number: int, places: int, *, nullable: bool = False
) -> tuple[str, Node]:
    rest = intern_node(
        (RestOfDouble, double, power, number, places),
        lambda: RestOfDouble(double, power, number, places, nullable),
    )
    return pointed(number, places), rest


class RestOfDouble(Lazy):
    """What follows the first digits of decimals that are read as a double.

    Attributes:
        double: The double, which is not negative.
        power: The power of ten that is written behind; ``None`` for none.
        number: The first digits.
        places: How many of these are behind the point.
    """

    __slots__ = ("double", "number", "places", "power")

    def __init__(
        self, double: float, power: int | None, number: int, places: int, nullable: bool
    ) -> None:
        shortest = _SHORTEST_EXPONENT if power is not None else 0 if nullable else 1
        super().__init__(nullable=nullable, min_length=shortest)
        self.double = double
        self.power = power
        self.number = number
        self.places = places

    def expand(self) -> Node:
        """Return the digits that follow, with the exponent."""
        ends = _ends(self.double, self.power)
        return _following(rest_between(*ends, self.places, self.number), self.power)


def _powers_of(double: float, *, has_exponents: bool) -> Iterator[int | None]:
    """Yield the powers of ten with which the decimals of a double are written."""
    yield None
    if has_exponents:
        low, high = _ends(double, None)
        last = magnitude(high.value)
        first = magnitude(low.value) if low.value else last
        yield from range(max(first, -MAX_NEGATIVE_EXPONENT), last + 1)


@lru_cache(maxsize=1024)
def _ends(double: float, power: int | None) -> tuple[IntervalEnd, IntervalEnd]:
    """Return the ends of the decimals of a double, or of the mantissas before a power of ten."""
    value, is_excluded = below(double)
    low, high = IntervalEnd(max(value, Fraction(0)), not is_excluded), above(double)
    return (low, high) if power is None else mantissa_ends(low, high, power)


def _places(double: float, power: int | None) -> int:
    """Return the digits after the point of a double, or of its mantissa before a power of ten."""
    scale = 1 if power is None else Fraction(10) ** power
    return decimal_places(exact(double) / scale)


def _following(rest: Node, power: int | None) -> Node:
    return concatenation(rest, EPSILON if power is None else exponents(power, power))
