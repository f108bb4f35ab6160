"""Value lookup proposes the rest of a value as the prompt has it and as the answer writes it."""

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

from proxy_engine.generation import FastForward, text_encoder
from proxy_engine.speculation import ValueLookup
from state_machines import JsonSchemaStateMachine, Matcher, RegexStateMachine, Vocabulary
from state_machines.root import Marker, RootStateMachine, Sequence, Structured
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
        self.lookup = ValueLookup(self.tokens, VOCABULARY, FAST_FORWARD)

    def write(self, text: str) -> Case:
        for token_id in ENCODE(text):
            self.matcher.advance(token_id)
            self.tokens.append(token_id)
        self.lookup.update(self.tokens)
        return self

    def proposal(self, at_most: int = 64) -> str:
        found = self.lookup.propose(self.tokens, self.matcher, at_most)
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
        (BIOGRAPHY, '{"name": "10', ' December 1815",'),
        (BIOGRAPHY, '{"name": "Lond', 'on",'),
        ("Name:  Zoë Łukasz\r\nAge: 9", '{"name": "Zo', 'ë Łukasz",'),
        ("| Name | City |\n| Bo Li | Rome |", '{"name": "Bo', ' Li",'),
        ("id,name\n7,Bo Li,Rome\n8,Al,Oslo", '{"name": "Bo', ' Li",'),
        ("<td>Bo Li</td><td>Rome</td>", '{"name": "Bo', ' Li",'),
        ('{"person": "Bo, the Li"}', '{"name": "Bo', ', the Li",'),
        ("Address: 12 Main St. Apt 4, London\n", '{"name": "12', ' Main St. Apt 4, London",'),
        ("He said “Stop it now” twice.", '{"name": "St', 'op it now",'),
        ("From: Bo Li <bo@example.org>\n", '{"name": "bo', '@example.org",'),
        ("The bridge is closed. It reopens.", '{"name": "bri', 'dge is closed",'),
    ],
)
def test_rest_of_a_value_ends_where_the_source_delimits_it(
    prompt: str, written: str, expected: str
) -> None:
    assert proposal(prompt, written) == expected


def test_text_is_escaped_in_the_answer_as_json_requires() -> None:
    prompt = 'Name: Ada "A." \\ Lovelace\nBorn: 1815'
    assert proposal(prompt, '{"name": "Ada') == ' \\"A.\\" \\\\ Lovelace",'
    assert proposal(prompt, '{"name": "Ada \\"A') == '.\\" \\\\ Lovelace",'
    assert proposal(prompt, '{"name": "Ada \\') == ""


def test_value_that_goes_beyond_a_delimiter_ends_at_a_stronger_one() -> None:
    prompt = "It rained, it snowed, and it froze; then it was over. Nobody came."
    assert proposal(prompt, '{"name": "It') == ' rained",'
    assert proposal(prompt, '{"name": "It rained, it') == ' snowed, and it froze",'
    assert proposal(prompt, '{"name": "It rained, it snowed, and it froze; th').startswith("en it")


def test_value_goes_beyond_the_line_breaks_of_a_paragraph() -> None:
    prompt = "In 1833 she was introduced by a mutual friend to one Charles\nBabbage in London.\nEnd"
    assert proposal(prompt, '{"name": "Char') == 'les Babbage",'
    rows = "Maria Gonzalez from Valencia, maria.g@example.org, customer, 87\nTom: Lagos, 92\n"
    assert proposal(rows, '{"name": "cust') == 'omer",'
    assert proposal(rows, '{"name": "87') == '",'


def test_value_is_searched_at_the_beginning_of_words() -> None:
    assert proposal("A subordinate\nOrder: ordinary", '{"name": "ordin') == 'ary",'
    assert proposal("subordinate", '{"name": "ordin') == ""


def test_value_that_is_not_in_the_prompt_gets_no_proposal() -> None:
    case = Case(BIOGRAPHY, schema_of(name=STRING, other=STRING)).write('{"name": "Grace')
    assert case.proposal() == ""
    assert not case.lookup.expects_draft(case.matcher)
    assert case.write(" Hop").proposal() == ""
    # The next value may be there.
    assert case.write('", "other": "Lond').proposal() == 'on"'
    assert case.lookup.expects_draft(case.matcher)


