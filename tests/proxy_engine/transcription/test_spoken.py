"""The language of constrained transcripts, compared with its definition."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy_engine import InvalidOptionError
from proxy_engine.transcription.spoken import SpokenStateMachine
from state_machines import ChoiceStateMachine, JsonSchemaStateMachine, RegexStateMachine

PHONE = RegexStateMachine(r"\d{3}-\d{4}")
WORDS = ("a", "b", "a b", "b a", "-a", "ab")


def is_spoken(text: str, options: list[str]) -> bool:
    """Whether a transcript with a lead-in of any words is one by definition."""
    text = text.removeprefix(" ")
    if text in options:
        return True
    refused = rf"(^|.* )({'|'.join(map(re.escape, options))})([^a-z].*)?$"
    return any(
        text[:at] and text[0] != " " and not re.match(refused, text[:at])
        for at, character in enumerate(text)
        if character == " " and text[at + 1 :] in options
    )


@settings(max_examples=25)
@given(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=3),
    st.text("ab -", max_size=7),
    st.sampled_from(WORDS),
)
def test_language_is_space_lead_in_and_constrained_text(
    options: list[str], before: str, end: str
) -> None:
    machine = SpokenStateMachine(ChoiceStateMachine(options), ".*", 100)
    for text in (before, f"{before} {end}", f" {end}"):
        assert machine.matches(text) is is_spoken(text, options), text
        if machine.matches(text):
            lead_in, own = machine.split(text)
            assert own in options
            assert f"{lead_in}{own}".replace(" ", "") == text.replace(" ", "")


def test_transcript_ends_with_its_first_constrained_text() -> None:
    machine = SpokenStateMachine(PHONE, ".*", 100)
    assert machine.matches(" Please call 555-1234")
    # The period would belong to a lead-in that goes on.
    assert not machine.begins(" Please call 555-1234.")
    assert machine.begins(" Please call 555-12345")
    assert machine.begins(" Please call 5-5-5")
    assert not SpokenStateMachine(PHONE, r"\D*", 100).begins(" Please call 5-5-5")


def test_option_that_ends_with_another_one_is_whole() -> None:
    machine = SpokenStateMachine(ChoiceStateMachine(["call", "don't call"]), ".*", 100)
    assert machine.split(" Please don't call") == ("Please", "don't call")


def test_space_of_the_constraint_itself_is_kept() -> None:
    machine = SpokenStateMachine(RegexStateMachine(r" \d"), None)
    assert machine.split(" 5") == ("", " 5")


def test_lead_in_is_bounded_and_optional() -> None:
    machine = SpokenStateMachine(PHONE, "(please )*call", 11)
    assert machine.matches("please call 555-1234")
    assert machine.matches(" 555-1234")
    assert not machine.begins("please please")
    assert SpokenStateMachine(PHONE, "please call", 3).matches("555-1234")


def test_json_follows_words() -> None:
    schema = {"type": "object", "additionalProperties": {"type": "integer"}}
    machine = SpokenStateMachine(JsonSchemaStateMachine(schema), ".*", 100)
    assert machine.split(' So: {"a": 1}') == ("So:", '{"a": 1}')


def test_lead_in_of_constrained_text_alone_is_refused() -> None:
    with pytest.raises(InvalidOptionError, match="contains constrained text"):
        SpokenStateMachine(ChoiceStateMachine(["call"]), "(please )?call", 100)
