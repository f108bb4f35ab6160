"""Generated calls of every family are read back by the family's own parser."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from random import Random
from typing import Any

import pytest
from call_walks import Call, a_walk, a_word, are_distinct, calls_in
from hypothesis import assume, given
from hypothesis import strategies as st
from judging import Judge
from object_schemas import closed_object
from schema_strategies import examples, object_schemas, schemas
from tool_readers import READERS, SCHEMA_READERS

from state_machines import GrammarStateMachine
from state_machines.errors import CompositionError, SchemaError
from state_machines.grammar.node import leading_bytes
from state_machines.root import RootStateMachine
from state_machines.root.spellings import speller
from state_machines.tool_calls import (
    FORMATS,
    CallArguments,
    CallNames,
    ToolFormat,
    ToolSignature,
    input_schema,
    with_trimmed_strings,
)
from state_machines.tool_calls.calls_in_text import calls_in_text

NAMES = ("get", "get_all", "getx", "f", "g2", "search_web")

FORECAST = closed_object(
    ["city"],
    city={"type": "string", "description": "Where?"},
    days={"type": "integer", "minimum": 1, "maximum": 14, "default": 3},
    unit={"enum": ["celsius", "fahrenheit"]},
    precise={"type": "boolean", "default": False},
)
PYDANTIC = {
    "$defs": {"Place": closed_object(lat={"type": "number"}, name={"type": "string"})},
    "type": "object",
    "properties": {
        "places": {"type": "array", "items": {"$ref": "#/$defs/Place"}},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        "limit": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
    },
    "required": ["places"],
    "additionalProperties": False,
}
SCALARS = closed_object(
    ["text"], text={"type": "string"}, n={"type": "integer"}, x={"type": "number"}
)
FLAG = closed_object(on={"type": "boolean"})
NOTHING = {"type": "object", "properties": {}, "additionalProperties": False}

ARGUMENTS = st.one_of(
    st.sampled_from([FORECAST, PYDANTIC, SCALARS, NOTHING]),
    object_schemas(),
    schemas(depth=1).map(
        lambda schema: {
            "type": "object",
            "properties": {"a": schema},
            "$defs": schema.pop("$defs", {}),
        }
    ),
    schemas(depth=2).map(lambda schema: {**schema, "type": "object"}),
)


@st.composite
def toolboxes(draw: st.DrawFn) -> list[ToolSignature]:
    """Draw one to three tools."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True))
    return [ToolSignature(name, draw(ARGUMENTS)) for name in names]


def as_parsed(entry: ToolFormat, text: str, tools: list[dict[str, Any]]) -> list[Call]:
    """Return what mlx-lm makes of an answer: cut at the parser's markers, then parsed."""
    module = importlib.import_module(f"mlx_lm.tool_parsers.{entry.parser}")
    start, end = module.tool_call_start, module.tool_call_end
    parse: Callable[..., Any] = module.parse_tool_call
    pattern = re.escape(start) + "(.*?)" + (re.escape(end) if end else "$")
    bodies = re.findall(pattern, text, re.DOTALL)
    calls = []
    for body in bodies:
        found = parse(body, tools)
        calls += found if isinstance(found, list) else [found]
    return [Call(call["name"], call["arguments"], call.get("id")) for call in calls]


def of_openai(pieces: list[Any]) -> list[dict[str, Any]]:
    """Return the tools as a parser is given them."""
    arguments = {piece.part.tool.name: piece.part for piece in pieces if _is_arguments(piece)}
    return [
        {"type": "function", "function": {"name": name, "parameters": part.parser_schema}}
        for name, part in arguments.items()
    ]


def _is_arguments(piece: Any) -> bool:
    return isinstance(piece.part, CallArguments)


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal as JSON, where ``True`` is not 1."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


# mlx-lm's parsers strip white space from the strings of these.
STRIPPED = {"glm4_5", "glm4_7", "longcat", "minimax_m2", "minicpm5", "dots"}
# Readers need the meant values of MiniMax M3's elements: see `notations/test_nested.py`.
READ = {
    name: with_trimmed_strings(entry) if name in STRIPPED else entry
    for name, entry in FORMATS.items()
    if name != "minimax_m3"
}


