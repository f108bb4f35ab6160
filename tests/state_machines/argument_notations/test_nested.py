"""Arguments as nested elements, whose closing tags repeat the names."""

from __future__ import annotations

import json
import re
from random import Random
from typing import Any

import pytest
from call_walks import a_walk, calls_in
from hypothesis import assume, given
from hypothesis import strategies as st
from judging import Judge
from schema_strategies import examples, object_schemas, schemas

from state_machines import StateMachine
from state_machines.argument_notations.nested import MINIMAX_M3_XML
from state_machines.errors import SchemaError, UnsupportedSchemaError
from state_machines.tool_calls import FORMATS, ToolSignature

MARK = MINIMAX_M3_XML.mark
TREE = {
    "type": "object",
    "properties": {"tree": {"$ref": "#/$defs/tree"}},
    "$defs": {
        "tree": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "trees": {"type": "array", "items": {"$ref": "#/$defs/tree"}},
            },
        }
    },
}


def of_a(schema: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": schema}, "required": ["a"]}


def matches(schema: Any, text: str) -> bool:
    return StateMachine(MINIMAX_M3_XML.compile(schema).node).matches(text.replace("@", MARK))


@pytest.mark.parametrize(
    ("schema", "value", "text"),
    [
        ({"type": "string"}, " two\nlines <b> ", " two\nlines <b> "),
        ({"type": "string"}, "", ""),
        ({"type": "string"}, "null", "null"),
        ({"type": ["string", "null"]}, None, "null"),
        ({"type": ["string", "integer"]}, 42, "42"),
        ({"type": ["string", "integer"]}, "x42", "x42"),
        ({"type": "boolean"}, True, "true"),
        (
            {"type": "array", "items": {"type": "number"}},
            [1, 2.5],
            "@<item>1@</item>@<item>2.5@</item>",
        ),
        ({"type": "array", "items": {"type": "number"}}, [], ""),
        ({"type": "object", "properties": {"b": {"type": "null"}}}, {"b": None}, "@<b>null@</b>"),
        ({"type": "object", "properties": {"b": {}}}, {}, ""),
        ({}, "42", "42"),
    ],
)
def test_values_are_written_and_read(schema: Any, value: Any, text: str) -> None:
    compiled = MINIMAX_M3_XML.compile(of_a(schema))
    written = MINIMAX_M3_XML.write({"a": value})
    assert written == f"@<a>{text}@</a>".replace("@", MARK)
    assert StateMachine(compiled.node).matches(written)
    assert compiled.read(written) == {"a": value}
    assert MINIMAX_M3_XML.end(f"{written}{MARK}</invoke>", 0) == len(written)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "string"}, "x@x"),
        ({"type": ["string", "integer"]}, "4 2"),
        ({"type": ["string", "integer"]}, "\u0663"),
        ({"type": ["string", "null"]}, "NULL"),
        ({"type": ["string", "array"]}, ""),
        ({"type": "integer"}, "x"),
        ({"type": "array", "items": {"type": "null"}}, "@<b>null@</b>"),
        ({"type": "object", "properties": {"b": {"type": "null"}}}, "@<b>null@</c>"),
        ({"type": "object", "properties": {"b": {"type": "null"}}}, "@<c>null@</c>"),
    ],
)
def test_texts_with_another_reading_are_excluded(schema: Any, text: str) -> None:
    assert not matches(of_a(schema), f"@<a>{text}@</a>")