def test_no_more_tokens_than_asked_for() -> None:
    assert proposal(BIOGRAPHY, '{"name": "Ad', at_most=4) == "a Lo"
    assert proposal(BIOGRAPHY, '{"name": "Ad', at_most=0) == ""


@pytest.mark.parametrize(
    ("prompt", "key", "expected"),
    [
        ("Invoice number: A-17\nDate: today", "invoice_number", 'A-17",'),
        ("INVOICE-NUMBER = A-17\n", "invoiceNumber", 'A-17",'),
        ("**Invoice number:** A-17\n", "invoice number", 'A-17",'),
        ("The invoice number is A-17.", "invoice_number", 'A-17",'),
        ("<b>Invoice number</b> <i>A-17</i>", "invoice_number", 'A-17",'),
        ('{"invoice_number": "A-17"}', "invoice_number", 'A-17",'),
        ("| Item | Invoice number |\n|---|---|\n| Pen | A-17 |\n", "invoice_number", 'A-17",'),
        ("item,invoice_number\nPen,A-17\n", "invoice_number", 'A-17",'),
        ("Number: A-17\n", "invoice_number", 'A-17",'),
        ("No such thing.", "invoice_number", ""),
        ('{"invoice_number": string}', "invoice_number", ""),
    ],
)
def test_value_of_which_nothing_is_written_is_guessed_from_its_label(
    prompt: str, key: str, expected: str
) -> None:
    case = Case(prompt, schema_of(**{key: STRING, "z": STRING})).write(f'{{"{key}": "')
    assert case.proposal() == expected
    assert not expected or case.lookup.source == "value_guess"


def test_values_of_further_records_are_found_by_what_delimited_the_first() -> None:
    rows = "x 1 :: Bo Li ~ Rome\nx 2 :: Al Fu ~ Oslo\nx 3 :: Cy Ro ~ Bonn\n"
    record = schema_of(who=STRING, where=STRING)
    schema = schema_of(rows={"type": "array", "items": record})
    case = Case(rows, schema).write('{"rows": [{"who": "Bo Li", "where": "Rome"}, {"who": "')
    assert case.proposal() == 'Al Fu",'
    case.write('Al Fu", "where": "')
    assert case.proposal() == 'Oslo"'


def test_proposal_behind_a_draft_follows_the_values_of_the_draft() -> None:
    rows = "x 1 :: Bo Li ~ Rome\nx 2 :: Al Fu ~ Oslo\nx 3 :: Cy Ro ~ Bonn\n"
    record = schema_of(who=STRING, where=STRING)
    case = Case(rows, schema_of(rows={"type": "array", "items": record}))
    case.write('{"rows": [{"who": "Bo Li", "where": "Rome"}, {"who": "')
    draft, matcher = list(case.tokens), case.matcher.copy()
    for token_id in ENCODE('Al Fu", "where": "'):
        matcher.advance(token_id)
        draft.append(token_id)
    found = case.lookup.propose(draft, matcher, 16)
    assert VOCABULARY.decode(found) == b'Oslo"'
    # The draft is refused: the answer goes on elsewhere.
    assert case.proposal() == 'Al Fu",'


def test_items_of_a_list_follow_one_another() -> None:
    schema = schema_of(tags={"type": "array", "items": STRING})
    case = Case("We need red, dark blue and green.", schema).write('{"tags": ["red", "')
    assert case.proposal() == 'dark blue",'
    assert case.write('dark blue", "').proposal() == 'green"]'


@pytest.mark.parametrize(
    ("prompt", "written", "schema", "expected"),
    [
        ("It costs $1,234.50 now.", '{"p": 12', {"type": "number"}, "34.50,"),
        ("P: $1,234.50\n", '{"p": ', {"type": "number"}, "1234.50,"),
        ("There were 1,204 of them", '{"p": 12', {"type": "integer"}, "04,"),
        ("P: no number", '{"p": ', {"type": "integer"}, ""),
        ("Born on 10 December 1815.", '{"p": "18', {**STRING, "format": "date"}, '15-12-10",'),
        ("P: December 10th, 1815", '{"p": "', {**STRING, "format": "date"}, '1815-12-10",'),
        ("P: 1815-12-10", '{"p": "', {**STRING, "format": "date"}, '1815-12-10",'),
        ("Zip 12345 London", '{"p": "12', {**STRING, "pattern": "^[0-9]{5}$"}, '345",'),
        ("P: In Progress\n", '{"p": "', {"enum": ["done", "in_progress", "x"]}, 'in_progress",'),
        ("It is done, not open.", '{"p": "', {"enum": ["closed", "done"]}, 'done",'),
        ('"open" | "closed": choose', '{"p": "', {"enum": ["closed", "open"]}, ""),
        ("P: Rome\n", '{"p":', {"type": ["string", "null"]}, ' "Rome",'),
    ],
)
def test_numbers_dates_and_options_are_proposed_as_the_grammar_writes_them(
    prompt: str, written: str, schema: Any, expected: str
) -> None:
    assert proposal(prompt, written, schema_of(p=schema, q=STRING)) == expected