@pytest.mark.parametrize("entry", READ.values(), ids=list(READ))
@given(tools=toolboxes(), seed=st.integers(0, 2**32))
@examples(5)
def test_family_parser_reads_generated_calls(
    entry: ToolFormat, tools: list[ToolSignature], seed: int
) -> None:
    assert_read_back(entry, tools, seed)


def assert_read_back(entry: ToolFormat, tools: list[ToolSignature], seed: int) -> None:
    """Walk at random through some calls; compare three readings of them."""
    random = Random(seed)
    spell = speller(entry.tokens)
    part = entry.calls(tools, 1, 3 if entry.parallel else 1)
    try:
        pieces = a_walk(part, random, spell)
    except (SchemaError, OverflowError):
        assume(False)
    written = b"".join(piece.text for piece in pieces)
    meant = calls_in(pieces)

    for call in meant:
        schema = next(tool.parameters for tool in tools if tool.name == call.name)
        assert Judge(schema).admits(call.arguments), (schema, call)
    text = written.replace(b"\xff", b"").decode()
    if entry.parser is not None:
        parsed = as_parsed(entry, text, of_openai(pieces))
    elif entry.name in SCHEMA_READERS:
        parsed = SCHEMA_READERS[entry.name](text, of_openai(pieces))
    else:
        parsed = READERS[entry.name](text)
    assert [call.name for call in parsed] == [call.name for call in meant]
    names = CallNames(entry, tools)
    for own, other in zip(meant, parsed, strict=True):
        _, arguments = names.call(own.name, own.arguments or {})
        assert same(arguments, other.arguments), text
        assert other.id in (None, own.id)


@pytest.mark.parametrize("entry", FORMATS.values(), ids=list(FORMATS))
def test_integers_of_arguments_have_no_point(entry: ToolFormat) -> None:
    """Typed languages, and parsers of arguments, read no ``40.0`` into an integer."""
    numbers = {"n": {"type": "integer", "minimum": 1, "maximum": 99}, "m": {"enum": [40.0]}}
    schema = {"type": "object", "properties": numbers, "required": ["n", "m"]}
    tools = [ToolSignature("get", {**schema, "additionalProperties": False})]
    for seed in range(3):
        for call in calls_in(a_walk(entry.calls(tools), Random(seed))):
            assert call.arguments is not None
            assert [type(value) for value in call.arguments.values()] == [int, int]


@pytest.mark.parametrize("entry", FORMATS.values(), ids=list(FORMATS))
def test_pieces_of_generated_calls_are_attributed_and_no_call_comes_twice(
    entry: ToolFormat,
) -> None:
    tools = [ToolSignature("get", SCALARS), ToolSignature("stop", NOTHING)]
    part = entry.calls(tools, 1, 3 if entry.parallel else 1)
    machine = RootStateMachine(part)
    for seed in range(5):
        pieces = a_walk(part, Random(seed))
        text = b"".join(piece.text for piece in pieces)
        is_admitted = are_distinct(calls_in(pieces))
        assert machine.matches(text) == is_admitted
        if is_admitted:
            assert calls_in(machine.pieces(text)) == calls_in(pieces)


NUMBERS = closed_object(["x"], x={"type": "number"}, s={"type": "string", "maxLength": 3})


def _json_value(value: Any) -> Any:
    """Return a value that is equal for equal JSON values: numbers by their value."""
    match value:
        case bool() | None | str():
            return value, type(value)
        case dict():
            return {name: _json_value(member) for name, member in value.items()}
        case list():
            return [*map(_json_value, value)]
    return Fraction(repr(value))


@pytest.mark.parametrize("schema", [NUMBERS, SCALARS, FORECAST, FLAG])
@pytest.mark.parametrize("entry", FORMATS.values(), ids=list(FORMATS))
def test_exactly_the_calls_with_excluded_arguments_are_excluded(
    entry: ToolFormat, schema: dict[str, Any]
) -> None:
    part = entry.calls([ToolSignature("get", schema)], 1, 1)
    walks = [a_walk(part, Random(seed)) for seed in range(4)]
    excluded, *_ = [call.arguments for call in calls_in(walks[0])]
    signature = ToolSignature("get", schema, excluding=(excluded, {"unknown": 1}))
    machine = RootStateMachine(entry.calls([signature], 1, 1))
    for pieces in walks:
        (call,) = calls_in(pieces)
        is_other = _json_value(call.arguments) != _json_value(excluded)
        assert machine.matches(b"".join(piece.text for piece in pieces)) == is_other


