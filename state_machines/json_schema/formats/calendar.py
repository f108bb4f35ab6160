r"""Dates, times and durations: RFC 3339.

The ABNF of section 5.6 with the restrictions of sections 5.7 and 5.8, which are regular too: the
days of each month, 29 February in leap years alone, and second 60 only where the offset makes it
23:59:60 UTC; with a date, only at the end of June and of December, as leap seconds have been
inserted so far. ``T`` and ``Z`` may be lower case. Year 0000 is left out: few programs can read
it, and ISO 8601 allows it by mutual agreement alone. Durations are those of appendix A, the ABNF
of ISO 8601 durations.
"""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter

from state_machines.grammar.lazy import reference
from state_machines.grammar.node import EPSILON, Node
from state_machines.grammar.nodes import concatenation, union
from state_machines.grammar.symbols import code_points
from state_machines.grammar.tries import trie
from state_machines.regex import compile_pattern

__all__ = ["date", "date_time", "duration", "time"]

_MINUTES_A_DAY = 24 * 60

_YEAR = "(?:[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)"
_MULTIPLE_OF_4 = "(?:0[48]|[2468][048]|[13579][26])"
_LEAP_DAY = rf"(?:[0-9]{{2}}{_MULTIPLE_OF_4}|{_MULTIPLE_OF_4}00)-02-29"
_DATE = (
    rf"{_YEAR}-(?:"
    r"(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])"
    r"|(?:0[13-9]|1[0-2])-(?:29|30)"
    r"|(?:0[13578]|1[02])-31"
    rf")|{_LEAP_DAY}"
)
_FRACTION = r"(?:\.[0-9]+)?"
_OFFSET = r"(?:[Zz]|[+\-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
_TIME = rf"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]{_FRACTION}{_OFFSET}"

_DURATION_TIME = r"T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"
_DURATION_DATE = r"(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)"
_DURATION = rf"P(?:{_DURATION_DATE}(?:{_DURATION_TIME})?|{_DURATION_TIME}|[0-9]+W)"


def date() -> Node:
    """``full-date`` (RFC 3339, section 5.6)."""
    return _language(_DATE)


def time() -> Node:
    """``full-time`` (RFC 3339, section 5.6)."""
    return union((_language(_TIME), _leap_second(0), _leap_second(1)))


def date_time() -> Node:
    """``date-time`` (RFC 3339, section 5.6)."""
    mark = _language("[Tt]")
    same_day = concatenation(_language(f"{_YEAR}-(?:06-30|12-31)"), mark, _leap_second(0))
    next_day = concatenation(_language(f"{_YEAR}-(?:07-01|01-01)"), mark, _leap_second(1))
    return union((concatenation(date(), mark, _language(_TIME)), same_day, next_day))


def duration() -> Node:
    """``duration`` (RFC 3339, appendix A)."""
    return _language(_DURATION)


def _language(pattern: str) -> Node:
    return compile_pattern(pattern, search=False)


def _leap_second(days: int) -> Node:
    """Return the local times of 23:59:60 UTC that fall ``days`` days after the UTC date.

    Made hour by hour and minute by minute as they are met, since there are 2,880 offsets.
    """
    hours = []
    for hour in range(24):
        offsets = _offsets(hour, days)
        if offsets:
            hours.append((_points(f"{hour:02}:"), _minutes(offsets)))
    return trie(hours, code_points)


def _offsets(hour: int, days: int) -> tuple[tuple[int, str], ...]:
    """Return the offsets that make a minute of the hour 23:59 UTC, each with that minute."""
    found = []
    for minute in range(60):
        ahead = hour * 60 + minute + 1 - (1 - days) * _MINUTES_A_DAY
        if ahead == 0:
            found.extend([(minute, "Z"), (minute, "z"), (minute, "+00:00")])
        if abs(ahead) < _MINUTES_A_DAY and (ahead > 0) == (days == 1):
            found.append((minute, ("+" if days else "-") + _clock(abs(ahead))))
    return tuple(found)


def _minutes(offsets: tuple[tuple[int, str], ...]) -> Node:
    """Return minute, ``:60``, a fraction of a second and an offset."""

    def make() -> Node:
        by_minute = groupby(offsets, key=itemgetter(0))
        return trie(
            (
                (_points(f"{minute:02}"), _second(tuple(offset for _, offset in found)))
                for minute, found in by_minute
            ),
            code_points,
        )

    shortest = min(len(offset) for _, offset in offsets)
    return reference(("minutes", offsets), make, min_length=5 + shortest)


def _second(offsets: tuple[str, ...]) -> Node:
    """Return ``:60``, a fraction of a second and an offset."""

    def make() -> Node:
        fraction = _language(_FRACTION)
        ends = [concatenation(fraction, _text(offset)) for offset in offsets]
        return trie([(_points(":60"), union(ends))], code_points)

    return reference(("second", offsets), make, min_length=3 + min(map(len, offsets)))


def _text(text: str) -> Node:
    return trie([(_points(text), EPSILON)], code_points)


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"


def _points(text: str) -> list[int]:
    return [ord(character) for character in text]
