"""Strings: lengths in characters, patterns on the decoded text, escapes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from schema_checks import assert_texts
from schema_strategies import examples

from state_machines import JsonSchemaStateMachine, UnsatisfiableSchemaError, Vocabulary


def spelled(text: str) -> list[str]:
    """Return the two spellings of a string by ``json.dumps``."""
    return [json.dumps(text), json.dumps(text, ensure_ascii=False)]


def test_escape_counts_as_one_character() -> None:
    letters = ['"\\u00e9"', '"\\u00E9"', '"\\ud83d\\ude00"', '"\\uD83D\\uDE00"', '"\\n"', '"\\\\"']
    assert_texts({"minLength": 1, "maxLength": 1}, letters, ['""', '"\\n\\n"', '"\\u00e9e"'])
    assert_texts({"enum": ["é", "😀", "\n", "\\"]}, letters, ['"\\u00ea"', '"\\ud83d\\ude01"'])
    assert_texts({"pattern": "^[^a]$"}, letters, ['"a"', '"\\u00e9a"'])


def test_redundant_escapes_are_rejected() -> None:
    """These escapes are valid JSON, but the character has a spelling that is generated."""
    assert_texts(
        {"type": "string"}, ['"a"', '"/"'], ['"\\u0061"', '"\\/"', '"\\u000a"'], judged=False
    )


def test_malformed_strings_are_rejected() -> None:
    refused = [
        *('"', '"a', "a", "'a'", '"\n"', '"\t"', '"\\"', '"\\x41"', '"\\u12"', '"a"b"'),
        '"\\ud83"',
    ]
    assert_texts({"type": "string"}, ['""'], refused)
    assert_texts({}, ['""'], refused)


def test_lone_surrogate_escape_is_rejected() -> None:
    refused = ['"\\ud83d"', '"\\ude00"', '"\\ude00\\ud83d"', '"\\ud83da"', '"\\ud83d\\u0041"']
    assert_texts({"type": "string"}, ['"\\ud83d\\ude00"'], refused, judged=False)


@pytest.mark.parametrize(
    "text",
    [
        *(b'"\xc3"', b'"\xe2\x82"', b'"\xa9"', b'"\xff"', b'"\xc0\x80"', b'"\xed\xa0\x80"'),
        b'"\xf4\x90\x80\x80"',
    ],
)
def test_invalid_utf_8_is_rejected(text: bytes) -> None:
    for schema in ({}, {"type": "string"}, {"maxLength": 3}, {"pattern": "^[^a]*$"}):
        assert not JsonSchemaStateMachine(schema).matches(text)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "minLength": 3, "maxLength": 2},
        {"type": "string", "pattern": "^a$", "minLength": 2},
        {"type": "string", "allOf": [{"pattern": "^a"}, {"pattern": "^b"}]},
        {"enum": ["a"], "pattern": "b"},
        {"type": "string", "pattern": "a", "not": {"pattern": "^.*a.*$"}, "maxLength": 1},
    ],
)
def test_contradictions_are_unsatisfiable(schema: Any) -> None:
    with pytest.raises(UnsatisfiableSchemaError):
        JsonSchemaStateMachine(schema)


def test_symbols_decide_quickly_that_a_format_and_a_pattern_exclude_each_other() -> None:
    schema = {"format": "date-time", "pattern": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"}
    vocabulary = Vocabulary([bytes((byte,)) for byte in range(128)], end_token_ids=[127])
    matcher = JsonSchemaStateMachine({"type": "string", **schema}).matcher(vocabulary)
    for byte in b'"2016-01-01':
        matcher.advance(byte)
    # A leap second may follow, at thousands of local times.
    assert matcher.allowed_tokens(steps=25_000).nonzero()[0].tolist() == [ord("T")]


def test_enum_of_many_strings_is_enforced() -> None:
    words = [f"word {number}" for number in range(5000)]
    machine = JsonSchemaStateMachine({"enum": words})
    assert all(machine.matches(json.dumps(word)) for word in words[::97])
    assert not machine.matches('"word 5000"')
    assert not machine.matches('"word "')


@examples(50)
@given(st.text(max_size=6), st.integers(0, 6), st.integers(0, 6))
def test_lengths_are_counted_in_characters(text: str, least: int, most: int) -> None:
    schema = {"minLength": min(least, most), "maxLength": max(least, most)}
    machine = JsonSchemaStateMachine(schema)
    expected = min(least, most) <= len(text) <= max(least, most)
    for written in spelled(text):
        assert machine.matches(written.encode()) == expected
