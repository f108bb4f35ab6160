r"""Durations in ISO 8601, as pydantic and msgspec read a ``timedelta``.

Observed with pydantic 2.14.4 (pydantic-core 2.50.5) and msgspec 0.22.

========  ==========================================================================================
reader    texts
========  ==========================================================================================
pydantic  ``P1Y2M3W4DT5H6M7.5S`` with some of the parts; a year has 365 days, a month 30
msgspec   ``P4DT5H6M7.5S`` with some of the parts
========  ==========================================================================================

Parts are written in this order, the last one of hours, minutes and seconds may have a fraction, and
a sign may stand in front. Both readers refuse more than 999,999,999 days. Without bounds a part has
so few digits that the sum is below that. With bounds these texts are written: a number of one unit;
days, or weeks and up to 6 days, or years and up to 364 days, each with a time of less than a day
whose parts are less than the next unit.

Left out, although pydantic reads them: ``1 day, 2:00:00``, ``02:00:00``, ``1d``, repeated parts and
parts in another order; by both, a lower-case ``p`` or units.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import ceil, floor
from typing import NamedTuple

from state_machines.grammar.boolean import intersection
from state_machines.grammar.node import EMPTY, EPSILON, Node
from state_machines.grammar.nodes import concatenation, optional, symbols, union
from state_machines.grammar.symbols import code_points
from state_machines.grammar.text_languages import word_language
from state_machines.reader_languages.digits import MINUS, Number, exact, integers, magnitudes
from state_machines.reader_languages.temporal import Reader
from state_machines.regex import compile_pattern

_SECOND = 1_000_000
_MINUTE = 60 * _SECOND
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_LARGEST = dt.timedelta.max // dt.timedelta(microseconds=1)
_SMALLEST = dt.timedelta.min // dt.timedelta(microseconds=1)


class _DurationUnit(NamedTuple):
    """A unit, in microseconds, and its letter."""

    size: int
    letter: str

    @property
    def is_time(self) -> bool:
        """Whether it stands behind the ``T``."""
        return self.size < _DAY


_YEARS, _MONTHS, _WEEKS = (
    _DurationUnit(365 * _DAY, "Y"),
    _DurationUnit(30 * _DAY, "M"),
    _DurationUnit(7 * _DAY, "W"),
)
_DAYS, _HOURS = _DurationUnit(_DAY, "D"), _DurationUnit(_HOUR, "H")
_MINUTES, _SECONDS = _DurationUnit(_MINUTE, "M"), _DurationUnit(_SECOND, "S")
_TIME = (_HOURS, _MINUTES, _SECONDS)

_P, _T = symbols(code_points("P")), symbols(code_points("T"))
_FRACTION_DIGITS = 6
_WRITTEN_SECONDS = r"[0-9]+(?:\.[0-9]*[1-9])?"

_MOST_SECONDS = 10**9
"""Largest part of a unit of time: pydantic's reader counts seconds with 32 bits."""

_TIME_PATTERN = r"(?:[0-9]{1,5}H)?(?:[0-9]{1,6}M)?(?:[0-9]{1,9}(?:\.[0-9]{1,6})?S)?"
_FRACTION_PATTERN = r"T[0-9]{1,5}\.[0-9]{1,6}[HM]"
_PATTERNS = {
    "pydantic": (
        r"P(?!$|.*T$)(?:(?:[0-9]{1,5}Y)?(?:[0-9]{1,6}M)?(?:[0-9]{1,6}W)?(?:[0-9]{1,8}D)?"
        rf"(?:T{_TIME_PATTERN})?|[0-9]{{9}}D|[0-9]{{1,6}}\.[0-9]{{1,6}}[WD]|{_FRACTION_PATTERN})"
    ),
    "msgspec": (
        rf"P(?!$|.*T$)(?:(?:[0-9]{{1,8}}D)?(?:T{_TIME_PATTERN})?|[0-9]{{9}}D"
        rf"|{_FRACTION_PATTERN})"
    ),
}


def duration(
    *,
    ge: Number | None = None,
    gt: Number | None = None,
    le: Number | None = None,
    lt: Number | None = None,
    reader: Reader = "pydantic",
    canonical: bool = False,
) -> Node:
    """Return the texts of durations.

    Args:
        ge: Lower bound, in seconds.
        gt: Lower bound that is excluded.
        le: Upper bound.
        lt: Upper bound that is excluded.
        reader: The reader.
        canonical: Whether texts are spelled as the reader spells them.
    """
    if reader not in _PATTERNS:
        raise ValueError(f"the reader {reader!r} is not one of {', '.join(_PATTERNS)}")
    bounds = (exact(ge), exact(gt), exact(le), exact(lt))
    if not canonical and all(bound is None for bound in bounds):
        return compile_pattern(f"[+\\-]?{_PATTERNS[reader]}", search=False)
    least, above, most, below = (None if bound is None else bound * _SECOND for bound in bounds)
    low, high = _SMALLEST, _LARGEST
    if least is not None:
        low = max(low, ceil(least))
    if above is not None:
        low = max(low, floor(above) + 1)
    if most is not None:
        high = min(high, floor(most))
    if below is not None:
        high = min(high, ceil(below) - 1)
    writer = _DurationWriter(reader, canonical)
    parts = [writer.texts(max(low, 0), high)]
    if not canonical and high == _LARGEST and low <= 1:
        # All durations that are not negative, or that are positive.
        texts = compile_pattern(_PATTERNS[reader], search=False)
        parts = [
            texts if low <= 0 else intersection((texts, compile_pattern("[1-9]", search=True)))
        ]
    if not canonical:
        parts.append(concatenation(symbols(code_points("+")), parts[0]))
    parts.append(concatenation(MINUS, writer.texts(max(-high, 1), -low)))
    return union(parts)


