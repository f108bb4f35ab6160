"""Whole answers of every family, written at random under masks, and what is told of them."""

from __future__ import annotations

import json
import sys
from functools import cache
from random import Random
from typing import Any

import pytest
from call_walks import a_word
from jsonschema import Draft202012Validator
from object_schemas import closed_object

from proxy_engine.answers.composition import Calls, Reasoning, compose_answer
from proxy_engine.answers.reader import AnswerReader
from proxy_engine.errors import OutputValidationError
from proxy_engine.results.confidence import AnswerValues
from proxy_engine.results.events import (
    Event,
    PartialValue,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    ToolCallFinished,
    ToolCallStarted,
)
from state_machines import ChoiceStateMachine, JsonSchemaStateMachine, Vocabulary
from state_machines.grammar.node import EMPTY
from state_machines.grammar.shortest import shortest_word
from state_machines.root import (
    Marker,
    Piece,
    Repeat,
    RootStateMachine,
    Series,
    Structured,
    repeated_part_names,
)
from state_machines.root.attribution import Attribution
from state_machines.root.spellings import speller
from state_machines.tool_calls import FORMATS, Delimiters, ToolFormat, ToolSignature

PARAMETERS = closed_object(
    ["city"],
    city={"type": "string", "maxLength": 6},
    days={"type": "integer", "minimum": 1, "maximum": 3},
)
NOTHING = {"type": "object", "properties": {}, "additionalProperties": False}
ANSWER = {"type": "array", "items": {"type": "boolean"}, "maxItems": 3}
THINK = Delimiters("<think>", "</think>")
SCHEMAS = {"get": PARAMETERS, "get_all": PARAMETERS, "now": NOTHING}
TOOLS = [ToolSignature(name, schema) for name, schema in SCHEMAS.items()]
VALIDATORS = {name: Draft202012Validator(schema) for name, schema in SCHEMAS.items()}


