"""Numbers and dates of the source in the forms of JSON."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy_engine.speculation.normal_forms import dates_in, number_at, separated_numbers_in


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"12", b"12"),
        (b"$1,234.50 a month", b"1234.50"),
        ("€ 99".encode(), b"99"),
        (b"EUR 78,000", b"78000"),
        (b"-3.5%", b"-3.5"),
        (b"1,23", b"1"),
        (b"007", None),
        (b"0.5", b"0.5"),
        (b"many", None),
    ],
)
def test_number_has_neither_currency_nor_separators(text: bytes, expected: bytes | None) -> None:
    assert number_at(text, 0) == expected


@given(st.integers(0, 10**12))
def test_numbers_with_separators_are_found(number: int) -> None:
    found = list(separated_numbers_in(f"about {number:,} of them".encode()))
    assert found == ([(6, str(number).encode())] if number >= 1000 else [])


@given(st.dates(date(1000, 1, 1)), st.sampled_from(["%d %B %Y", "%B %d, %Y", "%b %d, %Y"]))
def test_dates_are_found_in_written_forms(day: date, form: str) -> None:
    text = f"on {day.strftime(form)}.".lower().encode()
    assert list(dates_in(text)) == [(3, day.isoformat().encode())]


def test_first_number_of_a_date_is_the_day_unless_it_cannot_be() -> None:
    found = [form for _, form in dates_in(b"3.4.2021, 03/14/1962, 2020/5/6, 31/31/2000")]
    assert found == [b"2021-04-03", b"1962-03-14", b"2020-05-06"]
