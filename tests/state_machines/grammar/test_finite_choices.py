"""The options of finite choices, by state, and matchers that are restricted to one of them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from patched_limits import patch_limits
from small_vocabulary import an_ending, brute_force_mask, small_vocabulary

from state_machines import (
    ChoiceStateMachine,
    GrammarStateMachine,
    JsonSchemaStateMachine,
    RegexStateMachine,
    StateMachine,
)
from state_machines.completion import Guard
from state_machines.grammar.finite_choices import ChoiceOption, finite_choice
from state_machines.root import Marker, Optional, RootStateMachine, Series, Structured, Text
from state_machines.tool_calls import FORMATS, ToolFormat, ToolSignature

WORDS = st.lists(
    st.text('abc"\\\n é日', min_size=1, max_size=4), min_size=2, max_size=8, unique=True
)


def options_of(machine: StateMachine, written: str | bytes = "") -> tuple[ChoiceOption, ...] | None:
    text = written.encode() if isinstance(written, str) else written
    return finite_choice(machine.start.compute_word_derivative(text))


def labels(machine: StateMachine, written: str = "") -> set[str] | None:
    options = options_of(machine, written)
    return None if options is None else {option.label.decode() for option in options}


def schema(value: Any) -> StateMachine:
    return JsonSchemaStateMachine(value)


def record(**properties: Any) -> StateMachine:
    return schema(
        {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }
    )


@given(WORDS)
def test_options_of_an_enumeration_are_its_values(words: list[str]) -> None:
    assert labels(schema({"enum": words})) == {json.dumps(w, ensure_ascii=False) for w in words}


@given(WORDS)
def test_options_of_a_choice_are_its_texts(words: list[str]) -> None:
    assert labels(ChoiceStateMachine(words)) == set(words)


@given(WORDS, st.data())
def test_restricted_state_is_the_option_and_what_follows(words: list[str], data: Any) -> None:
    machine = record(a={"enum": [*words, None, 3]}, b={"type": "boolean"})
    options = options_of(machine, '{"a": ') or ()
    option = data.draw(st.sampled_from(options))
    rest = option.state.compute_word_derivative(option.text)
    ending = an_ending(option.state)
    assert ending is not None
    assert ending.startswith(option.text)
    assert rest.matches(ending[len(option.text) :])
    assert machine.matches(b'{"a": ' + ending)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"type": "boolean"}, {"true", "false"}),
        ({"type": ["boolean", "null"]}, {"true", "false", "null"}),
        ({"enum": ["a", 1, 1.5, None, True, "1"]}, {'"a"', "1", "1.5", "null", "true", '"1"'}),
        ({"type": "integer", "minimum": -2, "maximum": 2}, {"-2", "-1", "0", "1", "2"}),
        ({"type": "integer", "minimum": 0, "maximum": 255}, set(map(str, range(256)))),
        ({"type": "number", "multipleOf": 0.5, "minimum": 0, "maximum": 1}, {"0", "0.5", "1"}),
        ({"type": "string", "pattern": "^(ab?|c)$"}, {'"a"', '"ab"', '"c"'}),
        ({"type": "string", "minLength": 2, "maxLength": 2, "pattern": "^[01]*$"}, None),
    ],
)
def test_options_of_scalars(value: Any, expected: set[str] | None) -> None:
    if expected is None:
        expected = {'"00"', '"01"', '"10"', '"11"'}
    assert labels(schema(value)) == expected


@pytest.mark.parametrize(
    "value",
    [
        {"type": "string"},
        {"type": "string", "maxLength": 3},
        {"type": "number"},
        {"type": "integer", "minimum": 0, "maximum": 256},
        {"const": "a"},
        {"anyOf": [{"enum": ["a", "b"]}, {"type": "string"}]},
        {"anyOf": [{"enum": ["a", "b"]}, {"type": "array"}]},
        {"type": "array", "items": {"type": "boolean"}, "maxItems": 2},
        {"type": "string", "format": "date"},
        {"enum": ["x" * 600, "y" * 600]},
    ],
)
def test_free_text_large_ranges_and_structure_are_no_choice(value: Any) -> None:
    assert labels(schema(value)) is None


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("{", None),
        ('{"a":', {'"x"', '"xy"'}),
        ('{"a": ', {'"x"', '"xy"'}),
        ('{"a": "', {'x"', 'xy"'}),
        ('{"a": "x', {'"', 'y"'}),
        ('{"a": "x"', None),
        ('{"a": "x",', {"7", "8", "9", "10"}),
        ('{"a": "x", "b": 1', None),
    ],
)
def test_whitespace_and_forced_text_do_not_hide_a_choice(
    written: str, expected: set[str] | None
) -> None:
    machine = record(a={"enum": ["x", "xy"]}, b={"type": "integer", "minimum": 7, "maximum": 10})
    assert labels(machine, written) == expected


def test_optional_members_and_their_names_are_no_choice() -> None:
    machine = schema({"properties": {"a": {"type": "null"}, "b": {"type": "null"}}})
    assert [labels(machine, text) for text in ("{", '{"', '{"a": null', '{"a": null,')] == [
        None
    ] * 4


@pytest.mark.parametrize("written", ['"\xc3', '"a\xe2\x82', '"\\', '"\\u00', '"\\u00e'])
def test_rest_of_a_character_is_no_choice(written: str) -> None:
    for value in ({"type": "string"}, {"type": "string", "maxLength": 3}):
        assert options_of(schema(value), written.encode("latin-1")) is None


def test_options_may_have_different_continuations() -> None:
    kinds = [
        {
            "type": "object",
            "properties": {"kind": {"const": kind}, "value": {"type": kind}},
            "required": ["kind", "value"],
        }
        for kind in ("integer", "string")
    ]
    options = options_of(schema({"anyOf": kinds}), '{"kind": ') or ()
    assert {option.label for option in options} == {b'"integer"', b'"string"'}
    by_label = {option.label: option.state for option in options}
    assert by_label[b'"string"'].matches(b'"string", "value": "a"}')
    assert not by_label[b'"string"'].matches(b'"string", "value": 1}')


TOOLS = [
    ToolSignature("get_weather", {"type": "object", "properties": {"city": {"type": "string"}}}),
    ToolSignature("get_time", {"type": "object", "properties": {}}),
    ToolSignature("get", {"type": "object", "properties": {"x": {"type": "boolean"}}}),
]


@pytest.mark.parametrize("family", FORMATS.values(), ids=list(FORMATS))
def test_names_of_tools_are_options_in_every_format(family: ToolFormat) -> None:
    machine = RootStateMachine(family.calls(TOOLS))
    options = options_of(machine) or ()
    found = {option.label.decode() for option in options}
    if "{id}" in family.head.partition("{name}")[0]:
        # The call's id precedes the name, and is no finite choice.
        assert not options
        return
    if family.without_arguments is None and not family.also:
        assert found == {"get_weather", "get_time", "get"}
    assert family.also or all(any(tool.name in label for label in found) for tool in TOOLS)
    for option in options[:1]:
        ending = an_ending(option.state)
        assert ending is None or machine.matches(ending)


def test_choices_of_grammars_and_compositions() -> None:
    grammar = GrammarStateMachine('root ::= a "-" b\na ::= "x" | "y"\nb ::= "1" | "2" | root')
    assert labels(grammar) == {"x", "y"}
    assert labels(grammar, "x") == {"1", "2", "x", "y"}
    answer = RootStateMachine(
        Series(
            Text("thoughts", end="</t>"),
            Structured("first", grammar=ChoiceStateMachine(["a", "ab"])),
            Optional(Marker("mark", "!")),
            Structured("second", grammar=RegexStateMachine("[01]")),
        )
    )
    assert labels(answer) is None
    assert labels(answer, "well</t>") == {"a", "ab"}


def test_options_that_cannot_be_told_apart_are_no_choice() -> None:
    digits = Structured("digits", grammar=RegexStateMachine("[12]{1,2}"))
    more = Structured("more", grammar=RegexStateMachine("[12]*"))
    assert labels(RootStateMachine(Series(digits, more))) is None


def test_search_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    patch_limits(monkeypatch, choice_steps=50)
    assert labels(ChoiceStateMachine([f"{number:05}" for number in range(200)])) is None


def ids_of(words: Iterable[bytes]) -> list[int]:
    forms = list(small_vocabulary().token_bytes)
    return [forms.index(word) for word in words]


def test_restricted_matcher_allows_only_the_option() -> None:
    vocabulary = small_vocabulary()
    machine = ChoiceStateMachine(["ab", "abab", "b"])
    guard = Guard(machine.matcher(vocabulary), max_tokens=4)
    option = next(one for one in options_of(machine) or () if one.text == b"abab")
    guard.restrict(option.state)
    assert guard.needed == 1
    assert (guard.matcher.allowed_tokens() == brute_force_mask(option.state, vocabulary)).all()
    for token_id in ids_of([b"ab", b"ab"]):
        assert guard.accepts(token_id)
        guard.advance(token_id)
    assert guard.matcher.is_accepting


def test_guard_fits_only_options_within_the_tokens_left() -> None:
    machine = ChoiceStateMachine(["b", "c d" * 30])
    guard = Guard(machine.matcher(small_vocabulary()), max_tokens=3)
    assert [option.text for option in options_of(machine) or () if guard.fits(option.state)] == [
        b"b"
    ]


def test_restricted_answer_is_attributed_to_its_parts() -> None:
    part = Series(
        Structured("one", grammar=ChoiceStateMachine(["a", "ab"])),
        Structured("two", grammar=ChoiceStateMachine(["1", "12"])),
    )
    machine = RootStateMachine(part)
    matcher = machine.matcher(small_vocabulary())
    option = next(one for one in options_of(machine) or () if one.label == b"ab")
    matcher.restrict(option.state)
    for token_id in ids_of([b"ab", b"1"]):
        matcher.advance(token_id)
    matcher.advance(min(small_vocabulary().end_token_ids))
    assert [(piece.part.name, piece.text) for piece in matcher.take_pieces()] == [
        ("one", b"ab"),
        ("two", b"1"),
    ]
