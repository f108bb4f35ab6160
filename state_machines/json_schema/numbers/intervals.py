"""Intervals of numbers, each with a lattice of multiples and lattices left out.

Exact throughout: bounds and steps are :class:`fractions.Fraction`, never floats. ``integer`` is
the lattice of step 1.
"""

from __future__ import annotations

import sys
from collections.abc import Container, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from state_machines.budgets import spend
from state_machines.json_schema.numbers.lattices import least_common_multiple

__all__ = ["LARGEST", "MAX_INTEGER_DIGITS", "Interval"]

MAX_INTEGER_DIGITS = 308
"""Digits before the point of a number below :data:`ROUND_LIMIT`."""

ROUND_LIMIT = Fraction(10**MAX_INTEGER_DIGITS)
"""Numbers of this magnitude and more are written only where a schema asks for them."""

LARGEST = Fraction(repr(sys.float_info.max))
"""The greatest finite double. No number of greater magnitude is ever written."""


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
        return self.is_within(())

    def is_within(self, holes: Container[Fraction]) -> bool:
        """Whether no number that can be written lies within, other than the given ones."""
        if self.low is not None and self.high is not None and self.low >= self.high:
            return self.low > LARGEST or self.low not in self or self.low in holes
        if self.reaches_limit and not self._is_finite:
            return self.finite().is_within(holes)
        if self.step is None:
            return False
        return all(number in holes for number in self._ascending())

    @property
    def reaches_limit(self) -> bool:
        """Whether a bound is so far from zero that the limit of doubles counts."""
        return any(
            bound is not None and abs(bound) >= ROUND_LIMIT for bound in (self.low, self.high)
        )

    @property
    def _is_finite(self) -> bool:
        return (
            self.low is not None
            and self.high is not None
            and self.low >= -LARGEST
            and self.high <= LARGEST
        )

    def finite(self) -> Interval:
        """Return the numbers of the interval that are finite as doubles."""
        return self & Interval(low=-LARGEST, high=LARGEST)

    def multiples(self) -> tuple[int | None, int | None]:
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

    def _ascending(self) -> Iterator[Fraction]:
        """Yield the multiples within that can be written."""
        step = self.step
        if step is None or self._none_is_left():
            return
        first, last = self.finite().multiples()
        if first is None or last is None:
            raise AssertionError("bounds give a first and a last multiple")
        avoided = [(step / other).denominator for other in self.avoided]
        for k in range(first, last + 1):
            spend()
            if all(k % period for period in avoided):
                yield k * step

    def _none_is_left(self) -> bool:
        """Whether every multiple of the step is one of another that is avoided."""
        step = self.step
        return step is not None and any((step / a).denominator == 1 for a in self.avoided)

    def members(self, *, most: int) -> list[Fraction] | None:
        """Return the numbers of the interval, ascending, if they are known to be so few."""
        if self.low is None or self.high is None:
            return None
        if self.low == self.high:
            return [] if self.is_empty else [self.low]
        if self.step is None:
            return None
        first, last = self.multiples()
        if first is None or last is None or last - first >= most:
            return None
        return list(self._ascending())

    def _on_lattice(self, number: Fraction) -> bool:
        if self.step is not None and not _is_multiple(number, self.step):
            return False
        return not any(_is_multiple(number, avoided) for avoided in self.avoided)

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
        if self.step is None or other.step is None:
            step = self.step or other.step
        else:
            step = least_common_multiple(self.step, other.step)
        both = Interval(
            low,
            high,
            low_open,
            high_open,
            step,
            self.avoided | other.avoided,
            self.is_plain or other.is_plain,
        )
        if self.step is None or other.step is None or step is None or step <= LARGEST:
            return both
        # Zero is the only multiple that is finite, and the step would grow without a bound.
        zero = Fraction(0)
        if zero not in both:
            return Interval(low=zero, high=zero, low_open=True)
        return Interval(low=zero, high=zero, is_plain=both.is_plain)

    def __neg__(self) -> Interval:
        return replace(
            self,
            low=None if self.high is None else -self.high,
            high=None if self.low is None else -self.low,
            low_open=self.high_open,
            high_open=self.low_open,
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


def _is_multiple(number: Fraction, step: Fraction) -> bool:
    return number.numerator * step.denominator % (number.denominator * step.numerator) == 0


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
