"""Kinds of schemas that users of engines report, each with texts to admit and to refuse.

The schemas and texts are this project's own: a report names the kind.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from engines.base import CALL_BEGIN, CALL_END, ToolSchema

__all__ = ["REPORTED", "ReportedCase"]

_INTEGER = {"type": "integer"}
_MEMBERS = 369
_MAX_LENGTH = 100_000
_MAX_ITEMS = 10_000
_LINE_FEEDS = "\n" * 2_000


@dataclass(frozen=True)
class ReportedCase:
    """A kind of schema, or of a set of tools, with texts.

    Attributes:
        kind: What is special, in a few words.
        reports: Issues and pull requests, as ``owner/repository#number``.
        admits: Texts that an engine has to admit.
        refuses: Texts that an engine has to refuse. All but endless white space do not match.
        schema: The JSON Schema, unless there are tools.
        tools: Tools that may be called in free text.
        beyond: Engines that exceed the limits on time and memory, and are not run.
    """

    kind: str
    reports: tuple[str, ...]
    admits: tuple[str, ...]
    refuses: tuple[str, ...]
    schema: Any = None
    tools: tuple[ToolSchema, ...] = ()
    beyond: tuple[str, ...] = ()


def _object(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def _white_space() -> ReportedCase:
    schema = _object({"city": {"type": "string"}, "people": {"type": "integer"}}, "city", "people")
    return ReportedCase(
        "white space without end",
        ("jundot/omlx#2990", "vllm-project/vllm#38696", "sgl-project/sglang#8250"),
        ('{"city": "Oslo", "people": 717710}', '{"city":"Oslo","people":717710}'),
        (f'{{"city": "Oslo",{_LINE_FEEDS}"people": 717710}}',),
        schema,
    )


def _tools(count: int, *reports: str) -> ReportedCase:
    tools = tuple(_tool_schemas(count))
    arguments = {"path": "notes.txt", "depth": 3}
    name, _ = tools[-1]

    def call(tool: str, values: dict[str, Any]) -> str:
        return CALL_BEGIN.replace("NAME", tool) + json.dumps(values) + CALL_END

    return ReportedCase(
        f"{count} tools",
        reports,
        (call(name, arguments),),
        (call("tool_without_a_name", arguments), call(name, {**arguments, "depth": "three"})),
        tools=tools,
    )


def _tool_schemas(count: int) -> Iterator[ToolSchema]:
    """Yield tools of eight arguments each, no two with the same schema."""
    for number in range(count):
        arguments = {
            "path": {
                "type": "string",
                "description": f"A path of tool {number}.",
                "maxLength": 255,
            },
            "depth": {"type": "integer", "minimum": 0, "maximum": 10 + number},
            "mode": {"enum": ["read", "write", f"mode_{number}"]},
            "labels": {"type": "array", "items": {"type": "string"}, "maxItems": 16},
            "since": {"type": "string", "format": "date"},
            "limit": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]},
            "options": _object({"dry": {"type": "boolean"}, "size": {"type": "number"}}),
            "tags": {"type": "object", "additionalProperties": {"type": "string"}},
        }
        yield f"workspace_{number}_list", _object(arguments, "path", "depth")


def _long_strings() -> ReportedCase:
    schema = _object({"text": {"type": "string", "maxLength": _MAX_LENGTH}}, "text")
    return ReportedCase(
        f"`maxLength` {_MAX_LENGTH:,}",
        ("mlc-ai/xgrammar#852", "ggml-org/llama.cpp#26596"),
        (json.dumps({"text": "A line of a file. " * 60}),),
        (json.dumps({"text": "=" * (_MAX_LENGTH + 1)}),),
        schema,
    )


def _long_arrays() -> ReportedCase:
    schema = {"type": "array", "items": {"type": "integer"}, "maxItems": _MAX_ITEMS}
    return ReportedCase(
        f"`maxItems` {_MAX_ITEMS:,}",
        ("unslothai/unsloth#9888", "ggml-org/llama.cpp#26613"),
        (json.dumps(list(range(100))),),
        (json.dumps([1] * (_MAX_ITEMS + 1)),),
        schema,
    )


def _nested_bounds() -> ReportedCase:
    item = _object({"note": {"type": "string", "maxLength": 256}}, "note")
    schema = {"type": "array", "items": item, "maxItems": 100}
    return ReportedCase(
        "`maxLength` 256 within `maxItems` 100",
        ("firecrawl/firecrawl#4512", "ggml-org/llama.cpp#27087"),
        (json.dumps([{"note": "First."}, {"note": "Second."}]),),
        (json.dumps([{"note": "First."}, {"note": "=" * 257}]),),
        schema,
    )


def _many_members(is_required: bool) -> ReportedCase:
    kinds = ("string", "integer", "boolean")
    names = [f"field_{number}" for number in range(_MEMBERS)]
    properties = {name: {"type": kinds[len(name) % 3]} for name in names}
    values = {"string": "a", "integer": 7, "boolean": True}
    members = {name: values[properties[name]["type"]] for name in names}
    some = {name: members[name] for name in (names if is_required else names[::90])}
    return ReportedCase(
        f"{_MEMBERS} {'required' if is_required else 'optional'} members",
        (
            "dottxt-ai/outlines-core#193",
            "anthropics/anthropic-sdk-python#1185",
            "anthropics/claude-code#55539",
        ),
        (json.dumps(some),),
        (json.dumps({**some, names[-1]: None}), json.dumps({**some, "unlisted": 1})),
        _object(properties, *(names if is_required else ())),
        beyond=() if is_required else ("outlines",),
    )


_ALL_OF_REPORTS = ("vllm-project/vllm#56556", "dottxt-ai/outlines-core#259", "ollama/ollama#17929")

REPORTED: tuple[ReportedCase, ...] = (
    _white_space(),
    _tools(60, "ggml-org/llama.cpp#25895", "ggml-org/llama.cpp#24658"),
    _tools(300, "ggml-org/llama.cpp#27675"),
    _long_strings(),
    _long_arrays(),
    _nested_bounds(),
    _many_members(is_required=True),
    _many_members(is_required=False),
    ReportedCase(
        "`allOf` of a reference and an object",
        _ALL_OF_REPORTS,
        ('{"id": 12, "name": "a"}',),
        ('{"id": 3, "name": "a"}', '{"name": "a"}', '{"id": 12}'),
        {
            "$defs": {
                "Record": {
                    "type": "object",
                    "properties": {"id": {"type": "integer", "minimum": 10}},
                    "required": ["id"],
                }
            },
            "allOf": [
                {"$ref": "#/$defs/Record"},
                {"properties": {"name": {"type": "string"}}, "required": ["name"]},
            ],
        },
    ),
    ReportedCase(
        "`allOf` of bounds",
        _ALL_OF_REPORTS,
        ("5", "17"),
        ("4", "18", "5.5"),
        {"allOf": [{"type": "integer"}, {"minimum": 5}, {"maximum": 17}]},
    ),
    ReportedCase(
        "`properties` beside `anyOf`",
        ("mlc-ai/xgrammar#858",),
        ('{"kind": "known", "size": 3}', '{"kind": "unknown"}'),
        ('{"kind": "known"}', '{"kind": "other", "size": 3}', '"kind"'),
        {
            **_object(
                {"kind": {"enum": ["known", "unknown"]}, "size": {"type": "integer"}}, "kind"
            ),
            "anyOf": [{"required": ["size"]}, {"properties": {"kind": {"const": "unknown"}}}],
        },
    ),
    ReportedCase(
        "`pattern` beside `format`",
        ("mlc-ai/xgrammar#749", "vllm-project/vllm#49996"),
        ('"2024-05-31"',),
        ('"2023-05-31"', '"2024-13-01"'),
        {"type": "string", "format": "date", "pattern": "^2024-"},
    ),
    ReportedCase(
        "`maxLength` beside `pattern`",
        ("mlc-ai/xgrammar#895", "vllm-project/vllm#45592"),
        ('"abcde"',),
        ('"abcdef"', '"ab1"'),
        {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
    ),
    ReportedCase(
        "`maxLength` beside `format`",
        ("mlc-ai/xgrammar#749",),
        ('"a@b.example"',),
        ('"anna@b.example"', '"a.example"'),
        {"type": "string", "format": "email", "maxLength": 12},
    ),
    ReportedCase(
        "`required` without `properties`",
        ("mlc-ai/xgrammar#104", "dottxt-ai/outlines-core#152", "ohdearquant/lattice#1147"),
        ('{"id": 1}',),
        ("{}", '{"name": 1}'),
        {"type": "object", "required": ["id"]},
    ),
    ReportedCase(
        "`patternProperties` of a listed name",
        ("guidance-ai/llguidance#265", "dottxt-ai/outlines-core#148"),
        ('{"score": 15}',),
        ('{"score": 105}', '{"score": 16}', '{"other": 15}'),
        {
            **_object({"score": {"type": "integer", "multipleOf": 5}}, "score"),
            "patternProperties": {"^s": {"maximum": 100}},
        },
    ),
    ReportedCase(
        "a list of types",
        ("lmstudio-ai/lmstudio-bug-tracker#909",),
        ("null", '"ab"'),
        ('"abcd"', "5"),
        {"type": ["string", "null"], "maxLength": 3},
    ),
    ReportedCase(
        "an object without members",
        ("ggml-org/llama.cpp#25923", "mlc-ai/xgrammar#803"),
        ("{}",),
        ('{"a": 1}',),
        _object({}),
    ),
)
"""The cases, in the order of the table."""
