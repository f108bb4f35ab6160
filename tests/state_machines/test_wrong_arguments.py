"""Machines refuse arguments of another type with an error of the project."""

from __future__ import annotations

from typing import Any

import pytest

from state_machines import (
    ChoiceStateMachine,
    GrammarStateMachine,
    InvalidArgumentError,
    JsonSchemaStateMachine,
    ProxyError,
    RegexStateMachine,
    Vocabulary,
)

ODD: list[Any] = [None, True, 5, 1.5, b"", b"a", [], {}, object(), {"a"}, ("a",), "\ud800"]


@pytest.mark.parametrize("value", ODD, ids=lambda value: type(value).__name__)
def test_any_argument_is_taken_or_refused(value: Any) -> None:
    for make in (
        lambda: RegexStateMachine(value),
        lambda: ChoiceStateMachine(value),
        lambda: ChoiceStateMachine([value]),
        lambda: GrammarStateMachine(value),
        lambda: GrammarStateMachine('root ::= "a"', start=value),
        lambda: JsonSchemaStateMachine(value),
        lambda: JsonSchemaStateMachine(True, whitespace=value),
        lambda: JsonSchemaStateMachine(True, property_order=value),
        lambda: JsonSchemaStateMachine({"$ref": "http://a/"}, registry=value),
        lambda: Vocabulary(value, end_token_ids=[0]),
        lambda: Vocabulary([value], end_token_ids=[0]),
        lambda: Vocabulary([b"a"], end_token_ids=value),
        lambda: Vocabulary([b"a"], end_token_ids=[value]),
        lambda: Vocabulary([b"a"], end_token_ids=[0], special_tokens=value),
        lambda: Vocabulary([b"a"], end_token_ids=[0], special_tokens={"a": value}),
        lambda: Vocabulary.from_tokenizer(value),
    ):
        try:
            make()
        except ProxyError as error:
            assert str(error)


@pytest.mark.parametrize("texts", ["abc", b"abc", [1], ["a", None], [b"a"], ["\ud800"], [], None])
def test_a_choice_is_among_strings(texts: Any) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        ChoiceStateMachine(texts)
    assert caught.value.argument == "texts"
    assert isinstance(caught.value, ValueError)