class _DurationWriter:
    """Writes durations between two bounds, in microseconds and without a sign."""

    def __init__(self, reader: Reader, canonical: bool) -> None:
        self.reader = reader
        self.canonical = canonical
        self._parts: dict[tuple[Sequence[_DurationUnit], int, int], tuple[Node, bool]] = {}

    def texts(self, low: int, high: int) -> Node:
        """Return the texts of the durations from ``low`` to ``high``."""
        if high < low:
            return EMPTY
        return concatenation(_P, union(self._forms(low, high)))

    def _forms(self, low: int, high: int) -> Iterator[Node]:
        """Yield the texts behind the ``P``."""
        time = (_SECONDS,) if self.canonical and self.reader == "msgspec" else _TIME
        if self.canonical:
            units = (_DAYS, *time) if self.reader == "msgspec" else (_YEARS, _DAYS, *time)
            yield self._mixed(units, low, high)[0]
            if low <= 0:
                yield word_language(("0D",) if self.reader == "msgspec" else ("T0S",))
            return
        yield self._mixed((_DAYS, *time), low, high)[0]
        if self.reader == "pydantic":
            yield self._mixed((_WEEKS, _DAYS, *time), low, high)[0]
            yield self._mixed((_YEARS, _DAYS, *time), low, high)[0]
            yield self._single(_MONTHS, low, high)
        for unit in (_HOURS, _MINUTES, _SECONDS):
            yield self._single(unit, low, high)

    def _single(self, unit: _DurationUnit, low: int, high: int) -> Node:
        """Return whole numbers of one unit."""
        most = high // unit.size
        if unit.is_time:
            most = min(most, _MOST_SECONDS * _SECOND // unit.size)
        return concatenation(
            _T if unit.is_time else EPSILON,
            integers(-(-low // unit.size), most),
            symbols(code_points(unit.letter)),
        )

    def _mixed(self, units: tuple[_DurationUnit, ...], low: int, high: int) -> tuple[Node, bool]:
        """Return texts of several units, and whether no text at all is one, too.

        Each part but the first is less than the unit before it. A part that is 0 may be absent, and
        is so in canonical texts.
        """
        key = (units, low, high)
        known = self._parts.get(key)
        if known is None:
            known = self._parts[key] = self._make_mixed(units, low, high)
        return known

    def _make_mixed(
        self, units: tuple[_DurationUnit, ...], low: int, high: int
    ) -> tuple[Node, bool]:
        unit, *smaller = units
        letter = symbols(code_points(unit.letter))
        if not smaller:
            return concatenation(self._seconds(low, high), letter), low <= 0
        parts: list[Node] = []
        may_be_absent = False
        for first, last, rest_low, rest_high in _split(unit.size, low, high):
            rest, is_optional = self._mixed(tuple(smaller), rest_low, rest_high)
            if smaller[0].is_time and not unit.is_time:
                rest = concatenation(_T, rest)
            if first == 0:
                parts.append(rest)
                may_be_absent = may_be_absent or is_optional
            counts = integers(max(first, 1) if self.canonical else first, last)
            parts.append(concatenation(counts, letter, optional(rest) if is_optional else rest))
        return union(parts), may_be_absent

    def _seconds(self, low: int, high: int) -> Node:
        """Return numbers of seconds with up to six digits of a fraction."""
        if not self.canonical:
            return magnitudes(Fraction(low, _SECOND), Fraction(high, _SECOND), _FRACTION_DIGITS)
        seconds = magnitudes(
            Fraction(max(low, 1), _SECOND), Fraction(high, _SECOND), _FRACTION_DIGITS
        )
        return intersection((seconds, compile_pattern(_WRITTEN_SECONDS, search=False)))


def _split(size: int, low: int, high: int) -> Iterator[tuple[int, int, int, int]]:
    """Split an interval by the number of whole units.

    Yields:
        The first and the last number of units, and the bounds of what remains beside any of them.
    """
    first, last = low // size, high // size
    if first == last:
        yield first, last, low % size, high % size
        return
    if low % size:
        yield first, first, low % size, size - 1
        first += 1
    if (high + 1) % size:
        yield last, last, 0, high % size
        last -= 1
    if first <= last:
        yield first, last, 0, size - 1
