"""Calls that are written as JSON in free text, in every tool format."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from object_schemas import closed_object
from schema_strategies import examples
from small_vocabulary import brute_force_mask

from proxy_engine.answers.composition import Calls, Reasoning, compose_answer
from proxy_engine.answers.reader import AnswerReader
from proxy_engine.results.events import (
    Event,
    TextDelta,
    ToolCallDelta,
    ToolCallFinished,
    ToolCallStarted,
)
from state_machines import RegexStateMachine, Vocabulary
from state_machines.grammar.node import EMPTY
from state_machines.root import LineStart, RootStateMachine, Structured, leaves
from state_machines.root.attribution import Attribution
from state_machines.tool_calls import (
    FORMATS,
    CallArguments,
    Delimiters,
    ToolFormat,
    ToolSignature,
)
from state_machines.tool_calls.calls_in_text import CallsInText, NamedArguments, calls_in_text

CITY: dict[str, Any] = closed_object(
    ["city"],
    city={"type": "string", "maxLength": 6},
    days={"type": "integer", "minimum": 1, "maximum": 3},
)
NOTHING = {"type": "object", "properties": {}, "additionalProperties": False}
SCHEMAS = {"get": CITY, "get_all": CITY, "now": NOTHING}
TOOLS = [ToolSignature(name, schema) for name, schema in SCHEMAS.items()]
QUERY = ToolSignature(
    "query",
    {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]},
    input=RegexStateMachine("SELECT [a-z]{1,3}"),
)
THINK = Delimiters("<think>", "</think>")
OSLO = '{"name": "get", "arguments": {"city": "Oslo"}}'
HERMES = FORMATS["hermes"]


def tokens() -> Vocabulary:
    """Return bytes and pieces of calls, among them tokens that complete a call's beginning."""
    pieces = [
        *('{"', '":', '": "', '", "', "name", "get", "_all", "\n```", "```json\n", '```\n{"', "[{"),
        *('\n{"name": "', '{"name": "get", "arguments":', '\n{"name":"now","args":{', "arguments"),
        *('get", "arguments": {"', "Hi.\n", "\n\n", "  ", '"}}', "}]", '"}}, {"', "city", "<tool"),
    ]
    forms = [bytes([byte]) for byte in range(256)] + [piece.encode() for piece in pieces]
    return Vocabulary([*forms, b"<end>"], end_token_ids=[len(forms)])


VOCABULARY = tokens()


@cache
def machine(
    entry: ToolFormat = HERMES,
    max_calls: int | None = 3,
    stop: tuple[str, ...] = (),
    *,
    in_text: CallsInText = "lines",
    thinks: bool = False,
    has_query: bool = False,
) -> RootStateMachine:
    tools = [*TOOLS, QUERY] if has_query else TOOLS
    return RootStateMachine(
        compose_answer(
            calls=Calls(format=entry, tools=tools, max_calls=max_calls, in_text=in_text),
            reasoning=Reasoning(delimiters=THINK) if thinks else None,
            stop=stop,
        )
    )


def read(answers: RootStateMachine, text: str) -> AnswerReader:
    """Read an answer that the machine admits, and check its events."""
    assert answers.matches(text)
    reader, _ = read_pieces(answers, [text])
    return reader


def read_pieces(
    answers: RootStateMachine, pieces: Sequence[str | bytes]
) -> tuple[AnswerReader, list[list[Event]]]:
    """Read an answer piece by piece. Returns the events of each piece, and of the end."""
    attribution = Attribution(answers.automaton)
    reader = AnswerReader(new_id=lambda name, index: f"{name}-{index}")
    events = []
    for piece in pieces:
        events.append(
            reader.read(attribution.feed(piece.encode() if isinstance(piece, str) else piece))
        )
    events.append(reader.read(attribution.finish(), is_last=True))
    flat = [event for some in events for event in some]
    assert "".join(event.text for event in flat if isinstance(event, TextDelta)) == reader.text
    check_events(reader, flat)
    return reader, events


