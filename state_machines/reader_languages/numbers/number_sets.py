"""Sets of numbers: unions of intervals, with single numbers added or excluded.

Single numbers are no intervals, since an ``enum`` can have a hundred thousand of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from state_machines.budgets import spend
from state_machines.reader_languages.numbers.intervals import LARGEST, Interval

INTERSECTION_STEPS = 6
"""Steps charged for the intersection of two intervals."""

POINTS_PER_STEP = 2
"""Single numbers charged as one step."""

_NONE: frozenset[Fraction] = frozenset()


@dataclass(frozen=True, slots=True)
class NumberSet:
    """Intervals with exceptions: an exception is removed inside an interval, and added outside.

    Attributes:
        intervals: Intervals with more than one number, and with more than the exceptions.
        exceptions: Single numbers. With the interval from 0 to 2, ``{1, 5}`` removes 1 and adds 5.
    """

    intervals: tuple[Interval, ...] = ()
    exceptions: frozenset[Fraction] = _NONE

    @classmethod
    def of(cls, intervals: Iterable[Interval]) -> NumberSet:
        """Return the union of intervals."""
        listed = tuple(intervals)
        return cls._of(listed, (), lambda number: any(number in each for each in listed))

    @classmethod
    def _of(
        cls,
        intervals: Iterable[Interval],
        exceptions: Iterable[Fraction],
        contains: Callable[[Fraction], bool],
    ) -> NumberSet:
        """Return the set of a membership test.

        Args:
            intervals: The set, but for the exceptions.
            exceptions: Numbers at which intervals and set may differ.
            contains: The membership test.
        """
        candidates = set(exceptions)
        inside = set(filter(contains, candidates))
        outside = candidates - inside
        united: dict[Interval, None] = {}
        for interval in dict.fromkeys(intervals):
            if interval.reaches_limit:
                interval = interval.finite()
            if interval.low is not None and interval.low == interval.high:
                candidates.add(interval.low)
                inside.update(filter(contains, (interval.low,)))
            elif not interval.is_within(outside):
                united[interval] = None
        if Interval() in united:
            united = {Interval(): None}
        spend(len(candidates) * len(united) // 8)
        covered = {number for number in candidates if any(number in each for each in united)}
        return cls(tuple(united), frozenset(inside ^ covered))

    @classmethod
    def union(cls, sets: Iterable[NumberSet]) -> NumberSet:
        """Return the union of sets."""
        found = [numbers for numbers in dict.fromkeys(sets) if not numbers.is_empty]
        if len(found) <= 1:
            return found[0] if found else NO_NUMBERS
        single = _NONE.union(*(numbers.exceptions for numbers in found if not numbers.intervals))
        others = [numbers for numbers in found if numbers.intervals]
        exceptions = single.union(*(numbers.exceptions for numbers in others))
        intervals = [interval for numbers in others for interval in numbers.intervals]
        spend(len(exceptions) * len(intervals) // 8)
        return cls._of(
            intervals,
            exceptions,
            lambda number: number in single or any(number in each for each in others),
        )

    @property
    def points(self) -> frozenset[Fraction]:
        """The numbers that are in no interval."""
        return self.exceptions - self.holes

    @property
    def holes(self) -> frozenset[Fraction]:
        """The numbers of intervals that are not in the set."""
        return frozenset(filter(self._is_covered, self.exceptions if self.intervals else ()))

    @property
    def is_empty(self) -> bool:
        """Whether the set contains no number."""
        return not self.intervals and not self.exceptions

    def __contains__(self, number: Fraction) -> bool:
        return (number in self.exceptions) != self._is_covered(number)

    def _is_covered(self, number: Fraction) -> bool:
        return any(number in interval for interval in self.intervals)

    def __and__(self, other: NumberSet) -> NumberSet:
        if self == ALL_NUMBERS:
            return other
        if other == ALL_NUMBERS:
            return self
        spend(INTERSECTION_STEPS * max(1, len(self.intervals) * len(other.intervals)))
        spend(len(self.exceptions) * len(other.intervals) // 8)
        spend(len(other.exceptions) * len(self.intervals) // 8)
        return NumberSet._of(
            (a & b for a in self.intervals for b in other.intervals),
            self.exceptions | other.exceptions,
            lambda number: number in self and number in other,
        )

    def __invert__(self) -> NumberSet:
        spans = [each for each in self.intervals if each.step is None and not each.excluded_steps]
        result = NumberSet.of(_gaps(spans))
        for interval in self.intervals:
            if interval.step is not None or interval.excluded_steps:
                result = result & NumberSet.of(interval.complement())
        exceptions = result.exceptions | self.exceptions
        return NumberSet._of(result.intervals, exceptions, lambda number: number not in self)


def _gaps(spans: Iterable[Interval]) -> Iterator[Interval]:
    """Yield the gaps between intervals without steps.

    The intersection of their complements takes a number of steps that grows with the square.
    """
    low: Fraction | None = None
    low_open = False
    for span in sorted(
        spans, key=lambda each: (each.low is not None, each.low or 0, each.low_open)
    ):
        if span.low is not None:
            yield Interval(low, span.low, low_open, not span.low_open)
        if span.high is None:
            return
        if low is None or (span.high, not span.high_open) > (low, low_open):
            low, low_open = span.high, not span.high_open
    yield Interval(low, None, low_open)


ALL_NUMBERS = NumberSet((Interval(),))
NO_NUMBERS = NumberSet()
INTEGERS = NumberSet((Interval(step=Fraction(1)),))


def points(numbers: Iterable[Fraction]) -> NumberSet:
    """Return the set of the given numbers that are finite as doubles."""
    finite: list[Fraction] = []
    for number in numbers:
        if not len(finite) % POINTS_PER_STEP:
            spend()
        if -LARGEST <= number <= LARGEST:
            finite.append(number)
    return NumberSet(exceptions=frozenset(finite))
