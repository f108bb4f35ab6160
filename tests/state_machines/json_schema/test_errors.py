"""Errors of schemas are raised at compilation, with the keyword and its JSON Pointer."""

from __future__ import annotations

import copy
from typing import Any

import pydantic
import pytest

from state_machines import (
    InvalidSchemaError,
    JsonSchemaStateMachine,
    SchemaError,
    UnsatisfiableSchemaError,
    UnsupportedSchemaError,
)
from state_machines.budgets import step_budget
from state_machines.grammar.node import EMPTY

DRAFT_4 = {"$schema": "http://json-schema.org/draft-04/schema#"}
DRAFT_7 = {"$schema": "http://json-schema.org/draft-07/schema#"}

INVALID = [
    ({"type": "strin"}, "type", "/type"),
    ({"type": ["null", "any"]}, "type", "/type"),
    ({"enum": "a"}, "enum", "/enum"),
    ({"minimum": "3"}, "minimum", "/minimum"),
    ({"maximum": None}, "maximum", "/maximum"),
    ({"exclusiveMinimum": True}, "exclusiveMinimum", "/exclusiveMinimum"),
    ({"minimum": 1, "exclusiveMinimum": 2, **DRAFT_4}, "exclusiveMinimum", "/exclusiveMinimum"),
    ({"multipleOf": 0}, "multipleOf", "/multipleOf"),
    ({"minLength": -1}, "minLength", "/minLength"),
    ({"maxLength": 1.5}, "maxLength", "/maxLength"),
    ({"pattern": 7}, "pattern", "/pattern"),
    ({"format": 1}, "format", "/format"),
    ({"minItems": None}, "minItems", "/minItems"),
    ({"uniqueItems": "yes"}, "uniqueItems", "/uniqueItems"),
    ({"prefixItems": {}}, "prefixItems", "/prefixItems"),
    ({"required": "a"}, "required", "/required"),
    ({"dependentRequired": []}, "dependentRequired", "/dependentRequired"),
    ({"properties": []}, "properties", "/properties"),
    ({"patternProperties": []}, "patternProperties", "/patternProperties"),
    ({"allOf": []}, "allOf", "/allOf"),
    ({"anyOf": {}}, "anyOf", "/anyOf"),
    ({"oneOf": True}, "oneOf", "/oneOf"),
    ({"$ref": 7}, "$ref", "/$ref"),
    ({"$ref": "#/$defs/none"}, "$ref", "/$ref"),
    ({"$ref": "#/$defs/a", "$defs": {"a": 7}}, "$ref", "/$ref"),
    ({"$ref": "http://example.com/none"}, "$ref", "/$ref"),
    ({"$schema": "http://example.com/other"}, "$schema", "/$schema"),
    ({"$schema": 7}, "$schema", "/$schema"),
    ({"dependencies": 7, **DRAFT_7}, "dependencies", "/dependencies"),
    ({"dependencies": {"a": ["b", 1]}, **DRAFT_7}, "dependencies", "/dependencies"),
    ({"dependentRequired": {"a": [1]}}, "dependentRequired", "/dependentRequired"),
    ({"$id": 5}, "$id", "/$id"),
    ({"properties": {"a": {"$id": {}}}}, "$id", "/properties/a/$id"),
    ({"$id": "http://["}, "$id", "/$id"),
    ({"id": {"type": "string"}, **DRAFT_4}, "id", "/id"),
    ({"allOf": [{"$id": None}], **DRAFT_7}, "$id", "/allOf/0/$id"),
    ({"$ref": "http://["}, "$ref", "/$ref"),
    ({"unevaluatedProperties": False, "$ref": []}, "$ref", "/$ref"),
    ({"items": False, "prefixItems": 5}, "prefixItems", "/prefixItems"),
    ({"additionalProperties": False, "properties": 5}, "properties", "/properties"),
    (
        {"additionalProperties": False, "patternProperties": []},
        "patternProperties",
        "/patternProperties",
    ),
]

NO_SCHEMA = [
    (7, ""),
    ("string", ""),
    (None, ""),
    ([], ""),
    ({1, 2}, ""),
    (b"{}", ""),
    ({"items": 7}, "/items"),
    ({"not": None}, "/not"),
    ({"properties": {"a": []}}, "/properties/a"),
    ({"anyOf": [{}, 7]}, "/anyOf/1"),
    ({"items": [{}, "x"]}, "/items/1"),
    ({"items": [{}, "x"], **DRAFT_7}, "/items/1"),
    ({"additionalProperties": "no"}, "/additionalProperties"),
    ({"if": 3}, "/if"),
]