@cache
def vocabulary_of(entry: ToolFormat) -> Vocabulary:
    """All bytes, tokens across the markers' ends, and the family's own special tokens."""
    forms: list[bytes | None] = [bytes([byte]) for byte in range(256)]
    texts = (entry.start, entry.end, *entry.foot, "</think>")
    for text in filter(None, texts):
        written = text.encode()
        forms += [written[: len(written) // 2], written[len(written) // 2 :] + b"\n"]
    special = [name for name in entry.tokens if name != "<|call|>"]
    ends = ["<end>", *(["<|call|>", "<|return|>"] if "<|call|>" in entry.tokens else [])]
    start = len(forms)
    names = {name: start + index for index, name in enumerate([*special, *ends])}
    forms += [name.encode() for name in names]
    return Vocabulary(
        [form or b" " for form in forms],
        end_token_ids=[names[end] for end in ends],
        special_tokens=names,
    )


@cache
def machine_of(
    entry: ToolFormat, vocabulary: Vocabulary, *, is_structured: bool
) -> RootStateMachine:
    content = Structured("structured", grammar=JsonSchemaStateMachine(ANSWER))
    own = entry.reasoning or THINK
    return RootStateMachine(
        compose_answer(
            content if is_structured else None,
            calls=Calls(format=entry, tools=TOOLS, max_calls=3),
            reasoning=Reasoning(delimiters=own, max_chars=12),
            dialect=entry,
        ),
        vocabulary,
    )


@cache
def tokens_by_first_byte(vocabulary: Vocabulary) -> dict[int, list[tuple[int, bytes]]]:
    """Return the ids and bytes of tokens, by their first bytes."""
    found: dict[int, list[tuple[int, bytes]]] = {}
    for token_id, form in enumerate(vocabulary.token_bytes):
        if form:
            found.setdefault(form[0], []).append((token_id, form))
    return found


def tokens_of(text: bytes, vocabulary: Vocabulary, random: Random) -> list[int]:
    """Cut a text into tokens at random."""
    tokens = []
    while text:
        fitting = [
            i for i, form in tokens_by_first_byte(vocabulary)[text[0]] if text.startswith(form)
        ]
        tokens.append(random.choice(fitting))
        text = text[len(vocabulary.token_bytes[tokens[-1]] or b"") :]
    return tokens


def written(
    entry: ToolFormat, seed: int, *, is_structured: bool
) -> tuple[AnswerReader, list[Event]]:
    """Write an answer: parts of it at random under the mask, then the way to an end."""
    random = Random(f"{entry.name} {seed}")
    vocabulary = vocabulary_of(entry)
    machine = machine_of(entry, vocabulary, is_structured=is_structured)
    matcher = machine.matcher(vocabulary)
    reader = AnswerReader(new_id=entry.new_id, watches_value=True)
    events: list[Event] = []
    output = b""

    def take(token: int) -> None:
        nonlocal output
        assert matcher.allowed_tokens()[token]
        matcher.advance(token)
        events.extend(reader.read(matcher.take_pieces()))
        if token not in vocabulary.end_token_ids:
            output += vocabulary.token_bytes[token] or b""

    # Chance alone would hardly ever write a marker into free text.
    spell = speller(vocabulary.special_tokens)
    own = entry.reasoning or THINK
    for text in (own.begin, "so", own.end, entry.joint, entry.answer.begin, "Hi", entry.start):
        form = spell(text)
        if form and random.random() < 0.7 and matcher.state.word_derivative(form) is not EMPTY:
            for token in tokens_of(form, vocabulary, random):
                take(token)
    try:
        word = a_word(matcher.state, random, 40)
    except OverflowError:
        word = shortest_word(matcher.state) or b""
    for token in tokens_of(word, vocabulary, random):
        take(token)
    assert matcher.is_accepting
    take(min(vocabulary.end_token_ids))
    events.extend(reader.read([], is_last=True))
    assert "".join(s.text for s in reader.parts) == output.replace(b"\xff", b"").decode()
    assert not matcher.allowed_tokens().any()
    return reader, events


@pytest.mark.parametrize("is_structured", [False, True], ids=["free", "structured"])
@pytest.mark.parametrize("entry", FORMATS.values(), ids=list(FORMATS))
def test_answers_of_a_family(entry: ToolFormat, is_structured: bool) -> None:
    called = answered = reasoned = 0
    for seed in range(24):
        if seed >= 4 and called and answered and reasoned:
            break
        reader, events = written(entry, seed, is_structured=is_structured)
        check_calls(reader, events)
        check_pointers(reader)
        reasoning = "".join(e.text for e in events if isinstance(e, ReasoningDelta))
        assert reasoning == reader.reasoning
        text = "".join(e.text for e in events if isinstance(e, TextDelta))
        assert text == reader.text
        if reader.values:
            ((_, value),) = reader.values
            Draft202012Validator(ANSWER).validate(json.loads(value))
            shown = [e.value for e in events if isinstance(e, PartialValue)]
            assert shown[-1] == json.loads(value)
            assert not reader.calls
        for marker in (entry.start, "</think>"):
            assert marker not in text
        called += bool(reader.calls)
        answered += bool(reader.text)
        reasoned += bool(reader.reasoning)
    assert called
    assert answered
    assert reasoned


def check_calls(reader: AnswerReader, events: list[Event]) -> None:
    for index, call in enumerate(reader.calls):
        VALIDATORS[call.name].validate(call.arguments)
        own = [event for event in events if getattr(event, "index", None) == index]
        started, *deltas, finished = own
        assert isinstance(started, ToolCallStarted)
        assert isinstance(finished, ToolCallFinished)
        assert all(isinstance(delta, ToolCallDelta) for delta in deltas)
        told: Any = "".join(delta.arguments for delta in deltas)  # type: ignore[attr-defined]
        assert json.loads(told) == call.arguments == finished.arguments
        assert started.id == call.id == finished.id
        assert started.name == call.name == finished.name
    assert len({call.id for call in reader.calls}) == len(reader.calls)
    indices = {event.index for event in events if isinstance(event, ToolCallStarted)}
    assert indices == set(range(len(reader.calls)))


def check_pointers(reader: AnswerReader) -> None:
    """The parts with pointers are the values of the answer, where its text is JSON."""
    calls = tuple(reader.calls)
    parsed = json.loads(reader.values[0][1]) if reader.values else None
    values = AnswerValues.of(reader.text, parsed, calls, reader.parts)
    for index, call in enumerate(calls):
        name = values.spans[f"/tool_calls/{index}/name"]
        assert name is not None
        assert values.output[slice(*name)].decode() == call.name
        arguments = values.spans[f"/tool_calls/{index}/arguments"]
        if arguments is not None:
            assert json.loads(values.output[slice(*arguments)]) == call.arguments
    if parsed is not None:
        whole = values.spans[""]
        assert whole is not None
        assert json.loads(values.output[slice(*whole)]) == parsed


def test_values_of_a_composition_have_pointers_by_name() -> None:
    flag = Structured("flag", grammar=JsonSchemaStateMachine({"type": "boolean"}))
    word = Structured("a/b", grammar=ChoiceStateMachine(["cat", "dog"]))
    part = Series(Repeat(flag, min_count=2, max_count=2, between=Marker("flag", "|")), word)
    reader = AnswerReader(new_id=FORMATS["hermes"].new_id, repeated=repeated_part_names(part))
    reader.read(RootStateMachine(part).pieces("true|falsedog"), is_last=True)
    assert [(s.text, s.pointer) for s in reader.parts] == [
        ("true", "/flag/0"),
        ("|", None),
        ("false", "/flag/1"),
        ("dog", "/a~1b"),
    ]


def test_characters_cut_by_tokens_are_whole_in_events() -> None:
    entry = FORMATS["hermes"]
    vocabulary = vocabulary_of(entry)
    machine = machine_of(entry, vocabulary, is_structured=False)
    matcher = machine.matcher(vocabulary)
    reader = AnswerReader(new_id=entry.new_id)
    told = []
    for byte in "día 😀 < <tool".encode():
        matcher.advance(byte)
        told += [e.text for e in reader.read(matcher.take_pieces()) if isinstance(e, TextDelta)]
    assert "".join(told) == "día 😀 < "
    told += [
        e.text for e in reader.read(matcher.take_pieces(is_last=True)) if isinstance(e, TextDelta)
    ]
    assert "".join(told) == "día 😀 < <tool"


def test_truncated_call_is_not_reported() -> None:
    entry = FORMATS["hermes"]
    vocabulary = vocabulary_of(entry)
    matcher = machine_of(entry, vocabulary, is_structured=False).matcher(vocabulary)
    reader = AnswerReader(new_id=entry.new_id)
    events: list[Event] = []
    for byte in b'<tool_call>\n{"name": "get", "arguments": {"city": "Ro':
        matcher.advance(byte)
        events += reader.read(matcher.take_pieces())
    events += reader.read(matcher.take_pieces(is_last=True), is_last=True)
    assert [type(event) for event in events if not isinstance(event, ToolCallDelta)] == [
        ToolCallStarted
    ]
    assert reader.calls == []


def test_incomplete_arguments_are_no_call() -> None:
    """Tags, and Python's keywords, could be over after each argument."""
    for name, written in (
        ("lfm2", '<|tool_call_start|>[get(city="Rome"'),
        ("glm4_5", "<tool_call>get\n<arg_key>city</arg_key>\n<arg_value>Rome</arg_value>\n"),
    ):
        entry = FORMATS[name]
        vocabulary = vocabulary_of(entry)
        matcher = machine_of(entry, vocabulary, is_structured=False).matcher(vocabulary)
        reader = AnswerReader(new_id=entry.new_id)
        form = speller(vocabulary.special_tokens)(written)
        events = []
        for token in tokens_of(form, vocabulary, Random(0)):
            matcher.advance(token)
            events += reader.read(matcher.take_pieces())
        events += reader.read(matcher.take_pieces(is_last=True), is_last=True)
        assert [type(event) for event in events] == [ToolCallStarted]
        assert reader.calls == []


@pytest.mark.skipif(
    sys.version_info >= (3, 14), reason="json reads any depth for which the stack suffices"
)
def test_a_call_that_cannot_be_read_is_an_error() -> None:
    entry = FORMATS["hermes"]
    lists = {"type": "array", "items": {"$ref": "#/properties/deep"}, "maxItems": 1}
    tool = ToolSignature("dig", {"type": "object", "properties": {"deep": lists}})
    part = compose_answer(calls=Calls(format=entry, tools=[tool], min_calls=1))
    deep = "[" * 2000 + "]" * 2000
    reader = AnswerReader(new_id=entry.new_id)
    written = f'<tool_call>\n{{"name": "dig", "arguments": {{"deep": {deep}}}}}\n</tool_call>'
    pieces = RootStateMachine(part).pieces(written)
    assert pieces
    with pytest.raises(OutputValidationError, match="dig") as caught:
        reader.read(pieces, is_last=True)
    assert deep in caught.value.text


def test_repeated_ids_of_a_model_become_unique() -> None:
    entry = FORMATS["kimi_k2"]
    part = compose_answer(calls=Calls(format=entry, tools=TOOLS, min_calls=1))
    calls = "".join(
        "<|tool_call_begin|>functions.get:0<|tool_call_argument_begin|>"
        f'{{"city": "{city}"}}<|tool_call_end|>'
        for city in ("Bonn", "Lima", "Oslo")
    )
    reader = AnswerReader(new_id=entry.new_id)
    pieces = RootStateMachine(part).pieces(f"{entry.start}{calls}{entry.end}")
    check_calls(reader, reader.read(pieces, is_last=True))
    assert [call.id for call in reader.calls] == [f"functions.get:{n}" for n in range(3)]


FENCES = """I look.
```tool_code
now()
get(city="Rome")
```
It is late, and
```tool_code
get(city="Lima")
``` done."""


def fences(stop: tuple[str, ...] = (), max_calls: int | None = None) -> RootStateMachine:
    calls = Calls(format=FORMATS["gemma3"], tools=TOOLS, max_calls=max_calls)
    return RootStateMachine(compose_answer(calls=calls, stop=stop))


@pytest.mark.parametrize("stop", [(), ("STOP",)])
def test_text_stands_between_fences_of_calls(stop: tuple[str, ...]) -> None:
    reader = AnswerReader(new_id=FORMATS["gemma3"].new_id)
    machine = fences(stop)
    events = [
        event for piece in machine.pieces(FENCES + "".join(stop)) for event in reader.read([piece])
    ]
    check_calls(reader, events)
    assert [call.name for call in reader.calls] == ["now", "get", "get"]
    assert reader.text == "I look.\n\nIt is late, and\n done."
    assert not machine.matches(FENCES + "```tool_code")
    assert not machine.matches(FENCES + "```tool_output\n")


def test_fences_together_have_at_most_the_given_number_of_calls() -> None:
    assert fences(max_calls=3).matches(FENCES)
    assert not fences(max_calls=2).matches(FENCES)
    assert fences(max_calls=2).matches("I cannot.")


def test_stop_string_ends_text_after_a_fence() -> None:
    machine = fences(("late",))
    assert not machine.matches(FENCES)
    assert machine.matches(FENCES[: FENCES.index("late") + 4])
    assert machine.matches("It is late")


def test_text_after_a_fence_is_attributed_as_it_is_written() -> None:
    attribution = Attribution(fences().automaton)
    before = FENCES.index("It is")
    attribution.feed(FENCES[:before].encode())
    for letter in FENCES[before : before + 8]:
        assert [text for _, text in attribution.feed(letter.encode())] == [letter.encode()]


def test_pieces_of_one_part_are_joined() -> None:
    entry = FORMATS["hermes"]
    machine = machine_of(entry, vocabulary_of(entry), is_structured=True)
    reader = AnswerReader(new_id=entry.new_id)
    (part,) = {piece.part for piece in machine.pieces("[true]")}
    reader.read([Piece(part, b"[tr"), Piece(part, b"ue]")], is_last=True)
    assert [(s.name, s.text) for s in reader.parts] == [("structured", "[true]")]
