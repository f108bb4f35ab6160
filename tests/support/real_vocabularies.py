"""Masks over whole vocabularies of real tokenizers."""

from __future__ import annotations

from random import Random
from typing import Any

from judging import Judge
from object_schemas import closed_object
from small_vocabulary import an_ending, walk_masks

from state_machines import JsonSchemaStateMachine, Vocabulary

__all__ = ["SCHEMAS", "assert_masks_on_a_walk"]

SCHEMAS: dict[str, Any] = {
    "anything": {},
    "person": closed_object(
        ["name", "age"],
        name={"type": "string", "minLength": 1, "maxLength": 12},
        age={"type": "integer", "minimum": 0, "maximum": 130},
        mail={"type": "string", "pattern": "^[a-z.]+@[a-z]+\\.(com|org)$"},
        role={"enum": ["admin", "user", "gäst", None]},
    ),
    "tree": {
        "$ref": "#/$defs/node",
        "$defs": {
            "node": {
                "type": "object",
                "properties": {
                    "label": {"type": "string"},
                    "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
                },
                "required": ["label"],
            }
        },
    },
    "negations": {
        "type": "array",
        "items": {
            "type": ["string", "number"],
            "oneOf": [{"type": "string"}, {"minLength": 3}, {"type": "integer"}],
        },
        "contains": {"type": "string", "not": {"pattern": "a"}},
        "minItems": 1,
    },
    "few names": {
        "type": "object",
        "additionalProperties": {"type": "number"},
        "propertyNames": {"pattern": "^(alpha|beta|[0-9]{1,2})$"},
        "minProperties": 2,
    },
}


def assert_masks_on_a_walk(vocabulary: Vocabulary, schema: Any) -> None:
    """Assert that every mask of a random walk is exact and that the schema admits the final text."""
    random = Random(0)
    machine = JsonSchemaStateMachine(schema)
    matcher = machine.matcher(vocabulary)
    # Structure is rare among the tokens.
    structure = set(b'{}[]",: 0123456789')
    text = walk_masks(
        matcher, vocabulary, random, 6, preferred=lambda form: set(form) <= structure, share=0.5
    )
    ending = an_ending(matcher.state)
    assert ending is None or Judge(schema).admits_text(text + ending)