UNSUPPORTED = [
    ({"pattern": "(a)\\1"}, "pattern", "/pattern"),
    ({"pattern": "(?<n>a)\\k<n>"}, "pattern", "/pattern"),
    (
        {"patternProperties": {"(a)\\1": {}}, "type": "object"},
        "patternProperties",
        "/patternProperties",
    ),
]


@pytest.mark.parametrize(("schema", "keyword", "pointer"), INVALID, ids=lambda v: None)
def test_malformed_keyword_is_reported_with_its_pointer(
    schema: Any, keyword: str, pointer: str
) -> None:
    with pytest.raises(InvalidSchemaError) as caught:
        JsonSchemaStateMachine(schema)
    assert (caught.value.keyword, caught.value.pointer) == (keyword, pointer)
    assert pointer in str(caught.value)


@pytest.mark.parametrize(("schema", "pointer"), NO_SCHEMA, ids=str)
def test_value_that_is_not_a_schema_is_reported_with_its_pointer(schema: Any, pointer: str) -> None:
    with pytest.raises(InvalidSchemaError) as caught:
        JsonSchemaStateMachine(schema)
    assert caught.value.pointer == pointer
    assert caught.value.keyword == (pointer.split("/")[1] if pointer else None)


@pytest.mark.parametrize(("schema", "keyword", "pointer"), UNSUPPORTED, ids=lambda v: None)
def test_unenforceable_keyword_is_reported_with_its_pointer(
    schema: Any, keyword: str, pointer: str
) -> None:
    with pytest.raises(UnsupportedSchemaError) as caught:
        JsonSchemaStateMachine(schema)
    assert (caught.value.keyword, caught.value.pointer) == (keyword, pointer)


MANY_PATTERNS = {"patternProperties": {f"x{i}": {"minimum": i} for i in range(30)}}
MANY_NAMES = {"anyOf": [{"properties": {f"u{i}": True}, "required": [f"u{i}"]} for i in range(12)]}
PLACED = [
    (
        {"properties": {"a": {"items": MANY_PATTERNS}}},
        "steps",
        "patternProperties",
        "/properties/a/items/patternProperties",
    ),
    ({"items": {"anyOf": [MANY_PATTERNS, {"type": "null"}]}}, "steps", "anyOf", "/items/anyOf"),
    (
        {"items": {"dependentSchemas": {f"p{i}": {"required": [f"q{i}"]} for i in range(3000)}}},
        "steps",
        "dependentSchemas",
        "/items/dependentSchemas",
    ),
    (
        {"properties": {"a": {**MANY_NAMES, "unevaluatedProperties": False}}},
        "cases",
        "unevaluatedProperties",
        "/properties/a/unevaluatedProperties",
    ),
    (
        {"items": {"uniqueItems": True, "minItems": 5, "items": {"type": "boolean"}}},
        "different items",
        "uniqueItems",
        "/items/uniqueItems",
    ),
]


@pytest.mark.parametrize(("schema", "what", "keyword", "pointer"), PLACED, ids=lambda v: None)
def test_exceeded_limit_is_reported_with_the_costliest_keyword(
    schema: Any, what: str, keyword: str, pointer: str
) -> None:
    with pytest.raises(UnsupportedSchemaError, match=what) as caught, step_budget(40_000):
        JsonSchemaStateMachine(schema)
    assert (caught.value.keyword, caught.value.pointer) == (keyword, pointer)


