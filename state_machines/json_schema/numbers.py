"""Sets of numbers: unions of intervals, each with a lattice of multiples and lattices left out.

Exact throughout: bounds and steps are :class:`fractions.Fraction`, never floats. ``integer`` is
the lattice of step 1.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from math import gcd, lcm

from state_machines.effort import spend

__all__ = [
    "ALL_NUMBERS",
    "INTEGERS",
    "NO_NUMBERS",
    "PLAIN_INTEGERS",
    "Interval",
    "NumberSet",
    "exact",
    "point",
]

LIMIT = Fraction(10**308)
"""Every number is written with fewer digits than this before the point."""


def exact(number: int | float | Decimal) -> Fraction:
    """Return a JSON number of a parsed document as written: 0.1 is one tenth."""
    return Fraction(repr(number)) if isinstance(number, float) else Fraction(number)


@dataclass(frozen=True, slots=True)
class Interval:
    """The numbers between two bounds that are multiples of ``step`` and of none of ``avoided``.

    ``None`` stands for no bound and for no step; ``low_open`` and ``high_open`` leave the bound
    out. ``is_plain`` numbers are written without a fraction (draft 4 calls no other an integer).
    """

    low: Fraction | None = None
    high: Fraction | None = None
    low_open: bool = False
    high_open: bool = False
    step: Fraction | None = None
    avoided: frozenset[Fraction] = frozenset()
    is_plain: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether no number that can be written lies within."""
        if self.low is not None and self.low >= LIMIT:
            return True
        if self.high is not None and self.high <= -LIMIT:
            return True
        if self.low is not None and self.high is not None:
            if self.low > self.high:
                return True
            if self.low == self.high:
                return self.low_open or self.high_open or not self._on_lattice(self.low)
        if self.step is None:
            return False
        if any((self.step / avoided).denominator == 1 for avoided in self.avoided):
            return True
        few = self.members(most=10_000)
        return few is not None and not few

    def _multiples(self) -> tuple[int | None, int | None]:
        """Return the least and the greatest k with k * step within the bounds."""
        first = last = None
        if self.step is None:
            raise ValueError("an interval without a step has no multiples")
        if self.low is not None:
            first = -((-self.low / self.step).__floor__())
            first += self.low_open and first * self.step == self.low
        if self.high is not None:
            last = (self.high / self.step).__floor__()
            last -= self.high_open and last * self.step == self.high
        return first, last

    def members(self, *, most: int) -> list[Fraction] | None:
        """Return the numbers of the interval, ascending, if they are known to be so few."""
        if self.low is None or self.high is None:
            return None
        if self.low == self.high:
            return [] if self.is_empty else [self.low]
        if self.step is None:
            return None
        first, last = self._multiples()
        if first is None or last is None or last - first >= most:
            return None
        return [k * self.step for k in range(first, last + 1) if self._on_lattice(k * self.step)]

    def _on_lattice(self, number: Fraction) -> bool:
        if self.step is not None and (number / self.step).denominator != 1:
            return False
        return all((number / avoided).denominator != 1 for avoided in self.avoided)

    def __contains__(self, number: Fraction) -> bool:
        if self.low is not None and (number < self.low or (self.low_open and number == self.low)):
            return False
        if self.high is not None and (
            number > self.high or (self.high_open and number == self.high)
        ):
            return False
        return self._on_lattice(number)

    def __and__(self, other: Interval) -> Interval:
        low, low_open = _tighter(self.low, self.low_open, other.low, other.low_open, sign=1)
        high, high_open = _tighter(self.high, self.high_open, other.high, other.high_open, sign=-1)
        steps = [step for step in (self.step, other.step) if step is not None]
        step = reduce(_least_common_multiple, steps) if steps else None
        return Interval(
            low,
            high,
            low_open,
            high_open,
            step,
            self.avoided | other.avoided,
            self.is_plain or other.is_plain,
        )

    def complement(self) -> list[Interval]:
        """Return the numbers that are not within, as disjoint intervals or nearly so."""
        parts = []
        if self.low is not None:
            parts.append(Interval(high=self.low, high_open=not self.low_open))
        if self.high is not None:
            parts.append(Interval(low=self.high, low_open=not self.high_open))
        bounds = replace(self, step=None, avoided=frozenset(), is_plain=False)
        if self.step is not None:
            parts.append(replace(bounds, avoided=frozenset({self.step})))
        parts.extend(replace(bounds, step=avoided) for avoided in self.avoided)
        return parts


def _tighter(
    a: Fraction | None, a_open: bool, b: Fraction | None, b_open: bool, *, sign: int
) -> tuple[Fraction | None, bool]:
    if a is None:
        return b, b_open
    if b is None:
        return a, a_open
    if a == b:
        return a, a_open or b_open
    return (a, a_open) if (a - b) * sign > 0 else (b, b_open)


def _least_common_multiple(a: Fraction, b: Fraction) -> Fraction:
    return Fraction(lcm(a.numerator, b.numerator), gcd(a.denominator, b.denominator))


@dataclass(frozen=True, slots=True)
class NumberSet:
    """A union of non-empty intervals."""

    intervals: tuple[Interval, ...]

    @classmethod
    def union(cls, intervals: Iterable[Interval]) -> NumberSet:
        """Return the union of the intervals that hold a number."""
        kept = tuple(dict.fromkeys(i for i in intervals if not i.is_empty))
        everything = Interval()
        return cls((everything,) if everything in kept else kept)

    @property
    def is_empty(self) -> bool:
        """Whether the set holds no number."""
        return not self.intervals

    def __contains__(self, number: Fraction) -> bool:
        return any(number in interval for interval in self.intervals)

    def __and__(self, other: NumberSet) -> NumberSet:
        if self == ALL_NUMBERS:
            return other
        if other == ALL_NUMBERS:
            return self
        spend(len(self.intervals) * len(other.intervals))
        return NumberSet.union(a & b for a in self.intervals for b in other.intervals)

    def __or__(self, other: NumberSet) -> NumberSet:
        return NumberSet.union(self.intervals + other.intervals)

    def __invert__(self) -> NumberSet:
        result = ALL_NUMBERS
        spans = [i for i in self.intervals if i.step is None and not i.avoided]
        if spans:
            result = NumberSet.union(_gaps(spans))
        for interval in self.intervals:
            if interval.step is not None or interval.avoided:
                result = result & NumberSet.union(interval.complement())
        return result


def _gaps(spans: list[Interval]) -> Iterable[Interval]:
    """Yield what intervals without steps leave between them."""
    low: Fraction | None = None
    low_open = False
    bottom = [span for span in spans if span.low is None]
    bounded = sorted(
        (span for span in spans if span.low is not None),
        key=lambda span: (span.low or 0, span.low_open),
    )
    for span in (*bottom, *bounded):
        if span.low is not None:
            yield Interval(low, span.low, low_open, not span.low_open)
        if span.high is None:
            return
        reaches_further = low is None or (span.high, not span.high_open) > (low, low_open)
        if reaches_further:
            low, low_open = span.high, not span.high_open
    yield Interval(low, None, low_open, False)


ALL_NUMBERS = NumberSet((Interval(),))
NO_NUMBERS = NumberSet(())
INTEGERS = NumberSet((Interval(step=Fraction(1)),))
PLAIN_INTEGERS = NumberSet((Interval(step=Fraction(1), is_plain=True),))


def point(number: Fraction) -> NumberSet:
    """Return the set of one number."""
    return NumberSet((Interval(low=number, high=number),))
