"""The fewest tokens, against all ways to write all words."""

from __future__ import annotations

from typing import Any

import pytest
from small_vocabulary import small_vocabulary

from state_machines import JsonSchemaStateMachine, RegexStateMachine, StateMachine, Vocabulary
from state_machines.completion import Completion
from state_machines.grammar.node import EMPTY, Node

FEW = Vocabulary(
    [b"a", b"b", b"c", b"ab", b"bc", b"abc", b"cc", b"bcab", b"ca", b"end"], end_token_ids=[9]
)
MANY = small_vocabulary()

PATTERNS = [
    *("a", "abc", "(abc|cab){2}", "a*bc{3}", "(ab|ba){3}c", "(a|bb)a|ab*ca", "c{5}|(ab){3}"),
    "(abcab|bca)c",
]
SCHEMAS: list[Any] = [
    {"type": "boolean"},
    {"type": "array", "minItems": 2, "items": {"enum": ["ab", 10]}},
    {"type": "object", "required": ["a"], "additionalProperties": {"type": ["null", "integer"]}},
    {"type": "string", "pattern": "^(ab){3}$"},
    {"type": "array", "prefixItems": [{"const": "aab"}, {"type": "object"}], "minItems": 2},
]


def by_layers(state: Node, vocabulary: Vocabulary) -> int:
    """Return the fewest tokens from a state to an end, trying all tokens in all states."""
    forms = [
        form
        for token_id, form in enumerate(vocabulary.token_bytes)
        if form and token_id not in vocabulary.end_token_ids
    ]
    layer, seen, count = {state}, {state}, 0
    while not any(node.nullable for node in layer):
        found = (
            {node.compute_word_derivative(form) for node in layer for form in forms}
            - {EMPTY}
            - seen
        )
        assert found
        layer, count = found, count + 1
        seen |= found
    return count


def check(machine: StateMachine, vocabulary: Vocabulary) -> None:
    completion = Completion.of(vocabulary)
    found, is_exact = completion.shortest(machine.start, steps=10_000_000)
    assert is_exact
    assert len(found.tokens) == by_layers(machine.start, vocabulary)
    assert len(found.tokens) <= completion.length(machine.start)
    assert machine.matches(vocabulary.decode(found.tokens))


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("vocabulary", [FEW, MANY], ids=["few", "many"])
def test_search_finds_the_fewest_tokens_of_a_pattern(pattern: str, vocabulary: Vocabulary) -> None:
    check(RegexStateMachine(pattern), vocabulary)


@pytest.mark.parametrize("schema", SCHEMAS)
def test_search_finds_the_fewest_tokens_of_a_schema(schema: Any) -> None:
    check(JsonSchemaStateMachine(schema), MANY)


def test_interrupted_search_is_not_exact() -> None:
    machine = JsonSchemaStateMachine(SCHEMAS[2])
    completion = Completion.of(MANY)
    found, is_exact = completion.shortest(machine.start, steps=10)
    assert not is_exact
    assert machine.matches(MANY.decode(found.tokens))


def test_accepting_state_needs_no_tokens() -> None:
    found, is_exact = Completion.of(MANY).shortest(RegexStateMachine("a*").start)
    assert (found.tokens, is_exact) == ((), True)