WRAPPERS: list[tuple[Any, str]] = [
    (lambda s: {"type": "object", "properties": {"a/b": s}}, "/properties/a~1b"),
    (lambda s: {"type": "object", "additionalProperties": s}, "/additionalProperties"),
    (lambda s: {"type": "object", "patternProperties": {"^x": s}}, "/patternProperties/^x"),
    (lambda s: {"type": "array", "items": s}, "/items"),
    (lambda s: {"type": "array", "prefixItems": [{}, s]}, "/prefixItems/1"),
    (lambda s: {"anyOf": [{"type": "null"}, s]}, "/anyOf/1"),
    (lambda s: {"oneOf": [{"type": "null"}, {"type": "array", "items": s}]}, "/oneOf/1/items"),
    (lambda s: {"allOf": [{"items": s}]}, "/allOf/0/items"),
    (lambda s: {"type": "array", "not": {"items": s}}, "/not/items"),
    (lambda s: {"if": {"required": ["a"]}, "then": {"properties": {"a": s}}}, "/then/properties/a"),
    (lambda s: {"if": {"required": ["a"]}, "else": s}, "/else"),
    (lambda s: {"dependentSchemas": {"a": s}}, "/dependentSchemas/a"),
    (lambda s: {"$ref": "#/$defs/x", "$defs": {"x": {"items": s}}}, "/$defs/x/items"),
    (
        lambda s: {
            "items": {"$ref": "#/$defs/x"},
            "$defs": {"x": {"items": {"$ref": "#/$defs/y"}}, "y": s},
        },
        "/$defs/y",
    ),
    (lambda s: {"properties": {"a": {"items": [s]}}, **DRAFT_7}, "/properties/a/items/0"),
    (lambda s: {"dependencies": {"a": s}, **DRAFT_7}, "/dependencies/a"),
]


@pytest.mark.parametrize(("wrap", "at"), WRAPPERS, ids=[at for _, at in WRAPPERS])
@pytest.mark.parametrize(
    ("part", "error", "keyword"),
    [
        ({"minLength": "x"}, InvalidSchemaError, "minLength"),
        ({"pattern": "(a)\\1"}, UnsupportedSchemaError, "pattern"),
    ],
)
def test_error_in_a_nested_schema_has_its_pointer(
    wrap: Any, at: str, part: Any, error: type[SchemaError], keyword: str
) -> None:
    schema = wrap(part)
    before = copy.deepcopy(schema)
    with pytest.raises(error) as caught:
        JsonSchemaStateMachine(schema)
    assert type(caught.value) is error
    assert (caught.value.keyword, caught.value.pointer) == (keyword, f"{at}/{keyword}")
    assert schema == before


@pytest.mark.parametrize(
    "wrap",
    [
        lambda s: {"contains": s},
        lambda s: {"contains": s, "maxContains": 1},
        lambda s: {"not": {"contains": s}},
        lambda s: {"not": {"items": s}},
        lambda s: {"if": {"contains": s}, "then": {"minItems": 1}},
        lambda s: {"not": {"additionalProperties": s}},
        lambda s: {"not": {"patternProperties": {"a": s, "b": {"type": "object"}}}},
        lambda s: {"unevaluatedItems": s},
        lambda s: {"unevaluatedProperties": s},
    ],
)
@pytest.mark.parametrize(
    "part",
    [
        {"pattern": "(a)\\1"},
        {"type": "object", "maxProperties": 2, "not": {"additionalProperties": {"const": 1}}},
    ],
    ids=["pattern", "maxProperties"],
)
def test_unsupported_optional_member_is_refused_at_compilation(wrap: Any, part: Any) -> None:
    try:
        machine = JsonSchemaStateMachine({"type": "object", "properties": {"p": wrap(part)}})
    except UnsupportedSchemaError as error:
        assert error.pointer.startswith("/properties/p")
        return
    # The schema is supported if only the negation of the part is needed.
    for text in ("[", '[{"', "[1, ", '{"', '{"q": {"', '{"a": {"', '{"a": ', '{"ab": [{"'):
        state = machine.start.compute_word_derivative(b'{"p": ' + text.encode())
        assert state is EMPTY or state.first_bytes


def test_unreachable_schemas_are_not_checked() -> None:
    """Definitions without a reference, and keywords that an adjacent ``$ref`` overrides."""
    defined = JsonSchemaStateMachine({"type": "null", "$defs": {"x": {"pattern": "(a)\\1"}}})
    overridden = JsonSchemaStateMachine(
        {"$ref": "#/definitions/a", "pattern": "(a)\\1", "definitions": {"a": {}}, **DRAFT_7}
    )
    assert defined.matches("null")
    assert overridden.matches('"b"')


class Person(pydantic.BaseModel):
    name: str


