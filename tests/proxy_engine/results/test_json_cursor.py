"""Positions of JSON values are those that ``json`` reads the values from."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy_engine.checks import reference_token
from proxy_engine.results.json_cursor import JsonCursor, Unfinished

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)


@st.composite
def texts(draw: st.DrawFn) -> tuple[Any, str]:
    value = draw(VALUES)
    text = json.dumps(
        value,
        ensure_ascii=draw(st.booleans()),
        indent=draw(st.sampled_from([None, 0, 2])),
        separators=draw(st.sampled_from([None, (",", ":"), (" , ", " : ")])),
    )
    return value, text


def values_by_pointer(value: Any, pointer: str = "") -> Iterator[tuple[str, Any]]:
    yield pointer, value
    members = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for name, member in members:
        yield from values_by_pointer(member, f"{pointer}/{reference_token(str(name))}")


def read(text: str, *cuts: int) -> JsonCursor:
    cursor = JsonCursor(7)
    data = text.encode()
    bounds = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    for start, end in itertools.pairwise(bounds):
        cursor.feed(data[start:end])
    cursor.finish()
    return cursor


@given(texts(), st.lists(st.integers(min_value=0, max_value=10_000), max_size=4))
def test_spans_contain_the_values_of_json_however_the_text_is_cut(
    case: tuple[Any, str], cuts: list[int]
) -> None:
    value, text = case
    cursor = read(text, *cuts)
    expected = dict(values_by_pointer(value))
    assert cursor.is_complete
    assert list(cursor.spans) == list(expected)
    for pointer, (start, end) in cursor.spans.items():
        assert end is not None
        assert json.loads(text.encode()[start - 7 : end - 7]) == expected[pointer]
    leaves = [
        pointer
        for pointer, each in expected.items()
        if each in ([], {}) or not isinstance(each, list | dict)
    ]
    assert list(cursor.leaves) == leaves


@given(texts(), st.integers(min_value=0, max_value=10_000))
def test_copy_reads_the_same_leaves_as_the_whole_text(case: tuple[Any, str], cut: int) -> None:
    _, text = case
    data = text.encode()
    cut %= len(data) + 1
    first = JsonCursor()
    first.feed(data[:cut])
    second = first.copy()
    before = dict(first.leaves)
    second.feed(data[cut:])
    second.finish()
    assert first.leaves == before
    assert before | second.leaves == read(text).leaves


@given(st.lists(VALUES, min_size=2, max_size=2))
def test_keys_are_equal_if_and_only_if_the_values_are_equal_json(pair: list[Any]) -> None:
    one, other = (read(json.dumps(value)).leaves for value in pair)
    assert (one == other) == (tagged(pair[0]) == tagged(pair[1]))


def tagged(value: Any) -> Any:
    """The value with Booleans that are no numbers, and decimals for floats."""
    if isinstance(value, dict):
        return {name: tagged(member) for name, member in value.items()}
    if isinstance(value, list):
        return list(map(tagged, value))
    if isinstance(value, bool):
        return ("bool", value)
    return Decimal(repr(value)) if isinstance(value, float) else value


@pytest.mark.parametrize(
    ("one", "other", "are_equal"),
    [
        ("1", "1.0", True),
        ("100", "1e2", True),
        ("0", "-0.0", True),
        ("1", "true", False),
        ('"1"', "1", False),
        ('"\\u0061"', '"a"', True),
        ('"true"', "true", False),
        ("[]", "{}", False),
        ("null", '"null"', False),
        ("9007199254740993", "9007199254740992.0", False),
        ("1e400", "1e401", False),
        ("1e99999999999999999999", "2e99999999999999999999", False),
    ],
)
def test_keys_compare_as_json(one: str, other: str, are_equal: bool) -> None:
    assert (read(one).leaves[""] == read(other).leaves[""]) is are_equal


@pytest.mark.parametrize(
    ("text", "pointer", "key"),
    [
        ('{"a": "x', "/a", Unfinished(b'"x')),
        ('{"a": 12', "/a", Decimal(12)),
        ('{"a": -', "/a", Unfinished(b"-")),
        ('{"a": tru', "/a", Unfinished(b"tru")),
        ('[1, "x\\', "/1", Unfinished(b'"x\\')),
        ('"', "", Unfinished(b'"')),
    ],
)
def test_leaf_at_the_end_of_the_text_is_unfinished(text: str, pointer: str, key: object) -> None:
    cursor = JsonCursor()
    cursor.feed(text.encode())
    assert next(cursor.unfinished) == (pointer, key)


def test_open_containers_differ_by_the_name_in_progress() -> None:
    def open_containers(text: str) -> list[tuple[str, object]]:
        cursor = JsonCursor()
        cursor.feed(text.encode())
        return [entry for entry in cursor.unfinished if isinstance(entry[1], Unfinished)]

    assert open_containers('{"a": [1') == open_containers('{"a": [1, ')
    assert open_containers('{"a": 1, "b": ') != open_containers('{"a": 1, "c": ')
    assert open_containers('{"a": 1, "b') != open_containers('{"a": 1, "c')
    assert open_containers('{"a": [1]') != open_containers('{"a": [1')
    assert open_containers('{"a": [1]}') == []


def test_text_after_the_value_is_ignored() -> None:
    cursor = JsonCursor()
    cursor.feed(b'{"a": 1}, {"b": 2}]')
    assert list(cursor.leaves) == ["/a"]
    assert cursor.is_complete


def test_closing_bracket_without_an_opening_one_is_refused() -> None:
    with pytest.raises(ValueError, match="closing bracket"):
        JsonCursor().feed(b"]")


def test_deeply_nested_text_is_read() -> None:
    cursor = read("[" * 3000 + "]" * 3000)
    assert cursor.is_complete
    assert len(cursor.leaves) == 1
