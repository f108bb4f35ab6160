"""Numbers and dates as JSON writes them, from the forms that prose and tables write."""

from __future__ import annotations

import re
from collections.abc import Iterator

_NUMBER = re.compile(
    rb"(?:[$#*(]|\xe2\x82\xac|\xc2\xa3|[A-Z]{2,3}\b)?[ ]?"
    rb"(-?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?)"
)
_SEPARATED = re.compile(rb"(?<![\d.,])[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?(?![\d,])")
_MONTHS = b"jan feb mar apr may jun jul aug sep oct nov dec".split()
_MONTH = rb"(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\.?"
_DAY = rb"(\d{1,2})(?:st|nd|rd|th)?"
_DATE = re.compile(
    rb"(?<![0-9a-z])(?:"
    rb"" + _DAY + rb"[ -](?:of[ ])?" + _MONTH + rb",?[ -](\d{4})"
    rb"|" + _MONTH + rb"[ ]" + _DAY + rb",?[ ](\d{4})"
    rb"|(\d{1,2})[./](\d{1,2})[./](\d{4})"
    rb"|(\d{4})[./](\d{1,2})[./](\d{1,2})"
    rb")(?![0-9a-z])"
)


def number_at(text: bytes, start: int) -> bytes | None:
    """Return the number at a position, without currency and thousands separators.

    ``None`` if there is none.
    """
    match = _NUMBER.match(text, start)
    if match is None:
        return None
    number = match[1].replace(b",", b"")
    digits = number.removeprefix(b"-")
    # JSON has no leading zeros.
    return None if digits.startswith(b"0") and digits[1:2].isdigit() else number


def separated_numbers_in(text: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield where numbers with thousands separators begin, and the numbers without them."""
    for match in _SEPARATED.finditer(text):
        yield match.start(), match[0].replace(b",", b"")


def dates_in(lower: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield where the dates of a text in lower case begin, and their ISO 8601 forms.

    Of ``3/4/2021``, the first number counts as the day unless it cannot be one.
    """
    for match in _DATE.finditer(lower):
        groups = match.groups()
        if groups[0]:
            day, month, year = int(groups[0]), _MONTHS.index(groups[1]) + 1, groups[2]
        elif groups[3]:
            month, day, year = _MONTHS.index(groups[3]) + 1, int(groups[4]), groups[5]
        elif groups[6]:
            day, month, year = int(groups[6]), int(groups[7]), groups[8]
            if month > 12:
                day, month = month, day
        else:
            year, month, day = groups[9], int(groups[10]), int(groups[11])
        if 1 <= month <= 12 and 1 <= day <= 31:
            yield match.start(), b"%s-%02d-%02d" % (year, month, day)
