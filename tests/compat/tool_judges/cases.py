"""Random tool calls of a format, with the text that they have and the arguments that are meant."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from call_walks import Call, a_walk, are_distinct, calls_in

from state_machines.errors import SchemaError
from state_machines.root import Piece, RootStateMachine
from state_machines.tool_calls import (
    CallArguments,
    ToolFormat,
    ToolSignature,
    with_trimmed_strings,
)

__all__ = ["Case", "cases_of", "read_again", "read_by_mlx_lm"]


def _object(required: list[str] | None = None, **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties) if required is None else required,
        "additionalProperties": False,
    }


_TEXT = {"type": "string"}
_PLACE = _object(name=_TEXT, lat={"type": "number"})

TOOLS = (
    ToolSignature("get_weather", _object(["city"], city=_TEXT, days={"type": "integer"})),
    ToolSignature("now", {"type": "object", "properties": {}, "additionalProperties": False}),
    ToolSignature("write", _object(path=_TEXT, content=_TEXT)),
    ToolSignature(
        "set_all",
        _object(
            number={"type": "number"},
            exact={"type": "boolean"},
            unit={"enum": ["celsius", "fahrenheit"]},
            nothing={"type": "null"},
        ),
    ),
    ToolSignature(
        "route",
        _object(["places"], places={"type": "array", "items": _PLACE}, options=_PLACE),
    ),
    ToolSignature(
        "search",
        _object(
            ["query"],
            query=_TEXT,
            limit={"anyOf": [{"type": "integer"}, {"type": "null"}]},
            tags={"type": "array", "items": _TEXT, "maxItems": 3},
        ),
    ),
    ToolSignature("note", _object(text={"anyOf": [_TEXT, {"type": "null"}]})),
    ToolSignature("store", _object(key=_TEXT, value={"type": "object"})),
)

# Some parsers of these formats strip white space from strings.
_STRIPPED = {"glm4_5", "glm4_7", "longcat", "minimax_m2", "minicpm5", "step3", "dots"}
_STRINGS = (
    *(
        *("", "Oslo", 'say "hi"', "it's", "two\nlines", "\n", " a ", "<b>bold</b>"),
        *("a < b > c", "</x>"),
    ),
    *("42", "-1.5", "1e3", "true", "null", "None", '{"a": 1}', "[1, 2]", '"quoted"', "back\\slash"),
    *("\\n", "tab\there", "naïve ☃ 😀", "&amp;", "a, b: c", "f(x=1)", "'''", "```", "</tool_call>"),
)
_NUMBERS = (0, 1, -7, 10**12, 2.5, -0.125, 1e-7)


@dataclass(frozen=True)
class Case:
    """A text with tool calls.

    Attributes:
        text: The text.
        calls: The calls that are meant.
        tools: The tools, as OpenAI's API has them.
        parser_tools: The same with the types that mlx-lm's parser is given.
        part: The part of an answer that the text is of.
    """

    text: str
    calls: list[Call]
    tools: list[dict[str, Any]]
    parser_tools: list[dict[str, Any]]
    part: Any


def cases_of(entry: ToolFormat, count: int) -> Iterator[Case]:
    """Yield texts of a format with at least ``count`` calls together.

    Every other text has random words of the grammar as arguments; the rest has values that are
    written by the notation and admitted by the grammar.
    """
    if entry.name in _STRIPPED:
        entry = with_trimmed_strings(entry)
    random = Random(entry.name)
    tools = [tool for tool in TOOLS if _is_writable(entry, tool)]
    written = 0
    for number in range(100 * count):
        if written >= count:
            return
        chosen = random.sample(tools, min(len(tools), random.randint(1, 3)))
        part = entry.calls(chosen, 1, 3 if entry.parallel else 1)
        try:
            pieces = a_walk(part, random)
        except OverflowError:
            continue
        if number % 2:
            pieces = [_with_value(piece, random) for piece in pieces]
        calls = calls_in(pieces)
        if not are_distinct(calls):
            continue
        written += len(calls)
        schemas = {p.part.tool.name: p.part.parser_schema for p in pieces if _has_arguments(p)}
        yield Case(
            b"".join(piece.text for piece in pieces).decode(),
            calls,
            [_openai(tool.name, tool.parameters) for tool in chosen],
            [_openai(name, schema) for name, schema in schemas.items()],
            part,
        )
    raise AssertionError(f"{entry.name}: too few random calls")


def _is_writable(entry: ToolFormat, tool: ToolSignature) -> bool:
    try:
        RootStateMachine(entry.calls([tool]))
    except SchemaError:
        return False
    return True


def _has_arguments(piece: Piece) -> bool:
    return isinstance(piece.part, CallArguments)


def _with_value(piece: Piece, random: Random) -> Piece:
    """Replace random words of the grammar by a text of a random value, if the grammar has it."""
    part = piece.part
    if not isinstance(part, CallArguments):
        return piece
    machine = part.machine()
    for _ in range(20):
        text = part.notation.write(_value(part.schema, random)).encode()
        if machine.matches(text):
            return Piece(part, text)
    return piece


def _value(schema: Any, random: Random) -> Any:
    if "anyOf" in schema:
        return _value(random.choice(schema["anyOf"]), random)
    if "enum" in schema:
        return random.choice(schema["enum"])
    match schema["type"]:
        case "string":
            return random.choice(_STRINGS)
        case "integer":
            return random.choice([number for number in _NUMBERS if isinstance(number, int)])
        case "number":
            return random.choice(_NUMBERS)
        case "boolean":
            return random.random() < 0.5
        case "null":
            return None
        case "array":
            most = random.randint(0, schema.get("maxItems", 3))
            return [_value(schema["items"], random) for _ in range(most)]
    if "properties" not in schema:
        inner = {"a": random.choice(_STRINGS), "ö b": [None, True, 1.5, {"deep": {}}]}
        return random.choice([{}, inner])
    names = schema["properties"]
    required = schema.get("required", ())
    kept = [name for name in names if name in required or random.random() < 0.5]
    return {name: _value(names[name], random) for name in kept}


def _openai(name: str, parameters: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


def read_again(case: Case) -> list[dict[str, Any]]:
    """Return the calls that the project's own reader finds in the text."""
    return _as_dicts(calls_in(RootStateMachine(case.part).pieces(case.text.encode())))


def read_by_mlx_lm(entry: ToolFormat, case: Case) -> list[dict[str, Any]]:
    """Return the calls that mlx-lm's parser reads: between its markers, as its server does."""
    module = importlib.import_module(f"mlx_lm.tool_parsers.{entry.parser}")
    start, end = module.tool_call_start, module.tool_call_end
    # As the grammar decides where a call ends, the text is cut at the last end before a start.
    pattern = re.escape(start) + "(.*?)" + (re.escape(end) if end else "$")
    calls: list[Any] = []
    for body in re.findall(pattern, case.text, re.DOTALL):
        found = module.parse_tool_call(body, case.parser_tools)
        calls += found if isinstance(found, list) else [found]
    return [{"name": call["name"], "arguments": call["arguments"]} for call in calls]


def _as_dicts(calls: list[Call]) -> list[dict[str, Any]]:
    return [{"name": call.name, "arguments": call.arguments} for call in calls]
