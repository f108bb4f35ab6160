"""Shortest words against all words up to a length."""

import itertools
import re

import pytest
from shortest_words import shortest_word

from state_machines import JsonSchemaStateMachine, RegexStateMachine
from state_machines.budgets import Verdict
from state_machines.grammar.node import EMPTY
from state_machines.grammar.shortest import has_endless_words
from state_machines.regex import compile_pattern


@pytest.mark.parametrize("pattern", ["a*b{2,}", "(a|bb)a|ab*a", "a{3}|b{2}(a|b){2}", "(ab)*", "b"])
def test_shortest_word_of_a_pattern_is_minimal(pattern: str) -> None:
    words = ("".join(w) for n in range(6) for w in itertools.product("ab", repeat=n))
    nearest = next(word for word in words if re.fullmatch(pattern, word))
    found = shortest_word(RegexStateMachine(pattern).start)
    assert found is not None
    assert re.fullmatch(pattern, found.decode())
    assert len(found) == len(nearest)


@pytest.mark.parametrize(
    ("schema", "length"),
    [
        ({"type": "array", "minItems": 3, "items": {"enum": ["aa", 7]}}, len("[7,7,7]")),
        ({"type": "string", "minLength": 40}, 42),
        (
            {
                "type": "object",
                "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
                "required": ["next"],
            },
            len('{"next":null}'),
        ),
    ],
)
def test_shortest_word_of_a_schema_is_minimal(schema: dict[str, object], length: int) -> None:
    machine = JsonSchemaStateMachine(schema)
    found = shortest_word(machine.start)
    assert found is not None
    assert machine.matches(found)
    assert len(found) == length


def test_empty_language_has_no_shortest_word() -> None:
    assert shortest_word(EMPTY) is None


def test_search_stops_at_its_budget() -> None:
    with pytest.raises(OverflowError):
        shortest_word(RegexStateMachine("(a|b){30}c").start, max_states=5)


@pytest.mark.parametrize(
    ("pattern", "is_endless"),
    [("a*", True), ("a{2,9}", False), ("(ab|c)+d", True), ("a|bc", False), (r"[^b]*x{3}", True)],
)
def test_endless_words(pattern: str, is_endless: bool) -> None:
    assert has_endless_words(compile_pattern(pattern, search=False)) is Verdict.of(is_endless)


def test_endless_words_within_a_budget() -> None:
    late = compile_pattern("a{50}b*", search=False)
    assert has_endless_words(late, max_states=40) is Verdict.UNKNOWN
    assert has_endless_words(late, max_states=60) is Verdict.YES
