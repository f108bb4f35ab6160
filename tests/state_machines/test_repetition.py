"""Detection of values that repeat: what is ended, where, and what is left alone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from object_schemas import closed_object

from state_machines import JsonSchemaStateMachine, RegexStateMachine, StateMachine, Vocabulary
from state_machines.repetition import RepetitionDetector
from state_machines.root import RootStateMachine, Structured, Text
from state_machines.tool_calls import ToolSignature, format_named

WORDS = ['", "', '"}, {"', '", ', "Ada", "ha ", "name", '": "', "]}", '"]']
VOCABULARY = Vocabulary(
    [*(bytes((byte,)) for byte in range(256)), *(word.encode() for word in WORDS), b"</s>"],
    end_token_ids=[256 + len(WORDS)],
)
STRING = {"type": "string"}


def tokens(text: str) -> list[int]:
    """Cut a text into the longest words."""
    data, ids, at = text.encode(), [], 0
    words = sorted(
        ((word.encode(), 256 + n) for n, word in enumerate(WORDS)), key=lambda w: -len(w[0])
    )
    while at < len(data):
        word, token = next(
            ((w, t) for w, t in words if data.startswith(w, at)), (data[at : at + 1], data[at])
        )
        ids.append(token)
        at += len(word)
    return ids


def written(machine: StateMachine, text: str) -> str:
    """Return what is written of a text until a value is ended, and the end of that value."""
    matcher, detector, output = machine.matcher(VOCABULARY), RepetitionDetector(VOCABULARY), b""
    twin = detector.copy()
    for token in tokens(text):
        closing = detector.closing_token
        token = token if closing is None else closing
        form = VOCABULARY.token_bytes[token] or b""
        matcher.advance(token)
        detector.advance(form, matcher)
        output += form
        if closing is not None and detector.closing_token is None:
            return output.decode()
    assert twin.closing_token is None
    return output.decode()


def array(items: Any = STRING, **more: Any) -> JsonSchemaStateMachine:
    return JsonSchemaStateMachine({"type": "array", "items": items, **more})


def record(value: Any) -> dict[str, Any]:
    return closed_object(name=value)


@pytest.mark.parametrize(
    ("machine", "value", "count"),
    [
        (array(), ["Ada"] * 100, 10),
        (array(), ["Bob"] + ["Ada and Charles Babbage"] * 20, 5),
        (array(), ["Ada", "Bob"] * 100, 74),
        (array(record(STRING)), [{"name": "Ada"}] * 20, 5),
        (array({"type": "integer"}), [1, 12] + [0] * 400, 173),
    ],
)
def test_array_ends_behind_a_whole_item(machine: StateMachine, value: Any, count: int) -> None:
    assert json.loads(written(machine, json.dumps(value))) == value[:count]


def test_only_the_innermost_array_ends() -> None:
    inner = [True] * 200
    found = written(array({"type": "array", "items": {"type": "boolean"}}), json.dumps([inner] * 3))
    assert json.loads(f"{found}]") == [inner[:86]]


@pytest.mark.parametrize("unit", ["a", "ha ", "Ada and Charles. ", "é😀", "\\n"])
def test_string_ends_where_it_repeats(unit: str) -> None:
    machine = JsonSchemaStateMachine(STRING)
    found = written(machine, f'"{unit * 1000}"')
    assert found.endswith('"')
    assert 512 <= len(found.encode()) < 512 + 200


def test_ordinary_repetitions_go_on() -> None:
    for text in ("ha " * 40, "-" * 300, "0" * 400, "| 0 | 1 |\\n" * 30, "We will. " * 5):
        assert written(JsonSchemaStateMachine(STRING), f'"{text}"') == f'"{text}"'
    for value in (["O"] * 12, [0] * 150, ["Ada"] * 9, ["A longer item of the list"] * 3):
        text = json.dumps(value)
        assert written(JsonSchemaStateMachine({"type": "array"}), text) == text


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "array", "items": STRING, "maxItems": 1000}, ["Ada"] * 300),
        ({"type": "array", "items": STRING, "minItems": 300}, ["Ada"] * 300),
        ({"type": "string", "maxLength": 5000}, "Ada " * 600),
        ({"type": "string", "pattern": "^[Aad ]*$"}, "Ada " * 600),
    ],
)
def test_values_with_bounds_go_on(schema: Any, value: Any) -> None:
    text = json.dumps(value)
    assert written(JsonSchemaStateMachine(schema), text) == text


def test_only_values_of_a_schema_are_ended() -> None:
    text = "ha " * 1000
    for machine in (
        RegexStateMachine("[^]*"),
        RootStateMachine(Text("text")),
        RootStateMachine(Structured("words", grammar=RegexStateMachine("[^]*"))),
    ):
        assert written(machine, text) == text


@pytest.mark.parametrize("name", ["hermes", "qwen3_coder", "lfm2", "gemma4", "cohere_cofl"])
def test_arguments_of_calls_are_ended(name: str) -> None:
    entry = format_named(name)
    tags = {"type": "object", "properties": {"tags": {"type": "array", "items": STRING}}}
    machine = RootStateMachine(entry.calls([ToolSignature("mark", tags)], 1, 16))
    for value in (["Ada"] * 100, ["ha " * 400]):
        arguments = entry.notation.write({"tags": value})
        head = (
            entry.start
            + entry.opening[0]
            + entry.head.replace("{name}", "mark").replace("{id}", "0")
        )
        found = written(machine, head + arguments)
        assert len(head) < len(found) < len(head + arguments)
