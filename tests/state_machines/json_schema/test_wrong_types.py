"""For a value of any type of any keyword, a schema compiles or raises an error with a pointer."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from itertools import product
from random import Random
from typing import Any

import pytest
from referencing import Registry
from referencing.jsonschema import DRAFT202012
from schema_checks import URIS

from state_machines import InvalidSchemaError, JsonSchemaStateMachine, ProxyError, SchemaError
from state_machines.grammar.node import EMPTY, Node
from state_machines.grammar.symbols import bytes_in
from state_machines.json_schema.reader.keywords import KEYWORDS

JSON_VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    2.0,
    1.5,
    1e308,
    -1e308,
    10**400,
    "",
    "a",
    "#",
    "#/no~where/%F",
    "http://[",
    "\ud800",
    "(",
    [],
    [None],
    ["a", 1, "\ud800"],
    [[], {}],
    {},
    {"a": None},
    {"": {"a": []}},
    {"\ud800": True, "a": False},
    {"(": "http://["},
    {"$ref": "#"},
    {"$ref": 5, "$id": 7, "id": {}},
]

PLACES = [
    lambda schema: schema,
    lambda schema: {"properties": {"p": schema}, "required": ["p"]},
    lambda schema: {"items": schema},
    lambda schema: {"$defs": {"d": schema}, "$ref": "#/$defs/d"},
    lambda schema: {"allOf": [schema, {}]},
    lambda schema: {"not": schema},
    lambda schema: {"unevaluatedProperties": False, "allOf": [schema]},
]

READ = {keyword.name for keyword in KEYWORDS if keyword.read is not None}
KEYWORD_NAMES = sorted({keyword.name for keyword in KEYWORDS})

BESIDE = {
    "then": {"if": {"type": "object"}},
    "else": {"if": {"type": "object"}},
    "minContains": {"contains": {}},
    "maxContains": {"contains": {}},
    "properties": {"additionalProperties": False},
    "patternProperties": {"additionalProperties": False, "unevaluatedProperties": False},
    "prefixItems": {"items": False, "unevaluatedItems": False},
    "additionalItems": {"items": [{}]},
    "exclusiveMinimum": {"minimum": 1},
    "exclusiveMaximum": {"maximum": 1},
    "$recursiveAnchor": {"$recursiveRef": "#"},
    "$dynamicAnchor": {"$dynamicRef": "#a"},
    "$anchor": {"$ref": "#a"},
}


def cases() -> Iterator[tuple[str, Any, str]]:
    """Yield keyword, schema and draft for each keyword with values of all types."""
    for keyword, value, draft in product(KEYWORD_NAMES, JSON_VALUES, URIS):
        number = zlib.crc32(repr((keyword, value, draft)).encode())
        if (zlib.crc32(repr((keyword, value)).encode()) + list(URIS).index(draft)) % 5:
            continue  # One of the five drafts.
        beside = BESIDE.get(keyword, {}) if number % 3 else {}
        schema = {**beside, keyword: value} if number % 2 else {keyword: value, **beside}
        place = PLACES[number // 7 % len(PLACES)]
        yield keyword, {"$schema": URIS[draft], **place(schema)}, draft


def walk(start: Node, random: Random, steps: int = 20) -> None:
    """Follow random bytes; every state must accept or have a transition."""
    node = start
    for _ in range(steps):
        assert node is not EMPTY
        assert node.nullable or node.transitions, "a state without a byte"
        if not node.transitions:
            return
        symbols, node = random.choice(node.transitions)
        assert bytes_in(symbols)


@pytest.mark.parametrize("draft", URIS)
def test_schema_compiles_or_its_error_has_a_pointer(draft: str) -> None:
    random = Random(5)
    for count, (keyword, schema, case_draft) in enumerate(cases()):
        if case_draft != draft:
            continue
        try:
            start = JsonSchemaStateMachine(schema).start
        except SchemaError as error:
            assert error.is_located, (keyword, schema)
            assert str(error)
            continue
        assert start is not EMPTY
        if keyword not in READ or count % 4:
            continue
        try:
            walk(start, random)
        except ProxyError:
            pass
        except AssertionError as error:
            raise AssertionError(f"{error}: {schema!r}") from error


class _Odd:
    pass


NO_JSON: list[Any] = [
    float("nan"),
    float("inf"),
    {1, 2},
    (1, object()),
    _Odd(),
    b"bytes",
    10**5000,
    {(1, 2): 3},
    {_Odd(): 1},
]


@pytest.mark.parametrize("value", NO_JSON, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("keyword", ["enum", "properties", "x"])
def test_schema_that_is_not_json_is_refused(keyword: str, value: Any) -> None:
    for schema in ({keyword: value}, {"properties": {"p": {keyword: [value]}}}):
        with pytest.raises(InvalidSchemaError, match="not JSON"):
            JsonSchemaStateMachine(schema)


def test_self_referential_structure_is_refused() -> None:
    schema: dict[str, Any] = {"properties": {}}
    schema["properties"]["p"] = schema
    with pytest.raises(SchemaError):
        JsonSchemaStateMachine(schema)


def test_keys_that_are_not_strings_are_converted_as_by_json() -> None:
    machine = JsonSchemaStateMachine(
        {"properties": {1: {}, None: {}}, "additionalProperties": False, "minProperties": 2}
    )
    assert machine.matches('{"1": 0, "null": 0}')


@pytest.mark.parametrize("registry", [5, {}, [], "http://example.com"])
def test_registry_of_another_type_is_refused(registry: Any) -> None:
    with pytest.raises(InvalidSchemaError, match="registry"):
        JsonSchemaStateMachine(True, registry=registry)


@pytest.mark.parametrize("contents", [5, None, [], "x", {"$id": 5}, {"properties": 5}])
def test_reference_to_a_document_that_is_not_a_schema_is_refused(contents: Any) -> None:
    resource = DRAFT202012.create_resource(contents)
    registry: Registry[Any] = Registry().with_resource("http://x/", resource)
    for reference in ("http://x/", "http://x/#a", "http://x/#/properties"):
        for keyword in ("$ref", "$dynamicRef"):
            try:
                JsonSchemaStateMachine({keyword: reference}, registry=registry)
            except SchemaError as error:
                assert error.is_located


ODD_REFERENCES: list[Any] = [
    *("%", "#/%zz", "//[", "http://a:b:c/", "a b", "\x00", "#\n", "http://[::1", "mailto:x"),
    *("#/allOf/x", "#/allOf/9", "#/allOf/-1", "#/title", "#/title/0", "#/enum/0/a", "#/$defs"),
    *("#/$defs/%25", "#/$defs/~2", "#/$defs/~", "#a", "#5", "urn:x:y#a", "http://x/#a", "?", "./"),
    *("#", "#/$ref", "#/allOf/0", "#/", "/", "\ud800#\ud800", "#" + "/a" * 5_000),
]


@pytest.mark.parametrize("draft", URIS)
def test_reference_of_any_spelling_is_resolved_or_refused(draft: str) -> None:
    for reference in ODD_REFERENCES:
        for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
            schema = {
                "$schema": URIS[draft],
                "$defs": {"%": {}, "a": {"$anchor": 5, "$dynamicAnchor": [], "$id": "http://x/a"}},
                "allOf": [{keyword: reference}],
                "title": "x",
                "enum": [1],
            }
            for identified in (schema, {**schema, "$id": "urn:x:y"}, {**schema, "id": "http://x/"}):
                try:
                    JsonSchemaStateMachine(identified)
                except SchemaError as error:
                    assert error.is_located
                    assert len(str(error)) < 600