def test_recursive_schemas_nest() -> None:
    leaf = {"name": "x", "trees": []}
    value = {"tree": {"trees": [leaf, {"trees": [leaf]}]}}
    compiled = MINIMAX_M3_XML.compile(TREE)
    written = MINIMAX_M3_XML.write(value)
    assert StateMachine(compiled.node).matches(written)
    assert compiled.read(written) == value
    assert not StateMachine(compiled.node).matches(written.replace("</trees>", "</tree>", 1))


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": ["object", "array"]},
        {"type": "array", "uniqueItems": True, "items": {"type": "string"}},
        {"const": f"x{MARK}"},
    ],
)
def test_values_without_a_text_are_refused_by_name(schema: Any) -> None:
    with pytest.raises(UnsupportedSchemaError) as caught:
        MINIMAX_M3_XML.compile(of_a(schema))
    assert str(caught.value.pointer).startswith("/properties/a")


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "object"}, None),
        ({"type": ["object", "array"]}, None),
        ({"type": "array", "uniqueItems": True, "items": {"type": "string"}}, None),
        ({"type": "array", "items": {"type": "object"}}, []),
        ({"type": ["integer", "object"]}, 5),
    ],
)
def test_optional_values_without_a_text_are_left_out(schema: Any, value: Any) -> None:
    parameters = {"type": "object", "properties": {"a": schema, "b": {"type": "integer"}}}
    compiled = MINIMAX_M3_XML.compile(parameters)
    assert [error.pointer for error in compiled.left_out] == ["/properties/a"]
    admitted = {"b": 1} if value is None else {"a": value, "b": 1}
    written = MINIMAX_M3_XML.write(admitted)
    assert StateMachine(compiled.node).matches(written)
    assert compiled.read(written) == admitted
    assert not StateMachine(compiled.node).matches(f"{MARK}<a>{MARK}<x>1{MARK}</x>{MARK}</a>")


def test_nested_properties_have_aliases() -> None:
    parameters = of_a({"type": "object", "properties": {"b>": {"type": "string"}}})
    compiled = MINIMAX_M3_XML.compile(parameters)
    written = "@<a>@<b_>x@</b_>@</a>".replace("@", MARK)
    assert StateMachine(compiled.node).matches(written)
    assert compiled.read(written) == {"a": {"b>": "x"}}
    assert not compiled.left_out


@pytest.mark.parametrize("text", ["<a>", "@<a>x", "@<a>x@</b>", "@<a", "@<a>@<b>x@</b>y@</a>", "x"])
def test_other_texts_are_not_read(text: str) -> None:
    with pytest.raises(ValueError, match=r"element|tag"):
        MINIMAX_M3_XML.compile(TREE).read(text.replace("@", MARK))


def test_deep_texts_are_not_read() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        MINIMAX_M3_XML.compile(TREE).read(f"{MARK}<tree>" * 5000)


def tree_of(text: str) -> Any:
    """Return the members of a text, with an independent reader: by splitting at the marks."""
    top: list[Any] = []
    stack: list[Any] = [("", top, [])]
    for piece in text.split(MARK)[1:]:
        closing, name, content = re.fullmatch(r"<(/?)([^>]*)>(.*)", piece, re.DOTALL).groups()  # type: ignore[union-attr]
        if closing:
            opened, members, texts = stack.pop()
            assert opened == name
            assert members == [] or "".join(texts) == ""
            stack[-1][1].append((name, members or "".join(texts)))
            assert content == ""
        else:
            stack.append((name, [], [content]))
    assert len(stack) == 1
    return top


def is_rendering(element: Any, value: Any) -> bool:
    """Return whether an element is the rendering of a value by the chat template."""
    if isinstance(value, dict):
        names = [name for name, _ in element]
        return names == [*value] and all(is_rendering(each, value[name]) for name, each in element)
    if isinstance(value, list):
        return [name for name, _ in element] == ["item"] * len(value) and all(
            is_rendering(each, item) for (_, each), item in zip(element, value, strict=True)
        )
    return bool(element == value if isinstance(value, str) else json.loads(element) == value)


@given(
    schema=st.one_of(
        object_schemas(), schemas(depth=1).map(of_a), schemas(depth=2).map(lambda s: of_a(s))
    ),
    seed=st.integers(0, 2**32),
)
@examples(30)
def test_random_arguments_satisfy_the_schema_and_are_read_back(schema: Any, seed: int) -> None:
    part = FORMATS["minimax_m3"].calls([ToolSignature("f", schema)])
    try:
        pieces = a_walk(part, Random(seed))
    except (SchemaError, OverflowError):
        assume(False)
    (call, *_) = calls_in(pieces)
    assert Judge(schema).admits(call.arguments), (schema, call)
    written = b"".join(piece.text for piece in pieces).decode()
    first = written.split('<invoke name="f">', 1)[1].split(f"{MARK}</invoke>", 1)[0]
    assert is_rendering(tree_of(first), call.arguments)