@pytest.mark.parametrize(
    ("given", "source"),
    [
        (Person, "Person.model_json_schema()"),
        (Person(name="Ada"), "Person.model_json_schema()"),
        (pydantic.TypeAdapter(Person), "the adapter's json_schema()"),
        (list[int], "pydantic.TypeAdapter(list[int]).json_schema()"),
        (int, "pydantic.TypeAdapter(int).json_schema()"),
    ],
)
def test_type_in_place_of_a_schema_is_refused_with_its_schema(given: Any, source: str) -> None:
    with pytest.raises(InvalidSchemaError) as caught:
        JsonSchemaStateMachine(given)
    assert caught.value.hint.startswith(f"Pass {source}. ")
    assert "response_format" in caught.value.hint


def test_constant_nested_too_deeply_is_refused() -> None:
    value: Any = 1
    for _ in range(20_000):
        value = [value]
    with pytest.raises(SchemaError):
        JsonSchemaStateMachine({"const": value})


@pytest.mark.parametrize("depth", [10, 60, 150])
def test_deeply_nested_schema_is_enforced(depth: int) -> None:
    schema: Any = {"type": "null"}
    for _ in range(depth):
        schema = {"type": "array", "items": schema, "minItems": 1}
    machine = JsonSchemaStateMachine(schema)
    assert machine.matches("[" * depth + "null" + "]" * depth)
    assert not machine.matches("[" * (depth - 1) + "null" + "]" * (depth - 1))


SHORT = {"type": "string", "minLength": 5, "maxLength": 2}


def needs(name: str, schema: Any, **others: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {name: schema}, "required": [name], **others}


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        (False, ""),
        (SHORT, ""),
        ({"allOf": [True, False]}, "/allOf/1"),
        (needs("a", False), "/properties/a"),
        (needs("a/b", needs("c", SHORT)), "/properties/a~1b/properties/c"),
        (needs("a", {"type": "array", "items": SHORT, "minItems": 1}), "/properties/a/items"),
        ({"type": "array", "prefixItems": [{}, SHORT], "minItems": 2}, "/prefixItems/1"),
        ({"type": "array", "items": [{}, SHORT], "minItems": 2, **DRAFT_7}, "/items/1"),
        ({"type": "array", "contains": needs("a", SHORT)}, "/contains/properties/a"),
        ({"$ref": "#/$defs/x", "$defs": {"x": needs("a", SHORT)}}, "/$defs/x/properties/a"),
        ({"$ref": "#/$defs/x", "$defs": {"x": SHORT}, "allOf": [True], **DRAFT_7}, "/$defs/x"),
        (
            needs(
                "n", {"$ref": "#/$defs/N"}, **{"$defs": {"N": needs("n", {"$ref": "#/$defs/N"})}}
            ),
            "/$defs/N",
        ),
        # Two parts contradict each other: the smallest schema that contains both.
        (needs("a", {"allOf": [{"type": "string"}, {"type": "null"}]}), "/properties/a"),
        (needs("a", {"anyOf": [SHORT, False]}), "/properties/a"),
        (needs("a", {"type": "array", "items": False, "minItems": 1}), "/properties/a"),
        (needs("a", {"oneOf": [True, True]}), "/properties/a"),
        (needs("a", {}, additionalProperties=False, minProperties=2), ""),
        # The empty part is not the reason, or not the only one.
        ({"type": "integer", "minimum": 2, "maximum": 1, "properties": {"a": False}}, ""),
        (needs("a", True, properties={"b": SHORT}, maxProperties=0), ""),
        (needs("a", SHORT, type=["object", "integer"], minimum=2, maximum=1), ""),
        # The pointer leads into the schema, not into the document of the reference.
        (
            needs("a", {"$ref": "#x"}, **{"$defs": {"x": {"$anchor": "x", **SHORT}}}),
            "/properties/a",
        ),
    ],
)
def test_unsatisfiable_schema_is_refused_with_its_smallest_unsatisfiable_part(
    schema: Any, pointer: str
) -> None:
    with pytest.raises(UnsatisfiableSchemaError, match="no JSON value") as caught:
        JsonSchemaStateMachine(schema)
    assert caught.value.pointer == pointer
    assert bool(caught.value.hint) == bool(pointer)
    part = schema
    for name in pointer.split("/")[1:]:
        part = part[int(name)] if isinstance(part, list) else part[name.replace("~1", "/")]
    if isinstance(part, dict):
        part = {**{key: schema[key] for key in ("$defs", "$schema") if key in schema}, **part}
    with pytest.raises(UnsatisfiableSchemaError):
        JsonSchemaStateMachine(part)
