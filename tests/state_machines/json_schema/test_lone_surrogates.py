"""Strings and names with a lone surrogate are never generated: UTF-8 cannot encode them."""

from __future__ import annotations

from typing import Any

import pytest
from schema_checks import assert_texts

from state_machines import (
    JsonSchemaStateMachine,
    SchemaError,
    UnsatisfiableSchemaError,
)

LONE = "\ud800"


@pytest.mark.parametrize(
    ("schema", "admitted", "refused"),
    [
        ({"enum": [LONE, "a"]}, ['"a"'], ['""']),
        ({"enum": [{LONE: 1}, {"a": 1}]}, ['{"a": 1}'], ["{}"]),
        ({"enum": [[LONE], [1]]}, ["[1]"], ["[]"]),
        ({"not": {"const": LONE}}, ['"a"', "1"], []),
        ({"type": "object", "properties": {LONE: {}}}, ["{}", '{"a": 1}'], []),
        (
            {"type": "object", "properties": {LONE: {}, "a": {}}, "additionalProperties": False},
            ["{}", '{"a": 1}'],
            ['{"b": 1}'],
        ),
        ({"type": "object", "dependentRequired": {LONE: ["a"]}}, ["{}", '{"b": 1}'], []),
        ({"type": "object", "dependentRequired": {"a": [LONE]}}, ["{}", '{"b": 1}'], ['{"a": 1}']),
        (
            {
                "type": "object",
                "dependentRequired": {"a": [LONE], LONE: ["b"], "c": ["b"], "d": ["b"]},
            },
            ["{}", '{"b": 1}', '{"c": 1, "b": 1}'],
            ['{"a": 1}', '{"c": 1}'],
        ),
        ({"type": "object", "dependentSchemas": {LONE: False}}, ["{}", '{"b": 1}'], []),
        ({"type": "object", "patternProperties": {LONE: False}}, ["{}", '{"b": 1}'], []),
        ({"type": ["object", "null"], "required": [LONE]}, ["null"], ["{}"]),
        ({"anyOf": [{"required": ["a"]}, {"required": [LONE]}]}, ['{"a": 1}', "1"], ["{}"]),
        ({"not": {"required": [LONE]}, "type": "object"}, ["{}", '{"a": 1}'], []),
        (
            {"type": "object", "properties": {LONE: {}}, "unevaluatedProperties": False},
            ["{}"],
            ['{"a": 1}'],
        ),
        ({"default": LONE, "description": LONE, "examples": [LONE]}, ["1"], []),
        ({"const": "\ud83d\ude00"}, ['"😀"'], ['"a"']),
    ],
)
def test_lone_surrogates_are_never_generated(
    schema: Any, admitted: list[str], refused: list[str]
) -> None:
    assert_texts(schema, admitted, refused, judged=False)


@pytest.mark.parametrize(
    "schema",
    [
        {"const": LONE},
        {"enum": [LONE, [LONE], {LONE: 1}]},
        {"type": "object", "required": [LONE]},
        {"type": "object", "properties": {"a": {"const": LONE}}, "required": ["a"]},
        {"type": "string", "pattern": LONE},
        {"type": "object", "propertyNames": {"const": LONE}, "minProperties": 1},
    ],
)
def test_schema_that_admits_only_lone_surrogates_is_unsatisfiable(schema: Any) -> None:
    with pytest.raises(UnsatisfiableSchemaError):
        JsonSchemaStateMachine(schema)


@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef", "$schema"])
def test_reference_with_a_lone_surrogate_cannot_be_resolved(keyword: str) -> None:
    with pytest.raises(SchemaError) as caught:
        JsonSchemaStateMachine({keyword: f"#{LONE}"})
    assert caught.value.pointer == f"/{keyword}"
