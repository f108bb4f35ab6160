"""Tools: what they are made of, how they are called, which schemas they have."""

from __future__ import annotations

import asyncio
import copy
import math
import threading  # noqa: F401 - named by an annotation below
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pydantic
import pytest
from object_schemas import closed_object

from proxy_engine import InvalidToolError, ToolArgumentsError, ToolSchemaError
from proxy_engine.tools import (
    Tool,
    resolve_tool,
    resolve_tools,
    tool_from_dict,
    tool_from_type,
    tool_schema_errors,
)
from state_machines import JsonSchemaStateMachine
from state_machines.errors import SchemaError, UnsupportedSchemaError

SCHEMA = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
DEFINITION = {
    "type": "function",
    "function": {"name": "f", "description": "F.", "parameters": SCHEMA, "strict": True},
}


class Book(pydantic.BaseModel):
    """Order a book.

    Attributes:
        title: What is on its cover.
    """

    title: str
    copies: int = pydantic.Field(1, ge=1, description="how many")

    @pydantic.field_validator("title")
    @classmethod
    def _not_blank(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("blank")
        return value


@dataclass
class Point:
    x: int
    y: int = 0


class Double(pydantic.BaseModel):
    n: int

    def __call__(self) -> int:
        return 2 * self.n


def greet(name: str) -> str:
    """Greet."""
    return f"hello {name}"


def test_openai_dicts_of_both_forms() -> None:
    flat = {"type": "function", **DEFINITION["function"]}  # type: ignore[dict-item]
    tool = tool_from_dict(DEFINITION)
    assert tool == tool_from_dict(flat) == Tool("f", "F.", SCHEMA, True)
    assert tool.to_openai() == DEFINITION
    none = tool_from_dict({"type": "function", "function": {"name": "f", "parameters": None}})
    assert none.parameters == {"type": "object", "properties": {}, "additionalProperties": False}
    assert tool_from_dict(tool.to_openai()) == tool


@pytest.mark.parametrize(
    "definition",
    [
        {"name": "f", "description": "F.", "parameters": SCHEMA},
        {"name": "f", "description": "F.", "input_schema": SCHEMA},
        {"type": "custom", "name": "f", "description": "F.", "input_schema": SCHEMA},
        {"name": "f", "description": "F.", "inputSchema": SCHEMA, "annotations": {"title": "T"}},
        {"name": "f", "description": "F.", **SCHEMA},
        {"type": "function", "function": {"name": "f", "description": "F.", **SCHEMA}},
        {
            "type": "function",
            "function": {
                "type": "function",
                "name": "f",
                "description": "F.",
                "parameters": SCHEMA,
                "strict": None,
            },
            "cache_control": {"type": "ephemeral"},
        },
    ],
)
def test_dicts_of_other_apis(definition: dict[str, Any]) -> None:
    copied = copy.deepcopy(definition)
    assert tool_from_dict(definition) == Tool("f", "F.", SCHEMA)
    assert definition == copied


def test_parameters_are_a_copy() -> None:
    given: dict[str, Any] = {"type": "object", "properties": {}}
    tool = Tool("f", parameters=given)
    given["properties"]["x"] = {}
    tool.to_openai()["function"]["parameters"]["properties"]["y"] = {}
    assert tool.parameters == {"type": "object", "properties": {}}


def test_a_dict_with_a_function() -> None:
    tool = tool_from_dict(DEFINITION, lambda x: x + 1)
    assert tool.invoke({"x": 1}) == 2
    for arguments in ({}, {"x": "1"}, {"x": float("nan")}):
        with pytest.raises(ToolArgumentsError):
            tool.invoke(arguments)
    with pytest.raises(InvalidToolError, match="no function"):
        tool_from_dict(DEFINITION).invoke({"x": 1})


def test_a_model_is_a_tool() -> None:
    tool = tool_from_type(Book)
    assert (tool.name, tool.description, tool.function) == ("Book", "Order a book.", None)
    assert tool.parameters == closed_object(
        ["title"],
        title={"type": "string", "description": "What is on its cover."},
        copies={
            "type": "integer",
            "default": 1,
            "minimum": 1,
            "description": "how many",
        },
    )
    assert tool.validate({"title": "T"}) == Book(title="T")
    with pytest.raises(ToolArgumentsError, match="blank"):
        tool.validate({"title": " "})
    assert tool_from_type(Book, function=lambda book: book.title).invoke({"title": "T"}) == "T"


def test_a_dataclass_and_a_model_that_can_be_called_are_tools() -> None:
    tool = tool_from_type(Point, function=lambda point: point)
    assert tool.description == ""
    assert tool.invoke({"x": 1}) == Point(1)
    with pytest.raises(ToolArgumentsError):
        tool.invoke({"x": "one"})
    assert tool_from_type(Double).invoke({"n": 2}) == 4
    with pytest.raises(InvalidToolError):
        tool_from_type(Book).invoke({"title": "T"})


async def later(x: int) -> int:
    await asyncio.sleep(0)
    return x + 1


def test_async_functions() -> None:
    tool, sync_tool = resolve_tools([later, greet])
    assert tool.invoke({"x": 1}) == 2

    async def inside() -> Any:
        # As in a notebook, where an event loop is running already.
        return (
            tool.invoke({"x": 1}),
            await tool.ainvoke({"x": 2}),
            await sync_tool.ainvoke({"name": "n"}),
        )

    assert asyncio.run(inside()) == (2, 3, "hello n")


def test_exceptions_of_a_function_propagate() -> None:
    async def fails() -> None:
        raise LookupError("gone")

    async def inside() -> None:
        resolve_tool(fails).invoke({})

    with pytest.raises(LookupError):
        resolve_tool(fails).invoke({})
    with pytest.raises(LookupError):
        asyncio.run(inside())


NESTED: list[Any] = []
for _ in range(200_000):
    NESTED = [NESTED]


def with_hint(hint: str) -> Any:
    """A function whose parameter has an annotation that is evaluated late."""

    def hinted(x: Any) -> None: ...

    hinted.__annotations__["x"] = hint
    return hinted


@pytest.mark.parametrize(
    ("given", "index", "name", "said"),
    [
        ([greet, Tool("greet")], 1, "greet", "same name.*It is tool 0"),
        ([greet, 5], 1, None, "5 is not a tool"),
        ([int], 0, None, "class int"),
        ([{"type": "retrieval"}], 0, None, "retrieval"),
        ([{"name": "f"}], 0, "f", "without a type"),
        ([{"type": "custom", "name": "f", "format": "lark"}], 0, "f", "custom"),
        ([{"type": "custom", "name": "f", "parameters": {}}], 0, "f", "custom"),
        ([{"type": "array", "name": "f", "parameters": {}}], 0, "f", "array"),
        ([{"function": {"name": "f"}}], 0, "f", "without a type"),
        ([{"type": "function", "function": {"name": "f", "type": "x"}}], 0, "f", "'x'"),
        ([{"type": "function"}], 0, None, "has no name"),
        ([{"type": "function", "function": "f"}], 0, None, "not an object"),
        ([{"name": "f", "parameters": {}, "input_schema": {}}], 0, "f", "input_schema"),
        ([{"type": "function", "function": {"name": "a b"}}], 0, "a b", "not a valid name"),
        ([{"type": "function", "function": {"name": "x" * 129}}], 0, "x" * 129, "not a valid name"),
        ([{"type": "function", "function": {"name": 5}}], 0, None, "not a valid name"),
        ([{"type": "function", "name": "f", "strict": "yes"}], 0, "f", "strict"),
        ([{"type": "function", "name": "f", "description": 1}], 0, "f", "description"),
        ([{"type": "function", "name": "f", "parameters": []}], 0, "f", "not a JSON Schema"),
        ([{"type": "function", "name": "f", "parameters": {"a": {1}}}], 0, "f", "not JSON"),
        ([{"type": "function", "name": "f", "parameters": {"type": "array"}}], 0, "f", "/type"),
        ([{"type": "function", "name": "\ud800"}], 0, "\ud800", "not a valid name"),
        ([{"type": "function", "name": "f", "description": "\ud800"}], 0, "f", "surrogate"),
        ([{"type": "function", "name": "f", "parameters": {"\ud800": 1}}], 0, "f", "not JSON"),
        ([{"type": "function", "name": "f", "parameters": {"a": NESTED}}], 0, "f", "not JSON"),
        ([{"type": "function", "name": "f", "parameters": {"a": math.inf}}], 0, "f", "not JSON"),
        ([{"type": "function", "name": "f", "parameters": {"type": 5}}], 0, "f", "not of type 5"),
        ([{"type": NESTED, "name": "f"}], 0, "f", "not known"),
        ([{"type": np.arange(2), "name": "f"}], 0, "f", "not known"),
        ([NESTED], 0, None, "is not a tool"),
        ([lambda x: x], 0, "<lambda>", "not a valid name"),
        ([with_hint("int |")], 0, "hinted", "signature cannot be read"),
        ([with_hint("1 / 0")], 0, "hinted", "signature cannot be read"),
        ([with_hint("threading.Lock")], 0, "hinted", "pydantic has no schema"),
        (greet, None, None, "should be a list"),
        ("greet", None, None, "should be a list"),
        (DEFINITION, None, None, "should be a list"),
    ],
)
def test_lists_that_are_refused(given: Any, index: int | None, name: str | None, said: str) -> None:
    with pytest.raises(InvalidToolError, match=said) as caught:
        resolve_tools(given)
    assert (caught.value.index, caught.value.tool) == (index, name)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (SCHEMA, SCHEMA),
        ({}, {"type": "object"}),
        ({"type": ["null", "object"]}, {"type": "object"}),
        (
            {"$defs": {"A": SCHEMA}, "$ref": "#/$defs/A"},
            {"$defs": {"A": SCHEMA}, "$ref": "#/$defs/A", "type": "object"},
        ),
        (
            {
                "$schema": "http://json-schema.org/draft-07/schema#",
                "definitions": {"A": SCHEMA},
                "$ref": "#/definitions/A",
                "minProperties": 9,
            },
            {
                "$schema": "http://json-schema.org/draft-07/schema#",
                "definitions": {"A": SCHEMA},
                "type": "object",
                "allOf": [{"$ref": "#/definitions/A"}],
            },
        ),
    ],
)
def test_arguments_are_objects(schema: Any, expected: Any) -> None:
    assert Tool("f", parameters=schema).arguments_schema == expected


