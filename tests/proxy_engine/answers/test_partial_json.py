"""Values of JSON texts that are not whole yet."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy_engine.results import json_cursor
from proxy_engine.results.json_cursor import PartialJson

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


def values(text: str) -> list[Any]:
    """The values shown while ``text`` comes a character at a time."""
    partial = PartialJson()
    return [partial.value for char in text if partial.add(char)]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('{"a": [1, 2', {"a": [1, 2]}),
        ('{"a": "x', {"a": "x"}),
        ('{"a": "x\\u00', {"a": "x"}),
        ('{"a": "\\ud83d\\ude0', {"a": ""}),
        ('{"a": "\\ud83d\\ude00', {"a": "😀"}),
        ('{"a": 1, "b', {"a": 1}),
        ('{"a": 1, "b":', {"a": 1}),
        ('{"a": tru', {}),
        ("[-", []),
        ("[1.", [1]),
        ("[1.5e+", [1.5]),
        ('["1.', ["1."]),
        ('["\\"1e', ['"1e']),
        ("[true", [True]),
    ],
)
def test_partial_values_by_prefix(text: str, shown: Any) -> None:
    whole, piecewise = PartialJson(), PartialJson()
    whole.add(text)
    for char in text:
        piecewise.add(char)
    assert whole.value == piecewise.value == shown
    assert piecewise.text == text


def test_partial_json_without_a_value() -> None:
    partial = PartialJson()
    for char in " tru":
        assert not partial.add(char)
        assert not partial.has_value
    assert partial.add("e")
    assert partial.value is True


def test_events_are_final() -> None:
    assert values("[1.5e3,2]") == [[], [1], [1.5], [1500.0], [1500.0, 2]]
    assert values('{"a":{"b":"xy"}}') == [
        {},
        {"a": {}},
        {"a": {"b": ""}},
        {"a": {"b": "x"}},
        {"a": {"b": "xy"}},
    ]


def grows(before: Any, after: Any) -> bool:
    """Whether ``after`` is ``before`` with something added at its end."""
    if isinstance(before, dict):
        return (
            isinstance(after, dict)
            and list(after)[: len(before)] == list(before)
            and all(grows(value, after[key]) for key, value in before.items())
        )
    if isinstance(before, list):
        return (
            isinstance(after, list) and len(after) >= len(before) and all(map(grows, before, after))
        )
    if isinstance(before, str):
        return isinstance(after, str) and after.startswith(before)
    return type(before) is type(after) or {type(before), type(after)} == {int, float}


@given(json_values, st.booleans(), st.data())
def test_values_only_grow_up_to_the_whole(value: Any, ascii_only: bool, data: Any) -> None:
    # No name twice: what Python's dicts hold cannot write one.
    text = json.dumps(value, ensure_ascii=ascii_only)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    partial = PartialJson()
    last: Any = None
    seen = False
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        if partial.add(text[start:end]):
            assert not seen or grows(last, partial.value)
            seen, last = True, partial.value
    assert partial.value == value


def test_long_texts_are_parsed_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    read = 0
    parse = json_cursor.from_json

    def counting(text: str, **options: Any) -> Any:
        nonlocal read
        read += len(text)
        return parse(text, **options)

    monkeypatch.setattr(json_cursor, "from_json", counting)
    monkeypatch.setattr(json_cursor, "_FREE", 64)
    monkeypatch.setattr(json_cursor, "_PASSES", 8)
    partial = PartialJson()
    text = json.dumps(list(range(1_200)))
    for start in range(0, len(text), 4):
        partial.add(text[start : start + 4])
    assert read <= 8 * len(text) + 64**2
    partial.add("", last=True)
    assert partial.value == json.loads(text)


def test_lone_surrogate_escapes_leave_the_value() -> None:
    partial = PartialJson()
    partial.add('["a", ')
    assert not partial.add('"\\ud83d", 1]')
    assert partial.value == ["a"]
