"""References to JSON Pointers, anchors, identifiers and documents; recursion; drafts."""

from __future__ import annotations

from typing import Any

import pytest
from referencing import Registry, Resource
from schema_checks import URIS, assert_texts

from state_machines import InvalidSchemaError, JsonSchemaStateMachine, UnsatisfiableSchemaError
from state_machines.budgets import step_budget

TREE = {
    "type": "object",
    "properties": {"v": {"type": "integer"}, "kids": {"type": "array", "items": {"$ref": "#"}}},
    "required": ["v"],
    "additionalProperties": False,
}


def test_references_into_a_registry_are_resolved() -> None:
    address = {
        "type": "object",
        "properties": {"zip": {"$ref": "parts#/$defs/zip"}},
        "required": ["zip"],
    }
    parts = {"$schema": URIS["2020-12"], "$defs": {"zip": {"type": "string", "pattern": "^\\d+$"}}}
    registry = Registry().with_resources(
        [
            (
                "http://example.com/address",
                Resource.from_contents({"$schema": URIS["2020-12"], **address}),
            ),
            ("http://example.com/parts", Resource.from_contents(parts)),
        ]
    )
    schema = {"type": "array", "items": {"$ref": "http://example.com/address"}}
    assert_texts(
        schema,
        ['[{"zip": "12"}]', "[]"],
        ['[{"zip": "a"}]', "[{}]"],
        registry=registry,
        judged=False,
    )
    with pytest.raises(InvalidSchemaError, match="cannot be resolved"):
        JsonSchemaStateMachine(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
        {"allOf": [{"$ref": "#"}]},
        {"anyOf": [{"type": "null"}, {"$ref": "#"}]},
        {"not": {"$ref": "#"}},
        {"if": {"$ref": "#"}, "then": {"type": "null"}},
        {
            "properties": {"a": {"$ref": "#/$defs/x"}},
            "$defs": {"x": {"oneOf": [{"$ref": "#/$defs/x"}]}},
        },
    ],
)
def test_reference_cycle_without_array_or_object_is_refused(schema: Any) -> None:
    with pytest.raises(InvalidSchemaError) as caught:
        JsonSchemaStateMachine(schema)
    assert caught.value.keyword == "$ref"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": {"$ref": "#"}, "minItems": 1},
        {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]},
        {
            "$ref": "#/$defs/a",
            "$defs": {
                "a": {"type": "array", "prefixItems": [{"$ref": "#/$defs/b"}], "minItems": 1},
                "b": {
                    "type": "object",
                    "properties": {"a": {"$ref": "#/$defs/a"}},
                    "required": ["a"],
                },
            },
        },
    ],
)
def test_infinite_recursion_is_unsatisfiable(schema: Any) -> None:
    with pytest.raises(UnsatisfiableSchemaError):
        JsonSchemaStateMachine(schema)


def test_infinitely_recursive_alternative_is_left_out() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/bottomless"}, "b": {"type": "null"}},
        "$defs": {
            "bottomless": {"type": "array", "items": {"$ref": "#/$defs/bottomless"}, "minItems": 1}
        },
        "additionalProperties": False,
    }
    assert_texts(schema, ["{}", '{"b": null}'], ['{"a": []}', '{"a": [[]]}', '{"a": null}'])
    assert JsonSchemaStateMachine(schema).start.compute_word_derivative(
        b'{"'
    ).first_bytes == 1 << ord("b")


def test_recursive_alternatives_of_one_of_are_decided() -> None:
    """Deciding whether the alternatives overlap requires the members, which have the same schema."""
    node = {"$ref": "#/$defs/node"}
    schema = {
        "$ref": "#/$defs/node",
        "$defs": {
            "node": {
                "oneOf": [
                    {"type": "null"},
                    {
                        "type": "object",
                        "properties": {"x": node},
                        "required": ["x"],
                        "additionalProperties": False,
                    },
                    {
                        "type": "object",
                        "properties": {"x": node, "y": node},
                        "required": ["x", "y"],
                        "additionalProperties": False,
                    },
                ]
            }
        },
    }
    assert_texts(
        schema,
        ["null", '{"x": null}', '{"x": {"x": null}, "y": null}'],
        ["{}", '{"y": null}', '{"x": 1}', '{"x": {}}'],
    )


