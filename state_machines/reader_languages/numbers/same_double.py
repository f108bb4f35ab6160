"""The decimals that a reader rounds to the same double as a given number.

A union of many numbers is a list of texts, each with the language of what follows. That language is
only made where a walk gets there: behind the digits that a number shares with its neighbours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import lru_cache

from state_machines.budgets import spend
from state_machines.grammar.lazy import Lazy
from state_machines.grammar.node import EPSILON, Node, intern_node
from state_machines.grammar.nodes import concatenation, symbols, union
from state_machines.grammar.symbols import code_points
from state_machines.grammar.word_lists import word_list
from state_machines.reader_languages.numbers.decimal_grid import decimal_places
from state_machines.reader_languages.numbers.decimals import (
    dense_magnitudes,
    numbers_between,
    pointed,
    rest_between,
)
from state_machines.reader_languages.numbers.doubles import IntervalEnd, above, below, nearest
from state_machines.reader_languages.numbers.exponents import (
    MAX_NEGATIVE_EXPONENT,
    exponents,
    magnitude,
    mantissa_ends,
)
from state_machines.reader_languages.numbers.intervals import exact

_DISTINCT = 10**15
"""Decimals of up to 15 digits are different doubles."""

_MAX_SHORT_PLACES = 300
"""Places up to which doubles are not subnormal, so that they have 15 digits."""

_SHORTEST_EXPONENT = len("e0")

_FEW_TEXTS = 64
"""Texts up to which the decimals of a double are listed by their first digits."""

_MINUS = symbols(code_points("-"))


def every_spelling(numbers: Iterable[Fraction], *, has_exponents: bool = True) -> Node:
    """Return all decimals that are read as the same double as a number.

    Args:
        numbers: The numbers.
        has_exponents: Whether scientific notation is among them.
    """
    entries: list[tuple[str, Node]] = []
    others: list[Node] = []
    for double in {nearest(number): None for number in numbers}:
        spend()
        signs = ("-",) if double < 0 else ("",) if double else ("", "-")
        size = abs(double)
        texts = list(_short_texts(size, has_exponents=has_exponents))
        if not texts:
            for power in _powers(size, has_exponents=has_exponents):
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


def _powers(double: float, *, has_exponents: bool) -> Iterator[int | None]:
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