def test_a_refused_schema_names_tool_and_pointer() -> None:
    tool = Tool("f", parameters={"properties": {"x": {"$dynamicRef": "#nowhere"}}})
    with pytest.raises(ToolSchemaError) as caught, tool_schema_errors(tool, 3):
        JsonSchemaStateMachine(tool.arguments_schema)
    error = caught.value
    assert isinstance(error, SchemaError)
    assert isinstance(error, InvalidToolError)
    assert isinstance(error.__cause__, SchemaError)
    assert (error.tool, error.index) == ("f", 3)
    assert error.pointer.startswith("/properties/x")
    assert "#/properties/x" in str(error)
    assert "tool 3 'f'" in str(error)
    assert error.at(4).index == 4
    assert error.at(4).pointer == error.pointer
    assert error.located("/a", "b").pointer == "/a"


def test_other_errors_of_schemas_pass_once() -> None:
    with pytest.raises(ToolSchemaError) as caught, tool_schema_errors(Tool("f")):
        raise UnsupportedSchemaError("no", hint="Why.")
    assert not caught.value.is_located
    assert caught.value.hint == "Why."


class Wait(pydantic.BaseModel):
    seconds: int
    then: Callable[[], Any] = dict


def test_property_that_no_json_is_read_as_is_left_out_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="leave out the property 'then'"):
        tool = resolve_tool(Wait)
    assert list(tool.parameters["properties"]) == ["seconds"]
