"""Schemas that once went wrong, found by the fuzzer; each is a case of a law tested elsewhere."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from small_vocabulary import small_vocabulary

from state_machines import JsonSchemaStateMachine, UnsupportedSchemaError

VOCABULARY = small_vocabulary()


def closed_by(names: list[str]) -> Any:
    """Return a schema of objects in which each of the names is required and a number."""
    properties = {name: {"type": "number"} for name in names}
    return {"type": "object", "properties": properties, "required": names}


def test_what_multiplies_out_too_far_is_refused_before_a_text_is_begun() -> None:
    """The item that must fail was first looked at when an array was being written."""
    either = {
        "oneOf": [
            closed_by([f"a{index}" for index in range(20)]),
            closed_by([f"b{index}" for index in range(20)]),
        ]
    }
    schema = {"properties": {"x": {"not": {"type": "array", "items": either}}}, "required": ["x"]}
    try:
        machine = JsonSchemaStateMachine(schema, property_order="any")
    except UnsupportedSchemaError as error:
        assert error.pointer.startswith("/properties/x")
        return
    for seed in range(20):
        random, matcher = Random(seed), machine.matcher(VOCABULARY)
        for byte in b'{"x":[':
            matcher.advance(byte)
        for _ in range(10):
            allowed = np.flatnonzero(matcher.allowed_tokens()).tolist()
            assert allowed
            plain = [i for i in allowed if i not in VOCABULARY.end_token_ids]
            if not plain:
                break
            matcher.advance(random.choice(plain))


@pytest.mark.parametrize("instance", ['{"x": [1]}', '{"x": 1}'])
def test_an_array_with_an_item_that_fails_is_admitted(instance: str) -> None:
    """The same, small enough not to be refused."""
    either = {"oneOf": [closed_by(["a", "b"]), closed_by(["c", "d"])]}
    schema = {"properties": {"x": {"not": {"type": "array", "items": either}}}, "required": ["x"]}
    machine = JsonSchemaStateMachine(schema, property_order="any")
    assert machine.matches(instance)
    assert not machine.matches('{"x": []}')
    assert not machine.matches('{"x": [{"a": 1, "b": 2}]}')
    assert machine.matches('{"x": [{"a": 1, "b": 2, "c": 3, "d": 4}]}')


@pytest.mark.parametrize("keyword", ["dependentSchemas", "dependencies"])
def test_what_depends_on_a_property_leaves_other_types_alone(keyword: str) -> None:
    drafts = {"dependencies": {"$schema": "http://json-schema.org/draft-07/schema#"}}
    machine = JsonSchemaStateMachine({**drafts.get(keyword, {}), keyword: {"a": False}})
    for text in ('"a"', "1", "[]", "{}", '{"b": 1}'):
        assert machine.matches(text)
    assert not machine.matches('{"a": 1}')


def test_more_than_a_great_length_is_a_length() -> None:
    machine = JsonSchemaStateMachine({"type": "string", "not": {"maxLength": 65536}})
    assert machine.matches('"' + 65537 * "a" + '"')
    assert not machine.matches('"' + 65536 * "a" + '"')
    short = {"type": "string", "not": {"minLength": 3, "maxLength": 100_000}}
    assert JsonSchemaStateMachine(short).matches('"ab"')
    assert not JsonSchemaStateMachine(short).matches('"abc"')
