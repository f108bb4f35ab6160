"""Memory: the schemas and texts that are met are different, and the curve says so."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import pytest
from judging import Judge
from long_lived import LONG_LIVED, LongLived
from mutations import different_lines

from state_machines import JsonSchemaStateMachine

SCHEMAS: list[Any] = [
    {"type": "object", "properties": {"a": {"type": "object", "properties": {}}}},
    {"$ref": "#/$defs/x", "$defs": {"x": {"properties": {"b": True}}}},
    {"type": "string"},
    # A property of this name is no list of properties.
    {"properties": {"properties": {"type": "integer"}}},
]
LINES = [
    json.dumps({"name": str(number), "schema": schema, "tests": []})
    for number, schema in enumerate(SCHEMAS)
]


def test_all_schemas_are_different() -> None:
    found = [json.loads(line) for line in different_lines(LINES, 40, seed=1)]
    assert len(found) == 40
    assert len({json.dumps(record["schema"]) for record in found}) == 40
    assert len({record["name"] for record in found}) == 40
    assert sorted(record["name"] for record in found[:4]) == ["0", "1", "2", "3"]
    assert found == [json.loads(line) for line in different_lines(LINES, 40, seed=1)]


@pytest.mark.parametrize("machine", LONG_LIVED, ids=lambda machine: machine.name)
def test_texts_of_long_lived_machines_are_valid_and_different(machine: LongLived) -> None:
    texts = list(itertools.islice(machine.instances(random.Random(0)), 30))
    assert len({json.dumps(text) for text in texts}) == 30
    compiled, judge = JsonSchemaStateMachine(machine.schema), Judge(machine.schema)
    for text in texts:
        assert judge.admits_text(json.dumps(text).encode())
        assert compiled.matches(json.dumps(text, ensure_ascii=False))
