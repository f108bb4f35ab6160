"""Tables, and the files that figures are kept in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from records import as_text, write_record
from tables import aligned, duration, markdown


def test_columns_are_aligned() -> None:
    rows = [["name", "n"], ["a", "100"], ["longer", "7"]]
    assert aligned(rows, texts=1).splitlines() == ["name      n", "a       100", "longer    7"]


def test_markdown_aligns_numeric_columns_right() -> None:
    assert markdown([["a|b", "n"], ["x", "1"]], texts=1).splitlines() == [
        "| a\\|b | n |",
        "| --- | ---: |",
        "| x | 1 |",
    ]


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [
        (None, "–"),
        (0.5, "0.50 µs"),
        (9.994, "9.99 µs"),
        (9.996, "10.0 µs"),
        (99.96, "100 µs"),
        (999.4, "999 µs"),
        (999.6, "1.00 ms"),
        (12_345, "12.3 ms"),
        (999_600, "1.00 s"),
        (61_000_000, "61.0 s"),
    ],
)
def test_durations(microseconds: float | None, text: str) -> None:
    assert duration(microseconds) == text


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@settings(max_examples=25)
@given(values)
def test_record_round_trips(value: object) -> None:
    assert json.loads(as_text(value)) == value


def test_record_is_written_atomically(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    write_record(path, {"a": 1})
    write_record(path, {"a": 2})
    assert json.loads(path.read_text(encoding="utf-8")) == {"a": 2}
    assert [file.name for file in tmp_path.iterdir()] == ["figures.json"]