def check_events(reader: AnswerReader, events: list[Event]) -> None:
    for index, call in enumerate(reader.calls):
        started, *deltas, finished = [e for e in events if getattr(e, "index", None) == index]
        assert isinstance(started, ToolCallStarted)
        assert started.name == call.name
        assert isinstance(finished, ToolCallFinished)
        assert finished.arguments == call.arguments
        if not call.is_custom:
            assert all(isinstance(delta, ToolCallDelta) for delta in deltas)
            written = "".join(delta.arguments for delta in deltas)  # type: ignore[attr-defined]
            assert json.loads(written) == call.arguments


def calls_of(reader: AnswerReader) -> list[tuple[str, Any]]:
    return [(call.name, call.arguments) for call in reader.calls]


SPACES = st.sampled_from(["", " ", "\n", "\n  ", "\n    ", "\r\n\t"])
FENCES = st.sampled_from(["", "```json\n", "```\n", "```tool_code\n", "```\n```json \n"])


@st.composite
def openings(draw: st.DrawFn) -> tuple[str, str]:
    """Draw the text before a tool's name, and the text behind the arguments."""
    space = [draw(SPACES) for _ in range(8)]
    fence = draw(FENCES)
    kind = draw(st.sampled_from(["", f'"type"{space[0]}:{space[1]}"function",{space[2]}']))
    inner, end = f'"{draw(st.sampled_from(["name", "function", "tool"]))}"{space[3]}: ', "}"
    if draw(st.booleans()):
        inner, end = f'"function":{space[4]}{{{space[3]}"name":{space[5]}', "}\n}"
    opening = f"{{{space[6]}{kind}{inner}" + '"'
    if draw(st.booleans()):
        opening, end = f"[{space[7]}{opening}", end + draw(SPACES) + "]"
    if fence:
        end += "\n```"
    return fence + opening, end


KEYS = st.sampled_from(["arguments", "parameters", "args", "input"])
ARGUMENTS = {
    "get": ('{"city": "Oslo"}', '{"city":"Ås\\"","days":2}'),
    "get_all": ('{"city": "", "days": 1}', '{"city":"{"}'),
    "now": ("{}", "{}"),
}


def starts(entry: ToolFormat) -> list[str]:
    """Return the markers that begin a call in the model's own format."""
    return [each.start for each in (entry, *entry.also)]


@examples(150)
@given(
    st.sampled_from(list(FORMATS.values())),
    st.sampled_from(["", "Let me see.\n", "One.\n\n", "{no JSON}\n", '{"name": "now"}\n']),
    openings(),
    st.sampled_from(list(SCHEMAS)),
    SPACES,
    KEYS,
    st.integers(0, 1),
)
def test_call_in_text_is_read_in_every_format(
    entry: ToolFormat,
    before: str,
    opening: tuple[str, str],
    name: str,
    space: str,
    key: str,
    choice: int,
) -> None:
    begin, end = opening
    text, head = f"{entry.answer.begin}{before}", f'{begin}{name}",{space}"{key}": '
    if any(start in text + head for start in starts(entry)):
        # Such a text is a call in the model's own format, or none.
        return
    answers = machine(entry, in_text="lines" if before else "start")
    arguments = ARGUMENTS[name][choice]
    whole = f"{text}{head}{arguments}{end}{entry.answer.end}{entry.finish}"
    reader = read(answers, whole)
    assert calls_of(reader) == [(name, json.loads(arguments))]
    assert reader.text == before
    assert "".join(part.text for part in reader.parts) == whole
    assert json.loads(reader.calls[0].raw)
    # A model that would write the arguments as a string, or without a needed one, cannot.
    state = answers.start.compute_word_derivative((text + head).encode())
    assert state.derivative(ord('"')) is EMPTY
    assert state.compute_word_derivative(b'{"town"') is EMPTY
    # What follows is forced, the end of a fence included.
    assert not answers.matches(text + head + arguments)


