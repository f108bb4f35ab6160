"""Schemas that are known to have values without a compilation."""

from __future__ import annotations

from typing import Any

import pytest
from data_files import NO_MCP_TOOLS, mcp_tool_definitions
from hypothesis import given
from hypothesis import strategies as st
from schema_strategies import examples, object_schemas

from state_machines.argument_notations import JSON, Notation
from state_machines.argument_notations.notation import NotationOptions
from state_machines.argument_notations.plain_schemas import PlainSchema, plain_schema
from state_machines.argument_notations.shared_arguments import can_write
from state_machines.errors import SchemaError
from state_machines.tool_calls import FORMATS

NOTATIONS = list({entry.notation: None for entry in FORMATS.values()})
AVOID = ("</tool_call>", "<|call|>")
OBJECT: dict[str, Any] = {"type": "object"}
A = {"required": ["a"]}
TEXT = {"type": "string"}

_numbers = st.sampled_from([0, 1, 2, 2.5, -1, 0.2, 0.8, True, "1", None, 10**30])
_texts = st.sampled_from(["", "a", "null", "true", "long words", "12", "é", "</tool_call>", "<", 1])
_counts = st.sampled_from([0, 1, 2, 3, -1, 1.0, True, None])
_types = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])


def _of_keywords(keywords: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries({}, optional=keywords)


def _inner(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    names = st.sampled_from(["a", "b", "class", "a b", "a-b", "<", "item", "user_id"])
    return st.one_of(
        _of_keywords(
            {
                "type": st.one_of(_types, st.lists(_types, max_size=3)),
                "minimum": _numbers,
                "exclusiveMinimum": _numbers,
                "maximum": _numbers,
                "exclusiveMaximum": _numbers,
            }
        ),
        _of_keywords(
            {
                "type": st.just("string"),
                "pattern": st.sampled_from(["^a+$", "^<", "^(null|no)$", "(", "^[0-9]{4}-", "^$"]),
                "format": st.sampled_from(["date", "uuid", "uri", "regex", "unknown", "", 1]),
                "minLength": _counts,
                "maxLength": _counts,
            }
        ),
        _of_keywords({"type": _types, "enum": st.lists(st.one_of(_texts, _numbers), max_size=3)}),
        _of_keywords({"const": st.one_of(_texts, _numbers)}),
        _of_keywords({"anyOf": st.lists(inner, max_size=3), "description": _texts}),
        _of_keywords(
            {
                "type": st.just("array"),
                "items": inner,
                "minItems": _counts,
                "maxItems": _counts,
                "uniqueItems": st.booleans(),
            }
        ),
        _of_keywords(
            {
                "type": st.just("object"),
                "properties": st.dictionaries(names, inner, max_size=3),
                "required": st.lists(names, max_size=2),
                "additionalProperties": st.one_of(st.booleans(), inner),
                "minProperties": _counts,
                "maxProperties": _counts,
            }
        ),
        st.sampled_from(
            [{"$ref": "#/$defs/d"}, {"$ref": "#/$defs/none"}, {"x-hint": 1}, {"if": 1}]
        ),
    )


_schemas = st.recursive(st.sampled_from([True, False, {}, TEXT]), _inner, max_leaves=6)
tools = st.fixed_dictionaries(
    {"type": st.just("object"), "properties": st.dictionaries(st.sampled_from("abc"), _schemas)},
    optional={
        "required": st.lists(st.sampled_from("abcd"), max_size=2),
        "additionalProperties": st.booleans(),
        "$schema": st.sampled_from(["http://json-schema.org/draft-07/schema#", "draft", 1]),
        "$defs": st.fixed_dictionaries({"d": _schemas}),
        "minProperties": _counts,
        "maxProperties": _counts,
    },
)


def assert_facts(schema: Any, plain: PlainSchema, notation: Notation) -> None:
    """Assert that a schema compiles, and that what is known of it is true."""
    compiled = notation.compile(schema, avoid=AVOID)
    assert compiled.node.nullable == (not notation.write({}) and not plain.has_members)
    assert compiled.count(1) == 1
    assert not compiled.left_out


@given(st.one_of(tools, object_schemas()), st.sampled_from(NOTATIONS))
@examples(150)
def test_plain_schemas_compile_in_every_notation_that_can_write_them(
    schema: Any, notation: Notation
) -> None:
    plain = plain_schema(schema)
    if plain is not None and can_write(notation, plain, NotationOptions(avoid=AVOID)):
        assert_facts(schema, plain, notation)


@pytest.mark.skipif(not mcp_tool_definitions(), reason=NO_MCP_TOOLS)
def test_most_tools_of_real_servers_are_plain() -> None:
    found = [plain_schema(tool["inputSchema"]) for tool in mcp_tool_definitions()]
    assert sum(each is not None for each in found) > 0.9 * len(found)
    for index, (tool, plain) in enumerate(zip(mcp_tool_definitions(), found, strict=True)):
        notation = NOTATIONS[index % len(NOTATIONS)]
        if plain is not None and can_write(notation, plain, NotationOptions(avoid=AVOID)):
            assert_facts(tool["inputSchema"], plain, notation)


@pytest.mark.parametrize(
    "schema",
    [
        {**OBJECT, "required": ["a"], "additionalProperties": False},
        {**OBJECT, "properties": {"a": False}, "required": ["a"]},
        {**OBJECT, "properties": {"a": {"enum": []}}, "required": ["a"]},
        {**OBJECT, "properties": {"a": {"type": "integer", "minimum": 2, "maximum": 1}}, **A},
        {**OBJECT, "properties": {"a": {"type": "string", "pattern": "("}}},
        {**OBJECT, "properties": {"a": {"type": "text"}}},
        {**OBJECT, "properties": []},
        {**OBJECT, "required": "a"},
        {**OBJECT, "properties": {"a": {"$ref": "#/$defs/none"}}},
        {**OBJECT, "$schema": "https://example.com/unknown"},
        {**OBJECT, "properties": {"a": {**TEXT, "default": float("nan")}}},
        {
            **OBJECT,
            "properties": {"a": {"$ref": "#/$defs/a"}},
            "required": ["a"],
            "$defs": {
                "a": {**OBJECT, "properties": {"a": {"$ref": "#/$defs/a"}}, "required": ["a"]}
            },
        },
    ],
)
def test_refused_and_unsatisfiable_schemas_are_not_plain(schema: Any) -> None:
    assert plain_schema(schema) is None
    with pytest.raises(SchemaError):
        JSON.compile(schema)


def test_recursion_through_an_optional_property_is_plain() -> None:
    node = {**OBJECT, "properties": {"next": {"$ref": "#/$defs/node"}, "value": TEXT}}
    assert plain_schema({**OBJECT, "properties": {"a": node}, "$defs": {"node": node}})
