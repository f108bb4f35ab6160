"""Benchmark of quotes of fields: values in their quotes, and the figures."""

from __future__ import annotations

import pytest
from field_quotes import Extracted, stands_in, table


@pytest.mark.parametrize(
    ("value", "quote", "expected"),
    [
        ("Ada Lovelace", "by ADA  Lovelace, in", True),
        (36, "is 36.", True),
        (36, "is 136", False),
        ("Ada", "Adam", False),
        ("Ada", "", False),
        (7.5, "costs 7.5 euros", True),
    ],
)
def test_value_stands_in_quote_by_whole_words(value: object, quote: str, expected: bool) -> None:
    assert stands_in(value, quote) is expected


def test_table_divides_values_by_their_quotes() -> None:
    without = [Extracted({"a": True, "b": False}, {}, [], 10)]
    assert "right, of values in their quote: no values" in table(without, without)
    answers = [Extracted({"a": True, "b": False}, {"a": True, "b": False}, ["b"], 25)]
    assert table(without, answers).splitlines() == [
        "right fields without quotes: 50% (50 to 50)",
        "right fields with quotes: 50% (50 to 50)",
        "strings and numbers in their quote: 50% (50 to 50)",
        "right, of values in their quote: 100% (100 to 100)",
        "right, of other strings and numbers: 0% (0 to 0)",
        "empty quotes: 50% (50 to 50)",
        "tokens with quotes over those without: 2.5",
    ]