@examples(40)
@given(
    st.sampled_from([FORMATS[name] for name in ("hermes", "gemma3", "qwen3_coder", "gpt_oss")]),
    st.sampled_from(["", "Well.\n"]),
    openings(),
    st.integers(0, 2**32),
)
def test_masks_of_an_answer_with_a_call_in_text_are_exact(
    entry: ToolFormat, before: str, opening: tuple[str, str], seed: int
) -> None:
    """In any tokens, and with random ones where the call leaves a choice."""
    random = Random(seed)
    matcher = machine(entry, in_text="lines" if before else "start").matcher(VOCABULARY)
    begin, end = opening
    script = (
        f'{entry.answer.begin}{before}{begin}get", "args": {{"city": "x"}}{end}{entry.answer.end}'
    )
    reader = AnswerReader(new_id=entry.new_id)
    rest, written = script.encode(), b""
    while not matcher.is_finished:
        mask = matcher.allowed_tokens()
        assert (mask == brute_force_mask(matcher.state, VOCABULARY)).all()
        fitting = [
            token
            for token in np.flatnonzero(mask).tolist()
            if rest.startswith(VOCABULARY.token_bytes[token] or b"-")
            and token not in VOCABULARY.end_token_ids
        ]
        ends = min(VOCABULARY.end_token_ids)
        if not rest:
            fitting = [ends]
        token = random.choice(fitting)
        matcher.advance(token)
        if token != ends:
            form = VOCABULARY.token_bytes[token] or b""
            rest, written = rest[len(form) :], written + form
        reader.read(matcher.take_pieces())
    reader.read([], is_last=True)
    assert written == script.encode()
    if not any(start in script for start in starts(entry)):
        assert calls_of(reader) == [("get", {"city": "x"})]
        assert reader.text == before


TEXTS = [
    "Hello, {you}.",
    '{"name": "nobody", "arguments": {"city": "Oslo"}}',
    '```json\n{"name": "nobody", "arguments": {}}\n```\nThat is JSON.',
    'JSON such as {"name": "get", "arguments": {"city": 1}} is text within a line.',
    '{"name": "get", "description": "Gets it.", "parameters": {}}',
    '{"title": "get", "arguments": {}}\n[1, 2]\n[{"name": 1}]',
    '  ```python\n{"a": [\n\n{"name": "get"}',
    '{"name": "get", "arguments"',
    '{"function": {"name": "get"}, "arguments": 1}',
    "[\n{\n\n```",
]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("name", ["hermes", "gemma3", "gpt_oss", "kimi_k3"])
def test_json_that_names_no_tool_stays_text(name: str, text: str) -> None:
    entry = FORMATS[name]
    whole = f"{entry.answer.begin}{text}{entry.answer.end}{entry.finish}"
    reader = read(machine(entry), whole)
    assert not reader.calls
    assert reader.text == text


@examples(60)
@given(
    st.sampled_from(
        [
            *TEXTS,
            f"Well.\n{OSLO}",
            f"So:\n```json\n[{OSLO},\n  {OSLO.replace('Oslo', 'Rom')}]\n```",
            '{"type": "function", "function": {"name": "now", "input": {}}}',
            f"<think>Hm\n{OSLO}</think>\n\n{OSLO}",
        ]
    ),
    st.data(),
)
def test_answer_in_pieces_is_the_whole_answer(text: str, data: st.DataObject) -> None:
    answers = machine(thinks=True)
    whole = read(answers, text)
    written = text.encode()
    cuts = data.draw(st.lists(st.integers(0, len(written)), max_size=12).map(sorted))
    reader, _ = read_pieces(answers, [written[i:j] for i, j in pairwise([0, *cuts, len(written)])])
    assert reader.text == whole.text
    assert reader.reasoning == whole.reasoning
    assert reader.calls == whole.calls
    assert reader.parts == whole.parts


def test_text_that_may_be_a_call_is_held_back() -> None:
    text = 'See:\n```json\n{"name": "get", "description"'
    _, events = read_pieces(machine(), [*text, " ", "x"])
    told = ["".join(e.text for e in some if isinstance(e, TextDelta)) for some in events]
    assert told[:5] == list("See:\n")
    decided = text.index("description")
    assert not any(told[5:decided])
    assert told[decided] == text[5 : decided + 1]
    assert told[decided + 1 : -1] == list(text[decided + 1 :] + " x")


