"""The copy drafter proposes the rest of a value as the prompt has it and as the answer writes it."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from data_files import NO_TOKENIZERS, tokenizer_files
from hypothesis import given
from hypothesis import strategies as st
from notation_families import FAMILIES, Family
from tiny_models import make_tiny_tokenizer
from tokenizers import Tokenizer

from proxy_engine.generation import FastForward
from proxy_engine.generation.fast_forward import text_encoder
from proxy_engine.generation.speculation import CopyDrafter
from state_machines import JsonSchemaStateMachine, Matcher, RegexStateMachine, Vocabulary
from state_machines.root import Marker, RootStateMachine, Series, Structured
from state_machines.root import Text as FreeText

TOKENIZER = make_tiny_tokenizer()
VOCABULARY = Vocabulary.from_tokenizer(TOKENIZER)
ENCODE = text_encoder(TOKENIZER, threading.Lock())
FAST_FORWARD = FastForward(ENCODE, VOCABULARY)
STRING = {"type": "string"}


def schema_of(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


class Case:
    """An answer that is being written behind a prompt."""

    def __init__(self, prompt: str, schema: Any) -> None:
        self.tokens = list(ENCODE(prompt))
        self.matcher = JsonSchemaStateMachine(schema, whitespace="spaced").matcher(VOCABULARY)
        self.drafter = CopyDrafter(self.tokens, VOCABULARY, FAST_FORWARD)

    def write(self, text: str) -> Case:
        for token_id in ENCODE(text):
            self.matcher.advance(token_id)
            self.tokens.append(token_id)
        self.drafter.update(self.tokens)
        return self

    def proposal(self, at_most: int = 64) -> str:
        found = self.drafter.propose(self.tokens, self.matcher, at_most)
        assert len(found) <= at_most
        return VOCABULARY.decode(found).decode()


def proposal(prompt: str, written: str, schema: Any = None, at_most: int = 64) -> str:
    schema = schema or schema_of(name=STRING, other=STRING)
    return Case(prompt, schema).write(written).proposal(at_most)


BIOGRAPHY = "Ada Lovelace, born 10 December 1815 in London.\nShe worked with Charles Babbage on it."


@pytest.mark.parametrize(
    ("prompt", "written", "expected"),
    [
        (BIOGRAPHY, '{"name": "Ad', 'a Lovelace",'),
        (BIOGRAPHY, '{"name": "Cha', 'rles Babbage",'),
        (BIOGRAPHY, '{"name": "Lond', 'on",'),
        ("Name:  Zoë Łukasz\r\nAge: 9", '{"name": "Zo', 'ë Łukasz",'),
        ("| Name | City |\n| Bo Li | Rome |", '{"name": "Bo', ' Li",'),
        ("id,name\n7,Bo Li,Rome\n8,Al,Oslo", '{"name": "Bo', ' Li",'),
        ("<td>Bo Li</td><td>Rome</td>", '{"name": "Bo', ' Li",'),
        ("Address: 12 Main Street, London\n", '{"name": "12', ' Main Street, London",'),
        ("From: Bo Li <bo@example.org>\n", '{"name": "bo', '@example.org",'),
        ("The bridge is closed. It reopens.", '{"name": "bri', 'dge is closed",'),
        ('Name: The "A." \\ Team\n', '{"name": "The \\"A', '.\\" \\\\ Team",'),
        ("It rained, it snowed; it froze.\n", '{"name": "It rained, it', ' snowed; it froze.",'),
    ],
)
def test_rest_of_a_value_ends_where_the_source_delimits_it(
    prompt: str, written: str, expected: str
) -> None:
    assert proposal(prompt, written) == expected


@pytest.mark.parametrize(
    ("prompt", "written", "schema", "expected"),
    [
        ("It costs 1234.50 now.", '{"p": 12', {"type": "number"}, "34.50,"),
        ("1815-12-10, London", '{"p": "18', {**STRING, "format": "date"}, '15-12-10",'),
        ("Zip 12345 London", '{"p": "12', {**STRING, "pattern": "^[0-9]{5}$"}, '345",'),
        ("It is in_progress.", '{"p": "in', {"enum": ["infinite", "in_progress"]}, '_progress",'),
    ],
)
def test_values_are_proposed_as_far_as_the_grammar_allows(
    prompt: str, written: str, schema: Any, expected: str
) -> None:
    assert proposal(prompt, written, schema_of(p=schema, q=STRING)) == expected


def test_value_next_to_the_one_copied_before_is_preferred() -> None:
    case = Case("Bo Li: 1\nAl Fu, Oslo: 2\nAl Ro, Rome: 3\n", schema_of(name=STRING, other=STRING))
    case.write('{"name": "Al R').proposal()
    assert case.write('o, Rome", "other": "Al').proposal() == ' Ro, Rome"'


def test_forced_text_before_a_value_is_proposed_unless_it_merges_with_the_value() -> None:
    case = Case("Nothing.", schema_of(name=STRING, q=STRING)).write('{"name":')
    assert case.proposal() == ' "'
    assert case.drafter.source == "forced_text"


def test_text_continues_as_it_did_before() -> None:
    prompt = list(ENCODE("The quick brown fox jumps over the lazy dog. "))
    tokens = [*prompt, *ENCODE("I saw that the quick brown fox jumps")]
    drafter = CopyDrafter(prompt, VOCABULARY, FAST_FORWARD)
    drafter.update(tokens)
    text = RootStateMachine(FreeText("text"), VOCABULARY).matcher(VOCABULARY)
    for matcher in (None, text):
        assert drafter.expects_draft(matcher)
        found = VOCABULARY.decode(drafter.propose(tokens, matcher, 8)).decode()
        assert found.strip()
        assert " over the lazy dog".startswith(found)
    drafter.update([*tokens, *ENCODE(" high")])
    assert not drafter.expects_draft(None)
    assert not drafter.propose([*tokens, *ENCODE(" high")], None, 8)


def test_value_is_searched_at_the_beginning_of_words() -> None:
    assert proposal("A subordinate\nOrder: ordinary", '{"name": "ordin') == 'ary",'
    assert proposal("subordinate", '{"name": "ordin') == ""


def test_value_that_is_not_in_the_prompt_gets_no_proposal() -> None:
    case = Case(BIOGRAPHY, schema_of(name=STRING, other=STRING)).write('{"name": "Grace')
    assert case.proposal() == ""
    assert not case.drafter.expects_draft(case.matcher)
    assert case.write(" Hop").proposal() == ""
    # The next value may be there.
    assert case.write('", "other": "Lond').proposal() == 'on"'
    assert case.drafter.expects_draft(case.matcher)


def test_no_more_tokens_than_asked_for() -> None:
    assert proposal(BIOGRAPHY, '{"name": "Ad', at_most=4) == "a Lo"
    assert proposal(BIOGRAPHY, '{"name": "Ad', at_most=0) == ""


def test_argument_between_tags_ends_with_its_tag() -> None:
    value = Structured("city", grammar=RegexStateMachine(r"[^<]*"))
    machine = RootStateMachine(
        Series(
            Marker("call", "<function=weather>\n<parameter=city>\n"),
            value,
            Marker("end", "\n</parameter>\n</function>"),
        ),
        VOCABULARY,
    )
    prompt = list(ENCODE("The weather in New York City, please."))
    written = list(ENCODE("<function=weather>\n<parameter=city>\nNew"))
    matcher = machine.matcher(VOCABULARY)
    for token_id in written:
        matcher.advance(token_id)
    drafter = CopyDrafter(prompt, VOCABULARY, FAST_FORWARD)
    drafter.update([*prompt, *written])
    found = VOCABULARY.decode(drafter.propose([*prompt, *written], matcher, 64))
    assert found == b" York City\n</parameter>"


@given(
    st.lists(st.sampled_from('Ab1 .,"\\\n\r|<>{}[]:=-é日\x00\x7f'), max_size=60).map("".join),
    st.lists(st.sampled_from('Ab1 .,"\\é日'), max_size=12).map("".join),
    st.integers(0, 6),
    st.integers(1, 20),
)
def test_any_prompt_and_value_are_safe_and_the_grammar_decides(
    prompt: str, value: str, cut: int, at_most: int
) -> None:
    case = Case(prompt, schema_of(A=STRING, b=STRING))
    written = ENCODE('{"A": ' + json.dumps(value, ensure_ascii=False))
    for token_id in written[: len(written) - cut]:
        case.matcher.advance(token_id)
        case.tokens.append(token_id)
    case.drafter.update(case.tokens)
    found = case.drafter.propose(case.tokens, case.matcher, at_most)
    assert len(found) <= at_most
    matcher = case.matcher.copy()
    for token_id in found:
        matcher.advance(token_id)


@given(st.lists(st.integers(0, VOCABULARY.size - 1), max_size=40), st.integers(0, 40))
def test_drafts_after_any_tokens_are_in_the_grammar(tokens: list[int], prompt_tokens: int) -> None:
    machine = JsonSchemaStateMachine(schema_of(name=STRING, p={"type": "number"}))
    drafter = CopyDrafter(tokens[:prompt_tokens], VOCABULARY, FAST_FORWARD)
    drafter.update(tokens)
    for text in ("", '{"name": "', '{"name": "a', '{"name": "a", "p": 1'):
        matcher = machine.matcher(VOCABULARY)
        for token_id in ENCODE(text):
            matcher.advance(token_id)
        for written in (text, "x"):
            found = drafter.propose([*tokens, *ENCODE(written)], matcher, 8)
            assert len(found) <= 8
            following = matcher.copy()
            for token_id in found:
                following.advance(token_id)


def walk(encode: Any, vocabulary: Vocabulary, prompt: str, matcher: Matcher, answer: str) -> int:
    """Check the proposals along an answer; return how many of its tokens were proposed."""
    tokens, natural = list(encode(prompt)), list(encode(answer))
    drafter = CopyDrafter(tokens, vocabulary, FastForward(encode, vocabulary))
    count = position = 0
    while position < len(natural):
        drafter.update(tokens)
        found = list(drafter.propose(tokens, matcher, 16))
        rest = natural[position:]
        if found and vocabulary.decode(rest).startswith(vocabulary.decode(found)):
            # The text is right, so its tokens are those of the tokenizer.
            assert found == rest[: len(found)]
            count += len(found)
        else:
            found = rest[:1]
        for token_id in found:
            matcher.advance(token_id)
            tokens.append(token_id)
        position += len(found)
    return count


ARGUMENTS = {"name": 'Zoë "Z." Łukasz', "city": "New York", "zip": "10001-22", "total": 1234.5}
ARGUMENTS_PROMPT = 'Name: Zoë "Z." Łukasz\nCity: New York\nZip: 10001-22\nTotal: $1,234.5\n'
ARGUMENTS_SCHEMA = schema_of(name=STRING, city=STRING, zip=STRING, total={"type": "number"})


@pytest.mark.skipif(not tokenizer_files(), reason=NO_TOKENIZERS)
@pytest.mark.parametrize("path", tokenizer_files()[:2], ids=lambda path: path.parent.name)
def test_proposed_tokens_are_those_of_the_whole_text(path: Path) -> None:
    tokenizer = Tokenizer.from_file(str(path))
    machine = JsonSchemaStateMachine(ARGUMENTS_SCHEMA, whitespace="spaced")

    def encode(text: str) -> list[int]:
        return list(tokenizer.encode(text, add_special_tokens=False).ids)

    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    if vocabulary.strips_first_space:
        pytest.skip("the answer's first token differs from that behind a prompt")
    text = json.dumps(ARGUMENTS, ensure_ascii=False)
    assert walk(encode, vocabulary, ARGUMENTS_PROMPT, machine.matcher(vocabulary), text) > 10


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.notation.name)
def test_arguments_of_tool_calls_are_proposed_in_every_notation(family: Family) -> None:
    node = family.notation.compile(ARGUMENTS_SCHEMA).node
    text = next(text for text in family.template(ARGUMENTS) if node.matches(text.encode()))
    matcher = Matcher(node, VOCABULARY)
    # The bytes of the values, less some first characters; those before them are forced.
    assert walk(ENCODE, VOCABULARY, ARGUMENTS_PROMPT, matcher, text) > 30