def test_forced_text_before_a_value_is_proposed_with_it() -> None:
    case = Case("Name: Ada\n", schema_of(name=STRING, q=STRING)).write('{"name":')
    assert case.proposal() == ' "Ada",'
    case = Case("Nothing.", schema_of(name=STRING, q=STRING)).write('{"name":')
    assert case.proposal() == ' "'
    assert case.lookup.source == "forced_text"


def test_argument_between_tags_ends_with_its_tag() -> None:
    value = Structured("city", grammar=RegexStateMachine(r"[^<]*"))
    machine = RootStateMachine(
        Sequence(
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
    lookup = ValueLookup(prompt, VOCABULARY, FAST_FORWARD)
    lookup.update([*prompt, *written])
    found = VOCABULARY.decode(lookup.propose([*prompt, *written], matcher, 64))
    assert found == b" York City\n</parameter>"


def test_free_text_and_unconstrained_text_get_no_proposal() -> None:
    prompt = list(ENCODE(BIOGRAPHY))
    tokens = [*prompt, *ENCODE('"Ada')]
    lookup = ValueLookup(prompt, VOCABULARY, FAST_FORWARD)
    lookup.update(tokens)
    assert not lookup.propose(tokens, None, 8)
    assert not lookup.expects_draft(None)
    matcher = RootStateMachine(FreeText("text"), VOCABULARY).matcher(VOCABULARY)
    for token_id in ENCODE('"Ada'):
        matcher.advance(token_id)
    assert not lookup.propose(tokens, matcher, 8)
    assert not lookup.expects_draft(matcher)


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
    case.lookup.update(case.tokens)
    found = case.lookup.propose(case.tokens, case.matcher, at_most)
    assert len(found) <= at_most
    matcher = case.matcher.copy()
    for token_id in found:
        matcher.advance(token_id)


@given(st.lists(st.integers(0, VOCABULARY.size - 1), max_size=40), st.integers(0, 40))
def test_any_tokens_are_safe(tokens: list[int], prompt_tokens: int) -> None:
    machine = JsonSchemaStateMachine(schema_of(name=STRING, p={"type": "number"}))
    lookup = ValueLookup(tokens[:prompt_tokens], VOCABULARY, FAST_FORWARD)
    lookup.update(tokens)
    for text in ("", '{"name": "', '{"name": "a', '{"name": "a", "p": 1'):
        matcher = machine.matcher(VOCABULARY)
        for token_id in ENCODE(text):
            matcher.advance(token_id)
        lookup.propose([*tokens, *ENCODE(text)], matcher, 8)
        lookup.propose([*tokens, *ENCODE("x")], matcher, 8)
        lookup.expects_draft(matcher)


def walk(encode: Any, vocabulary: Vocabulary, prompt: str, matcher: Matcher, answer: str) -> int:
    """Check the proposals along an answer; return how many of its tokens were proposed."""
    tokens, natural = list(encode(prompt)), list(encode(answer))
    lookup = ValueLookup(tokens, vocabulary, FastForward(encode, vocabulary))
    count = position = 0
    while position < len(natural):
        lookup.update(tokens)
        found = list(lookup.propose(tokens, matcher, 16))
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


@pytest.mark.parametrize("value", ["one | two", "a <b> c\td", "x\n\ny  z", "a|b|c"])
def test_value_that_contains_field_delimiters_is_safe(value: str) -> None:
    for end in range(1, len(value)):
        written = json.dumps(value[:end])[:-1]
        assert isinstance(proposal(f"Start {value} end", '{"name": ' + written), str)
