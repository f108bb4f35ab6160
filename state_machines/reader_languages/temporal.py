r"""Dates, times and both, as pydantic and msgspec read them.

Observed with pydantic 2.14.4 (pydantic-core 2.50.5) and msgspec 0.22.

============  ============================================================================
language      texts
============  ============================================================================
``date``      ``2024-02-29``, years 0001 to 9999
``time``      ``13:30``, ``13:30:00``, ``13:30:00.123456``, each with an offset or without
``datetime``  both, joined by ``T``, ``t`` or a space; the date alone
============  ============================================================================

An offset is ``Z``, ``z``, ``+02:00`` or ``+0200``, at most 23:59. Neither reader knows second 60 or
hour 24. pydantic drops digits after the sixth of a fraction, or refuses them
(``microseconds_precision="error"``); at most nine are written. msgspec rounds them, so that none
are written for it; it requires seconds, and a date alone is no datetime.

Left out, although pydantic reads them: numbers (Unix time), midnight as a date, ``_`` between date
and time, a comma in front of a fraction, U+2212 as a minus.

Bounds: if text and bound both have an offset, the instants are compared, else the clock times. With
a bound that has an offset, a text with an offset other than 0 and that of the bound is written
where every offset of its sign is within the bounds.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple, TypeVar

from state_machines.grammar.boolean import intersection
from state_machines.grammar.node import EMPTY, Node
from state_machines.grammar.nodes import branch, concatenation, repetition, symbols, union
from state_machines.grammar.symbols import ANY_CODE_POINT, CodePointSet, code_points
from state_machines.regex import compile_pattern

YEAR = "(?:[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)"
"""A year from 0001 to 9999, as a regular expression."""

HOUR_MINUTE = "(?:[01][0-9]|2[0-3]):[0-5][0-9]"
"""The beginning of a time of day, as a regular expression."""

_MULTIPLE_OF_4 = "(?:0[48]|[2468][048]|[13579][26])"
_LEAP_DAY = rf"(?:[0-9]{{2}}{_MULTIPLE_OF_4}|{_MULTIPLE_OF_4}00)-02-29"
DATE = (
    rf"{YEAR}-(?:"
    r"(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])"
    r"|(?:0[13-9]|1[0-2])-(?:29|30)"
    r"|(?:0[13578]|1[02])-31"
    rf")|{_LEAP_DAY}"
)
"""``full-date`` of RFC 3339, section 5.6, as a regular expression."""

Reader = Literal["pydantic", "msgspec"]
Precision = Literal["truncate", "error"]
_Moment = TypeVar("_Moment", dt.datetime, dt.time)
TimeZone = Literal["aware", "naive"] | int | None

_WRITTEN_TIME = rf"{HOUR_MINUTE}:[0-5][0-9](?:\.(?!000000)[0-9]{{6}})?"
_UTC = r"[Zz]|[+\-]00:?00"
_EAST = r"\+(?:[01][0-9]|2[0-3]):?[0-5][0-9]"
_WEST = r"-(?:[01][0-9]|2[0-3]):?[0-5][0-9]"

_SEPARATORS = CodePointSet.of("Tt ")
_ANYTHING = repetition(symbols(ANY_CODE_POINT), 0, None)
_MICROSECOND = dt.timedelta(microseconds=1)
_DAY = dt.timedelta(days=1) // _MICROSECOND
_LONGEST_OFFSET = dt.timedelta(hours=23, minutes=59) // _MICROSECOND
_MINUTE = dt.timedelta(minutes=1) // _MICROSECOND
_END_OF_TIME = (dt.datetime.max - dt.datetime.min) // _MICROSECOND + 1


def date(
    *,
    ge: str | None = None,
    gt: str | None = None,
    le: str | None = None,
    lt: str | None = None,
) -> Node:
    """Return the texts of dates. Different texts are different dates, written back as they are.

    Args:
        ge: The first date, in ISO 8601.
        gt: The day before the first date.
        le: The last date.
        lt: The day after the last date.
    """
    first = _latest(
        dt.date.fromisoformat(ge).toordinal() if ge else None,
        dt.date.fromisoformat(gt).toordinal() + 1 if gt else None,
    )
    end = _earliest(
        dt.date.fromisoformat(le).toordinal() + 1 if le else None,
        dt.date.fromisoformat(lt).toordinal() if lt else None,
    )
    last_day = dt.date.max.toordinal()
    if first > last_day or (end is not None and end <= first):
        return EMPTY
    parts = [compile_pattern(DATE, search=False)]
    if first > 1:
        parts.append(_from_text(dt.date.fromordinal(first).isoformat()))
    if end is not None and end <= last_day:
        parts.append(_before_text(dt.date.fromordinal(end).isoformat()))
    return intersection(parts)


def datetime(
    *,
    ge: str | None = None,
    gt: str | None = None,
    le: str | None = None,
    lt: str | None = None,
    tz: TimeZone = None,
    precision: Precision = "truncate",
    reader: Reader = "pydantic",
    strict: bool = False,
    canonical: bool = False,
) -> Node:
    """Return the texts of dates with times.

    Args:
        ge: Lower bound, in ISO 8601.
        gt: Lower bound that is excluded.
        le: Upper bound.
        lt: Upper bound that is excluded.
        tz: Whether texts have an offset, or the offset in seconds; ``None`` for both.
        precision: How the reader treats more than six digits of a fraction.
        reader: The reader.
        strict: Whether pydantic is strict, and reads no date alone.
        canonical: Whether texts are spelled as the reader spells them, with the offset ``Z``.
    """
    clock = _clock(precision, reader, canonical)
    mark = symbols(code_points("T") if canonical else _SEPARATORS)
    day = compile_pattern(DATE, search=False)
    local = concatenation(day, mark, compile_pattern(clock, search=False))
    alone = EMPTY if reader != "pydantic" or strict or canonical else day
    bounds = _bounds(dt.datetime.fromisoformat, _since_start, ge=ge, gt=gt, le=le, lt=lt)
    return _with_offsets(local, alone, bounds, tz, _datetime_text, canonical=canonical)


def time(
    *,
    ge: str | None = None,
    gt: str | None = None,
    le: str | None = None,
    lt: str | None = None,
    tz: TimeZone = None,
    precision: Precision = "truncate",
    reader: Reader = "pydantic",
    canonical: bool = False,
) -> Node:
    """Return the texts of times of day.

    Args:
        ge: Lower bound, in ISO 8601.
        gt: Lower bound that is excluded.
        le: Upper bound.
        lt: Upper bound that is excluded.
        tz: Whether texts have an offset, or the offset in seconds; ``None`` for both.
        precision: How the reader treats more than six digits of a fraction.
        reader: The reader.
        canonical: Whether texts are spelled as the reader spells them, with the offset ``Z``.
    """
    local = compile_pattern(_clock(precision, reader, canonical), search=False)
    bounds = _bounds(dt.time.fromisoformat, _since_midnight, ge=ge, gt=gt, le=le, lt=lt)
    return _with_offsets(local, EMPTY, bounds, tz, _time_text, canonical=canonical)


def _clock(precision: str, reader: str, canonical: bool) -> str:
    """Return the regular expression of times of day without an offset."""
    if canonical:
        return _WRITTEN_TIME
    digits = 9 if reader == "pydantic" and precision == "truncate" else 6
    seconds = rf":[0-5][0-9](?:\.[0-9]{{1,{digits}}})?"
    return f"{HOUR_MINUTE}(?:{seconds})?" if reader == "pydantic" else f"{HOUR_MINUTE}{seconds}"


# Bounds


class _Bound(NamedTuple):
    """A bound in microseconds: the first allowed value, or the first value that is refused.

    Attributes:
        is_low: Whether it is the first value that is allowed.
        clock: The time that the bound's clock shows.
        offset: Its offset; ``None`` if it has none.
    """

    is_low: bool
    clock: int
    offset: int | None


def _bounds(
    parse: Callable[[str], _Moment],
    count: Callable[[_Moment], int],
    **texts: str | None,
) -> list[_Bound]:
    found = []
    for name, text in texts.items():
        if text is None:
            continue
        moment = parse(text)
        offset = moment.utcoffset()
        found.append(
            _Bound(
                is_low=name in ("ge", "gt"),
                clock=count(moment) + (name in ("gt", "le")),
                offset=None if offset is None else offset // _MICROSECOND,
            )
        )
    return found


def _since_start(moment: dt.datetime) -> int:
    return (moment.replace(tzinfo=None) - dt.datetime.min) // _MICROSECOND


def _since_midnight(moment: dt.time) -> int:
    return _since_start(dt.datetime.combine(dt.date.min, moment))


def _datetime_text(clock: int) -> str | None:
    """Return the shortest text of a clock time, in microseconds; ``None`` if it is too late."""
    if clock >= _END_OF_TIME:
        return None
    moment = dt.datetime.min + clock * _MICROSECOND
    day, at = moment.date().isoformat(), _shortest(moment.time())
    return day if at == "00:00" else f"{day}T{at}"


def _time_text(clock: int) -> str | None:
    if clock >= _DAY:
        return None
    return _shortest((dt.datetime.min + clock * _MICROSECOND).time())


def _shortest(moment: dt.time) -> str:
    text = moment.isoformat()
    return text.rstrip("0") if moment.microsecond else text.removesuffix(":00")


class _Offsets(NamedTuple):
    """Offsets as they are written, between two numbers of microseconds."""

    texts: Node
    least: int
    greatest: int


def _offsets(tz: TimeZone, bounds: list[_Bound], canonical: bool) -> Iterator[_Offsets]:
    if tz == "naive":
        return
    if isinstance(tz, int):
        yield from _one_offset(tz, canonical)
        return
    yield from _one_offset(0, canonical)
    if not canonical:
        yield _Offsets(compile_pattern(_EAST, search=False), 0, _LONGEST_OFFSET)
        yield _Offsets(compile_pattern(_WEST, search=False), -_LONGEST_OFFSET, 0)
        for offset in {bound.offset for bound in bounds if bound.offset}:
            yield from _one_offset(offset // 1_000_000, canonical)


def _one_offset(seconds: int, canonical: bool) -> Iterator[_Offsets]:
    """Yield the texts of an offset, if it has texts."""
    if not seconds:
        yield _Offsets(compile_pattern("Z" if canonical else _UTC, search=False), 0, 0)
        return
    minutes, rest = divmod(abs(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if rest or hours > 23:
        return
    colon = ":" if canonical else ":?"
    sign = r"\+" if seconds > 0 else "-"
    written = compile_pattern(f"{sign}{hours:02}{colon}{minutes:02}", search=False)
    shift = seconds * 1_000_000
    yield _Offsets(written, shift, shift)


def _with_offsets(
    local: Node,
    alone: Node,
    bounds: list[_Bound],
    tz: TimeZone,
    text: Callable[[int], str | None],
    *,
    canonical: bool,
) -> Node:
    """Return clock times with offsets, and without.

    Args:
        local: The texts of clock times.
        alone: Texts that no offset may follow.
        bounds: The bounds.
        tz: Which offsets are allowed.
        text: Returns the shortest text of a clock time.
        canonical: Whether the offset is ``Z``.
    """
    if tz not in ("aware", "naive", None) and not isinstance(tz, int):
        raise ValueError(f"tz is {tz!r}, which is neither 'aware', 'naive' nor a number")
    parts = []
    if tz in ("naive", None):
        clocks = ((bound.is_low, bound.clock) for bound in bounds)
        parts.append(_within(union((local, alone)), clocks, text))
    for offsets in _offsets(tz, bounds, canonical):
        clocks = (
            (bound.is_low, bound.clock)
            if bound.offset is None
            else (
                bound.is_low,
                bound.clock - bound.offset + (offsets.greatest if bound.is_low else offsets.least),
            )
            for bound in bounds
        )
        parts.append(concatenation(_within(local, clocks, text), offsets.texts))
    return union(parts)


def _within(
    texts: Node, bounds: Iterable[tuple[bool, int]], text: Callable[[int], str | None]
) -> Node:
    """Return the texts of clock times within bounds: whether it is the lower one, and the time."""
    first, end = 0, None
    for is_low, clock in bounds:
        if is_low:
            first = max(first, clock)
        else:
            end = clock if end is None else min(end, clock)
    if end is not None and end <= first:
        return EMPTY
    parts = [texts]
    if first > 0:
        start = text(first)
        if start is None:
            return EMPTY
        parts.append(_from_text(start))
    stop = None if end is None else text(end)
    if stop is not None:
        parts.append(_before_text(stop))
    return intersection(parts)


def _latest(*days: int | None) -> int:
    return max((day for day in days if day is not None), default=1)


def _earliest(*days: int | None) -> int | None:
    return min((day for day in days if day is not None), default=None)


def _from_text(start: str) -> Node:
    """Return the texts that are ``start``, begin with it, or have a greater digit at some place."""
    node = _ANYTHING
    for character in reversed(start):
        greater = code_points(chr(ord(character) + 1), "9") if character in "012345678" else None
        node = branch(
            ((_same(character), node), *(((greater, _ANYTHING),) if greater is not None else ()))
        )
    return node


def _before_text(stop: str) -> Node:
    """Return the texts that end before ``stop`` does, or have a smaller digit at some place."""
    node = EMPTY
    for character in reversed(stop):
        less = code_points("0", chr(ord(character) - 1)) if character in "123456789" else None
        node = branch(
            ((_same(character), node), *(((less, _ANYTHING),) if less is not None else ())),
            nullable=True,
        )
    return node


def _same(character: str) -> CodePointSet:
    return _SEPARATORS if character == "T" else code_points(character)
