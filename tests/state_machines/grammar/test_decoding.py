"""Byte languages as languages of code points, and in other spellings."""

import gc
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_machines import GrammarStateMachine, RegexStateMachine
from state_machines.grammar.boolean import intersection
from state_machines.grammar.encoding import JSON_STRING, PYTHON_STRING, RAW, decoded, encoded
from state_machines.grammar.node import EMPTY, Node, release
from state_machines.grammar.until import text_without

# Nested brackets around characters of every length in UTF-8.
NESTED = GrammarStateMachine(
    'root ::= "(" root ")" root | [a-c\\n"\\\\\\u00e9-\\u01ff\\u20ac\\U0001f600-\\U0001f64f] | ""'
)
LETTERS = 'abcd\n"\\é÷ÿƀȀ€₭😀🙏🚀'
TEXTS = st.lists(st.sampled_from([*LETTERS, "(", ")", "(a)", "((é))"]), max_size=6).map("".join)


@given(TEXTS)
def test_decoded_grammar_has_the_same_texts(text: str) -> None:
    node = decoded(NESTED.start)
    for letter in text:
        node = node.character_derivative(ord(letter))
    assert node.nullable == NESTED.matches(text)
    assert encoded(decoded(NESTED.start), RAW) is NESTED.start


@given(TEXTS)
def test_grammar_in_a_json_string_admits_every_spelling_of_its_texts(text: str) -> None:
    node = encoded(decoded(NESTED.start), JSON_STRING, b'"')
    for ascii_only in (True, False):
        spelled = json.dumps(text, ensure_ascii=ascii_only)[1:]
        assert node.matches(spelled.encode()) == NESTED.matches(text)


def test_transitions_and_derivatives_agree() -> None:
    node = decoded(NESTED.start)
    for letter in LETTERS + "(":
        targets = [target for letters, target in node.transitions if ord(letter) in letters]
        assert [node.character_derivative(ord(letter))] == (targets or [EMPTY])


def test_lone_surrogates_are_in_no_language() -> None:
    machine = GrammarStateMachine("root ::= [^a]*")
    assert decoded(machine.start).character_derivative(0xD800) is EMPTY
    assert not encoded(decoded(machine.start), PYTHON_STRING, b'"').matches(b'\\ud800"')


def test_regular_languages_are_decoded_exactly() -> None:
    machine = RegexStateMachine(r"\p{L}+")
    assert encoded(decoded(machine.start), RAW) is machine.start


@pytest.mark.parametrize(("text", "is_in"), [("(a)(b)", True), ("(((a)))", False), ("(a", False)])
def test_grammar_without_a_string(text: str, is_in: bool) -> None:
    node = encoded(intersection((decoded(NESTED.start), text_without(["((("]))), RAW)
    assert node.matches(text.encode()) == is_in


def test_released_texts_of_a_grammar_free_their_states() -> None:
    def nodes() -> int:
        gc.collect()
        return sum(isinstance(each, Node) for each in gc.get_objects())

    text = intersection((decoded(NESTED.start), text_without(["((a"])))
    start = encoded(text, JSON_STRING, b'"')
    before = nodes()
    node = start.derivative(ord("("))
    for byte in b"(" * 200 + b")" * 200:
        node = node.derivative(byte)
    assert nodes() > before + 400
    del node
    release((start,))
    assert nodes() < before + 100
