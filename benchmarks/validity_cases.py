"""Requests of the validity matrix, each with a judge that is no part of this project.

Schemas are judged by ``jsonschema``, patterns by ``re``, grammars by the Lark toolkit. A judge
reads the text of an answer, or the calls that the result lists, and returns what is wrong with it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from jsonschema import Draft202012Validator
from lark import Lark as LarkToolkit
from lark.exceptions import LarkError

from proxy_engine import GenerationResult, Lark, Regex, Tool

__all__ = ["CASES", "Case"]

Judge = Callable[[GenerationResult[Any]], str]


@dataclass(frozen=True)
class Case:
    """A request without its prompt.

    Attributes:
        judge: Returns what is wrong with an answer; the empty text if nothing is.
        response_format: The response format, if it has one.
        options: Further arguments of the request.
    """

    judge: Judge
    response_format: Any = None
    options: Mapping[str, Any] = field(default_factory=dict)


def _object(properties: Mapping[str, Any], **others: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
        **others,
    }


_SCHEMAS: list[dict[str, Any]] = [
    _object(
        {
            "name": {"type": "string", "minLength": 2, "maxLength": 12},
            "code": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{3,6}$"},
            "tags": {
                "type": "array",
                "items": {"type": "string", "maxLength": 6},
                "maxItems": 3,
            },
        }
    ),
    _object(
        {
            "count": {"type": "integer", "minimum": -7, "maximum": 4711, "multipleOf": 7},
            "share": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
            "sizes": {
                "type": "array",
                "items": {"enum": [1, 2, 3, "L", None]},
                "uniqueItems": True,
                "minItems": 2,
                "maxItems": 4,
            },
        }
    ),
    {
        "oneOf": [
            _object({"kind": {"const": "point"}, "x": {"type": "integer", "maximum": 99}}),
            _object({"kind": {"type": "string", "maxLength": 5}, "x": {"type": "number"}}),
        ]
    },
    {
        "allOf": [
            {"type": "integer", "minimum": 10},
            {"maximum": 5000, "not": {"multipleOf": 5}},
            {"anyOf": [{"multipleOf": 3}, {"multipleOf": 4}]},
        ]
    },
    _object(
        {
            "paid": {"type": "boolean"},
            "total": {"type": "integer", "minimum": 0, "maximum": 1000},
        },
        **{
            "if": {"properties": {"paid": {"const": True}}},
            "then": {"properties": {"total": {"minimum": 500}}},
            "else": {"properties": {"total": {"maximum": 9}}},
        },
    ),
    {
        "$defs": {
            "tree": _object(
                {
                    "value": {"type": "string", "maxLength": 4},
                    "children": {
                        "type": "array",
                        "items": {"$ref": "#/$defs/tree"},
                        "maxItems": 2,
                    },
                }
            )
        },
        "$ref": "#/$defs/tree",
    },
    _object(
        {
            "day": {"type": "string", "format": "date"},
            "host": {"type": "string", "format": "ipv4"},
            "id": {"type": "string", "format": "uuid"},
        }
    ),
    {
        "type": "object",
        "propertyNames": {"maxLength": 4},
        "patternProperties": {"^n": {"type": "integer"}, "^[st]": {"type": "null"}},
        "additionalProperties": {"type": "string", "maxLength": 4},
        "minProperties": 1,
        "maxProperties": 3,
    },
]

_PATTERNS = [
    r"[a-z]{3,12}(-[a-z]{2,8}){0,3}",
    r"\$[0-9]{1,6}\.[0-9]{2}",
    r"(?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9])?",
    r'"[^"\\\n]{5,40}"',
    r"(foo|foobar|barbaz)+!",
    r"[0-9]{1,3}(,[0-9]{3})*",
    r"[A-Z][a-z]+( [A-Z][a-z]+){1,2}",
    r"(a|b)*abb",
]

_GRAMMARS = [
    'start: sum\nsum: product (("+" | "-") product)*\nproduct: atom (("*" | "/") atom)*\n'
    'atom: NUMBER | "(" sum ")"\nNUMBER: /[0-9]{1,4}/\n',
    'start: "SELECT " column (", " column)* " FROM " table (" WHERE " column " = " INT)?\n'
    'column: "name" | "country" | "population"\ntable: /[a-z]{3,9}/\nINT: /[0-9]+/\n',
    'start: line+\nline: KEY "=" VALUE "\\n"\nKEY: /[a-z_]{2,8}/\nVALUE: /[A-Za-z0-9 ]{1,12}/\n',
    'start: call\ncall: NAME "(" [value ("," value)*] ")"\nvalue: INT | call\n'
    "NAME: /[a-z]{1,6}/\n%import common.INT\n%ignore / +/\n",
    'start: "[" [item (";" item)*] "]"\nitem: WORD | start\nWORD: /[^\\[\\];\\n]{1,8}/\n',
    'start: "if " NAME " then " body ("else " body)? "end"\nbody: (NAME ":=" INT ";")+\n'
    "NAME: /[a-z]{1,5}/\nINT: /[0-9]{1,5}/\n",
    'start: head row+\nhead: "id|name\\n"\nrow: /[1-9][0-9]{0,3}/ "|" /[A-Z][a-z]{1,9}/ "\\n"\n',
    'start: "<a>" text "</a>" start?\ntext: /[^<>&\\n]{1,20}/ "!"\n',
]

_PARAMETERS = {
    "weather": _object(
        {
            "city": {"type": "string", "maxLength": 12},
            "days": {"type": "integer", "minimum": 1, "maximum": 14},
        }
    ),
    "book": _object(
        {
            "guest": {"type": "string", "minLength": 1, "maxLength": 10},
            "rooms": {
                "type": "array",
                "items": {"enum": ["single", "double", "suite"]},
                "minItems": 1,
                "maxItems": 3,
            },
            "arrival": {"type": "string", "format": "date"},
        }
    ),
    "transfer": _object(
        {
            "amount": {"type": "number", "exclusiveMinimum": 0, "maximum": 1e6},
            "iban": {"type": "string", "pattern": "^[A-Z]{2}[0-9]{6,12}$"},
        }
    ),
    "stop": _object({}),
}
_TOOL_SETS = [
    ["weather"],
    ["book"],
    ["transfer"],
    ["weather", "book"],
    ["transfer", "stop"],
    list(_PARAMETERS),
]

_REASONED = [_SCHEMAS[number] for number in (0, 1, 2, 4, 5, 6)]


def _not_of_schema(text: str, schema: Mapping[str, Any]) -> str:
    try:
        value = json.loads(text, parse_constant=_no_number, object_pairs_hook=_members)
    except ValueError as error:
        return f"no JSON text: {error}"
    checker = Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
    return "; ".join(error.message for error in checker.iter_errors(value))


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("a name occurs twice")
    return value


def _schema_case(schema: dict[str, Any]) -> Case:
    options = {} if "properties" in schema else {"additional_properties": "schema"}
    return Case(lambda result: _not_of_schema(result.text, schema), schema, options)


def _pattern_case(pattern: str) -> Case:
    compiled = re.compile(pattern, re.ASCII)
    return Case(
        lambda result: "" if compiled.fullmatch(result.text) else "no match", Regex(pattern)
    )


def _grammar_case(grammar: str) -> Case:
    # All divisions into terminals count, so that the toolkit accepts the language of the rules.
    parser = LarkToolkit(grammar, parser="earley", lexer="dynamic_complete")

    def judge(result: GenerationResult[Any]) -> str:
        try:
            parser.parse(result.text)
        except LarkError as error:
            return str(error).partition("\n")[0]
        return ""

    return Case(judge, Lark(grammar))


def _tools_case(names: list[str]) -> Case:
    def judge(result: GenerationResult[Any]) -> str:
        if not result.tool_calls:
            return "no call"
        problems = [
            _not_of_schema(json.dumps(call.arguments), _PARAMETERS[call.name])
            if call.name in names
            else f"no tool {call.name!r}"
            for call in result.tool_calls
        ]
        return "; ".join(filter(None, problems))

    tools = [
        Tool(name=name, description=f"The tool {name}.", parameters=_PARAMETERS[name])
        for name in names
    ]
    return Case(judge, None, {"tools": tools, "tool_choice": "required"})


def _reasoning_case(schema: dict[str, Any]) -> Case:
    def judge(result: GenerationResult[Any]) -> str:
        whole = "".join(part.text for part in result.parts)
        opened, _, answer = whole.partition("</think>")
        if not opened.startswith("<think>") or not answer:
            return "no reasoning before the answer"
        return _not_of_schema(answer, schema)

    reasoning = {"reasoning": True, "parts": {"reasoning": {"max_tokens": 12}}}
    return Case(judge, schema, reasoning | dict(_schema_case(schema).options))


CASES: dict[str, list[Case]] = {
    "schema": list(map(_schema_case, _SCHEMAS)),
    "regex": list(map(_pattern_case, _PATTERNS)),
    "Lark": list(map(_grammar_case, _GRAMMARS)),
    "tools": list(map(_tools_case, _TOOL_SETS)),
    "reasoning, then schema": list(map(_reasoning_case, _REASONED)),
}
"""The cases by kind of constraint."""
