r"""Dates, times and durations (RFC 3339).

* ``date``, ``time``, ``date-time``: the ABNF of section 5.6 with the restrictions of sections 5.7
  and 5.8, which are regular: the days of each month, 29 February in leap years only, and second 60
  only for 23:59:60 UTC. In a ``date-time``, second 60 is further restricted to the ends of June and
  December, when all leap seconds so far were inserted. ``T`` and ``Z`` may be lower case. Year 0000
  is left out, because few programs can read it and ISO 8601 allows it by mutual agreement only.
* ``duration``: appendix A, the ABNF of ISO 8601 durations.
"""

from __future__ import annotations

from functools import partial

from state_machines.grammar.lazy import reference
from state_machines.grammar.node import Node
from state_machines.grammar.nodes import concatenation, union
from state_machines.grammar.symbols import CodePointSet
from state_machines.grammar.word_lists import literals, word_list
from state_machines.regex import compile_pattern

full_match = partial(compile_pattern, search=False)

_MINUTES_PER_DAY = 24 * 60
_SYMBOLS, _UTC = CodePointSet.of("0123456789:.+-"), CodePointSet.of("Zz")

_YEAR = "(?:[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)"
_MULTIPLE_OF_4 = "(?:0[48]|[2468][048]|[13579][26])"
_LEAP_DAY = rf"(?:[0-9]{{2}}{_MULTIPLE_OF_4}|{_MULTIPLE_OF_4}00)-02-29"
DATE = (
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
DURATION = rf"P(?:{_DURATION_DATE}(?:{_DURATION_TIME})?|{_DURATION_TIME}|[0-9]+W)"


def time() -> Node:
    """``full-time`` (RFC 3339, section 5.6)."""
    return union((full_match(_TIME), _leap_second(0), _leap_second(1)))


def date_time() -> Node:
    """``date-time`` (RFC 3339, section 5.6)."""
    mark = full_match("[Tt]")
    same_day = concatenation(full_match(f"{_YEAR}-(?:06-30|12-31)"), mark, _leap_second(0))
    next_day = concatenation(full_match(f"{_YEAR}-(?:07-01|01-01)"), mark, _leap_second(1))
    return union((concatenation(full_match(DATE), mark, full_match(_TIME)), same_day, next_day))


def _leap_second(days: int) -> Node:
    """Return the local times, with offset, of 23:59:60 UTC.

    There are 2,880 offsets, so tens of minutes are unfolded lazily.

    Args:
        days: The local date minus the UTC date: 0 or 1.
    """
    return word_list(
        (f"{hour:02}:{ten}", _minutes(hour, ten, days)) for hour in range(24) for ten in range(6)
    )


def _minutes(hour: int, ten: int, days: int) -> Node:
    """Return the rest ``M:60``, fraction of a second, offset of the times that are 23:59 UTC."""

    def make() -> Node:
        fraction = full_match(_FRACTION)
        return word_list(
            (f"{minute}:60", concatenation(fraction, literals(offsets)))
            for minute in range(10)
            if (offsets := _offsets(hour * 60 + ten * 10 + minute, days))
        )

    is_utc = (hour, ten, days) == (23, 5, 0)
    return reference(
        ("leap second", hour, ten, days),
        make,
        min_length=4 + (1 if is_utc else 6),
        symbols=_SYMBOLS | _UTC if is_utc else _SYMBOLS,
    )


def _offsets(minute: int, days: int) -> list[str]:
    """Return the offsets for which a minute of the local date is 23:59 UTC."""
    ahead = minute + 1 - (1 - days) * _MINUTES_PER_DAY
    if ahead == 0:
        return ["Z", "z", "+00:00", "-00:00"]
    if abs(ahead) >= _MINUTES_PER_DAY or (ahead > 0) != (days == 1):
        return []
    hours, minutes = divmod(abs(ahead), 60)
    return [f"{'+' if days else '-'}{hours:02}:{minutes:02}"]
