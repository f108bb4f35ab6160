"""Explanations of tokens: they agree with the mask, and say what fits."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from schema_strategies import examples, schemas
from small_vocabulary import small_vocabulary

from state_machines import (
    GrammarBudgetError,
    InvalidArgumentError,
    InvalidSchemaError,
    JsonSchemaStateMachine,
    Matcher,
    RegexStateMachine,
    StateMachine,
    UnsatisfiableSchemaError,
    UnsupportedSchemaError,
    Vocabulary,
)
from state_machines.completion import Guard
from state_machines.grammar.node import EMPTY
from state_machines.root import Optional, RootStateMachine, Series, Structured, Text

VOCABULARY = small_vocabulary()
PERSON = JsonSchemaStateMachine(
    {
        "properties": {
            "name": {"type": "string", "minLength": 2},
            "size": {"enum": ["small", "medium", "large"]},
        },
        "required": ["name", "size"],
        "additionalProperties": False,
        "type": "object",
    }
)
REFUSED = (
    UnsatisfiableSchemaError,
    UnsupportedSchemaError,
    InvalidSchemaError,
    GrammarBudgetError,
)


def after(machine: StateMachine, text: str) -> Matcher:
    """Return a matcher behind a text."""
    matcher = machine.matcher(VOCABULARY)
    for byte in text.encode():
        matcher.advance(byte)
    return matcher


def walked(schema: Any, choices: list[int]) -> Matcher | None:
    """Return a matcher behind tokens that ``choices`` select; ``None`` for a refused schema."""
    try:
        matcher = JsonSchemaStateMachine(schema).matcher(VOCABULARY)
    except REFUSED:
        return None
    for choice in choices:
        allowed = np.flatnonzero(matcher.allowed_tokens())
        if not len(allowed):
            break
        matcher.advance(int(allowed[choice % len(allowed)]))
    return matcher


@examples(12)
@given(schemas(), st.lists(st.integers(0, 400), max_size=8))
def test_explanations_agree_with_the_mask(schema: Any, choices: list[int]) -> None:
    matcher = walked(schema, choices)
    if matcher is None:
        return
    mask = matcher.allowed_tokens()
    for token_id in range(VOCABULARY.size):
        found = matcher.explain(token_id)
        assert found.is_allowed == mask[token_id], found
        assert str(found).startswith(found.reason)


@examples(12)
@given(schemas(), st.lists(st.integers(0, 400), max_size=8), st.text('{"ab1:, é日', max_size=12))
def test_fitting_bytes_are_the_longest_prefix_of_a_continuation(
    schema: Any, choices: list[int], text: str
) -> None:
    matcher = walked(schema, choices)
    if matcher is None or matcher.is_finished:
        return
    form = text.encode("utf-8", "surrogatepass")
    found = matcher.explain(text)
    state, count = matcher.state, found.fitting_bytes
    assert found.total_bytes == len(form)
    assert found.is_allowed == (count == len(form))
    assert state.compute_word_derivative(form[:count]) is not EMPTY
    assert found.is_allowed or state.compute_word_derivative(form[: count + 1]) is EMPTY
    assert text.startswith(found.fitting_text)


@examples(12)
@given(schemas(), st.lists(st.integers(0, 400), max_size=8))
def test_quoted_texts_are_beginnings_of_continuations(schema: Any, choices: list[int]) -> None:
    matcher = walked(schema, choices)
    if matcher is None or matcher.is_finished:
        return
    found = matcher.explain()
    texts = [one.text for one in found.expected if one.kind == "text"]
    for text in texts:
        assert matcher.explain(text).is_allowed, text
    assert any(one.kind == "end" for one in found.expected) == matcher.is_accepting
    assert found.expected
    assert all(one.kind == "text" for one in found.expected) <= (
        matcher.state.first_bytes == sum({1 << text.encode()[0] for text in texts})
    )


@pytest.mark.parametrize(
    ("written", "text", "expected"),
    [
        (
            "{",
            '"nume',
            "'\"nume' is refused: 2 of its 5 bytes fit, and 'u' does not.\n"
            "After '\"n' may follow: 'ame\":'.",
        ),
        (
            '{"name": "A',
            '"',
            "'\"' is refused: it cannot come here.\n"
            "Here may follow: the content of a string (at least 1 more character).",
        ),
        (
            '{"name": "Ada", "size": "',
            "huge",
            "'huge' is refused: no continuation begins with 'h'.\n"
            "Here may follow: 'large\"}', or 'medium\"}', or 'small\"}'.",
        ),
        (
            '{"name": ',
            "Ada",
            "'Ada' is refused: no continuation begins with 'A'.\n"
            "Here may follow: '\"'.\n"
            "Hint: '\"Ada' fits, with a quote before it.",
        ),
        (
            '{"name": "Ada", "size": "small"}',
            "\n",
            "'\\n' is refused: the text is complete, and nothing may follow it.\n"
            "Here may follow: the end of the text.",
        ),
    ],
)
def test_refused_text_is_explained(written: str, text: str, expected: str) -> None:
    assert str(after(PERSON, written).explain(text)) == expected


def test_explained_character_is_whole() -> None:
    found = after(RegexStateMachine("[A-Z]{3}é"), "AB").explain("Cè")
    assert found.reason == "'Cè' is refused: 2 of its 3 bytes fit, and 'è' does not."
    assert [str(one) for one in found.expected] == ["'é'"]


def test_explanation_starts_inside_a_character() -> None:
    found = after(RegexStateMachine("[é-ö]"), "")
    found.advance(0xC3)
    assert [str(one) for one in found.explain().expected] == ["the rest of a character"]
    assert found.explain(0xA9).is_allowed


@pytest.mark.parametrize("token_id", [-1, VOCABULARY.size, 10**9, np.int64(VOCABULARY.size)])
def test_ids_beyond_the_vocabulary_are_explained(token_id: int) -> None:
    found = PERSON.matcher(VOCABULARY).explain(token_id)
    assert not found.is_allowed
    assert f"{VOCABULARY.size} token ids" in found.reason


def test_special_unused_and_end_tokens_are_explained() -> None:
    matcher = PERSON.matcher(VOCABULARY)
    unused = VOCABULARY.size - 1
    special = VOCABULARY.special_tokens["<tool>"]
    end = VOCABULARY.special_tokens["</s>"]
    assert "gives this id no text" in matcher.explain(unused).reason
    assert "('<tool>') is refused: it cannot come here" in matcher.explain(special).reason
    assert "ends the text, which is not complete" in matcher.explain(end).reason
    assert f"explain({special})" in matcher.explain("<tool>").hint


def test_end_token_of_a_complete_text_is_allowed() -> None:
    matcher = after(RegexStateMachine("a*"), "aa")
    end = VOCABULARY.special_tokens["</s>"]
    assert matcher.explain(end).is_allowed
    matcher.advance(end)
    assert "an end token has been taken" in matcher.explain("a").reason
    assert not matcher.explain(end).is_allowed
    assert matcher.explain().allowed == 0


@pytest.mark.parametrize("token", [1.5, b"a", True, ["a"]])
def test_other_types_are_refused(token: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="token id or a text"):
        PERSON.matcher(VOCABULARY).explain(token)


def test_lone_surrogate_is_refused_with_an_explanation() -> None:
    found = PERSON.matcher(VOCABULARY).explain("\ud800")
    assert not found.is_allowed
    assert str(found)


def test_special_tokens_and_free_text_are_named() -> None:
    parts = Series(
        Optional(Text("reasoning", begin="<tool>", end="</think>")),
        Structured("answer", grammar=RegexStateMachine(r"yes|no")),
    )
    matcher = RootStateMachine(parts, VOCABULARY).matcher(VOCABULARY)
    assert {str(one) for one in matcher.explain().expected} == {
        "'yes'",
        "'no'",
        "the special token <tool>",
    }
    matcher.advance(VOCABULARY.special_tokens["<tool>"])
    assert [str(one) for one in matcher.explain().expected] == ["free text up to '</think>'"]


def test_guard_names_the_tokens_that_are_missing() -> None:
    vocabulary = Vocabulary([b"a", b"b", b"c", b"</s>"], end_token_ids=[3])
    guard = Guard(RegexStateMachine("a|bccc").matcher(vocabulary), max_tokens=2)
    assert guard.explain(0).is_allowed
    found = guard.explain(1)
    assert not found.is_allowed
    assert found.reason == (
        "token 1 ('b') is refused: the grammar allows it, but the text would take 3 more tokens "
        "after it, and only 1 are left."
    )
    assert "cannot come here" in guard.explain(2).reason


def test_work_is_bounded_for_large_grammars() -> None:
    names = {f"{chr(97 + i % 26)}{i}": {"type": "integer"} for i in range(3000)}
    machine = JsonSchemaStateMachine({"type": "object", "properties": names})
    found = machine.matcher(VOCABULARY).explain(json.dumps({"b1": 1})[:-1])
    assert found.is_allowed
    assert found.expected


def test_matcher_is_unchanged() -> None:
    matcher = after(PERSON, '{"na')
    state = matcher.state
    matcher.explain('me": "Ada')
    matcher.explain()
    assert matcher.state is state