@pytest.mark.parametrize("in_text", [False, True])
@pytest.mark.parametrize("number", [1, 1.0, Decimal("1.00")])
def test_excluded_arguments_have_no_other_spelling(number: Any, in_text: bool) -> None:
    entry = FORMATS["hermes"]
    tools = [ToolSignature("get", NUMBERS, excluding=({"x": number, "s": "a"},))]
    part: Any = entry.calls(tools, 1, 1)
    head, tail = '<tool_call>\n{"name": "get", "arguments": ', "}\n</tool_call>"
    if in_text:
        part = calls_in_text(tools, part, max_calls=1, options={})
        head, tail = '{"name": "get", "arguments": ', "}"
    machine = RootStateMachine(part)
    for text in ('{"x": 1, "s": "a"}', '{"x": 1.0, "s": "a"}', '{"x": 1, "s": "\\u0061"}'):
        assert not machine.matches(head + text + tail)
    for text in ('{"x": 1}', '{"x": 1.5, "s": "a"}', '{"x": 1, "s": "b"}'):
        assert machine.matches(head + text + tail)


@pytest.mark.parametrize("entry", FORMATS.values(), ids=list(FORMATS))
def test_tool_without_another_call_is_left_out(entry: ToolFormat) -> None:
    done = ToolSignature("stop", NOTHING, excluding=({},))
    other = ToolSignature("flip", FLAG, excluding=({"on": True},))
    part = entry.calls([ToolSignature("stop", NOTHING), ToolSignature("flip", FLAG)], 1, 1)
    machine = RootStateMachine(entry.calls([done, other], 1, 1))
    for seed in range(6):
        pieces = a_walk(part, Random(seed))
        is_left = [(call.name, call.arguments) for call in calls_in(pieces)] == [
            ("flip", {"on": False})
        ]
        assert machine.matches(b"".join(piece.text for piece in pieces)) == is_left
    (call,) = calls_in(machine.pieces(a_word(machine.start, Random(0), 40)))
    assert (call.name, call.arguments) == ("flip", {"on": False})
    with pytest.raises(CompositionError, match="excluded"):
        RootStateMachine(entry.calls([done], 1, 1))
    assert RootStateMachine(entry.calls([done], 0, 1)).matches(b"")


@pytest.mark.parametrize("entry", FORMATS.values(), ids=list(FORMATS))
def test_excluded_input_of_a_custom_tool_is_not_written_again(entry: ToolFormat) -> None:
    excluded, other, both = map(
        GrammarStateMachine.from_gbnf, ('root ::= "a\\""', 'root ::= "b"', 'root ::= "a\\"" | "b"')
    )
    signature = ToolSignature("run", input_schema(), both, excluding=({"input": 'a"'},))
    machine = RootStateMachine(entry.calls([signature], 1, 1))
    for each in (excluded, other):
        part = entry.calls([ToolSignature("run", input_schema(), each)], 1, 1)
        text = b"".join(piece.text for piece in a_walk(part, Random(0)))
        assert machine.matches(text) == (each is other)


@pytest.mark.parametrize("entry", FORMATS.values(), ids=list(FORMATS))
def test_answer_ends_where_no_other_call_is_left(entry: ToolFormat) -> None:
    tools = [ToolSignature("flip", FLAG), ToolSignature("stop", NOTHING)]
    machine = RootStateMachine(entry.calls(tools, 1, 16))
    for seed in range(2):
        random, state, text = Random(seed), machine.start, b""
        while choices := leading_bytes(state):
            byte = random.choice(choices)
            state = state.derivative(byte)
            text += bytes((byte,))
        assert state.nullable, f"dead end after {text!r}"
        assert are_distinct(calls_in(machine.pieces(text)))