def test_call_is_reported_while_its_arguments_are_written() -> None:
    text = f"```json\n{OSLO}\n```"
    _, events = read_pieces(machine(), list(text))
    begun = text.index('{"city')
    assert not any(events[:begun])
    assert isinstance(events[begun][0], ToolCallStarted)
    assert all(
        [type(event) for event in some] == [ToolCallDelta]
        for some in events[begun + 1 : text.index("}}") + 1]
    )


def test_several_calls_need_a_list_and_parallel_calls() -> None:
    two = f"[{OSLO}, {OSLO.replace('Oslo', 'Rom')}]"
    assert calls_of(read(machine(), two)) == [("get", {"city": "Oslo"}), ("get", {"city": "Rom"})]
    assert not machine(max_calls=1).matches(two)
    assert calls_of(read(machine(max_calls=1), f"[{OSLO}]")) == [("get", {"city": "Oslo"})]
    # No two calls are equal, and a call ends the answer.
    assert not machine().matches(f"[{OSLO}, {OSLO}]")
    assert not machine().matches(f"{OSLO}\n{two}")
    assert not machine(FORMATS["llama3_python_tag"]).matches(two)


@pytest.mark.parametrize("name", ["hermes", "qwen3_coder", "gpt_oss"])
def test_stop_string_ends_text_before_a_call(name: str) -> None:
    entry = FORMATS[name]
    answers = machine(entry, stop=("END", "```"))
    begin = entry.answer.begin
    for before in ("", "Well.\n"):
        reader = read(answers, f"{begin}{before}{OSLO}{entry.answer.end}")
        assert reader.text == before
        assert reader.calls
    reader = read(answers, f"{begin}So.\nEND{entry.answer.end}")
    assert reader.text == "So.\n"
    assert not answers.matches(f"{begin}```json\n{OSLO}\n```{entry.answer.end}")
    assert not machine(entry, stop=('"',)).matches(f"{begin}{OSLO}{entry.answer.end}")


@pytest.mark.parametrize("stop", [" ", "\n", "{", '": "', ",", "```", "\n{", "name", "[{", "}"])
def test_opening_of_a_call_has_no_stop_string(stop: str) -> None:
    answers = machine(stop=(stop,))
    for opening in (
        '  {"name": "',
        '{"name":"',
        '```\n{"tool": "',
        '[{"name": "',
        '[\n{"function":"',
    ):
        head = f'{opening}get","args":'
        written = head + '{"city":"x"}}' + "]" * (opening[0] == "[") + "\n```" * (opening[0] == "`")
        # Text that ends with a line feed and a call's first character is the stop string.
        is_call = stop not in head and stop != "\n{"
        assert not is_call or read(answers, written).calls
        assert is_call or not answers.matches(written) or not read(answers, written).calls


def test_reasoning_has_no_calls() -> None:
    reader = read(machine(thinks=True), f"<think>\n{OSLO}\n</think>\n\nWell.\n{OSLO}")
    assert reader.reasoning == f"\n{OSLO}\n"
    assert reader.text == "Well.\n"
    assert calls_of(reader) == [("get", {"city": "Oslo"})]


@pytest.mark.parametrize("name", ["hermes", "gemma3", "qwen3_coder", "gpt_oss"])
@pytest.mark.parametrize("call", [OSLO, f"```json\n{OSLO}\n```", f"[{OSLO}]"])
def test_call_in_place_of_the_text_leaves_calls_in_lines_as_text(name: str, call: str) -> None:
    entry = FORMATS[name]
    begin, end = entry.answer.begin, f"{entry.answer.end}{entry.finish}"
    answers = machine(entry, in_text="start")
    assert calls_of(read(answers, f"{begin}{call}{end}")) == [("get", {"city": "Oslo"})]
    for text in (f"Write:\n{call}", f"\n{call}", f"{call[:9]}\n{call}", f"Write:\n{call}\nThere."):
        reader = read(answers, f"{begin}{text}{end}")
        assert (reader.text, calls_of(reader)) == (text, [])
    # Behind the call the answer ends, and its arguments are those of the schema.
    assert not answers.matches(f"{begin}{call}\nThere.{end}")
    assert not answers.matches(f"{begin}{call.replace('city', 'town')}{end}")


