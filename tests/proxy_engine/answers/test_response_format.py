"""Every form of response format, as a machine and a parser."""

from __future__ import annotations

import dataclasses
import enum
import json
from typing import Any, Literal

import pydantic
import pytest
from typing_extensions import TypedDict

from proxy_engine import Fenced, InvalidResponseFormatError, OutputValidationError
from proxy_engine.answers.response_format import ResponseFormatCompiler
from state_machines import RegexStateMachine
from state_machines.errors import ProxyError
from state_machines.root import RootStateMachine, StructuralTagPart, Text
from state_machines.tool_calls import Delimiters


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Model(pydantic.BaseModel):
    n: int


class Open(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    n: int


class Node(pydantic.BaseModel):
    value: int
    children: list[Node] = pydantic.Field(default=[], max_length=2)


@dataclasses.dataclass
class Data:
    n: int


class Typed(TypedDict):
    n: int


OBJECT = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.mark.parametrize(
    ("given", "text", "parsed"),
    [
        (OBJECT, '{"n": 1}', {"n": 1}),
        (True, "[1, null]", [1, None]),
        ({"type": "json_object"}, "{}", {}),
        ({"type": "json_schema", "json_schema": {"name": "x", "schema": OBJECT}}, '{"n": 1}', {"n": 1}),
        (Model, '{"n": 1}', Model(n=1)),
        (Data, '{"n": 1}', Data(n=1)),
        (Typed, '{"n": 1}', {"n": 1}),
        (Node, '{"value": 1, "children": [{"value": 2, "children": []}]}', Node(value=1, children=[Node(value=2)])),
        (list[int], "[1, 2]", [1, 2]),
        (dict[str, bool], '{"a": true}', {"a": True}),
        (int | None, "null", None),
        (Literal["a", "b"], '"b"', "b"),
        (Colour, '"red"', Colour.RED),
        (pydantic.TypeAdapter(tuple[int, str]), '[1, "x"]', (1, "x")),
        (RegexStateMachine("a+"), "aaa", "aaa"),
    ],
)  # fmt: skip
def test_the_machine_takes_what_the_parser_understands(given: Any, text: str, parsed: Any) -> None:
    compiled = ResponseFormatCompiler().compile(given)
    assert compiled.machine is not None
    assert compiled.machine.matches(text)
    assert not compiled.machine.matches(text + "!")
    assert compiled.parse(text) == parsed
    assert type(compiled.parse(text)) is type(parsed)


TAG = {
    "type": "tag",
    "begin": "<call>",
    "content": {"type": "json_schema", "json_schema": OBJECT},
    "end": "</call>",
}


@pytest.mark.parametrize(
    "given",
    [
        {"type": "structural_tag", "format": TAG},
        {
            "type": "structural_tag",
            "structures": [{"begin": "<call>", "schema": OBJECT, "end": "</call>"}],
            "triggers": ["<call>"],
        },
    ],
)
def test_structural_tag_is_a_part_whose_value_is_its_text(given: Any) -> None:
    compiler = ResponseFormatCompiler()
    part = compiler.compile(given).part
    assert isinstance(part, StructuralTagPart)
    machine = RootStateMachine(part)
    assert machine.matches('<call>{"n":1}</call>')
    assert not machine.matches('<call>{"n":"x"}</call>')
    assert part.parse("<call>") == "<call>"
    assert compiler.compile(dict(given)).part is part


@pytest.mark.parametrize("grammar", ['root ::= "ab"', 'start: "ab"'])
def test_grammar_is_read_in_either_notation(grammar: str) -> None:
    given = {"type": "grammar", "grammar": grammar}
    compiler = ResponseFormatCompiler()
    machine = compiler.compile(given).machine
    assert machine is not None
    assert machine.matches("ab")
    assert compiler.compile(dict(given)).machine is machine
    with pytest.raises(InvalidResponseFormatError, match="string 'grammar'"):
        compiler.compile({"type": "grammar", "grammar": None})
    with pytest.raises(InvalidResponseFormatError, match="'syntax'"):
        compiler.compile({**given, "syntax": "lark"})


def test_unknown_type_of_a_response_format_lists_the_known_ones() -> None:
    with pytest.raises(InvalidResponseFormatError, match="'json_shema'") as caught:
        ResponseFormatCompiler().compile({"type": "json_shema", "json_schema": {"schema": OBJECT}})
    for name in ("json_object", "json_schema", "structural_tag", "text", "integer"):
        assert name in caught.value.hint


@pytest.mark.parametrize("given", [None, {"type": "text"}])
def test_free_text(given: Any) -> None:
    compiled = ResponseFormatCompiler().compile(given)
    assert compiled.machine is None
    assert compiled.parse("anything") is None


@pytest.mark.parametrize("given", [Model, Data, Typed])
def test_properties_that_would_be_dropped_are_not_written(given: Any) -> None:
    machine = ResponseFormatCompiler().compile(given).machine
    assert machine is not None
    assert not machine.matches('{"n": 1, "m": 2}')


def test_extra_properties_that_are_kept_may_be_written() -> None:
    machine = ResponseFormatCompiler().compile(Open).machine
    assert machine is not None
    assert machine.matches('{"n": 1, "m": 2}')


@pytest.mark.parametrize("text", ["", "{", '{"n": "1"}', "[]", '{"n": 1} x'])
def test_parser_validates_the_output(text: str) -> None:
    with pytest.raises(OutputValidationError) as caught:
        ResponseFormatCompiler().compile(OBJECT).parse(text)
    assert caught.value.text == text


def test_schemas_that_differ_in_order_are_different() -> None:
    properties = {"a": {"const": 1}, "b": {"const": 2}}
    schema = {"type": "object", "required": ["a", "b"], "properties": properties}
    other = {**schema, "properties": dict(reversed(properties.items()))}
    compiler = ResponseFormatCompiler()
    one, two = (compiler.compile(each).machine for each in (schema, other))
    assert one is not None
    assert two is not None
    assert one.matches(json.dumps({"a": 1, "b": 2}))
    assert two.matches(json.dumps({"b": 2, "a": 1}))


def test_changing_the_schema_later_changes_nothing() -> None:
    schema: dict[str, Any] = {"const": 1}
    compiler = ResponseFormatCompiler()
    compiler.compile(schema)
    schema["const"] = 2
    compiled = compiler.compile({"const": 1})
    assert compiled.machine is not None
    assert compiled.machine.matches("1")


def test_the_refused_key_of_a_json_schema_is_named() -> None:
    given = {"type": "json_schema", "json_schema": {"schema": True, "foo": 1}}
    with pytest.raises(ProxyError, match="its 'json_schema' has no 'foo'"):
        ResponseFormatCompiler().compile(given)


FENCE = Delimiters("```json\n", "\n```")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (Fenced(OBJECT), FENCE),
        (Fenced(Model, "<", ""), Delimiters("<", "")),
        ({"type": "json_object", "delimiters": ["a", "b"]}, Delimiters("a", "b")),
        ({"type": "json_object", "delimiters": None}, Delimiters()),
        (
            {"type": "json_schema", "json_schema": {"schema": OBJECT}, "delimiters": ["", "b"]},
            Delimiters("", "b"),
        ),
        (
            {"type": "json_schema", "json_schema": {"schema": OBJECT, "delimiters": ["a", "b"]}},
            Delimiters("a", "b"),
        ),
    ],
)
def test_delimiters_stand_around_the_output(given: Any, expected: Delimiters) -> None:
    compiled = ResponseFormatCompiler().compile(given)
    assert compiled.delimiters == expected
    assert compiled.machine is not None
    assert compiled.machine.matches('{"n": 1}')
    assert compiled.parse('{"n": 1}') in ({"n": 1}, Model(n=1))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (Fenced(None), "only structured output"),
        (Fenced(Text()), "only structured output"),
        (Fenced(Fenced(OBJECT)), "only structured output"),
        (Fenced(OBJECT, begin=3), "a delimiter is a text"),  # type: ignore[arg-type]
        (Fenced(OBJECT, end="\ud800"), "a delimiter is a text"),
        ({"type": "json_object", "delimiters": "```"}, "two texts"),
        ({"type": "json_object", "delimiters": ["```"]}, "two texts"),
        ({"type": "text", "delimiters": ["a", "b"]}, "has no 'delimiters'"),
    ],
)
def test_invalid_delimiters_are_refused(given: Any, said: str) -> None:
    with pytest.raises(InvalidResponseFormatError, match=said):
        ResponseFormatCompiler().compile(given)


def test_strict_models_read_every_integer() -> None:
    """A strict pydantic model refuses ``40.0`` for an integer, so answers contain no such text."""

    class Strict(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(strict=True)
        count: int

    for response_format in (Strict, Strict.model_json_schema()):
        compiled = ResponseFormatCompiler().compile(response_format)
        assert compiled.machine is not None
        assert not compiled.machine.matches('{"count": 40.0}')
        assert compiled.machine.matches('{"count": 40}')
    assert ResponseFormatCompiler().compile(Strict).parse('{"count": 40}') == Strict(count=40)
