"""Bounds as readers compare them: a number with a point or an exponent is rounded to a double.

``0.09999999999999999999`` is read as 0.1, so it does not satisfy ``exclusiveMaximum: 0.1``. The
decimals that are read as one double lie between the half-way points to its neighbours (IEEE 754
section 4.3.1: ties to even). A bound on doubles is therefore a bound on decimals, at such a point.

Some readers compare an integer exactly, others round it, which differs from 2**53 on. There a text
has to satisfy both comparisons. A closed bound is also compared exactly on its side towards zero:
otherwise ``minimum: 18`` would permit the prefix ``17``, only to require ``17.999999999999999``.
"""

from __future__ import annotations

import math
import struct
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

EXACT_LIMIT = 2**53
"""Integers up to this magnitude are doubles."""

_MANTISSA_BITS = 53
_NORMAL_BITS = 1000
_OVERFLOW = Fraction(2) ** 1024


class IntervalEnd(NamedTuple):
    """The end of an interval of decimals.

    Attributes:
        value: The end.
        is_open: Whether the end is excluded.
    """

    value: Fraction
    is_open: bool


def nearest(number: Fraction) -> float:
    """Return the double as which a decimal is read."""
    try:
        return number.numerator / number.denominator
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def is_short(number: Fraction) -> bool:
    """Whether a decimal is compared as its double is: it differs from shorter ones as a double."""
    return (
        number.numerator.bit_length() <= _MANTISSA_BITS
        and number.denominator.bit_length() <= _NORMAL_BITS
    )


@lru_cache(maxsize=4096)
def upper_end(bound: Fraction, is_open: bool) -> IntervalEnd:
    """Return the end of the decimals that satisfy an upper bound.

    Args:
        bound: The bound, as it is written in a schema.
        is_open: Whether the bound itself is excluded.
    """
    if is_open:
        return below(nearest(bound))
    if 0 < bound < EXACT_LIMIT:
        return above(nearest(bound))
    return IntervalEnd(bound, False)


def lower_end(bound: Fraction, is_open: bool) -> IntervalEnd:
    """Return the end of the decimals that satisfy a lower bound, as :func:`upper_end` does."""
    value, is_excluded = upper_end(-bound, is_open)
    return IntervalEnd(-value, is_excluded)


def above(number: float) -> IntervalEnd:
    """Return the end of the decimals that are read as a double or as a smaller one."""
    return IntervalEnd(_middle(number, math.nextafter(number, math.inf)), not _is_even(number))


def below(number: float) -> IntervalEnd:
    """Return the end of the decimals that are read as a double smaller than ``number``."""
    return IntervalEnd(_middle(math.nextafter(number, -math.inf), number), _is_even(number))


def _middle(low: float, high: float) -> Fraction:
    return (_finite(low) + _finite(high)) / 2


def _finite(number: float) -> Fraction:
    """Return a double exactly; for infinity the number at which doubles would continue."""
    return (
        Fraction(number)
        if math.isfinite(number)
        else Fraction(math.copysign(1, number)) * _OVERFLOW
    )


def _is_even(number: float) -> bool:
    """Whether a number half-way to a neighbour is rounded to ``number``."""
    return not _bits(number) & 1


def _bits(number: float) -> int:
    return int(struct.unpack("<q", struct.pack("<d", abs(number)))[0])


def _place(number: float) -> int:
    """Return the place of a double among all doubles in ascending order; that of zero is 0."""
    return _bits(number) if number >= 0 else -_bits(number)


def doubles_between(low: Fraction, high: Fraction, *, low_open: bool, high_open: bool) -> range:
    """Return the places of the doubles between two bounds, for :func:`double_at`."""
    first, last = _place(nearest(low)), _place(nearest(high))
    return range(first + low_open, last + 1 - high_open)


def double_at(place: int) -> float:
    """Return the double at a place that :func:`doubles_between` returned."""
    number = float(struct.unpack("<d", struct.pack("<q", abs(place)))[0])
    return number if place >= 0 else -number