@examples(40)
@given(st.text('{"name":get\n`,arum} s', max_size=30), st.integers(0, 2**32))
def test_masks_of_text_that_may_begin_as_a_call_are_exact(script: str, seed: int) -> None:
    random = Random(seed)
    matcher = machine(in_text="start").matcher(VOCABULARY)
    while script and not matcher.is_finished:
        mask = matcher.allowed_tokens()
        assert (mask == brute_force_mask(matcher.state, VOCABULARY)).all()
        forms = [form or b"-" for form in VOCABULARY.token_bytes]
        fitting = [
            token
            for token in np.flatnonzero(mask).tolist()
            if script.encode().startswith(forms[token]) and token not in VOCABULARY.end_token_ids
        ]
        if not fitting:
            break
        token = random.choice(fitting)
        matcher.advance(token)
        script = script[len(forms[token]) :]


def test_calls_in_text_and_native_calls_follow_text_alike() -> None:
    native = "<tool_call>\n" + OSLO + "\n</tool_call>"
    assert calls_of(read(machine(), f"Well.\n{native}")) == calls_of(
        read(machine(), f"Well.\n{OSLO}")
    )
    assert not machine().matches(f"{OSLO}\n{native}")


def test_text_between_fences_of_calls_may_be_json() -> None:
    fence = '```tool_code\nget(city="Oslo")\n```'
    reader = read(machine(FORMATS["gemma3"]), f"Well.\n{fence}\n{OSLO}")
    assert calls_of(reader) == [("get", {"city": "Oslo"})]
    assert reader.text == f"Well.\n\n{OSLO}"


def test_custom_tool_is_called_in_text() -> None:
    written = '```json\n{"name": "query", "arguments": {"input": "SELECT ab"}}\n```'
    for name in ("hermes", "qwen3_coder"):
        (call,) = read(machine(FORMATS[name], has_query=True), written).calls
        assert call.is_custom
        assert call.arguments == {"input": "SELECT ab"}
    assert not machine(has_query=True).matches(written.replace("SELECT", "DROP"))


def test_name_of_a_call_in_text_has_a_pointer() -> None:
    parts = read(machine(), f"```json\n[{OSLO}]\n```").parts
    pointers = [(part.pointer, part.text) for part in parts if part.pointer is not None]
    assert pointers == [
        ("/tool_calls/0/name", 'get", "arguments": '),
        ("/tool_calls/0/arguments", '{"city": "Oslo"}'),
    ]
    assert all(part.is_marker for part in parts if part.pointer is None)


def test_answer_that_is_cut_keeps_its_text() -> None:
    for cut in range(len(OSLO)):
        reader, _ = read_pieces(machine(), ["Well.\n", OSLO[:cut]])
        assert "".join(part.text for part in reader.parts) == "Well.\n" + OSLO[:cut]
        is_decided = cut >= len('{"name": "get", "arguments":')
        assert reader.text == "Well.\n" + ("" if is_decided else OSLO[:cut])


def test_only_free_text_beside_optional_calls_has_calls() -> None:
    structured = Structured("structured", grammar=RegexStateMachine("[a-z]"))

    def has_calls_in_text(content: Structured | None, **fields: Any) -> bool:
        calls = Calls(format=HERMES, tools=TOOLS, **fields)
        part = compose_answer(content, calls=calls)
        return any(isinstance(leaf, LineStart) for leaf in leaves(part))

    assert has_calls_in_text(None, in_text="lines")
    assert not has_calls_in_text(None, in_text="off")
    assert not has_calls_in_text(None, in_text="lines", min_calls=1)
    assert not has_calls_in_text(structured, in_text="lines")


def test_arguments_of_json_formats_are_compiled_once() -> None:
    calls = HERMES.calls(TOOLS)
    written = calls_in_text(TOOLS, calls)
    assert written is not None
    shared = {id(leaf) for leaf in leaves(calls) if isinstance(leaf, CallArguments)}
    named = next(leaf for leaf in leaves(written) if isinstance(leaf, NamedArguments))
    assert {id(arguments) for arguments in named.arguments.values()} == shared