def test_property_names_may_refer_to_the_enclosing_schema() -> None:
    """Names are strings, so keywords for objects do not apply to them."""
    schema: Any = {"propertyNames": {"$ref": "#"}, "maxLength": 2}
    assert_texts(schema, ['{"ab": 1}', '"ab"', "{}"], ['{"abc": 1}', '"abc"'])
    schema = {"anyOf": [{"type": "object", "propertyNames": {"$ref": "#"}}, {"const": "a"}]}
    assert_texts(schema, ['"a"', "{}", '{"a": 1}'], ['"b"', '{"b": 1}'])
    # The schema admits no string, so every name violates propertyNames.
    schema = {"not": {"propertyNames": {"$ref": "#"}}, "type": ["object", "string"]}
    assert_texts(schema, ['{"a": 1}', '{"b": 1}'], ["{}", '"a"'])
    schema = {
        "propertyNames": {"$ref": "#"},
        "oneOf": [
            {"type": "object"},
            {"pattern": "^a", "propertyNames": {"$ref": "#/oneOf/1"}},
        ],
    }
    assert_texts(schema, ['"a"'], ['"b"', "{}", '{"a": 1}', '{"b": 1}'])


def test_cyclic_or_malformed_property_names_are_refused() -> None:
    loop = {"propertyNames": {"$ref": "#/$defs/a"}, "$defs": {"a": {"not": {"$ref": "#/$defs/a"}}}}
    with pytest.raises(InvalidSchemaError, match="refers to itself"):
        JsonSchemaStateMachine(loop)
    with pytest.raises(InvalidSchemaError) as caught:
        JsonSchemaStateMachine({"items": {"propertyNames": {"anyOf": [{"minimum": "1"}]}}})
    assert caught.value.pointer == "/items/propertyNames/anyOf/0/minimum"


def test_deeply_nested_references_are_resolved() -> None:
    machine = JsonSchemaStateMachine(TREE)
    text = '{"v": 1}'
    for _ in range(200):
        text = f'{{"v": 1, "kids": [{text}]}}'
    assert machine.matches(text)
    assert not machine.matches(text[:-1])


def count_checkpoints(schema: Any) -> int:
    """Compile a schema and return the number of checkpoints."""
    checks = 0

    def count() -> None:
        nonlocal checks
        checks += 1

    with step_budget(checkpoint=count):
        JsonSchemaStateMachine(schema)
    return checks


@pytest.mark.parametrize("name", ["$anchor", "$id"])
def test_document_is_indexed_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    searches = 0
    crawl = Registry.crawl

    def counted(registry: Registry[Any]) -> Registry[Any]:
        nonlocal searches
        searches += 1
        return crawl(registry)

    monkeypatch.setattr(Registry, "crawl", counted)
    named = {f"d{n}": {name: f"n{n}", "minLength": n} for n in range(100)}
    prefix = "#" if name == "$anchor" else ""
    references = [{"$ref": f"{prefix}n{n}"} for n in range(100)]
    machine = JsonSchemaStateMachine({"$defs": named, "allOf": references, "type": "string"})
    assert machine.start.min_length == 99 + 2
    assert searches == 1


@pytest.mark.parametrize("keyword", ["unevaluatedProperties", "unevaluatedItems"])
def test_evaluated_members_of_shared_definitions_are_collected_once(keyword: str) -> None:
    def schema(levels: int) -> Any:
        names = {
            f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2, "prefixItems": [{}]}
            for n in range(levels)
        }
        last = {"properties": {"a": {}}}
        return {"$defs": {**names, f"d{levels}": last}, "$ref": "#/$defs/d0", keyword: False}

    assert count_checkpoints(schema(40)) <= 4 * count_checkpoints(schema(20)) + 4
    machine = JsonSchemaStateMachine({**schema(40), "type": "object"})
    assert machine.matches('{"a": 1}')
    assert machine.matches('{"b": 1}') == (keyword == "unevaluatedItems")
